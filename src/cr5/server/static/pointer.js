// The pointer. While it is pressed the page must not change: an element that is replaced between press and release gets
// no click.

const LONGEST_PRESS = 2000; // milliseconds; a longer press is not a click, or its release was missed
const CLICK_DELAY = 300; // milliseconds from the release within which its click comes; on a touch screen it comes later

let pressed = null; // a promise that resolves when the press ends, or null
let release = () => {};

/** Resolves when nothing is pressed. */
export async function pointerReleased() {
  while (pressed) await pressed;
}

addEventListener(
  "pointerdown",
  () => {
    const releasePrevious = release;
    const press = new Promise((resolve) => {
      release = () => {
        if (pressed === press) pressed = null;
        resolve();
      };
    });
    pressed = press;
    releasePrevious(); // those who waited for the previous press now wait for this one
    setTimeout(release, LONGEST_PRESS);
  },
  { capture: true, passive: true },
);
for (const [type, delay] of [["pointerup", CLICK_DELAY], ["pointercancel", 0], ["contextmenu", 0], ["click", 0]]) {
  addEventListener(type, () => setTimeout(release, delay), { capture: true, passive: true });
}
