// Gradients as questions: every row and label stands behind a box until it is recalled and revealed.
import { $, hear, known, makeSvg, say, tell } from "./tools.js";
import { drawing, part, sheet } from "./sheets.js";

let on = false;

export const quizzing = () => on;
// Where a gradient stands: its row on its card, or, on a card of one line, its name on the wire.
export function rowOf(card, at) {
  const row = part(card)?.querySelector(`[data-row="${at}"]`);
  if (row) return row;
  const step = sheet().steps.find((one) => one.card === card && one.row === Number(at));
  return part(step?.wires[0])?.querySelector(".grad");
}

export const isHidden = (row) => Boolean(row?.classList.contains("covered"));

function coverOf(target) {
  let box;
  if (target.localName === "tspan") {
    const start = target.getStartPositionOfChar(0);
    const high = parseFloat(getComputedStyle(target).fontSize);
    box = {
      x: start.x + 2,
      y: start.y - high * 0.88,
      width: target.getComputedTextLength() - 2,
      height: high * 1.16,
    };
  } else {
    box = target.getBBox();
  }
  const label = target.closest("g.node").getAttribute("aria-label");
  return makeSvg("rect", {
    class: "cover",
    role: "button",
    tabindex: "0",
    rx: "2",
    x: box.x,
    y: box.y,
    width: box.width,
    height: box.height,
    "aria-label": say(label ? "Hidden gradient of {label}. Press Enter to reveal it" : "Hidden name of a gradient", {
      label,
    }),
  });
}

function coverAll() {
  for (const target of drawing().querySelectorAll(".row, .grad")) {
    const cover = coverOf(target);
    target.classList.add("covered");
    (target.closest("text") ?? target).after(cover);
    cover.addEventListener("click", (event) => {
      event.stopPropagation();
      reveal(target);
    });
    target.cover = cover;
  }
}

export function reveal(target) {
  if (!isHidden(target)) return;
  target.classList.remove("covered");
  target.cover.remove();
  const card = target.closest("g.node").dataset.id;
  if (target.matches(".row")) {
    const step = sheet().steps.find((one) => one.card === card && one.row === Number(target.dataset.row));
    for (const wire of step?.wires ?? []) reveal(part(wire)?.querySelector(".grad"));
  }
  tell("quiz");
}

export function revealAll() {
  for (const target of drawing().querySelectorAll(".covered")) {
    target.classList.remove("covered");
    target.cover.remove();
  }
  tell("quiz");
}

export function quiz(to) {
  if (on) revealAll();
  on = to;
  document.body.classList.toggle("quiz", on);
  $("quiz").setAttribute("aria-pressed", on);
  if (on) coverAll();
  tell("quiz");
}

export function startQuiz() {
  $("quiz").disabled = !known.flows;
  $("quiz").addEventListener("click", () => quiz(!on));
  $("quiz-all").addEventListener("click", revealAll);
  hear("sheet", () => {
    const fresh = !drawing().querySelector(".row.covered");
    if (on && fresh) coverAll();
    tell("quiz");
  });
  hear("quiz", () => {
    const hidden = drawing().querySelectorAll(".row.covered").length;
    const all = sheet().steps.length;
    $("quiz-bar").hidden = !on;
    $("quiz-count").textContent = say("{n} of {all} revealed", { n: all - hidden, all });
    $("quiz-all").hidden = !drawing().querySelector(".covered");
    document.body.classList.toggle("recalled", !drawing().querySelector(".covered"));
  });
}
