"""Methods that treat every element by itself: operators, comparisons, functions of one number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygrad_edu import backend
from tinygrad_edu.methods.common import binary, check_broadcast, operand
from tinygrad_edu.methods.products import matmul
from tinygrad_edu.ops import arithmetic, choice, curve
from tinygrad_edu.tape import Variable, wrap

if TYPE_CHECKING:
    from tinygrad_edu.tensor import Tensor


class Elementwise(Variable, result=False):
    """Operators and functions of Tensor that work element by element; operands broadcast and promote as in PyTorch."""

    __slots__ = ()

    # Operators

    def __add__(self, other: Any) -> Tensor:
        return binary(arithmetic.Add, self, other)

    def __radd__(self, other: Any) -> Tensor:
        return binary(arithmetic.Add, other, self)

    def __sub__(self, other: Any) -> Tensor:
        return binary(arithmetic.Sub, self, other)

    def __rsub__(self, other: Any) -> Tensor:
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
        return binary(arithmetic.FloorDivide, self, other)

    def __mod__(self, other: Any) -> Tensor:
        return binary(arithmetic.Remainder, self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return binary(arithmetic.FloorDivide, other, self)

    def __rmod__(self, other: Any) -> Tensor:
        return binary(arithmetic.Remainder, other, self)

    def __pow__(self, exponent: Any) -> Tensor:
        if isinstance(exponent, Variable | list | tuple) or backend.is_array(exponent):
            return binary(arithmetic.Pow, self, exponent)
        exponent = exponent.item() if hasattr(exponent, "item") else exponent
        if not isinstance(exponent, int | float):
            return NotImplemented
        x: Any = self
        if self.array.dtype.kind != "f" and (isinstance(exponent, float) or exponent < 0):
            x = choice.Cast(self, dtype=backend.default_dtype())
        return arithmetic.PowNumber(x, exponent=exponent)

    def __rpow__(self, base: Any) -> Tensor:
        return binary(arithmetic.Pow, base, self)

    def __neg__(self) -> Tensor:
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
        if self.array.dtype.kind != "b":
            raise TypeError(f"~: only boolean tensors are inverted, this one is {self.array.dtype}")
        return choice.LogicalNot(self)

    def __and__(self, other: Any) -> Tensor:
        return self._logic(choice.LogicalAnd, other, "&")

    def __or__(self, other: Any) -> Tensor:
        return self._logic(choice.LogicalOr, other, "|")

    def __xor__(self, other: Any) -> Tensor:
        return self._logic(choice.NotEqual, other, "^")

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def _logic(self, op: Any, other: Any, what: str) -> Tensor:
        other = operand(other, self)
        kinds = self.array.dtype.kind + other.array.dtype.kind
        if kinds == "bb":
            return binary(op, self, other)
        if "f" in kinds:
            raise TypeError(
                f"{what}: both sides must be boolean or integer, got {self.array.dtype} and {other.array.dtype}"
            )
        a, b = self.array, other.array
        return wrap(self.result, a & b if what == "&" else a | b if what == "|" else a ^ b)  # bit by bit

    # The same by name

    def add(self, other: Any, alpha: float = 1) -> Tensor:
        """x + alpha · other."""
        return self + (other if alpha == 1 else other * alpha)

    def sub(self, other: Any, alpha: float = 1) -> Tensor:
        """x − alpha · other."""
        return self - (other if alpha == 1 else other * alpha)

    def mul(self, other: Any) -> Tensor:
        """x ⊙ other."""
        return self * other

    def div(self, other: Any) -> Tensor:
        """x / other."""
        return self / other

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

    # Functions

    def exp(self) -> Tensor:
        """exp x."""
        return arithmetic.Exp(self)

    def expm1(self) -> Tensor:
        """exp x − 1, exact near 0."""
        return curve.Expm1(self)

    def log(self) -> Tensor:
        """The natural logarithm."""
        return arithmetic.Log(self)

    def log2(self) -> Tensor:
        """The logarithm to base 2."""
        return arithmetic.Log(self) * 1.4426950408889634

    def log1p(self) -> Tensor:
        """ln(1 + x), exact near 0."""
        return curve.Log1p(self)

    def sqrt(self) -> Tensor:
        """√x."""
        return arithmetic.Sqrt(self)

    def rsqrt(self) -> Tensor:
        """1 / √x."""
        return arithmetic.Rsqrt(self)

    def square(self) -> Tensor:
        """x²."""
        return arithmetic.PowNumber(self, exponent=2)

    def reciprocal(self) -> Tensor:
        """1 / x."""
        return 1.0 / self

    def sin(self) -> Tensor:
        """sin x."""
        return curve.Sin(self)

    def cos(self) -> Tensor:
        """cos x."""
        return curve.Cos(self)

    def tanh(self) -> Tensor:
        """tanh x."""
        return curve.Tanh(self)

    def sigmoid(self) -> Tensor:
        """1 / (1 + exp(−x))."""
        return curve.Sigmoid(self)

    def erf(self) -> Tensor:
        """erf x."""
        return curve.Erf(self)

    def relu(self) -> Tensor:
        """max(x, 0); the gradient at 0 is 0."""
        return curve.Relu(self)

    def abs(self) -> Tensor:
        """|x|; the gradient at 0 is 0."""
        return arithmetic.Abs(self)

    def sign(self) -> Tensor:
        """−1, 0 or 1."""
        return arithmetic.Sign(self)

    def floor(self) -> Tensor:
        """The largest integer not above x."""
        return arithmetic.Floor(self)

    def ceil(self) -> Tensor:
        """The smallest integer not below x."""
        return -arithmetic.Floor(-self)

    def round(self, decimals: int = 0) -> Tensor:
        """x rounded to `decimals` decimals, halves to even."""
        return arithmetic.Round(self, decimals=decimals)

    def clamp(self, min: Any = None, max: Any = None) -> Tensor:
        """x, but not below `min` and not above `max`; at a bound the gradient passes.

        Bounds are numbers, or tensors that broadcast; a bound gets the gradient where it takes the place of x.
        """
        if min is None and max is None:
            raise ValueError("clamp: give min, max or both")
        if isinstance(min, Variable) or isinstance(max, Variable):
            x: Any = self if min is None else choice.Where(binary(choice.Less, self, min), min, self)
            return x if max is None else choice.Where(binary(choice.Less, max, x), max, x)
        kinds = {type(bound) for bound in (min, max) if bound is not None}
        if float in kinds and self.array.dtype.kind != "f":
            return arithmetic.Clamp(choice.Cast(self, dtype=backend.default_dtype()), low=min, high=max)
        return arithmetic.Clamp(self, low=min, high=max)

    clip = clamp

    def maximum(self, other: Any) -> Tensor:
        """The larger of both; equal ones share the gradient in halves."""
        return binary(arithmetic.Maximum, self, other)

    def minimum(self, other: Any) -> Tensor:
        """The smaller of both; equal ones share the gradient in halves."""
        return binary(arithmetic.Minimum, self, other)

    def where(self, condition: Any, other: Any) -> Tensor:
        """x where the boolean `condition` is true, else `other`."""
        return choice.Where(operand(condition, self), self, other)

    def masked_fill(self, mask: Any, value: Any) -> Tensor:
        """`value` where the boolean `mask`, broadcast to this shape, is true, else the element."""
        mask = operand(mask, self)
        if mask.array.dtype.kind != "b":
            raise TypeError(
                f"masked_fill: the mask must be boolean, got {mask.array.dtype}; compare something (mask != 0)"
            )
        check_broadcast(mask.array.shape, self.array.shape, "masked_fill: mask")
        if isinstance(value, Variable):
            return choice.Where(mask, value, self)
        return choice.MaskedFill(self, mask, value=value)
