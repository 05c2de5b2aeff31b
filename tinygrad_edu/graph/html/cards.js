// Cards under the mouse and the keyboard: their wires light up, and the one chosen is told in full at the side.
import { $, hear, make, makeSvg, say, tell } from "./tools.js";
import { show } from "./view.js";
import { drawing, openSheet, part, sheet } from "./sheets.js";
import { withAxes } from "./axes.js";

const desk = document.querySelector("main");
let chosen = null;

export const chosenCard = () => chosen;
const cards = () => [...drawing().querySelectorAll("g[tabindex]")];
const cardAt = (target) => target.closest?.("g.node[tabindex]");

// Only the wires of one card stay as they are.
function light(id) {
  const svg = drawing();
  svg.classList.toggle("near", Boolean(id));
  for (const wire of svg.querySelectorAll(".edge.on, .wire.on")) wire.classList.remove("on");
  if (id) for (const wire of svg.querySelectorAll(`.edge.${id}, .wire.${id}`)) wire.classList.add("on");
}

export function choose(id, focus = false) {
  const card = id && part(id);
  for (const other of drawing().querySelectorAll(".chosen")) other.classList.remove("chosen");
  if (card) for (const other of cards()) other.tabIndex = -1;
  chosen = card ? id : null;
  if (card) {
    card.classList.add("chosen");
    card.tabIndex = 0;
    if (focus) card.focus({ preventScroll: true });
  }
  tell("card");
}

// The card that comes so many places further in the order of the forward pass.
export function chooseNext(by) {
  const all = cards();
  if (!all.length) return;
  const here = document.activeElement.dataset?.id ?? chosen;
  const at = all.findIndex((card) => card.dataset.id === here);
  goTo(all[at < 0 ? (by > 0 ? 0 : all.length - 1) : (at + by + all.length) % all.length].dataset.id);
}

export function goTo(id) {
  choose(id, true);
  show(part(id));
}

// What can be opened or closed gets a sign that says so, and a block as a whole can be reached by keyboard.
function markFolds() {
  for (const [id, { open }] of Object.entries(sheet().opens)) {
    const block = part(id);
    if (!block || block.dataset.fold) continue;
    const texts = [...block.querySelectorAll("text")].map((text) => text.textContent);
    const label = block.getAttribute("aria-label") ?? texts.join(", ");
    block.dataset.fold = open ? "open" : "closed";
    const reachable = { role: "group", tabindex: "-1", "aria-label": label };
    for (const [name, value] of Object.entries(reachable)) {
      if (!block.hasAttribute(name)) block.setAttribute(name, value);
    }
    const box = block.getBBox();
    const x = box.x + box.width - 9;
    const y = box.y - 5;
    const named = say(open ? "Close {part}" : "Open {part}", { part: label });
    const sign = makeSvg("g", { class: "sign", role: "button", "aria-expanded": open, "aria-label": named });
    const line = open ? `M${x + 3.5} ${y + 6.5}h6` : `M${x + 3.5} ${y + 6.5}h6m-3 -3v6`;
    sign.append(makeSvg("rect", { x, y, width: 13, height: 13, rx: 3 }), makeSvg("path", { d: line }));
    block.append(sign);
  }
}

// Where a click or Enter on a part leads: to the sheet where it is open or closed again.
function leadsTo(target) {
  const block = target.closest?.("[data-fold]");
  if (!block || (block.dataset.fold === "open" && !target.closest(".sign, text") && target !== block))
    return undefined;
  return sheet().opens[block.dataset.id];
}

async function follow({ sheet: to, part: id }) {
  await openSheet(to);
  const block = id && part(id);
  if (!block) return;
  block.focus({ preventScroll: true });
  show(block);
}

function details(id) {
  const card = sheet().cards[id];
  const wires = Object.values(sheet().wires);
  const classes = card.role === "gradient" ? "links back" : "links";
  const links = (word, here, there) => {
    const found = wires.filter((wire) => wire[here] === id);
    const button = (wire) =>
      make("button", { click: () => goTo(wire[there]), title: wire.shapes.join(" ") }, wire.name);
    return found.length ? make("p", { class: classes }, `${word} `, ...found.map(button)) : "";
  };
  const line = (text, attributes = {}) => (text ? make("p", attributes, ...withAxes(text)) : "");
  return [
    make("h2", {}, card.header),
    line([card.words, card.path].filter(Boolean).join(" · "), { class: "soft" }),
    ...(card.lines ?? []).map((text) => line(text, { class: "mono" })),
    line(card.shape, { class: "mono" }),
    line(card.einsum, { class: "mono" }),
    line(card.product),
    line(card.source),
    line(card.visible),
    card.cells ? make("p", {}, ...card.cells.map((cell) => make("span", { class: "cell" }, ...withAxes(cell)))) : "",
    make(
      "ol",
      { class: "rows", "aria-label": say("Gradients") },
      ...(card.rows ?? []).map((row, at) =>
        make("li", {}, make("button", { "data-of": id, "data-at": at }, row.formula)),
      ),
    ),
    card.reads
      ? line(say("Its gradients read {names}.", { names: card.reads.join(", ") }), { class: "soft back" })
      : "",
    links(say("from"), "head", "tail"),
    links(say("to"), "tail", "head"),
    line(card.code, { class: "code" }),
  ].filter(Boolean);
}

export function startCards() {
  hear("sheet", () => {
    chosen = null;
    markFolds();
    for (const other of drawing().querySelectorAll(".chosen")) other.classList.remove("chosen");
    if (!cards().some((card) => card.tabIndex === 0)) cards()[0]?.setAttribute("tabindex", 0);
    tell("card");
  });
  hear("card", () => {
    const told = chosen && sheet().cards[chosen];
    $("card").hidden = !told;
    $("card").replaceChildren(...(told ? details(chosen) : []));
  });
  desk.addEventListener("pointerover", (event) => light(cardAt(event.target)?.dataset.id));
  desk.addEventListener("pointerleave", () => light(null));
  desk.addEventListener("focusin", (event) => {
    light(cardAt(event.target)?.dataset.id);
    if (event.target.matches(":focus-visible")) show(event.target);
  });
  desk.addEventListener("focusout", () => light(null));
  desk.addEventListener("click", (event) => {
    const to = leadsTo(event.target);
    if (to) follow(to);
    else if (getSelection().isCollapsed)
      choose(cardAt(event.target)?.dataset.id ?? null, Boolean(cardAt(event.target)));
  });
}

// Enter or Space on a card: open what is folded there, else tell of it.
export function press(target) {
  const to = leadsTo(target);
  const card = cardAt(target);
  if (to) follow(to);
  else if (card) choose(card.dataset.id);
  return Boolean(to || card);
}
