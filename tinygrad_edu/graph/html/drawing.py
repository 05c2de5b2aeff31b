"""A drawing made fit for the page: what it looks like as classes, gradient rows and names of axes marked."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from tinygrad_edu.graph import style
from tinygrad_edu.graph.picture import Card, Picture
from tinygrad_edu.graph.text import clean
from tinygrad_edu.graph.words import word

BACK = "b"  # before the id of a card, on a mirror: the card of its gradients
_SVG = "{http://www.w3.org/2000/svg}"
_GEOMETRY = {"x", "y", "d", "points", "width", "height", "cx", "cy", "rx", "ry", "id", "class", "transform", "viewBox"}
_IN_PIXELS = {"font-size", "stroke-width"}
_SHOWN = {"text", "tspan", "rect", "polygon", "polyline", "path", "ellipse"}
# What on a card is nothing but words and names of axes, and where else it names some.
_NAMING = (
    "contract {contracts} · keep {keeps}",
    "contract {axes}",
    "sum over {axes}",
    "over {axes}",
    "row by row, over {axes}",
)
_SHAPE = re.compile(r"\[([^\]]*)\]")


@dataclass
class Looks:
    """Every way something on the drawings looks, written once, as a class of the page's style."""

    names: dict[tuple[tuple[str, str], ...], str] = field(default_factory=dict)

    def of(self, attributes: dict[str, str]) -> str:
        """The class that looks as the attributes say, "" where they say nothing."""
        look = tuple((k, v) for k, v in attributes.items() if (k, v) != ("text-anchor", "start"))
        return self.names.setdefault(look, f"k{len(self.names)}") if look else ""

    def css(self) -> str:
        """A rule for each class, every colour in its light and its dark form."""
        return "\n".join(
            f".{name}{{{';'.join(f'{key}:{_css(key, value)}' for key, value in look)}}}"
            for look, name in self.names.items()
        )


def color(light: str) -> str:
    """A colour of the palette on light and on dark ground, as a value of CSS.

    >>> color("#ffffff"), color("#6d28d9")
    ('light-dark(#ffffff,#0f172a)', '#6d28d9')
    """
    return f"light-dark({light},{style.DARK[light]})" if light in style.DARK else light


def _css(key: str, value: str) -> str:
    if key == "font-family":
        return "var(--mono)" if value.startswith("Courier") else "var(--sans)"
    if key in _IN_PIXELS:
        return f"{float(value):g}px"
    return color(value)


def naming() -> list[str]:
    """Patterns of whole texts that name axes, in the language that is spoken, for Python and for JavaScript."""
    return [re.sub(r"\{\w+\}", ".+", word(template)) for template in _NAMING]


def marked(svg: str, picture: Picture, axes: Collection[str], looks: Looks) -> str:
    """The SVG of a picture as it stands in the page.

    Ids become `data-id`, so that several drawings share one page. A card can be reached by keyboard and has a label; a
    row with a gradient is a group `row`, the gradient on a wire's label has the class `grad`, and the name of an axis
    is a `tspan` with `data-axis`.
    """
    ET.register_namespace("", _SVG[1:-1])
    root = ET.fromstring(svg)
    cards = {card.id: card for card in picture.cards()}
    whole = re.compile("|".join(naming()))
    for name in ("title", "desc", "style"):
        for parent in root.iter():
            for child in parent.findall(_SVG + name):
                parent.remove(child)
    for group in root.iter(f"{_SVG}g"):
        classes = group.get("class", "").split()
        card = cards.get(group.get("id", ""))
        back = cards.get(group.get("id", "").removeprefix(BACK)) if card is None else None
        if card is not None:
            group.attrib |= {"role": "group", "tabindex": "-1", "aria-label": clean(f"{card.header}, {card.words}")}
            group[:] = _with_rows(group, style.GRADIENT_GROUND, card.drawn)
        elif back is not None:
            title = next(text.text for text in group.iter(f"{_SVG}text"))
            group.attrib |= {"role": "group", "tabindex": "-1", "aria-label": title or ""}
            head = next(i for i, item in enumerate(group) if item.get("fill") == style.GRADIENT_HEADER)
            group[:] = [*group[: head + 1], *_with_rows(group[head + 1 :], style.PAPER, range(len(back.rows)))]
            for row in group.findall(f"{_SVG}g[@data-row]"):
                _widen(row[0], group[head])
        if "node" in classes:
            for text in [*group.iter(f"{_SVG}text")]:
                _mark_axes(text, card, axes, whole)
        if "wire" in classes:
            for run in group.iter():
                if run.get("fill") == style.GRADIENT and run.tag != f"{_SVG}polygon":
                    run.set("class", "grad")
    for element in root.iter():
        _compact(element, looks)
    box = root.get("viewBox", "")
    root.attrib.clear()
    root.attrib |= {"viewBox": box, "role": "group", "aria-label": clean(picture.title)}
    return ET.tostring(root, encoding="unicode").replace(f' xmlns="{_SVG[1:-1]}"', "", 1)


