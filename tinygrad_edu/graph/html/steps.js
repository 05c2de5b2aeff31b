// The backward pass one gradient at a time, in the order in which it ran.
import { $, hear, make, say } from "./tools.js";
import { show } from "./view.js";
import { drawing, part, sheet } from "./sheets.js";
import { choose } from "./cards.js";
import { isHidden, quizzing, reveal, rowOf } from "./quiz.js";
import { withAxes } from "./axes.js";

let at = -1;

const steps = () => sheet().steps;
const step = () => steps()[at];
const row = () => at >= 0 && rowOf(step().card, step().row);

function light() {
  const svg = drawing();
  for (const old of svg.querySelectorAll(".now")) old.classList.remove("now");
  svg.classList.toggle("stepping", at >= 0);
  steps().forEach(({ card, row: place }, i) => rowOf(card, place)?.classList.toggle("ahead", at >= 0 && i > at));
  if (at < 0) return;
  row()?.classList.add("now");
  part(step().card)?.classList.add("now");
  for (const wire of step().wires) for (const one of svg.querySelectorAll(`.${wire}`)) one.classList.add("now");
  for (const wire of step().wires) part(wire)?.classList.add("now");
}

function describe() {
  const all = steps().length;
  $("step-count").textContent = at < 0 ? say("{all} gradients", { all }) : say("{n} of {all}", { n: at + 1, all });
  $("step-bar").style.width = `${all ? (100 * (at + 1)) / all : 0}%`;
  $("step-back").disabled = at < 0;
  $("step-on").disabled = at >= all - 1;
  if (at < 0) {
    const hint = say(
      all ? "Press → to follow the gradients one by one, in the order in which they ran." : "No gradient flows here.",
    );
    $("step").replaceChildren(make("p", { class: "soft" }, hint));
    return;
  }
  const card = sheet().cards[step().card];
  const { formula, note } = card.rows[step().row];
  const head = make(
    "p",
    { class: "soft" },
    say(step().kind === "sum" ? "at {card}" : "through {card}", { card: card.header }),
  );
  if (isHidden(row())) {
    const ask = make(
      "button",
      { class: "ask", click: () => reveal(row()) },
      say("Say it first, then reveal it (Space)"),
    );
    $("step").replaceChildren(make("p", { class: "formula" }, "?"), head, ask);
    return;
  }
  const shape = step().shape;
  const parts = [make("p", { class: "formula" }, formula), head];
  if (shape)
    parts.push(
      make(
        "p",
        {},
        make("span", { class: "soft" }, `${say("shape")} `),
        make("span", { class: "mono" }, ...withAxes(shape)),
      ),
    );
  if (note && !shape.startsWith(note)) parts.push(make("p", {}, ...withAxes(note)));
  $("step").replaceChildren(...parts);
}

export function stepTo(to) {
  at = Math.min(Math.max(to, -1), steps().length - 1);
  light();
  describe();
  if (at < 0) return;
  choose(step().card);
  show(row(), ...step().wires.slice(0, 1).map(part));
}

export const stepBy = (by) => stepTo(at + by);
export const stepLast = () => stepTo(steps().length - 1);
export const revealStep = () => quizzing() && isHidden(row()) && (reveal(row()), true);

export function startSteps() {
  $("step-back").addEventListener("click", () => stepBy(-1));
  $("step-on").addEventListener("click", () => stepBy(1));
  hear("sheet", () => {
    at = -1;
    light();
    describe();
  });
  hear("quiz", describe);
  hear("card", askRows);
  hear("quiz", askRows);
  $("card").addEventListener("click", (event) => {
    const { of, at: place } = event.target.dataset;
    if (of) stepTo(steps().findIndex((one) => one.card === of && one.row === Number(place)));
  });
}

// What the chosen card tells of its gradients at the side stays hidden as long as it does on the drawing.
function askRows() {
  for (const button of document.querySelectorAll("#card [data-of]")) {
    const hidden = isHidden(rowOf(button.dataset.of, button.dataset.at));
    button.textContent = hidden ? "?" : sheet().cards[button.dataset.of].rows[button.dataset.at].formula;
  }
}
