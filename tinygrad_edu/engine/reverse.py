"""The reverse pass: from a result back over the records it came from, newest first, running the rules of each.

In reading order: which records a pass visits; the table of gradients that have arrived; the rules of one record, on
arrays or, for a pass that is itself recorded, on Variables; and the pass.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

from tinygrad_edu.arrays import devices, gpu, library
from tinygrad_edu.arrays.sums import BLOCK
from tinygrad_edu.engine.hooks import Key, hooked, hooks, key_of, retained
from tinygrad_edu.engine.modes import active, setting
from tinygrad_edu.engine.tape import Record, Variable, primitives, wrap


def leads(source: Record | Variable, index: int, found: dict[int, Record], wanted: set[Key]) -> bool:
    """Whether a gradient for this value is needed: it is wanted itself, or leads to a value that is."""
    if isinstance(source, Record):
        return source.number in found or (source.number, index) in wanted
    return id(source) in wanted


def reachable(roots: Sequence[Variable], wanted: set[Key] | None) -> dict[int, Record]:
    """The records that the roots came from (and that lead to a wanted value), checked to be whole."""
    lowest = 0
    if wanted is not None and all(isinstance(key, tuple) for key in wanted):
        lowest = min((key[0] for key in wanted), default=0)
    found: dict[int, Record] = {}
    stack: list[Any] = [v.record for v in roots]
    while stack:
        r = stack.pop()
        if type(r) is Record and r.number >= lowest and r.number not in found:
            found[r.number] = r
            stack += [entry[0] for entry in r.inputs if entry]
    if wanted is not None:
        leading: dict[int, Record] = {}
        for n in sorted(found):
            r = found[n]
            if any(entry and leads(*entry, leading, wanted) for entry in r.inputs):
                leading[n] = r
        found = leading
    for r in found.values():
        if r.kept is None:
            raise RuntimeError(
                f"{r.op.name}: this graph was freed by an earlier backward pass, its saved arrays are gone; "
                f"pass retain_graph=True to the earlier one to walk it again"
            )
        for entry in r.versions:
            if entry is not None and entry[0][0] != entry[1]:
                raise RuntimeError(
                    f"{r.op.name}: a value it saved for backward was changed in place since (version {entry[1]} then, "
                    f"{entry[0][0]} now), so its derivative would be wrong; change a copy (x.clone()) instead"
                )
    return found


def uses(found: dict[int, Record]) -> dict[int, int]:
    """How many contributions each leaf waits for."""
    waiting: dict[int, int] = {}
    for r in found.values():
        for entry in r.inputs:
            if entry and isinstance(entry[0], Variable):
                waiting[id(entry[0])] = waiting.get(id(entry[0]), 0) + 1
    return waiting


class Arrived(NamedTuple):
    """What a pass found for one value: who holds it, its gradient, and whether the pass alone can see that memory."""

    holder: Variable | None
    gradient: Any
    owned: bool


class Table:
    """The gradients of one pass that have arrived and are not yet used up."""

    def __init__(self, lifted: bool, trace: Any) -> None:
        self.lifted, self.trace = lifted, trace
        self.gradients: dict[Key, Any] = {}
        self.owned: set[Key] = set()
        self.leaves: dict[Key, Variable] = {}
        self.counts: dict[Key, int] = {}  # contributions in a gradient, where more than one
        self.blocks: dict[Key, list[tuple[Any, int]]] = {}  # of a value used often, see `_set_aside`

    def add(self, source: Record | Variable, index: int, g: Any, op: str = "") -> None:
        """Add a contribution, first brought to its input's shape and dtype: summed over what was broadcast."""
        key: Key
        if type(source) is Record:
            key, shape, dtype = (source.number, index), source.shapes[index], source.dtypes[index]
        else:
            key, array = id(source), source.array  # type: ignore[union-attr]
            shape, dtype = array.shape, array.dtype
            self.leaves[key] = source  # type: ignore[assignment]
        if g.shape != shape:
            lead = len(g.shape) - len(shape)
            if lead < 0 or any(n not in (1, m) for n, m in zip(shape, g.shape[lead:])):
                raise ValueError(f"{op}: a rule gave a gradient of shape {g.shape} for an input of shape {shape}")
            g = primitives.sum_to(g, shape=shape)
        if g.dtype is not dtype and g.dtype != dtype:
            g = primitives.cast(g, dtype=dtype)
        if not shape and not self.lifted:
            g = library.as_array(g)
        old = self.gradients.get(key)
        if old is None:
            self.gradients[key] = g
        elif self.lifted:
            with nullcontext() if self.trace is None else self.trace.summing(source, index):
                self.gradients[key] = old + g
        elif (count := self.counts.get(key, 1)) < BLOCK:
            self.gradients[key] = devices.accumulate(old, g, key in self.owned)
            self.owned.add(key)
            self.counts[key] = count + 1
        else:
            self._set_aside(key, old)
            self.gradients[key], self.counts[key] = g, 1
            self.owned.discard(key)

    def _set_aside(self, key: Key, g: Any) -> None:
        """Keep the sum of a block of contributions apart: many added one by one would lose digits. Full blocks of those
        move on to the next level."""
        levels = self.blocks.setdefault(key, [])
        for i, (total, count) in enumerate(levels):
            if count < BLOCK:
                levels[i] = devices.accumulate(total, g, True), count + 1
                return
            levels[i], g = (g, 1), total
        levels.append((g, 1))

    def gathered(self, key: Key) -> Any:
        """The gradient that has arrived so far, None where none has."""
        for total, _ in self.blocks.pop(key, ()):
            self.gradients[key] = devices.accumulate(total, self.gradients[key], True)
            self.owned.add(key)
        return self.gradients.get(key)

    def take(self, key: Key, kind: type[Variable]) -> Any:
        """The whole gradient of a value, None where nothing arrived, after the user's hooks."""
        if self.blocks:
            self.gathered(key)
        g = self.gradients.pop(key, None)
        if gpu.in_use and g is not None:  # the rules that follow compute where it lies
            devices.settle(getattr(g, "array", g))
        if hooks and g is not None and key in hooks:
            self.owned.discard(key)
            return hooked(key, g, kind)
        return g


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


