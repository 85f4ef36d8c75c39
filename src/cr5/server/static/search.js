// The search: one at a time, and only the response to the newest is used.

import { ApiError, fetchJson, info, withParameters } from "./api.js";
import { emit } from "./events.js";
import { pointerReleased } from "./pointer.js";
import { matchLanguage } from "./languages.js";
import { MAX_PAGE, hasNoQuery, queryOf, searchKey, state } from "./state.js";

const PROGRESS_DELAY = 140; // milliseconds; faster responses need no progress bar
const MIN_RELEVANCE = 0.3; // hits below are hardly related

export let result = null; // the response that is shown
export let loading = false; // whether another is on its way
let resultKey = ""; // the search that `result` belongs to
let controller = new AbortController();

/** Whether the results belong to the current state. */
export const isCurrent = () => searchKey(state) === resultKey;

/** Whether there is no result, so that searching again makes sense. */
export const hasNoResult = () => resultKey === "";

/** Make the next change of state search again. */
export function invalidate() {
  resultKey = "";
}

/** Whether the language of the query is unclear: no word of it is known, and the identifier is not confident. */
export const isLanguageUnclear = ({ known, guessed, confidence }) => known === 0 && guessed && confidence < 0.5;

/** Whether a hit is hardly related to the query; scores of vectors alone do not say so. */
export const isWeak = (hit) => result.mode !== "dense" && hit.score < MIN_RELEVANCE;

/** The score of a hit from 0 to 1; in dense mode divided by the best score if that is above 1. */
export function relevance(hit) {
  const whole = result.mode === "dense" ? Math.max(1, ...result.hits.map((other) => other.score)) : 1;
  return Math.min(1, Math.max(0, hit.score / whole)) || 0;
}

/** The language of which a version is shown first: the chosen one, or else the first of the browser's. */
export function preferredLanguage() {
  if (state.prefer === "any") return "";
  return state.prefer || matchLanguage(navigator.languages ?? [], info.languages);
}

/** The response for a state, with the hits of all pages that it takes. */
async function fetchHits({ like, q, lang, in: langs, k: wanted, mode, measure, group, where }, signal) {
  if (like) return fetchJson(withParameters("similar", { id: like, in: langs, k: wanted, measure }), signal);
  const options = { mode, measure, group: group === "none" ? "" : "concept", prefer: preferredLanguage(), where };
  let response = null;
  for (let offset = 0; offset < wanted; offset += MAX_PAGE) {
    const k = Math.min(MAX_PAGE, wanted - offset);
    const parameters = { q: queryOf(q), lang, in: langs, ...options, offset: offset || "", k };
    const page = await fetchJson(withParameters("search", parameters), signal);
    const shown = new Set(response?.hits.map((hit) => hit.id)); // the index may have changed meanwhile
    const added = page.hits.filter((hit) => !shown.has(hit.id));
    response = response ? { ...response, hits: [...response.hits, ...added] } : page;
    if (page.hits.length < k) break;
  }
  return response;
}

export async function search() {
  controller.abort();
  const thisController = (controller = new AbortController());
  resultKey = searchKey(state);
  loading = !hasNoQuery();
  emit("search");
  if (!loading) {
    result = null;
    emit("result");
    emit("loading", false); // of the search before
    return;
  }
  setTimeout(async () => {
    await pointerReleased();
    if (loading && !thisController.signal.aborted) emit("loading", true);
  }, PROGRESS_DELAY);
  try {
    const response = await fetchHits(state, thisController.signal);
    if (thisController.signal.aborted) return;
    [result, loading] = [response, false];
    emit("result");
  } catch (error) {
    if (thisController.signal.aborted) return;
    [result, loading] = [null, false];
    resultKey = "";
    emit("result");
    if (!(error instanceof ApiError)) throw error;
    emit("error", error, search);
  } finally {
    if (!thisController.signal.aborted) emit("loading", false);
  }
}
