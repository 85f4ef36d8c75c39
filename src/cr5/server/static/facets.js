// Facets: the values that fields of the hits have, as buttons that filter by them.

import { byId, make } from "./elements.js";
import { result } from "./search.js";
import { HIT_COUNTS, navigate, parseWhere, state, whereText } from "./state.js";

const [MAX_FIELDS, MAX_VALUES, MAX_CHARACTERS] = [4, 8, 40]; // of the facets that are shown, and of a value

export function showFacets() {
  const conditions = state.like ? {} : parseWhere(state.where);
  const groups = Object.entries(conditions).map(([name, value]) => facet(name, [[JSON.stringify(value), 0]], true));
  for (const [name, counts] of state.like ? [] : valueCounts(result?.hits ?? [])) {
    if (Object.hasOwn(conditions, name)) continue;
    groups.push(facet(name, [...counts].sort(([, n], [, m]) => m - n).slice(0, MAX_VALUES), false));
  }
  const focused = document.activeElement?.dataset?.value;
  byId("facets").replaceChildren(...groups);
  byId("facets").hidden = !groups.length;
  if (focused) [...byId("facets").querySelectorAll("button")].find(({ dataset }) => dataset.value === focused)?.focus();
}

/** name -> (value as JSON -> number of hits), for the fields by which hits can be told apart; most hits first. */
function valueCounts(hits) {
  const fields = new Map();
  for (const hit of hits) {
    for (const [name, value] of Object.entries(hit.fields ?? {})) {
      const counts = fields.get(name) ?? new Map();
      for (const item of new Set([value].flat().filter(isShort).map((one) => JSON.stringify(one)))) {
        counts.set(item, (counts.get(item) ?? 0) + 1);
      }
      fields.set(name, counts);
    }
  }
  const total = (counts) => [...counts.values()].reduce((sum, count) => sum + count, 0);
  // A field whose value differs in every hit, such as a number, is not useful as a facet.
  const useful = [...fields].filter(([, counts]) => counts.size > 1 && total(counts) > counts.size);
  return useful.sort(([, a], [, b]) => total(b) - total(a)).slice(0, MAX_FIELDS);
}

const isShort = (value) =>
  ["number", "boolean"].includes(typeof value) || (typeof value === "string" && value.length <= MAX_CHARACTERS);

function facet(name, values, pressed) {
  const buttons = values.map(([value, count]) => {
    const parsed = JSON.parse(value);
    const label = typeof parsed === "string" ? parsed : value;
    const attributes = { type: "button", "aria-pressed": String(pressed), "data-value": `${name}=${value}` };
    const number = count ? make("span", { class: "count" }, String(count)) : null;
    return make("button", { ...attributes, click: () => toggle(name, parsed) }, make("bdi", {}, label), number);
  });
  const title = make("span", { class: "facet-name", "aria-hidden": "true" }, name);
  return make("div", { class: "facet", role: "group", "aria-label": `Filter by ${name}` }, title, ...buttons);
}

function toggle(name, value) {
  const conditions = parseWhere(state.where);
  if (Object.hasOwn(conditions, name)) delete conditions[name];
  else conditions[name] = value;
  navigate({ where: whereText(conditions), k: HIT_COUNTS[0] });
}
