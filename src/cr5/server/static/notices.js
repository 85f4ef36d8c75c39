// Notices, which are shown in place of results: nothing found, or an error.

import { apiKey, documentCount, isReachable, storeApiKey } from "./api.js";
import { byId, make, makeButton } from "./elements.js";
import { formatList, formatPercent } from "./format.js";
import { languageName } from "./languages.js";
import { isLanguageUnclear } from "./search.js";
import { INITIAL_STATE, navigate, selectedLanguages, state } from "./state.js";

const RECONNECT_INTERVAL = 3000; // milliseconds between checks whether the server is back
const SHOWN_WORDS = 12; // of the query, where nothing was found

let timer = 0; // of the next retry
let pendingRetry = null; // the function that will be called

function showNotice(kind, title, text, ...actions) {
  const box = byId("notice");
  const shown = actions.filter(Boolean);
  box.className = `notice ${kind}`;
  box.role = kind === "error" ? "alert" : null;
  box.hidden = false;
  const row = shown.length ? make("div", { class: "row" }, ...shown) : "";
  box.replaceChildren(make("h2", {}, title), text ? make("p", {}, text) : "", row);
}

/** Stop retrying, because something else is being tried. */
export function cancelRetry() {
  clearInterval(timer);
  pendingRetry = null;
}

export function showNothingFound(result) {
  if (documentCount() === 0) {
    showNotice("", "The index is empty.", "Add documents to it, then search again.");
    return;
  }
  const unclear = isLanguageUnclear(result);
  let [title, advice] = ["Nothing found.", "Try other words, or more of them."];
  if (result.known + result.by_subword === 0 && state.q) {
    title = `The model knows none of these words${unclear ? "" : ` in ${languageName(result.lang)}`}.`;
    advice = "Try other words, or choose the language of the query above.";
  } else if (state.in) {
    title = `Nothing found in ${formatList(selectedLanguages().map(languageName), "disjunction")}.`;
  }
  showNotice(
    "",
    title,
    [state.q ? describeQuery(result) : "", advice].filter(Boolean).join(" "),
    state.in ? makeButton("Search all languages", () => navigate({ in: "" })) : null,
    state.where ? makeButton("Remove the filters", () => navigate({ where: "" })) : null,
    state.mode ? makeButton("Search by words and meaning together", () => navigate({ mode: "", measure: "" })) : null,
  );
}

/** How the server has read the query: its language, unless that is unclear, and its words. */
export function describeQuery(result) {
  const { lang, guessed, confidence, tokens = [] } = result;
  const sure = guessed ? ` (${formatPercent(confidence)} sure)` : "";
  const words = (tokens.length > SHOWN_WORDS ? [...tokens.slice(0, SHOWN_WORDS), "…"] : tokens).join(", ");
  return isLanguageUnclear(result) ? `Words: ${words}.` : `The query was read as ${languageName(lang)}${sure}: ${words}.`;
}

export function showError(error, retry) {
  cancelRetry();
  pendingRetry = retry;
  const retryButton = makeButton("Try again", retry);
  byId("status").textContent = "";
  if (error.status === 401) {
    const attributes = { type: "password", name: "key", autocomplete: "off", "aria-label": "API key", required: "" };
    const input = make("input", attributes);
    const form = make("form", { class: "row" }, input, make("button", { class: "button-solid" }, "Continue"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      storeApiKey(input.value);
      retry();
    });
    const wrong = apiKey() !== null;
    const title = wrong ? "The API key is wrong." : "This server needs an API key.";
    showNotice(wrong ? "error" : "", title, "Enter the API key. It is kept until this tab is closed.", form);
    return;
  }
  if (error.status === 429) {
    let seconds = Math.min(600, Math.max(1, Math.ceil(error.retryAfter) || 10));
    const showSeconds = () => (retryButton.textContent = `Try again (${seconds} s)`);
    byId("status").textContent = "The server is busy.";
    showNotice("", "Too many requests.", `Retrying in ${seconds} s.`, retryButton);
    showSeconds();
    timer = setInterval(() => {
      seconds -= 1;
      showSeconds();
      if (seconds <= 0) retry();
    }, 1000);
    return;
  }
  if (error.status === 404 && state.like) {
    const startAgain = makeButton("Start again", () => navigate(INITIAL_STATE));
    showNotice("", "Document not found.", "It is no longer in the index.", startAgain);
    return;
  }
  let title = error.status < 500 ? "The search is not valid." : "Something went wrong on the server.";
  if (error.status === 0) title = "No connection.";
  const changed = state.lang || state.in || state.like || state.prefer || state.where;
  const resettable = error.status >= 400 && error.status < 500 && changed;
  const resetState = { ...INITIAL_STATE, q: state.q, map: state.map };
  const reset = resettable ? makeButton("Reset", () => navigate(resetState)) : null;
  showNotice("error", title, error.message.replace(/[^.!?…]$/, "$&."), retryButton, reset);
  if (error.status === 0) {
    timer = setInterval(async () => {
      if ((await isReachable()) && pendingRetry === retry) retry();
    }, RECONNECT_INTERVAL);
  }
}

addEventListener("online", () => pendingRetry?.());
