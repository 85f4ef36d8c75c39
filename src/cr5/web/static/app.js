// The search page: the address is the state, the server's answers are drawn from it, and their text is only ever text.

const STEPS = [10, 20, 50, 100]; // how many hits, each time more are wanted
const PAUSE = 220; // milliseconds of rest before what was typed is asked
const PATIENCE = 35_000; // milliseconds to wait for an answer
const FRESH = 300_000; // milliseconds that an answer is kept for, so that Back is instant
const UNSPACED = new Set(["zh", "ja", "th", "lo", "km", "my", "yue", "wuu"]); // written without spaces between words
const WORD = /[\p{L}\p{M}\p{N}\u00ad\u200c\u200d]+/gu;
const FAINT = 0.12; // words below this share of the strongest are not marked
const HUES = 6;
const SHOWN_FILTERS = 9;
const THEMES = ["auto", "light", "dark"];
const MEASURES = { csls: "By CSLS", cosine: "By cosine" };

const at = (id) => document.getElementById(id);
const field = at("q");
const wide = matchMedia("(min-width: 62rem)");

// Making elements -----------------------------------------------------------------------------------------------------

/** An element with attributes and children; a string becomes text, never markup. */
function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** A document's address, if it is one of the web: nothing else becomes a link. */
function webAddress(url) {
  try {
    const address = new URL(url);
    return ["http:", "https:"].includes(address.protocol) ? address : null;
  } catch {
    return null;
  }
}

// Names and numbers ---------------------------------------------------------------------------------------------------

const names = new Intl.DisplayNames(["en"], { type: "language" });
const whole = new Intl.NumberFormat("en");
const percent = (share) => `${Math.round(share * 100)}\u00a0%`;
const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
const several = (count, one, many = `${one}s`) => `${whole.format(count)} ${count === 1 ? one : many}`;
const titled = (paper) => paper.title?.trim() || paper.concept || paper.id;

function nameOf(lang) {
  try {
    return names.of(lang) ?? lang;
  } catch {
    return lang; // no code of a language
  }
}

function listed(items, type = "conjunction") {
  return new Intl.ListFormat("en-GB", { type }).format(items);
}

/** The look of a language: a colour, and a shape that changes where the colours begin again. */
function lookOf(lang) {
  const place = palette.indexOf(lang);
  return place < 0 ? [HUES - 1, 2] : [place % HUES, Math.floor(place / HUES) % 3];
}

function sign(lang) {
  const [hue, shape] = lookOf(lang);
  return make("span", { class: "sign", "data-hue": hue, "data-shape": shape, "aria-hidden": "true" });
}

function tongue(lang) {
  return make("span", { class: "tongue" }, sign(lang), nameOf(lang));
}

// Asking the server ---------------------------------------------------------------------------------------------------

class Failure extends Error {
  constructor(message, status = 0, wait = 0) {
    super(message);
    Object.assign(this, { status, wait });
  }
}

const kept = new Map(); // address -> {time, answer}

