// Highlights: the words of a text, marked by how much they contribute to the similarity.

import { make } from "./elements.js";
import { formatSigned } from "./format.js";
import { tokenise } from "./tokeniser.js";

const MIN_SHARE = 0.12; // words and pairs that contribute less, relative to the strongest, are not shown

/** The pairs [query word, document word, contribution] that are strong enough to be shown. */
export const strongPairs = (pairs) => pairs.filter(([, , value]) => value > 0 && value >= MIN_SHARE * pairs[0][2]);

/** word -> {value, strength (1 to 3), tip}, from [word, contribution]; `side` is where the words stand in the pairs. */
export function wordWeights(words, pairs, side) {
  const top = Math.max(0, ...words.map(([, value]) => value));
  const weights = new Map();
  for (const [word, value] of words) {
    if (value <= 0 || value < MIN_SHARE * top) continue;
    const strength = value >= 0.6 * top ? 3 : value >= 0.3 * top ? 2 : 1;
    weights.set(word, { value, strength, tip: `${word} ${formatSigned(value)}` });
  }
  const lines = new Map(); // word -> its pairs as text
  for (const pair of strongPairs(pairs)) {
    const word = pair[side];
    lines.set(word, [...(lines.get(word) ?? []), pairText(pair)]);
    if (!weights.has(word)) weights.set(word, { value: pair[2], strength: 1, tip: "" });
  }
  for (const [word, texts] of lines) weights.get(word).tip = texts.slice(0, 3).join("\n");
  return weights;
}

/** The weights with more words added: those that matched literally or in another form. */
export function withWords(weights, words = []) {
  const added = words.filter((word) => !weights?.has(word)).map((word) => [word, { value: 0, strength: 2 }]);
  return new Map([...(weights ?? []), ...added]);
}

/** The text with its words marked by their weights. */
export function highlighted(text, weights) {
  const fragment = new DocumentFragment();
  let end = 0; // of the last marked word
  if (weights?.size) {
    for (const [start, wordEnd, word] of tokenise(text)) {
      const weight = weights.get(word);
      if (!weight || start < end) continue; // one character such as ½ may stand for two words
      const attributes = { "data-strength": weight.strength, "data-tip": weight.tip };
      fragment.append(text.slice(end, start), make("mark", attributes, text.slice(start, wordEnd)));
      end = wordEnd;
    }
  }
  fragment.append(text.slice(end));
  return fragment;
}

/** The pairs in another order: first those of which neither word has appeared before, so that a few say more. */
export function diversified(pairs) {
  const seen = new Set();
  const first = pairs.filter(([a, b]) => {
    const fresh = !seen.has(`0${a}`) && !seen.has(`1${b}`);
    if (fresh) seen.add(`0${a}`).add(`1${b}`);
    return fresh;
  });
  return [...first, ...pairs.filter((pair) => !first.includes(pair))];
}

export function wordPair(pair) {
  const [a, b] = pair;
  const words = [make("bdi", {}, a), make("i", {}, "~"), make("bdi", {}, b)];
  return make("span", { class: "word-pair", "data-tip": pairText(pair) }, ...words);
}

const pairText = ([a, b, value]) => `${a} ~ ${b} ${formatSigned(value)}`;
