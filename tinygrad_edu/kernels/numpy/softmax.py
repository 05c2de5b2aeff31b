"""Softmax and log-softmax over any axis."""

import numpy as np

from ...buffers import empty
from .common import ones, packed, row_slices


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
    largest = rows.max(axis=-1, keepdims=True)
    largest[np.isneginf(largest)] = 0
    return largest


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
            total = z @ one
        total[total == 0] = 1
        np.reciprocal(total, out=total)
        z *= total[:, None]
    return _back(y, shape, axis, x.ndim)


def softmax_backward(g: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    """dx = y ⊙ (dy − Σ dy ⊙ y) along `axis`; 0 where y is 0.

    g, the gradient of y, and y, the result of `softmax`: the same shape as the result here.
    """
    gradients, shape = _rows(g, axis)
    rows, _ = _rows(y, axis)
    dx = empty(rows.shape, g.dtype)
    for part in row_slices(*rows.shape):
        mean = np.vecdot(gradients[part], rows[part])
        np.subtract(gradients[part], mean[:, None], out=dx[part])
        dx[part] *= rows[part]
    return _back(dx, shape, axis, g.ndim)


def log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """y = x − max x − log Σ exp(x − max x) along `axis`.

    x, any shape; result of the same shape. Where every entry along the axis is −∞, y is −∞ (the log of softmax's 0).

    >>> np.exp(log_softmax(np.array([0.0, np.log(3.0)]), 0)).round(2)
    array([0.25, 0.75])
    """
    rows, shape = _rows(x, axis)
    y = empty(rows.shape, x.dtype)
    one = ones(rows.shape[1], x.dtype)
    parts = row_slices(*rows.shape)
    exps = empty(y[parts[0]].shape, x.dtype) if parts else y
    for part in parts:
        z, e = y[part], exps[: part.stop - part.start]
        np.subtract(rows[part], _shift(rows[part]), out=z)
        np.exp(z, out=e)
        total = e @ one
        total[total == 0] = 1
        np.log(total, out=total)
        z -= total[:, None]
    return _back(y, shape, axis, x.ndim)


def log_softmax_backward(g: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    """dx = dy − exp(y) · Σ dy along `axis`.

    g, the gradient of y, and y, the result of `log_softmax`: the same shape as the result here.
    """
    gradients, shape = _rows(g, axis)
    rows, _ = _rows(y, axis)
    dx = empty(rows.shape, g.dtype)
    one = ones(rows.shape[1], g.dtype)
    for part in row_slices(*rows.shape):
        d = dx[part]
        np.exp(rows[part], out=d)
        d *= (gradients[part] @ one)[:, None]
        np.subtract(gradients[part], d, out=d)
    return _back(dx, shape, axis, g.ndim)
