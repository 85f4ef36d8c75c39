// The state of the page, which is the query string of its URL. All changes go through `navigate`.
//
// `like` is the id of a document that others are to be similar to; the API calls it `id` in /similar, `of` in /explain.
// `prefer` is a language, "any", or empty for that of the browser; `group` is "none", or empty for one hit per concept;
// `where` has the values of fields that are filtered by, as JSON.

import { emit } from "./events.js";
import { hasWord } from "./tokeniser.js";

export const MAX_PAGE = 100; // hits of one request, which is also all that there are of similar documents
// How many hits are shown, each time more are requested.
export const HIT_COUNTS = [10, 20, 50, MAX_PAGE, 200, 300, 400, 500, 600, 700, 800, 900, 1000];
// Short enough for one line of options on a phone.
export const MODES = { hybrid: "Best match", dense: "By meaning", lexical: "By words" };
export const MEASURES = { csls: "By CSLS", cosine: "By cosine" };
export const INITIAL_STATE = {
  q: "", like: "", lang: "", in: "", prefer: "", k: HIT_COUNTS[0], mode: "", measure: "", group: "", where: "", doc: "",
  map: "",
};

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
  if (parsed.like || !queryOf(parsed.q)) parsed.q = "";
  const most = parsed.like ? MAX_PAGE : HIT_COUNTS.at(-1);
  parsed.k = Math.min(most, Math.max(1, Math.trunc(Number(parsed.k)) || HIT_COUNTS[0]));
  if (!Object.hasOwn(MEASURES, parsed.measure)) parsed.measure = "";
  if (!Object.hasOwn(MODES, parsed.mode)) parsed.mode = "";
  if (parsed.group !== "none") parsed.group = "";
  parsed.where = whereText(parseWhere(parsed.where));
  return parsed;
}

/** The conditions of a filter, name of a field -> value; none if the text is not a JSON object. */
export function parseWhere(text) {
  try {
    const parsed = JSON.parse(text);
    return parsed && typeof parsed === "object" && !Array.isArray(parsed) ? parsed : {};
  } catch {
    return {};
  }
}

/** The same as text; empty without any. */
export function whereText(conditions) {
  return Object.keys(conditions).length ? JSON.stringify(conditions) : "";
}

/** The relative URL of a state. */
export function urlOf(target) {
  const changed = Object.entries(target).filter(([name, value]) => value !== INITIAL_STATE[name]);
  return changed.length ? `?${new URLSearchParams(changed)}` : "./";
}

/** Identifies a search: while it stays the same, the results stay. */
export const searchKey = ({ q, like, lang, in: langs, prefer, k, mode, measure, group, where }) =>
  JSON.stringify([queryOf(q), like, lang, langs, prefer, k, mode, measure, group, where]);

export const hasNoQuery = () => !queryOf(state.q) && !state.like;
export const selectedLanguages = () => state.in.split(",").filter(Boolean);
export const similarState = (id) => ({
  ...state, q: "", like: id, lang: "", doc: "", mode: "", group: "", where: "", k: HIT_COUNTS[0],
});

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
