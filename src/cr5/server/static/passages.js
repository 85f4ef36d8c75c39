// The passage of a document that matched: where it is, how it is emphasised, and how the panel comes to show it.

import { make } from "./elements.js";
import { highlighted } from "./highlights.js";
import { ownHit } from "./versions.js";

const MAX_SHARE = 0.9; // of a text; a longer passage is the document, and is not emphasised
// Shares of the panel's height: a passage whose top is lower than the first is scrolled to the second.
const [LOWEST_TOP, SCROLLED_TOP] = [0.6, 0.2];

/** The paragraphs of a text: {start, text}. */
export function paragraphsOf(text) {
  const lines = [...text.matchAll(/[^\n]+/g)].filter(([line]) => line.trim());
  return lines.map((match) => ({ start: match.index, text: match[0] }));
}

/** [begin, end] of the passage that the search found, or else the explanation; null if it is nearly the whole text. */
export function matchedPassage({ id, text }, explanation) {
  const passage = ownHit(id)?.passage;
  const found = passage?.[1] > passage?.[0] ? passage : explanation?.passage;
  if (!found) return null;
  const [begin, end] = found.map((position) => codeUnits(text, position));
  return end > begin && end - begin <= MAX_SHARE * text.length ? [begin, end] : null;
}

/** The server counts characters, and JavaScript counts code units, of which some characters have two. */
function codeUnits(text, characters) {
  if (!/[\ud800-\udbff]/.test(text)) return Math.min(characters, text.length);
  let [count, units] = [0, 0];
  for (const character of text) {
    if (count === characters) break;
    count += 1;
    units += character.length;
  }
  return units;
}

/** Show a paragraph with its words marked, and the part of it that is in the passage emphasised. */
export function fillParagraph({ element, start, text }, weights, passage) {
  const [begin, end] = (passage ?? [0, 0]).map((position) => Math.min(text.length, Math.max(0, position - start)));
  const part = text.slice(begin, end);
  element.replaceChildren(
    highlighted(text.slice(0, begin), weights),
    part.trim() ? make("span", { class: "passage" }, highlighted(part, weights)) : part,
    highlighted(text.slice(end), weights),
  );
}

/** Scroll a panel so that the passage in it can be seen, unless it is in sight or the reader has scrolled already. */
export function scrollToPassage(panel) {
  const passage = panel.querySelector(".passage");
  if (!passage || panel.scrollTop) return;
  const top = passage.getBoundingClientRect().top - panel.getBoundingClientRect().top;
  if (top > LOWEST_TOP * panel.clientHeight) panel.scrollTop = top - SCROLLED_TOP * panel.clientHeight;
}
