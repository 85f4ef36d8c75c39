// Text -> words, in the same way as the model splits it: normalise, segment, split, lower-case.
//
// token-rules.js, which the server generates from the model's own rule, has UNSPACED_RUN: a run of characters of scripts
// without spaces between words; WORD: one word; CLUSTER: a character with those after it that NFKC may merge with it.

import { CLUSTER, SOFT_HYPHEN, UNSPACED_RUN, WORD } from "./token-rules.js";

const LETTER_OR_DIGIT = /[\p{L}\p{N}]/u;

/** Whether a text has a word: a letter or a digit. */
export const hasWord = (text) => LETTER_OR_DIGIT.test(text);

/** The words of a text as [start, end, word]: `word` as the model knows it, written as `text.slice(start, end)`. */
export function* tokenise(text) {
  const { normalised, startOf, endOf } = normalise(text);
  for (const [offset, segment] of segments(normalised)) {
    for (const match of segment.matchAll(WORD)) {
      if (!hasWord(match[0])) continue; // only marks or joiners
      const start = offset + match.index;
      yield [startOf(start), endOf(start + match[0].length - 1), lowerCase(match[0])];
    }
  }
}

/** NFKC without soft hyphens, and where each of its UTF-16 code units comes from in the text. */
function normalise(text) {
  const whole = simplify(text);
  if (whole === text) return { normalised: text, startOf: (i) => i, endOf: (i) => i + 1 };
  const [parts, starts, ends] = [[], [], []];
  for (const { 0: cluster, index } of text.matchAll(CLUSTER)) {
    const part = simplify(cluster);
    parts.push(part);
    for (let i = 0; i < part.length; i += 1) {
      starts.push(part === cluster ? index + i : index);
      ends.push(part === cluster ? index + i + 1 : index + cluster.length);
    }
  }
  return { normalised: parts.join(""), startOf: (i) => starts[i], endOf: (i) => ends[i] };
}

const simplify = (text) => text.normalize("NFKC").replaceAll(SOFT_HYPHEN, "");

const segmenter = Intl.Segmenter && new Intl.Segmenter("en", { granularity: "word" });

/** The text as [offset, segment]; scripts without spaces are segmented into words by the browser's dictionaries. */
function* segments(text) {
  let end = 0; // of the last run
  for (const { 0: run, index } of segmenter ? text.matchAll(UNSPACED_RUN) : []) {
    yield [end, text.slice(end, index)];
    for (const word of segmenter.segment(run)) yield [index + word.index, word.segment];
    end = index + run.length;
  }
  yield [end, text.slice(end)];
}

/** Lower case character by character, without the rules for special contexts such as the final sigma. */
function lowerCase(word) {
  const characters = Array.from(word, (character) => String.fromCodePoint(character.toLowerCase().codePointAt(0)));
  return characters.join("");
}
