"""By what number scores are multiplied on their way from queries and keys to the weights, wherever that happens."""

from __future__ import annotations

from math import prod

from tinygrad_edu.graph.axes import Axes
from tinygrad_edu.graph.products import product_of
from tinygrad_edu.graph.record import Application, Record


def scale_of(weights: int, record: Record, axes: Axes) -> tuple[float | None, int]:
    """The factor in the scores that a value of weights was made of, and the length d that the product sums over.

    None where something else than a number takes part in it, such as a learned temperature.
    """
    scored = record.forward[axes.pairs[weights]]
    used = product_of(scored, record)
    assert used is not None
    length = prod(record.values[used.x].shape[at] for at in used.i)
    factors = [_behind(weights, scored, record, axes), *(_before(value, record) for value in (used.x, used.y))]
    return (None if None in factors else prod(f for f in factors if f is not None)), length


def _behind(value: int, scored: Application, record: Record, axes: Axes) -> float | None:
    """The factor between the product that scored and a value made of the scores."""
    factor = 1.0
    while (made_by := record.values[value].made_by) is not None and made_by != scored.id:
        application = record.forward[made_by]
        at, before = next(
            (at, i) for at, i in enumerate(application.inputs) if i is not None and i in axes.pairs and i != value
        )
        step = _factor(application, at, record)
        if step is None and record.values[value].shown is None:
            return None
        factor *= 1.0 if step is None else step
        value = before
    return factor


def _before(value: int, record: Record) -> float | None:
    """The factor in queries or keys since they were projected."""
    factor = 1.0
    while (made_by := record.values[value].made_by) is not None:
        application = record.forward[made_by]
        scales = application.op in ("mul", "div", "neg")
        if not application.arranges and not scales:
            return factor
        at = 0
        if scales and len(application.inputs) > 1 and _number(application.inputs[0], record) is not None:
            at = 1
        step = _factor(application, at, record)
        if step is None:
            return factor  # features multiplied one by one, as rotations do
        factor *= step
        value = application.inputs[at]  # type: ignore[assignment]
    return factor


def _factor(application: Application, at: int, record: Record) -> float | None:
    """By what an op multiplies its input `at`: 1 for what is no product, None where it is by no number."""
    if application.op == "neg":
        return -1.0
    if application.op not in ("mul", "div"):
        return 1.0
    number = _number(application.inputs[1 - at], record)
    if number is None or (application.op == "div" and (at == 1 or number == 0)):
        return None
    return 1 / number if application.op == "div" else number


def _number(value: int | None, record: Record) -> float | None:
    if value is None:
        return None
    found = record.values[value]
    return found.number if found.number is not None else found.only
