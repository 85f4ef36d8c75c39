// The tooltip: the text of `data-tip`, shown for the element under the pointer, a finger or the focus.

import { byId } from "./elements.js";
import { field } from "./search-field.js";

function showTooltip(text, box) {
  const tooltip = byId("tooltip");
  tooltip.textContent = text;
  tooltip.hidden = false;
  const size = tooltip.getBoundingClientRect();
  const left = Math.min(innerWidth - size.width - 8, Math.max(8, box.left + box.width / 2 - size.width / 2));
  const above = box.top - size.height - 8;
  tooltip.style.left = `${left}px`;
  tooltip.style.top = `${above > 4 ? above : box.bottom + 8}px`;
}

export function hideTooltip() {
  byId("tooltip").hidden = true;
}

// A click may change the text of the tooltip.
for (const type of ["pointerover", "focusin", "click"]) {
  document.addEventListener(type, (event) => {
    const element = event.target.closest?.("[data-tip]");
    if (element?.dataset.tip) showTooltip(element.dataset.tip, element.getBoundingClientRect());
    else hideTooltip();
  });
}

// The field covers its highlights, so they are found by the position of the pointer.
field.addEventListener("pointermove", ({ clientX: x, clientY: y }) => {
  for (const mark of byId("query-highlights").querySelectorAll("mark")) {
    const contains = (part) => x >= part.left && x <= part.right && y >= part.top && y <= part.bottom;
    const box = [...mark.getClientRects()].find(contains);
    if (box) {
      showTooltip(mark.dataset.tip, box);
      return;
    }
  }
  hideTooltip();
});
addEventListener("scroll", hideTooltip, { passive: true, capture: true });
