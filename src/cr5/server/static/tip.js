// The tip: what an element tells under the pointer, a finger or the focus.

import { at } from "./elements.js";
import { field } from "./field.js";

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

export function hideTip() {
  at("tip").hidden = true;
}

// A click may change what there is to tell.
for (const kind of ["pointerover", "focusin", "click"]) {
  document.addEventListener(kind, (event) => {
    const element = event.target.closest?.("[data-tip]");
    if (element?.dataset.tip) showTip(element.dataset.tip, element.getBoundingClientRect());
    else hideTip();
  });
}

// The field lies above the marks of its words: they are found by where the pointer is.
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
