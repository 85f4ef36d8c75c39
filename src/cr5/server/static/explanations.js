// Explanations of hits: which words made a hit similar to the query. They are fetched for the hits that are visible.

import { fetchJson, withParameters } from "./api.js";
import { byId } from "./elements.js";
import { emit } from "./events.js";
import { strongPairs, wordWeights } from "./highlights.js";
import { loading, result } from "./search.js";
import { queryOf, state } from "./state.js";
import { shownId } from "./versions.js";

const MAX_PARALLEL = 3; // requests at a time

let explanations = new Map(); // id -> explanation, for the current result
let queue = []; // ids of hits to explain
let running = 0;
let controller = new AbortController();
let activeId = null; // the hit under the pointer or the focus: the query shows the words that matched it

export const explanationOf = (id) => explanations.get(id);

/** Forget the explanations of the previous search. */
export function resetExplanations() {
  controller.abort();
  controller = new AbortController();
  explanations = new Map();
  queue = [];
  activeId = null;
}

/** Explains the hits that it observes, once they become visible. */
export const visibilityObserver = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    visibilityObserver.unobserve(target);
    if (!loading) queue.push(target.dataset.shown); // otherwise the hit is about to be replaced
  }
  processQueue();
});

function processQueue() {
  while (queue.length && running < MAX_PARALLEL) {
    const id = queue.shift();
    running += 1;
    explain(id).finally(() => {
      running -= 1;
      processQueue();
    });
  }
}

/** The explanation of a document: its passage, the weights of the words on both sides, and pairs of words. */
export async function explain(id) {
  const { signal } = controller;
  const query = state.like ? { of: state.like } : { q: queryOf(state.q), lang: result?.lang };
  try {
    const response = await fetchJson(withParameters("explain", { ...query, id }), signal);
    if (signal.aborted) return null;
    const { snippet, passage, query_words, document_words, pairs } = response;
    const explanation = {
      snippet,
      passage,
      query: wordWeights(query_words, pairs, 0),
      document: wordWeights(document_words, pairs, 1),
      pairs: strongPairs(pairs),
    };
    explanations.set(id, explanation);
    emit("explanation", id);
    return explanation;
  } catch (error) {
    // Results are useful without highlights, so errors are not shown. A server that is too busy is tried again later.
    if (error.status === 429 && !signal.aborted) {
      setTimeout(() => {
        if (signal.aborted) return;
        queue.push(id);
        processQueue();
      }, 1000 * Math.max(2, error.retryAfter));
    }
    return null;
  }
}

/** The weights of the query's words: for the active hit, or else the largest for any hit. */
export function queryWeights() {
  const active = explanations.get(activeId === null ? null : shownId(activeId));
  if (active) return active.query;
  const weights = new Map();
  for (const { query } of explanations.values()) {
    for (const [word, weight] of query) if (weight.value > (weights.get(word)?.value ?? 0)) weights.set(word, weight);
  }
  return weights;
}

function setActive(id) {
  if (activeId === id) return;
  activeId = id;
  for (const element of document.querySelectorAll("[data-id]")) {
    element.classList.toggle("active", element.dataset.id === id);
  }
  emit("active");
}

for (const [enter, leave] of [["pointerover", "pointerout"], ["focusin", "focusout"]]) {
  byId("columns").addEventListener(enter, (event) => {
    const element = event.target.closest("[data-id]");
    if (element) setActive(element.dataset.id);
  });
  byId("columns").addEventListener(leave, (event) => {
    if (event.target.closest("[data-id]") && !event.relatedTarget?.closest?.("[data-id]")) setActive(null);
  });
}
