// Finding names, ops and shapes on the drawing, one match after the other.
import { $, hear, say } from "./tools.js";
import { show } from "./view.js";
import { drawing } from "./sheets.js";

let hits = [];
let at = -1;

// 2x5 finds 2×5, W^T finds Wᵀ, scores1 finds scores₁.
const plain = (text) =>
  text.normalize("NFKC").toLowerCase().replaceAll("×", "x").replaceAll("^", "").replace(/\s+/g, " ");

// What can be read on a card or a label: all but what the quiz hides.
function textOf(node) {
  const lines = [...node.querySelectorAll("text")].filter((line) => !line.closest(".covered"));
  const seen = (line) => [...line.childNodes].filter((run) => !run.classList?.contains("covered"));
  return plain(
    lines
      .map((line) =>
        seen(line)
          .map((run) => run.textContent)
          .join(""),
      )
      .join(" "),
  );
}

function search() {
  const wanted = plain($("find").value.trim());
  const svg = drawing();
  for (const old of svg.querySelectorAll(".hit, .at")) old.classList.remove("hit", "at");
  hits = wanted ? [...svg.querySelectorAll("g.node")].filter((node) => textOf(node).includes(wanted)) : [];
  const top = new Map(hits.map((node) => [node, node.getBBox()]));
  hits.sort((a, b) => top.get(a).y - top.get(b).y || top.get(a).x - top.get(b).x);
  for (const hit of hits) hit.classList.add("hit");
  svg.classList.toggle("finding", Boolean(wanted));
  at = hits.length ? 0 : -1;
  mark(Boolean(wanted));
}

function mark(asked) {
  for (const old of drawing().querySelectorAll(".at")) old.classList.remove("at");
  $("found").textContent = !asked
    ? ""
    : hits.length
      ? say("{n} of {all}", { n: at + 1, all: hits.length })
      : say("none");
  $("find-on").disabled = $("find-back").disabled = hits.length < 2;
  if (at < 0) return;
  hits[at].classList.add("at");
  show(hits[at]);
}

export function findNext(by) {
  if (!hits.length) return;
  at = (at + by + hits.length) % hits.length;
  mark(true);
}

export function clearFind() {
  $("find").value = "";
  search();
}

export function startFind() {
  $("find").addEventListener("input", search);
  $("find").addEventListener("keydown", (event) => {
    if (event.key === "Enter") findNext(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") {
      clearFind();
      document.activeElement.blur();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  $("find-on").addEventListener("click", () => findNext(1));
  $("find-back").addEventListener("click", () => findNext(-1));
  hear("sheet", search);
}
