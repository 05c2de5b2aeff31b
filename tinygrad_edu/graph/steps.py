"""The named steps of a record: what only arranges elements becomes part of a wire, a bias part of its product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tinygrad_edu.graph.record import Application, Branch, Record, Value

_TAILS = {"mul", "div", "add", "sub", "neg"}


@dataclass(slots=True)
class Use:
    """A step or the end of the trace reads a value.

    source: the value at the start of the wire. value: the same as the step reads it, arranged by `trail`. step: which
    step, None for the result that the trace returned. op, at: which application reads it, as which input (None and the
    number of the result). branch: the gradient branch that comes back on the wire; seeded: the pass starts there.
    """

    source: int
    value: int
    trail: tuple[int, ...]
    step: int | None
    op: int | None
    at: int
    branch: Branch | None = None
    seeded: bool = False

    @property
    def flows(self) -> bool:
        """Whether a gradient comes back on this wire."""
        return self.seeded or self.branch is not None


@dataclass(slots=True)
class Step:
    """An op and what is folded into it: scalings, a change of sign, the addition of a number or of a bias."""

    id: int
    main: Application
    tail: list[Application] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)

    @property
    def out(self) -> int:
        """The value that the step makes, the first of several."""
        return self.outputs[0]


@dataclass(slots=True)
class Piece:
    """A value that was cut from another by an op that only arranges, such as split."""

    value: int
    whole: int
    splits: int  # the application
    flows: bool


@dataclass(slots=True)
class Steps:
    """A record at the level of named steps. holder: which step made a value that wires start from. told: the backward
    ops that have been asked for."""

    record: Record
    steps: list[Step] = field(default_factory=list)
    results: list[Use] = field(default_factory=list)
    pieces: dict[int, Piece] = field(default_factory=dict)
    holder: dict[int, int] = field(default_factory=dict)
    same: dict[int, list[int]] = field(default_factory=dict)  # source -> values that show it arranged
    branches: dict[tuple[int, int], Branch] = field(default_factory=dict)  # by application and input
    sums: dict[int, list[int]] = field(default_factory=dict)  # value -> backward ops
    told: set[int] = field(default_factory=set)
    origins: Any = None  # of all values, once somebody asked where one comes from

    def uses_of(self) -> dict[int, list[Use]]:
        """Every use by the value at the start of its wire, in the order of the steps, results last."""
        found: dict[int, list[Use]] = {}
        for use in [use for step in self.steps for use in step.uses] + self.results:
            found.setdefault(use.source, []).append(use)
        return found

    def ran(self, step: Step, use: Use) -> tuple[int, ...]:
        """The ops of the backward pass that a use's gradient comes from, back through what is folded into the step and
        on through what arranges the value on its wire; each is told of once."""
        keys = []
        for folded in reversed(step.tail):
            if use.op is not None and folded.id > use.op:
                own = {other.at for other in step.uses if other.op == folded.id}
                keys += [(folded.id, at) for at in range(len(folded.inputs)) if at not in own]
        return self._told([*keys, (use.op or 0, use.at), *((number, 0) for number in reversed(use.trail))])

    def put(self, pieces: list[Piece]) -> tuple[int, ...]:
        """The backward ops that put a value's gradient together from those of its pieces."""
        return self._told([(number, 0) for number in sorted({piece.splits for piece in pieces})])

    def added(self, value: int) -> tuple[int, ...]:
        """The backward ops that add up what arrives at a value, however arranged."""
        return tuple(n for shown in (value, *self.same.get(value, [])) for n in self.sums.get(shown, []))

    def _told(self, keys: list[tuple[int, int]]) -> tuple[int, ...]:
        found = [n for key in keys if key in self.branches for n in self.branches[key].applications]
        new = tuple(number for number in found if number not in self.told)
        self.told.update(new)
        return new

    def pieces_of(self) -> dict[int, list[Piece]]:
        """The pieces of every value that was cut."""
        found: dict[int, list[Piece]] = {}
        for piece in self.pieces.values():
            found.setdefault(piece.whole, []).append(piece)
        return found


