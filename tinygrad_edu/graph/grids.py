"""Which numbers of a value are worth drawing: what a mask hides, attention weights, short lists of integers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_edu.arrays.devices import to_device
from tinygrad_edu.graph.record import Shown

MOST = 8  # rows and columns of a grid; larger ones are thinned out evenly
_WRITTEN = -1e9  # from here down an element is what people write in place of −∞, whatever reads it
_LOWERED = 5.0  # a mask lowers a score by at least this much, and its weight to less than 1 % of what it was
_ROUNDED = 0.02  # of two amounts that are one slope but for rounding
LARGEST = 1 << 22  # elements that are looked at
Places = tuple[int, int]  # which axes of a value are the rows and the columns of its grid


@dataclass(slots=True)
class Look:
    """What an array that an op made holds: hidden scores ("hidden", True in `marks`), or weights that sum to 1 along
    `axis`, or weights of which an op made some 0 ("cut", True in `marks`)."""

    what: str
    marks: Any
    axis: int

    def grid(self, places: Places) -> Shown:
        """What to draw of it, with these axes as rows and columns."""
        slices = in_slices(self.marks, places)
        if self.what == "weights":
            return _grid("weights", slices[0].astype(float), places, 0, len(slices) == 1, "")
        alike = bool((slices == slices[0]).all())
        return _grid(self.what, slices[0].astype(float), places, int(slices[0].sum()), alike, _pattern(~slices))


@dataclass(slots=True)
class Scores:
    """What an op that makes weights of scores, exp or a softmax, reads.

    exps: exp(s − the largest along `axis`) in float64, or exp s where `axis` is None.
    """

    exps: np.ndarray
    axis: int | None

    def weights(self, places: Places) -> np.ndarray:
        """The weights [N, q, k] in float64; 0 in a row of −∞ alone."""
        exps = in_slices(self.exps, places)
        total = exps.sum(axis=-2 if self.axis == places[0] else -1, keepdims=True)
        return exps / np.where(total > 0, total, 1.0)


def in_slices(array: np.ndarray, places: Places) -> np.ndarray:
    """An array as [N, rows, columns], with these axes as rows and columns."""
    moved = np.moveaxis(array, places, (-2, -1))
    return moved.reshape(-1, *moved.shape[-2:])


def scores(array: Any, axis: int | None, base: float = math.e) -> Scores | None:
    """What a softmax along `axis`, or the power `base`^s, makes of an array; None where it is too much to look at."""
    if array.dtype.kind != "f" or array.ndim < 2 or not 0 < array.size <= LARGEST:
        return None
    values = to_device(array, "cpu").astype(np.float64)
    with np.errstate(all="ignore"):
        if axis is not None:
            top = values.max(axis=axis, keepdims=True)
            values -= np.where(np.isfinite(top), top, 0.0)
        return Scores(np.exp(values * math.log(base)), axis)


def masked(before: Any, after: Any) -> tuple[Any, Any]:
    """Where an op lowered scores as a mask does, if it left all the others as they were, and where it lowered them in
    proportion to the distance of query and key, as ALiBi does; None where it is no mask, or no such bias."""
    if before.shape != after.shape or before.ndim < 2 or not 0 < before.size <= LARGEST:
        return None, None
    old, new = to_device(before, "cpu"), to_device(after, "cpu")
    with np.errstate(all="ignore"):
        lowered = (new < old - _LOWERED) | (np.isneginf(old) & (new <= -_LOWERED))
        kept = new == old
        if kept.all() or not lowered.any():
            return None, None
        falls = _falls_off(old.astype(np.float64) - new)
    lowered, kept = lowered & ~falls, kept | falls
    is_mask = lowered.any() and kept.any() and (lowered | kept).all()
    return lowered if is_mask else None, falls if falls.any() else None


def _falls_off(amounts: np.ndarray) -> np.ndarray:
    """Where amounts [..., q, k] are a slope times |q − k|: the least slope on each side of the diagonal, if keys both 1
    and 2 away have it. What a mask lowers further is not among them."""
    queries, keys = amounts.shape[-2:]
    offset = np.arange(keys) - np.arange(queries)[:, None] - (keys - queries)
    distance, found = np.abs(offset), np.zeros(amounts.shape, bool)
    for side in (offset < 0, offset > 0):
        slopes = np.where(side & np.isfinite(amounts) & (amounts > 0), amounts / np.maximum(distance, 1), np.inf)
        least = slopes.min(axis=(-2, -1), keepdims=True)
        on = np.isfinite(slopes) & (slopes <= least * (1 + _ROUNDED))
        is_slope = [(on & (distance == d)).any(axis=(-2, -1), keepdims=True) for d in (1, 2)]
        found |= on & is_slope[0] & is_slope[1]
    return found


def hidden(marks: np.ndarray, weights: np.ndarray, places: Places, falls: Any = False) -> Shown | None:
    """What is hidden [N, q, k] of scores: what has the weight 0, and what a mask marked and has almost 0.

    falls: where a bias lowers scores with distance. A weight that is 0 for that alone is of a key that is far, not of
    one that is hidden.
    """
    gone = weights == 0
    almost = marks & ~gone
    far = gone & falls & ~marks
    slices = (gone | almost) & ~far
    if not slices.any() and not far.any():
        return None
    alike = bool((slices == slices[0]).all())
    numbers = np.where(almost[0] | far[0], 0.5, gone[0].astype(float))
    pattern = _pattern(~slices) if slices.any() else "full: every key"
    shown = _grid("hidden", numbers, places, int(slices[0].sum()), alike, pattern)
    shown.almost = int(almost[0].sum())
    shown.most = float(weights[almost].max(initial=0.0))
    shown.far = int(far.sum(axis=(1, 2)).max())
    return shown


def look(array: Any) -> Look | None:
    """What there is to see in an array that an op made, None where it is nothing, or too much."""
    if array.dtype.kind != "f" or array.ndim < 2 or not 0 < array.size <= LARGEST:
        return None
    values = to_device(array, "cpu")
    low = values <= np.float64(_WRITTEN)  # beyond the range of float16
    if low.any():
        return Look("hidden", low, array.ndim - 1)
    if not (values.min() >= 0 and values.max() <= 1 + 1e-6):
        return None
    rounding = max(1e-4, float(np.finfo(values.dtype).eps))  # float16 rounds each weight by up to half of it
    for axis in reversed(range(array.ndim)):
        if array.shape[axis] > 1:
            sums = values.sum(axis=axis, dtype=np.float64)
            if (np.minimum(np.abs(sums - 1), np.abs(sums)) < rounding).all() and sums.any():
                return Look("weights", values.copy(), axis)
    return None


def cut(before: Any, after: Any, axis: int) -> Look | None:
    """Which weights became 0, where an op left all the others as they were."""
    if before.shape != after.shape or before.size > LARGEST:
        return None
    old, new = to_device(before, "cpu"), to_device(after, "cpu")
    gone = (new == 0) & (old != 0)
    if not gone.any() or not np.array_equal(np.where(gone, 0, old), new):
        return None
    return Look("cut", gone, axis)


def beside(axis: int) -> Places:
    """The rows and the columns of a grid whose columns run along `axis`, where nothing tells what its rows are."""
    return (axis - 1 if axis else 1), axis


def integers(array: Any) -> Shown | None:
    """What to draw of a leaf: short lists and tables of integers and booleans."""
    if array.dtype.kind not in "iub" or array.ndim not in (1, 2) or not 0 < array.size <= MOST * MOST:
        return None
    return _grid("numbers", np.atleast_2d(to_device(array, "cpu")).astype(float), (0, 1), 0, True, "")


def _grid(what: str, numbers: np.ndarray, places: Places, marked: int, alike: bool, pattern: str) -> Shown:
    rows, columns = (_some(n) for n in numbers.shape)
    picked = numbers[np.ix_(rows, columns)]
    return Shown(
        what,
        [[round(float(x), 4) for x in row] for row in picked],
        rows,
        columns,
        (numbers.shape[0], numbers.shape[1]),
        marked,
        alike,
        pattern,
        places,
    )


def _some(n: int) -> list[int]:
    """At most MOST numbers below n, spread evenly from the first to the last."""
    return list(range(n)) if n <= MOST else [round(i * (n - 1) / (MOST - 1)) for i in range(MOST)]


def _pattern(visible: np.ndarray) -> str:
    """What all the slices of what is visible have in common, "" where there is no word for it."""
    queries, keys = visible.shape[1:]
    behind = keys - queries
    causal = np.tri(queries, keys, behind, dtype=bool)
    ends = f" + {behind}" if behind > 0 else f" − {-behind}" if behind < 0 else ""
    if (visible == causal).all():
        return f"causal: k ≤ q{ends}"
    if (visible == visible[:, :1]).all():
        return "padding: the same keys for every query"
    if (visible == (causal & visible[:, -1:])).all():
        return f"causal and padding: k ≤ q{ends}, the same keys for every query"
    if queries == keys and (visible == causal.T).all():
        return "transposed: k ≥ q"
    if queries == keys and _is_in_groups(visible, causal):
        return f"causal in documents: k ≤ q{ends}, keys of the query's own document"
    if queries == keys and _is_in_groups(visible, np.ones_like(causal)):
        return "documents: keys of the query's own document"
    return ""


def _is_in_groups(visible: np.ndarray, allowed: np.ndarray) -> bool:
    """Whether positions fall into groups, as documents in one row do, and see what is allowed of their own group."""
    if not visible.diagonal(axis1=1, axis2=2).all():
        return False
    first = (visible | visible.mT).argmax(-1)  # of each position's group
    return bool((visible == ((first[:, :, None] == first[:, None, :]) & allowed)).all())
