"""Normalisation by the root of the mean square, over the last axes."""

import numpy as np

from ...arrays.buffers import empty
from ...arrays.sums import column_parts, ones, parts_sum, row_dots, row_sums
from .common import row_slices, trailing


def rms_norm(
    x: np.ndarray, weight: np.ndarray | None, eps: float, axes_count: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """y = x·r ⊙ w with r = 1/√(mean(x²) + eps), the mean over the last `axes_count` axes.

    x [..., *n]; weight [*n] or None. Results: y of the shape of x, r [N], N the product of the leading lengths.
    Source: Zhang and Sennrich, "Root mean square layer normalization", 2019.

    >>> rms_norm(np.array([[3.0, 4.0]]), None, 0.0)[1].round(4)
    array([0.2828])
    """
    rows = trailing(x, axes_count)
    count, width = rows.shape
    y, r = empty((count, width), x.dtype), np.empty(count, x.dtype)
    scale = None if weight is None else weight.reshape(-1)
    for part in row_slices(count, width) if width else []:
        row_dots(rows[part], rows[part], out=r[part])
        r[part] *= 1 / width
        r[part] += eps
        np.sqrt(r[part], out=r[part])
        np.reciprocal(r[part], out=r[part])
        np.multiply(rows[part], r[part, None], out=y[part])
        if scale is not None:
            y[part] *= scale
    return y.reshape(x.shape), r


def rms_norm_backward(
    g: np.ndarray,
    x: np.ndarray,
    weight: np.ndarray | None,
    r: np.ndarray,
    need: tuple[bool, bool] = (True, True),
    axes_count: int = 1,
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """With h = dy ⊙ w: dx = r·(h − x·r²·mean(h ⊙ x)), dw = Σ dy ⊙ x·r. Shapes as in `layer_norm_backward`."""
    gradients, rows = trailing(g, axes_count), trailing(x, axes_count)
    count, width = rows.shape
    scale = ones(width, g.dtype) if weight is None else weight.reshape(-1)
    dx = empty((count, width), g.dtype) if need[0] else None
    dweights: list[np.ndarray] = []
    parts = row_slices(count, width) if count and width else []
    products = empty((parts[0].stop if parts else 0, width), g.dtype)
    for part in parts:
        h, rstd = gradients[part], r[part]
        t = products[: h.shape[0]]
        np.multiply(h, rows[part], out=t)
        if need[1]:
            dweights.append(column_parts(t, rstd))
        if dx is not None:
            along = row_sums(t, scale)
            along *= rstd * rstd * (1 / width)
            d = dx[part]
            np.multiply(h, scale, out=d)
            np.multiply(rows[part], along[:, None], out=t)
            d -= t
            d *= rstd[:, None]
    inner = x.shape[x.ndim - axes_count :]
    return (
        None if dx is None else dx.reshape(x.shape),
        parts_sum(dweights, width, g.dtype).reshape(inner) if need[1] else None,
    )
