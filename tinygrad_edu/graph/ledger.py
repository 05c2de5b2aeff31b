"""The ledger: a traced run as a Markdown table, what it adds up to, and the check of a diagram in four steps."""

from __future__ import annotations

import re
from math import prod

from tinygrad_edu.graph.picture import Card, Picture
from tinygrad_edu.graph.products import multiply_adds_of
from tinygrad_edu.graph.record import Record
from tinygrad_edu.graph.visibility import FAIL

_HEAD = ("#", "op", "axes", "shape", "contracts", "keeps", "tokens", "source", "params", "backward", "reads")


def ledger(record: Record, picture: Picture) -> str:
    """The text of the ledger."""
    steps = [card for card in picture.cards() if card.role == "step"]
    rows = [_row(i, card) for i, card in enumerate(steps, 1)]
    lines = [f"# {record.title}", "", _line(_HEAD), "|" + "---|" * len(_HEAD), *map(_line, rows), ""]
    return "\n".join([*lines, *_totals(record), "", *_check(record, picture, steps)]) + "\n"


def _row(number: int, card: Card) -> tuple[str, ...]:
    return (
        str(number),
        card.header,
        "".join(text for text, _ in card.einsum),
        card.shape,
        card.contracts,
        card.keeps,
        card.words,
        card.source,
        ", ".join(f"{cell.name} {cell.shape}" for cell in card.cells),
        ", ".join(row.formula.partition(" = ")[0] for row in card.rows if row.kind == "branch"),
        ", ".join(card.reads),
    )


def _line(cells: tuple[str, ...]) -> str:
    texts = (" ".join(cell.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;") for cell in cells)
    return "| " + " | ".join(text or "-" for text in texts) + " |"


def multiply_adds(record: Record) -> int:
    """How many products of two numbers the forward pass adds up, in matrix products."""
    return sum(multiply_adds_of(application, record) for application in record.forward)


def _totals(record: Record) -> list[str]:
    learned = {value.id: prod(value.shape) for value in record.values if value.learned}
    read = [number for application in record.forward for number in application.inputs if number in learned]
    unique = sum(learned.values())
    repeated = sum(learned[number] for number in read if number is not None)
    kept = sum(saved.bytes for application in record.forward for saved in application.saved if saved.counted)
    shared = f", {repeated:,} as often as they are read" if repeated != unique else ""
    return [
        f"- multiply-adds forward: {multiply_adds(record):,}",
        f"- parameters: {unique:,}{shared}",
        f"- bytes kept for backward, parameters left out: {kept:,}",
    ]


def _check(record: Record, picture: Picture, steps: list[Card]) -> list[str]:
    """Shapes, sources, visibility, gradients: what a reader checks on any diagram, and what of it fails."""
    nameless = [wire.name for wire in picture.wires if not _is_named(wire.shapes[0])]
    named = f"{len(picture.wires) - len(nameless)} of {len(picture.wires)} wires have a name for every axis"
    if nameless:
        lines = [f"1. shapes: {FAIL}{named}; lengths only: {', '.join(dict.fromkeys(nameless))}"]
    else:
        lines = [f"1. shapes: {named}"]
    sources = [f"{card.header}: {card.source or FAIL + 'not told'}" for card in steps if card.kind == "mixes"]
    lines += _under("2. source", sources, "nothing moves content between tokens")
    visible = [f"{card.header}: {card.visible}" for card in steps if card.visible]
    lines += _under("3. visibility", visible, "no softmax over keys")
    reached = {branch.value for branch in record.branches}
    missed = [
        value.path or f"{value.kind} {value.shape}"
        for value in record.values
        if value.gradient and value.made_by is None and value.id not in reached
    ]
    found = f"{len(record.branches)} branches, {len(record.sums)} sums where several meet"
    faults = [f"no gradient reached {', '.join(missed)}"] if missed else []
    faults += [f"nothing reads {', '.join(record.unread)}"] if record.unread else []
    verdict = FAIL + "; ".join(faults) if faults else "all that needs a gradient is reached"
    return [*lines, f"4. gradients: {found}; {verdict}"]


def _under(head: str, lines: list[str], none: str) -> list[str]:
    """The lines as a list under a heading of theirs."""
    return [f"{head}:", *(f"   - {line}" for line in lines)] if lines else [f"{head}: {none}"]


def _is_named(shape: str) -> bool:
    """Whether every axis longer than 1 has a name in a shape such as "[B 1 (H d)] 2×1×12", or there are no axes."""
    if shape == "a number":
        return True
    axes = re.sub(r"\(.*?\)", "", shape[1:].partition("]")[0]).split() if shape[0] == "[" else shape.split("×")
    return not any(axis.isdigit() and axis != "1" for axis in axes)
