// Everything that the keyboard does, and the list that says so.
import { $, make, say } from "./tools.js";
import { fit, zoom } from "./view.js";
import { openSheet } from "./sheets.js";
import { choose, chooseNext, press } from "./cards.js";
import { quiz, quizzing, reveal, revealAll } from "./quiz.js";
import { revealStep, stepBy, stepLast, stepTo } from "./steps.js";
import { clearFind } from "./find.js";
import { ledger, ledgerShown } from "./ledger.js";
import { changeTheme, save } from "./file.js";

// [keys as they are told, what they do, keys as the browser calls them, the action]
const KEYS = [
  ["→ ←", "next, previous gradient of the backward pass", ["ArrowRight"], () => stepBy(1)],
  ["", "", ["ArrowLeft"], () => stepBy(-1)],
  ["Home End", "before the first, the last gradient", ["Home"], () => stepTo(-1)],
  ["", "", ["End"], stepLast],
  ["↓ ↑", "next, previous card of the forward pass", ["ArrowDown"], () => chooseNext(1)],
  ["", "", ["ArrowUp"], () => chooseNext(-1)],
  ["Enter", "tell of a card; open what is folded", [], null],
  ["/", "find; Enter and Shift+Enter for the next and the previous match", ["/"], () => $("find").select()],
  ["+ −", "larger, smaller; the wheel does so at the cursor, dragging moves", ["+", "="], () => zoom(1.25)],
  ["", "", ["-", "−"], () => zoom(0.8)],
  ["F", "all of the drawing", ["f"], fit],
  ["Q", "quiz: hide all gradients, or show them", ["q"], () => quiz(!quizzing())],
  ["Space", "in the quiz: reveal the gradient of this step or box", [" "], revealStep],
  ["R", "in the quiz: reveal all", ["r"], revealAll],
  ["L", "the ledger", ["l"], () => ledger(!ledgerShown())],
  ["D", "light or dark", ["d"], changeTheme],
  ["S", "download the drawing as SVG", ["s"], save],
  ["1 2 3 …", "the tabs", [], null],
  ["Esc", "leave what is chosen or found", ["Escape"], () => (clearFind(), choose(null), stepTo(-1))],
  ["?", "these keys", ["?"], () => $("keys").showModal()],
];
const ACTIONS = new Map(KEYS.flatMap(([, , keys, action]) => keys.map((key) => [key, action])));

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
  const target = event.target;
  if (target.closest("input, textarea")) return;
  const isControl = Boolean(target.closest("button, summary, a"));
  if (event.key === "Enter" || event.key === " ") {
    if (isControl) return;
    if (target.matches(".cover")) {
      target.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    } else if (!(event.key === " " && revealStep()) && !press(target)) return;
    event.preventDefault();
    return;
  }
  const tab = /^[1-9]$/.test(event.key) && document.querySelectorAll('[role="tab"]')[event.key - 1];
  const action = tab
    ? () => openSheet(Number(tab.dataset.sheet))
    : ACTIONS.get(event.key.length === 1 ? event.key.toLowerCase() : event.key);
  if (!action || (target.closest("#ledger, aside") && ["ArrowUp", "ArrowDown", "Home", "End"].includes(event.key)))
    return;
  event.preventDefault();
  action();
}

export function startKeys() {
  const list = KEYS.filter(([told]) => told).map(([told, what]) => [
    make("dt", {}, ...told.split(" ").flatMap((key) => [make("kbd", {}, key), " "])),
    make("dd", {}, say(what)),
  ]);
  $("keys").append(
    make("dl", {}, ...list.flat()),
    make("form", { method: "dialog" }, make("button", {}, say("Close"))),
  );
  $("help").addEventListener("click", () => $("keys").showModal());
  document.addEventListener("keydown", pressed);
}
