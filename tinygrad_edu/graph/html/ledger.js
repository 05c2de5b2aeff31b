// The ledger as a table below the drawing, each row tied to its card.
import { $, hear, known, make, say } from "./tools.js";
import { show } from "./view.js";
import { openSheet, part, sheet } from "./sheets.js";
import { chosenCard, goTo } from "./cards.js";
import { withAxes } from "./axes.js";

const { head, rows, below, fail, back, named, cards, left, sheet: home } = known.ledger;

// The step's card, on the drawing that is seen if it is there.
async function follow(id) {
  if (!isHere(id)) await openSheet(home);
  goTo(id);
}

const isHere = (id) => sheet().listed && id in sheet().cards;

function table() {
  const cell = (text, at) =>
    make(
      "td",
      { class: at === back ? "back" : undefined },
      ...(text === "-" ? [] : withAxes(text, named.includes(at))),
    );
  const row = (texts, at) => {
    const id = cards[at];
    const first = make("button", { "aria-label": say("Step {n}: {op}", { n: texts[0], op: texts[1] }) }, texts[0]);
    return make(
      "tr",
      { "data-card": id, click: () => getSelection().isCollapsed && follow(id) },
      make("th", { scope: "row" }, first),
      ...texts.slice(1).map((text, i) => cell(text, i + 1)),
    );
  };
  return make(
    "table",
    {},
    make("thead", {}, make("tr", {}, ...head.map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, ...rows.map(row)),
  );
}

// The table and what stands below it, made when they are first seen.
function fill() {
  const more = left ? [say("{n} more steps are not drawn; the ledger as a file has them all", { n: left })] : [];
  const check = [...more, ...below].map((line) =>
    make("p", { class: line.includes(fail) ? "bad" : undefined }, line),
  );
  $("ledger").replaceChildren(table(), make("div", { class: "check" }, ...check));
}

export const ledgerShown = () => !$("ledger").hidden;

export function ledger(on) {
  if (on && !$("ledger").hasChildNodes()) fill();
  $("ledger").hidden = !on;
  $("ledger-open").setAttribute("aria-pressed", on);
  mark();
  if (on && chosenCard()) requestAnimationFrame(() => show(part(chosenCard())));
}

function mark() {
  const id = chosenCard();
  for (const row of document.querySelectorAll("#ledger tr[data-card]")) {
    const on = row.dataset.card === id && isHere(id);
    row.classList.toggle("chosen", on);
    if (on && ledgerShown()) row.scrollIntoView({ block: "nearest" });
  }
}

export function startLedger() {
  $("ledger-open").addEventListener("click", () => ledger(!ledgerShown()));
  hear("card", mark);
}
