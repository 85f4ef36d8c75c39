// The paper: a document beside what was asked.

import { act, at, bone, draw, make, webAddress, wide } from "./elements.js";
import { couple, explain, explanationOf, marked, varied } from "./explanations.js";
import { field } from "./field.js";
import { nameOf, tongue } from "./languages.js";
import { hitRow } from "./results.js";
import { answer, pending } from "./search.js";
import { Failure, PATIENCE, ask } from "./server.js";
import { asked, asksNothing, go, likeState, spoken, state, write } from "./state.js";
import { titled } from "./wording.js";

const LONG = 80; // characters from which a title is set smaller

let paperOf = ""; // what is in the panel: document and search
let eager = false; // whether the panel takes the focus when it is filled
let leaving = ""; // the document that is being closed

export function open(id) {
  eager ||= id !== state.doc;
  go({ doc: id });
}

export function close() {
  if (leaving) return; // the step back takes a moment, and a second one would go too far
  leaving = state.doc;
  // A document opened here is one step forward: closing it takes that step back.
  if (history.state?.opened) history.back();
  else go({ doc: "" });
}

function returnTo(id) {
  (hitRow(id)?.querySelector("h2 a") ?? field).focus();
}

/** Give the panel the focus, unless somebody has begun to type. */
function take() {
  if (eager && document.activeElement !== field) at("paper-title").focus({ preventScroll: true });
  eager = false;
}

/** Tell which hit is the document in the panel. */
export function showOpen() {
  for (const element of at("hits").children) element.classList.toggle("open", state.doc !== "" && element.dataset.id === state.doc);
}

export async function showPaper() {
  const paper = at("paper");
  const left = leaving;
  leaving = "";
  showOpen();
  if (!state.doc) {
    paper.hidden = true;
    paperOf = "";
    eager = false;
    hold(false);
    if (left) returnTo(left);
    return;
  }
  const which = JSON.stringify([state.doc, asked(state)]);
  if (which === paperOf) return;
  paperOf = which;
  const id = state.doc;
  const closing = make("button", { type: "button", class: "quiet icon", "aria-label": "Close the document", click: close });
  closing.append(
    draw("svg", { viewBox: "0 0 24 24", width: 20, height: 20, "aria-hidden": "true" }, draw("path", { d: "m6 6 12 12M18 6 6 18", stroke: "currentColor", "stroke-width": 1.75, "stroke-linecap": "round" })),
  );
  const top = make("div", { class: "bar-top" }, make("span"), closing);
  const title = (text) => make("h2", { id: "paper-title", tabindex: -1, dir: "auto" }, text);
  paper.replaceChildren(top, title("Opening…"), bone("div"));
  paper.hidden = false;
  paper.scrollTop = 0;
  hold(!wide.matches);
  try {
    const found = await ask(`documents/${encodeURIComponent(id)}`);
    if (paperOf !== which) return;
    top.firstChild.replaceWith(tongue(found.lang));
    const show = drawPaper(found, top);
    take();
    if (!asksNothing()) show(await reasons(found.id, which));
  } catch (error) {
    if (paperOf !== which) return;
    if (!(error instanceof Failure)) throw error;
    const gone = error.status === 404;
    paper.replaceChildren(
      top,
      title(gone ? "This document is gone." : "The document cannot be shown."),
      make("p", { class: "source" }, gone ? "It is no longer in the index." : error.message),
      make("div", { class: "paper-acts" }, act("Try again", () => { paperOf = ""; showPaper(); })),
    );
    take();
  }
}

/** On a narrow screen the document covers the page, which must not be reached behind it. */
function hold(is) {
  for (const element of [at("ask"), at("results"), at("map"), document.querySelector(".top"), document.querySelector(".bottom")]) element.inert = is;
}

/** Show the document; returns what marks its words, once it is known why it was found. */
function drawPaper(found, top) {
  const url = webAddress(found.url);
  const size = titled(found).length > LONG ? "long" : undefined;
  const title = make("h2", { id: "paper-title", class: size, tabindex: -1, dir: "auto", lang: found.lang }, titled(found));
  const beside = make("div", {}, spoken(state.q) ? askedText(spoken(state.q), answer?.lang, "You asked") : null);
  const lines = found.text.split(/\n+/).filter((line) => line.trim());
  const paragraphs = lines.map((line) => make("p", { dir: "auto" }, line));
  at("paper").replaceChildren(
    top,
    title,
    ...(url ? [make("p", { class: "source" }, make("a", { href: url.href, target: "_blank", rel: "noopener noreferrer" }, url.host))] : []),
    beside,
    make("div", { class: "body", lang: found.lang }, ...paragraphs),
    make("div", { class: "paper-acts" }, make("a", { class: "solid", href: write(likeState(found.id)), "data-go": "" }, "More like this")),
  );
  return (reason) => {
    if (!reason) return;
    const { why, source } = reason;
    title.replaceChildren(marked(titled(found), found.lang, why.document));
    paragraphs.forEach((paragraph, i) => paragraph.replaceChildren(marked(lines[i], found.lang, why.document)));
    const pairs = varied(why.pairs).slice(0, 8).map(couple);
    beside.replaceChildren(
      source
        ? askedText(source.text, source.lang, `Beside ${titled(source)}, in ${nameOf(source.lang)}`, why.query)
        : askedText(spoken(state.q), answer?.lang, `You asked in ${nameOf(answer?.lang ?? "")}`, why.query),
      ...(pairs.length ? [make("div", { class: "why" }, make("span", { class: "label" }, "Words that met"), ...pairs)] : []),
    );
  };
}

function askedText(text, lang, label, weights) {
  // What is long can be scrolled, so it must be reached by keys as well.
  const long = text.length > 300 ? { tabindex: 0, role: "group", "aria-label": label } : {};
  return make("div", { class: "asked-text" }, make("span", { class: "label" }, label), make("div", { class: "asked-body", dir: "auto", lang, ...long }, marked(text, lang, weights)));
}

/** Why the document was found, and the one that it is compared with, if any; null if that is not to be had. */
async function reasons(id, which) {
  // The language of the query is known only once it has been answered.
  for (let waited = 0; (!answer || pending) && waited < PATIENCE && paperOf === which; waited += 50) await new Promise((resolve) => setTimeout(resolve, 50));
  if (paperOf !== which || !answer || id === state.like) return null;
  const [why, source] = await Promise.all([
    explanationOf(id) ?? explain(id).then((why) => why ?? explain(id)), // a search asked again drops what it explains
    state.like ? ask(`documents/${encodeURIComponent(state.like)}`).catch(() => null) : null,
  ]);
  return why && paperOf === which && (source || !state.like) ? { why, source } : null;
}
