"""Options of functions, layers and optimizers, checked: each error names the option, what came and what may come."""

from __future__ import annotations

import math
import operator
from typing import Any

_INF = math.inf


def number(
    value: Any, what: str, low: float = -_INF, high: float = _INF, *, above: float | None = None, nan: bool = False
) -> float:
    """`value` as a float, from `low` to `high`, and larger than `above` where that is given.

    Takes Python's and NumPy's numbers and tensors of one element that need no gradient (which would be lost). NaN is
    refused unless `nan`. Raises TypeError for anything else, ValueError outside the range.

    >>> number(2, "gain", low=0)
    2.0
    """
    if type(value) is not float:
        value = _plain(value, what)
    if value != value:
        if not nan:
            raise ValueError(f"{what} must be {_range(low, high, above)}, got nan")
    elif not low <= value <= high or (above is not None and not value > above):
        raise ValueError(f"{what} must be {_range(low, high, above)}, got {value:g}")
    return value


def probability(value: Any, what: str) -> float:
    """`value` as a float from 0 to 1."""
    if type(value) is float and 0.0 <= value <= 1.0:
        return value
    return number(value, f"{what} is a probability and", 0.0, 1.0)


def integer(value: Any, what: str, low: float = -_INF, high: float = _INF) -> int:
    """`value` as an int from `low` to `high`; True and False are none.

    >>> integer(3, "groups", low=1)
    3
    """
    if type(value) is not int:
        if isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "i") not in "iu":
            raise TypeError(f"{what} must be an integer, got {_shown(value)}")
        try:
            value = operator.index(value.item() if hasattr(value, "item") else value)
        except (TypeError, ValueError):
            raise TypeError(f"{what} must be an integer, got {_shown(value)}") from None
    if not low <= value <= high:
        raise ValueError(f"{what} must be {_range(low, high, None)}, got {value}")
    return value


def flag(value: Any, what: str) -> bool:
    """`value`, which must be True or False: "False" and [0] would count as true, None and 0.0 as false.

    >>> flag("False", "batch_first")
    Traceback (most recent call last):
    TypeError: batch_first must be True or False, got 'False'
    """
    if value is True or value is False:
        return value
    if type(value).__name__ in ("bool", "bool_") and hasattr(value, "item"):  # NumPy's
        return bool(value)
    raise TypeError(f"{what} must be True or False, got {_shown(value)}")


def lengths(value: Any, axes: int, what: str, low: float = -_INF) -> tuple[int, ...]:
    """An integer for each of `axes` axes, from one for all or a sequence of one each, none below `low`.

    >>> lengths(3, 2, "kernel_size", low=1), lengths((3, 5), 2, "kernel_size", low=1)
    ((3, 3), (3, 5))
    """
    given = list(value) if isinstance(value, tuple | list) else [value]
    if len(given) not in (1, axes):
        raise ValueError(f"{what} must be an integer or {axes} of them, got {_shown(value)}")
    found = tuple(integer(n, what, low) for n in given)
    return found * axes if len(found) == 1 else found


def axes_lengths(value: Any, what: str) -> tuple[int, ...]:
    """Lengths of so many axes as are given, an integer for one.

    >>> axes_lengths(3, "normalized_shape")
    (3,)
    """
    given = value if isinstance(value, tuple | list) else (value,)
    return tuple([n if type(n) is int else integer(n, what) for n in given])


def _plain(value: Any, what: str) -> float:
    if getattr(value, "requires_grad", False):
        raise TypeError(f"{what} is a number that gets no gradient; give value.item() or value.detach()")
    if hasattr(value, "item"):
        try:
            value = value.item()
        except (TypeError, ValueError):
            raise TypeError(f"{what} must be a number, got {_shown(value)}") from None
    if not isinstance(value, int | float):
        raise TypeError(f"{what} must be a number, got {_shown(value)}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{what} must be a number that a float can hold") from None


def _shown(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return repr(value) if shape is None or shape == () else f"a {type(value).__name__} of shape {tuple(shape)}"


def _range(low: float, high: float, above: float | None) -> str:
    if above is not None:
        return f"a number above {above:g}" + (f" and at most {high:g}" if high < _INF else "")
    if low > -_INF and high < _INF:
        return f"from {low:g} to {high:g}"
    if low > -_INF:
        return f"at least {low:g}"
    return f"at most {high:g}" if high < _INF else "a number"
