"""Dtypes: the ones that tensors have, the default, what each holds, and numbers brought to one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

float16, float32, float64 = np.dtype("float16"), np.dtype("float32"), np.dtype("float64")

int8, int16, int32, int64 = np.dtype("int8"), np.dtype("int16"), np.dtype("int32"), np.dtype("int64")

uint8, bool_ = np.dtype("uint8"), np.dtype("bool")

DEFAULT: dict[str, np.dtype] = {"f": float32, "i": int64, "u": int64, "b": bool_}


def default_dtype() -> np.dtype:
    """The dtype of floating values that come without one, float32 unless `set_default_dtype` said otherwise."""
    return DEFAULT["f"]


def set_default_dtype(dtype: Any) -> None:
    """Make `dtype` that of floating values that come without one: Python's floats, zeros(...), randn(...), layers.

    It holds for all threads. Raises TypeError for a dtype that is not floating.
    """
    found = dtype_of(dtype)
    if found.kind != "f":
        raise TypeError(f"set_default_dtype: needs a floating dtype, got {found}; use float32 or float64")
    DEFAULT["f"] = found


def dtype_of(dtype: Any) -> np.dtype:
    """A dtype from a dtype, its name, or Python's float, int or bool, which mean float32, int64 and bool.

    >>> dtype_of(float), dtype_of("float64")
    (dtype('float32'), dtype('float64'))
    """
    if dtype is float:
        return float32
    try:
        found = np.dtype(dtype)
    except TypeError:
        raise TypeError(f"dtype {dtype!r} is unknown; use one of float32, float64, int64, bool") from None
    if found.kind not in DEFAULT:
        raise TypeError(f"dtype {found} holds no numbers; tensors hold floating, integer or boolean values")
    return native(found)


def native(dtype: np.dtype) -> np.dtype:
    """A dtype in the byte order of this machine, the only one that tensors have.

    >>> native(np.dtype(">f4")) == float32
    True
    """
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def bounds_of(dtype: np.dtype) -> tuple[float, float]:
    """The smallest and the largest number that a dtype holds.

    >>> bounds_of(uint8), bounds_of(bool_)
    ((0, 255), (0, 1))
    """
    if dtype.kind == "b":
        return 0, 1
    limits: Any = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    return (
        limits.min.item() if dtype.kind == "f" else limits.min,
        limits.max.item() if dtype.kind == "f" else limits.max,
    )


def check_range(dtype: np.dtype, low: float, high: float, what: str) -> None:
    """Raise a ValueError where a dtype does not hold all from `low` up to `high`; never True for NaN."""
    least, most = bounds_of(dtype)
    if not least <= low <= high <= most:
        raise ValueError(f"{what}: {dtype} holds numbers from {least} to {most}, asked for were {low} to {high}")


_SMALL = 65504.0  # which every floating dtype holds


def number_for(value: Any, dtype: np.dtype, what: str) -> Any:
    """A number as an element of an array of `dtype`: to integers without its digits after the point, as in PyTorch.

    A negative number counts from the end for unsigned ones. Raises ValueError for one that no integer of the dtype is,
    and for a finite one beyond a floating dtype, which would become infinite unseen; inf itself is one of its numbers.

    >>> number_for(2.7, int64, "fill_"), number_for(-1, uint8, "fill_")
    (2, 255)
    """
    if dtype.kind == "b" or not isinstance(value, int | float | np.number):
        return value
    if dtype.kind == "f":
        if not -_SMALL <= value <= _SMALL and value == value and abs(value) != math.inf:
            least, most = bounds_of(dtype)
            if not least <= value <= most:
                raise ValueError(
                    f"{what}: {value} is beyond {dtype}, which ends at {most}; use float('inf') for infinity"
                )
        return value
    value = value.item() if isinstance(value, np.generic) else value
    least, most = bounds_of(dtype)
    if not (-most if dtype.kind == "u" else least) <= value <= most:
        raise ValueError(f"{what}: {value} is none of the numbers of {dtype}, {least} to {most}; use another dtype")
    return int(value) % (int(most) + 1) if dtype.kind == "u" else int(value)


CATEGORY = {"b": 0, "u": 1, "i": 1, "f": 2}


def can_hold(dtype: np.dtype, found: np.dtype) -> bool:
    """Whether results of dtype `found` can be written to a tensor of `dtype`, by PyTorch's rule: their kind must not be
    higher, in the order boolean, integer, floating. Sizes do not matter.

    >>> can_hold(uint8, int64), can_hold(float16, int64), can_hold(int64, float16), can_hold(bool_, int8)
    (True, True, False, False)
    """
    return CATEGORY[found.kind] <= CATEGORY[dtype.kind]
