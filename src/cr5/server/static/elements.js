// DOM elements, created from attributes and text, never from markup.

export const byId = (id) => document.getElementById(id);
export const wideScreen = matchMedia("(min-width: 62rem)"); // as in style.css: room for two columns

/** An HTML element. An attribute that is a function becomes an event listener; a string becomes a text node. */
export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function makeSvg(tag, attributes = {}, ...children) {
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

export const makeButton = (label, click) => make("button", { type: "button", class: "button-solid", click }, label);

/** A placeholder for text that is being loaded. */
export function makeSkeleton(tag) {
  return make(tag, { class: "skeleton", "aria-hidden": "true" }, ...[1, 2, 3, 4].map(() => make("i")));
}

/** The URL of a document if it is http or https, or null: nothing else becomes a link. */
export function webUrl(url) {
  try {
    const parsed = new URL(url);
    return ["http:", "https:"].includes(parsed.protocol) ? parsed : null;
  } catch {
    return null;
  }
}
