"""Products with a weight table: the linear layer and the embedding lookup."""

from typing import Any

import numpy as np

from ...arrays.buffers import empty
from ...arrays.sums import BLOCK, WIDE, column_sums, ones, product
from .. import crew
from .common import Gradients, viewed

ONE_HOT = 512  # up to this many rows a table's gradient is one product with a one-hot matrix


def linear(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """Y = X·Wᵀ + b, all rows of X in one product.

    x [..., I]; weight [O, I]; bias [O] or None. Result [..., O].

    >>> linear(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [5.0, 6.0]]), np.array([0.0, 1.0]))
    array([[11., 18.]])
    """
    rows = viewed(x, (-1, x.shape[-1])) if x.shape[-1] else x.reshape(_count(x), 0)
    y = empty((rows.shape[0], weight.shape[0]), x.dtype)
    with crew.apart:
        times(rows, weight.T, y)
    if bias is not None:
        y += bias
    return y.reshape(*x.shape[:-1], weight.shape[0])


def times(rows: np.ndarray, table: np.ndarray, out: np.ndarray) -> np.ndarray:
    """rows·table, written to `out` and returned: BLAS adds one by one where rows are not very long."""
    if rows.shape[1] <= (WIDE if len(rows) > 1 else 8 * WIDE):  # to cut a product of one row costs half as much
        return np.matmul(rows, table, out=out)
    return product(rows, table, out=out)


def _count(x):
    count = 1
    for n in x.shape[:-1]:
        count *= n
    return count


def linear_backward(
    g: np.ndarray, x: np.ndarray, weight: np.ndarray, need: tuple[bool, bool, bool] = (True, True, True)
) -> Gradients:
    """dX = dY·W, dW = dYᵀ·X, db = Σ_rows dY.

    g [..., O], the gradient of Y; x [..., I]; weight [O, I]; need: which of (dX, dW, db) to compute.
    Results [..., I], [O, I] and [O], None where not needed.
    """
    count = _count(g)
    flat = viewed(g, (count, g.shape[-1]))
    rows: Any = viewed(x, (count, x.shape[-1])) if need[1] else None
    dx = empty((count, weight.shape[1]), g.dtype) if need[0] else None
    dweight = empty((g.shape[-1], x.shape[-1]), g.dtype) if need[1] else None
    with crew.apart:
        if dx is not None:
            np.matmul(flat, weight, out=dx)
        if dweight is not None:
            product(flat.T, rows, out=dweight)
        dbias = column_sums(flat, ones(count, g.dtype)) if need[2] else None
    return None if dx is None else dx.reshape(*g.shape[:-1], weight.shape[1]), dweight, dbias


def embedding(ids: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The rows of a table: y[..., :] = W[ids[...], :].

    ids, any shape, whole numbers in [0, V) (the caller checks); weight [V, D]. Result [*ids.shape, D].

    >>> embedding(np.array([1, 0, 1]), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[3., 4.],
           [1., 2.],
           [3., 4.]])
    """
    y = empty((*ids.shape, weight.shape[1]), weight.dtype)
    if ids.size:
        np.take(weight, ids, axis=0, out=y, mode="clip")
    return y


def embedding_backward(g: np.ndarray, ids: np.ndarray, rows: int) -> np.ndarray:
    """dW[r] = Σ over the places where ids = r of dy there: a row that was read n times receives n gradients.

    g [*ids.shape, D]; ids as in `embedding`; rows V. Result [V, D].

    >>> embedding_backward(np.ones((3, 2)), np.array([1, 1, 0]), 3)
    array([[1., 1.],
           [2., 2.],
           [0., 0.]])
    """
    width = g.shape[-1]
    places = ids.reshape(-1)
    count = places.size
    flat = viewed(g, (count, width))
    dweight = empty((rows, width), g.dtype)
    if rows <= ONE_HOT and count:
        chosen = empty((rows, count), g.dtype)
        chosen.fill(0)
        chosen.reshape(-1)[places * count + np.arange(count)] = 1
        return product(chosen, flat, out=dweight)
    dweight.fill(0)
    if count and width:
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        gathered = empty((count, width), g.dtype)
        np.take(flat, order, axis=0, out=gathered, mode="clip")
        dweight[ordered[starts]] = _runs(gathered, starts)
    return dweight


def _runs(rows, starts):
    """Σ of the rows from each start to the next; long runs in blocks."""
    lengths = np.diff(starts, append=len(rows))
    while lengths.max() > BLOCK:
        pieces = -(-lengths // BLOCK)
        first = np.cumsum(pieces) - pieces
        cuts = np.repeat(starts - first * BLOCK, pieces) + np.arange(pieces.sum()) * BLOCK
        rows, starts, lengths = np.add.reduceat(rows, cuts, axis=0), first, pieces
    return np.add.reduceat(rows, starts, axis=0)
