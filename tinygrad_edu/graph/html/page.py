"""The page itself: drawings, what the script knows of them, style and script, put together into one text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tinygrad_edu.graph import style
from tinygrad_edu.graph.axes import axes_of
from tinygrad_edu.graph.html.chinese import said, table
from tinygrad_edu.graph.html.drawing import Looks, color, marked, naming
from tinygrad_edu.graph.html.facts import axis_facts, facts, ledger_facts
from tinygrad_edu.graph.html.sheets import sheets_of
from tinygrad_edu.graph.text import clean
from tinygrad_edu.graph.words import spoken

if TYPE_CHECKING:
    from tinygrad_edu.graph.graph import Graph

# The parts of the script, each after those that it imports from.
_SCRIPTS = ("tools", "view", "sheets", "axes", "cards", "quiz", "steps", "find", "ledger", "file", "keys", "main")
_LARGEST = 200_000  # characters of the first drawing up to which it stands in the page as it is
_PALETTE = {
    "ink": style.INK,
    "grey": style.GREY,
    "paper": style.PAPER,
    "value": style.VALUE,
    "gradient": style.GRADIENT,
    "gradient-ground": style.GRADIENT_GROUND,
    "ground": style.CLUSTER_GROUND,
    "line": style.CLUSTER_BORDER,
    "chip": style.CONSTANT_GROUND,
    "bad": style.CONTRACTED,
    "mark": style.PARAMETER_GROUND,
    "mark-line": style.PARAMETER_BORDER,
    "focus": style.QUERY,
    "lit": style.QUERY,
    "lit-ink": style.PAPER,
}


def page(graph: Graph, level: int, opened: str | Sequence[str], view: str) -> str:
    """A graph as one HTML page, which begins with the drawing of a level, with some modules open, or with the mirror.

    It is complete in itself: it asks for nothing from anywhere, and its policy forbids it to, as it forbids any script
    but its own. Names from the traced program come in as text only. Raises LayoutError where nothing can be laid out.
    """
    sheets = sheets_of(graph, level, opened, view)
    drawings = sheets.drawings
    first = drawings[sheets.first]
    looks = Looks()
    axes = {id(sheet.record): axes_of(sheet.record) for sheet in drawings}
    named: dict[str, dict[str, str]] = {}
    for sheet in drawings:
        named = axis_facts(sheet.record, axes[id(sheet.record)]) | named
    svgs = [marked(sheet.svg, sheet.picture, named, looks) for sheet in drawings]
    told = [facts(sheet, axes[id(sheet.record)], sheet.record is graph.record) for sheet in drawings]
    known = {
        "title": graph.record.title,
        "axes": named,
        "ledger": ledger_facts(graph.ledger(), sheets),
        "first": sheets.first,
        "flows": any(sheet["steps"] for sheet in told),
        "naming": naming(),
        "words": table(),
    }
    script = _script()
    parts = {
        "title": escape(clean(graph.record.title)),
        "language": spoken(),
        "about": said(
            "{steps} steps, {branches} gradient branches",
            steps=f"{len(sheets.steps):,}",
            branches=f"{len(graph.record.branches):,}",
        ),
        "policy": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "style": "\n".join([_palette(), _read("style.css"), looks.css()]),
        "tabs": "\n".join(_tab(name, number, number == first.tab) for name, number in sheets.tabs.items()),
        "sheets": "\n".join(
            _panel(number, svg, sheet, number == sheets.first)
            for number, (svg, sheet) in enumerate(zip(svgs, told, strict=True))
        ),
        "known": _json(known),
        "script": script,
    }
    frame = re.sub(r"\[\[(.*?)\]\]", lambda found: escape(said(found[1])), _read("page.html"))
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], frame)


def framed(document: str, title: str) -> str:
    """A page inside another one, such as a notebook: in a frame of its own, so that neither disturbs the other."""
    look = "width:100%;height:640px;border:1px solid #8886;border-radius:8px"
    return (
        f'<iframe title="{escape(clean(title))}" sandbox="allow-scripts allow-downloads" style="{look}" '
        f'srcdoc="{escape(document)}"></iframe>'
    )


def _read(name: str) -> str:
    return files("tinygrad_edu.graph.html").joinpath(name).read_text(encoding="utf-8")


def _script() -> str:
    """The modules of the script as one script: each in a function of its own, which returns what it exports."""
    parts = []
    for name in _SCRIPTS:
        text = re.sub(
            r'^import (.*) from "./(\w+).js";', r"const \1 = parts.\2;", _read(f"{name}.js"), flags=re.MULTILINE
        )
        exported = re.findall(r"^export (?:const|(?:async )?function) ([\w$]+)", text, flags=re.MULTILINE)
        text = re.sub(r"^export ", "", text, flags=re.MULTILINE)
        parts.append(f"parts.{name} = await (async () => {{\n{text}\nreturn {{ {', '.join(exported)} }};\n}})();")
    return "\n".join(["const parts = {};", *parts])


def _palette() -> str:
    colors = "".join(f"--{name}:{color(light)};" for name, light in _PALETTE.items())
    return f":root{{{colors}}}"


def _tab(name: str, number: int, chosen: bool) -> str:
    return (
        f'<button role="tab" id="tab-{number}" data-sheet="{number}" aria-controls="sheet-{number}" '
        f'aria-selected="{str(chosen).lower()}" tabindex="{0 if chosen else -1}">{escape(name)}</button>'
    )


def _panel(number: int, svg: str, told: dict[str, Any], first: bool) -> str:
    """A drawing and what is known of it: for the first one as they are, else packed until they are asked for."""
    opening = f'<section class="sheet" id="sheet-{number}" role="tabpanel" aria-labelledby="tab-{told["tab"]}"'
    if first and len(svg) <= _LARGEST:
        return f'{opening}>{svg}<script type="application/json">{_json(told)}</script></section>'
    both = f'{{"drawing":{json.dumps(svg, ensure_ascii=False)},"told":{_json(told)}}}'
    packed = base64.b64encode(zlib.compress(both.encode(), 9)).decode()
    return f'{opening} hidden data-packed="{packed}"></section>'


def _json(value: Any) -> str:
    """Data inside a script element: no character of it can end the element."""
    text = json.dumps(_clean(value), ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): _clean(item) for key, item in value.items()}
    return value
