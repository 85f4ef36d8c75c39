// The map: hits as points, near where their meanings are near.

import { at, draw, make, wide } from "./elements.js";
import { lookOf, nameOf, sign } from "./languages.js";
import { open } from "./paper.js";
import { answer } from "./search.js";
import { go, state } from "./state.js";
import { titled } from "./wording.js";

const [WIDTH, HEIGHT, MARGIN] = [420, 400, 44];

const mapWanted = () => (state.map === "" ? wide.matches : state.map === "1");

export function showMap() {
  const hits = (answer?.hits ?? []).filter((hit) => Number.isFinite(hit.x) && Number.isFinite(hit.y));
  at("map-toggle").setAttribute("aria-pressed", String(mapWanted()));
  at("map-toggle").hidden = hits.length === 0 || (state.doc !== "" && wide.matches); // the document is in its place
  at("map").hidden = !mapWanted() || hits.length === 0;
  if (!at("map").hidden) drawMap(hits, answer.at);
}

function drawMap(hits, origin) {
  const radius = hits.length > 40 ? 5 : 7;
  const origins = Array.isArray(origin) && origin.every(Number.isFinite) ? [origin] : [];
  const points = spread([...hits.map(({ x, y }) => [x, y]), ...origins], 2.6 * radius);
  const here = origins.length ? points.at(-1) : null;
  const web = [1, 2, 3, 4].map((step) =>
    draw("circle", { class: "web", cx: here ? here[0] : WIDTH / 2, cy: here ? here[1] : HEIGHT / 2, r: step * 85 }),
  );
  const threads = here
    ? hits.map((hit, i) => draw("line", { class: "thread", "data-id": hit.id, x1: here[0], y1: here[1], x2: points[i][0], y2: points[i][1] }))
    : [];
  const spots = hits.map((hit, i) => spot(hit, points[i], radius, i));
  const captions = label(hits, points, radius);
  const core = here
    ? [draw("circle", { class: "here", cx: here[0], cy: here[1], r: radius + 2 }), draw("circle", { class: "here-core", cx: here[0], cy: here[1], r: 2.5 })]
    : [];
  at("chart").replaceChildren(...web, ...threads, ...core, ...spots, ...captions);
  const langs = [...new Set(hits.map((hit) => hit.lang))];
  at("legend").replaceChildren(
    ...(here ? [make("li", {}, make("span", { class: "asked", "aria-hidden": "true" }), state.like ? "The document" : "Your query")] : []),
    ...langs.map((lang) => make("li", {}, sign(lang), nameOf(lang))),
  );
}

function spot(hit, [x, y], radius, i) {
  const [hue, shape] = lookOf(hit.lang);
  const side = radius * 1.75;
  const body =
    shape === 0
      ? draw("circle", { class: "shape", cx: x, cy: y, r: radius })
      : draw("rect", { class: "shape", x: x - side / 2, y: y - side / 2, width: side, height: side, transform: shape === 2 ? `rotate(45 ${x} ${y})` : undefined });
  return draw(
    "g",
    {
      class: `spot${hit.id === state.doc ? " open" : ""}`, role: "button", tabindex: i ? -1 : 0, "data-id": hit.id, "data-hue": hue,
      "aria-label": `${titled(hit)}, ${nameOf(hit.lang)}`, "data-tip": `${titled(hit)}\n${nameOf(hit.lang)}, ${Number(hit.score).toFixed(2)}`,
    },
    draw("circle", { class: "near", cx: x, cy: y, r: radius * 1.7 }),
    body,
  );
}

/** Points scaled to the map and moved apart until none covers another; the same points always end alike. */
function spread(points, gap) {
  const range = (axis) => {
    const values = points.map((point) => point[axis]);
    return [Math.min(...values), Math.max(...values)];
  };
  const [[left, right], [low, high]] = [range(0), range(1)];
  // One scale for both axes, so that distances can be compared.
  const scale = Math.min((WIDTH - 2 * MARGIN) / (right - left || 1e-9), (HEIGHT - 2 * MARGIN) / (high - low || 1e-9));
  const placed = points.map(([x, y]) => [
    WIDTH / 2 + (x - (left + right) / 2) * scale,
    HEIGHT / 2 - (y - (low + high) / 2) * scale,
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
        for (const [k, way] of [[i, push], [j, -push]]) {
          placed[k][0] = Math.min(WIDTH - 14, Math.max(14, placed[k][0] + dx * way));
          placed[k][1] = Math.min(HEIGHT - 14, Math.max(14, placed[k][1] + dy * way));
        }
        moved = true;
      }
    }
  }
  return placed;
}

const ruler = document.createElement("canvas").getContext("2d");

/** Titles beside their points, the best hits first, where they cover neither points nor each other. */
function label(hits, points, radius) {
  ruler.font = `600 11.5px ${getComputedStyle(document.body).fontFamily}`;
  const taken = points.map(([x, y]) => [x - radius, y - radius, x + radius, y + radius]);
  const captions = [];
  hits.forEach((hit, i) => {
    const letters = [...titled(hit)];
    const text = letters.length > 22 ? `${letters.slice(0, 21).join("")}…` : letters.join("");
    const [x, y] = points[i];
    const length = ruler.measureText(text).width;
    const places = [
      [x + radius + 5, y + 4], [x - radius - 5 - length, y + 4], [x - length / 2, y - radius - 6], [x - length / 2, y + radius + 14],
    ];
    for (const [left, base] of places) {
      const box = [left - 2, base - 10, left + length + 2, base + 4];
      const inside = box[0] > 2 && box[2] < WIDTH - 2 && box[1] > 2 && box[3] < HEIGHT - 2;
      if (!inside || taken.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1])) continue;
      taken.push(box);
      captions.push(draw("text", { class: "caption", "data-id": hit.id, x: left, y: base, "aria-hidden": "true" }, text));
      return;
    }
  });
  return captions;
}

at("chart").addEventListener("click", (event) => {
  const element = event.target.closest(".spot");
  if (element) open(element.dataset.id);
});
at("chart").addEventListener("keydown", (event) => {
  const spots = [...at("chart").querySelectorAll(".spot")];
  const here = spots.indexOf(event.target.closest(".spot"));
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (here >= 0 && step) {
    const next = spots[(here + step + spots.length) % spots.length];
    spots[here].setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
    event.preventDefault();
  } else if (here >= 0 && (event.key === "Enter" || event.key === " ")) {
    open(spots[here].dataset.id);
    event.preventDefault();
  }
});
at("map-toggle").addEventListener("click", () => {
  const next = mapWanted() ? "0" : "1";
  go({ map: (next === "1") === wide.matches ? "" : next });
});
