// News: who brings them need not know who draws them. `app.js` lists what each piece of news leads to.

const listeners = new Map();

export function on(news, listener) {
  listeners.set(news, [...(listeners.get(news) ?? []), listener]);
}

export function tell(news, ...details) {
  for (const listener of listeners.get(news) ?? []) listener(...details);
}
