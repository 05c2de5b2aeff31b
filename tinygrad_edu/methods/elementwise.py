"""Methods that treat every element by itself: operators, comparisons, choices."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from tinygrad_edu.arrays import dtypes, library, promotion
from tinygrad_edu.engine.tape import Variable
from tinygrad_edu.methods.common import (
    binary,
    check_division,
    mask_of,
    no_booleans,
    operand,
    scaled,
)
from tinygrad_edu.methods.products import matmul
from tinygrad_edu.ops import angle, arithmetic, bits, choice

if TYPE_CHECKING:
    from tinygrad_edu.tensor import Tensor


class Elementwise(Variable, result=False):
    """Operators of Tensor that work element by element; operands broadcast and promote as in PyTorch."""

    __slots__ = ()

    # Operators

    def __add__(self, other: Any) -> Tensor:
        return binary(arithmetic.Add, self, other)

    def __radd__(self, other: Any) -> Tensor:
        return binary(arithmetic.Add, other, self)

    def __sub__(self, other: Any) -> Tensor:
        no_booleans("-", self, other)
        return binary(arithmetic.Sub, self, other)

    def __rsub__(self, other: Any) -> Tensor:
        no_booleans("-", self, other)
        return binary(arithmetic.Sub, other, self)

    def __mul__(self, other: Any) -> Tensor:
        return binary(arithmetic.Mul, self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return binary(arithmetic.Mul, other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return binary(arithmetic.Div, self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return binary(arithmetic.Div, other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        check_division("//", self, other)
        return binary(arithmetic.FloorDivide, self, other)

    def __mod__(self, other: Any) -> Tensor:
        check_division("%", self, other)
        return binary(arithmetic.Remainder, self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        check_division("//", other, self)
        return binary(arithmetic.FloorDivide, other, self)

    def __rmod__(self, other: Any) -> Tensor:
        check_division("%", other, self)
        return binary(arithmetic.Remainder, other, self)

    def __pow__(self, exponent: Any) -> Tensor:
        if isinstance(exponent, Variable | list | tuple) or library.is_array(exponent):
            if self.array.dtype.kind == getattr(exponent, "dtype", dtypes.float32).kind == "b":
                raise TypeError("**: booleans to the power of booleans are no numbers; convert one side with .long()")
            return binary(arithmetic.Pow, self, exponent)
        exponent = exponent.item() if hasattr(exponent, "item") else exponent
        if not isinstance(exponent, int | float):
            return NotImplemented
        x: Any = self
        if self.array.dtype.kind != "f":
            if self.array.dtype.kind == "b" and isinstance(exponent, bool):
                return self | (not exponent)
            if isinstance(exponent, float):
                x = choice.Cast(self, dtype=dtypes.default_dtype())
            elif self.array.dtype.kind == "b" and not isinstance(exponent, bool):
                x = choice.Cast(self, dtype=dtypes.int64)
            if exponent < 0 and isinstance(exponent, int):
                raise ValueError(f"**: integers to the power {exponent} are no integers; use x.float() ** {exponent}")
        return arithmetic.PowNumber(x, exponent=exponent)

    def __rpow__(self, base: Any) -> Tensor:
        return binary(arithmetic.Pow, base, self)

    def __neg__(self) -> Tensor:
        no_booleans("-", self)
        return arithmetic.Neg(self)

    def __pos__(self) -> Tensor:
        return self  # type: ignore[return-value]

    def __abs__(self) -> Tensor:
        return arithmetic.Abs(self)

    def __matmul__(self, other: Any) -> Tensor:
        return matmul(self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return matmul(other, self)

    # Comparison and logic: boolean tensors without gradient

    def __eq__(self, other: Any) -> Any:
        return NotImplemented if other is None or isinstance(other, str) else binary(choice.Equal, self, other)

    def __ne__(self, other: Any) -> Any:
        return NotImplemented if other is None or isinstance(other, str) else binary(choice.NotEqual, self, other)

    def __lt__(self, other: Any) -> Tensor:
        return binary(choice.Less, self, other)

    def __le__(self, other: Any) -> Tensor:
        return binary(choice.LessEqual, self, other)

    def __gt__(self, other: Any) -> Tensor:
        return binary(choice.Less, other, self)

    def __ge__(self, other: Any) -> Tensor:
        return binary(choice.LessEqual, other, self)

    __hash__ = object.__hash__  # a tensor is itself, whatever its values

    def __invert__(self) -> Tensor:
        if self.array.dtype.kind == "f":
            raise TypeError(f"~: only booleans and integers have bits to turn, this tensor is {self.array.dtype}")
        return choice.LogicalNot(self) if self.array.dtype.kind == "b" else bits.BitwiseNot(self)

    def __and__(self, other: Any) -> Tensor:
        return self._bitwise(choice.LogicalAnd, bits.BitwiseAnd, other, "&")

    def __or__(self, other: Any) -> Tensor:
        return self._bitwise(choice.LogicalOr, bits.BitwiseOr, other, "|")

    def __xor__(self, other: Any) -> Tensor:
        return self._bitwise(choice.NotEqual, bits.BitwiseXor, other, "^")

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __lshift__(self, other: Any) -> Tensor:
        return self._bitwise(bits.LeftShift, bits.LeftShift, other, "<<")

    def __rshift__(self, other: Any) -> Tensor:
        return self._bitwise(bits.RightShift, bits.RightShift, other, ">>")

    def __rlshift__(self, other: Any) -> Tensor:
        return operand(other, self) << self

    def __rrshift__(self, other: Any) -> Tensor:
        return operand(other, self) >> self

    def _bitwise(self, of_booleans: Any, of_integers: Any, other: Any, what: str) -> Tensor:
        given = operand(other, self)
        kinds = self.array.dtype.kind + given.array.dtype.kind
        if "f" in kinds:
            raise TypeError(
                f"{what}: both sides must be boolean or integer, got {self.array.dtype} and {given.array.dtype}"
            )
        number = type(other) is int  # takes this tensor's dtype, as it is no Tensor
        return binary(of_booleans if kinds == "bb" else of_integers, self, other if number else given)

    # The same by name

    def add(self, other: Any, alpha: float = 1) -> Tensor:
        """x + alpha · other; `alpha` is an integer where both are."""
        return self + scaled(self, other, alpha, "add")

    def sub(self, other: Any, alpha: float = 1) -> Tensor:
        """x − alpha · other; `alpha` is an integer where both are."""
        return self - scaled(self, other, alpha, "sub")

    def mul(self, other: Any) -> Tensor:
        """x ⊙ other."""
        return self * other

    def div(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """x / other; with `rounding_mode` "trunc" without the digits after the point, with "floor" rounded down.

        Both cut the exact quotient, so that they agree with `fmod` and `remainder`. PyTorch's "trunc" cuts the rounded
        one: in float32 it gives 10 for 1 / 0.1, where "floor" gives 9 there and both do here.
        """
        if rounding_mode not in (None, "trunc", "floor"):
            raise ValueError(f"div: rounding_mode is None, 'trunc' or 'floor', not {rounding_mode!r}")
        if rounding_mode == "floor":
            return self // other
        if rounding_mode is None:
            return self / other
        check_division("div", self, other)
        return binary(arithmetic.TruncDivide, self, other)

    def floor_divide(self, other: Any) -> Tensor:
        """The largest integer not above x / other."""
        return self // other

    def remainder(self, other: Any) -> Tensor:
        """x − other · ⌊x / other⌋, with the sign of other."""
        return self % other

    def fmod(self, other: Any) -> Tensor:
        """x − other · trunc(x / other), with the sign of x."""
        check_division("fmod", self, other)
        return binary(arithmetic.Fmod, self, other)

    def hypot(self, other: Any) -> Tensor:
        """√(x² + other²), without overflow; the gradient at (0, 0) is 0."""
        return binary(angle.Hypot, self, other)

    def atan2(self, other: Any) -> Tensor:
        """The angle of the point (other, x), from −π to π."""
        return binary(angle.Atan2, self, other)

    def pow(self, exponent: Any) -> Tensor:
        """x^exponent, a number or a tensor."""
        return self**exponent

    def neg(self) -> Tensor:
        """−x."""
        return -self

    def eq(self, other: Any) -> Tensor:
        """Whether x = other."""
        return binary(choice.Equal, self, other)

    def ne(self, other: Any) -> Tensor:
        """Whether x ≠ other."""
        return binary(choice.NotEqual, self, other)

    def lt(self, other: Any) -> Tensor:
        """Whether x < other."""
        return self < other

    def le(self, other: Any) -> Tensor:
        """Whether x ≤ other."""
        return self <= other

    def gt(self, other: Any) -> Tensor:
        """Whether x > other."""
        return self > other

    def ge(self, other: Any) -> Tensor:
        """Whether x ≥ other."""
        return self >= other

    def logical_not(self) -> Tensor:
        """Whether x is 0."""
        return choice.LogicalNot(self)

    def logical_and(self, other: Any) -> Tensor:
        """Whether neither is 0."""
        return binary(choice.LogicalAnd, self, operand(other, self))

    def logical_or(self, other: Any) -> Tensor:
        """Whether not both are 0."""
        return binary(choice.LogicalOr, self, operand(other, self))

    def isnan(self) -> Tensor:
        """Whether x is no number."""
        return choice.NotEqual(self, self)

    def isinf(self) -> Tensor:
        """Whether x is ∞ or −∞."""
        return choice.Equal(arithmetic.Abs(self), float("inf"))

    def isfinite(self) -> Tensor:
        """Whether x is neither infinite nor NaN."""
        return choice.Less(arithmetic.Abs(self), float("inf"))

    # Between two

    def clamp(self, min: Any = None, max: Any = None) -> Tensor:
        """x, but not below `min` and not above `max`; at a bound the gradient passes, unlike that of relu at 0.

        Bounds are numbers, or tensors that broadcast; a bound gets the gradient where it takes the place of x.
        """
        if min is None and max is None:
            raise ValueError("clamp: give min, max or both")
        if isinstance(min, Variable) or isinstance(max, Variable):
            return _between(self, min, max)
        if self.array.dtype.kind == "f":
            min, max = (dtypes.number_for(bound, self.array.dtype, "clamp") for bound in (min, max))
            return arithmetic.Clamp(self, low=min, high=max)
        bounds = [bound for bound in (min, max) if bound is not None]
        of_tensors = [True, *(False for _ in bounds)]
        array, *bounds = promotion.promoted([self.array, *bounds], of_tensors, "fit")
        low, high = (None if bound is None else bounds.pop(0).item() for bound in (min, max))
        return arithmetic.Clamp(choice.Cast(self, dtype=array.dtype), low=low, high=high)

    clip = clamp

    def maximum(self, other: Any) -> Tensor:
        """The larger of both; equal ones share the gradient in halves."""
        return binary(arithmetic.Maximum, self, other)

    def minimum(self, other: Any) -> Tensor:
        """The smaller of both; equal ones share the gradient in halves."""
        return binary(arithmetic.Minimum, self, other)

    def fmax(self, other: Any) -> Tensor:
        """The larger of both, or the one that is a number; where they are equal the gradient is that of x."""
        y = operand(other, self)
        return choice.Where(binary(choice.LessEqual, y, self) | y.isnan(), self, y)

    def fmin(self, other: Any) -> Tensor:
        """The smaller of both, or the one that is a number; where they are equal the gradient is that of x."""
        y = operand(other, self)
        return choice.Where(binary(choice.LessEqual, self, y) | y.isnan(), self, y)

    def xlogy(self, other: Any) -> Tensor:
        """x ln other; 0 where x is 0, whatever the other is, unless that is NaN."""
        return binary(arithmetic.Xlogy, self, other)

    def isposinf(self) -> Tensor:
        """Whether x is ∞."""
        return choice.Equal(self, float("inf"))

    def isneginf(self) -> Tensor:
        """Whether x is −∞."""
        return choice.Equal(self, float("-inf"))

    def positive(self) -> Tensor:
        """x itself."""
        return +self

    def where(self, condition: Any, other: Any) -> Tensor:
        """x where the boolean `condition` is true, else `other`."""
        return choice.Where(operand(condition, self), self, other)

    def masked_fill(self, mask: Any, value: Any) -> Tensor:
        """`value` where the boolean `mask` is true, else the element; both broadcast."""
        mask = mask_of(mask, self, "masked_fill")
        if isinstance(value, Variable):
            if value.array.ndim:
                raise ValueError(
                    f"masked_fill: value is a number or a tensor of no axes, got shape {value.array.shape}; where("
                    f"mask, values, x) takes others"
                )
            same = value.array.dtype == self.array.dtype
            return choice.Where(mask, value if same else choice.Cast(value, dtype=self.array.dtype), self)
        value = dtypes.number_for(value, self.array.dtype, "masked_fill")
        fill: Any = functools.partial(choice.MaskedFill, value=value)
        fill.name = "masked_fill"
        return binary(fill, self, mask)


def _between(x: Any, low: Any, high: Any) -> Any:
    """`clamp` to bounds that are tensors. As in PyTorch a bound has a gradient only where it lies strictly on the other
    side of x, and `low` only where it is below `high`; what is NaN, a bound too, passes it on to none but `high`."""
    found = x
    if low is not None:
        found = binary(arithmetic.Maximum, found, low)
    if high is not None:
        found = binary(arithmetic.Minimum, found, high)
    found = found.detach()
    number = choice.Equal(found, found)
    above = (x >= low) if low is not None else (x == x)
    below = (x <= high) if high is not None else (x == x)
    found = choice.Where(above & below, x, found)
    if low is not None:
        under = number & (x < low)
        found = choice.Where(under & (low < high) if high is not None else under, low, found)
    if high is not None:
        over = (x > high) | (low > high) if low is not None else x > high
        if isinstance(high, Variable) and high.array.dtype.kind == "f":
            high = choice.Where(number, high, arithmetic.Add(high, float("nan")))
            found = choice.Where(over, high, found)
        else:
            found = choice.Where(number & over, high, found)
    return found
