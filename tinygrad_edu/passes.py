"""What a user asks of the reverse pass: `backward` into `.grad`, and gradients as values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tinygrad_edu import backend
from tinygrad_edu.hooks import key_of
from tinygrad_edu.reverse import differentiate
from tinygrad_edu.tape import Variable, wrap


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
        backend.settle(root.array)
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
