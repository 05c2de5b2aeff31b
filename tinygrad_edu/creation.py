"""Functions that make tensors from nothing: constants, ranges, random draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_edu import backend, random
from tinygrad_edu.methods.common import integers
from tinygrad_edu.tape import wrap
from tinygrad_edu.tensor import Tensor


def tensor(data: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """A Tensor with a copy of `data`; see `Tensor`.

    >>> tensor([[1, 2], [3, 4]]).sum()
    tensor(10)
    """
    return Tensor(data, requires_grad, dtype, device)


def as_tensor(data: Any, dtype: Any = None, device: str | None = None) -> Tensor:
    """`data` itself where it is a fitting Tensor, else a Tensor with a copy of it (PyTorch's may share memory)."""
    return data.to(dtype=dtype, device=device) if isinstance(data, Tensor) else Tensor(data, False, dtype, device)


def from_numpy(array: np.ndarray) -> Tensor:
    """A Tensor on the memory of `array`, without a copy: whoever changes one changes the other, and backward cannot see
    changes made through the array. `tensor(array)` copies.

    Raises TypeError for anything but an array of numbers.
    """
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
        raise TypeError(f"from_numpy: needs an array of numbers, got {getattr(array, 'dtype', type(array).__name__)}")
    return wrap(Tensor, array)


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
    sizes = (size,) if isinstance(size, int) else tuple(size)
    return _made(np.full(sizes, fill_value), dtype, device, requires_grad)


def zeros(*size: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor of zeros, float32 unless `dtype` says otherwise."""
    return full(integers(size), 0.0, dtype, device, requires_grad)


def ones(*size: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor of ones, float32 unless `dtype` says otherwise."""
    return full(integers(size), 1.0, dtype, device, requires_grad)


def empty(*size: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor to be filled; its values are zeros, so that what was forgotten shows the same in every run."""
    return zeros(*size, dtype=dtype, device=device, requires_grad=requires_grad)


def zeros_like(input: Tensor, dtype: Any = None, device: str | None = None) -> Tensor:
    """Zeros in the shape, dtype and on the device of `input`."""
    return full(input.shape, 0.0, dtype or input.dtype, device or input.device)


def ones_like(input: Tensor, dtype: Any = None, device: str | None = None) -> Tensor:
    """Ones in the shape, dtype and on the device of `input`."""
    return full(input.shape, 1.0, dtype or input.dtype, device or input.device)


def full_like(input: Tensor, fill_value: float, dtype: Any = None, device: str | None = None) -> Tensor:
    """`fill_value` in the shape, dtype and on the device of `input`."""
    return full(input.shape, fill_value, dtype or input.dtype, device or input.device)


empty_like = zeros_like


def eye(n: int, m: int | None = None, dtype: Any = None, device: str | None = None) -> Tensor:
    """The identity: ones on the diagonal of [n, m], zeros elsewhere; m = n where None."""
    return _made(np.eye(n, m), dtype, device, False)


def arange(
    start: float, end: float | None = None, step: float = 1, dtype: Any = None, device: str | None = None
) -> Tensor:
    """start, start + step, ... below `end`; with one argument from 0. Integers give int64, else float32.

    >>> arange(3)
    tensor([0, 1, 2])
    """
    return _made(np.arange(start, step=step) if end is None else np.arange(start, end, step), dtype, device, False)


def linspace(start: float, end: float, steps: int, dtype: Any = None, device: str | None = None) -> Tensor:
    """`steps` numbers from `start` to `end`, both included, at equal distances."""
    return _made(np.linspace(start, end, steps), dtype, device, False)


def _drawn(
    draw: Any, generator: random.Generator | None, dtype: Any, device: str | None, requires_grad: bool = False
) -> Tensor:
    values = backend.as_array(draw((generator or random.current()).numpy()))
    return _made(values, dtype, device, requires_grad)


def randn(
    *size: Any,
    generator: random.Generator | None = None,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws from the normal distribution with mean 0 and variance 1."""
    return _drawn(lambda r: r.standard_normal(integers(size)), generator, dtype, device, requires_grad)


def rand(
    *size: Any,
    generator: random.Generator | None = None,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws from the uniform distribution on [0, 1)."""
    return _drawn(lambda r: r.random(integers(size)), generator, dtype, device, requires_grad)


def randint(
    *args: Any, generator: random.Generator | None = None, dtype: Any = None, device: str | None = None
) -> Tensor:
    """randint(low, high, size) or randint(high, size): integers from `low` (0) up to `high` − 1, all equally likely."""
    *bounds, size = args
    low, high = (0, *bounds) if len(bounds) == 1 else bounds
    return _drawn(lambda r: r.integers(low, high, tuple(size)), generator, dtype, device)


def randperm(n: int, generator: random.Generator | None = None, device: str | None = None) -> Tensor:
    """0 to n − 1 in random order."""
    return _drawn(lambda r: r.permutation(n), generator, None, device)


def normal(mean: Any, std: Any, size: Sequence[int] | None = None, generator: random.Generator | None = None) -> Tensor:
    """Draws from normal distributions: of `size` for numbers, else one for each element of `mean` and `std`."""
    shape = tuple(size) if size is not None else np.broadcast_shapes(np.shape(mean), np.shape(std))
    return randn(*shape, generator=generator) * std + mean


def randn_like(input: Tensor, generator: random.Generator | None = None) -> Tensor:
    """Draws from the normal distribution in the shape, dtype and on the device of `input`."""
    return randn(*input.shape, generator=generator, dtype=input.dtype, device=input.device)


def rand_like(input: Tensor, generator: random.Generator | None = None) -> Tensor:
    """Draws from the uniform distribution in the shape, dtype and on the device of `input`."""
    return rand(*input.shape, generator=generator, dtype=input.dtype, device=input.device)


def bernoulli(input: Tensor, generator: random.Generator | None = None) -> Tensor:
    """1 with the probability that each element of `input` is, else 0, in its shape and dtype; no gradient.

    Raises ValueError for what is no probability.
    """
    p = input.array
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("bernoulli: every element must be a probability from 0 to 1")
    return (rand_like(input, generator) < input.detach()).to(input.dtype)


def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, generator: random.Generator | None = None
) -> Tensor:
    """Indices drawn with probabilities in proportion to the weights `input`, [V] or rows [N, V].

    Args:
        input: weights, not negative, such as probabilities (not logits); a row needs not sum to 1.
        num_samples: draws from each row.
        replacement: whether an index may be drawn again.

    Returns:
        int64, [num_samples] or [N, num_samples].

    Raises:
        ValueError: a weight is negative or not finite, a row has no weight, or more draws than weights above 0.

    >>> multinomial(tensor([0.0, 3.0]), 2, replacement=True)
    tensor([1, 1])
    """
    weights = np.asarray(backend.to_device(input.array, "cpu"), np.float64)
    if weights.ndim not in (1, 2) or not weights.size:
        raise ValueError(f"multinomial: input must be [V] or [N, V] with V at least 1, got shape {weights.shape}")
    rows = np.atleast_2d(weights)
    if not np.isfinite(rows).all() or (rows < 0).any() or not rows.sum(axis=1).all():
        raise ValueError("multinomial: weights must be finite, not negative, and above 0 somewhere in every row")
    if not replacement and num_samples > (rows > 0).sum(axis=1).min():
        raise ValueError(f"multinomial: {num_samples} different indices, but a row has fewer weights above 0")
    r = (generator or random.current()).numpy()
    if replacement:
        edges = rows.cumsum(axis=1)
        points = r.random((len(rows), num_samples)) * edges[:, -1:]
        found = np.stack([np.searchsorted(e, p, side="right") for e, p in zip(edges, points)])
        found = np.minimum(found, (rows > 0).cumsum(axis=1).argmax(axis=1)[:, None])  # rounding at the very end
    else:  # the largest of weight-scaled exponential races come first: draws one after the other, all at once
        with np.errstate(divide="ignore"):
            race = np.log(rows) - np.log(r.standard_exponential(rows.shape))
        found = np.argsort(-race, axis=1, kind="stable")[:, :num_samples]
    return _made(found if weights.ndim == 2 else found[0], backend.int64, input.device, False)
