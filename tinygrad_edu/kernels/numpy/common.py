"""What the NumPy kernels share: chunks that stay in cache, row views, and sums by matrix-vector product."""

import math
from typing import Any

import numpy as np

from ...arrays.buffers import empty

Gradients = tuple[Any, Any, Any]  # arrays, None where a gradient is not needed
CHUNK = 1 << 18  # elements of one pass of a long chain: every call hands the interpreter over between threads, which
# costs more than the cache that shorter pieces would stay in (65,536 were slower with two threads)
ROWS = 65536  # elements of the rows that are worked on together, where two or three arrays are

Scalars = tuple[np.ndarray, ...]


def scalars(dtype, *values) -> Scalars:
    """Numbers as arrays without axes: an operation with one costs half a microsecond less than with a Python float."""
    return tuple(np.array(value, dtype) for value in values)


def constants(*values) -> dict[np.dtype, Scalars]:
    """The same numbers in each precision that has kernels."""
    return {np.dtype(dtype): scalars(dtype, *values) for dtype in (np.float32, np.float64)}


def viewed(x, shape):
    """`x` with another shape: a view where strides allow it, a copy on reused memory otherwise."""
    if x.flags.c_contiguous:
        return x.reshape(shape)
    try:
        return np.reshape(x, shape, copy=False)
    except ValueError:
        return packed(x).reshape(shape)


def packed(x):
    """`x` in C order: itself, or a copy on reused memory."""
    if x.flags.c_contiguous:
        return x
    copy = empty(x.shape, x.dtype)
    np.copyto(copy, x)
    return copy


def chunks(start, stop):
    """Slices from start to stop, equally long and of `CHUNK` elements at most, but for the last."""
    pieces = -(-(stop - start) // CHUNK)
    length = -(-(stop - start) // max(1, pieces))
    return [slice(i, min(i + length, stop)) for i in range(start, stop, max(1, length))]


def row_slices(count, width):
    """Slices over `count` rows of `width` elements, each about `ROWS` elements."""
    step = max(1, ROWS // max(1, width))
    return [slice(i, min(i + step, count)) for i in range(0, count, step)]


def trailing(x, axes_count):
    """x as rows [N, D], D the product of the last `axes_count` lengths."""
    split = x.ndim - axes_count
    return viewed(x, (math.prod(x.shape[:split]), math.prod(x.shape[split:])))
