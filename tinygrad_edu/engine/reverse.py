"""The reverse pass: walks the records back from a result, newest first, and runs their rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

from tinygrad_edu.arrays import backend, gpu
from tinygrad_edu.arrays.sums import BLOCK
from tinygrad_edu.engine.graph_walk import leads, reachable, uses
from tinygrad_edu.engine.hooks import Key, hooked, hooks, key_of, retained
from tinygrad_edu.engine.modes import active, setting
from tinygrad_edu.engine.tape import Record, Variable, registry, wrap
from tinygrad_edu.engine.vjps import branches, recorded_branches


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
            g = registry["sum_to"](g, shape=shape)
        if g.dtype is not dtype and g.dtype != dtype:
            g = registry["cast"](g, dtype=dtype)
        if not shape and not self.lifted:
            g = backend.as_array(g)
        old = self.gradients.get(key)
        if old is None:
            self.gradients[key] = g
        elif self.lifted:
            with nullcontext() if self.trace is None else self.trace.summing(source, index):
                self.gradients[key] = old + g
        elif (count := self.counts.get(key, 1)) < BLOCK:
            self.gradients[key] = backend.accumulate(old, g, key in self.owned)
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
                levels[i] = backend.accumulate(total, g, True), count + 1
                return
            levels[i], g = (g, 1), total
        levels.append((g, 1))

    def gathered(self, key: Key) -> Any:
        """The gradient that has arrived so far, None where none has."""
        for total, _ in self.blocks.pop(key, ()):
            self.gradients[key] = backend.accumulate(total, self.gradients[key], True)
            self.owned.add(key)
        return self.gradients.get(key)

    def take(self, key: Key, kind: type[Variable]) -> Any:
        """The whole gradient of a value, None where nothing arrived, after the user's hooks."""
        if self.blocks:
            self.gathered(key)
        g = self.gradients.pop(key, None)
        if gpu.in_use and g is not None:  # the rules that follow compute where it lies
            backend.settle(getattr(g, "array", g))
        if hooks and g is not None and key in hooks:
            self.owned.discard(key)
            return hooked(key, g, kind)
        return g


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
        table.add(root.record or root, root.index, wrap(kind, seed) if lifted and backend.is_array(seed) else seed)
    passing = nullcontext() if trace is None else trace.passing(roots)
    with setting(grad=create), backend.quiet(roots[0].array), passing:
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
            pairs = recorded_branches(r, g, kind, create, trace, differentiate) if watched else branches(r, g)
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
