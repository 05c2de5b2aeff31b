"""Reading and adding to places by index, and the check that they are there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_edu.arrays import gpu
from tinygrad_edu.arrays.devices import known_on_host
from tinygrad_edu.arrays.dtypes import float64, int64
from tinygrad_edu.arrays.library import Array, is_array, module_of

_FEW = 32


def add_at(target: Array, index: Any, values: Array) -> None:
    """target[index] += values, where an element that `index` names twice gets both."""
    parts = index if isinstance(index, tuple) else (index,)
    if all(not is_array(part) or part.dtype.kind == "b" for part in parts):
        target[index] += values  # names no element twice
    elif not isinstance(target, np.ndarray):
        gpu.add_at(target, index, values)
    elif target.dtype.kind == "f" and math.prod(part.size for part in parts if is_array(part)) > _FEW:
        exact = np.zeros(target.shape, float64)  # one element may get them all, and they are added one by one
        np.add.at(exact, index, values)
        target += exact
    else:
        np.add.at(target, index, values)


def names_twice(array: Array, index: Any) -> bool:
    """Whether integer arrays in `index` name an element of `array` more than once."""
    parts = index if isinstance(index, tuple) else (index,)
    if not any(is_array(part) and part.dtype.kind != "b" for part in parts):
        return False
    seen = module_of(array).zeros(array.shape, dtype=int64)
    add_at(seen, index, 1)
    return (seen > 1).any().item()


def add_along(target: Array, index: Array, values: Array, axis: int) -> None:
    """target[..., index[..., i, ...], ...] += values[..., i, ...] along `axis`."""
    add_at(target, _grid(target, index, axis), values)


def change_along(target: Array, index: Array, values: Array, axis: int, by: str) -> None:
    """target[..., index[..., i, ...], ...] becomes the "maximum" or "minimum" of itself and of values[..., i, ...]."""
    place = _grid(target, index, axis)
    if isinstance(target, np.ndarray):
        getattr(np, by).at(target, place, values)
    else:
        gpu.change_at(target, place, values, by)


def _grid(target: Array, index: Array, axis: int) -> tuple[Array, ...]:
    xp = module_of(target)
    grid = [xp.arange(n).reshape((1,) * i + (n,) + (1,) * (index.ndim - i - 1)) for i, n in enumerate(index.shape)]
    grid[axis] = index
    return tuple(grid)


def check_ids(ids: Any, count: int, what: str, from_end: bool = False) -> None:
    """Raise an IndexError unless all ids, an array or a tensor, lie in 0 to count - 1; negative ones count from the end
    only where `from_end` says so.

    A GPU would wrap them in silence, so it is asked; a tensor that came from the host is checked there instead, see
    `on_host`.
    """
    array, known = known_on_host(ids)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{what}: ids must be integers, got dtype {array.dtype}; convert them with .long()")
    least = -count if from_end else 0
    if not array.size or (known is not None and _within(known, least, count)[0]):
        return
    fits, low, high = _within(array, least, count)  # ids may be a part, and right, of what is known
    if not fits:
        raise IndexError(f"{what}: ids must lie in {least} to {count - 1}, got values from {low} to {high}")


def _within(ids: Array, least: int, count: int) -> tuple[bool, int, int]:
    low, high = ids.min().item(), ids.max().item()
    return low >= least and high < count, low, high