def recorded_branches(r: Record, g: Any, kind: type[Variable], create: bool, trace: Any) -> list[tuple[int, Any]]:
    """[(input, its gradient)] of one record, with every rule run on Variables, or under the eyes of a listener."""
    if trace is not None:
        trace.verify(r)
    if create and r.op.definition is not None:
        return _through_definition(r, g, kind)
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
    seen = [(at, d if d is None or isinstance(d, Variable) else wrap(kind, library.as_array(d))) for at, d in results]
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
    if not library.is_array(array):
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


def _through_definition(r: Record, g: Any, kind: type[Variable]) -> list[tuple[int, Any]]:
    """The gradients of a fused op as derivatives of its definition, run again on the inputs that it kept."""
    first = 1 + len(r.op.saves)
    inputs = [_lifted(r, r.plan.keep.index(first + i), kind) for i in range(len(r.inputs))]
    needed = [i for i, entry in enumerate(r.inputs) if entry is not None]
    for i in needed:  # a node of its own for every input, so that one tensor given twice is told apart
        inputs[i] = primitives.alias(inputs[i])
    with setting(definitions=True):
        outs = r.op.defined(inputs, r.static)
    pairs = [(y, d) for y, d in zip(outs, g, strict=True) if d is not None] if r.op.outputs else [(outs, g)]
    targets = [inputs[i] for i in needed]
    results = differentiate([y for y, _ in pairs], [d for _, d in pairs], targets, retain=True, create=True)
    return [(i, results[key_of(inputs[i])].gradient) for i in needed if key_of(inputs[i]) in results]


def differentiate(
    roots: Sequence[Variable],
    seeds: Sequence[Any],
    targets: Iterable[Variable] | None = None,
    *,
    retain: bool = False,
    create: bool = False,
    leaf_ready: Callable[[Variable, Any], None] | None = None,
) -> dict[Key, Arrived]:
    """One reverse pass from `roots`, whose gradients are `seeds`, with a table of its own; writes to no Variable.

    Returns what arrived at `targets`, or without targets at all leaves and retained tensors. Before any rule runs,
    the whole graph is checked for freed records and for kept memory that was changed since; then kept arrays are
    dropped as the pass goes by, unless `retain`. With `create` the gradients are Variables and the pass is itself on
    the tape. `leaf_ready(leaf, gradient)` is called when the last contribution to a leaf has arrived.
    """
    trace = active().trace
    lifted = create or (trace is not None and trace.lifts)
    wanted = None if targets is None else {key_of(t) for t in targets}
    found = reachable(roots, wanted)
    if trace is not None:
        for r in found.values():
            trace.verify(r)
    waiting = uses(found) if leaf_ready else {}
    kind = roots[0].result
    table = Table(lifted, trace)
    results: dict[Key, Arrived] = {}
    asked = retained if wanted is None else wanted
    watched = create or trace is not None
    for root, seed in zip(roots, seeds, strict=True):
        table.add(root.record or root, root.index, wrap(kind, seed) if lifted and library.is_array(seed) else seed)
    passing = nullcontext() if trace is None else trace.passing(roots)
    with setting(grad=create), library.quiet(roots[0].array), passing:
        for n in sorted(found, reverse=True):
            r = found.pop(n)
            several = r.op.outputs
            g = [table.take((n, i), kind) for i in range(len(r.shapes))] if several else table.take((n, 0), kind)
            if g is None or (several and all(part is None for part in g)):
                continue
            if asked:
                for i, part in enumerate(g if several else [g]):
                    if part is not None and (n, i) in asked:
                        results[n, i] = Arrived(retained[n, i]() if wanted is None else None, part, False)
            pairs = recorded_branches(r, g, kind, create, trace) if watched else branches(r, g)
            for at, d in pairs:
                source, index = r.inputs[at]  # type: ignore[misc]
                if d is not None and (wanted is None or leads(source, index, found, wanted)):
                    table.add(source, index, d, r.op.name)
                if waiting and isinstance(source, Variable):
                    waiting[id(source)] -= 1
                    if not waiting[id(source)] and leaf_ready:
                        leaf_ready(source, table.gathered(id(source)))
            if not retain and r.kept:  # one that kept nothing, as a cast, stays whole: another graph may go through it
                r.kept = None
    for key in list(table.gradients):
        if key in table.leaves if wanted is None else key in wanted:
            g = table.take(key, kind)
            results[key] = Arrived(table.leaves.get(key), g, key in table.owned)
    return results
