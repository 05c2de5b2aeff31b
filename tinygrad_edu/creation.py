"""Functions that make tensors from nothing: constants, ranges, random draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_edu import backend, random
from tinygrad_edu.methods.common import integers
from tinygrad_edu.tape import wrap
from tinygrad_edu.tensor import Tensor
from tinygrad_edu.tensor import tensor as tensor


def as_tensor(data: Any, dtype: Any = None, device: str | None = None) -> Tensor:
    """`data` itself where it is a fitting Tensor, else a Tensor with a copy of it (PyTorch's may share memory)."""
    return data.to(dtype=dtype, device=device) if isinstance(data, Tensor) else tensor(data, dtype, device)


def from_numpy(array: np.ndarray) -> Tensor:
    """A Tensor on the memory of `array`, without a copy: whoever changes one changes the other, and backward cannot see
    changes made through the array. `tensor(array)` copies. An optimizer, from its first step on, keeps what it learns
    in memory of its own.

    Raises TypeError for anything but an array of numbers.
    """
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
        raise TypeError(f"from_numpy: needs an array of numbers, got {getattr(array, 'dtype', type(array).__name__)}")
    return wrap(Tensor, array)


def _made(array: Any, dtype: Any, device: str | None, requires_grad: bool) -> Tensor:
    """A Tensor around a fresh float64 or int64 array, in the default dtype or int64 unless a dtype is asked for."""
    floating = array.dtype.kind == "f"
    target = backend.dtype_of(dtype) if dtype is not None else backend.default_dtype() if floating else array.dtype
    t = wrap(Tensor, backend.to_device(array.astype(target, copy=False), device or "cpu"))
    return t.requires_grad_() if requires_grad else t


def _shape(sizes: tuple[Any, ...], size: Any) -> tuple[int, ...]:
    """A shape given as lengths, as one sequence, or by the name `size`."""
    return integers(sizes if size is None else (size,))


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
    return _made(backend.module_on(device).full(sizes, fill_value), dtype, device, requires_grad)


def zeros(
    *sizes: Any, size: Any = None, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of zeros, float32 unless `dtype` says otherwise."""
    return full(_shape(sizes, size), 0.0, dtype, device, requires_grad)


def ones(
    *sizes: Any, size: Any = None, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of ones, float32 unless `dtype` says otherwise."""
    return full(_shape(sizes, size), 1.0, dtype, device, requires_grad)


def empty(
    *sizes: Any, size: Any = None, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor to be filled; its values are zeros, so that what was forgotten shows the same in every run."""
    return zeros(*sizes, size=size, dtype=dtype, device=device, requires_grad=requires_grad)


def zeros_like(input: Tensor, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """Zeros in the shape, dtype and on the device of `input`."""
    return full(input.shape, 0.0, dtype or input.dtype, device or input.device, requires_grad)


def ones_like(input: Tensor, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """Ones in the shape, dtype and on the device of `input`."""
    return full(input.shape, 1.0, dtype or input.dtype, device or input.device, requires_grad)


def full_like(input: Tensor, fill_value: float, dtype: Any = None, device: str | None = None) -> Tensor:
    """`fill_value` in the shape, dtype and on the device of `input`."""
    return full(input.shape, fill_value, dtype or input.dtype, device or input.device)


empty_like = zeros_like


def eye(n: int, m: int | None = None, dtype: Any = None, device: str | None = None) -> Tensor:
    """The identity: ones on the diagonal of [n, m], zeros elsewhere; m = n where None."""
    return _made(backend.module_on(device).eye(n, m), dtype, device, False)


def arange(
    start: float = 0,
    end: float | None = None,
    step: float = 1,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """start, start + step, ... below `end`; with one argument from 0. Integers give int64, else the default dtype.

    >>> arange(3)
    tensor([0, 1, 2])
    """
    numbers: list[Any] = [v.item() if isinstance(v, Tensor) else v for v in (start, end, step)]
    first, last, by = numbers if end is not None else (0, *numbers[::2])
    return _made(backend.arange(first, last, by, device), dtype, device, requires_grad)


def linspace(start: float, end: float, steps: int, dtype: Any = None, device: str | None = None) -> Tensor:
    """`steps` numbers from `start` to `end`, both included, at equal distances."""
    return _made(backend.module_on(device).linspace(start, end, steps), dtype, device, False)


def logspace(
    start: float, end: float, steps: int, base: float = 10.0, dtype: Any = None, device: str | None = None
) -> Tensor:
    """`steps` powers of `base` with exponents from `start` to `end`, both included, at equal distances."""
    return _made(backend.module_on(device).logspace(start, end, steps, base=base), dtype, device, False)


def _triangle(lower: bool, row: int, col: int, offset: int, device: str | None) -> Tensor:
    inside = np.tri(row, col, offset if lower else offset - 1, dtype=bool)
    return _made(np.stack(np.nonzero(inside if lower else ~inside)), None, device, False)


def tril_indices(row: int, col: int, offset: int = 0, device: str | None = None) -> Tensor:
    """Where the lower triangle of [row, col] stands: int64 [2, how many], rows above columns.

    >>> tril_indices(2, 2).tolist()
    [[0, 1, 1], [0, 0, 1]]
    """
    return _triangle(True, row, col, offset, device)


def triu_indices(row: int, col: int, offset: int = 0, device: str | None = None) -> Tensor:
    """Where the upper triangle of [row, col] stands: int64 [2, how many], rows above columns."""
    return _triangle(False, row, col, offset, device)


def _drawn(
    draw: Any, generator: random.Generator | None, dtype: Any, device: str | None, requires_grad: bool = False
) -> Tensor:
    values = backend.as_array(draw((generator or random.current()).numpy()))
    return _made(values, dtype, device, requires_grad)


def randn(
    *sizes: Any,
    size: Any = None,
    generator: random.Generator | None = None,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws from the normal distribution with mean 0 and variance 1."""
    return _drawn(lambda r: r.standard_normal(_shape(sizes, size)), generator, dtype, device, requires_grad)


def rand(
    *sizes: Any,
    size: Any = None,
    generator: random.Generator | None = None,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws from the uniform distribution on [0, 1)."""
    return _drawn(lambda r: r.random(_shape(sizes, size)), generator, dtype, device, requires_grad)


def randint(
    *bounds_and_size: Any,
    low: int = 0,
    high: int | None = None,
    size: Any = None,
    generator: random.Generator | None = None,
    dtype: Any = None,
    device: str | None = None,
) -> Tensor:
    """randint(low, high, size) or randint(high, size): integers from `low` (0) up to `high` − 1, all equally likely.

    The three may be given by name as well. Raises TypeError where `high` or `size` is missing.
    """
    given = list(bounds_and_size)
    if size is None and given:
        size = given.pop()
    if len(given) == 2 or (given and high is not None):
        low = given.pop(0)
    if given:
        high = given.pop(0)
    if high is None or size is None or given:
        raise TypeError("randint: give (low, high, size) or (high, size), the size a tuple")
    return _drawn(lambda r: r.integers(low, high, integers((size,))), generator, dtype, device)


def randint_like(
    input: Tensor, *bounds: int, generator: random.Generator | None = None, dtype: Any = None, device: Any = None
) -> Tensor:
    """randint_like(x, low, high) or randint_like(x, high): integers in the form of `input`, beside it."""
    made = randint(*bounds, input.shape, generator=generator, device=device or input.device)
    return made.to(dtype or input.dtype)


def randperm(n: int, generator: random.Generator | None = None, dtype: Any = None, device: str | None = None) -> Tensor:
    """0 to n − 1 in random order."""
    return _drawn(lambda r: r.permutation(n), generator, dtype, device)


def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Sequence[int] | None = None,
    generator: random.Generator | None = None,
    dtype: Any = None,
    device: str | None = None,
) -> Tensor:
    """Draws from normal distributions: of `size` for numbers, else one for each element of `mean` and `std`."""
    shape = tuple(size) if size is not None else np.broadcast_shapes(np.shape(mean), np.shape(std))
    place = device or next((x.device for x in (mean, std) if isinstance(x, Tensor)), None)
    return randn(*shape, generator=generator, dtype=dtype, device=place) * std + mean


def randn_like(
    input: Tensor,
    generator: random.Generator | None = None,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws from the normal distribution in the shape, dtype and on the device of `input`."""
    return randn(
        size=input.shape,
        generator=generator,
        dtype=dtype or input.dtype,
        device=device or input.device,
        requires_grad=requires_grad,
    )


def rand_like(
    input: Tensor,
    generator: random.Generator | None = None,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws from the uniform distribution in the shape, dtype and on the device of `input`."""
    return rand(
        size=input.shape,
        generator=generator,
        dtype=dtype or input.dtype,
        device=device or input.device,
        requires_grad=requires_grad,
    )


def bernoulli(input: Tensor, p: float | None = None, *, generator: random.Generator | None = None) -> Tensor:
    """1 with the probability that each element of `input` is, or `p`, and else 0; in its shape and dtype, no gradient.

    Raises ValueError for what is no probability.
    """
    input = input if p is None else full_like(input, p)
    chances = input.array
    if not ((chances >= 0) & (chances <= 1)).all().item():
        raise ValueError("bernoulli: every element must be a probability from 0 to 1")
    return (rand_like(input, generator) < input.detach()).to(input.dtype)


def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: random.Generator | None = None
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
    return input.multinomial(num_samples, replacement, generator=generator)
