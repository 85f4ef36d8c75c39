// Languages: their names, and the marker that each has everywhere on the page.

import { make } from "./elements.js";

const HUES = 6; // as in style.css
const names = new Intl.DisplayNames(["en"], { type: "language" });
let palette = [];

export function languageName(lang) {
  try {
    return names.of(lang) ?? lang;
  } catch {
    return lang; // not a valid language code
  }
}

/** The first of the wanted languages, such as en-GB, that is among the known ones, such as en; empty if none is. */
export function matchLanguage(wanted, known) {
  const spelled = (lang) => lang.toLowerCase().replaceAll("_", "-");
  for (const lang of wanted.map(spelled)) {
    const found = known.find((other) => spelled(other) === lang) ?? known.find((other) => other === lang.split("-")[0]);
    if (found) return found;
  }
  return "";
}

export const compareNames = (a, b) => (languageName(a) < languageName(b) ? -1 : 1);

/** Assign markers to all languages; they depend only on which languages there are. */
export function assignMarkers(langs) {
  palette = [...new Set(langs)].sort();
}

/** [hue, shape] of a language; another shape is used each time the hues repeat. */
export function markerStyle(lang) {
  const position = palette.indexOf(lang);
  return position < 0 ? [HUES - 1, 2] : [position % HUES, Math.floor(position / HUES) % 3];
}

export function languageMarker(lang) {
  const [hue, shape] = markerStyle(lang);
  return make("span", { class: "language-marker", "data-hue": hue, "data-shape": shape, "aria-hidden": "true" });
}

export function languageLabel(lang) {
  return make("span", { class: "language-label" }, languageMarker(lang), languageName(lang));
}
