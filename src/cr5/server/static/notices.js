// Notices, which are shown in place of results: nothing found, or an error.

import { apiKey, documentCount, isReachable, storeApiKey } from "./api.js";
import { byId, make, makeButton } from "./elements.js";
import { formatList } from "./format.js";
import { languageName } from "./languages.js";
import { isLanguageUnclear } from "./search.js";
import { INITIAL_STATE, navigate, selectedLanguages, state } from "./state.js";

const RECONNECT_INTERVAL = 3000; // milliseconds between checks whether the server is back

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
  if (documentCount() === 0) showNotice("", "The index is empty.", "Add documents to it, then search again.");
  else if (result.known === 0 && state.q) {
    const where = isLanguageUnclear(result) ? "" : ` in ${languageName(result.lang)}`;
    const advice = "Try other words, or choose the language of the query above.";
    showNotice("", `The model knows none of these words${where}.`, advice);
  } else if (state.in) {
    const langs = formatList(selectedLanguages().map(languageName), "disjunction");
    showNotice("", `Nothing found in ${langs}.`, "", makeButton("Search all languages", () => navigate({ in: "" })));
  } else showNotice("", "Nothing found.", "Try other words, or more of them.");
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
  const resettable = error.status >= 400 && error.status < 500 && (state.lang || state.in || state.like);
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
