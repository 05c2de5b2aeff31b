"""The four-step check of a diagram, worked out: shapes, sources, visibility, gradients, each line passed or failed."""

from __future__ import annotations

import math
import re

from tinygrad_edu.graph.axes import Axes
from tinygrad_edu.graph.declared import declared_of
from tinygrad_edu.graph.formula import number_text
from tinygrad_edu.graph.picture import Card, Check, Wire
from tinygrad_edu.graph.record import Record
from tinygrad_edu.graph.scales import scale_of
from tinygrad_edu.graph.steps import Steps
from tinygrad_edu.graph.visibility import failed
from tinygrad_edu.graph.words import say

HEADS = {1: "shapes", 2: "source", 3: "visibility", 4: "gradients"}


def checks(record: Record, steps: Steps, axes: Axes, cards: list[Card], wires: list[Wire]) -> list[Check]:
    """All lines of the check. cards: of the steps, in their order."""
    found = [_shapes(wires), *_sources(cards), *_visible(record, steps, axes, cards), *_gradients(record, steps)]
    fail = say("FAIL: {text}", text="")
    for check in found:
        check.passed = fail not in check.text
        check.text = check.text.replace(fail, "")
    return found


def _shapes(wires: list[Wire]) -> Check:
    nameless = [wire.name for wire in wires if not _is_named(wire.shapes[0])]
    text = say("{named} of {all} wires have a name for every axis", named=len(wires) - len(nameless), all=len(wires))
    if nameless:
        names = ", ".join(dict.fromkeys(nameless))
        return Check(1, None, failed("{text}; lengths only: {names}", text=text, names=names))
    return Check(1, None, text)


def _sources(cards: list[Card]) -> list[Check]:
    moving = [(i, card) for i, card in enumerate(cards, 1) if card.kind == "mixes"]
    found = [Check(2, i, f"{card.header}: {card.source}" if card.source else _untold(card)) for i, card in moving]
    return found or [Check(2, None, say("nothing moves content between tokens"))]


def _untold(card: Card) -> str:
    return failed("{what}: where queries, keys and values come from is not told", what=card.header)


def _visible(record: Record, steps: Steps, axes: Axes, cards: list[Card]) -> list[Check]:
    """Every softmax over the keys, what is hidden behind one, and how its scores are scaled."""
    found: list[Check] = []
    declared: set[str] = set()
    for i, (step, card) in enumerate(zip(steps.steps, cards, strict=True), 1):
        shown = record.values[step.out].shown
        if card.visible:
            found.append(Check(3, i, f"{card.header}: {card.visible}"))
        elif step.main.op == "softmax" and shown is None and step.out in axes.pairs:
            found.append(Check(3, i, failed("{what}: too many weights to look at them", what=card.header)))
        if card.visible and shown and shown.what == "weights":
            declared |= _around(step.main.call, record)
            scale = _scale(step.out, record, axes)
            if scale:
                found.append(Check(3, i, scale))
    for path, said in record.declared.items():
        told = path in declared or any(i in declared and record.declared.get(i) == said for i in _above(path))
        if said.visibility is not None and not told:
            what = path or record.title
            found.append(
                Check(3, None, failed("{what}: attention is declared, but no softmax runs over keys", what=what))
            )
    return found or [Check(3, None, say("no softmax over keys"))]


def _around(call: int | None, record: Record) -> set[str]:
    """The paths of all modules around a call, and of the whole."""
    path = record.calls[call].path if call is not None else ""
    return {path, *_above(path)}


def _above(path: str) -> list[str]:
    """The paths of the modules around one, the whole last."""
    parts = path.split(".") if path else []
    return [".".join(parts[:n]) for n in reversed(range(len(parts)))]


def _scale(weights: int, record: Record, axes: Axes) -> str:
    """Whether scores are scaled as it is declared; "" where nothing is."""
    application = record.forward[axes.pairs[weights]]
    said = declared_of(application, record).scaled
    if said is None:
        return ""
    scale, length = scale_of(weights, record, axes)
    wanted = 1 / math.sqrt(length) if said else 1.0
    called = {"wanted": f"1/√{length}" if said else "1", "name": record.forward[application.id].op}
    if scale is None:
        return failed("scores are declared to be scaled by {wanted}, but it is no number that scales them", **called)
    if math.isclose(scale, wanted, rel_tol=1e-5):
        return say("scores are scaled by {wanted}, as declared", **called)
    return failed(
        "scores are declared to be scaled by {wanted}, but are scaled by {scale}", scale=number_text(scale), **called
    )


def _gradients(record: Record, steps: Steps) -> list[Check]:
    """Whether all that needs a gradient gets one, and every differentiable input of a step has its row."""
    counted = say(
        "{branches} branches, {sums} sums where several meet", branches=len(record.branches), sums=len(record.sums)
    )
    if not any(output.seed in ("1", "ones") for output in record.outputs):
        return [Check(4, None, say("{text}; no backward pass", text=counted))]
    reached = {branch.value for branch in record.branches}
    lines: dict[int, list[int]] = {}
    for i, step in enumerate(steps.steps, 1):
        for use in step.uses:
            lines.setdefault(use.source, []).append(i)
    faults = []
    for value in record.values:
        if value.gradient and value.made_by is None and value.kind != "saved" and value.id not in reached:
            what = value.path or f"{value.kind} {value.shape}"
            at = ", ".join(map(str, dict.fromkeys(lines.get(value.id, []))))
            faults.append(
                Check(4, None, failed("no gradient reached {what}, read in line {at}", what=what, at=at or "-"))
            )
    if record.unread:
        faults.append(Check(4, None, failed("nothing reads {names}", names=", ".join(record.unread))))
    faults += _rows(record, steps)
    if faults:
        return [Check(4, None, counted), *faults]
    return [Check(4, None, say("{text}; all that needs a gradient is reached", text=counted))]


def _rows(record: Record, steps: Steps) -> list[Check]:
    """Inputs that need a gradient, of ops whose result got one, without a branch: an op lacks a rule."""
    there = {(branch.application, branch.at) for branch in record.branches}
    arrived = {branch.value for branch in record.branches}
    arrived |= {output.value for output in record.outputs if output.seed in ("1", "ones")}
    found = []
    for i, step in enumerate(steps.steps, 1):
        for application in (step.main, *step.tail):
            if not arrived.intersection(application.outputs):
                continue
            for at, number in enumerate(application.inputs):
                if number is not None and record.values[number].gradient and (application.id, at) not in there:
                    what = {"op": application.op, "name": application.arguments[at]}
                    found.append(Check(4, i, failed("{op} has no gradient rule for its input {name}", **what)))
    return found


def _is_named(shape: str) -> bool:
    """Whether every axis longer than 1 has a name in a shape such as "[B 1 (H d)] 2×1×12", or there are no axes."""
    if shape == say("a number"):
        return True
    axes = re.sub(r"\(.*?\)", "", shape[1:].partition("]")[0]).split() if shape[0] == "[" else shape.split("×")
    return not any(axis.isdigit() and axis != "1" for axis in axes)
