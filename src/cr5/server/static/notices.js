// Notices: what stands in place of results.

import { act, at, make } from "./elements.js";
import { nameOf } from "./languages.js";
import { unsure } from "./search.js";
import { key, keepKey, reachable, total } from "./server.js";
import { START, chosen, go, state } from "./state.js";
import { listed } from "./wording.js";

const EVERY = 3000; // milliseconds between two looks whether a lost server is back

let waiting = 0; // the timer that will try again
let retrying = null; // what it will try

function notice(kind, title, text, ...actions) {
  const box = at("notice");
  const given = actions.filter(Boolean);
  box.className = `notice ${kind}`;
  box.role = kind === "bad" ? "alert" : null;
  box.hidden = false;
  box.replaceChildren(make("h2", {}, title), ...(text ? [make("p", {}, text)] : []), ...(given.length ? [make("div", { class: "row" }, ...given)] : []));
}

/** Something else is being tried. */
export function quiet() {
  clearInterval(waiting);
  retrying = null;
}

export function nothing(found) {
  if (total() === 0) notice("", "The index is empty.", "Add documents to it, then ask again.");
  else if (found.known === 0 && state.q) {
    const where = unsure(found) ? "" : ` in ${nameOf(found.lang)}`;
    notice("", `No word of this is known${where}.`, "Try other words, or choose the language of the query above.");
  } else if (state.in) {
    notice("", `Nothing found in ${listed(chosen().map(nameOf), "disjunction")}.`, "", act("Search all languages", () => go({ in: "" })));
  } else notice("", "Nothing found.", "Try other words, or more of them.");
}

export function complain(failure, retry) {
  quiet();
  retrying = retry;
  const again = act("Try again", retry);
  at("status").textContent = "";
  if (failure.status === 401 || failure.status === 403) {
    const input = make("input", { type: "password", name: "key", autocomplete: "off", "aria-label": "Key", required: "" });
    const form = make("form", { class: "row" }, input, make("button", { class: "solid" }, "Open"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      keepKey(input.value);
      retry();
    });
    const refused = key() !== null;
    notice(refused ? "bad" : "", refused ? "That key does not open it." : "This search is locked.", "Enter its key; it is kept until this tab is closed.", form);
    return;
  }
  if (failure.status === 429) {
    let left = Math.min(600, Math.max(1, Math.ceil(failure.wait) || 10));
    const count = () => (again.textContent = `Try again (${left} s)`);
    at("status").textContent = "The server is busy.";
    notice("", "One moment, please.", "Too many questions in a short time; the server answers again soon.", again);
    count();
    waiting = setInterval(() => {
      left -= 1;
      count();
      if (left <= 0) retry();
    }, 1000);
    return;
  }
  if (failure.status === 404 && state.like) {
    notice("", "This document is gone.", "It is no longer in the index.", act("Start again", () => go(START)));
    return;
  }
  const title = failure.status === 0 ? "No connection." : failure.status < 500 ? "That cannot be answered." : "Something went wrong on the server.";
  const reset = failure.status >= 400 && failure.status < 500 && (state.lang || state.in || state.like);
  notice("bad", title, failure.message.replace(/[^.!?…]$/, "$&."), again, reset ? act("Without filters", () => go({ ...START, q: state.q, map: state.map })) : null);
  if (failure.status === 0) {
    waiting = setInterval(async () => {
      if ((await reachable()) && retrying === retry) retry();
    }, EVERY);
  }
}

addEventListener("online", () => retrying?.());