function address(path, values) {
  const given = Object.entries(values).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

async function ask(path, signal) {
  const known = kept.get(path);
  if (known && Date.now() - known.time < FRESH) return known.answer;
  const key = remembered("session", "cr5-key");
  const limit = AbortSignal.timeout(PATIENCE);
  let response, answer;
  try {
    response = await fetch(path, {
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      headers: { Accept: "application/json", ...(key ? { "X-API-Key": key } : {}) },
    });
    answer = await response.json().catch((error) => {
      if (error instanceof SyntaxError) return null;
      throw error;
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    if (error.name === "TimeoutError") throw new Failure("The server took too long to answer.");
    throw new Failure("The server cannot be reached. Is it still running?");
  }
  if (!response.ok || answer === null) {
    const said = typeof answer?.error === "string" ? answer.error : `The server answered with status ${response.status}.`;
    throw new Failure(said, response.status, Number(response.headers.get("Retry-After")) || 0);
  }
  kept.set(path, { time: Date.now(), answer });
  if (kept.size > 200) kept.delete(kept.keys().next().value);
  return answer;
}

/** Storage, "local" or "session", may be forbidden: then nothing is remembered. */
function remembered(where, name) {
  try {
    return window[`${where}Storage`].getItem(name);
  } catch {
    return null;
  }
}

function remember(where, name, value) {
  try {
    window[`${where}Storage`].setItem(name, value);
  } catch {
    /* the page works without */
  }
}

// The state, which is the address -------------------------------------------------------------------------------------

const START = { q: "", like: "", lang: "", in: "", k: STEPS[0], measure: "", doc: "", map: "" };

function read(search) {
  const given = new URLSearchParams(search);
  const state = { ...START };
  for (const name of Object.keys(START)) state[name] = given.get(name) ?? START[name];
  state.k = Math.min(100, Math.max(1, Math.trunc(Number(state.k)) || STEPS[0]));
  if (!(state.measure in MEASURES)) state.measure = "";
  if (state.like) state.q = "";
  return state;
}

function write(state) {
  const told = Object.entries(state).filter(([name, value]) => value !== START[name]);
  return told.length ? `?${new URLSearchParams(told)}` : "./";
}

/** What a search depends on: while it stays the same, the results stay. */
const asked = ({ q, like, lang, in: langs, k, measure }) => JSON.stringify([q.trim(), like, lang, langs, k, measure]);

let info = { documents: {}, languages: [], measures: ["csls", "cosine"], examples: [] };
let palette = [];
let state = read(location.search);
let answer = null; // of the search that is shown
let answered = ""; // the search that it belongs to
let rest = 0; // the timer that waits for typing to pause
let composing = false; // whether an input method is at work

/** Go to another state. What is typed in one go is one step back, and so are documents opened one after the other. */
function go(changes, { typing = false } = {}) {
  const unsaid = rest && !("q" in changes) && field.value.trim() ? { q: field.value, like: "" } : {};
  clearTimeout(rest);
  rest = 0;
  const next = { ...state, ...unsaid, ...changes };
  const opening = next.doc !== "" && next.doc !== state.doc;
  const opened = opening && (state.doc === "" || history.state?.opened === true);
  const same = write(next) === write(state);
  const instead = same || (typing && history.state?.typing) || (opened && state.doc !== "");
  history[instead ? "replaceState" : "pushState"](same ? history.state : { typing, opened }, "", write(next));
  state = next;
  show();
}

function show() {
  const view = state.q.trim() || state.like || state.doc ? "results" : "landing";
  document.body.dataset.view = view;
  // What is being typed is never taken away.
  if (!rest && !composing && field.value.trim() !== state.q.trim()) field.value = state.q;
  at("clear").hidden = field.value === "";
  at("options").hidden = view === "landing";
  at("share").hidden = view === "landing" || !navigator.clipboard;
  showFilters();
  if (asked(state) !== answered) search();
  else showMap();
  showPaper();
  name();
}

function name() {
  const what = state.like ? `Like “${answer?.query ?? "…"}”` : state.q.trim();
  const heading = at("heading");
  if (what) heading.textContent = state.like ? what : `Results for “${what}”`;
  else heading.replaceChildren("Ask in one language, ", make("br"), "find in all of them.");
  document.title = what ? `${what.slice(0, 80)} – cr5` : "cr5";
}

// Searching -----------------------------------------------------------------------------------------------------------

let searching = new AbortController();
let countdown = 0;

async function search() {
  searching.abort();
  clearInterval(countdown);
  const mine = (searching = new AbortController());
  const wanted = asked(state);
  forget();
  answered = wanted;
  if (!state.q.trim() && !state.like) {
    showAnswer(null);
    return;
  }
  const late = setTimeout(() => waiting(true), 140);
  try {
    const options = { in: state.in, k: state.k, measure: state.measure };
    const path = state.like
      ? address("similar", { id: state.like, ...options })
      : address("search", { q: state.q.trim(), lang: state.lang, ...options });
    const found = await ask(path, mine.signal);
    if (mine.signal.aborted) return;
    showAnswer(found);
  } catch (error) {
    if (mine.signal.aborted) return;
    showAnswer(null);
    answered = "";
    if (!(error instanceof Failure)) throw error;
    complain(error, () => search());
  } finally {
    clearTimeout(late);
    if (!mine.signal.aborted) waiting(false);
  }
}

function waiting(is) {
  at("progress").hidden = !is;
  at("hits").setAttribute("aria-busy", String(is));
  if (!is) return;
  at("status").textContent = "Searching…";
  at("notice").hidden = true;
  if (!answer) {
    const bone = () => make("li", { class: "bone", "aria-hidden": "true" }, ...[1, 2, 3, 4].map(() => make("i")));
    at("hits").replaceChildren(bone(), bone(), bone());
  }
}

function showAnswer(found) {
  answer = found;
  const hits = found?.hits ?? [];
  at("notice").hidden = true;
  at("status").textContent = found ? summary(found) : "";
  const rows = hits.map(row);
  at("hits").replaceChildren(...rows);
  at("hits").hidden = !rows.length;
  rows.forEach((element) => sight.observe(element));
  at("more").hidden = !(hits.length >= state.k && state.k < STEPS.at(-1));
  showOpen();
  showLike();
  showLanguage();
  echo();
  showMap();
  name();
  if (found && !hits.length) nothing(found);
  if (!found && state.doc && !state.q && !state.like) at("status").textContent = "Ask something to see it beside this document.";
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
  line.hidden = !state.like;
  if (!state.like) return;
  const title = answer?.query || "this document";
  line.replaceChildren(
    make("span", {}, "Like ", make("a", { href: write({ ...state, doc: state.like }), "data-go": "", dir: "auto" }, title)),
    answer?.lang ? make("span", { class: "meta" }, tongue(answer.lang)) : null,
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

const likeState = (id) => ({ ...state, q: "", like: id, lang: "", doc: "", k: STEPS[0] });

// Filters, language, ranking ------------------------------------------------------------------------------------------

const chosen = () => state.in.split(",").filter(Boolean);
let unfolded = false;

function showFilters() {
  const counts = Object.entries(info.documents).sort(([a, n], [b, m]) => m - n || (nameOf(a) < nameOf(b) ? -1 : 1));
  const on = new Set(chosen());
  const shown = unfolded || counts.length <= SHOWN_FILTERS + 1 ? counts : counts.filter(([lang], i) => i < SHOWN_FILTERS || on.has(lang));
  const button = (lang, pressed, ...content) =>
    make("button", { type: "button", "aria-pressed": String(pressed), "data-filter": lang }, ...content);
  const focused = document.activeElement?.dataset?.filter;
  const buttons = shown.map(([lang, count]) =>
    button(lang, on.has(lang), sign(lang), nameOf(lang), " ", make("span", { class: "number" }, whole.format(count))),
  );
  if (shown.length < counts.length) {
    buttons.push(make("button", { type: "button", "data-unfold": "", "aria-expanded": "false" }, `${counts.length - shown.length} more`));
  }
  at("filters").replaceChildren(...(counts.length > 1 ? [button("", on.size === 0, "All languages"), ...buttons] : []));
  if (focused !== undefined) {
    [...at("filters").children].find((element) => element.dataset.filter === focused)?.focus();
  }
  const ranking = at("measure");
  ranking.replaceChildren(...info.measures.map((measure) => make("option", { value: measure }, MEASURES[measure] ?? measure)));
  ranking.value = state.measure || info.measures[0];
  at("ranked-by").hidden = info.measures.length < 2;
  showLanguage();
}

function showLanguage() {
  at("asked-in").hidden = Boolean(state.like) || !state.q.trim();
  let guess = "Language guessed";
  if (!state.lang && answer?.lang && answer.guessed !== false && state.q) {
    guess = nameOf(answer.lang) + (typeof answer.confidence === "number" ? `, ${percent(answer.confidence)}` : "");
  } else if (state.lang) guess = "Guess the language";
  const langs = [...info.languages].sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
  if (state.lang && !langs.includes(state.lang)) langs.push(state.lang);
  at("lang").replaceChildren(make("option", { value: "" }, guess), ...langs.map((lang) => make("option", { value: lang }, nameOf(lang))));
  at("lang").value = state.lang;
}

at("filters").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if ("unfold" in button.dataset) {
    unfolded = true;
    showFilters();
    at("filters").children[SHOWN_FILTERS + 1]?.focus();
    return;
  }
  const lang = button.dataset.filter;
  const on = new Set(lang === "" ? [] : chosen());
  if (lang && !on.delete(lang)) on.add(lang);
  const all = Object.keys(info.documents).every((other) => on.has(other));
  go({ in: all ? "" : [...on].sort().join(","), k: STEPS[0] });
});
at("lang").addEventListener("change", () => go({ lang: at("lang").value }));
at("measure").addEventListener("change", () => go({ measure: at("measure").value === info.measures[0] ? "" : at("measure").value }));
at("more").addEventListener("click", async () => {
  const before = answer.hits.length;
  go({ k: STEPS.find((step) => step > state.k) });
  const end = Date.now() + PATIENCE;
  while (Date.now() < end && at("hits").querySelectorAll(".hit").length <= before && !at("more").hidden) {
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
  links()[before]?.focus();
});

// When there is nothing to show ---------------------------------------------------------------------------------------

function notice(kind, title, text, ...actions) {
  const box = at("notice");
  const given = actions.filter(Boolean);
  box.className = `notice ${kind}`;
  box.role = kind === "bad" ? "alert" : null;
  box.hidden = false;
  box.replaceChildren(make("h2", {}, title), ...(text ? [make("p", {}, text)] : []), ...(given.length ? [make("div", { class: "row" }, ...given)] : []));
}

const act = (label, click) => make("button", { type: "button", class: "solid", click }, label);

function nothing(found) {
  const total = Object.values(info.documents).reduce((sum, count) => sum + count, 0);
  if (total === 0) notice("", "The index is empty.", "Add documents to it, then ask again.");
  else if (found.known === 0 && state.q) {
    notice("", `No word of this is known in ${nameOf(found.lang)}.`, "Try other words, or choose the language of the query above.");
  } else if (state.in) {
    notice("", `Nothing found in ${listed(chosen().map(nameOf), "disjunction")}.`, "", act("Search all languages", () => go({ in: "" })));
  } else notice("", "Nothing found.", "Try other words, or more of them.");
}

function complain(failure, retry) {
  clearInterval(countdown);
  const again = act("Try again", retry);
  at("status").textContent = "";
  if (failure.status === 401 || failure.status === 403) {
    const key = make("input", { type: "password", name: "key", autocomplete: "off", "aria-label": "Key", required: "" });
    const form = make("form", { class: "row" }, key, make("button", { class: "solid" }, "Open"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      remember("session", "cr5-key", key.value);
      retry();
    });
    const refused = remembered("session", "cr5-key") !== null;
    notice(refused ? "bad" : "", refused ? "That key does not open it." : "This search is locked.", "Enter its key; it is kept until this tab is closed.", form);
    return;
  }
  if (failure.status === 429) {
    let left = Math.min(600, Math.max(1, Math.ceil(failure.wait) || 10));
    const tell = () => (again.textContent = `Try again (${left} s)`);
    at("status").textContent = "The server is busy.";
    notice("", "One moment, please.", "Too many questions in a short time; the server answers again soon.", again);
    tell();
    countdown = setInterval(() => {
      left -= 1;
      tell();
      if (left <= 0) {
        clearInterval(countdown);
        retry();
      }
    }, 1000);
    return;
  }
  const title = failure.status === 0 ? "No connection." : failure.status < 500 ? "That cannot be answered." : "Something went wrong on the server.";
  const reset = failure.status >= 400 && failure.status < 500 && (state.lang || state.in || state.like);
  notice("bad", title, failure.message, again, reset ? act("Without filters", () => go({ ...START, q: state.q, map: state.map })) : null);
}

// Words that matched across languages ---------------------------------------------------------------------------------

let explanations = new Map(); // id -> explanation, for the answer that is shown
let queue = [];
let running = 0;
let explaining = new AbortController();
let lit = null; // the hit under the pointer or the focus

function forget() {
  explaining.abort();
  explaining = new AbortController();
  explanations = new Map();
  queue = [];
  lit = null;
}

const sight = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    sight.unobserve(target);
    queue.push(target.dataset.id);
  }
  work();
});

async function work() {
  while (queue.length && running < 3) {
    const id = queue.shift();
    running += 1;
    explain(id).finally(() => {
      running -= 1;
      work();
    });
  }
}

/** Why a document was found; marks it wherever it is shown. */
async function explain(id) {
  const { signal } = explaining;
  const base = state.like ? { of: state.like } : { q: state.q.trim(), lang: answer?.lang };
  try {
    const why = await ask(address("explain", { ...base, id }), signal);
    if (signal.aborted) return null;
    explanations.set(id, { query: weigh(why.query_words, why.pairs, 0), document: weigh(why.document_words, why.pairs, 1), pairs: strongest(why.pairs) });
    markHit(id);
    echo();
    return explanations.get(id);
  } catch (error) {
    // Marks are a help, not the answer: without them the results stand as they are. A busy server is asked again later.
    if (error.status === 429 && !signal.aborted) {
      setTimeout(() => {
        if (signal.aborted) return;
        queue.push(id);
        work();
      }, 1000 * Math.max(2, error.wait));
    }
    return null;
  }
}

const strongest = (pairs) => pairs.filter(([, , value]) => value > 0 && value >= FAINT * pairs[0][2]);
const plain = (word) => word.normalize("NFKC").replaceAll("\u00ad", "").toLowerCase();

/** word -> how strongly it is marked (1 to 3), its value and what to tell about it; ``side`` of the pairs it stands on. */
function weigh(words, pairs, side) {
  const top = Math.max(0, ...words.map(([, value]) => value));
  const weights = new Map();
  for (const [word, value] of words) {
    if (value <= 0 || value < FAINT * top) continue;
    weights.set(word, { value, strength: value >= 0.6 * top ? 3 : value >= 0.3 * top ? 2 : 1, tip: `${word} ${signed(value)}` });
  }
  const told = new Map();
  for (const pair of strongest(pairs)) {
    const word = pair[side];
    told.set(word, [...(told.get(word) ?? []), `${pair[0]} ~ ${pair[1]} ${signed(pair[2])}`]);
    if (!weights.has(word)) weights.set(word, { value: pair[2], strength: 1, tip: "" });
  }
  for (const [word, lines] of told) weights.get(word).tip = lines.slice(0, 3).join("\n");
  return weights;
}

function* wordsOf(text, lang) {
  if (UNSPACED.has((lang ?? "").split(/[-_]/)[0].toLowerCase()) && Intl.Segmenter) {
    for (const { segment, index, isWordLike } of new Intl.Segmenter("und", { granularity: "word" }).segment(text)) {
      if (isWordLike) yield [index, segment];
    }
  } else {
    for (const match of text.matchAll(WORD)) yield [match.index, match[0]];
  }
}

/** The text with its words marked by their weights. */
function marked(text, lang, weights) {
  const parts = new DocumentFragment();
  let end = 0;
  if (weights?.size) {
    for (const [start, word] of wordsOf(text, lang)) {
      const weight = weights.get(plain(word));
      if (!weight) continue;
      parts.append(text.slice(end, start), make("mark", { "data-strength": weight.strength, "data-tip": weight.tip }, word));
      end = start + word.length;
    }
  }
  parts.append(text.slice(end));
  return parts;
}

const hitRow = (id) => [...at("hits").children].find((element) => element.dataset.id === id);
const links = () => [...at("hits").querySelectorAll("h2 a")];

function markHit(id) {
  const element = hitRow(id);
  const hit = answer?.hits.find((other) => other.id === id);
  if (!element || !hit) return;
  const { document: weights, pairs } = explanations.get(id);
  element.querySelector("h2 a").replaceChildren(marked(titled(hit), hit.lang, weights));
  element.querySelector(".snippet").replaceChildren(marked(hit.snippet ?? "", hit.lang, weights));
  element.querySelector(".foot .pairs")?.replaceWith(...varied(pairs).slice(0, 3).map(couple));
}

/** The pairs, those first that bring words not met before: three of them should tell more than one word does. */
function varied(pairs) {
  const met = new Set();
  const first = pairs.filter(([a, b]) => {
    const fresh = !met.has(`0${a}`) && !met.has(`1${b}`);
    if (fresh) met.add(`0${a}`).add(`1${b}`);
    return fresh;
  });
  return [...first, ...pairs.filter((pair) => !first.includes(pair))];
}

function couple([a, b, value]) {
  return make("span", { class: "pair", "data-tip": `${a} ~ ${b} ${signed(value)}` }, make("bdi", {}, a), make("i", {}, "~"), make("bdi", {}, b));
}

/** What the query's words did: for the hit that is lit, else the most that each did for any hit. */
function queryWeights() {
  if (lit !== null && explanations.has(lit)) return explanations.get(lit).query;
  const weights = new Map();
  for (const { query } of explanations.values()) {
    for (const [word, weight] of query) if (weight.value > (weights.get(word)?.value ?? 0)) weights.set(word, weight);
  }
  return weights;
}

function echo() {
  const settled = answer && field.value.trim() === state.q.trim();
  // The last line needs a letter to be as high as the others.
  at("echo").replaceChildren(marked(field.value, answer?.lang, settled ? queryWeights() : null), "\u200b");
}

function light(id) {
  if (lit === id) return;
  lit = id;
  for (const element of document.querySelectorAll("[data-id]")) element.classList.toggle("lit", element.dataset.id === id);
  echo();
}

for (const [begin, end] of [["pointerover", "pointerout"], ["focusin", "focusout"]]) {
  at("columns").addEventListener(begin, (event) => {
    const element = event.target.closest("[data-id]");
    if (element) light(element.dataset.id);
  });
  at("columns").addEventListener(end, (event) => {
    if (event.target.closest("[data-id]") && !event.relatedTarget?.closest?.("[data-id]")) light(null);
  });
}

// The map -------------------------------------------------------------------------------------------------------------

const [WIDTH, HEIGHT, MARGIN] = [420, 400, 44];

const mapWanted = () => (state.map === "" ? wide.matches : state.map === "1");

function showMap() {
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
wide.addEventListener("change", () => show());

// A document beside the query -----------------------------------------------------------------------------------------

let paperOf = ""; // what is in the panel: document and search
let eager = false; // whether the panel takes the focus when it is filled

function open(id) {
  eager = true;
  go({ doc: id });
}

function close() {
  const id = state.doc;
  // A document opened here is one step forward: closing it takes that step back.
  if (history.state?.opened) {
    addEventListener("popstate", () => returnTo(id), { once: true });
    history.back();
  } else {
    go({ doc: "" });
    returnTo(id);
  }
}

function returnTo(id) {
  (hitRow(id)?.querySelector("h2 a") ?? field).focus();
}

/** Tell which hit is the document in the panel. */
function showOpen() {
  for (const element of at("hits").children) element.classList.toggle("open", state.doc !== "" && element.dataset.id === state.doc);
}

async function showPaper() {
  const paper = at("paper");
  showOpen();
  if (!state.doc) {
    paper.hidden = true;
    paperOf = "";
    hold(false);
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
  const bones = make("div", { class: "bone", "aria-hidden": "true" }, ...[1, 2, 3, 4].map(() => make("i")));
  paper.replaceChildren(top, title("Opening…"), bones);
  paper.hidden = false;
  paper.scrollTop = 0;
  hold(!wide.matches);
  try {
    const found = await ask(`documents/${encodeURIComponent(id)}`);
    if (paperOf !== which) return;
    top.firstChild.replaceWith(tongue(found.lang));
    const tell = drawPaper(found, top);
    if (eager) at("paper-title").focus({ preventScroll: true });
    eager = false;
    if (state.q.trim() || state.like) tell(await reasons(found.id, which));
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
    if (eager) at("paper-title").focus();
    eager = false;
  }
}

/** On a narrow screen the document covers the page, which must not be reached behind it. */
function hold(is) {
  for (const element of [at("ask"), at("results"), at("map"), document.querySelector(".top"), document.querySelector(".bottom")]) element.inert = is;
}

/** Show the document; returns what marks its words, once it is known why it was found. */
function drawPaper(found, top) {
  const url = webAddress(found.url);
  const title = make("h2", { id: "paper-title", tabindex: -1, dir: "auto", lang: found.lang }, titled(found));
  const beside = make("div", {}, state.q.trim() ? askedText(state.q.trim(), answer?.lang, "You asked") : null);
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
        : askedText(state.q.trim(), answer?.lang, `You asked in ${nameOf(answer?.lang ?? "")}`, why.query),
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
  for (let waited = 0; !answer && waited < PATIENCE && paperOf === which; waited += 50) await new Promise((resolve) => setTimeout(resolve, 50));
  if (paperOf !== which || !answer || id === state.like) return null;
  const [why, source] = await Promise.all([
    explanations.get(id) ?? explain(id),
    state.like ? ask(`documents/${encodeURIComponent(state.like)}`).catch(() => null) : null,
  ]);
  return why && paperOf === which && (source || !state.like) ? { why, source } : null;
}

// Hands: typing, keys, pointer ----------------------------------------------------------------------------------------

field.addEventListener("input", (event) => {
  at("clear").hidden = field.value === "";
  echo();
  clearTimeout(rest);
  if (!event.isComposing) rest = setTimeout(submit, PAUSE, true);
});
field.addEventListener("compositionstart", () => (composing = true));
field.addEventListener("compositionend", () => {
  composing = false;
  clearTimeout(rest);
  rest = setTimeout(submit, PAUSE, true);
});

function submit(still = false) {
  clearTimeout(rest);
  rest = 0;
  if (still && field.value.trim() === state.q.trim()) return;
  const q = still ? field.value : field.value.trim();
  if (q.trim() === "" && state.like) return;
  if (q.trim() === "") go({ ...START, in: state.in, measure: state.measure, map: state.map }, { typing: still });
  else if (q.trim() !== state.q.trim()) go({ q, like: "", doc: "", k: STEPS[0] }, { typing: still });
  else if (answered === "") search();
  if (!still) history.replaceState({ ...history.state, typing: false }, "");
}

at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
at("clear").addEventListener("click", () => {
  field.value = "";
  submit();
  echo();
  at("clear").hidden = true;
  field.focus();
});

document.addEventListener("click", (event) => {
  const hit = event.target.closest(".hit");
  if (hit && !event.target.closest("a") && event.pointerType !== "touch") open(hit.dataset.id); // a mark lies above the link
  const link = event.target.closest("a[data-go], #home");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const next = read(new URL(link.href).search);
  if (next.doc) {
    open(next.doc);
    return;
  }
  go(next);
  scrollTo({ top: 0 });
  if (link.id === "home") field.focus();
  else if (next.like) at("results").focus({ preventScroll: true });
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const { key, target } = event;
  const writes = target.closest("input, textarea, select");
  if (key === "/" && !writes) {
    event.preventDefault();
    field.focus();
    field.select();
  } else if (key === "Enter" && target === field && !event.shiftKey) {
    event.preventDefault();
    submit();
  } else if (key === "Escape") {
    hideTip();
    if (state.doc) {
      event.preventDefault();
      close();
    } else if (target.closest("#columns")) field.focus();
  } else if (key === "ArrowDown" && target === field) {
    const oneLine = field.clientHeight < 60;
    const atEnd = field.selectionStart === field.value.length;
    if ((oneLine || atEnd) && links().length) {
      event.preventDefault();
      links()[0].focus();
    }
  } else if ((key === "ArrowDown" || key === "ArrowUp") && target.closest("#hits")) {
    event.preventDefault();
    const all = links();
    const here = all.indexOf(target.closest(".hit").querySelector("h2 a"));
    const next = here + (key === "ArrowDown" ? 1 : -1);
    if (next < 0) field.focus();
    else if (next >= all.length) (at("more").hidden ? all.at(-1) : at("more")).focus();
    else {
      all[next].focus();
      all[next].closest(".hit").scrollIntoView({ block: "nearest" });
    }
  } else if (key === "ArrowUp" && target === at("more")) {
    event.preventDefault();
    links().at(-1)?.focus();
  }
});

addEventListener("popstate", () => {
  clearTimeout(rest);
  rest = 0;
  state = read(location.search);
  field.value = state.q;
  show();
  echo();
});
addEventListener("online", () => {
  if (at("notice").classList.contains("bad") && !at("notice").hidden) search();
});

at("share").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(location.href);
    at("share").textContent = "Copied";
  } catch {
    at("share").textContent = "Copy it from the address bar";
  }
  setTimeout(() => (at("share").textContent = "Copy link"), 1800);
});

