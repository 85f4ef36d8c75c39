// The results: the list of hits, and the status line above it.

import { TIMEOUT } from "./api.js";
import { byId, make, makeSkeleton, webUrl } from "./elements.js";
import { explain, explanationOf, visibilityObserver } from "./explanations.js";
import { formatPercent, pluralise, titleOf } from "./format.js";
import { diversified, highlighted, withWords, wordPair } from "./highlights.js";
import { languageLabel } from "./languages.js";
import { describeQuery } from "./notices.js";
import { isWeak, relevance, result } from "./search.js";
import { HIT_COUNTS, MAX_PAGE, hasNoQuery, navigate, searchKey, similarState, state, urlOf } from "./state.js";
import { chooseVersion, hitOf, shownVersion, versionSwitch, versionsOf } from "./versions.js";

const PARTS = { words: "the same words", title: "title", vectors: "meaning" }; // of a score

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
  // After the last hit that is not weak: a preferred language may come first with a slightly lower score.
  const firstWeak = hits.findLastIndex((hit) => !isWeak(hit)) + 1;
  const weak = state.like || firstWeak >= hits.length ? -1 : firstWeak;
  const divider = weak > 0 ? "Less relevant" : `Nothing matches well. ${result ? describeQuery(result) : ""}`;
  if (weak >= 0) items[weak].before(make("li", { class: "divider" }, divider));
  byId("hits").hidden = !items.length;
  if (focusedId !== undefined) {
    const link = (hitElement(focusedId) ?? items[0])?.querySelector("h2 a");
    (link ?? byId("results")).focus({ preventScroll: true });
  }
  items.forEach((element) => visibilityObserver.observe(element));
  byId("more").hidden = !(hits.length >= state.k && state.k < (state.like ? MAX_PAGE : HIT_COUNTS.at(-1)));
  showSimilarTo();
  showSuggestion();
}

function summary({ hits, milliseconds, known, by_subword: bySubword }) {
  const documents = hits.flatMap(versionsOf);
  const langs = new Set(documents.map((document) => document.lang)).size;
  const parts = [`${pluralise(documents.length, "document")} in ${pluralise(langs, "language")}`];
  if (hits.length === 0) parts[0] = "No documents";
  else if (documents.length > hits.length) parts[0] = `${pluralise(hits.length, "subject")}, ${parts[0]}`;
  const someUnknown = typeof known === "number" && known < 0.995;
  const others = bySubword >= 0.005 ? `, ${formatPercent(bySubword)} by their n-grams` : "";
  if (someUnknown && state.q) parts.push(`${formatPercent(known)} of the words are known${others}`);
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

/** Offer the query that was probably meant, if there is one. */
function showSuggestion() {
  const suggestion = state.like ? "" : result?.suggestion;
  byId("suggestion").hidden = !suggestion;
  if (!suggestion) return;
  const attributes = { href: urlOf({ ...state, q: suggestion, doc: "", k: HIT_COUNTS[0] }), "data-internal": "" };
  byId("suggestion").replaceChildren("Did you mean ", make("a", { ...attributes, dir: "auto" }, suggestion), "?");
}

/** How relevant a hit is, as a bar and a percentage. */
function scoreMeter(hit) {
  const dense = result.mode === "dense";
  const share = relevance(hit);
  const bar = make("i");
  bar.style.setProperty("--share", share.toFixed(4));
  const measures = [[result.measure?.toUpperCase(), hit.score], ["cosine", hit.cosine]];
  const parts = dense ? measures : Object.entries(hit.parts ?? {}).map(([name, value]) => [PARTS[name] ?? name, value]);
  const lines = parts.filter(([, value]) => Math.abs(value) >= 0.005).map(([name, value]) => `${name} ${value.toFixed(2)}`);
  const name = dense ? "Similarity" : "Relevance";
  const meter = { role: "meter", "aria-label": name, "aria-valuemin": 0, "aria-valuemax": 1 };
  const values = { "aria-valuenow": share.toFixed(2), "aria-valuetext": formatPercent(share) };
  return make(
    "span",
    { class: "score", "data-tip": [`${name} ${formatPercent(share)}`, ...lines].join("\n") },
    make("span", { class: "bar", ...meter, ...values }, bar),
    make("span", { "aria-hidden": "true" }, formatPercent(share)),
  );
}

/** One hit of the list, in the version that is shown. */
function hitItem(hit) {
  const shown = shownVersion(hit);
  const url = webUrl(shown.url);
  const sourceLink = { target: "_blank", rel: "noopener noreferrer", "aria-label": `Source of ${titleOf(shown)}` };
  const similarLink = { "data-internal": "", "aria-label": `More like ${titleOf(shown)}` };
  const weights = withWords(null, shown.words);
  return make(
    "li",
    { class: "hit", "data-id": hit.id, "data-shown": shown.id },
    make("div", { class: "meta" }, versionSwitch(hit, shown, (id) => switchVersion(hit, id)), scoreMeter(hit)),
    make(
      "h2",
      { dir: "auto", lang: shown.lang },
      make("a", { href: urlOf({ ...state, doc: shown.id }), "data-internal": "" }, highlighted(titleOf(shown), weights)),
    ),
    make("p", { class: "snippet", dir: "auto", lang: shown.lang }, highlighted(shown.snippet ?? "", weights)),
    make(
      "div",
      { class: "hit-footer" },
      make("span", { class: "pairs visually-hidden" }),
      make(
        "span",
        { class: "hit-actions" },
        url ? make("a", { class: "hit-action", href: url.href, ...sourceLink }, "Source") : null,
        make("a", { class: "hit-action", href: urlOf(similarState(shown.id)), ...similarLink }, "More like this"),
      ),
    ),
  );
}

/** Show another version of a hit, once its passage is there, and also where a document of the hit is open. */
export async function switchVersion(hit, id) {
  const before = result;
  if (id !== hit.id && !explanationOf(id)) await explain(id);
  if (result !== before) return;
  const element = hitElement(hit.id);
  const focused = element?.contains(document.activeElement);
  chooseVersion(hit, id);
  const item = hitItem(hit);
  item.className = element?.className ?? item.className;
  element?.replaceWith(item);
  if (explanationOf(id)) highlightHit(id);
  else visibilityObserver.observe(item);
  if (focused) [...item.querySelectorAll("[data-version]")].find((button) => button.dataset.version === id)?.focus();
  if (state.doc && hitOf(state.doc) === hit && state.doc !== id) navigate({ doc: id });
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

/** The element of the hit that a document is, or is a version of. */
export const hitElement = (id) => [...byId("hits").children].find((element) => element.dataset.id === hitOf(id)?.id);
export const hitLinks = () => [...byId("hits").querySelectorAll("h2 a")];

/** Highlight the words that made a hit similar, once its explanation has arrived. */
export function highlightHit(id) {
  const element = hitElement(id);
  if (element?.dataset.shown !== id) return;
  const shown = shownVersion(hitOf(id));
  const { document: explained, pairs, snippet } = explanationOf(id);
  const weak = isWeak(hitOf(id)); // then nothing but its own words explains it
  const weights = withWords(weak ? null : explained, shown.words);
  // The passage of a hit that has words of the query is the one that the search found.
  const passage = shown.words?.length ? shown.snippet : snippet || shown.snippet || "";
  element.querySelector("h2 a").replaceChildren(highlighted(titleOf(shown), weights));
  element.querySelector(".snippet").replaceChildren(highlighted(passage, weights));
  const shownPairs = weak ? [] : diversified(pairs).slice(0, 3);
  element.querySelector(".hit-footer .pairs")?.replaceWith(...shownPairs.map(wordPair));
}
