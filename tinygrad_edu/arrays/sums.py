"""How numbers are added up: float16 in float32, and long float sums in blocks, so that rounding does not pile up.

NumPy adds in pairs only where the numbers lie one after the other in memory; along every other axis it adds them one
by one, and so does BLAS where a product has few results. n additions one by one lose up to n/2 units in the last place:
in float32 0.2 % of 200,000 equal numbers. Here a number goes through a few times `BLOCK` additions at most, which keeps
the error near 1e-6 of Σ |x|. CuPy's sums are trees already.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_edu.arrays.dtypes import float16, float32, float64
from tinygrad_edu.arrays.library import Array, quiet, sum_dtype

BLOCK = 32  # numbers that are added one by one
WIDE = 1024  # elements of a pass: rows shorter than this are taken several at a time
SHORT = 128  # rows of a table that a product may add, where BLAS takes four at a time
FEW = 512  # results of a product, up to which BLAS may add along the whole axis one by one


def wide(x: Array) -> Array:
    """`x` itself, in float32 where it is float16: what sums are taken of.

    >>> wide(np.ones(2, np.float16)).dtype
    dtype('float32')
    """
    return x.astype(float32) if x.dtype == float16 else x


def counting(dtype: Any) -> Any:
    """The floating dtype to count in next to `dtype`: float16 has no 2049.

    >>> counting(float16), counting(float64)
    (dtype('float32'), dtype('float64'))
    """
    return float32 if dtype == float16 else dtype


def narrow(x: Array, dtype: Any) -> Array:
    """`x` in `dtype`; what is too large for it becomes infinite without a warning."""
    if x.dtype == dtype:
        return x
    with quiet(x):
        return x.astype(dtype)


def total(x: Array, axes: tuple[int, ...], keepdims: bool = False) -> Array:
    """Σ x over the axes, in the dtype of x; of unsigned integers and booleans in int64.

    >>> x = np.full((200_000, 2), 0.1, np.float32)
    >>> x.sum(axis=0).round(1).tolist(), total(x, (0,)).round(1).tolist()
    ([19959.5, 19959.5], [20000.0, 20000.0])
    """
    if x.dtype.kind != "f":
        return x.sum(axis=axes, keepdims=keepdims, dtype=sum_dtype(x))
    if x.dtype == float16:
        return narrow(total(wide(x), axes, keepdims), float16)
    if not isinstance(x, np.ndarray) or not axes or not x.size or _in_pairs(x, axes):
        return x.sum(axis=axes, keepdims=keepdims)
    axes = tuple(i % x.ndim for i in axes)
    y = _in_blocks(x, axes)
    return y if keepdims else y.reshape([n for i, n in enumerate(x.shape) if i not in axes])


def _in_pairs(x: np.ndarray, axes: tuple[int, ...]) -> bool:
    """Whether NumPy's own sum is exact enough: it adds in pairs, or few numbers."""
    if x.flags.c_contiguous and axes[0] in (x.ndim - len(axes), -len(axes)):
        return True
    count = 1
    for i in axes:
        count *= x.shape[i]
    return count <= 2 * BLOCK


