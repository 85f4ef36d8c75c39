// Events of the page, so that modules need not know each other. `app.js` lists which listeners each event has.

const listeners = new Map(); // event -> functions

export function on(event, listener) {
  listeners.set(event, [...(listeners.get(event) ?? []), listener]);
}

export function emit(event, ...details) {
  for (const listener of listeners.get(event) ?? []) listener(...details);
}
