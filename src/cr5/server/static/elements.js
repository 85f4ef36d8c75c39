// Elements: made from attributes and text, never from markup.

export const at = (id) => document.getElementById(id);
export const wide = matchMedia("(min-width: 62rem)"); // as in style.css: there is room for two columns

/** An element with attributes and children; a string becomes text, a function listens. */
export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const act = (label, click) => make("button", { type: "button", class: "solid", click }, label);

/** What stands where text will be. */
export function bone(tag) {
  return make(tag, { class: "bone", "aria-hidden": "true" }, ...[1, 2, 3, 4].map(() => make("i")));
}

/** A document's address, if it is one of the web: nothing else becomes a link. */
export function webAddress(url) {
  try {
    const address = new URL(url);
    return ["http:", "https:"].includes(address.protocol) ? address : null;
  } catch {
    return null;
  }
}
