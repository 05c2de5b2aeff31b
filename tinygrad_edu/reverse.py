"""The reverse pass: walks the records back from a result, newest first, and runs their rules."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

from tinygrad_edu import backend
from tinygrad_edu.modes import setting, thread
from tinygrad_edu.tape import Record, Variable, registry, wrap

Key = Any  # id of a leaf, or (record number, output) of a value that an op made


class Arrived(NamedTuple):
    """What a pass found for one value: who holds it, its gradient, and whether the pass alone can see that memory."""

    holder: Variable | None
    gradient: Any
    owned: bool


def key_of(v: Variable) -> Key:
    """Under which key the gradient of `v` stands in a pass's table."""
    return (v.record.number, v.index) if v.record is not None else id(v)


class Table:
    """The gradients of one pass that have arrived and are not yet used up."""

    def __init__(self, lifted: bool, trace: Any) -> None:
        self.lifted, self.trace = lifted, trace
        self.gradients: dict[Key, Any] = {}
        self.owned: set[Key] = set()
        self.leaves: dict[Key, Variable] = {}
        self.hooks: dict[Key, Any] = {}

    def add(self, source: Record | Variable, index: int, g: Any, op: str = "") -> None:
        """Add a contribution, first brought to its input's shape and dtype: summed over what was broadcast."""
        key: Key
        if type(source) is Record:
            key, shape, dtype = (source.number, index), source.shapes[index], source.dtypes[index]
            if source.hooks:
                self.hooks[key] = source.hooks.get(index)
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
        elif not self.lifted:
            self.gradients[key] = backend.accumulate(old, g, key in self.owned)
            self.owned.add(key)
        elif self.trace is None:
            self.gradients[key] = old + g
        else:
            with self.trace.summing(source, index):
                self.gradients[key] = old + g


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
    trace = thread.mode.trace
    lifted = create or (trace is not None and trace.lifts)
    wanted = None if targets is None else {key_of(t) for t in targets}
    found = _reachable(roots, wanted)
    waiting = _uses(found) if leaf_ready else {}
    kind = roots[0].result
    table = Table(lifted, trace)
    results: dict[Key, Arrived] = {}
    for root, seed in zip(roots, seeds, strict=True):
        if lifted and not isinstance(seed, Variable):
            seed = wrap(kind, seed)
        table.add(root.record or root, root.index, seed)
    with setting(grad=create), nullcontext() if trace is None else trace.passing(roots):
        for n in sorted(found, reverse=True):
            r = found.pop(n)
            gs = [table.gradients.pop((n, i), None) for i in range(len(r.shapes))]
            if r.hooks:
                gs = [g if g is None else _hooked(g, table.hooks.pop((n, i), None), kind) for i, g in enumerate(gs)]
            if wanted is not None:
                for i, g in enumerate(gs):
                    if (n, i) in wanted and g is not None:
                        results[n, i] = Arrived(None, g, False)
            elif r.retained:
                for i, held in r.retained.items():
                    if gs[i] is not None:
                        results[n, i] = Arrived(held(), gs[i], False)
            if not any(g is not None for g in gs):
                continue
            if lifted or trace is not None:
                pairs = _recorded_branches(r, gs if r.op.outputs else gs[0], kind, create, trace)
            else:
                pairs = _branches(r, gs if r.op.outputs else gs[0])
            for at, d in pairs:
                source, index = r.inputs[at]  # type: ignore[misc]
                if d is not None and (wanted is None or _leads(source, index, found, wanted)):
                    table.add(source, index, d, r.op.name)
                if waiting and isinstance(source, Variable):
                    waiting[id(source)] -= 1
                    if not waiting[id(source)] and leaf_ready:
                        leaf_ready(source, table.gradients.get(id(source)))
            if not retain:
                r.kept = None
    for key, g in table.gradients.items():
        if key in table.leaves if wanted is None else key in wanted:
            hooks = table.hooks.get(key) or (leaf_hooks[key][1] if key in leaf_hooks else None)
            if hooks:
                g = _hooked(g, hooks, kind)
                table.owned.discard(key)
            results[key] = Arrived(table.leaves.get(key), g, key in table.owned)
    return results


leaf_hooks: dict[int, tuple[Any, list[Any]]] = {}  # id of a leaf -> weak reference to it, functions for its gradient


def _hooked(g: Any, hooks: list[Any] | None, kind: type[Variable]) -> Any:
    """The gradient after the functions that were registered for it."""
    for hook in hooks or ():
        given = g if isinstance(g, Variable) else wrap(kind, g)
        new = hook(given)
        if new is not None:
            if new.array.shape != given.array.shape:
                raise ValueError(f"hook: returned a gradient of shape {new.array.shape}, not {given.array.shape}")
            g = new if isinstance(g, Variable) else new.array
    return g


