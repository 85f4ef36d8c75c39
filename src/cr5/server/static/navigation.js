// Navigation: clicks on links and hits, keyboard shortcuts, and the button that copies the link.

import { closeDocument, openDocument } from "./document-view.js";
import { byId } from "./elements.js";
import { hitLinks } from "./results.js";
import { field, submit } from "./search-field.js";
import { navigate, parseState, state } from "./state.js";
import { hideTooltip } from "./tooltip.js";

document.addEventListener("click", (event) => {
  const hit = event.target.closest(".hit");
  // Marks lie above the link.
  if (hit && !event.target.closest("a, button") && event.pointerType !== "touch") openDocument(hit.dataset.shown);
  const link = event.target.closest("a[data-internal], #home");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const next = parseState(new URL(link.href).search);
  if (next.doc) {
    openDocument(next.doc);
    return;
  }
  navigate(next);
  scrollTo({ top: 0 });
  if (link.id === "home") field.focus();
  else if (next.like) byId("results").focus({ preventScroll: true });
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const { key, target } = event;
  const editable = target.closest("input, textarea, select");
  if (key === "/" && !editable) {
    event.preventDefault();
    field.focus();
    field.select();
  } else if (key === "Enter" && target === field && !event.shiftKey) {
    event.preventDefault();
    submit();
  } else if (key === "Escape") {
    hideTooltip();
    if (state.doc) {
      event.preventDefault();
      closeDocument();
    } else if (target.closest("#columns")) field.focus();
  } else if (key === "ArrowDown" && target === field) {
    const oneLine = field.clientHeight < 60;
    const atEnd = field.selectionStart === field.value.length;
    if ((oneLine || atEnd) && hitLinks().length) {
      event.preventDefault();
      hitLinks()[0].focus();
    }
  } else if ((key === "ArrowDown" || key === "ArrowUp") && target.closest("#hits")) {
    event.preventDefault();
    const links = hitLinks();
    const position = links.indexOf(target.closest(".hit").querySelector("h2 a"));
    const next = position + (key === "ArrowDown" ? 1 : -1);
    if (next < 0) field.focus();
    else if (next >= links.length) (byId("more").hidden ? links.at(-1) : byId("more")).focus();
    else {
      links[next].focus();
      links[next].closest(".hit").scrollIntoView({ block: "nearest" });
    }
  } else if (key === "ArrowUp" && target === byId("more")) {
    event.preventDefault();
    hitLinks().at(-1)?.focus();
  }
});

byId("copy-link").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(location.href);
    byId("copy-link").textContent = "Copied";
  } catch {
    byId("copy-link").textContent = "Copying failed; copy the address bar";
  }
  setTimeout(() => (byId("copy-link").textContent = "Copy link"), 1800);
});
