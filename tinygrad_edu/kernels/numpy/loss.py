"""Cross-entropy of logits, row by row."""

from typing import NamedTuple

import numpy as np

from ...arrays.buffers import empty
from ...arrays.pieces import log1p
from ...arrays.sums import ones, row_sums
from .common import packed, row_slices


class Rows(NamedTuple):
    """What the backward pass of `cross_entropy` reads besides its inputs: per row the largest logit, Σ exp(z − largest)
    of all classes, and that of all but the target, each [N]."""

    largest: np.ndarray
    total: np.ndarray
    others: np.ndarray


def cross_entropy(
    logits: np.ndarray,
    target: np.ndarray,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    weight: np.ndarray | None = None,
) -> tuple[np.ndarray, Rows]:
    """Per row the loss (1 − s)·w_t·(L − z_t) + s/V·Σ_c w_c·(L − z_c), in nats, with L = log Σ_c exp z_c.

    logits z [N, V]; target t [N], classes in [0, V) or `ignore_index` (the caller checks), whose rows have loss 0;
    label_smoothing s in [0, 1]; weight w [V] or None for ones. Results: losses [N], and `Rows` for the backward pass.
    L − z is taken as log Σ exp(z − max) − (z − max): logits of 10⁸ keep their differences. The exp of the target is
    added last, so that a target far above the others has a small loss, not 0.

    >>> losses, _ = cross_entropy(np.array([[2.0, 0.0, 0.0], [9.0, -9.0, 1.0]]), np.array([0, -100]))
    >>> losses.round(4)
    array([0.2395, 0.    ])
    """
    z = packed(logits)
    count, classes = z.shape
    losses = np.empty(count, z.dtype)
    saved = Rows(*(np.empty(count, z.dtype) for _ in Rows._fields))
    chosen, ignored = _chosen(target, ignore_index)
    one = ones(classes, z.dtype)
    parts, starts = _parts(count, classes)
    exps = empty((len(starts), classes), z.dtype)
    for part in parts:
        rows, e = z[part], exps[: part.stop - part.start]
        largest, total, others = saved.largest[part], saved.total[part], saved.others[part]
        first, each = starts[: len(e)], e.reshape(-1)
        np.take(rows, first + rows.argmax(axis=1), out=largest, mode="clip")  # argmax is three times as fast as np.max
        np.subtract(rows, largest[:, None], out=e)
        here = first + chosen[part]
        loss = -each[here]
        spread = None
        if label_smoothing:
            spread = -row_sums(e, one if weight is None else weight)
        np.exp(e, out=e)
        above = each[here] - 1
        each[here] = 0
        row_sums(e, one, out=others)
        above += others  # Σ exp(z − largest) − 1; the target's is 1 itself, or that of another is among the others
        np.add(above, 1, out=total)
        logs = log1p(above)
        loss += logs
        if weight is not None:
            loss *= weight[chosen[part]]
        if spread is not None:
            spread += logs * (classes if weight is None else weight.sum())
            loss *= 1 - label_smoothing
            loss += spread * (label_smoothing / classes)
        losses[part] = loss
    if ignored is not None:
        losses[ignored] = 0
    return losses, saved


def cross_entropy_backward(
    g: np.ndarray,
    logits: np.ndarray,
    target: np.ndarray,
    saved: Rows,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """dz_c = dℓ·((1 − s)·w_t·(p_c − [c = t]) + s/V·(p_c·Σw − w_c)) with p the softmax of the row; 0 in ignored rows.

    g = dℓ [N], the gradient of each row's loss; the other arguments as for `cross_entropy`, with what it saved.
    Result [N, V].
    """
    z = packed(logits)
    count, classes = z.shape
    dz = empty((count, classes), z.dtype)
    chosen, ignored = _chosen(target, ignore_index)
    at_target = g.copy() if ignored is None else np.where(ignored, 0, g)
    at_all = at_target * (label_smoothing / max(1, classes))
    at_target *= 1 - label_smoothing
    if weight is not None:
        at_target *= weight[chosen]
    spread = at_all * (classes if weight is None else weight.sum())
    per_total = at_target + spread
    per_total /= saved.total
    spread /= saved.total
    own = at_target * saved.others  # 1 − p_t = Σ of the others / total
    own /= -saved.total
    parts, starts = _parts(count, classes)
    for part in parts:
        d, rows = dz[part], z[part]
        np.subtract(rows, saved.largest[part, None], out=d)
        np.exp(d, out=d)
        here, each = starts[: len(d)] + chosen[part], d.reshape(-1)
        at_it = own[part]
        if label_smoothing:
            at_it = at_it + each[here] * spread[part]
        d *= per_total[part, None]
        each[here] = at_it
        if label_smoothing:
            d -= at_all[part, None] if weight is None else at_all[part, None] * weight
    if ignored is not None:
        dz[ignored] = 0
    return dz


def _chosen(target: np.ndarray, ignore_index: int) -> tuple[np.ndarray, np.ndarray | None]:
    """The targets, 0 where they are ignored, and where that is; None where none is."""
    ignored = target == ignore_index
    return (np.where(ignored, 0, target), ignored) if np.count_nonzero(ignored) else (target, None)


def _parts(count: int, classes: int) -> tuple[list[slice], np.ndarray]:
    """Slices of rows to work on together, and where each row begins in such a slice, laid flat: one index to an element
    is read twice as fast as two."""
    parts = row_slices(count, classes) if classes else []
    rows = parts[0].stop if parts else 0
    return parts, np.arange(0, rows * classes, max(1, classes))
