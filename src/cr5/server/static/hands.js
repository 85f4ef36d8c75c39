// Hands: links and hits that are clicked, keys that are pressed, the link that is copied.

import { at } from "./elements.js";
import { field, submit } from "./field.js";
import { close, open } from "./paper.js";
import { links } from "./results.js";
import { go, read, state } from "./state.js";
import { hideTip } from "./tip.js";

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

at("share").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(location.href);
    at("share").textContent = "Copied";
  } catch {
    at("share").textContent = "Copy it from the address bar";
  }
  setTimeout(() => (at("share").textContent = "Copy link"), 1800);
});
