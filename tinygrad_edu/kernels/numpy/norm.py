"""Layer normalisation over the last axes."""

import functools
import math

import numpy as np

from ...arrays.buffers import empty
from ...arrays.sums import column_parts, ones, parts_sum, row_dots, row_sums
from .common import Gradients, row_slices, scalars, trailing


@functools.lru_cache(maxsize=32)
def _row(width, eps, dtype):
    """1/D in a vector [D], and two numbers for 1/√(Σ c²/D + eps) = √D / √(Σ c² + D·eps); shared, so read-only."""
    average = np.full(width, 1 / width, dtype)
    average.flags.writeable = False
    return average, *scalars(dtype, width * eps, math.sqrt(width))


def layer_norm(
    x: np.ndarray,
    weight: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    eps: float = 1e-5,
    axes_count: int = 1,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """y = (x − mean)·rstd ⊙ w + b with rstd = 1/√(var + eps); mean and var over the last `axes_count` axes.

    x [..., *n]; weight and bias [*n] or None, with n the last `axes_count` lengths; var divides by the count, not by
    the count less one. Results: y of the shape of x, mean and rstd [N], N the product of the leading lengths.
    Source: Ba, Kiros and Hinton, "Layer normalization", 2016.

    >>> y, mean, rstd = layer_norm(np.array([[1.0, 3.0]]), eps=0.0)
    >>> y, mean, rstd
    (array([[-1.,  1.]]), array([2.]), array([1.]))
    """
    rows = trailing(x, axes_count)
    count, width = rows.shape
    y = empty((count, width), x.dtype)
    mean, rstd = np.empty(count, x.dtype), np.empty(count, x.dtype)
    if width:
        average, floor, root = _row(width, eps, x.dtype)
        scale = None if weight is None else weight.reshape(-1)
        shift = None if bias is None else bias.reshape(-1)
        for part in row_slices(count, width):
            z, m, r = y[part], mean[part], rstd[part]
            row_sums(rows[part], average, out=m)
            np.subtract(rows[part], m[:, None], out=z)
            row_dots(z, z, out=r)
            r += floor
            np.sqrt(r, out=r)
            np.divide(root, r, out=r)
            z *= r[:, None]
            if scale is not None:
                z *= scale
            if shift is not None:
                z += shift
    return y.reshape(x.shape), mean, rstd


def layer_norm_backward(
    g: np.ndarray,
    x: np.ndarray,
    weight: np.ndarray | None,
    mean: np.ndarray,
    rstd: np.ndarray,
    need: tuple[bool, bool, bool] = (True, True, True),
    axes_count: int = 1,
) -> Gradients:
    """With x̂ = (x − mean)·rstd and h = dy ⊙ w: dx = rstd·(h − mean(h) − x̂·mean(h ⊙ x̂)), dw = Σ dy ⊙ x̂, db = Σ dy.

    g, the gradient of y, and x [..., *n]; weight [*n] or None; mean and rstd [N] from `layer_norm`; need: which of
    (dx, dw, db) to compute. The means run over a row, the sums over all rows. Results of the shapes of x, weight, bias,
    None where not needed.
    """
    gradients, rows = trailing(g, axes_count), trailing(x, axes_count)
    count, width = rows.shape
    inner = x.shape[x.ndim - axes_count :]
    dx = empty((count, width), g.dtype) if need[0] else None
    dweights: list[np.ndarray] = []
    dbiases: list[np.ndarray] = []
    if count and width and any(need):
        one = ones(count, g.dtype)
        scale = ones(width, g.dtype) if weight is None else weight.reshape(-1)
        average = scale * _row(width, 0.0, g.dtype)[0]
        parts = row_slices(count, width)
        centred, products = empty((2, parts[0].stop, width), g.dtype)
        for part in parts:
            h, r = gradients[part], rstd[part]
            c, t = centred[: h.shape[0]], products[: h.shape[0]]
            np.subtract(rows[part], mean[part, None], out=c)
            np.multiply(h, c, out=t)
            if need[1]:
                dweights.append(column_parts(t, r))
            if need[2]:
                dbiases.append(column_parts(h, one[: h.shape[0]]))
            if dx is not None:
                d = dx[part]
                along = row_sums(t, average)
                along *= r
                along *= r
                c *= along[:, None]
                np.multiply(h, scale, out=d)
                d -= c
                d -= row_sums(h, average)[:, None]
                d *= r[:, None]
    return (
        None if dx is None else dx.reshape(x.shape),
        parts_sum(dweights, width, g.dtype).reshape(inner) if need[1] else None,
        parts_sum(dbiases, width, g.dtype).reshape(inner) if need[2] else None,
    )
