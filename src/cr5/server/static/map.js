// The map: hits as points; similar documents lie close together.

import { openDocument } from "./document-view.js";
import { byId, make, makeSvg, wideScreen } from "./elements.js";
import { formatPercent, titleOf } from "./format.js";
import { languageMarker, languageName, markerStyle } from "./languages.js";
import { relevance, result } from "./search.js";
import { navigate, state } from "./state.js";

const [WIDTH, HEIGHT, MARGIN] = [420, 400, 44];
const MAX_POINTS = 100; // more have no room

const isMapWanted = () => (state.map === "" ? wideScreen.matches : state.map === "1");

export function showMap() {
  const best = (result?.hits ?? []).slice(0, MAX_POINTS);
  const hits = best.filter((hit) => Number.isFinite(hit.x) && Number.isFinite(hit.y));
  byId("map-toggle").setAttribute("aria-pressed", String(isMapWanted()));
  // On a wide screen a document takes the place of the map.
  byId("map-toggle").hidden = hits.length === 0 || (state.doc !== "" && wideScreen.matches);
  byId("map").hidden = !isMapWanted() || hits.length === 0;
  if (!byId("map").hidden) drawMap(hits, result.at);
}

/** Draw the hits around the position of the query, if it has one. */
function drawMap(hits, queryPosition) {
  const radius = hits.length > 40 ? 5 : 7;
  const queryPositions = Array.isArray(queryPosition) && queryPosition.every(Number.isFinite) ? [queryPosition] : [];
  const points = spread([...hits.map(({ x, y }) => [x, y]), ...queryPositions], 2.6 * radius);
  const query = queryPositions.length ? points.at(-1) : null;
  const [centreX, centreY] = query ?? [WIDTH / 2, HEIGHT / 2];
  const circle = (name, r) => makeSvg("circle", { class: name, cx: centreX, cy: centreY, r });
  const rings = [1, 2, 3, 4].map((step) => circle("map-ring", step * 85));
  const connector = (hit, [x2, y2]) =>
    makeSvg("line", { class: "map-connector", "data-id": hit.id, x1: centreX, y1: centreY, x2, y2 });
  const connectors = query ? hits.map((hit, i) => connector(hit, points[i])) : [];
  const hitPoints = hits.map((hit, i) => hitPoint(hit, points[i], radius, i));
  const captions = placeCaptions(hits, points, radius);
  const queryPoint = query ? [circle("query-ring", radius + 2), circle("query-dot", 2.5)] : [];
  byId("chart").replaceChildren(...rings, ...connectors, ...queryPoint, ...hitPoints, ...captions);
  const langs = [...new Set(hits.map((hit) => hit.lang))];
  const queryMarker = make("span", { class: "legend-query", "aria-hidden": "true" });
  byId("legend").replaceChildren(
    query ? make("li", {}, queryMarker, state.like ? "The document" : "Your query") : "",
    ...langs.map((lang) => make("li", {}, languageMarker(lang), languageName(lang))),
  );
}

function hitPoint(hit, [x, y], radius, i) {
  const [hue, shape] = markerStyle(hit.lang);
  const side = radius * 1.75;
  const square = { x: x - side / 2, y: y - side / 2, width: side, height: side };
  const transform = shape === 2 ? `rotate(45 ${x} ${y})` : undefined;
  const marker =
    shape === 0
      ? makeSvg("circle", { class: "shape", cx: x, cy: y, r: radius })
      : makeSvg("rect", { class: "shape", ...square, transform });
  return makeSvg(
    "g",
    {
      class: `map-point${hit.id === state.doc ? " open" : ""}`, role: "button", tabindex: i ? -1 : 0,
      "data-id": hit.id, "data-hue": hue,
      "aria-label": `${titleOf(hit)}, ${languageName(hit.lang)}`,
      "data-tip": `${titleOf(hit)}\n${languageName(hit.lang)}, ${formatPercent(relevance(hit))}`,
    },
    makeSvg("circle", { class: "hit-area", cx: x, cy: y, r: radius * 1.7 }),
    marker,
  );
}