def named_steps(record: Record, every: bool = False) -> Steps:
    """The record at the level where every step has a name: Q, K, V, scores, mask, weights, norm, ...

    every: each op is a step of its own, also one that only arranges elements.
    """
    steps = Steps(record)
    branches = steps.branches = {(b.application, b.at): b for b in record.branches}
    for entry in record.sums:
        steps.sums.setdefault(entry.value, []).extend(entry.applications)
    readers: dict[int, int] = {}
    for application in record.forward:
        for number in application.inputs:
            if number is not None:
                readers[number] = readers.get(number, 0) + 1
    for output in record.outputs:
        readers[output.value] = readers.get(output.value, 0) + 1
    wires: dict[int, tuple[int, tuple[int, ...]]] = {}  # value -> (start of its wire, trail)

    def start(number: int) -> tuple[int, tuple[int, ...]]:
        return wires.setdefault(number, (number, ()))

    def uses(step: Step, application: Application, skip: int | None = None) -> list[Use]:
        found = []
        for at, number in enumerate(application.inputs):
            if number is not None and number != skip:
                branch = branches.get((application.id, at))
                found.append(Use(start(number)[0], number, start(number)[1], step.id, application.id, at, branch))
        return found

    for application in record.forward:
        first = application.inputs[0] if application.inputs else None
        if application.arranges and first is not None and not every:
            source, trail = start(first)
            flows = (application.id, 0) in branches
            for made in application.outputs:
                if len(application.outputs) > 1:
                    wires[made] = made, ()
                    steps.pieces[made] = Piece(made, source, application.id, flows)
                else:
                    wires[made] = source, (*trail, application.id)
                    steps.same.setdefault(source, []).append(made)
            continue
        folded = None if every else _folded(application, record.values, readers)
        holder = steps.holder.get(folded) if folded is not None else None
        if holder is not None and folded is not None and readers[folded] == 1 and not _named(record.values[folded]):
            step = steps.steps[holder]
            before = step.tail[-1] if step.tail else step.main
            if step.out == folded and (before.call, before.group) == (application.call, application.group):
                del steps.holder[folded]
                step.tail.append(application)
                step.outputs = list(application.outputs)
                steps.holder[step.out] = step.id
                step.uses += uses(step, application, skip=folded)
                continue
        step = Step(len(steps.steps), application, outputs=list(application.outputs))
        step.uses += uses(step, application)
        steps.steps.append(step)
        for made in application.outputs:
            steps.holder[made] = step.id
    for at, output in enumerate(record.outputs):
        source, trail = start(output.value)
        steps.results.append(Use(source, output.value, trail, None, None, at, seeded=output.seed in ("1", "ones")))
    return steps


def _named(value: Value) -> bool:
    return any(name.how in ("assigned", "module") for name in value.names)


def _folded(application: Application, values: list[Value], readers: dict[int, int]) -> int | None:
    """The input of an op that only scales it by a number, or shifts it by a number or a bias."""
    if application.op not in _TAILS:
        return None
    x, y = (*application.inputs, None)[:2]
    if y is None or x is None:
        return x
    shifts = application.op in ("add", "sub")

    def is_small(small: int, large: int) -> bool:
        value = values[small]
        if value.kind == "number":
            return True
        return shifts and value.learned and readers[small] == 1 and len(value.shape) < len(values[large].shape)

    if is_small(y, x):
        return x
    return y if application.op in ("add", "mul") and is_small(x, y) else None


def identity(step: Step, record: Record, shape: Callable[[int], str]) -> str:
    """What a step does, to what and what comes out, without any name but those of axes: the same for two alike."""
    did = [(application.op, sorted(application.static.items())) for application in (step.main, *step.tail)]
    values = record.values
    read = [
        (use.op == step.main.id, use.at, values[use.source].number, shape(use.value), use.branch is not None)
        for use in step.uses
    ]
    return f"{did} {read} {[shape(output) for output in step.outputs]}"
