// The results: the list of hits, and the status line above it.

import { TIMEOUT } from "./api.js";
import { byId, make, makeSkeleton, webUrl } from "./elements.js";
import { explanationOf, visibilityObserver } from "./explanations.js";
import { formatPercent, pluralise, titleOf } from "./format.js";
import { diversified, highlighted, wordPair } from "./highlights.js";
import { languageLabel } from "./languages.js";
import { result } from "./search.js";
import { HIT_COUNTS, MEASURES, hasNoQuery, navigate, searchKey, similarState, state, urlOf } from "./state.js";

export function showLoading(loading) {
  byId("progress").hidden = !loading;
  byId("hits").setAttribute("aria-busy", String(loading));
  if (!loading) return;
  byId("status").textContent = "Searching…";
  byId("notice").hidden = true;
  if (!result) {
    byId("hits").hidden = false;
    byId("hits").replaceChildren(makeSkeleton("li"), makeSkeleton("li"), makeSkeleton("li"));
  }
}

export function showHits() {
  const hits = result?.hits ?? [];
  byId("notice").hidden = true;
  byId("status").textContent = result ? summary(result) : "";
  if (!result && state.doc && hasNoQuery()) {
    byId("status").textContent = "Search for something to compare it with this document.";
  }
  const items = hits.map(hitItem);
  const focusedId = document.activeElement?.closest(".hit")?.dataset.id;
  byId("hits").replaceChildren(...items);
  byId("hits").hidden = !items.length;
  if (focusedId !== undefined) {
    const link = (hitElement(focusedId) ?? items[0])?.querySelector("h2 a");
    (link ?? byId("results")).focus({ preventScroll: true });
  }
  items.forEach((element) => visibilityObserver.observe(element));
  byId("more").hidden = !(hits.length >= state.k && state.k < HIT_COUNTS.at(-1));
  showSimilarTo();
}

function summary({ hits, milliseconds, known }) {
  const langs = new Set(hits.map((hit) => hit.lang)).size;
  const parts = [`${pluralise(hits.length, "document")} in ${pluralise(langs, "language")}`];
  if (hits.length === 0) parts[0] = "No documents";
  const someUnknown = typeof known === "number" && known < 0.995;
  if (someUnknown && state.q) parts.push(`${formatPercent(known)} of the words are known`);
  if (typeof milliseconds === "number") parts.push(`${milliseconds.toFixed(milliseconds < 10 ? 1 : 0)} ms`);
  return parts.join(" · ");
}

/** Name the document that the hits are similar to, if there is one. */
function showSimilarTo() {
  const line = byId("similar-to");
  line.hidden = !state.like || !result;
  if (line.hidden) return;
  const attributes = { href: urlOf({ ...state, doc: state.like }), "data-internal": "", dir: "auto" };
  line.replaceChildren(
    make("span", {}, "Similar to ", make("a", attributes, result.query || "this document")),
    make("span", { class: "meta" }, languageLabel(result.lang)),
  );
}

/** One hit of the list. */
function hitItem(hit) {
  const url = webUrl(hit.url);
  const bestScore = Math.max(1, ...result.hits.map((other) => other.score));
  const share = Math.min(1, Math.max(0, hit.score / bestScore)) || 0;
  const bar = make("i");
  bar.style.setProperty("--share", share.toFixed(4));
  const score = Number(hit.score).toFixed(2);
  const measure = MEASURES[result.measure] ? result.measure.toUpperCase() : "score";
  const meter = { role: "meter", "aria-label": "Score", "aria-valuemin": 0, "aria-valuemax": 1 };
  const sourceLink = { target: "_blank", rel: "noopener noreferrer", "aria-label": `Source of ${titleOf(hit)}` };
  const similarLink = { "data-internal": "", "aria-label": `More like ${titleOf(hit)}` };
  return make(
    "li",
    { class: "hit", "data-id": hit.id },
    make(
      "div",
      { class: "meta" },
      languageLabel(hit.lang),
      make(
        "span",
        { class: "score", "data-tip": `${measure} ${score}\ncosine ${Number(hit.cosine).toFixed(2)}` },
        make(
          "span",
          { class: "bar", ...meter, "aria-valuenow": share.toFixed(2), "aria-valuetext": score },
          bar,
        ),
        make("span", { "aria-hidden": "true" }, score),
      ),
    ),
    make(
      "h2",
      { dir: "auto", lang: hit.lang },
      make("a", { href: urlOf({ ...state, doc: hit.id }), "data-internal": "" }, titleOf(hit)),
    ),
    make("p", { class: "snippet", dir: "auto", lang: hit.lang }, hit.snippet ?? ""),
    make(
      "div",
      { class: "hit-footer" },
      make("span", { class: "pairs visually-hidden" }),
      make(
        "span",
        { class: "hit-actions" },
        url ? make("a", { class: "hit-action", href: url.href, ...sourceLink }, "Source") : null,
        make("a", { class: "hit-action", href: urlOf(similarState(hit.id)), ...similarLink }, "More like this"),
      ),
    ),
  );
}

byId("more").addEventListener("click", async () => {
  const before = result.hits.length;
  navigate({ k: HIT_COUNTS.find((count) => count > state.k) });
  const [key, deadline] = [searchKey(state), Date.now() + TIMEOUT];
  while (Date.now() < deadline && searchKey(state) === key && hitLinks().length <= before && !byId("more").hidden) {
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
  // Leave the focus where it is if the user has moved it meanwhile.
  const stayed = [byId("more"), byId("results"), document.body].includes(document.activeElement);
  if (stayed && searchKey(state) === key) hitLinks()[before]?.focus();
});

export const hitElement = (id) => [...byId("hits").children].find((element) => element.dataset.id === id);
export const hitLinks = () => [...byId("hits").querySelectorAll("h2 a")];

/** Highlight the words that made a hit similar, once its explanation has arrived. */
export function highlightHit(id) {
  const element = hitElement(id);
  const hit = result?.hits.find((other) => other.id === id);
  if (!element || !hit) return;
  const { document: weights, pairs, snippet } = explanationOf(id);
  element.querySelector("h2 a").replaceChildren(highlighted(titleOf(hit), weights));
  element.querySelector(".snippet").replaceChildren(highlighted(snippet || hit.snippet || "", weights));
  element.querySelector(".hit-footer .pairs")?.replaceWith(...diversified(pairs).slice(0, 3).map(wordPair));
}
