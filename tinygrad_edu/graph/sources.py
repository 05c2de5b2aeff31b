"""Where the queries, keys and values of an attention come from: one stream, or two."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tinygrad_edu.graph.axes import Axes
from tinygrad_edu.graph.products import product_of
from tinygrad_edu.graph.record import Record
from tinygrad_edu.graph.steps import Step, Steps
from tinygrad_edu.graph.words import say


@dataclass(slots=True)
class Origins:
    """Through which value everything in a value came, as a tree.

    above: by value, the nearest one that all of it came through, token by token; None at the start of a stream, which
    is an input, a value that attention mixed, or one that two streams meet in. What does not depend on the input -
    masks, tables of positions, parameters - is no source of anything and not in here.
    """

    above: dict[int, int | None] = field(default_factory=dict)
    depth: dict[int, int] = field(default_factory=dict)

    def put(self, value: int, above: int | None) -> None:
        """Add a value below another."""
        self.above[value] = above
        self.depth[value] = 0 if above is None else self.depth[above] + 1

    def common(self, x: int | None, y: int | None) -> int | None:
        """The nearest value that two came through, None where they share none."""
        while x != y:
            if x is None or y is None:
                return None
            if self.depth[x] >= self.depth[y]:
                x = self.above[x]
            else:
                y = self.above[y]
        return x

    def top(self, value: int) -> int:
        """The start of the stream that a value is in."""
        while (above := self.above[value]) is not None:
            value = above
        return value


def origins_of(steps: Steps, axes: Axes) -> Origins:
    """The origins of all values at the ends of wires."""
    record = steps.record
    found = Origins()
    for leaf in _data(record):
        found.put(leaf, None)

    def settle(value: int) -> bool:
        """Put a piece below the whole that it was cut from; whether a value depends on the input."""
        chain = []
        while value not in found.above and value in steps.pieces:
            chain.append(value)
            value = steps.pieces[value].whole
        for piece in reversed(chain if value in found.above else []):
            found.put(piece, steps.pieces[piece].whole)
        return value in found.above

    for step in steps.steps:
        read = list(dict.fromkeys(use.source for use in step.uses if settle(use.source)))
        if not read:
            continue
        above: int | None = read[0]
        for source in read[1:]:
            above = found.common(above, source)
        for output in step.outputs:
            found.put(output, None if step.main.id in axes.moving else above)
    return found


def _data(record: Record) -> list[int]:
    """The leaves that a computation is about: its inputs, or where there are none, all that is not learned."""
    leaves = [value for value in record.values if value.made_by is None and value.kind not in ("number", "saved")]
    given = [value.id for value in leaves if value.kind in ("input", "earlier")]
    return given or [value.id for value in leaves if not value.learned]


def source_of(step: Step, steps: Steps, axes: Axes, labels: dict[int, str]) -> str:
    """A sentence on a step that moves content between tokens; "" where it cannot be told.

    Queries, keys and values are walked back through all that works token by token, up to the value where they meet.
    """
    at = axes.moving[step.main.id]
    if at is None:
        return say("from each position to all that are read after it")
    if steps.origins is None:
        steps.origins = origins_of(steps, axes)
    origins = steps.origins
    values = next((use.source for use in step.uses if use.op == step.main.id and use.at != at), None)
    pairs = next((use.source for use in step.uses if use.op == step.main.id and use.at == at), None)
    scores = _scores(pairs, steps, axes)
    if values in origins.above and pairs is not None and pairs not in origins.above and scores is None:
        name = labels[_root(origins.top(values), steps, axes, origins)]
        return say("from {name}, with weights that depend on no token", name=name)
    if values is None or scores is None:
        return ""
    found = _sources((*_sides(scores, axes), values), steps, axes)
    if len(found) != 3:
        return ""
    q, k, v = found
    if q == k == v:
        return say("Q, K, V share one source, {name}: self-attention", name=labels[q])
    if k == v:
        return say("Q from {q}, K and V from {k}: cross-attention", q=labels[q], k=labels[k])
    return say("Q from {q}, K from {k}, V from {v}", q=labels[q], k=labels[k], v=labels[v])


def sides_of(step: Step, steps: Steps, axes: Axes, labels: dict[int, str]) -> str:
    """Where the queries and the keys of a step that scores pairs of tokens come from, such as "Q:x K:mem"."""
    found = _sources(_sides(step, axes), steps, axes)
    return f"Q:{labels[found[0]]} K:{labels[found[1]]}" if len(found) == 2 else ""


def _sides(scores: Step, axes: Axes) -> list[int]:
    """The queries and the keys that a step scores."""
    sides = sorted((use for use in scores.uses if use.op == scores.main.id), key=lambda use: use.at)[:2]
    if axes.queries.get(scores.main.id):
        sides.reverse()
    return [use.source for use in sides]


def _sources(values: Iterable[int], steps: Steps, axes: Axes) -> list[int]:
    """The one value that all come from, once for each, or the starts of their streams; [] where some have none."""
    if steps.origins is None:
        steps.origins = origins_of(steps, axes)
    origins, read = steps.origins, list(values)
    if any(value not in origins.above for value in read):
        return []
    one: int | None = read[0]
    for value in read[1:]:
        one = origins.common(one, value)
    if one is not None:
        above = origins.above[one]
        if one not in read and above is not None and _projected(one, steps, axes):  # one product for all
            one = above
        return [one] * len(read)
    tops = [origins.top(value) for value in read]
    roots = [_root(value, steps, axes, origins) for value in tops]
    return tops if roots[0] in roots[1:] else roots  # streams that were one before attention mixed it


def _projected(value: int, steps: Steps, axes: Axes) -> bool:
    """Whether a value is a learned product of another one."""
    holder = steps.holder.get(value)
    used = product_of(steps.steps[holder].main, steps.record) if holder is not None else None
    return used is not None and (used.x in axes.learned or used.y in axes.learned)


def _scores(pairs: int | None, steps: Steps, axes: Axes) -> Step | None:
    """The step that scored the pairs of tokens which a value holds."""
    while pairs is not None and pairs in steps.holder:
        step = steps.steps[steps.holder[pairs]]
        if step.main.id in axes.queries:
            return step
        pairs = next((use.source for use in step.uses if use.value in axes.pairs), None)
    return None


def _root(value: int, steps: Steps, axes: Axes, origins: Origins) -> int:
    """Where a stream began: back over additions to it, which are steps that read it and what was made of it."""
    while (holder := steps.holder.get(value)) is not None:
        read = sorted({use.source for use in steps.steps[holder].uses if use.source in origins.above})
        begun = next((number for number in read if all(_leads(number, other, steps) for other in read)), None)
        if begun is None or steps.steps[holder].main.id in axes.moving:
            return value
        value = origins.top(begun)
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
