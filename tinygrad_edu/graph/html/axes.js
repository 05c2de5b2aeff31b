// Names of axes: one that is pointed at lights up wherever it stands, with its size and its meaning.
import { $, known, make, say } from "./tools.js";

const names = Object.keys(known.axes).sort((a, b) => b.length - a.length);
const escaped = names.map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
const WORD = names.length ? new RegExp(`(?<![\\w.])(${escaped.join("|")})(?![\\w.])`, "u") : null;
const SHAPE = /\[[^\]]*\]/;
const WHOLE = new RegExp(`^(?:${known.naming.join("|")}|[^=]+ -> .+)$`);
let pinned = null;

// Text as parts of an element, every name of an axis in it one that can light up; `all`: it is nothing but names.
export function withAxes(text, all = false) {
  if (!WORD) return [text];
  const pieces = all || WHOLE.test(text) ? [[text, true]] : split(text, SHAPE);
  return pieces.flatMap(([piece, named]) =>
    named
      ? split(piece, WORD).map(([word, axis]) => (axis ? make("span", { "data-axis": word }, word) : word))
      : piece,
  );
}

function split(text, pattern) {
  const found = [];
  for (let rest = text; rest;) {
    const match = pattern.exec(rest);
    if (!match || !match[0]) return [...found, [rest, false]];
    if (match.index) found.push([rest.slice(0, match.index), false]);
    found.push([match[0], true]);
    rest = rest.slice(match.index + match[0].length);
  }
  return found;
}

function tellOf(name) {
  const { size, meaning } = known.axes[name];
  const told = say("{name}, length {size}", { name, size });
  return meaning ? `${told}: ${meaning}` : told;
}

export function lightAxis(name) {
  const axis = name ?? pinned;
  for (const other of document.querySelectorAll(".lit")) other.classList.remove("lit");
  if (axis) {
    for (const place of document.querySelectorAll("[data-axis]")) {
      if (place.dataset.axis === axis) place.classList.add("lit");
    }
  }
  $("axis").textContent = axis ? tellOf(axis) : "";
}

export function startAxes() {
  const list = Object.entries(known.axes);
  $("axes").hidden = !list.length;
  const pin = (event) => {
    const name = event.currentTarget.dataset.axis;
    pinned = pinned === name ? null : name;
    for (const button of $("axis-list").children) button.setAttribute("aria-pressed", button.dataset.axis === pinned);
    lightAxis(null);
  };
  $("axis-list").replaceChildren(
    ...list.map(([name, { size }]) =>
      make(
        "button",
        {
          "data-axis": name,
          "aria-pressed": "false",
          click: pin,
          title: tellOf(name),
          focus: () => lightAxis(name),
          blur: () => lightAxis(null),
        },
        make("b", {}, name),
        ` ${size}`,
      ),
    ),
  );
  document.addEventListener("pointerover", (event) => {
    const name = event.target.closest?.("[data-axis]")?.dataset.axis;
    if (name || $("axis").textContent) lightAxis(name ?? null);
  });
}
