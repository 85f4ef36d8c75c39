// Languages: their names, and the look that each has everywhere on the page.

import { make } from "./elements.js";

const HUES = 6; // as in style.css
const names = new Intl.DisplayNames(["en"], { type: "language" });
let palette = [];

export function nameOf(lang) {
  try {
    return names.of(lang) ?? lang;
  } catch {
    return lang; // no code of a language
  }
}

export const byName = (a, b) => (nameOf(a) < nameOf(b) ? -1 : 1);

/** Give all languages their looks, which depend on nothing but which there are. */
export function colour(langs) {
  palette = [...new Set(langs)].sort();
}

/** The look of a language: a colour, and a shape that changes where the colours begin again. */
export function lookOf(lang) {
  const place = palette.indexOf(lang);
  return place < 0 ? [HUES - 1, 2] : [place % HUES, Math.floor(place / HUES) % 3];
}

export function sign(lang) {
  const [hue, shape] = lookOf(lang);
  return make("span", { class: "sign", "data-hue": hue, "data-shape": shape, "aria-hidden": "true" });
}

export function tongue(lang) {
  return make("span", { class: "tongue" }, sign(lang), nameOf(lang));
}
