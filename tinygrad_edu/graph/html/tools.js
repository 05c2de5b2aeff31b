// What every part of the page uses: finding and making elements, and the data about the drawings.

export const $ = (id) => document.getElementById(id);
export const known = JSON.parse($("known").textContent);
export const still = matchMedia("(prefers-reduced-motion: reduce)");

// An English text in the language of the page, with its {gaps} filled.
export function say(text, values = {}) {
  return (known.words[text] ?? text).replace(/\{(\w+)\}/g, (gap, name) => values[name] ?? gap);
}

// An element with attributes (functions become listeners) and content; text is never read as markup.
export function make(tag, attributes = {}, ...content) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...content.filter((part) => part !== undefined && part !== ""));
  return element;
}

export function makeSvg(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

// Parts tell each other what has changed by events on the document: "sheet", "card", "quiz".
export const tell = (what) => document.dispatchEvent(new Event(what));
export const hear = (what, listener) => document.addEventListener(what, listener);
