"""Which numbers of a value are worth drawing: what a mask hides, attention weights, short lists of integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_edu.backend import to_device
from tinygrad_edu.graph.record import Shown

MOST = 8  # rows and columns of a grid; larger ones are thinned out evenly
_HIDDEN = -1e9  # scores from here down count as hidden: −∞, or what people write in its place
_LARGEST = 1 << 22  # elements that are looked at


def shown(array: Any, made: bool) -> Shown | None:
    """What to keep of an array: of one that an op made, hidden scores or weights; of a leaf, integers and booleans."""
    if array.size == 0 or array.size > _LARGEST:
        return None
    if not made:
        if array.dtype.kind in "iub" and array.ndim in (1, 2) and array.size <= MOST * MOST:
            numbers = np.atleast_2d(to_device(array, "cpu"))
            return _grid("numbers", numbers.astype(float), 0, True, "")
        return None
    if array.dtype.kind != "f" or array.ndim < 2 or array.shape[-1] < 2:
        return None
    values = to_device(array, "cpu")
    hidden = values <= _HIDDEN
    if hidden.any():
        slices = hidden.reshape(-1, *hidden.shape[-2:])
        alike = bool((slices == slices[0]).all())
        return _grid("hidden", slices[0].astype(float), int(slices[0].sum()), alike, _pattern(~slices[0]))
    if values.min() >= 0 and values.max() <= 1 + 1e-6:
        sums = values.sum(axis=-1, dtype=np.float64)
        if (np.minimum(np.abs(sums - 1), np.abs(sums)) < 1e-4).all() and sums.any():
            slices = values.reshape(-1, *values.shape[-2:])
            return _grid("weights", slices[0].astype(float), 0, len(slices) == 1, "")
    return None


def cut(before: Any, after: Any) -> Shown | None:
    """Which weights became 0, where an op left all the others as they were."""
    if before.shape != after.shape or before.size > _LARGEST:
        return None
    old, new = to_device(before, "cpu"), to_device(after, "cpu")
    gone = (new == 0) & (old != 0)
    if not gone.any() or not np.array_equal(np.where(gone, 0, old), new):
        return None
    slices = gone.reshape(-1, *gone.shape[-2:])
    alike = bool((slices == slices[0]).all())
    return _grid("cut", slices[0].astype(float), int(slices[0].sum()), alike, _pattern(~slices[0]))


def _grid(what: str, numbers: np.ndarray, marked: int, alike: bool, pattern: str) -> Shown:
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
    )


def _some(n: int) -> list[int]:
    """At most MOST numbers below n, spread evenly from the first to the last."""
    return list(range(n)) if n <= MOST else [round(i * (n - 1) / (MOST - 1)) for i in range(MOST)]


def _pattern(visible: np.ndarray) -> str:
    queries, keys = visible.shape
    behind = keys - queries
    if (visible == np.tri(queries, keys, behind, dtype=bool)).all():
        return "causal: k ≤ q" + (f" + {behind}" if behind > 0 else f" − {-behind}" if behind < 0 else "")
    if (visible == visible[0]).all():
        return "padding: the same keys for every query"
    return ""
