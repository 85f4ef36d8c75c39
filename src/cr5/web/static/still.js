// Stillness: while something is pressed, nothing moves. What is replaced between press and release is not clicked.

const LONGEST = 800; // milliseconds after which a press is no click any more, or its release was not seen
const SETTLING = 50; // milliseconds from the release to its click

let stillness = Promise.resolve();
let release = () => {};

/** Until nothing is pressed. */
export const still = () => stillness;

addEventListener(
  "pointerdown",
  () => {
    release();
    stillness = new Promise((resolve) => (release = resolve));
    setTimeout(release, LONGEST);
  },
  { capture: true, passive: true },
);
for (const kind of ["pointerup", "pointercancel"]) {
  addEventListener(kind, () => setTimeout(release, SETTLING), { capture: true, passive: true });
}
