"""What the page's script knows of a picture: cards, wires, the order of the backward pass, axes, the ledger's rows."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from tinygrad_edu.graph.axes import Axes
from tinygrad_edu.graph.einsum import shape_text
from tinygrad_edu.graph.html.chinese import said
from tinygrad_edu.graph.html.drawing import BACK
from tinygrad_edu.graph.html.sheets import Sheet, Sheets
from tinygrad_edu.graph.picture import Card, Row, Wire
from tinygrad_edu.graph.record import Record, Value
from tinygrad_edu.graph.words import say

PRODUCT = "contract {contracts} · keep {keeps}"
_USUAL = {
    "B": "batch: examples side by side",
    "T": "positions of the sequence",
    "D": "width of the model",
    "H": "attention heads",
    "d": "width of one head",
    "F": "width inside the feed-forward layer",
    "V": "vocabulary",
}
_ROLES = {"q": "positions that ask, the query side", "k": "positions that are asked, the key side"}


def facts(sheet: Sheet, axes: Axes, listed: bool) -> dict[str, Any]:
    """A drawing as data: cards and wires by id, what can be opened, and every gradient in the order in which the
    backward pass ran. listed: the ledger's steps bear the same ids as here."""
    cards = sheet.picture.cards()
    known = {card.id: _card(card) for card in cards}
    wires = {wire.id: _wire(wire, wire.name) for wire in sheet.picture.wires}
    steps = [_step(card, at, sheet, axes) for card, at in in_order(cards)]
    if sheet.mirrored:
        for card in cards:
            known[BACK + card.id] = {key: known[card.id].pop(key) for key in ("rows", "reads") if key in known[card.id]}
            name = card.header.partition(" = ")[0]
            title = say("backward of {name}", name=name) if card.role == "step" else f"d{name}"
            known[BACK + card.id] |= {"header": title, "role": "gradient"}
        for wire in sheet.picture.wires:
            back = replace(wire, tail=BACK + wire.tail, head=BACK + wire.head)
            wires[_opposite(wire.id)] = _wire(back, wire.gradient or "")
        for step in steps:
            step |= {"card": BACK + step["card"], "wires": [_opposite(name) for name in step["wires"]]}
    return {
        "cards": known,
        "wires": wires,
        "steps": steps,
        "tab": sheet.tab,
        "listed": listed,
        "opens": {
            name: {"sheet": number, "part": part, "open": name in sheet.closes}
            for name, (number, part) in sheet.opens.items()
        },
    }


def _opposite(wire: str) -> str:
    """On a mirror, the wire of the gradient beside that of the value."""
    return "g" + wire[1:]


def _wire(wire: Wire, name: str) -> dict[str, Any]:
    return {"tail": wire.tail, "head": wire.head, "name": name, "shapes": wire.shapes}


def _card(card: Card) -> dict[str, Any]:
    told = {
        "header": card.header,
        "words": card.words,
        "role": card.role,
        "path": card.path,
        "lines": card.lines,
        "einsum": "".join(text for text, _ in card.einsum),
        "product": say(PRODUCT, contracts=card.contracts, keeps=card.keeps) if card.contracts else "",
        "shape": card.shape,
        "source": card.source,
        "visible": card.visible,
        "reads": card.reads,
        "cells": [f"{cell.name} {cell.shape}" for cell in card.cells],
        "rows": [{"formula": row.formula, "note": row.note} for row in card.rows],
        "code": card.title.partition("\n")[2],
    }
    return {key: value for key, value in told.items() if value}


def in_order(cards: list[Card]) -> list[tuple[Card, int]]:
    """The rows of all cards, as (card, place in its rows), in the order in which the gradients were there."""
    rows = [(card, at) for card in cards for at in range(len(card.rows))]
    return sorted(rows, key=lambda row: _moment(row[0].rows[row[1]]))


def _moment(row: Row) -> tuple[int, bool]:
    return row.after, row.kind == "sum"


