// The document panel: a document next to the query that found it.

import { ApiError, TIMEOUT, fetchJson } from "./api.js";
import { byId, make, makeButton, makeSkeleton, makeSvg, webUrl, wideScreen } from "./elements.js";
import { explain, explanationOf } from "./explanations.js";
import { titleOf } from "./format.js";
import { diversified, highlighted, withWords, wordPair } from "./highlights.js";
import { languageLabel, languageName } from "./languages.js";
import { fillParagraph, matchedPassage, paragraphsOf, scrollToPassage } from "./passages.js";
import { hitElement, switchVersion } from "./results.js";
import { loading, result } from "./search.js";
import { field } from "./search-field.js";
import { hasNoQuery, navigate, queryOf, searchKey, similarState, state, urlOf } from "./state.js";
import { hitOf, ownHit, versionSwitch } from "./versions.js";

const LONG_TITLE = 80; // characters from which a title is set in a smaller size

let shownKey = ""; // identifies the document and the search that the panel shows
let takeFocus = false; // whether the panel gets the focus when it is filled
let closingId = ""; // the document that is being closed

export function openDocument(id) {
  takeFocus ||= id !== state.doc;
  navigate({ doc: id });
}

export function closeDocument() {
  if (closingId) return; // going back takes a moment, and a second time would go too far
  closingId = state.doc;
  // Opening a document added an entry to the history, which closing takes back.
  if (history.state?.opened) history.back();
  else navigate({ doc: "" });
}

function focusHit(id) {
  (hitElement(id)?.querySelector("h2 a") ?? field).focus();
}

/** Move the focus into the panel, unless the user has begun to type. */
function focusPanel() {
  if (takeFocus && document.activeElement !== field) byId("document-title").focus({ preventScroll: true });
  takeFocus = false;
}

/** Emphasise the hit whose document is open. */
export function showOpenHit() {
  const open = state.doc === "" ? null : hitElement(state.doc);
  for (const element of byId("hits").children) element.classList.toggle("open", element === open);
}

export async function showDocument() {
  const panel = byId("document-panel");
  const closedId = closingId;
  closingId = "";
  showOpenHit();
  if (!state.doc) {
    panel.hidden = true;
    shownKey = "";
    takeFocus = false;
    disablePage(false);
    if (closedId) focusHit(closedId);
    return;
  }
  const key = JSON.stringify([state.doc, searchKey(state)]);
  if (key === shownKey) return;
  shownKey = key;
  const id = state.doc;
  const line = { stroke: "currentColor", "stroke-width": 1.75, "stroke-linecap": "round" };
  const closeIcon = { d: "m6 6 12 12M18 6 6 18", ...line };
  const iconSize = { viewBox: "0 0 24 24", width: 20, height: 20, "aria-hidden": "true" };
  const closeButton = make(
    "button",
    { type: "button", class: "button-plain icon", "aria-label": "Close the document", click: closeDocument },
    makeSvg("svg", iconSize, makeSvg("path", closeIcon)),
  );
  const header = make("div", { class: "panel-header" }, make("span"), closeButton);
  const title = (text) => make("h2", { id: "document-title", tabindex: -1, dir: "auto" }, text);
  panel.replaceChildren(header, title("Opening…"), makeSkeleton("div"));
  panel.hidden = false;
  panel.scrollTop = 0;
  disablePage(!wideScreen.matches);
  try {
    const found = await fetchJson(`documents/${encodeURIComponent(id)}`);
    if (shownKey !== key) return;
    const showExplanation = fillPanel(found, header);
    focusPanel();
    if (!hasNoQuery()) showExplanation(await loadExplanation(found.id, key));
  } catch (error) {
    if (shownKey !== key) return;
    if (!(error instanceof ApiError)) throw error;
    const gone = error.status === 404;
    panel.replaceChildren(
      header,
      title(gone ? "Document not found." : "The document cannot be shown."),
      make("p", { class: "source" }, gone ? "It is no longer in the index." : error.message),
      make("div", { class: "document-actions" }, makeButton("Try again", () => { shownKey = ""; showDocument(); })),
    );
    focusPanel();
  }
}

