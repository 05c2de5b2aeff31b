"""Which inputs the values that a step reads come from, so that a picture can colour every card by its sources."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tinygrad_edu.graph.axes import Axes
from tinygrad_edu.graph.picture import Card, Picture
from tinygrad_edu.graph.steps import Steps

Inputs = tuple[int, ...]  # values, in the order in which they are met


@dataclass(slots=True)
class Streams:
    """values: the inputs that a value belongs to. steps: those of all that a step reads."""

    values: dict[int, Inputs] = field(default_factory=dict)
    steps: dict[int, Inputs] = field(default_factory=dict)

    @property
    def inputs(self) -> Inputs:
        """All inputs that a step depends on."""
        return _union(self.steps.values())


def streams_of(steps: Steps, axes: Axes) -> Streams:
    """Follow every input of the trace through all steps; parameters, constants and numbers belong to none.

    What attention gives belongs to the stream of its queries, whose tokens it is about, although its content came from
    that of the values; all else belongs to every stream that it was made of.
    """
    found = Streams()
    asking: dict[int, Inputs] = {}  # scores, and what was made of them -> the streams of their queries

    def of(number: int) -> Inputs:
        while number in steps.pieces:
            number = steps.pieces[number].whole
        value = steps.record.values[number]
        if value.made_by is None and value.kind in ("input", "earlier") and not value.learned:
            return (number,)
        return found.values.get(number, ())

    for step in steps.steps:
        read = _union(of(use.source) for use in step.uses)
        found.steps[step.id] = read
        asked = _union(asking.get(use.source, ()) for use in step.uses)
        if step.main.id in axes.moving:
            read, asked = asked or read, ()
        elif (queries := axes.queries.get(step.main.id)) is not None:
            asked = _union(of(use.source) for use in step.uses if (use.op, use.at) == (step.main.id, queries))
        for made in step.outputs:
            found.values[made] = read
            asking[made] = asked
    return found


def _union(several: Iterable[Inputs]) -> Inputs:
    return tuple(dict.fromkeys(number for inputs in several for number in inputs))


def color(
    picture: Picture, found: Streams, labels: dict[int, str], leaves: dict[int, Card], made: dict[int, Card]
) -> None:
    """Note on every card which streams it reads, or which it begins. leaves, made: cards by value and by step."""
    inputs = found.inputs
    picture.streams = [labels[number] for number in inputs]
    for number, card in leaves.items():
        card.streams = (inputs.index(number),) if number in inputs else ()
    for step, card in made.items():
        card.streams = tuple(inputs.index(number) for number in found.steps[step])
