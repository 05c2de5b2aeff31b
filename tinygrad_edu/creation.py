"""Functions that make tensors from nothing: constants, ranges, random draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_edu import random
from tinygrad_edu.arrays import devices, dtypes, library
from tinygrad_edu.engine.tape import wrap
from tinygrad_edu.methods.common import integers
from tinygrad_edu.ops import choice
from tinygrad_edu.tensor import Tensor
from tinygrad_edu.tensor import tensor as tensor


def as_tensor(data: Any, dtype: Any = None, device: str | None = None) -> Tensor:
    """`data` itself where it is a fitting Tensor, else a Tensor with a copy of it (PyTorch's may share memory)."""
    return data.to(dtype=dtype, device=device) if isinstance(data, Tensor) else tensor(data, dtype, device)


def from_numpy(array: np.ndarray) -> Tensor:
    """A Tensor on the memory of `array`, without a copy. A change in the array changes the tensor past the tape.

    No version counter sees such a change, so a backward pass that needs the old values is wrong without a word;
    `tensor(array)` copies; `detect_anomaly()` finds such changes. An optimizer, from its first step on, keeps what it
    learns in memory of its own.

    Raises TypeError for anything but an array of numbers, and ValueError for one in the byte order of another machine.
    """
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
        raise TypeError(f"from_numpy: needs an array of numbers, got {getattr(array, 'dtype', type(array).__name__)}")
    if not array.dtype.isnative:
        raise ValueError(
            f"from_numpy: the bytes of {array.dtype.str} are in another order; tensor(array) converts them"
        )
    return wrap(Tensor, array)


def _made(array: Any, dtype: Any, device: str | None, requires_grad: bool) -> Tensor:
    """A Tensor around a fresh float64 or int64 array, in the default dtype or int64 unless a dtype is asked for."""
    floating = array.dtype.kind == "f"
    target = dtypes.dtype_of(dtype) if dtype is not None else dtypes.default_dtype() if floating else array.dtype
    with library.quiet(array):  # beyond the dtype there is infinity
        array = array.astype(target, copy=False)
    t = wrap(Tensor, devices.to_device(array, device or "cpu"))
    return t.requires_grad_() if requires_grad else t


def _shape(sizes: tuple[Any, ...], size: Any, what: str) -> tuple[int, ...]:
    """A shape given as lengths, as one sequence, or by the name `size`."""
    lengths = integers(sizes if size is None else (size,))
    if any(n < 0 for n in lengths):
        raise ValueError(f"{what}: a length cannot be negative, got the shape {lengths}")
    return lengths


def _count(n: Any, what: str) -> int:
    """A number of elements, an integer of at least 0."""
    if not hasattr(n, "__index__"):
        raise TypeError(f"{what} must be an integer, got {n!r}")
    if n.__index__() < 0:
        raise ValueError(f"{what} cannot be negative, got {n}")
    return int(n.__index__())


def _steps(dtype: Any, what: str) -> Any:
    """A dtype for numbers at equal distances; booleans have no such."""
    if dtype is not None and dtypes.dtype_of(dtype).kind == "b":
        raise TypeError(f"{what}: booleans are no numbers at equal distances; use an integer or floating dtype")
    return dtype


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
    value: Any = fill_value
    if isinstance(value, Tensor):
        if value.requires_grad:
            raise TypeError("full: fill_value needs a gradient, which would be lost; use x.expand(size), or x.detach()")
        value = value.item()
    if not isinstance(value, int | float | np.number | np.bool_):
        raise TypeError(f"full: fill_value must be a number, got {value!r}")
    default = dtypes.default_dtype() if isinstance(value, float) else None
    if (target := default if dtype is None else dtypes.dtype_of(dtype)) is not None:
        value = dtypes.number_for(value, target, "full")
    return _made(devices.module_on(device).full(_shape((), size, "full"), value), dtype, device, requires_grad)


def zeros(
    *sizes: Any, size: Any = None, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of zeros, float32 unless `dtype` says otherwise."""
    return full(_shape(sizes, size, "zeros"), 0.0, dtype, device, requires_grad)


def ones(
    *sizes: Any, size: Any = None, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of ones, float32 unless `dtype` says otherwise."""
    return full(_shape(sizes, size, "ones"), 1.0, dtype, device, requires_grad)


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
    rows, columns = _count(n, "eye: n"), None if m is None else _count(m, "eye: m")
    return _made(devices.module_on(device).eye(rows, columns), dtype, device, False)


def arange(
    start: float = 0,
    end: float | None = None,
    step: float = 1,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """start, start + step, ... below `end`; with one argument from 0. Integers give int64, else the default dtype.

    Raises ValueError for a step of 0 or away from `end`.

    >>> arange(3)
    tensor([0, 1, 2])
    """
    numbers: list[Any] = [v.item() if isinstance(v, Tensor) else v for v in (start, end, step)]
    first, last, by = numbers if end is not None else (0, *numbers[::2])
    whole = dtype is not None and dtypes.dtype_of(_steps(dtype, "arange")).kind != "f"
    if not by or (whole and not int(by)):
        raise ValueError(f"arange: step cannot be 0, got {by}" + (f" of {dtypes.dtype_of(dtype)}" if whole else ""))
    if not (first <= last if by > 0 else first >= last):
        raise ValueError(f"arange: steps of {by} do not lead from {first} to {last}")
    if dtype is not None and (target := dtypes.dtype_of(dtype)).kind in "iu":  # cut to integers before adding
        count = math.ceil((last - first) / by)
        first, last, by = int(first), int(last), int(by)
        last = last if target == dtypes.int64 else first + count * by
    return _made(devices.arange(first, last, by, device), dtype, device, requires_grad)


def linspace(start: float, end: float, steps: int, dtype: Any = None, device: str | None = None) -> Tensor:
    """`steps` numbers from `start` to `end`, both included, at equal distances.

    For an integer `dtype` the ends are cut to integers first, and then each number is.
    """
    first, last = _ends(start, end, dtype, "linspace")
    for value in (first, last):
        dtypes.number_for(value, dtypes.default_dtype() if dtype is None else dtypes.dtype_of(dtype), "linspace")
    n = _count(steps, "linspace: steps")
    return _made(devices.module_on(device).linspace(first, last, n), _steps(dtype, "linspace"), device, False)


def logspace(
    start: float, end: float, steps: int, base: float = 10.0, dtype: Any = None, device: str | None = None
) -> Tensor:
    """`steps` powers of `base` with exponents from `start` to `end`, both included, at equal distances.

    For an integer `dtype` the exponents at the ends are cut to integers first, and then each power is.
    """
    first, last = _ends(start, end, dtype, "logspace")
    n = _count(steps, "logspace: steps")
    made = devices.module_on(device).logspace(first, last, n, base=base)
    return _made(made, _steps(dtype, "logspace"), device, False)


def _ends(start: Any, end: Any, dtype: Any, what: str) -> tuple[float, float]:
    """Two ends given as numbers or tensors of no axes, as numbers; as integers where the dtype holds those."""
    ends = []
    for x in (start, end):
        if isinstance(x, Tensor):
            if x.ndim:
                raise ValueError(f"{what}: start and end are numbers or tensors of no axes, got shape {x.shape}")
            x = x.item()
        ends.append(int(x) if dtype is not None and dtypes.dtype_of(dtype).kind in "iu" else x)
    return ends[0], ends[1]


def _triangle(lower: bool, row: int, col: int, offset: int, device: str | None) -> Tensor:
    what = "tril_indices" if lower else "triu_indices"
    row, col = _count(row, f"{what}: row"), _count(col, f"{what}: col")
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
    values = library.as_array(draw((generator or random.current()).numpy()))
    return _made(values, dtype, device, requires_grad)


def _floating(dtype: Any, what: str) -> np.dtype:
    """The dtype of draws that are no integers, the default one where None."""
    found = dtypes.default_dtype() if dtype is None else dtypes.dtype_of(dtype)
    if found.kind != "f":
        raise TypeError(f"{what}: draws are no integers, and the dtype is {found}; randint draws integers")
    return found


def randn(
    *sizes: Any,
    size: Any = None,
    generator: random.Generator | None = None,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws from the normal distribution with mean 0 and variance 1."""
    shape, kind = _shape(sizes, size, "randn"), _floating(dtype, "randn")
    return _drawn(lambda r: r.standard_normal(shape), generator, kind, device, requires_grad)


def rand(
    *sizes: Any,
    size: Any = None,
    generator: random.Generator | None = None,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws from the uniform distribution on [0, 1)."""
    shape, kind = _shape(sizes, size, "rand"), _floating(dtype, "rand")
    return _drawn(lambda r: random.below(r.random(shape), 0, 1, kind), generator, kind, device, requires_grad)


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
    shape = _shape((), size, "randint")
    low, high = integers((low, high))
    if low >= high:
        raise ValueError(f"randint: there is no integer from {low} up to {high - 1}; low must lie below high")
    dtypes.check_range(dtypes.int64 if dtype is None else dtypes.dtype_of(dtype), low, high - 1, "randint")
    return _drawn(lambda r: r.integers(low, high, shape), generator, dtype, device)


def randint_like(
    input: Tensor, *bounds: int, generator: random.Generator | None = None, dtype: Any = None, device: Any = None
) -> Tensor:
    """randint_like(x, low, high) or randint_like(x, high): integers in the form of `input`, beside it."""
    kind = dtype or input.dtype
    return randint(*bounds, input.shape, generator=generator, dtype=kind, device=device or input.device)


def randperm(n: int, generator: random.Generator | None = None, dtype: Any = None, device: str | None = None) -> Tensor:
    """0 to n − 1 in random order."""
    count, kind = (
        _count(n, "randperm: n"),
        dtypes.dtype_of(_steps(dtypes.int64 if dtype is None else dtype, "randperm")),
    )
    dtypes.check_range(kind, 0, max(count - 1, 0), "randperm")
    return _drawn(lambda r: r.permutation(count), generator, kind, device)


def _without_slope(draws: Tensor, *parameters: Any) -> Tensor:
    """The draws, with a gradient of 0 for the parameters that they came from."""
    for x in parameters:
        if isinstance(x, Tensor) and x.requires_grad:
            draws = choice.Where(tensor(False, device=x.device), x, draws)
    return draws


def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Sequence[int] | None = None,
    generator: random.Generator | None = None,
    dtype: Any = None,
    device: str | None = None,
) -> Tensor:
    """Draws from normal distributions: of `size` for numbers, else one for each element of `mean` and `std`.

    The gradient of both is 0, as in PyTorch; mean + std * randn(...) has one. Raises ValueError for a negative `std`.
    """
    spread = std.array if isinstance(std, Tensor) else np.asarray(std)
    if not (spread >= 0).all().item():
        raise ValueError("normal: every std must be at least 0")
    shape = tuple(size) if size is not None else np.broadcast_shapes(np.shape(mean), np.shape(std))
    like = next((x for x in (mean, std) if isinstance(x, Tensor)), None)
    if like is not None:
        device, dtype = device or like.device, dtype or like.dtype
    draws = randn(*shape, generator=generator, dtype=dtype, device=device)
    centre, width = (x.detach() if isinstance(x, Tensor) else x for x in (mean, std))
    return _without_slope(draws * width + centre, mean, std)


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
    """1 with the probability that each element of `input` is, or `p`, and else 0; in its shape and dtype. Its gradient
    is 0.

    Raises ValueError for what is no probability.
    """
    input = input if p is None else full(input.shape, p, device=input.device).to(input.dtype)
    chances = input.array
    if not ((chances >= 0) & (chances <= 1)).all().item():
        raise ValueError("bernoulli: every element must be a probability from 0 to 1")
    draws = rand(size=input.shape, generator=generator, device=input.device) < input.detach()
    return _without_slope(draws.to(input.dtype), input)


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
