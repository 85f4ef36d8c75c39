// The search: one at a time, and only the newest is answered.

import { tell } from "./news.js";
import { Failure, address, ask } from "./server.js";
import { asked, asksNothing, spoken, state } from "./state.js";
import { still } from "./still.js";

const SOON = 140; // milliseconds within which an answer needs no sign of waiting

export let answer = null; // that is shown
export let pending = false; // whether another is on its way
let answered = ""; // what it answers
let current = new AbortController();

/** Whether what is shown answers what is asked. */
export const settled = () => asked(state) === answered;

/** Whether there is no answer, so that asking again makes sense. */
export const unanswered = () => answered === "";

/** What is shown counts no longer. */
export function unsettle() {
  answered = "";
}

/** Whether the language of the query is hardly known: no word of it is, and the letters do not tell. */
export const unsure = ({ known, guessed, confidence }) => known === 0 && guessed && confidence < 0.5;

export async function search() {
  current.abort();
  const mine = (current = new AbortController());
  answered = asked(state);
  pending = !asksNothing();
  tell("asking");
  if (!pending) {
    answer = null;
    tell("answer");
    tell("waiting", false); // for what was asked before
    return;
  }
  setTimeout(async () => {
    await still();
    if (pending && !mine.signal.aborted) tell("waiting", true);
  }, SOON);
  try {
    const options = { in: state.in, k: state.k, measure: state.measure };
    const path = state.like
      ? address("similar", { id: state.like, ...options })
      : address("search", { q: spoken(state.q), lang: state.lang, ...options });
    const found = await ask(path, mine.signal);
    if (mine.signal.aborted) return;
    [answer, pending] = [found, false];
    tell("answer");
  } catch (error) {
    if (mine.signal.aborted) return;
    [answer, pending] = [null, false];
    answered = "";
    tell("answer");
    if (!(error instanceof Failure)) throw error;
    tell("failure", error, search);
  } finally {
    if (!mine.signal.aborted) tell("waiting", false);
  }
}
