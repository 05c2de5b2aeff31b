"""What the NumPy kernels share: chunks that stay in cache, row views, and sums by matrix-vector product."""

from typing import Any

import numpy as np

from ...buffers import empty

Gradients = tuple[Any, Any, Any]  # arrays, None where a gradient is not needed
CHUNK = 16384  # elements of one pass of a chain: a few arrays of this size fit a core's second-level cache
REPEAT = 2048  # elements to which a short row is repeated, so that an inner loop of NumPy is long

_ones: dict[np.dtype, np.ndarray] = {}


def ones(count, dtype):
    """`count` ones, read-only; `ones(N) @ x` and `x @ ones(D)` are the fast sums over an axis."""
    known = _ones.get(dtype)
    if known is None or known.size < count:
        known = np.ones(max(count, 4096), dtype)
        known.flags.writeable = False
        _ones[dtype] = known
    return known[:count]


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


def row_slices(count, width):
    """Slices over `count` rows of `width` elements, each about one chunk."""
    step = max(1, CHUNK // max(1, width))
    return [slice(i, min(i + step, count)) for i in range(0, count, step)]


class RowFactor:
    """A row vector [D] repeated, so that `rows op vector` runs with long inner loops."""

    def __init__(self, vector):
        width = vector.shape[0]
        self.repeats = max(1, REPEAT // max(1, width))
        self.vector = vector
        self.tiled = np.tile(vector, self.repeats) if self.repeats > 1 else vector

    def apply(self, operation, rows, out):
        """out = operation(rows, vector) for contiguous rows [N, D]."""
        count, width = rows.shape
        whole = count - count % self.repeats
        if whole:
            shape = whole // self.repeats, width * self.repeats
            operation(rows[:whole].reshape(shape), self.tiled, out=out[:whole].reshape(shape))
        if whole < count:
            operation(rows[whole:], self.vector, out=out[whole:])