def _with_rows(items: Iterable[ET.Element], ground: str, numbers: Sequence[int]) -> list[ET.Element]:
    """The parts of a card, the cells of each gradient, which have this ground, together in a group. numbers: of the
    rows that are drawn, from the top."""
    parts: list[ET.Element] = []
    row: ET.Element | None = None
    heights: list[float] = []
    count = 0
    for part in items:
        if part.get("fill") == ground:
            ys = [float(corner.partition(",")[2]) for corner in part.get("points", "").split()]
            if row is None or heights != [min(ys), max(ys)]:
                row = ET.Element(f"{_SVG}g", {"class": "row", "data-row": str(numbers[count])})
                parts.append(row)
                heights, count = [min(ys), max(ys)], count + 1
            row.append(part)
        elif row is not None and part.tag == f"{_SVG}text" and heights[0] <= float(part.get("y", "0")) <= heights[1]:
            row.append(part)
        else:
            row = None
            parts.append(part)
    return parts


def _widen(box: ET.Element, like: ET.Element) -> None:
    """Make an upright box as wide as another one."""
    xs = [float(corner.partition(",")[0]) for corner in like.get("points", "").split()]
    ys = [float(corner.partition(",")[2]) for corner in box.get("points", "").split()]
    left, right, top, bottom = min(xs), max(xs), min(ys), max(ys)
    box.set("points", f"{left},{bottom} {left},{top} {right},{top} {right},{bottom} {left},{bottom}")


def _mark_axes(text: ET.Element, card: Card | None, axes: Collection[str], whole: re.Pattern[str]) -> None:
    content = text.text or ""
    if len(text) or not content:
        return
    spans: list[tuple[int, int]] = []
    if whole.fullmatch(content) or (card is not None and any(content == run for run, _ in card.einsum)):
        spans = _words(content, 0, axes)
    elif card is not None and card.grid and (head := re.fullmatch(r"(\D+)\d+", content)) and head[1] in card.heads:
        spans = _words(head[1], 0, axes)
    else:
        for found in _SHAPE.finditer(content):
            spans += _words(found[1], found.start(1), axes)
    if not spans:
        return
    text.text = content[: spans[0][0]]
    for (start, end), following in zip(spans, [*(s for s, _ in spans[1:]), len(content)], strict=True):
        run = ET.SubElement(text, f"{_SVG}tspan", {"data-axis": content[start:end]})
        run.text, run.tail = content[start:end], content[end:following]


def _words(text: str, offset: int, axes: Collection[str]) -> list[tuple[int, int]]:
    """Where names of axes stand in a text."""
    return [
        (offset + found.start(), offset + found.end()) for found in re.finditer(r"[^\s()]+", text) if found[0] in axes
    ]


def _compact(element: ET.Element, looks: Looks) -> None:
    """An element in fewer bytes: its look as a class, a box as a `rect`, its id as data."""
    given = dict(element.attrib)
    kept = {
        key: value for key, value in given.items() if key in _GEOMETRY or key.startswith(("data-", "aria-", "role"))
    }
    if "tabindex" in given:
        kept["tabindex"] = given["tabindex"]
    if "id" in kept:
        kept["data-id"] = kept.pop("id")
    if element.tag.removeprefix(_SVG) in _SHOWN:
        space = "{http://www.w3.org/XML/1998/namespace}space"
        look = looks.of(
            {key: value for key, value in given.items() if key not in kept and key != space and key != "id"}
        )
        if classes := " ".join(filter(None, (kept.get("class", ""), look))):
            kept["class"] = classes
    if element.tag == f"{_SVG}polygon" and (box := _box(kept.get("points", ""))):
        del kept["points"]
        element.tag = f"{_SVG}rect"
        kept |= box
    if (element.text or "").isspace():
        element.text = None
    if (element.tail or "").startswith("\n"):
        element.tail = None
    element.attrib.clear()
    element.attrib.update(kept)


def _box(points: str) -> dict[str, str]:
    """Left, top, width and height of a polygon that is an upright box, else nothing."""
    corners = [tuple(map(float, point.split(","))) for point in points.split()]
    xs, ys = sorted({corner[0] for corner in corners}), sorted({corner[1] for corner in corners})
    if len(corners) != 5 or len(xs) != 2 or len(ys) != 2:
        return {}
    numbers = {"x": xs[0], "y": ys[0], "width": xs[1] - xs[0], "height": ys[1] - ys[0]}
    return {key: f"{round(value, 2):g}" for key, value in numbers.items()}
