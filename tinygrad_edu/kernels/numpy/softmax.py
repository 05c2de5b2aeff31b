"""Softmax and log-softmax over any axis."""

from typing import NamedTuple

import numpy as np

from ...arrays.buffers import empty
from ...arrays.sums import ones, row_dots, row_sums
from .common import packed, row_slices


def _rows(x, axis):
    """x as contiguous rows [N, n] with `axis` last, and the shape it had so."""
    moved = np.moveaxis(x, axis, -1) if axis not in (-1, x.ndim - 1) else x
    return packed(moved).reshape(_outer(moved.shape), moved.shape[-1]), moved.shape


def _outer(shape):
    count = 1
    for n in shape[:-1]:
        count *= n
    return count


def _back(rows, shape, axis, ndim):
    y = rows.reshape(shape)
    return y if axis in (-1, ndim - 1) else np.moveaxis(y, -1, axis)


def _shift(rows):
    """The largest entry of each row [N, 1]; 0 where all are −∞ (−∞ − −∞ would be NaN) or where a row is empty."""
    if rows.shape[1] == 0:
        return np.zeros((rows.shape[0], 1), rows.dtype)
    return _finite(_at(rows, rows.argmax(axis=-1)))  # NumPy's argmax is three times as fast as its max


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """y = exp(x − max x) / Σ exp(x − max x) along `axis`.

    x, any shape; result of the same shape. Where every entry along the axis is −∞, there is nothing to choose from
    and y is 0, never NaN.

    >>> softmax(np.array([[0.0, np.log(3.0)], [-np.inf, -np.inf]]), -1)
    array([[0.25, 0.75],
           [0.  , 0.  ]])
    """
    rows, shape = _rows(x, axis)
    y = empty(rows.shape, x.dtype)
    one = ones(rows.shape[1], x.dtype)
    for part in row_slices(*rows.shape):
        z = y[part]
        np.subtract(rows[part], _shift(rows[part]), out=z)
        np.exp(z, out=z)
        with np.errstate(invalid="ignore"):  # BLAS may raise the flag over lanes that hold nothing of ours
            total = row_sums(z, one)
        total[total == 0] = 1
        np.reciprocal(total, out=total)
        z *= total[:, None]
    return _back(y, shape, axis, x.ndim)


def softmax_backward(g: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    """dx = y ⊙ (dy − Σ dy ⊙ y) along `axis`; 0 where y is 0.

    g, the gradient of y, and y, the result of `softmax`: the same shape as the result here. As Σ y = 1, every dy may
    be counted from that of a y above ½, whose own dx is then no difference of nearly equal numbers.
    """
    gradients, shape = _rows(g, axis)
    rows, _ = _rows(y, axis)
    dx = empty(rows.shape, g.dtype)
    for part in row_slices(*rows.shape) if rows.shape[1] else []:
        d, given = dx[part], gradients[part]
        above = np.flatnonzero(rows[part] > 0.5)
        if above.size:
            level = np.zeros(len(d), g.dtype)
            level[above // rows.shape[1]] = given.reshape(-1)[above]
            given = np.subtract(given, level[:, None], out=d)
        np.subtract(given, row_dots(given, rows[part])[:, None], out=d)
        d *= rows[part]
    return _back(dx, shape, axis, g.ndim)


def _at(rows, places):
    """The element of each row at its place, [N, 1]."""
    return rows[np.arange(len(places)), places][:, None]


class Largest(NamedTuple):
    """What the backward pass of `log_softmax` reads besides its input: per row the place of the first largest entry,
    and Σ exp(x − max x) of the others, both [N]."""

    place: np.ndarray
    rest: np.ndarray


def log_softmax(x: np.ndarray, axis: int) -> tuple[np.ndarray, Largest]:
    """y = x − max x − log Σ exp(x − max x) along `axis`, and `Largest` for the backward pass.

    x, any shape; y of the same shape. Where every entry along the axis is −∞, y is −∞ (the log of softmax's 0).

    >>> np.exp(log_softmax(np.array([0.0, np.log(3.0)]), 0)[0]).round(2)
    array([0.25, 0.75])
    """
    rows, shape = _rows(x, axis)
    count, width = rows.shape
    y = empty(rows.shape, x.dtype)
    one = ones(width, x.dtype)
    saved = Largest(np.zeros(count, np.intp), np.zeros(count, x.dtype))
    parts = row_slices(count, width) if width else []
    exps = empty(y[parts[0]].shape, x.dtype) if parts else y
    for part in parts:
        z, e, place = y[part], exps[: part.stop - part.start], saved.place[part]
        np.argmax(rows[part], axis=-1, out=place)
        np.subtract(rows[part], _finite(_at(rows[part], place)), out=z)
        np.exp(z, out=e)
        e[np.arange(len(place)), place] = 0  # its 1 would hide what is far smaller
        row_sums(e, one, out=saved.rest[part])
        z -= np.log1p(saved.rest[part])[:, None]
    return _back(y, shape, axis, x.ndim), saved


def _finite(largest):
    """The largest of each row, 0 where all are −∞, whose difference to itself is no number; NaN for ∞."""
    infinite = np.isinf(largest)
    if infinite.any():
        largest[infinite] = np.where(largest[infinite] > 0, np.nan, 0)
    return largest


def log_softmax_backward(g: np.ndarray, x: np.ndarray, saved: Largest, axis: int) -> np.ndarray:
    """dx = dy − softmax(x) · Σ dy along `axis`; that of the largest x is minus the sum of the others.

    g, the gradient of y, and x, of the shape of the result here, with what `log_softmax` saved.
    """
    gradients, shape = _rows(g, axis)
    rows, _ = _rows(x, axis)
    dx = empty(rows.shape, g.dtype)
    one = ones(rows.shape[1], g.dtype)
    for part in row_slices(*rows.shape) if rows.shape[1] else []:
        d, place = dx[part], saved.place[part]
        index, largest = np.arange(len(place)), _at(rows[part], place)
        np.subtract(rows[part], _finite(largest.copy()), out=d)
        np.exp(d, out=d)
        d *= (row_sums(gradients[part], one) / (1 + saved.rest[part]))[:, None]
        np.subtract(gradients[part], d, out=d)
        d[index, place] = 0
        others = -row_sums(d, one)
        d[index, place] = np.where(np.isneginf(largest[:, 0]), gradients[part][index, place], others)
    return _back(dx, shape, axis, g.ndim)