def _in_blocks(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Σ x with the axes kept as 1: those that are outer in memory block by block, the innermost by NumPy's pairs."""
    if not x.flags.c_contiguous:
        return _in_order(x, axes)
    shape, inner = x.shape, x.ndim
    while inner - 1 in axes:
        inner -= 1
    for i in axes:
        if i < inner and shape[i] > 1:
            rows = _rows(x.reshape(math.prod(x.shape[:i]), shape[i], math.prod(shape[i + 1 :])))
            x = rows.reshape(*x.shape[:i], 1, *shape[i + 1 :])
    return x if inner == x.ndim else np.add.reduce(x, axis=tuple(range(inner, x.ndim)), keepdims=True)


def _in_order(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """`_in_blocks` of an array that is not in C order."""
    shape = [1 if i in axes else n for i, n in enumerate(x.shape)]
    spread = [step == 0 and n > 1 for step, n in zip(x.strides, x.shape)]  # the same element all along: one will do
    copies = math.prod(x.shape[i] for i in axes if spread[i])
    x = x[tuple(slice(1 if same else None) for same in spread)]
    order = sorted(range(x.ndim), key=lambda i: (x.shape[i] > 1, -abs(x.strides[i])))
    summed = tuple(i for i, axis in enumerate(order) if axis in axes)
    y = _in_blocks(np.ascontiguousarray(x.transpose(order)), summed).transpose(np.argsort(order))
    y = y * y.dtype.type(copies)
    return y if list(y.shape) == shape else np.broadcast_to(y, shape).copy()


def _rows(x: np.ndarray) -> np.ndarray:
    """[A, n, D] in C order to [A, 1, D]: blocks of rows become one row each, until there are few."""
    count, n, width = x.shape
    while n > 2 * BLOCK:
        beside = max(1, min(WIDE // width, n // BLOCK))  # rows that are taken as one long row
        blocks = n // (BLOCK * beside)
        taken, kept = blocks * BLOCK * beside, blocks * beside
        parts = np.empty((count, kept + (taken < n), width), x.dtype)
        rows = x[:, :taken].reshape(count, blocks, BLOCK, beside * width)
        np.add.reduce(rows, axis=2, out=parts[:, :kept].reshape((count, blocks, beside * width), copy=False))
        if taken < n:
            parts[:, kept:] = _rows(np.ascontiguousarray(x[:, taken:]))
        x, n = parts, parts.shape[1]
    return np.add.reduce(x, axis=1, keepdims=True)


def running(x: Array, axis: int) -> Array:
    """Σ of x up to each place along `axis`, in the dtype of x; of unsigned integers and booleans in int64.

    >>> running(np.array([1, 2, 3], np.uint8), 0)
    array([1, 3, 6])
    """
    if x.dtype.kind != "f":
        return x.cumsum(axis=axis, dtype=sum_dtype(x))
    return narrow(x.cumsum(axis=axis, dtype=float64 if isinstance(x, np.ndarray) else wide(x[:0]).dtype), x.dtype)


def product(x: Array, y: Array, block: int = 2 * BLOCK, out: Array = None) -> Array:
    """x·y over the last axis of x and the last but one of y, matrices or stacks of them that broadcast.

    Where there are few results, an axis longer than 2 · `block` is cut into blocks of that length.
    The result is written to `out` where that is given.

    >>> product(np.full((1, 200_000), 0.1, np.float32), np.ones((200_000, 1), np.float32)).round(1).tolist()
    [[20000.0]]
    """
    if x.dtype == float16 and isinstance(x, np.ndarray):  # a GPU adds products of float16 in float32
        return _into(out, narrow(product(wide(x), wide(y), block), float16))
    rows, length, columns = x.shape[-2], x.shape[-1], y.shape[-1]
    few = rows == 1 or columns == 1 or rows * columns <= FEW
    if length <= 2 * block or not few or not isinstance(x, np.ndarray) or x.dtype.kind != "f":
        return x @ y if out is None else np.matmul(x, y, out=out)
    blocks = length // block
    taken = blocks * block
    left = x[..., :taken].reshape(*x.shape[:-1], blocks, block).swapaxes(-3, -2)  # [..., blocks, rows, block]
    right = y[..., :taken, :].reshape(*y.shape[:-2], blocks, block, columns)
    parts = left @ right
    z = total(parts, (parts.ndim - 3,))
    if taken < length:
        z += x[..., taken:] @ y[..., taken:, :]
    return _into(out, z)


def _into(out: Array, z: Array) -> Array:
    if out is None:
        return z
    out[...] = z
    return out


def column_sums(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Σ_i w_i·x_i of the rows of [N, D], for weights w [N]; with `ones`, the fastest sum of them.

    >>> column_sums(np.array([[1.0, 2.0], [3.0, 4.0]]), ones(2, np.dtype(float))).tolist()
    [4.0, 6.0]
    """
    if len(x) <= 2 * SHORT:
        return weights @ x
    return parts_sum([column_parts(x, weights)], x.shape[1], x.dtype)


def parts_sum(parts: list[np.ndarray], width: int, dtype: Any) -> np.ndarray:
    """Σ of all rows of these results of `column_parts`, [D]; 0 where there are none."""
    if not parts:
        return np.zeros(width, dtype)
    rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return np.add.reduce(rows, axis=0) if len(rows) <= 2 * BLOCK else total(rows, (0,))


def column_parts(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Rows [n, D] that add up to `column_sums(x, weights)`, one for every `SHORT` rows of x."""
    count, width = x.shape
    if count <= 2 * SHORT:
        return (weights @ x)[None]
    taken = count // SHORT * SHORT
    parts = weights[:taken].reshape(-1, 1, SHORT) @ x[:taken].reshape(-1, SHORT, width)
    parts = parts.reshape(-1, width)
    return parts if taken == count else np.concatenate([parts, (weights[taken:] @ x[taken:])[None]])


def row_sums(x: np.ndarray, weights: np.ndarray, out: Any = None) -> np.ndarray:
    """Σ_j x_j·w_j of each row of [..., N, D], for weights w [D]; with `ones`, the fastest sums of rows.

    >>> row_sums(np.array([[1.0, 2.0], [3.0, 4.0]]), ones(2, np.dtype(float))).tolist()
    [3.0, 7.0]
    """
    width = x.shape[-1]
    if width <= WIDE:
        return np.matmul(x, weights, out=out)
    block = WIDE // 2
    taken, lead = width // block * block, x.shape[:-1]
    cut, along = x[..., :taken].reshape(*lead, -1, block), weights[:taken].reshape(-1, block)
    z = np.add.reduce(np.vecdot(cut, along), axis=-1, out=out)
    if taken < width:
        z += x[..., taken:] @ weights[taken:]
    return z


def row_dots(x: np.ndarray, y: np.ndarray, out: Any = None) -> np.ndarray:
    """Σ x ⊙ y of each row of [..., D], float32 or float64."""
    width = x.shape[-1]
    if width <= 2 * WIDE:
        return np.vecdot(x, y, out=out)
    taken, lead = width // WIDE * WIDE, x.shape[:-1]
    cut = (each[..., :taken].reshape(*lead, -1, WIDE) for each in (x, y))
    z = np.add.reduce(np.vecdot(*cut), axis=-1, out=out)
    if taken < width:
        z += np.vecdot(x[..., taken:], y[..., taken:])
    return z


_ones: dict[np.dtype, np.ndarray] = {}


def ones(count: int, dtype: Any) -> np.ndarray:
    """`count` ones, read-only."""
    known = _ones.get(dtype)
    if known is None or known.size < count:
        known = np.ones(max(count, 4096), dtype)
        known.flags.writeable = False
        _ones[dtype] = known
    return known[:count]
