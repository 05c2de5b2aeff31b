"""A batch cut along its samples, whatever kind of tuple it is."""

from itertools import pairwise
from typing import Any


def samples(batch: Any, who: str) -> int:
    """How many samples a batch has: a tuple of arrays, Tensors or lists, all with as many along axis 0.

    who: the function that is to be named in errors. Raises TypeError for a batch that is no tuple, ValueError for parts
    of different lengths or without samples.

    >>> samples(([1, 2, 3], ["a", "b", "c"], 0.5), "f")
    3
    """
    if not isinstance(batch, tuple):
        raise TypeError(f"{who}: the batch is a {type(batch).__name__}; give a tuple such as (ids, labels)")
    lengths = [len(part) for part in batch if _has_samples(part)]
    if not lengths or min(lengths) == 0:
        raise ValueError(f"{who}: the batch has no samples; give arrays with one or more rows on axis 0")
    if min(lengths) != max(lengths):
        raise ValueError(
            f"{who}: the parts of the batch have {lengths} samples on axis 0; give the same number in each"
        )
    return lengths[0]


def cut(batch: Any, start: int, stop: int) -> Any:
    """Samples start..stop of a batch, as a tuple of the batch's kind; numbers and None in it stay as they are.

    >>> cut(([1, 2, 3], ["a", "b", "c"], 0.5), 0, 2)
    ([1, 2], ['a', 'b'], 0.5)
    """
    parts = [piece[start:stop] if _has_samples(piece) else piece for piece in batch]
    return type(batch)(*parts) if hasattr(batch, "_fields") else tuple(parts)


def divided(batch: Any, count: int, who: str) -> list[Any]:
    """The batch in `count` parts of as equal size as can be, fewer where there are fewer samples. Raises as `samples`.

    >>> divided(([1, 2, 3, 4, 5],), 2, "f")
    [([1, 2],), ([3, 4, 5],)]
    """
    if count == 1:
        return [batch]
    rows = samples(batch, who)
    count = min(count, rows)
    edges = [rows * i // count for i in range(count + 1)]
    return [cut(batch, start, stop) for start, stop in pairwise(edges)]


def _has_samples(part: Any) -> bool:
    return bool(part.shape) if hasattr(part, "shape") else isinstance(part, list | tuple)
