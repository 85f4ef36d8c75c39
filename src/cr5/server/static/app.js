// The entry point of the search page: which event leads to what.
//
// data        state (the URL), api (the server), search (the current result), explanations
// views       search-field, options, results, versions (of a hit), facets, notices, map, document-view, tooltip; theme,
//             before everything else
// helpers     elements, languages, highlights, passages, tokeniser, format, events, navigation (clicks and keys), pointer
//
// Whatever the server sends is shown as text, never as markup.

import { ApiError, documentCount, info, loadInfo } from "./api.js";
import { showDocument, showOpenHit } from "./document-view.js";
import { byId, make, wideScreen } from "./elements.js";
import { on } from "./events.js";
import { resetExplanations } from "./explanations.js";
import { formatList, pluralise } from "./format.js";
import { assignMarkers, languageMarker, languageName } from "./languages.js";
import { showMap } from "./map.js";
import "./navigation.js";
import { cancelRetry, showError, showNothingFound } from "./notices.js";
import { showFacets } from "./facets.js";
import { showOptions, showQueryLanguage } from "./options.js";
import { highlightHit, showHits, showLoading } from "./results.js";
import { invalidate, isCurrent, result, search } from "./search.js";
import { field, highlightQuery, showField } from "./search-field.js";
import { INITIAL_STATE, hasNoQuery, queryOf, state, urlOf } from "./state.js";
import { resetVersions } from "./versions.js";

let [starting, introduced] = [false, false];

on("history", () => (field.value = state.q));
on("state", show);
on("search", () => {
  cancelRetry();
  resetExplanations();
  resetVersions();
});
on("loading", showLoading);
on("result", () => {
  showHits();
  showFacets();
  showOpenHit();
  showQueryLanguage();
  highlightQuery();
  showMap();
  showTitle();
  if (result && !result.hits.length) showNothingFound(result);
  if (result && !introduced && !starting) start(); // the server is back
});
on("error", showError);
on("explanation", (id) => {
  highlightHit(id);
  highlightQuery();
});
on("active", highlightQuery);
wideScreen.addEventListener("change", show);

const currentView = () => (hasNoQuery() && !state.doc ? "landing" : "results");

function show() {
  const view = currentView();
  document.body.dataset.view = view;
  showField();
  byId("options").hidden = view === "landing";
  byId("copy-link").hidden = view === "landing" || !navigator.clipboard;
  showOptions();
  if (isCurrent()) showMap();
  else search();
  showDocument();
  showTitle();
}

function showTitle() {
  const title = state.like ? `Similar to “${result?.query ?? "…"}”` : queryOf(state.q);
  const heading = byId("heading");
  if (title) heading.textContent = state.like ? title : `Results for “${title}”`;
  else heading.replaceChildren("Ask in one language, ", make("br"), "find in all of them.");
  document.title = title ? `${title.slice(0, 80)} – cr5` : "cr5";
}

/** Describe the index and offer example queries. */
function showIntroduction() {
  introduced = true;
  const langs = Object.keys(info.documents).filter((lang) => info.documents[lang] > 0);
  assignMarkers([...info.languages, ...langs]);
  const languages = langs.length > 6 ? `${langs.length} languages` : formatList(langs.map(languageName).sort());
  const contents = `${pluralise(documentCount(), "document")} in ${languages}. `;
  const sentences = [contents, "Type a word, a question or a whole paragraph."];
  byId("intro").replaceChildren(...(documentCount() ? sentences.map((sentence) => make("span", {}, sentence)) : []));
  const rank = info.rank ? ` · rank ${info.rank}` : "";
  const about = `cr5 ${info.version} · ${pluralise(info.languages.length, "language")}${rank}`;
  byId("about").textContent = info.version ? about : "";
  byId("examples").hidden = !info.examples.length;
  byId("examples").replaceChildren(
    "Try ",
    ...info.examples.map(({ lang, text }) =>
      make(
        "a",
        { href: urlOf({ ...INITIAL_STATE, q: text }), "data-internal": "" },
        languageMarker(lang),
        make("span", { dir: "auto", lang }, text),
        make("span", { class: "count" }, languageName(lang)),
      ),
    ),
  );
}

async function start() {
  starting = true;
  cancelRetry();
  byId("notice").hidden = true;
  try {
    await loadInfo();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    showOptions();
    showError(error, start);
    return;
  } finally {
    starting = false;
  }
  showIntroduction();
  invalidate(); // hits that were shown before have no language markers yet
  show();
  const idle = document.activeElement === document.body || byId("notice").contains(document.activeElement);
  if (idle && document.body.dataset.view === "landing") field.focus({ preventScroll: true });
}

new ResizeObserver(() => {
  document.documentElement.style.setProperty("--sticky-offset", `${byId("query-section").offsetHeight + 12}px`);
}).observe(byId("query-section"));

document.body.dataset.view = currentView();
field.value = state.q;
highlightQuery();
start();