// A word's tooltip: under the pointer, a finger or the focus; over the field it is found by where the pointer is.
function showTip(text, box) {
  const tip = at("tip");
  tip.textContent = text;
  tip.hidden = false;
  const size = tip.getBoundingClientRect();
  const left = Math.min(innerWidth - size.width - 8, Math.max(8, box.left + box.width / 2 - size.width / 2));
  const above = box.top - size.height - 8;
  tip.style.left = `${left}px`;
  tip.style.top = `${above > 4 ? above : box.bottom + 8}px`;
}

function hideTip() {
  at("tip").hidden = true;
}

for (const kind of ["pointerover", "focusin"]) {
  document.addEventListener(kind, (event) => {
    const element = event.target.closest?.("[data-tip]");
    if (element && element.dataset.tip) showTip(element.dataset.tip, element.getBoundingClientRect());
    else hideTip();
  });
}
field.addEventListener("pointermove", ({ clientX: x, clientY: y }) => {
  for (const word of at("echo").querySelectorAll("mark")) {
    const box = [...word.getClientRects()].find((part) => x >= part.left && x <= part.right && y >= part.top && y <= part.bottom);
    if (box) {
      showTip(word.dataset.tip, box);
      return;
    }
  }
  hideTip();
});
addEventListener("scroll", hideTip, { passive: true, capture: true });

