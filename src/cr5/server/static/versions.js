// Versions of a hit: documents about the same concept, most of them in other languages. One is shown at a time.

import { make } from "./elements.js";
import { titleOf } from "./format.js";
import { languageLabel, languageMarker, languageName } from "./languages.js";
import { result } from "./search.js";
import { queryOf, state } from "./state.js";

const SHOWN_VERSIONS = 6; // of a hit, until more are requested

let chosen = new Map(); // id of a hit -> id of the version that the user chose
let chosenFor = ""; // the query that the choices belong to

/** Forget the choices that were made for another query. */
export function resetVersions() {
  const query = JSON.stringify([queryOf(state.q), state.like]);
  if (query !== chosenFor) chosen = new Map();
  chosenFor = query;
}

export const versionsOf = (hit) => [hit, ...(hit.versions ?? [])];

/** The hit that a document is itself, not as a version of another. */
export const ownHit = (id) => result?.hits?.find((hit) => hit.id === id);

/** The hit that a document is, or that it is a version of. */
export function hitOf(id) {
  return ownHit(id) ?? result?.hits?.find((hit) => versionsOf(hit).some((version) => version.id === id));
}

export const shownId = (hitId) => chosen.get(hitId) ?? hitId;
export const shownVersion = (hit) => versionsOf(hit).find(({ id }) => id === chosen.get(hit.id)) ?? hit;
export const chooseVersion = (hit, id) => chosen.set(hit.id, id);

/** The language of the version that is shown, with buttons for the others; `choose` is called with an id. */
export function versionSwitch(hit, shown, choose) {
  const versions = versionsOf(hit);
  if (versions.length === 1) return languageLabel(shown.lang);
  const group = make("span", { class: "versions", role: "group", "aria-label": "Languages of this result" });
  const fill = (count) => {
    const listed = versions.filter((version, i) => i < count || version.id === shown.id);
    const more = versions.length - listed.length;
    const expand = () => {
      fill(Infinity);
      group.children[listed.length].focus();
    };
    group.replaceChildren(
      ...listed.map((version) => versionButton(version, version.id === shown.id, choose)),
      more ? make("button", { type: "button", class: "version", click: expand }, `${more} more`) : "",
    );
  };
  fill(versions.length <= SHOWN_VERSIONS + 1 ? Infinity : SHOWN_VERSIONS);
  return group;
}

function versionButton(version, pressed, choose) {
  const attributes = {
    type: "button", class: "version", "aria-pressed": String(pressed), "data-version": version.id,
    "data-tip": pressed ? null : titleOf(version),
    click: () => choose(version.id),
  };
  if (pressed) return make("button", attributes, languageLabel(version.lang));
  return make("button", attributes, languageMarker(version.lang), languageName(version.lang));
}
