"""Arguments of the functions turned into tensors, with errors that name them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tinygrad_edu.arrays import dtypes
from tinygrad_edu.arrays.sums import counting
from tinygrad_edu.engine.tape import Variable
from tinygrad_edu.methods.common import of_floats, operand
from tinygrad_edu.options import number
from tinygrad_edu.tensor import tensor


def tensor_of(x: Any, what: str) -> Any:
    if isinstance(x, Variable):
        return x
    if x is None:
        raise TypeError(f"{what} is None; give a Tensor")
    return tensor(x)


def beside(x: Any, like: Variable, what: str) -> Any:
    """A tensor as it is, anything else as a tensor on the device of `like`."""
    if x is None:
        raise TypeError(f"{what} is None; give a Tensor")
    return operand(x, like)


def floating_of(x: Any, what: str) -> Any:
    return of_floats(tensor_of(x, what), what)


def number_beside(value: Any, x: Variable, what: str, low: float = -math.inf, **limits: Any) -> float:
    """A number to compute with next to `x`, one of float32's where that is float16, which is computed so; the limits
    are those of `options.number`, but NaN is taken unless nan=False."""
    checked = number(value, what, low, **{"nan": True} | limits)
    return dtypes.number_for(checked, counting(x.array.dtype), what)


def in_place(function: Callable[..., Any], input: Any, *args: Any) -> Any:
    """x ← function(x, *args) in the memory of the input x; what backward needs is kept of a copy."""
    if not isinstance(input, Variable):
        raise TypeError(f"{function.__name__}: inplace=True changes a Tensor, not a {type(input).__name__}")
    x: Any = input
    return x.copy_(function(x.clone() if x.requires_grad else x, *args))
