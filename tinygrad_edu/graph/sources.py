"""Where the queries, keys and values of an attention come from: one stream, or two."""

from __future__ import annotations

from tinygrad_edu.graph.axes import Axes
from tinygrad_edu.graph.record import Record
from tinygrad_edu.graph.steps import Step, Steps


def source_of(step: Step, steps: Steps, axes: Axes, labels: dict[int, str]) -> str:
    """A sentence on a step that moves content between tokens; "" where it cannot be told.

    Queries, keys and values are walked back through all that works token by token, up to the value where they meet.
    """
    at = axes.moving[step.main.id]
    values = next((use.source for use in step.uses if use.op == step.main.id and use.at != at), None)
    pairs = next((use.source for use in step.uses if use.op == step.main.id and use.at == at), None)
    scores = _scores(pairs, steps, axes)
    if values is None or scores is None:
        return ""
    sides = sorted((use for use in scores.uses if use.op == scores.main.id), key=lambda use: use.at)[:2]
    if axes.queries.get(scores.main.id):
        sides.reverse()
    q, k = (_stream(use.source, steps, axes) for use in sides)
    v = _stream(values, steps, axes)
    one = next((value for value in q if value in k and value in v), None)
    if one is not None:
        if steps.pieces_of().get(one) and q.index(one) + 1 < len(q):  # one product for all three
            one = q[q.index(one) + 1]
        return f"Q, K, V share one source, {labels[one]}: self-attention"
    roots = [_root(stream[-1], steps, axes) for stream in (q, k, v)]
    if roots[0] in roots[1:]:  # streams that were one before attention mixed it
        roots = [stream[-1] for stream in (q, k, v)]
    names = [labels[root] for root in roots]
    if roots[1] == roots[2]:
        return f"Q from {names[0]}, K and V from {names[1]}: cross-attention"
    return f"Q from {names[0]}, K from {names[1]}, V from {names[2]}"


def _scores(pairs: int | None, steps: Steps, axes: Axes) -> Step | None:
    """The step that scored the pairs of tokens which a value holds."""
    while pairs is not None and pairs in steps.holder:
        step = steps.steps[steps.holder[pairs]]
        if step.main.id in axes.queries:
            return step
        pairs = next((use.source for use in step.uses if use.value in axes.pairs), None)
    return None


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
        read = {use.source for use in steps.steps[holder].uses if not _is_learned(use.source, steps.record, axes)}
        if len(read) != 1 or steps.steps[holder].main.id in axes.moving:
            return found
        value = read.pop()


def _root(value: int, steps: Steps, axes: Axes) -> int:
    """Where a stream began: back over additions to it, which are steps that read it and what was made of it."""
    while (holder := steps.holder.get(value)) is not None:
        read = sorted(
            {use.source for use in steps.steps[holder].uses if not _is_learned(use.source, steps.record, axes)}
        )
        begun = next((number for number in read if all(_leads(number, other, steps) for other in read)), None)
        if begun is None:
            return value
        value = begun
        while value in steps.pieces:
            value = steps.pieces[value].whole
    return value


def _leads(start: int, end: int, steps: Steps) -> bool:
    """Whether a value was made of another."""
    stack, seen = [end], {end}
    while stack:
        value = stack.pop()
        if value == start:
            return True
        if value in steps.pieces:
            read = [steps.pieces[value].whole]
        else:
            holder = steps.holder.get(value)
            read = [use.source for use in steps.steps[holder].uses] if holder is not None else []
        for number in read:
            if number >= start and number not in seen:  # what came before cannot hold it
                seen.add(number)
                stack.append(number)
    return False


def _is_learned(value: int, record: Record, axes: Axes) -> bool:
    return value in axes.learned or record.values[value].kind == "number"
