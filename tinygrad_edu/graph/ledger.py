"""The ledger: a traced run as a Markdown table, what it adds up to, and the check of a diagram in four steps."""

from __future__ import annotations

from math import prod

from tinygrad_edu.graph.picture import Card, Picture
from tinygrad_edu.graph.record import Record

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
    total = 0
    for application in record.forward:
        if application.op in ("matmul", "linear") and application.inputs[0] is not None:
            total += prod(record.values[application.outputs[0]].shape) * record.values[application.inputs[0]].shape[-1]
    return total


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
    """Shapes, sources, visibility, gradients: what a reader checks on any diagram."""
    nameless = [wire.name for wire in picture.wires if "[" not in wire.shapes[0] and wire.shapes[0] != "a number"]
    lines = [
        f"1. shapes: on {len(picture.wires) - len(nameless)} of {len(picture.wires)} wires with names of axes"
        + (f"; by length alone: {', '.join(dict.fromkeys(nameless))}" if nameless else "")
    ]
    lines += [f"2. source of {card.header}: {card.source or 'not told'}" for card in steps if card.kind == "mixes"]
    for card in steps:
        if card.grid and card.grid.what == "hidden":
            queries, keys = card.grid.total
            seen = queries * keys - card.grid.marked
            pattern = f"{card.grid.pattern}, " if card.grid.pattern else ""
            lines.append(f"3. visibility in {card.header}: {pattern}{seen} of {queries * keys} visible")
    reached = {branch.value for branch in record.branches}
    missed = [
        value.path or f"{value.kind} {value.shape}"
        for value in record.values
        if value.gradient and value.made_by is None and value.id not in reached
    ]
    lines.append(
        f"4. gradients: {len(record.branches)} branches, {len(record.sums)} sums where several meet; "
        + (f"no gradient reached {', '.join(missed)}" if missed else "all that needs a gradient is reached")
    )
    return lines
