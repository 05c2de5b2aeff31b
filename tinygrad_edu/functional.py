"""Functions at the top of the package: tensors made from nothing, and ops that belong to no one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygrad_edu import backend, random, reverse
from tinygrad_edu.ops import elementwise, shape
from tinygrad_edu.tape import Variable, wrap
from tinygrad_edu.tensor import Tensor, _axis, _binary, _ints


def tensor(data: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """A Tensor with a copy of `data`; see `Tensor`.

    >>> tensor([[1, 2], [3, 4]]).sum()
    tensor(10)
    """
    return Tensor(data, requires_grad, dtype, device)


def _made(array: Any, dtype: Any, device: str | None, requires_grad: bool) -> Tensor:
    """A Tensor around a fresh float64 or int64 array, as float32 or int64 unless a dtype is asked for."""
    target = (
        backend.dtype_of(dtype) if dtype is not None else backend.float32 if array.dtype.kind == "f" else array.dtype
    )
    t = wrap(Tensor, backend.to_device(array.astype(target, copy=False), device or "cpu"))
    return t.requires_grad_() if requires_grad else t


def full(
    size: int | Sequence[int],
    fill_value: float,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of shape `size` with every element `fill_value`; float32 from a float, int64 from an integer.

    >>> full((2,), 7)
    tensor([7, 7])
    """
    import numpy as np

    sizes = (size,) if isinstance(size, int) else tuple(size)
    return _made(np.full(sizes, fill_value), dtype, device, requires_grad)


