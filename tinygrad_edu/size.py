"""The shape of a tensor as a type of its own: a tuple that is known for lengths, where any other tuple is data."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any, SupportsIndex

import numpy as np


class Size(tuple[int, ...]):
    """The lengths of a tensor's axes: a tuple of integers that also knows their product.

    Slices, sums and repetitions of it are again lengths. `Tensor(x.shape)` makes a tensor of that shape, while
    `Tensor((2, 3))` holds the two numbers.

    Raises TypeError for anything but integers.

    >>> Size([2, 3]), Size([2, 3]).numel(), type(Size([2, 3])[1:]).__name__
    ((2, 3), 6, 'Size')
    """

    __slots__ = ()

    def __new__(cls, lengths: Iterable[Any] = ()) -> Size:
        given = tuple(lengths)
        try:
            return tuple.__new__(cls, [operator.index(n) for n in given])
        except TypeError:
            raise TypeError(f"Size: lengths are integers, got {given}") from None

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return math.prod(self)

    def __getitem__(self, key: Any) -> Any:
        part = tuple.__getitem__(self, key)
        return tuple.__new__(Size, part) if type(key) is slice else part

    def __add__(self, other: Any) -> Any:
        return Size((*self, *other)) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return Size((*other, *self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: SupportsIndex) -> Size:
        return tuple.__new__(Size, tuple.__mul__(self, times))

    __rmul__ = __mul__


def asked_for(given: tuple[Any, ...]) -> tuple[int, ...] | None:
    """The lengths that PyTorch's old constructors are given: a Size, or integers one by one. None for data.

    Integers are Python's, NumPy's scalars and, among several, tensors of one integer. Raises TypeError for several
    arguments that are not all integers.

    >>> asked_for((2, 3)), asked_for((Size([2]),)), asked_for(((2, 3),)), asked_for((0.5,))
    ((2, 3), (2,), None, None)
    """
    if len(given) == 1:
        (one,) = given
        if type(one) is Size:
            return tuple(one)
        return (int(one),) if type(one) is int or isinstance(one, np.integer) else None
    try:
        return tuple(operator.index(n) for n in given)
    except TypeError:
        raise TypeError(
            f"Tensor: several arguments are lengths, got {given}; data is one sequence, and options go by name; for a "
            f"tensor of a shape use zeros(...) or empty(...)"
        ) from None