/** On a narrow screen the document covers the page, which must not be reachable behind it. */
function disablePage(disabled) {
  const covered = document.querySelectorAll("#query-section, #results, #map, .page-header, .page-footer");
  for (const element of covered) element.inert = disabled;
}

/** Name the language of a document, and offer its other versions if a search found it. */
function showLanguages(found, header) {
  const hit = hitOf(found.id);
  const choose = (id) => {
    openDocument(id);
    switchVersion(hit, id);
  };
  header.firstChild.replaceWith(hit ? versionSwitch(hit, found, choose) : languageLabel(found.lang));
}

/** Show a document; returns a function that highlights its words when the explanation is there. */
function fillPanel(found, header) {
  showLanguages(found, header);
  const url = webUrl(found.url);
  const size = titleOf(found).length > LONG_TITLE ? "long" : undefined;
  const titleAttributes = { id: "document-title", class: size, tabindex: -1, dir: "auto", lang: found.lang };
  const title = make("h2", titleAttributes, titleOf(found));
  const query = queryOf(state.q);
  const comparison = make("div", {}, query ? queryText(query, result?.lang, "Your query") : null);
  const paragraphs = paragraphsOf(found.text).map((part) => ({ ...part, element: make("p", { dir: "auto" }) }));
  const showText = (weights, explanation) => {
    const passage = matchedPassage(found, explanation);
    for (const paragraph of paragraphs) fillParagraph(paragraph, weights, passage);
    scrollToPassage(byId("document-panel"));
  };
  const source = (href, text) =>
    make("p", { class: "source" }, make("a", { href, target: "_blank", rel: "noopener noreferrer" }, text));
  const similarLink = { class: "button-solid", href: urlOf(similarState(found.id)), "data-internal": "" };
  byId("document-panel").replaceChildren(
    header,
    title,
    url ? source(url.href, url.host) : "",
    comparison,
    make("div", { class: "document-text", lang: found.lang }, ...paragraphs.map(({ element }) => element)),
    make("div", { class: "document-actions" }, make("a", similarLink, "More like this")),
  );
  const words = () => ownHit(found.id)?.words; // of the search that is shown at the time
  showText(withWords(null, words()));
  return (loaded) => {
    if (!loaded) return;
    const { explanation, other } = loaded;
    const weights = withWords(explanation.document, words());
    showLanguages(found, header);
    title.replaceChildren(highlighted(titleOf(found), weights));
    const text = other ? other.text : queryOf(state.q);
    const lang = other ? other.lang : result?.lang;
    const label = `${other ? `Compared with ${titleOf(other)}` : "Your query"}, in ${languageName(lang ?? "")}`;
    const pairs = diversified(explanation.pairs).slice(0, 8).map(wordPair);
    comparison.replaceChildren(
      queryText(text, lang, label, explanation.query),
      pairs.length
        ? make("div", { class: "explanation" }, make("span", { class: "label" }, "Matching words"), ...pairs)
        : "",
    );
    showText(weights, explanation);
  };
}

function queryText(text, lang, label, weights) {
  // A long text can be scrolled, so it must be reachable by keyboard.
  const scrollable = text.length > 300 ? { tabindex: 0, role: "group", "aria-label": label } : {};
  return make(
    "div",
    { class: "query-text" },
    make("span", { class: "label" }, label),
    make("div", { class: "query-text-body", dir: "auto", lang, ...scrollable }, highlighted(text, weights)),
  );
}

/** The explanation of a document and, in a search for similar ones, the `other` that it is compared with; or null. */
async function loadExplanation(id, key) {
  // The language of the query is known only when the search has finished.
  for (let waited = 0; (!result || loading) && waited < TIMEOUT && shownKey === key; waited += 50) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  if (shownKey !== key || !result || id === state.like) return null;
  const [explanation, other] = await Promise.all([
    explanationOf(id) ?? explain(id).then((first) => first ?? explain(id)), // searching again cancels the first request
    state.like ? fetchJson(`documents/${encodeURIComponent(state.like)}`).catch(() => null) : null,
  ]);
  return explanation && shownKey === key && (other || !state.like) ? { explanation, other } : null;
}
