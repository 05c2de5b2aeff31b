"""Where the queries, keys and values of an attention come from: one stream, or two."""

from __future__ import annotations

from tinygrad_edu.graph.axes import Axes
from tinygrad_edu.graph.record import Record
from tinygrad_edu.graph.steps import Step, Steps


def source_of(step: Step, steps: Steps, axes: Axes, labels: dict[int, str]) -> str:
    """A sentence on a step that moves content between tokens; "" where it cannot be told.

    Queries, keys and values are walked back through all that works token by token, up to the value where they meet.
    """
    values = next((use.source for use in step.uses if use.op == step.main.id and use.at == 1), None)
    pairs = next((use.source for use in step.uses if use.op == step.main.id and use.at == 0), None)
    scores = _scores(pairs, steps, axes)
    if values is None or scores is None:
        return ""
    q, k = (_stream(use.source, steps, axes) for use in sorted(scores.uses, key=lambda use: use.at)[:2])
    v = _stream(values, steps, axes)
    one = next((value for value in q if value in k and value in v), None)
    if one is not None:
        if steps.pieces_of().get(one) and q.index(one) + 1 < len(q):  # one product for all three
            one = q[q.index(one) + 1]
        return f"Q, K, V share one source, {labels[one]}: self-attention"
    both = next((value for value in k if value in v), None)
    if both is not None:
        return f"Q from {labels[q[-1]]}, K and V from {labels[both]}: cross-attention"
    return f"Q from {labels[q[-1]]}, K from {labels[k[-1]]}, V from {labels[v[-1]]}"


def _scores(pairs: int | None, steps: Steps, axes: Axes) -> Step | None:
    """The step that scored the pairs of tokens which a value holds."""
    while pairs is not None and pairs in steps.holder:
        step = steps.steps[steps.holder[pairs]]
        if step.main.id in axes.contractions:
            return step
        pairs = next((use.source for use in step.uses if _has_pairs(use.value, axes)), None)
    return None


def _has_pairs(value: int, axes: Axes) -> bool:
    last = len(axes.of[value]) - 1
    return axes.roles.get((value, last)) == "k" and axes.roles.get((value, last - 1)) == "q"


def _stream(value: int, steps: Steps, axes: Axes) -> list[int]:
    """The values that one came from, nearest first, as long as each has one source that depends on data."""
    found = []
    while True:
        while value in steps.pieces:
            value = steps.pieces[value].whole
        found.append(value)
        holder = steps.holder.get(value)
        if holder is None:
            return found
        read = {use.source for use in steps.steps[holder].uses if not _learned(use.source, steps.record)}
        if len(read) != 1 or steps.steps[holder].main.id in axes.moving:
            return found
        value = read.pop()


def _learned(value: int, record: Record) -> bool:
    return record.values[value].learned or record.values[value].kind == "number"
