// The options: the language of the query, the languages to find, the ranking.

import { at, make } from "./elements.js";
import { byName, nameOf, sign } from "./languages.js";
import { answer, unsure } from "./search.js";
import { info } from "./server.js";
import { MEASURES, STEPS, chosen, go, spoken, state } from "./state.js";
import { percent, whole } from "./wording.js";

const SHOWN_FILTERS = 9;
let unfolded = false;

export function showFilters() {
  const counts = Object.entries(info.documents).sort(([a, n], [b, m]) => m - n || byName(a, b));
  const on = new Set(chosen());
  const shown = unfolded || counts.length <= SHOWN_FILTERS + 1 ? counts : counts.filter(([lang], i) => i < SHOWN_FILTERS || on.has(lang));
  const button = (lang, pressed, ...content) =>
    make("button", { type: "button", "aria-pressed": String(pressed), "data-filter": lang }, ...content);
  const focused = document.activeElement?.dataset?.filter;
  const buttons = shown.map(([lang, count]) =>
    button(lang, on.has(lang), sign(lang), nameOf(lang), " ", make("span", { class: "number" }, whole(count))),
  );
  if (shown.length < counts.length) {
    buttons.push(make("button", { type: "button", "data-unfold": "", "aria-expanded": "false" }, `${counts.length - shown.length} more`));
  }
  at("filters").replaceChildren(...(counts.length > 1 ? [button("", on.size === 0, "All languages"), ...buttons] : []));
  if (focused !== undefined) {
    [...at("filters").children].find((element) => element.dataset.filter === focused)?.focus();
  }
  offer(at("measure"), info.measures.map((measure) => [measure, MEASURES[measure] ?? measure]), state.measure || info.measures[0]);
  at("ranked-by").hidden = info.measures.length < 2;
  showLanguage();
}

export function showLanguage() {
  at("asked-in").hidden = Boolean(state.like) || !spoken(state.q);
  let guess = "Guess the language";
  if (!state.lang && answer && unsure(answer)) guess = "Language unclear";
  else if (!state.lang && answer?.lang && answer.guessed !== false && state.q) {
    guess = nameOf(answer.lang) + (typeof answer.confidence === "number" ? `, ${percent(answer.confidence)}` : "");
  }
  const langs = [...info.languages].sort(byName);
  if (state.lang && !langs.includes(state.lang)) langs.push(state.lang);
  offer(at("lang"), [["", guess], ...langs.map((lang) => [lang, nameOf(lang)])], state.lang);
}

/** Fill a list. It may be unfolded, and would fold if its options were replaced: those that stay are kept. */
function offer(list, choices, chosen) {
  const same = list.options.length === choices.length && choices.every(([value], i) => list.options[i].value === value);
  if (!same) list.replaceChildren(...choices.map(([value]) => make("option", { value })));
  choices.forEach(([, label], i) => {
    if (list.options[i].text !== label) list.options[i].text = label;
  });
  if (list.value !== chosen) list.value = chosen;
}

at("filters").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if ("unfold" in button.dataset) {
    unfolded = true;
    showFilters();
    at("filters").children[SHOWN_FILTERS + 1]?.focus();
    return;
  }
  const lang = button.dataset.filter;
  const on = new Set(lang === "" ? [] : chosen());
  if (lang && !on.delete(lang)) on.add(lang);
  const all = Object.keys(info.documents).every((other) => on.has(other));
  go({ in: all ? "" : [...on].sort().join(","), k: STEPS[0] });
});
at("lang").addEventListener("change", () => go({ lang: at("lang").value }));
at("measure").addEventListener("change", () => go({ measure: at("measure").value === info.measures[0] ? "" : at("measure").value }));
