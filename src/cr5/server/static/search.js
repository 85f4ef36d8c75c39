// The search: one at a time, and only the response to the newest is used.

import { ApiError, fetchJson, withParameters } from "./api.js";
import { emit } from "./events.js";
import { pointerReleased } from "./pointer.js";
import { hasNoQuery, queryOf, searchKey, state } from "./state.js";

const PROGRESS_DELAY = 140; // milliseconds; faster responses need no progress bar

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

export async function search() {
  controller.abort();
  const mine = (controller = new AbortController());
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
    if (loading && !mine.signal.aborted) emit("loading", true);
  }, PROGRESS_DELAY);
  try {
    const options = { in: state.in, k: state.k, measure: state.measure };
    const path = state.like
      ? withParameters("similar", { id: state.like, ...options })
      : withParameters("search", { q: queryOf(state.q), lang: state.lang, ...options });
    const response = await fetchJson(path, mine.signal);
    if (mine.signal.aborted) return;
    [result, loading] = [response, false];
    emit("result");
  } catch (error) {
    if (mine.signal.aborted) return;
    [result, loading] = [null, false];
    resultKey = "";
    emit("result");
    if (!(error instanceof ApiError)) throw error;
    emit("error", error, search);
  } finally {
    if (!mine.signal.aborted) emit("loading", false);
  }
}
