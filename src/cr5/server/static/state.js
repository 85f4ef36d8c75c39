// The state of the page, which is the query string of its URL. All changes go through `navigate`.
//
// `like` is the id of a document that others are to be similar to; the API calls it `id` in /similar, `of` in /explain.

import { emit } from "./events.js";
import { hasWord } from "./tokeniser.js";

export const HIT_COUNTS = [10, 20, 50, 100]; // how many hits are shown, each time more are requested
// Short enough for one line of options on a phone.
export const MEASURES = { csls: "By CSLS", cosine: "By cosine" };
export const INITIAL_STATE = { q: "", like: "", lang: "", in: "", k: HIT_COUNTS[0], measure: "", doc: "", map: "" };

export let state = parseState(location.search);
export let pendingText = null; // what has been typed and not yet searched for, or null

/** The query that a text stands for: empty unless it has a letter or a digit. */
export function queryOf(text) {
  return hasWord(text) ? text.trim() : "";
}

export function parseState(queryString) {
  const parameters = new URLSearchParams(queryString);
  const parsed = { ...INITIAL_STATE };
  for (const name of Object.keys(INITIAL_STATE)) parsed[name] = parameters.get(name) ?? INITIAL_STATE[name];
  parsed.k = Math.min(HIT_COUNTS.at(-1), Math.max(1, Math.trunc(Number(parsed.k)) || HIT_COUNTS[0]));
  if (!(parsed.measure in MEASURES)) parsed.measure = "";
  if (parsed.like || !queryOf(parsed.q)) parsed.q = "";
  return parsed;
}

/** The relative URL of a state. */
export function urlOf(target) {
  const changed = Object.entries(target).filter(([name, value]) => value !== INITIAL_STATE[name]);
  return changed.length ? `?${new URLSearchParams(changed)}` : "./";
}

/** Identifies a search: while it stays the same, the results stay. */
export const searchKey = ({ q, like, lang, in: langs, k, measure }) =>
  JSON.stringify([queryOf(q), like, lang, langs, k, measure]);

export const hasNoQuery = () => !queryOf(state.q) && !state.like;
export const selectedLanguages = () => state.in.split(",").filter(Boolean);
export const similarState = (id) => ({ ...state, q: "", like: id, lang: "", doc: "", k: HIT_COUNTS[0] });

/** Remember what is being typed or, with null, that there is nothing left to search for. */
export function setPendingText(text) {
  pendingText = text;
}

/** Change the state. Text typed without a pause is one entry of the history, and so are documents opened in a row. */
export function navigate(changes, { typing = false } = {}) {
  const typed = pendingText !== null && !("q" in changes) && queryOf(pendingText) ? { q: pendingText, like: "" } : {};
  pendingText = null;
  const next = { ...state, ...typed, ...changes };
  const opening = next.doc !== "" && next.doc !== state.doc;
  const opened = opening && (state.doc === "" || history.state?.opened === true);
  const same = urlOf(next) === urlOf(state);
  const replace = same || (typing && history.state?.typing) || (opened && state.doc !== "");
  history[replace ? "replaceState" : "pushState"](same ? history.state : { typing, opened }, "", urlOf(next));
  state = next;
  emit("state");
}

addEventListener("popstate", () => {
  pendingText = null;
  state = parseState(location.search);
  emit("history");
  emit("state");
});
