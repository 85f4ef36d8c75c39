// The results: the list of hits, and the line above it.

import { at, bone, make, webAddress } from "./elements.js";
import { couple, explanationOf, marked, sight, varied } from "./explanations.js";
import { tongue } from "./languages.js";
import { answer } from "./search.js";
import { PATIENCE } from "./server.js";
import { MEASURES, STEPS, asked, asksNothing, go, likeState, state, write } from "./state.js";
import { percent, several, titled } from "./wording.js";

export function waiting(is) {
  at("progress").hidden = !is;
  at("hits").setAttribute("aria-busy", String(is));
  if (!is) return;
  at("status").textContent = "Searching…";
  at("notice").hidden = true;
  if (!answer) {
    at("hits").hidden = false;
    at("hits").replaceChildren(bone("li"), bone("li"), bone("li"));
  }
}

export function showHits() {
  const hits = answer?.hits ?? [];
  at("notice").hidden = true;
  at("status").textContent = answer ? summary(answer) : "";
  if (!answer && state.doc && asksNothing()) at("status").textContent = "Ask something to see it beside this document.";
  const rows = hits.map(row);
  const focused = document.activeElement?.closest(".hit")?.dataset.id;
  at("hits").replaceChildren(...rows);
  at("hits").hidden = !rows.length;
  if (focused !== undefined) ((hitRow(focused) ?? rows[0])?.querySelector("h2 a") ?? at("results")).focus({ preventScroll: true });
  rows.forEach((element) => sight.observe(element));
  at("more").hidden = !(hits.length >= state.k && state.k < STEPS.at(-1));
  showLike();
}

function summary({ hits, milliseconds, known }) {
  const langs = new Set(hits.map((hit) => hit.lang)).size;
  const parts = [`${several(hits.length, "document")} in ${several(langs, "language")}`];
  if (hits.length === 0) parts[0] = "No documents";
  if (typeof known === "number" && known < 0.995 && state.q) parts.push(`${percent(known)} of the words known`);
  if (typeof milliseconds === "number") parts.push(`${milliseconds < 10 ? milliseconds.toFixed(1) : Math.round(milliseconds)} ms`);
  return parts.join(" · ");
}

function showLike() {
  const line = at("like-of");
  line.hidden = !state.like || !answer;
  if (line.hidden) return;
  line.replaceChildren(
    make("span", {}, "Like ", make("a", { href: write({ ...state, doc: state.like }), "data-go": "", dir: "auto" }, answer.query || "this document")),
    make("span", { class: "meta" }, tongue(answer.lang)),
  );
}

/** One hit of the list. */
function row(hit) {
  const url = webAddress(hit.url);
  const best = Math.max(1, ...answer.hits.map((other) => other.score));
  const share = Math.min(1, Math.max(0, hit.score / best)) || 0;
  const bar = make("i");
  bar.style.setProperty("--share", share.toFixed(4));
  const scored = Number(hit.score).toFixed(2);
  return make(
    "li",
    { class: "hit", "data-id": hit.id },
    make(
      "div",
      { class: "meta" },
      tongue(hit.lang),
      make(
        "span",
        { class: "score", "data-tip": `${MEASURES[answer.measure] ? answer.measure.toUpperCase() : "score"} ${scored}\ncosine ${Number(hit.cosine).toFixed(2)}` },
        make(
          "span",
          { class: "bar", role: "meter", "aria-label": "Score", "aria-valuemin": 0, "aria-valuemax": 1, "aria-valuenow": share.toFixed(2), "aria-valuetext": scored },
          bar,
        ),
        make("span", { "aria-hidden": "true" }, scored),
      ),
    ),
    make("h2", { dir: "auto", lang: hit.lang }, make("a", { href: write({ ...state, doc: hit.id }), "data-go": "" }, titled(hit))),
    make("p", { class: "snippet", dir: "auto", lang: hit.lang }, hit.snippet ?? ""),
    make(
      "div",
      { class: "foot" },
      make("span", { class: "pairs unseen" }),
      make(
        "span",
        { class: "acts" },
        url ? make("a", { class: "act", href: url.href, target: "_blank", rel: "noopener noreferrer", "aria-label": `Source of ${titled(hit)}` }, "Source") : null,
        make("a", { class: "act", href: write(likeState(hit.id)), "data-go": "", "aria-label": `More like ${titled(hit)}` }, "More like this"),
      ),
    ),
  );
}

at("more").addEventListener("click", async () => {
  const before = answer.hits.length;
  go({ k: STEPS.find((step) => step > state.k) });
  const [which, end] = [asked(state), Date.now() + PATIENCE];
  while (Date.now() < end && asked(state) === which && links().length <= before && !at("more").hidden) {
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
  // Whoever has gone elsewhere meanwhile is left there.
  const stayed = [at("more"), at("results"), document.body].includes(document.activeElement);
  if (stayed && asked(state) === which) links()[before]?.focus();
});

export const hitRow = (id) => [...at("hits").children].find((element) => element.dataset.id === id);
export const links = () => [...at("hits").querySelectorAll("h2 a")];

/** Mark the words that made a hit similar, once they are known. */
export function markHit(id) {
  const element = hitRow(id);
  const hit = answer?.hits.find((other) => other.id === id);
  if (!element || !hit) return;
  const { document: weights, pairs, snippet } = explanationOf(id);
  element.querySelector("h2 a").replaceChildren(marked(titled(hit), hit.lang, weights));
  element.querySelector(".snippet").replaceChildren(marked(snippet || hit.snippet || "", hit.lang, weights));
  element.querySelector(".foot .pairs")?.replaceWith(...varied(pairs).slice(0, 3).map(couple));
}
