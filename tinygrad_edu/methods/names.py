"""Second names of methods, and short combinations of them that PyTorch has under a name of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygrad_edu import backend
from tinygrad_edu.absent import missing
from tinygrad_edu.methods.elementwise import Elementwise
from tinygrad_edu.ops import arithmetic, choice, curve
from tinygrad_edu.tape import Variable

if TYPE_CHECKING:
    from tinygrad_edu.tensor import Tensor


_INSTEAD = {
    f"{name}_": f"a tensor keeps its shape; write x = x.{name}(...)"
    for name in ("unsqueeze", "squeeze", "transpose", "t", "swapaxes", "resize", "permute")
}
_INSTEAD |= dict.fromkeys(
    ["svd", "qr", "cholesky", "inverse", "pinverse", "det", "logdet", "slogdet", "lstsq", "eig", "matrix_exp"],
    "NumPy's linalg works on x.detach().numpy(), without gradient",
)
_INSTEAD |= {
    "cumprod": "use x.log().cumsum(dim).exp()",
    "cummax": "use max over the parts wanted",
    "kthvalue": "use sort and index",
    "quantile": "use sort and index",
    "unfold": "x[:, index] with an index array [windows, length] gathers windows",
    "bfloat16": "the array libraries have no such dtype; use float()",
    "storage": "x.array is the array itself",
    "untyped_storage": "x.array is the array itself",
    "new": "use new_zeros, new_ones, new_full or new_tensor",
    "masked_scatter": "use x[mask] = values on a clone",
    "masked_scatter_": "use x[mask] = values",
    "scatter_reduce": "use scatter_add",
    "to_sparse": "every tensor is dense",
    "share_memory_": "threads share the memory anyway",
}


class Named(Elementwise, result=False):
    """Methods of Tensor that add no op: other names, and combinations of ops."""

    __slots__ = ()

    absolute = Elementwise.abs
    subtract = Elementwise.sub
    multiply = Elementwise.mul
    divide = true_divide = Elementwise.div
    negative = Elementwise.neg
    not_equal = Elementwise.ne
    greater, greater_equal = Elementwise.gt, Elementwise.ge
    less, less_equal = Elementwise.lt, Elementwise.le

    def floor_divide(self, other: Any) -> Tensor:
        """The largest integer not above x / other."""
        return self // other

    def remainder(self, other: Any) -> Tensor:
        """x − other · ⌊x / other⌋, with the sign of other."""
        return self % other

    def clamp_min(self, min: Any) -> Tensor:
        """x, but not below `min`."""
        return self.clamp(min=min)

    def clamp_max(self, max: Any) -> Tensor:
        """x, but not above `max`."""
        return self.clamp(max=max)

    def exp2(self) -> Tensor:
        """2^x."""
        return arithmetic.Exp(self * 0.6931471805599453)

    def log10(self) -> Tensor:
        """The logarithm to base 10."""
        return self.log() * 0.4342944819032518

    def tan(self) -> Tensor:
        """tan x."""
        return curve.Sin(self) / curve.Cos(self)

    def sinh(self) -> Tensor:
        """(exp x − exp −x) / 2."""
        return (curve.Expm1(self) - curve.Expm1(-self)) * 0.5

    def cosh(self) -> Tensor:
        """(exp x + exp −x) / 2."""
        return (arithmetic.Exp(self) + arithmetic.Exp(-self)) * 0.5

    def trunc(self) -> Tensor:
        """The integer part, towards 0."""
        return arithmetic.Sign(self) * arithmetic.Floor(arithmetic.Abs(self))

    def logit(self, eps: float | None = None) -> Tensor:
        """ln(x / (1 − x)), x first brought into eps to 1 − eps."""
        x: Any = self if eps is None else self.clamp(eps, 1 - eps)
        return (x / (1.0 - x)).log()

    def lerp(self, end: Any, weight: Any) -> Tensor:
        """x + weight · (end − x)."""
        return self + weight * (end - self)

    def addcmul(self, tensor1: Any, tensor2: Any, value: float = 1) -> Tensor:
        """x + value · tensor1 ⊙ tensor2."""
        return self + tensor1 * tensor2 * value

    def addcdiv(self, tensor1: Any, tensor2: Any, value: float = 1) -> Tensor:
        """x + value · tensor1 / tensor2."""
        return self + tensor1 / tensor2 * value

    def logaddexp(self, other: Any) -> Tensor:
        """ln(exp x + exp other), without overflow."""
        top = self.maximum(other)
        equal = choice.Equal(self, other)  # ∞ − ∞ is no number
        apart = choice.Where(equal, 0.0, self) - choice.Where(equal, 0.0, other)
        return top + curve.Log1p(arithmetic.Exp(-arithmetic.Abs(apart)))

    def nan_to_num(self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
        """NaN, ∞ and −∞ replaced: by 0, and by the largest and smallest number of the dtype unless given."""
        bounds = float(backend.module_of(self.array).finfo(self.array.dtype).max)
        x = self.masked_fill(self.isnan(), nan)
        x = x.masked_fill(choice.Equal(self, float("inf")), bounds if posinf is None else posinf)
        return x.masked_fill(choice.Equal(self, float("-inf")), -bounds if neginf is None else neginf)

    def logical_xor(self, other: Any) -> Tensor:
        """Whether exactly one is not 0."""
        return choice.NotEqual(self.logical_not(), choice.LogicalNot(other))

    def bitwise_and(self, other: Any) -> Tensor:
        """x & other."""
        return self & other

    def bitwise_or(self, other: Any) -> Tensor:
        """x | other."""
        return self | other

    def bitwise_xor(self, other: Any) -> Tensor:
        """x ^ other."""
        return self ^ other

    def bitwise_not(self) -> Tensor:
        """~x."""
        return ~self

    def isclose(self, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
        """Whether |x − other| ≤ atol + rtol · |other|, infinite ones where they are equal."""
        near = (self - other).abs() <= atol + rtol * _positive(other)
        near = (near & self.isfinite()) | (self == other)
        return near | (self.isnan() & (self - self + other).isnan()) if equal_nan else near

    def allclose(self, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
        """Whether `isclose` holds for every element."""
        return bool(self.isclose(other, rtol, atol, equal_nan).array.all())

    def equal(self, other: Any) -> bool:
        """Whether both have one shape and the same elements."""
        return self.array.shape == other.array.shape and bool((self.array == other.array).all())

    def nelement(self) -> int:
        """The number of elements."""
        return int(self.array.size)

    def ndimension(self) -> int:
        """The number of axes."""
        return self.array.ndim

    def is_nonzero(self) -> bool:
        """Whether the one element is not 0."""
        return bool(self)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise missing("Tensor", name, () if name[:1] == "_" else dir(type(self)), _INSTEAD)

    def __contains__(self, element: Any) -> bool:
        return bool((self.array == (element.array if isinstance(element, Variable) else element)).any())

    def __round__(self, ndigits: int | None = None) -> Tensor:
        return self.round(decimals=ndigits or 0)


def _positive(x: Any) -> Any:
    return x.abs() if isinstance(x, Variable) else abs(x)  # type: ignore[attr-defined]
