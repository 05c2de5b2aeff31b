"""Methods that are a function of one number: powers, logarithms, angles, bends, roundings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygrad_edu.arrays import devices, dtypes
from tinygrad_edu.methods.elementwise import Elementwise
from tinygrad_edu.ops import angle, arithmetic, choice, curve, shape

if TYPE_CHECKING:
    from tinygrad_edu.tensor import Tensor


class Curves(Elementwise, result=False):
    """Functions of Tensor that work element by element. The gradient of roundings and of `sign` is 0."""

    __slots__ = ()

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
        """The logarithm to base 2, exact at its powers."""
        return curve.Log2(self)

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
        """x²; of booleans in int64."""
        return arithmetic.PowNumber(self, exponent=2) if self.array.dtype.kind != "b" else self**2

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

    def exp2(self) -> Tensor:
        """2^x."""
        return curve.Exp2(self)

    def log10(self) -> Tensor:
        """The logarithm to base 10, exact at its powers."""
        return curve.Log10(self)

    def tan(self) -> Tensor:
        """tan x."""
        return curve.Tan(self)

    def asin(self) -> Tensor:
        """The angle from −π/2 to π/2 whose sine is x."""
        return angle.Asin(self)

    def acos(self) -> Tensor:
        """The angle from 0 to π whose cosine is x."""
        return angle.Acos(self)

    def atan(self) -> Tensor:
        """The angle from −π/2 to π/2 whose tangent is x."""
        return angle.Atan(self)

    def sinh(self) -> Tensor:
        """(exp x − exp −x) / 2."""
        return curve.Sinh(self)

    def cosh(self) -> Tensor:
        """(exp x + exp −x) / 2."""
        return curve.Cosh(self)

    def asinh(self) -> Tensor:
        """ln(x + √(x² + 1))."""
        return angle.Asinh(self)

    def acosh(self) -> Tensor:
        """ln(x + √(x² − 1)), from x = 1 on."""
        return angle.Acosh(self)

    def atanh(self) -> Tensor:
        """½ ln((1 + x) / (1 − x))."""
        return angle.Atanh(self)

    arcsin, arccos, arctan, arcsinh, arccosh, arctanh = asin, acos, atan, asinh, acosh, atanh

    def erfc(self) -> Tensor:
        """1 − erf x, with all its digits far to the right."""
        return curve.Erfc(self)

    def frac(self) -> Tensor:
        """x without the integer part."""
        return arithmetic.Sub(self, arithmetic.Trunc(self))

    def deg2rad(self) -> Tensor:
        """Degrees as an angle in radians."""
        return arithmetic.Mul(self, 0.017453292519943295)

    def rad2deg(self) -> Tensor:
        """An angle in radians as degrees."""
        return arithmetic.Mul(self, 57.29577951308232)

    def trunc(self) -> Tensor:
        """The integer part, towards 0."""
        return arithmetic.Trunc(self)

    fix = trunc

    def sgn(self) -> Tensor:
        """−1, 0 or 1."""
        return arithmetic.Sign(self)

    def logit(self, eps: float | None = None) -> Tensor:
        """ln(x / (1 − x)), x first brought into eps to 1 − eps."""
        x: Any = self if self.array.dtype.kind == "f" else choice.Cast(self, dtype=dtypes.default_dtype())
        return arithmetic.Logit(x if eps is None else x.clamp(eps, 1 - eps))

    def nan_to_num(self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
        """NaN, ∞ and −∞ replaced: by 0, and by the largest and smallest number of the dtype unless given."""
        if self.array.dtype.kind != "f":
            return shape.Clone(self)
        kind, (least, most) = self.array.dtype, dtypes.bounds_of(self.array.dtype)
        given = (nan, most if posinf is None else posinf, least if neginf is None else neginf)
        for_nan, for_positive, for_negative = (devices.new_array(float(v), kind).item() for v in given)
        x = self.masked_fill(self.isnan(), for_nan)
        x = x.masked_fill(choice.Equal(self, float("inf")), for_positive)
        return x.masked_fill(choice.Equal(self, float("-inf")), for_negative)
