"""What x[...] means to PyTorch where it means something else to NumPy."""

from __future__ import annotations

from typing import Any

from tinygrad_edu.arrays import dtypes, library
from tinygrad_edu.engine.tape import Variable

Key = tuple[Any, ...]


def numbers_first(key: Any) -> tuple[Key, Key] | None:
    """The two keys that x[key] is taken by, one after the other, where it mixes numbers with arrays; else None.

    A number takes its axis away, and only then do arrays pick: x[0, :, ids] is x[0][:, ids]. To NumPy the number is one
    more array, which stands apart from the other, so that the picked axis would come first.

    Raises IndexError for arrays of uint8: PyTorch takes them for masks, NumPy for numbers of elements.

    >>> numbers_first((0, slice(1, 3), [4, 5]))
    ((0, slice(1, 3, None), slice(None, None, None)), (slice(None, None, None), [4, 5]))
    """
    if not isinstance(key, tuple):
        _check(key)
        return None
    arrays = [_axes(part) for part in key]
    if not any(arrays):
        return None
    for part in key:
        _check(part)
    numbers = [not n and _is_number(part) for part, n in zip(key, arrays, strict=True)]
    if not any(numbers):
        return None
    first: list[Any] = []
    then: list[Any] = []
    for part, n, number in zip(key, arrays, numbers, strict=True):
        if n:
            first += [slice(None)] * n
        elif part is not None:
            first.append(part)
        if not number:
            then.append(slice(None) if isinstance(part, slice) else part)
    return tuple(first), tuple(then)


def _axes(part: Any) -> int:
    """How many axes an array in a key picks from; 0 for what is no array, or one of a single number."""
    if isinstance(part, list | range):
        return 1
    if not isinstance(part, Variable) and not library.is_array(part):
        return 0
    return part.ndim if part.dtype.kind == "b" else min(part.ndim, 1)


def _is_number(part: Any) -> bool:
    return hasattr(part, "__index__") and not isinstance(part, bool)


def _check(part: Any) -> None:
    if (isinstance(part, Variable) or library.is_array(part)) and part.dtype == dtypes.uint8 and part.ndim:
        raise IndexError("index: an array of uint8 could be a mask or numbers; say which with .bool() or .long()")