class Handle:
    """Takes a hook back: `handle.remove()`."""

    def __init__(self, hooks: list[Any], hook: Any) -> None:
        self.hooks, self.hook = hooks, hook

    def remove(self) -> None:
        """Take the hook back; once is enough."""
        self.hooks[:] = [h for h in self.hooks if h is not self.hook]


def register_hook(v: Variable, hook: Callable[[Any], Any]) -> Handle:
    """Let the gradient of `v` pass through `hook(gradient)`, which may return another one to go on with."""
    if not v.requires_grad:
        raise RuntimeError("register_hook: this tensor needs no gradient, so none will come; set requires_grad first")
    hooks: list[Any]
    if v.record is not None:
        v.record.hooks = v.record.hooks or {}
        hooks = v.record.hooks.setdefault(v.index, [])
    else:
        key = id(v)
        if key not in leaf_hooks:
            leaf_hooks[key] = weakref.ref(v, lambda _: leaf_hooks.pop(key, None)), []
        hooks = leaf_hooks[key][1]
    hooks.append(hook)
    return Handle(hooks, hook)


def _leads(source: Record | Variable, index: int, found: dict[int, Record], wanted: set[Key]) -> bool:
    if isinstance(source, Record):
        return source.number in found or (source.number, index) in wanted
    return id(source) in wanted


def _reachable(roots: Sequence[Variable], wanted: set[Key] | None) -> dict[int, Record]:
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
            if any(entry and _leads(*entry, leading, wanted) for entry in r.inputs):
                leading[n] = r
        found = leading
    for r in found.values():
        _check(r)
    return found


def _check(r: Record) -> None:
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


def _uses(found: dict[int, Record]) -> dict[int, int]:
    waiting: dict[int, int] = {}
    for r in found.values():
        for entry in r.inputs:
            if entry and isinstance(entry[0], Variable):
                waiting[id(entry[0])] = waiting.get(id(entry[0]), 0) + 1
    return waiting


def _branches(r: Record, g: Any) -> list[tuple[int, Any]]:
    """[(input, its gradient)] of one record, by its rules on arrays."""
    kept = r.kept
    if kept is None:
        raise RuntimeError(f"{r.op.name}: another thread freed this graph during the pass; give each thread its own")
    branches = r.plan.branches
    if r.op.joint is not None:
        return [(i, d) for i, d in enumerate(branches[0](g, kept, r)) if r.inputs[i] is not None]
    pairs = []
    for b in branches:
        pairs.append((b.at, b(g, kept, r) if b.plain is None else b.rule(g, *[kept[j] for j in b.plain])))
    return pairs


def _recorded_branches(r: Record, g: Any, kind: type[Variable], create: bool, trace: Any) -> list[tuple[int, Any]]:
    """The same with every rule run on Variables, so that it is recorded, or under the eyes of a listener."""
    if create and r.op.definition is not None:
        return _through_definition(r, g, kind)
    kept: Any = r.kept
    if create or trace.lifts:
        if r.op.definition is None:
            kept = [_lifted(r, j, kind) for j in range(len(r.plan.keep))] + kept[len(r.plan.keep) :]
        else:
            g = [None if x is None else x.array for x in g] if r.op.outputs else g.array
    results: list[tuple[int, Any]] = []
    for branch in r.plan.branches:
        with nullcontext() if trace is None else trace.branch(r, branch.at):
            d = branch(g, kept, r)
        if r.op.joint:
            results += [(i, x) for i, x in enumerate(d) if r.inputs[i] is not None]
        else:
            results.append((branch.at, d))
    if trace is None:
        return results
    seen = [(at, wrap(kind, d) if backend.is_array(d) else d) for at, d in results]
    for at, d in seen:
        trace.arrived(r, at, d)
    return seen if create or trace.lifts else results


def _lifted(r: Record, j: int, kind: type[Variable]) -> Any:
    """The j-th kept array as the Variable it was, so that a recorded rule connects to the graph."""
    at, array = r.plan.inputs_kept[j], r.kept[j]  # type: ignore[index]
    if r.plan.keep[j] == 0 and r.op.outputs:
        return tuple(wrap(kind, a, r, i) for i, a in enumerate(array))
    if not backend.is_array(array):
        return array
    version = r.versions[j][0] if r.versions[j] else None  # type: ignore[index]
    if r.plan.keep[j] == 0:
        return wrap(kind, array, r, 0, version)
    source = r.inputs[at] if at >= 0 else None
    if source is None:
        return wrap(kind, array, version=version)
    return wrap(kind, array, source[0], source[1], version) if isinstance(source[0], Record) else source[0]


