// Which part of a drawing is seen: zoom at the cursor, drag, pinch, fit, and moving to what should be seen.
import { $, still } from "./tools.js";

const LARGEST = 6;
const desk = document.querySelector("main");
const views = new WeakMap(); // svg -> {whole: [x, y, width, height], x, y, k}: left, top, pixels for one unit
let svg = null;
let moving = 0;
let paper = false; // whether all of the drawing is seen, whatever the view is

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const view = () => views.get(svg);

// Show a drawing where it was left; for the first time from its top, at a size that can be read.
export function look(at) {
  cancelAnimationFrame(moving);
  svg = at;
  if (!views.has(svg)) {
    const whole = svg.getAttribute("viewBox").split(/[ ,]+/).map(Number);
    views.set(svg, { whole, x: 0, y: 0, k: 1 });
    Object.assign(view(), fitted(desk.clientWidth < 720 ? 0.7 : 1));
  }
  draw();
}

function draw() {
  if (!svg || !desk.clientWidth) return;
  const { whole, x, y, k } = view();
  const seen = paper ? whole : [x, y, desk.clientWidth / k, desk.clientHeight / k];
  svg.setAttribute("viewBox", seen.join(" "));
}

// The view of all of it, or, where it would be smaller than `least`, of what stands at its top in that size.
function fitted(least = 0) {
  const [left, top, width, height] = view().whole;
  const all = Math.min(desk.clientWidth / width, desk.clientHeight / height);
  const k = clamp(all, least, 1.4);
  const [wide, high] = [desk.clientWidth / k, desk.clientHeight / k];
  const y = high < height ? top : top + (height - high) / 2;
  return { x: (wide < width ? middle(top + high) : left + width / 2) - wide / 2, y, k };
}

// Where, across the drawing, the cards above a line stand.
function middle(line) {
  const scale = svg.getScreenCTM().inverse();
  let [low, high] = [Infinity, -Infinity];
  for (const card of svg.querySelectorAll("g.node[tabindex]")) {
    const box = card.getBoundingClientRect();
    const start = new DOMPoint(box.left, box.top).matrixTransform(scale);
    if (start.y > line) continue;
    low = Math.min(low, start.x);
    high = Math.max(high, new DOMPoint(box.right, box.top).matrixTransform(scale).x);
  }
  return low < high ? (low + high) / 2 : view().whole[0] + view().whole[2] / 2;
}

function go(to) {
  cancelAnimationFrame(moving);
  if (still.matches) {
    Object.assign(view(), to);
    draw();
    return;
  }
  const of = view();
  const from = { x: of.x, y: of.y, k: of.k };
  const start = performance.now();
  const step = (now) => {
    const t = clamp((now - start) / 220, 0, 1);
    const part = t * (2 - t);
    for (const key of ["x", "y", "k"]) of[key] = from[key] + (to[key] - from[key]) * part;
    draw();
    if (t < 1) moving = requestAnimationFrame(step);
  };
  moving = requestAnimationFrame(step);
}

export const fit = () => go(fitted());

// Make everything larger by a factor, so that the point of the page at (px, py) stays where it is.
export function zoom(factor, px, py) {
  cancelAnimationFrame(moving);
  const area = desk.getBoundingClientRect();
  const dx = (px ?? area.left + area.width / 2) - area.left;
  const dy = (py ?? area.top + area.height / 2) - area.top;
  const now = view();
  const [, , width, height] = now.whole;
  const smallest = Math.min(0.5, area.width / width, area.height / height) / 2;
  const k = clamp(now.k * factor, smallest, LARGEST);
  now.x += dx / now.k - dx / k;
  now.y += dy / now.k - dy / k;
  now.k = k;
  draw();
}

// Bring the first part into sight, and the others with it where there is room, moving no more than that takes.
export function show(first, ...others) {
  if (!first) return;
  const area = desk.getBoundingClientRect();
  const now = view();
  const k = now.k < 0.6 ? 1 : now.k;
  const scale = k / now.k;
  const margin = Math.min(60, area.width / 8, area.height / 8);
  const boxes = [first, ...others.filter(Boolean)].map((part) => part.getBoundingClientRect());
  const around = (some, low, high) => [
    Math.min(...some.map((box) => box[low])),
    Math.max(...some.map((box) => box[high])),
  ];
  const along = (low, high, size) => {
    const room = size - 2 * margin;
    let [start, end] = around(boxes, low, high);
    if ((end - start) * scale > room) [start, end] = around(boxes.slice(0, 1), low, high);
    const middle = (start + end) / 2 - area[low];
    const half = Math.min(((end - start) / 2) * scale, room / 2);
    return { middle, wanted: clamp(middle, margin + half, size - margin - half) };
  };
  const across = along("left", "right", area.width);
  const down = along("top", "bottom", area.height);
  go({
    x: now.x + across.middle / now.k - across.wanted / k,
    y: now.y + down.middle / now.k - down.wanted / k,
    k,
  });
}

// For as long as the page is printed, all of the drawing is seen.
export function printing(on) {
  paper = on;
  draw();
}

export const whole = () => view().whole;

function pointers() {
  const held = new Map(); // pointer -> [x, y]
  let dragged = false;
  const spread = () => {
    const [a, b] = [...held.values()];
    return { x: (a[0] + b[0]) / 2, y: (a[1] + b[1]) / 2, far: Math.hypot(a[0] - b[0], a[1] - b[1]) };
  };
  desk.addEventListener("pointerdown", (event) => {
    const text = event.pointerType === "mouse" && event.target.closest?.("text");
    if (event.button !== 0 || text || event.target.closest("button, input")) return;
    cancelAnimationFrame(moving);
    if (!held.size) dragged = false;
    held.set(event.pointerId, [event.clientX, event.clientY]);
  });
  addEventListener("pointermove", (event) => {
    const before = held.get(event.pointerId);
    if (!before) return;
    const [dx, dy] = [event.clientX - before[0], event.clientY - before[1]];
    if (held.size === 1) {
      if (!dragged && Math.hypot(dx, dy) < 4) return;
      if (!dragged) desk.setPointerCapture(event.pointerId);
      dragged = true;
      desk.classList.add("dragging");
      const now = view();
      now.x -= dx / now.k;
      now.y -= dy / now.k;
      held.set(event.pointerId, [event.clientX, event.clientY]);
      draw();
    } else {
      const old = spread();
      held.set(event.pointerId, [event.clientX, event.clientY]);
      const now = spread();
      dragged = true;
      view().x -= (now.x - old.x) / view().k;
      view().y -= (now.y - old.y) / view().k;
      zoom(now.far / Math.max(old.far, 1), now.x, now.y);
    }
  });
  const end = (event) => {
    held.delete(event.pointerId);
    if (!held.size) desk.classList.remove("dragging");
  };
  addEventListener("pointerup", end);
  addEventListener("pointercancel", end);
  // the click at the end of a drag means nothing
  desk.addEventListener("click", (event) => dragged && (event.stopPropagation(), (dragged = false)), true);
}

export function startView() {
  pointers();
  desk.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const pixels = event.deltaY * (event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1);
      zoom(Math.exp(-clamp(pixels, -200, 200) * (event.ctrlKey ? 0.01 : 0.002)), event.clientX, event.clientY);
    },
    { passive: false },
  );
  new ResizeObserver(draw).observe(desk);
  $("zoom-in").addEventListener("click", () => zoom(1.25));
  $("zoom-out").addEventListener("click", () => zoom(0.8));
  $("fit").addEventListener("click", fit);
}
