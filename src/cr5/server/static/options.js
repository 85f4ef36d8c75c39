// The options of a search: language of the query, languages to search in, preferred language, ranking, grouping.

import { info } from "./api.js";
import { byId, make } from "./elements.js";
import { formatCount, formatPercent } from "./format.js";
import { compareNames, languageMarker, languageName } from "./languages.js";
import { isLanguageUnclear, preferredLanguage, result } from "./search.js";
import { HIT_COUNTS, MEASURES, MODES, navigate, queryOf, selectedLanguages, state } from "./state.js";

const SHOWN_FILTERS = 9;
let showAll = false;

export function showOptions() {
  const counts = Object.entries(info.documents).sort(([a, n], [b, m]) => m - n || compareNames(a, b));
  const selected = new Set(selectedLanguages());
  const complete = showAll || counts.length <= SHOWN_FILTERS + 1;
  const shown = counts.filter(([lang], i) => complete || i < SHOWN_FILTERS || selected.has(lang));
  const button = (lang, pressed, ...content) =>
    make("button", { type: "button", "aria-pressed": String(pressed), "data-filter": lang }, ...content);
  const focused = document.activeElement?.dataset?.filter;
  const buttons = shown.map(([lang, count]) =>
    button(
      lang,
      selected.has(lang),
      languageMarker(lang),
      languageName(lang),
      " ",
      make("span", { class: "count" }, formatCount(count)),
    ),
  );
  if (shown.length < counts.length) {
    const label = `${counts.length - shown.length} more`;
    buttons.push(make("button", { type: "button", "data-show-all": "", "aria-expanded": "false" }, label));
  }
  const allButton = button("", selected.size === 0, "All");
  allButton.setAttribute("aria-label", "All languages");
  byId("filters").replaceChildren(...(counts.length > 1 ? [allButton, ...buttons] : []));
  if (focused !== undefined) {
    [...byId("filters").children].find((element) => element.dataset.filter === focused)?.focus();
  }
  const measures = info.measures.map((measure) => [measure, MEASURES[measure] ?? measure]);
  fillSelect(byId("measure"), measures, state.measure || info.measures[0]);
  const byVectors = Boolean(state.like) || state.mode === "dense";
  byId("ranking").hidden = info.measures.length < 2 || !byVectors;
  byId("search-mode").hidden = Boolean(state.like);
  fillSelect(byId("mode"), Object.entries(MODES), state.mode || "hybrid");
  byId("group").hidden = Boolean(state.like) || counts.length < 2;
  byId("group").setAttribute("aria-pressed", String(state.group === ""));
  showPreference(counts.map(([lang]) => lang));
  showQueryLanguage();
}

/** Offer the languages to read in; that of the browser, or none, until one is chosen. */
function showPreference(langs) {
  const known = [...new Set([...langs, preferredLanguage()])].filter(Boolean).sort(compareNames);
  const choices = known.map((lang) => [lang, `${languageName(lang)} first`]);
  byId("preference").hidden = Boolean(state.like) || langs.length < 2;
  fillSelect(byId("prefer"), [["any", "Any language first"], ...choices], preferredLanguage() || "any");
}

export function showQueryLanguage() {
  byId("query-language").hidden = Boolean(state.like) || !queryOf(state.q);
  let identified = "Identify the language";
  if (!state.lang && result && isLanguageUnclear(result)) identified = "Language not identified";
  else if (!state.lang && result?.lang && result.guessed !== false && state.q) {
    const confidence = typeof result.confidence === "number" ? `, ${formatPercent(result.confidence)}` : "";
    identified = languageName(result.lang) + confidence;
  }
  const langs = [...info.languages].sort(compareNames);
  if (state.lang && !langs.includes(state.lang)) langs.push(state.lang);
  fillSelect(byId("lang"), [["", identified], ...langs.map((lang) => [lang, languageName(lang)])], state.lang);
}

/** Set the options of a select element. Existing ones are kept, because replacing them would close an open list. */
function fillSelect(select, choices, chosen) {
  const sameLength = select.options.length === choices.length;
  const same = sameLength && choices.every(([value], i) => select.options[i].value === value);
  if (!same) select.replaceChildren(...choices.map(([value]) => make("option", { value })));
  choices.forEach(([, label], i) => {
    if (select.options[i].text !== label) select.options[i].text = label;
  });
  if (select.value !== chosen) select.value = chosen;
}

byId("filters").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if ("showAll" in button.dataset) {
    showAll = true;
    showOptions();
    byId("filters").children[SHOWN_FILTERS + 1]?.focus();
    return;
  }
  const lang = button.dataset.filter;
  const selected = new Set(lang === "" ? [] : selectedLanguages());
  if (lang && !selected.delete(lang)) selected.add(lang);
  const all = Object.keys(info.documents).every((other) => selected.has(other));
  navigate({ in: all ? "" : [...selected].sort().join(","), k: HIT_COUNTS[0] });
});
byId("lang").addEventListener("change", () => navigate({ lang: byId("lang").value }));
byId("prefer").addEventListener("change", () => navigate({ prefer: byId("prefer").value, k: HIT_COUNTS[0] }));
byId("mode").addEventListener("change", () => {
  const mode = byId("mode").value;
  navigate({ mode: mode === "hybrid" ? "" : mode, measure: "", k: HIT_COUNTS[0] });
});
byId("group").addEventListener("click", () => navigate({ group: state.group ? "" : "none", k: HIT_COUNTS[0] }));
byId("measure").addEventListener("change", () => {
  const measure = byId("measure").value;
  navigate({ measure: measure === info.measures[0] ? "" : measure });
});