/** Points scaled to the map and moved apart until they do not overlap; the result is deterministic. */
function spread(points, gap) {
  const range = (axis) => {
    const values = points.map((point) => point[axis]);
    return [Math.min(...values), Math.max(...values)];
  };
  const [[left, right], [bottom, top]] = [range(0), range(1)];
  // One scale for both axes, so that distances can be compared.
  const scaleX = (WIDTH - 2 * MARGIN) / (right - left || 1e-9);
  const scale = Math.min(scaleX, (HEIGHT - 2 * MARGIN) / (top - bottom || 1e-9));
  const placed = points.map(([x, y]) => [
    WIDTH / 2 + (x - (left + right) / 2) * scale,
    HEIGHT / 2 - (y - (bottom + top) / 2) * scale,
  ]);
  for (let round = 0, moved = true; round < 120 && moved; round += 1) {
    moved = false;
    for (let i = 0; i < placed.length; i += 1) {
      for (let j = 0; j < i; j += 1) {
        let [dx, dy] = [placed[i][0] - placed[j][0], placed[i][1] - placed[j][1]];
        let distance = Math.hypot(dx, dy);
        if (distance >= gap) continue;
        if (distance < 1e-6) [dx, dy, distance] = [Math.cos(2.4 * i), Math.sin(2.4 * i), 1];
        const push = (gap - Math.min(distance, gap) + 0.5) / 2 / distance;
        for (const [k, shift] of [[i, push], [j, -push]]) {
          placed[k][0] = Math.min(WIDTH - 14, Math.max(14, placed[k][0] + dx * shift));
          placed[k][1] = Math.min(HEIGHT - 14, Math.max(14, placed[k][1] + dy * shift));
        }
        moved = true;
      }
    }
  }
  return placed;
}

const measuringContext = document.createElement("canvas").getContext("2d");

/** Titles next to their points, best hits first, wherever they overlap neither points nor each other. */
function placeCaptions(hits, points, radius) {
  measuringContext.font = `600 11.5px ${getComputedStyle(document.body).fontFamily}`;
  const occupied = points.map(([x, y]) => [x - radius, y - radius, x + radius, y + radius]);
  const captions = [];
  hits.forEach((hit, i) => {
    const characters = [...titleOf(hit)];
    const text = characters.length > 22 ? `${characters.slice(0, 21).join("")}…` : characters.join("");
    const [x, y] = points[i];
    const length = measuringContext.measureText(text).width;
    const positions = [
      [x + radius + 5, y + 4], [x - radius - 5 - length, y + 4],
      [x - length / 2, y - radius - 6], [x - length / 2, y + radius + 14],
    ];
    for (const [left, base] of positions) {
      const box = [left - 2, base - 10, left + length + 2, base + 4];
      const inside = box[0] > 2 && box[2] < WIDTH - 2 && box[1] > 2 && box[3] < HEIGHT - 2;
      const overlaps = (other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1];
      if (!inside || occupied.some(overlaps)) continue;
      occupied.push(box);
      const attributes = { class: "map-caption", "data-id": hit.id, x: left, y: base, "aria-hidden": "true" };
      captions.push(makeSvg("text", attributes, text));
      return;
    }
  });
  return captions;
}

byId("chart").addEventListener("click", (event) => {
  const element = event.target.closest(".map-point");
  if (element) openDocument(element.dataset.id);
});
byId("chart").addEventListener("keydown", (event) => {
  const elements = [...byId("chart").querySelectorAll(".map-point")];
  const position = elements.indexOf(event.target.closest(".map-point"));
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (position >= 0 && step) {
    const next = elements[(position + step + elements.length) % elements.length];
    elements[position].setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
    event.preventDefault();
  } else if (position >= 0 && (event.key === "Enter" || event.key === " ")) {
    openDocument(elements[position].dataset.id);
    event.preventDefault();
  }
});
byId("map-toggle").addEventListener("click", () => {
  const next = isMapWanted() ? "0" : "1";
  navigate({ map: (next === "1") === wideScreen.matches ? "" : next });
});
