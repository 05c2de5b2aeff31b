"""The ledger: a traced run as a Markdown table, what it adds up to, and the check of a diagram in four steps."""

from __future__ import annotations

from math import prod

from tinygrad_edu.graph.checks import HEADS
from tinygrad_edu.graph.picture import Card, Check, Picture
from tinygrad_edu.graph.products import multiply_adds_of
from tinygrad_edu.graph.record import Record
from tinygrad_edu.graph.text import clean
from tinygrad_edu.graph.words import say

_HEAD = ("#", "op", "axes", "shape", "contracts", "keeps", "tokens", "source", "params", "backward", "reads")


def ledger(record: Record, picture: Picture) -> str:
    """The text of the ledger."""
    steps = [card for card in picture.cards() if card.role == "step"]
    rows = [_row(i, card) for i, card in enumerate(steps, 1)]
    head = tuple(say(word) for word in _HEAD)
    lines = [f"# {_plain(record.title)}", "", line(head), "|" + "---|" * len(head), *map(line, rows), ""]
    notes = [f"> {_plain(say(note.text, **note.values))}\n" for note in record.notes]
    return "\n".join([*lines, *notes, *_totals(record), "", *_check(picture)]) + "\n"


def _row(number: int, card: Card) -> tuple[str, ...]:
    return (
        str(number),
        card.header,
        "".join(text for text, _ in card.einsum),
        card.shape,
        card.contracts,
        card.keeps,
        card.words,
        card.source or card.data,
        ", ".join(f"{cell.name} {cell.shape}" for cell in card.cells),
        ", ".join(row.formula.partition(" = ")[0] for row in card.rows if row.kind == "branch"),
        ", ".join(card.reads),
    )


def line(cells: tuple[str, ...]) -> str:
    """A line of a Markdown table, "-" for an empty cell."""
    return "| " + " | ".join(_plain(cell).replace("|", "\\|") or "-" for cell in cells) + " |"


def _plain(text: str) -> str:
    """Text on one line that no Markdown reader takes for HTML."""
    return clean(" ".join(text.split())).replace("\\", "\\\\").replace("<", "&lt;")


def multiply_adds(record: Record) -> int:
    """How many products of two numbers the forward pass adds up, in matrix products."""
    return sum(multiply_adds_of(application, record) for application in record.forward)


def _totals(record: Record) -> list[str]:
    learned = {value.id: prod(value.shape) for value in record.values if value.learned}
    read = [number for application in record.forward for number in application.inputs if number in learned]
    unique = sum(learned.values())
    repeated = sum(learned[number] for number in read if number is not None)
    kept = sum(saved.bytes for application in record.forward for saved in application.saved if saved.counted)
    parameters = say("parameters: {n}", n=f"{unique:,}")
    if repeated != unique:
        parameters = say("parameters: {n}, {more} as often as they are read", n=f"{unique:,}", more=f"{repeated:,}")
    return [
        "- " + say("multiply-adds forward: {n}", n=f"{multiply_adds(record):,}"),
        "- " + parameters,
        "- " + say("bytes kept for backward, parameters left out: {n}", n=f"{kept:,}"),
    ]


def _check(picture: Picture) -> list[str]:
    """Shapes, sources, visibility, gradients: what a reader checks on any diagram, and what of it fails."""
    lines = []
    for step, head in HEADS.items():
        first, *others = [check for check in picture.checks if check.step == step]
        if first.line is None:
            lines.append(f"{step}. {say(head)}: {_told(first)}")
        else:
            lines.append(f"{step}. {say(head)}:")
            others.insert(0, first)
        lines += [f"   - {_told(check)}" for check in others]
    failed = sum(not check.passed for check in picture.checks)
    verdict = say("{n} of {all} lines failed", n=failed, all=len(picture.checks)) if failed else say("passed")
    return [*lines, "", say("check: {verdict}", verdict=verdict)]


def _told(check: Check) -> str:
    """FAIL: line 8, weights = softmax(scores): ..."""
    text = _plain(check.text)
    if check.line is not None:
        text = say("line {n}", n=check.line) + ", " + text
    return text if check.passed else say("FAIL: {text}", text=text)
