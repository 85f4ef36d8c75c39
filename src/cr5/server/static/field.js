// The field: what is typed, and under it the echo, which carries the marks of the query.

import { at } from "./elements.js";
import { marked, queryWeights } from "./explanations.js";
import { answer, search, unanswered } from "./search.js";
import { START, STEPS, go, note, spoken, state, unsaid } from "./state.js";
import { still } from "./still.js";

const PAUSE = 220; // milliseconds of rest before what was typed is asked

export const field = at("q");
let rest = 0; // the timer that waits for typing to pause
let composing = false; // whether an input method is at work

/** Show what is asked; but what is being typed is never taken away. */
export function showField() {
  if (unsaid === null && !composing && spoken(field.value) !== spoken(state.q)) field.value = state.q;
  echo();
}

export function echo() {
  at("clear").hidden = field.value === "";
  const settled = answer && spoken(field.value) === spoken(state.q);
  // The last line needs a letter to be as high as the others.
  at("echo").replaceChildren(marked(field.value, answer?.lang, settled ? queryWeights() : null), "\u200b");
}

/** Ask what was typed; ``typing`` while more may follow. */
export function submit(typing = false) {
  clearTimeout(rest);
  if (typing && unsaid === null) return; // it has been asked with something else
  note(null);
  const q = spoken(field.value);
  if (q === spoken(state.q)) {
    if (!typing && unanswered()) search();
  } else if (q === "") go({ ...START, in: state.in, measure: state.measure, map: state.map }, { typing });
  else go({ q: typing ? field.value : q, like: "", doc: "", k: STEPS[0] }, { typing: true }); // Enter ends what was typed
  if (!typing) history.replaceState({ ...history.state, typing: false }, "");
}

function askSoon() {
  clearTimeout(rest);
  const text = field.value;
  note(text);
  rest = setTimeout(async () => {
    await still();
    if (text === field.value) submit(true);
  }, PAUSE);
}

field.addEventListener("input", (event) => {
  echo();
  clearTimeout(rest);
  if (!event.isComposing) askSoon();
});
field.addEventListener("compositionstart", () => (composing = true));
field.addEventListener("compositionend", () => {
  composing = false;
  askSoon();
});
at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
at("clear").addEventListener("click", () => {
  field.value = "";
  submit();
  echo();
  field.focus();
});
