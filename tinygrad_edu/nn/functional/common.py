"""Arguments of the functions turned into tensors, with errors that name them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinygrad_edu.methods.common import of_floats, operand
from tinygrad_edu.tape import Variable
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


def in_place(function: Callable[..., Any], input: Any, *args: Any) -> Any:
    """x ← function(x, *args) in the memory of the input x; what backward needs is kept of a copy."""
    if not isinstance(input, Variable):
        raise TypeError(f"{function.__name__}: inplace=True changes a Tensor, not a {type(input).__name__}")
    x: Any = input
    return x.copy_(function(x.clone() if x.requires_grad else x, *args))