def _step(card: Card, at: int, sheet: Sheet, axes: Axes) -> dict[str, Any]:
    """A gradient with the wires it runs on: those to the card for a branch, all that leave it for a sum."""
    row = card.rows[at]
    names = set(row.formula.partition(" = ")[0].split(", "))
    flowing = [(wire, wire.gradient.split(" + ")) for wire in sheet.picture.wires if wire.gradient is not None]
    if row.kind == "sum":
        wires = [wire for wire, _ in flowing if wire.tail == card.id]
    else:
        wires = [wire for wire, gradients in flowing if wire.head == card.id and names & {*gradients}]
    shape = wires[0].shapes[0] if wires and len(names) == 1 else ""
    if not wires and row.kind == "branch" and len(names) == 1 and card.role == "step":
        shape = shape_text(sheet.record.branches[row.after].value, sheet.record, axes)
    return {"card": card.id, "row": at, "kind": row.kind, "wires": [wire.id for wire in wires], "shape": shape}


def axis_facts(record: Record, axes: Axes) -> dict[str, dict[str, str]]:
    """Every axis that has a name: its size (its sizes, where several axes have the name) and what it means: a role in
    attention, else what is usually called so and where it is met first."""
    sizes: dict[str, set[int]] = {}
    meaning: dict[str, str] = {}
    called = {axes.called.get(role, role): words for role, words in _ROLES.items()}
    for value in record.values:
        for at, axis in enumerate(axes.of.get(value.id, ())):
            if axes.roles.get((value.id, at)):
                name = axes.names(value.id)[at]
                sizes.setdefault(name, set()).add(axes.factors.length(axis))
                whole = axes.factors.text(axis)
                meaning[name] = said(called[name])
                if not whole.isdigit() and whole != name:
                    meaning[name] = said("{meaning} of {axis}", meaning=meaning[name], axis=whole)
            for factor in map(axes.factors.find, axis):
                if factor in axes.factors.name:
                    name = axes.factors.name[factor]
                    sizes.setdefault(name, set()).add(axes.factors.size[factor])
                    meaning.setdefault(name, " · ".join(filter(None, (said(_USUAL.get(name, "")), _place(value, at)))))
    return {
        name: {"size": " / ".join(map(str, sorted(found))), "meaning": meaning[name]} for name, found in sizes.items()
    }


def _place(value: Value, at: int) -> str:
    called = value.path or (value.names[-1].text if value.names else "")
    return said("axis {n} of {name}", n=at + 1, name=called) if called else ""


def ledger_facts(markdown: str, sheets: Sheets) -> dict[str, Any]:
    """The ledger taken apart: the heads of its table, the rows of steps that are drawn, each with its card, and the
    lines below."""
    table, below = [], []
    for line in markdown.splitlines()[1:]:
        if line.startswith("|"):
            table.append([_plain(cell) for cell in re.findall(r"((?:\\.|[^|\\])*)\|", line[1:])])
        elif line:
            below.append(_plain(line.removeprefix("- ").removeprefix("> ")))
    listed = sheets.drawings[sheets.listed]
    cards = {card.id: card for card in listed.picture.cards() if card.role == "step"}
    rows = dict(zip(sheets.steps, table[2:], strict=False))
    drawn = {name: row for name, row in rows.items() if name in cards}
    columns = [say(name) for name in ("contracts", "keeps", "backward")]
    *named, back = (table[0].index(name) for name in columns)
    return {
        "head": table[0],
        "named": named,
        "back": back,
        "fail": say("FAIL: {text}", text=""),
        "rows": list(drawn.values()),
        "cards": list(drawn),
        "sheet": sheets.listed,
        "left": len(table) - 2 - len(drawn),
        "below": below,
    }


def _plain(cell: str) -> str:
    return re.sub(r"\\([\\|])", r"\1", cell.strip()).replace("&lt;", "<")