def zeros(*size: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor of zeros, float32 unless `dtype` says otherwise."""
    return full(_ints(size), 0.0, dtype, device, requires_grad)


def ones(*size: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor of ones, float32 unless `dtype` says otherwise."""
    return full(_ints(size), 1.0, dtype, device, requires_grad)


def empty(*size: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor to be filled; its values are zeros, so that nothing forgotten goes unnoticed in a random way."""
    return zeros(*size, dtype=dtype, device=device, requires_grad=requires_grad)


def zeros_like(input: Tensor, dtype: Any = None) -> Tensor:
    """Zeros in the shape, dtype and on the device of `input`."""
    return full(input.shape, 0.0, dtype or input.dtype, input.device)


def ones_like(input: Tensor, dtype: Any = None) -> Tensor:
    """Ones in the shape, dtype and on the device of `input`."""
    return full(input.shape, 1.0, dtype or input.dtype, input.device)


def arange(
    start: float, end: float | None = None, step: float = 1, dtype: Any = None, device: str | None = None
) -> Tensor:
    """start, start + step, ... below `end`; with one argument from 0. Integers give int64, else float32.

    >>> arange(3)
    tensor([0, 1, 2])
    """
    import numpy as np

    return _made(np.arange(start, step=step) if end is None else np.arange(start, end, step), dtype, device, False)


def randn(
    *size: Any,
    generator: random.Generator | None = None,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws from the normal distribution with mean 0 and variance 1."""
    draws = (generator or random.current()).numpy().standard_normal(_ints(size))
    return _made(backend.as_array(draws), dtype, device, requires_grad)


def rand(
    *size: Any,
    generator: random.Generator | None = None,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws from the uniform distribution on [0, 1)."""
    draws = (generator or random.current()).numpy().random(_ints(size))
    return _made(backend.as_array(draws), dtype, device, requires_grad)


def randint(
    low: int,
    high: int,
    size: Sequence[int],
    generator: random.Generator | None = None,
    dtype: Any = None,
    device: str | None = None,
) -> Tensor:
    """Integers from `low` up to `high` − 1, all equally likely."""
    draws = (generator or random.current()).numpy().integers(low, high, tuple(size))
    return _made(backend.as_array(draws), dtype, device, False)


def cat(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """The tensors one behind the other along `dim`; their other lengths are equal.

    >>> cat([ones(1, 2), zeros(1, 2)]).tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """
    parts = [t if isinstance(t, Variable) else Tensor(t) for t in tensors]
    if not parts:
        raise ValueError("cat: needs at least one tensor, got none")
    axis = _axis(parts[0], dim, "cat")
    first = parts[0].array.shape
    for t in parts:
        s = t.array.shape
        if len(s) != len(first) or s[:axis] + s[axis + 1 :] != first[:axis] + first[axis + 1 :]:
            raise ValueError(f"cat: shapes {first} and {s} differ elsewhere than along dim {dim}")
    return shape.Cat(*parts, axis=axis)


def stack(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """The tensors, of one shape, along a new axis `dim`."""
    parts = [t if isinstance(t, Tensor) else Tensor(t) for t in tensors]
    if len({t.shape for t in parts}) > 1:
        raise ValueError(f"stack: all tensors need one shape, got {[t.shape for t in parts]}")
    return cat([t.unsqueeze(dim) for t in parts], dim)


def where(condition: Any, input: Any, other: Any) -> Tensor:
    """`input` where the boolean `condition` is true, else `other`; the three broadcast.

    Only the chosen one gets a gradient, yet what the other one's own op makes of a zero gradient may still be NaN
    (0 · ∞): keep its input within its domain, too, with a `where` inside.

    >>> where(tensor([True, False]), tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    """
    mask = condition if isinstance(condition, Variable) else Tensor(condition)
    if mask.array.dtype.kind != "b":
        raise TypeError(f"where: condition must be boolean, got {mask.array.dtype}; compare something (x != 0)")
    return elementwise.Where(mask, input, other)


def maximum(input: Any, other: Any) -> Tensor:
    """The larger of both, element by element; equal ones share the gradient in halves."""
    return _binary(elementwise.Maximum, input, other)


def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of the last two axes, 0 above `diagonal`."""
    return _triangle(input, diagonal, upper=False)


def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of the last two axes, 0 below `diagonal`."""
    return _triangle(input, diagonal, upper=True)


def _triangle(input: Tensor, diagonal: int, upper: bool) -> Tensor:
    if input.ndim < 2:
        raise ValueError(f"{'triu' if upper else 'tril'}: needs two axes, got shape {input.shape}")
    lower = backend.module_of(input.array).tri(*input.shape[-2:], diagonal - upper, dtype=bool)
    return elementwise.MaskedFill(input, lower if upper else ~lower, value=0)


def exp(input: Any) -> Tensor:
    """exp x, element by element."""
    return elementwise.Exp(_tensor(input))


def log(input: Any) -> Tensor:
    """The natural logarithm, element by element."""
    return elementwise.Log(_tensor(input))


def sqrt(input: Any) -> Tensor:
    """√x, element by element."""
    return elementwise.Sqrt(_tensor(input))


def tanh(input: Any) -> Tensor:
    """tanh x, element by element."""
    return elementwise.Tanh(_tensor(input))


def sigmoid(input: Any) -> Tensor:
    """1 / (1 + exp(−x)), element by element."""
    return elementwise.Sigmoid(_tensor(input))


def relu(input: Any) -> Tensor:
    """max(x, 0), element by element."""
    return elementwise.Relu(_tensor(input))


def _tensor(x: Any) -> Any:
    return x if isinstance(x, Variable) else Tensor(x)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Any, ...]:
    """d(Σ outputs ⊙ grad_outputs)/d(input) for every input, as a tuple; no `.grad` is touched.

    Args:
        outputs: a tensor or a sequence of them, each of one element or with its gradient in `grad_outputs`.
        inputs: a tensor or a sequence of them, leaves or not, that the outputs were computed from.
        grad_outputs: gradients of the outputs' shapes; None means 1.
        retain_graph: keep what the ops saved, for another pass; defaults to `create_graph`.
        create_graph: record the pass, so that the gradients can be differentiated again.
        allow_unused: give None for an input that no output depends on, instead of an error.

    Raises:
        RuntimeError: an output or input needs no gradient, an input was not used, or the graph was freed or changed.

    >>> x = tensor(3.0, requires_grad=True)
    >>> (slope,) = grad(x**3, x, create_graph=True)
    >>> grad(slope, x)
    (tensor(18.),)
    """
    ys = [outputs] if isinstance(outputs, Variable) else list(outputs)
    xs = [inputs] if isinstance(inputs, Variable) else list(inputs)
    seeds = [grad_outputs] if isinstance(grad_outputs, Variable) or backend.is_array(grad_outputs) else grad_outputs
    found = reverse.gradients(ys, xs, seeds, retain_graph, create_graph)
    for i, g in enumerate(found):
        if g is None and not allow_unused:
            raise RuntimeError(f"grad: no output depends on input {i}; pass allow_unused=True to get None for it")
    return tuple(found)
