// Explanations: which words made a hit similar to what was asked, and how texts show it.

import { at, make } from "./elements.js";
import { tell } from "./news.js";
import { answer, pending } from "./search.js";
import { address, ask } from "./server.js";
import { spoken, state } from "./state.js";
import { signed } from "./wording.js";

const UNSPACED = new Set(["zh", "ja", "th", "lo", "km", "my", "yue", "wuu"]); // written without spaces between words
const WORD = /[\p{L}\p{M}\p{N}\u00ad\u200c\u200d]+/gu;
const FAINT = 0.12; // words below this share of the strongest are not marked
const ABREAST = 3; // explanations that are asked for at a time

let explanations = new Map(); // id -> explanation, for the answer that is shown
let queue = [];
let running = 0;
let explaining = new AbortController();
let lit = null; // the hit under the pointer or the focus: its words are those that the query shows

export const explanationOf = (id) => explanations.get(id);

/** Another search begins. */
export function forget() {
  explaining.abort();
  explaining = new AbortController();
  explanations = new Map();
  queue = [];
  lit = null;
}

/** Explain hits once they are seen. */
export const sight = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    sight.unobserve(target);
    if (!pending) queue.push(target.dataset.id); // else it is of an answer that is about to go
  }
  work();
});

async function work() {
  while (queue.length && running < ABREAST) {
    const id = queue.shift();
    running += 1;
    explain(id).finally(() => {
      running -= 1;
      work();
    });
  }
}

/** Why a document was found. */
export async function explain(id) {
  const { signal } = explaining;
  const base = state.like ? { of: state.like } : { q: spoken(state.q), lang: answer?.lang };
  try {
    const why = await ask(address("explain", { ...base, id }), signal);
    if (signal.aborted) return null;
    explanations.set(id, { snippet: why.snippet, query: weigh(why.query_words, why.pairs, 0), document: weigh(why.document_words, why.pairs, 1), pairs: strongest(why.pairs) });
    tell("explained", id);
    return explanations.get(id);
  } catch (error) {
    // Marks are a help, not the answer: without them the results stand as they are. A busy server is asked again later.
    if (error.status === 429 && !signal.aborted) {
      setTimeout(() => {
        if (signal.aborted) return;
        queue.push(id);
        work();
      }, 1000 * Math.max(2, error.wait));
    }
    return null;
  }
}

const strongest = (pairs) => pairs.filter(([, , value]) => value > 0 && value >= FAINT * pairs[0][2]);
const plain = (word) => word.normalize("NFKC").replaceAll("\u00ad", "").toLowerCase();

/** word -> how strongly it is marked (1 to 3), its value and what to tell about it; ``side`` of the pairs it stands on. */
function weigh(words, pairs, side) {
  const top = Math.max(0, ...words.map(([, value]) => value));
  const weights = new Map();
  for (const [word, value] of words) {
    if (value <= 0 || value < FAINT * top) continue;
    weights.set(word, { value, strength: value >= 0.6 * top ? 3 : value >= 0.3 * top ? 2 : 1, tip: `${word} ${signed(value)}` });
  }
  const told = new Map();
  for (const pair of strongest(pairs)) {
    const word = pair[side];
    told.set(word, [...(told.get(word) ?? []), `${pair[0]} ~ ${pair[1]} ${signed(pair[2])}`]);
    if (!weights.has(word)) weights.set(word, { value: pair[2], strength: 1, tip: "" });
  }
  for (const [word, lines] of told) weights.get(word).tip = lines.slice(0, 3).join("\n");
  return weights;
}

function* wordsOf(text, lang) {
  if (UNSPACED.has((lang ?? "").split(/[-_]/)[0].toLowerCase()) && Intl.Segmenter) {
    for (const { segment, index, isWordLike } of new Intl.Segmenter("und", { granularity: "word" }).segment(text)) {
      if (isWordLike) yield [index, segment];
    }
  } else {
    for (const match of text.matchAll(WORD)) yield [match.index, match[0]];
  }
}

/** The text with its words marked by their weights. */
export function marked(text, lang, weights) {
  const parts = new DocumentFragment();
  let end = 0;
  if (weights?.size) {
    for (const [start, word] of wordsOf(text, lang)) {
      const weight = weights.get(plain(word));
      if (!weight) continue;
      parts.append(text.slice(end, start), make("mark", { "data-strength": weight.strength, "data-tip": weight.tip }, word));
      end = start + word.length;
    }
  }
  parts.append(text.slice(end));
  return parts;
}

/** The pairs, those first that bring words not met before: three of them should tell more than one word does. */
export function varied(pairs) {
  const met = new Set();
  const first = pairs.filter(([a, b]) => {
    const fresh = !met.has(`0${a}`) && !met.has(`1${b}`);
    if (fresh) met.add(`0${a}`).add(`1${b}`);
    return fresh;
  });
  return [...first, ...pairs.filter((pair) => !first.includes(pair))];
}

export function couple([a, b, value]) {
  return make("span", { class: "pair", "data-tip": `${a} ~ ${b} ${signed(value)}` }, make("bdi", {}, a), make("i", {}, "~"), make("bdi", {}, b));
}
/** What the query's words did: for the hit that is lit, else the most that each did for any hit. */
export function queryWeights() {
  if (lit !== null && explanations.has(lit)) return explanations.get(lit).query;
  const weights = new Map();
  for (const { query } of explanations.values()) {
    for (const [word, weight] of query) if (weight.value > (weights.get(word)?.value ?? 0)) weights.set(word, weight);
  }
  return weights;
}

function light(id) {
  if (lit === id) return;
  lit = id;
  for (const element of document.querySelectorAll("[data-id]")) element.classList.toggle("lit", element.dataset.id === id);
  tell("lit");
}

for (const [begin, end] of [["pointerover", "pointerout"], ["focusin", "focusout"]]) {
  at("columns").addEventListener(begin, (event) => {
    const element = event.target.closest("[data-id]");
    if (element) light(element.dataset.id);
  });
  at("columns").addEventListener(end, (event) => {
    if (event.target.closest("[data-id]") && !event.relatedTarget?.closest?.("[data-id]")) light(null);
  });
}
