// The drawings of the page: tabs to choose one, unpacking it when it is first seen, opening a folded part.
import { $, tell } from "./tools.js";
import { look } from "./view.js";

const told = []; // by number of a sheet, what is known of its drawing
let number = -1;

export const panel = () => $(`sheet-${number}`);
export const drawing = () => panel().querySelector("svg");
export const sheet = () => told[number];
export const part = (id) => drawing().querySelector(`[data-id="${id}"]`);
const tabs = () => [...document.querySelectorAll('[role="tab"]')];

async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

export async function openSheet(to) {
  const next = $(`sheet-${to}`);
  if (!next || to === number) return;
  if (next.dataset.packed) {
    const found = JSON.parse(await unpack(next.dataset.packed));
    delete next.dataset.packed;
    next.innerHTML = found.drawing;
    told[to] = found.told;
  }
  told[to] ??= JSON.parse(next.querySelector("script").textContent);
  for (const other of document.querySelectorAll(".sheet")) other.hidden = other !== next;
  number = to;
  for (const tab of tabs()) {
    const on = Number(tab.dataset.sheet) === sheet().tab;
    tab.setAttribute("aria-selected", on);
    tab.tabIndex = on ? 0 : -1;
  }
  look(drawing());
  tell("sheet");
}

export function startSheets() {
  for (const tab of tabs()) tab.addEventListener("click", () => openSheet(Number(tab.dataset.sheet)));
  document.querySelector('[role="tablist"]').addEventListener("keydown", (event) => {
    const all = tabs();
    const at = all.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const tab = all[(to + all.length) % all.length];
    tab.focus();
    tab.click();
  });
}
