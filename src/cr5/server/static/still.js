// Stillness: while something is pressed, nothing moves. What is replaced between press and release is not clicked.

const LONGEST = 2000; // milliseconds after which a press is no click any more, or its release was not seen
const SETTLING = 300; // milliseconds from the release within which its click comes, if any: that of a finger is not at once

let held = null; // a promise that ends with the press, if there is one
let release = () => {};

/** Until nothing is pressed. */
export async function still() {
  while (held) await held;
}

addEventListener(
  "pointerdown",
  () => {
    const before = release;
    const press = new Promise((resolve) => {
      release = () => {
        if (held === press) held = null;
        resolve();
      };
    });
    held = press;
    before(); // whoever waited for an earlier press waits on
    setTimeout(release, LONGEST);
  },
  { capture: true, passive: true },
);
for (const [kind, wait] of [["pointerup", SETTLING], ["pointercancel", 0], ["contextmenu", 0], ["click", 0]]) {
  addEventListener(kind, () => setTimeout(release, wait), { capture: true, passive: true });
}
