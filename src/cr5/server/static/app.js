// The search page begins here: what each piece of news leads to.
//
// what the page knows     state (the address), server, search (the answer that is shown), explanations
// what it draws           field, options, results, notices, map, paper (an open document), tip; theme before anything else
// what it is done with    elements, languages, wording, news, hands (clicks and keys), still (no change under a pressed pointer)
//
// What the server sends is only ever text.

import { at, make, wide } from "./elements.js";
import { forget } from "./explanations.js";
import { echo, field, showField } from "./field.js";
import "./hands.js";
import { colour, nameOf, sign } from "./languages.js";
import { showMap } from "./map.js";
import { on } from "./news.js";
import { complain, nothing, quiet } from "./notices.js";
import { showFilters, showLanguage } from "./options.js";
import { showOpen, showPaper } from "./paper.js";
import { markHit, showHits, waiting } from "./results.js";
import { answer, search, settled, unsettle } from "./search.js";
import { Failure, info, inquire, total } from "./server.js";
import { START, asksNothing, spoken, state, write } from "./state.js";
import { listed, several } from "./wording.js";

let [beginning, introduced] = [false, false];

on("travel", () => (field.value = state.q));
on("state", show);
on("asking", () => {
  quiet();
  forget();
});
on("waiting", waiting);
on("answer", () => {
  showHits();
  showOpen();
  showLanguage();
  echo();
  showMap();
  entitle();
  if (answer && !answer.hits.length) nothing(answer);
  if (answer && !introduced && !beginning) begin(); // the server is back
});
on("failure", complain);
on("explained", (id) => {
  markHit(id);
  echo();
});
on("lit", echo);
wide.addEventListener("change", show);

function show() {
  const view = asksNothing() && !state.doc ? "landing" : "results";
  document.body.dataset.view = view;
  showField();
  at("options").hidden = view === "landing";
  at("share").hidden = view === "landing" || !navigator.clipboard;
  showFilters();
  if (settled()) showMap();
  else search();
  showPaper();
  entitle();
}

function entitle() {
  const what = state.like ? `Like “${answer?.query ?? "…"}”` : spoken(state.q);
  const heading = at("heading");
  if (what) heading.textContent = state.like ? what : `Results for “${what}”`;
  else heading.replaceChildren("Ask in one language, ", make("br"), "find in all of them.");
  document.title = what ? `${what.slice(0, 80)} – cr5` : "cr5";
}

/** Say what there is to be found. */
function introduce() {
  introduced = true;
  const langs = Object.keys(info.documents).filter((lang) => info.documents[lang] > 0);
  colour([...info.languages, ...langs]);
  const where = langs.length > 6 ? `${langs.length} languages` : listed(langs.map(nameOf).sort());
  const sentences = [`${several(total(), "document")} in ${where}. `, "Type a word, a question or a whole paragraph."];
  at("lede").replaceChildren(...(total() ? sentences.map((sentence) => make("span", {}, sentence)) : []));
  at("about").textContent = info.version ? `cr5 ${info.version} · ${several(info.languages.length, "language")}${info.rank ? ` · rank ${info.rank}` : ""}` : "";
  at("examples").hidden = !info.examples.length;
  at("examples").replaceChildren(
    "Try ",
    ...info.examples.map(({ lang, text }) =>
      make("a", { href: write({ ...START, q: text }), "data-go": "" }, sign(lang), make("span", { dir: "auto", lang }, text), make("span", { class: "number" }, nameOf(lang))),
    ),
  );
}

async function begin() {
  beginning = true;
  quiet();
  at("notice").hidden = true;
  try {
    await inquire();
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    showFilters();
    complain(error, begin);
    return;
  } finally {
    beginning = false;
  }
  introduce();
  unsettle(); // what was found before had no colours
  show();
  const idle = document.activeElement === document.body || at("notice").contains(document.activeElement);
  if (idle && document.body.dataset.view === "landing") field.focus({ preventScroll: true });
}

new ResizeObserver(() => {
  document.documentElement.style.setProperty("--under", `${at("ask").offsetHeight + 12}px`);
}).observe(at("ask"));

document.body.dataset.view = asksNothing() && !state.doc ? "landing" : "results";
field.value = state.q;
echo();
begin();
