// The drawing as a file, on paper, in the light and in the dark.
import { $, known } from "./tools.js";
import { printing, whole } from "./view.js";
import { drawing } from "./sheets.js";

const LOOK = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "font-family",
  "font-size",
  "font-weight",
  "text-decoration-line",
  "visibility",
];
const PLAIN = {
  stroke: "none",
  "stroke-width": "1px",
  "stroke-dasharray": "none",
  "font-weight": "400",
  "text-decoration-line": "none",
  visibility: "visible",
};

// The drawing as it is seen, all of it, with what it looks like written on every part.
export function drawingText() {
  const copy = drawing().cloneNode(true);
  const parts = [...copy.querySelectorAll("*")];
  [...drawing().querySelectorAll("*")].forEach((part, i) => {
    if (part.localName !== "g") {
      const look = getComputedStyle(part);
      const isText = ["text", "tspan"].includes(part.localName);
      for (const key of LOOK) {
        const value = look.getPropertyValue(key);
        if (value === PLAIN[key] || (key.startsWith("font") && !isText)) continue;
        parts[i].setAttribute(key.replace("-line", ""), value);
      }
      parts[i].removeAttribute("class");
    }
    for (const name of ["tabindex", "role"]) parts[i].removeAttribute(name);
  });
  const [x, y, width, height] = whole();
  const attributes = {
    xmlns: "http://www.w3.org/2000/svg",
    viewBox: `${x} ${y} ${width} ${height}`,
    width,
    height,
    role: "img",
    style: "white-space:pre",
  };
  for (const [name, value] of Object.entries(attributes)) copy.setAttribute(name, value);
  return new XMLSerializer().serializeToString(copy);
}

export function save() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([drawingText()], { type: "image/svg+xml" }));
  link.download = `${known.title.replace(/[^\p{L}\p{N}_-]+/gu, "_").slice(0, 60) || "graph"}.svg`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function changeTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
}

export function startFile() {
  $("save").addEventListener("click", save);
  $("theme").addEventListener("click", changeTheme);
  addEventListener("beforeprint", () => printing(true));
  addEventListener("afterprint", () => printing(false));
}
