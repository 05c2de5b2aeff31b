"""The rules of one record run: on arrays, or on Variables, so that the backward pass is itself recorded or watched."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from tinygrad_edu.arrays import backend
from tinygrad_edu.engine.hooks import key_of
from tinygrad_edu.engine.modes import setting
from tinygrad_edu.engine.tape import Record, Variable, registry, wrap


def branches(r: Record, g: Any) -> list[tuple[int, Any]]:
    """[(input, its gradient)] of one record, by its rules on arrays."""
    kept = r.kept
    if kept is None:
        raise RuntimeError(f"{r.op.name}: another thread freed this graph during the pass; give each thread its own")
    if r.plan.facts:
        kept = [*kept, *[fact(r) for fact in r.plan.facts]]
    found = []
    for b in r.plan.branches:
        found.append((b.at, b.rule(g, *map(kept.__getitem__, b.reads))))
    return found if r.op.joint is None else _spread(r, found[0][1])


def _spread(r: Record, gradients: Sequence[Any]) -> list[tuple[int, Any]]:
    """The results of joint rules, for the inputs that need one; those left out at the end have no place."""
    return [(i, d) for i, (d, source) in enumerate(zip(gradients, r.inputs)) if source is not None]


def recorded_branches(
    r: Record, g: Any, kind: type[Variable], create: bool, trace: Any, differentiate: Callable[..., Any]
) -> list[tuple[int, Any]]:
    """[(input, its gradient)] of one record, with every rule run on Variables, or under the eyes of a listener.

    `differentiate` is the reverse pass itself, for the definition of a fused op.
    """
    if trace is not None:
        trace.verify(r)
    if create and r.op.definition is not None:
        return _through_definition(r, g, kind, differentiate)
    kept: Any = r.kept
    if create or trace.lifts:
        if r.op.definition is None:
            kept = [_lifted(r, j, kind) for j in range(len(kept))]
        else:
            g = [None if x is None else x.array for x in g] if r.op.outputs else g.array
    kept = [*kept, *(fact(r) for fact in r.plan.facts)]
    results: list[tuple[int, Any]] = []
    for branch in r.plan.branches:
        with nullcontext() if trace is None else trace.branch(r, branch.at):
            read = [
                value(kind) if isinstance(value, _ByOps) else value for value in map(kept.__getitem__, branch.reads)
            ]
            d = branch.rule(g, *read)
        results += _spread(r, d) if r.op.joint else [(branch.at, d)]
    if trace is None:
        return results
    seen = [(at, d if d is None or isinstance(d, Variable) else wrap(kind, backend.as_array(d))) for at, d in results]
    for at, d in seen:
        trace.arrived(r, at, d)
    return seen if create or trace.lifts else results


class _ByOps:
    """A saved value that is computed again by ops, inside of the branch that reads it."""

    def __init__(self, r: Record, function: Callable[..., Any]) -> None:
        self.record, self.function = r, function

    def __call__(self, kind: type[Variable]) -> Any:
        r, read = self.record, {}
        for name in inspect.signature(self.function).parameters:
            if name in r.op.inputs:
                place = 1 + len(r.op.saves) + r.op.inputs.index(name)
                read[name] = _lifted(r, r.plan.keep.index(place), kind)
            else:
                read[name] = r.static[name]
        return self.function(**read)


def _lifted(r: Record, j: int, kind: type[Variable]) -> Any:
    """The j-th kept array as the Variable it was, so that a recorded rule connects to the graph."""
    at, array = r.plan.inputs_kept[j], r.kept[j]  # type: ignore[index]
    if 0 < r.plan.keep[j] <= len(r.op.saves) and (function := r.op.by_ops.get(r.op.saves[r.plan.keep[j] - 1])):
        return _ByOps(r, function)
    if r.plan.keep[j] == 0 and r.op.outputs:
        return tuple(wrap(kind, a, r, i) for i, a in enumerate(array))
    if not backend.is_array(array):
        return array
    version = r.versions[j][0] if r.versions[j] else None  # type: ignore[index]
    if r.plan.keep[j] == 0:
        return wrap(kind, array, r, 0, version)
    source = r.inputs[at] if at >= 0 else None
    if source is None:
        if r.op.rounds_last and version is None and not array.ndim:
            return array.item()  # a number next to float16: as a tensor it would be rounded to that
        return wrap(kind, array, version=version)
    return wrap(kind, array, source[0], source[1], version) if isinstance(source[0], Record) else source[0]


def _through_definition(
    r: Record, g: Any, kind: type[Variable], differentiate: Callable[..., Any]
) -> list[tuple[int, Any]]:
    """The gradients of a fused op as derivatives of its definition, run again on the inputs that it kept."""
    first = 1 + len(r.op.saves)
    inputs = [_lifted(r, r.plan.keep.index(first + i), kind) for i in range(len(r.inputs))]
    needed = [i for i, entry in enumerate(r.inputs) if entry is not None]
    for i in needed:  # a node of its own for every input, so that one tensor given twice is told apart
        inputs[i] = registry["alias"](inputs[i])
    with setting(definitions=True):
        outs = r.op.defined(inputs, r.static)
    pairs = [(y, d) for y, d in zip(outs, g, strict=True) if d is not None] if r.op.outputs else [(outs, g)]
    targets = [inputs[i] for i in needed]
    results = differentiate([y for y, _ in pairs], [d for _, d in pairs], targets, retain=True, create=True)
    return [(i, results[key_of(inputs[i])].gradient) for i in needed if key_of(inputs[i]) in results]
