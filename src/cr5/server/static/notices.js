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
  box.replaceChildren(make("h2", {}, title), ...(text ? [make("p", {}, text)] : []), ...(shown.length ? [make("div", { class: "row" }, ...shown)] : []));
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
    showNotice("", `None of these words is known${where}.`, "Try other words, or choose the language of the query above.");
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
  if (error.status === 401 || error.status === 403) {
    const input = make("input", { type: "password", name: "key", autocomplete: "off", "aria-label": "Key", required: "" });
    const form = make("form", { class: "row" }, input, make("button", { class: "button-solid" }, "Continue"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      storeApiKey(input.value);
      retry();
    });
    const wrong = apiKey() !== null;
    showNotice(wrong ? "error" : "", wrong ? "The key is wrong." : "This server needs a key.", "Enter the key. It is kept until this tab is closed.", form);
    return;
  }
  if (error.status === 429) {
    let seconds = Math.min(600, Math.max(1, Math.ceil(error.retryAfter) || 10));
    const showSeconds = () => (retryButton.textContent = `Try again (${seconds} s)`);
    byId("status").textContent = "The server is busy.";
    showNotice("", "One moment, please.", "Too many requests in a short time. This page tries again soon.", retryButton);
    showSeconds();
    timer = setInterval(() => {
      seconds -= 1;
      showSeconds();
      if (seconds <= 0) retry();
    }, 1000);
    return;
  }
  if (error.status === 404 && state.like) {
    showNotice("", "This document is gone.", "It is no longer in the index.", makeButton("Start again", () => navigate(INITIAL_STATE)));
    return;
  }
  const title = error.status === 0 ? "No connection." : error.status < 500 ? "The search is not valid." : "Something went wrong on the server.";
  const resettable = error.status >= 400 && error.status < 500 && (state.lang || state.in || state.like);
  const reset = resettable ? makeButton("Remove the filters", () => navigate({ ...INITIAL_STATE, q: state.q, map: state.map })) : null;
  showNotice("error", title, error.message.replace(/[^.!?…]$/, "$&."), retryButton, reset);
  if (error.status === 0) {
    timer = setInterval(async () => {
      if ((await isReachable()) && pendingRetry === retry) retry();
    }, RECONNECT_INTERVAL);
  }
}

addEventListener("online", () => pendingRetry?.());
