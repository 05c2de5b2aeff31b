"""Which array library owns an array, and the few differences between NumPy and CuPy."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from tinygrad_edu.arrays.buffers import empty
from tinygrad_edu.arrays.dtypes import DEFAULT, bool_, int8, int64

Array = Any  # a numpy.ndarray or a cupy.ndarray


def module_of(array: Array) -> Any:
    """The array library of an array; NumPy for its scalars and for Python's."""
    if type(array) is np.ndarray:
        return np
    if type(array).__module__.partition(".")[0] == "cupy":
        return sys.modules["cupy"]
    return np


def all_numpy(values: list[Any]) -> bool:
    """Whether none of the values belongs to another array library than NumPy."""
    return not [x for x in values if type(x) is not np.ndarray and module_of(x) is not np]


def is_array(value: object) -> bool:
    """Whether `value` is an array of a library that the engine computes with."""
    return isinstance(value, np.ndarray) or type(value).__module__.partition(".")[0] == "cupy"


def as_array(value: Any, like: Array = None) -> Array:
    """An array for a result: NumPy hands out scalars where an array of no axes is meant."""
    return value if is_array(value) else (np if like is None else module_of(like)).asarray(value)


def floating(array: Array) -> Array:
    """The array itself when it is floating, else its values in the default dtype, float32."""
    return array if not hasattr(array, "dtype") or array.dtype.kind == "f" else array.astype(DEFAULT["f"])


def sum_dtype(array: Array) -> np.dtype:
    """The dtype of a sum or product of elements: int64 for integers and booleans, whose sums soon outgrow their own."""
    return array.dtype if array.dtype.kind == "f" else int64


def quiet(array: Array) -> AbstractContextManager[Any]:
    """A block in which 1/0 is ∞ and 0/0 is NaN without a warning; CuPy never warns."""
    return np.errstate(all="ignore") if module_of(array) is np else nullcontext()


def largest(array: Array, axes: tuple[int, ...], least: float) -> Array:
    """The largest along the axes, which stay as 1; `least` where there is nothing. CuPy's max has no initial value."""
    if isinstance(array, np.ndarray):
        return array.max(axis=axes, keepdims=True, initial=least)
    if array.size:
        return array.max(axis=axes, keepdims=True)
    shape = tuple(1 if i in axes else n for i, n in enumerate(array.shape))
    return module_of(array).full(shape, least, dtype=array.dtype)


FEW_TO_CHOOSE = 8192  # elements up to which NumPy's `where` is faster


def where(condition: Array, x: Array, y: Array) -> Array:
    """x where the condition holds, else y, as the array library's own `where`.

    NumPy's takes a branch at every element, which costs as much as an exponential where the condition follows no
    pattern. So on large arrays the bits of x and of y are put together with a mask instead.

    >>> where(np.array([True, False]), np.array([1.0, 2.0]), np.array(0.0))
    array([1., 0.])
    """
    if not isinstance(condition, np.ndarray) or condition.size <= FEW_TO_CHOOSE or condition.dtype != bool_:
        return module_of(condition).where(condition, x, y)
    dtype = np.result_type(x, y)
    if dtype.itemsize > 8:
        return np.where(condition, x, y)
    chosen = empty(np.broadcast_shapes(condition.shape, np.shape(x), np.shape(y)), dtype)
    bits = chosen.view(f"i{dtype.itemsize}")
    x, y = (np.asarray(each, dtype).view(bits.dtype) for each in (x, y))
    mask = empty(condition.shape, int8)
    np.not_equal(condition.view(int8), 0, out=mask.view(bool_))  # a byte of another memory may be neither 0 nor 1
    np.negative(mask, out=mask)  # all bits are 1 where it holds
    if y.ndim == 0 and not y:
        np.bitwise_and(x, mask, out=bits)
    else:
        np.bitwise_xor(x, y, out=bits)
        bits &= mask
        bits ^= y
    return chosen