function dress(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  at("theme").setAttribute("aria-label", `Colours: ${theme === "auto" ? "as the system" : theme}`);
  at("theme").dataset.tip = at("theme").getAttribute("aria-label");
}

at("theme").addEventListener("click", () => {
  const now = document.documentElement.dataset.theme ?? "auto";
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  remember("local", "cr5-theme", next);
  dress(next);
  showTip(at("theme").dataset.tip, at("theme").getBoundingClientRect());
});

new ResizeObserver(() => {
  document.documentElement.style.setProperty("--under", `${at("ask").offsetHeight + 12}px`);
}).observe(at("ask"));

// Beginning -----------------------------------------------------------------------------------------------------------

function introduce() {
  const langs = Object.keys(info.documents).filter((lang) => info.documents[lang] > 0);
  const total = Object.values(info.documents).reduce((sum, count) => sum + count, 0);
  palette = [...new Set([...info.languages, ...langs])].sort();
  const where = langs.length > 6 ? `${langs.length} languages` : listed(langs.map(nameOf).sort());
  at("lede").textContent = total ? `${several(total, "document")} in ${where}. Type a word, a question or a whole paragraph.` : "";
  at("about").textContent = info.version ? `cr5 ${info.version} · ${several(info.languages.length, "language")}${info.rank ? ` · rank ${info.rank}` : ""}` : "";
  at("examples").hidden = !info.examples.length;
  at("examples").replaceChildren(
    "Try ",
    ...info.examples.slice(0, 6).map(({ lang, text }) =>
      make("a", { href: write({ ...START, q: text }), "data-go": "", "data-tip": nameOf(lang) }, sign(lang), make("span", { dir: "auto", lang }, text)),
    ),
  );
}

async function begin() {
  at("notice").hidden = true;
  try {
    info = { ...info, ...(await ask("info")) };
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    showFilters();
    complain(error, begin);
    return;
  }
  introduce();
  answered = "";
  show();
  if (document.body.dataset.view === "landing") field.focus({ preventScroll: true });
}

const theme = remembered("local", "cr5-theme");
dress(THEMES.includes(theme) ? theme : "auto");
document.body.dataset.view = state.q.trim() || state.like || state.doc ? "results" : "landing";
field.value = state.q;
begin();