def _through_definition(r: Record, g: Any, kind: type[Variable]) -> list[tuple[int, Any]]:
    """The gradients of a fused op as derivatives of its definition, run again on the inputs that it kept."""
    first = 1 + len(r.op.saves)
    inputs = [_lifted(r, r.plan.keep.index(first + i), kind) for i in range(len(r.inputs))]
    needed = [i for i, entry in enumerate(r.inputs) if entry is not None]
    for i in needed:  # a node of its own for every input, so that one tensor given twice is told apart
        inputs[i] = registry["alias"](inputs[i])
    with setting(definitions=True):
        outs = r.op.definition(*inputs, **r.static)  # type: ignore[misc]
    pairs = [(y, d) for y, d in zip(outs, g, strict=True) if d is not None] if r.op.outputs else [(outs, g)]
    targets = [inputs[i] for i in needed]
    results = differentiate([y for y, _ in pairs], [d for _, d in pairs], targets, retain=True, create=True)
    return [(i, results[key_of(inputs[i])].gradient) for i in needed if key_of(inputs[i]) in results]


def backward(root: Variable, gradient: Any, retain_graph: bool | None, create_graph: bool) -> None:
    """Add the gradient of `root` to `.grad` of every leaf it came from that needs one, all at the end of the pass."""
    if not root.requires_grad:
        raise RuntimeError(
            "backward: this tensor needs no gradient: it came from no tensor with requires_grad=True, or was computed "
            "under no_grad() or detached"
        )
    seed = seed_for(root, gradient, "backward")
    retain = create_graph if retain_graph is None else retain_graph
    for holder, g, owned in differentiate([root], [seed], retain=retain, create=create_graph).values():
        if holder is not None:
            deliver(holder, g, owned)


def deliver(v: Variable, g: Any, owned: bool) -> None:
    """Add `g` to `v.grad`, which gets memory of its own; a recorded gradient stays a Variable with its history."""
    if isinstance(g, Variable) and g.requires_grad:
        v._grad = g if v._grad is None else v._grad + g
        return
    array = g.array if isinstance(g, Variable) else g
    if v._grad is None:
        v._grad = wrap(v.result, array if owned else backend.own_copy(array))
    elif v._grad.requires_grad:
        v._grad = v._grad + wrap(v.result, array)
    else:
        v._grad.array = backend.accumulate(v._grad.array, array, True)
        v._grad._version[0] += 1


def seed_for(root: Variable, gradient: Any, where: str) -> Any:
    """What to start a pass with: 1 for a root of one element, else the given gradient, checked."""
    if gradient is None:
        if root.array.size != 1:
            raise RuntimeError(
                f"{where}: only a tensor of one element starts its own gradient, and this one has shape "
                f"{root.array.shape}; reduce it first (loss.sum() or .mean()) or pass gradient="
            )
        return backend.module_of(root.array).ones_like(root.array)
    if isinstance(gradient, Variable):
        array = gradient.array
    else:
        array = backend.new_array(gradient, root.array.dtype, backend.device_of(root.array))
    if array.shape != root.array.shape:
        raise ValueError(
            f"{where}: gradient has shape {array.shape}, the tensor {root.array.shape}; they must be equal"
        )
    if array.dtype != root.array.dtype:
        raise TypeError(
            f"{where}: gradient has dtype {array.dtype}, the tensor {root.array.dtype}; convert it with .to()"
        )
    return gradient if isinstance(gradient, Variable) and gradient.requires_grad else array


def gradients(
    outputs: Sequence[Variable],
    inputs: Sequence[Variable],
    grad_outputs: Sequence[Any] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    leaf_ready: Callable[[Variable, Any], None] | None = None,
) -> list[Any]:
    """The gradients of the outputs' weighted sum for each input, None where one was not used; writes no `.grad`."""
    if not outputs:
        raise ValueError("grad: no outputs given")
    for i, y in enumerate(outputs):
        if not y.requires_grad:
            raise RuntimeError(f"grad: output {i} needs no gradient: nothing it came from has requires_grad=True")
    for i, x in enumerate(inputs):
        if not x.requires_grad:
            raise RuntimeError(f"grad: input {i} has requires_grad=False; set it before computing the outputs")
    given = [None] * len(outputs) if grad_outputs is None else list(grad_outputs)
    if len(given) != len(outputs):
        raise ValueError(f"grad: {len(outputs)} outputs but {len(given)} grad_outputs; give one for each, or None")
    seeds = [seed_for(y, g, "grad") for y, g in zip(outputs, given, strict=True)]
    retain = create_graph if retain_graph is None else retain_graph
    results = differentiate(outputs, seeds, inputs, retain=retain, create=create_graph, leaf_ready=leaf_ready)
    found: list[Any] = []
    for x in inputs:
        arrived = results.get(key_of(x))
        g = None if arrived is None else arrived.gradient
        if arrived is not None and not isinstance(g, Variable):
            g = wrap(x.result, g if arrived.owned else backend.own_copy(g))
        found.append(g)
    return found


def retain(v: Variable) -> None:
    """Have backward write `.grad` of a tensor that an op made."""
    if v.record is not None:
        if v.record.retained is None:
            v.record.retained = {}
        v.record.retained[v.index] = weakref.ref(v)
