"""What a user asks of the reverse pass: `backward` into `.grad`, and gradients as values."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain, repeat
from operator import iadd, setitem
from typing import Any

from tinygrad_edu.arrays import devices, library, memory
from tinygrad_edu.engine.hooks import key_of
from tinygrad_edu.engine.reverse import differentiate
from tinygrad_edu.engine.tape import Variable, wrap


def backward(root: Variable, gradient: Any, retain_graph: bool | None, create_graph: bool) -> None:
    """Add the gradient of `root` to `.grad` of every leaf it came from that needs one, all at the end of the pass."""
    if not root.requires_grad:
        raise RuntimeError(
            "backward: this tensor needs no gradient: it came from no tensor with requires_grad=True, or was computed "
            "under no_grad() or detached"
        )
    seed = seed_for(root, gradient, "backward")
    retain = create_graph if retain_graph is None else retain_graph
    found = differentiate([root], [seed], retain=retain, create=create_graph)
    deliver([(holder, g, owned) for holder, g, owned in found.values() if holder is not None])


def deliver(found: list[tuple[Variable, Any, bool]]) -> None:
    """Add g to `v.grad` of each (v, g, whether its memory is the pass's own): to all of them, or to none.

    `.grad` gets memory of its own; a recorded gradient stays a Variable with its history.
    """
    new: list[tuple[Variable, Any]] = []
    scalars: list[tuple[Variable, Any]] = []
    sums: list[tuple[Variable, Any]] = []
    for v, g, owned in found:
        array, old = g.array if isinstance(g, Variable) else g, v._grad
        if isinstance(g, Variable) and g.requires_grad:
            new.append((v, g if old is None else old + g))
        elif old is None:
            new.append((v, wrap(v.result, array if owned else memory.own_copy(array))))
        elif old.requires_grad:
            new.append((v, old + wrap(v.result, array)))
        elif library.all_numpy([old.array]) and old.array.ndim:
            sums.append((old, array))
        else:
            scalars.append((old, devices.accumulate(old.array, array, True)))
    changed = [old for old, _ in (*scalars, *sums)]
    totals = [old.array for old, _ in sums]
    before = [v._grad for v, _ in new], [old.array for old, _ in scalars]  # nothing is freed, so no code of its runs
    # One call into C: between two steps in Python the handler of a signal could raise, as Ctrl-C's does.
    deque(
        chain(
            map(setattr, [v for v, _ in new], repeat("_grad"), [g for _, g in new]),
            map(setattr, [old for old, _ in scalars], repeat("array"), [array for _, array in scalars]),
            map(iadd, totals, [array for _, array in sums]),
            map(setitem, [old._version for old in changed], repeat(0), [old._version[0] + 1 for old in changed]),
        ),
        maxlen=0,
    )
    del before


def seed_for(root: Variable, gradient: Any, where: str) -> Any:
    """What to start a pass with: 1 for a root of one element, else the given gradient, checked."""
    if gradient is None:
        if root.array.size != 1:
            raise RuntimeError(
                f"{where}: only a tensor of one element starts its own gradient, and this one has shape "
                f"{root.array.shape}; reduce it first (loss.sum() or .mean()) or pass gradient="
            )
        devices.settle(root.array)
        return library.module_of(root.array).ones_like(root.array)
    if isinstance(gradient, Variable):
        array = gradient.array
    else:
        array = devices.new_array(gradient, root.array.dtype, devices.device_of(root.array))
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
            g = wrap(x.result, g if arrived.owned else memory.own_copy(g))
        found.append(g)
    return found
