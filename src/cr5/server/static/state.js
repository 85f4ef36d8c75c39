// The state, which is the address: what is asked, how, and what is open. All changes go through `go`.

import { tell } from "./news.js";

export const STEPS = [10, 20, 50, 100]; // how many hits, each time more are wanted
export const MEASURES = { csls: "By CSLS", cosine: "By cosine" };
export const START = { q: "", like: "", lang: "", in: "", k: STEPS[0], measure: "", doc: "", map: "" };

export let state = read(location.search);
export let unsaid = null; // what has been typed, until it is asked

/** What a text asks: nothing, unless it has a letter or a digit. */
export function spoken(text) {
  return /[\p{L}\p{N}]/u.test(text) ? text.trim() : "";
}

export function read(search) {
  const given = new URLSearchParams(search);
  const found = { ...START };
  for (const name of Object.keys(START)) found[name] = given.get(name) ?? START[name];
  found.k = Math.min(STEPS.at(-1), Math.max(1, Math.trunc(Number(found.k)) || STEPS[0]));
  if (!(found.measure in MEASURES)) found.measure = "";
  if (found.like || !spoken(found.q)) found.q = "";
  return found;
}

export function write(what) {
  const told = Object.entries(what).filter(([name, value]) => value !== START[name]);
  return told.length ? `?${new URLSearchParams(told)}` : "./";
}

/** What a search depends on: while it stays the same, the results stay. */
export const asked = ({ q, like, lang, in: langs, k, measure }) => JSON.stringify([spoken(q), like, lang, langs, k, measure]);

export const asksNothing = () => !spoken(state.q) && !state.like;
export const chosen = () => state.in.split(",").filter(Boolean);
export const likeState = (id) => ({ ...state, q: "", like: id, lang: "", doc: "", k: STEPS[0] });

/** Remember what is being typed, or, with null, that there is nothing more to ask. */
export function note(text) {
  unsaid = text;
}

/** Go to another state. What is typed in one go is one step back, and so are documents opened one after the other. */
export function go(changes, { typing = false } = {}) {
  const typed = unsaid !== null && !("q" in changes) && spoken(unsaid) ? { q: unsaid, like: "" } : {};
  unsaid = null;
  const next = { ...state, ...typed, ...changes };
  const opening = next.doc !== "" && next.doc !== state.doc;
  const opened = opening && (state.doc === "" || history.state?.opened === true);
  const same = write(next) === write(state);
  const instead = same || (typing && history.state?.typing) || (opened && state.doc !== "");
  history[instead ? "replaceState" : "pushState"](same ? history.state : { typing, opened }, "", write(next));
  state = next;
  tell("state");
}

addEventListener("popstate", () => {
  unsaid = null;
  state = read(location.search);
  tell("travel");
  tell("state");
});
