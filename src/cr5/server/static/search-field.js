// The search field. A copy of its text lies under it and carries the highlights of the query's words.

import { byId } from "./elements.js";
import { queryWeights } from "./explanations.js";
import { highlighted } from "./highlights.js";
import { pointerReleased } from "./pointer.js";
import { hasNoResult, result, search } from "./search.js";
import { HIT_COUNTS, INITIAL_STATE, navigate, pendingText, queryOf, setPendingText, state } from "./state.js";

const TYPING_PAUSE = 220; // milliseconds without a key before what was typed is searched for

export const field = byId("q");
let timer = 0; // runs while waiting for a pause
let composing = false; // whether an input method is active

/** Show the current query, but never overwrite what is being typed. */
export function showField() {
  if (pendingText === null && !composing && queryOf(field.value) !== queryOf(state.q)) field.value = state.q;
  highlightQuery();
}

export function highlightQuery() {
  byId("clear").hidden = field.value === "";
  const current = result && queryOf(field.value) === queryOf(state.q);
  // The zero-width space gives an empty last line its height.
  const highlights = highlighted(field.value, current ? queryWeights() : null);
  byId("query-highlights").replaceChildren(highlights, "\u200b");
}

/** Search for what was typed; with `typing`, more may follow. */
export function submit(typing = false) {
  clearTimeout(timer);
  if (typing && pendingText === null) return; // it was searched for together with another change
  setPendingText(null);
  const q = queryOf(field.value);
  if (q === queryOf(state.q)) {
    if (!typing && hasNoResult()) search();
  } else if (q === "") navigate({ ...INITIAL_STATE, in: state.in, measure: state.measure, map: state.map }, { typing });
  else navigate({ q: typing ? field.value : q, like: "", doc: "", k: HIT_COUNTS[0] }, { typing: true });
  if (!typing) history.replaceState({ ...history.state, typing: false }, ""); // Enter completes what was typed
}

function submitAfterPause() {
  clearTimeout(timer);
  const text = field.value;
  setPendingText(text);
  timer = setTimeout(async () => {
    await pointerReleased();
    if (text === field.value) submit(true);
  }, TYPING_PAUSE);
}

field.addEventListener("input", (event) => {
  highlightQuery();
  clearTimeout(timer);
  if (!event.isComposing) submitAfterPause();
});
field.addEventListener("compositionstart", () => (composing = true));
field.addEventListener("compositionend", () => {
  composing = false;
  submitAfterPause();
});
byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
byId("clear").addEventListener("click", () => {
  field.value = "";
  submit();
  highlightQuery();
  field.focus();
});
