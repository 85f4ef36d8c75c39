// Events of the page, to decouple modules. `app.js` lists the listeners of each event.

const listeners = new Map(); // event -> functions

export function on(event, listener) {
  listeners.set(event, [...(listeners.get(event) ?? []), listener]);
}

export function emit(event, ...details) {
  for (const listener of listeners.get(event) ?? []) listener(...details);
}
