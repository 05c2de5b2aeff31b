"""Second names of methods, and short combinations of them that PyTorch has under a name of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygrad_edu.absent import missing
from tinygrad_edu.arrays import devices, dtypes
from tinygrad_edu.engine.tape import Variable
from tinygrad_edu.methods.common import binary, operand, widened
from tinygrad_edu.methods.curves import Curves
from tinygrad_edu.ops import choice, curve

if TYPE_CHECKING:
    from tinygrad_edu.tensor import Tensor


_INSTEAD = {f"{name}_": f"write x = x.{name}(...)" for name in ("reshape", "permute", "flatten", "expand")}
_INSTEAD |= dict.fromkeys(["resize_", "resize_as_"], "the number of elements stays; use reshape, or a new tensor")
_INSTEAD |= dict.fromkeys(
    ["svd", "qr", "cholesky", "inverse", "pinverse", "det", "logdet", "slogdet", "lstsq", "eig", "matrix_exp"],
    "NumPy's linalg works on x.detach().numpy(), without gradient",
)
_INSTEAD |= {
    "register_post_accumulate_grad_hook": "use register_hook, or do it after backward()",
    "real": "tensors hold no complex numbers",
    "imag": "tensors hold no complex numbers",
    "H": "use T: tensors hold no complex numbers",
    "mH": "use mT: tensors hold no complex numbers",
    "apply_": "compute with tensors, or with x.numpy()",
    "erfinv": "it is not written",
    "lgamma": "math.lgamma knows single numbers; there is no derivative for it here",
    "digamma": "it is not written",
    "mode": "use unique(return_counts=True) and argmax of the counts",
    "histc": "use bucketize and bincount",
    "nanquantile": "use x[~x.isnan()].quantile(q)",
    "nanmedian": "use x[~x.isnan()].median()",
    "bfloat16": "the array libraries have no such dtype; use float()",
    "storage": "x.array is the array itself",
    "untyped_storage": "x.array is the array itself",
    "to_sparse": "every tensor is dense",
    "share_memory_": "threads share the memory anyway",
}


class Named(Curves, result=False):
    """Methods of Tensor that add no op: other names, and combinations of ops."""

    __slots__ = ()

    absolute = Curves.abs
    subtract = Curves.sub
    multiply = Curves.mul
    divide = true_divide = Curves.div
    negative = Curves.neg
    not_equal = Curves.ne
    arctan2 = Curves.atan2
    greater, greater_equal = Curves.gt, Curves.ge
    less, less_equal = Curves.lt, Curves.le

    def clamp_min(self, min: Any) -> Tensor:
        """x, but not below `min`."""
        return self.clamp(min=min)

    def clamp_max(self, max: Any) -> Tensor:
        """x, but not above `max`."""
        return self.clamp(max=max)

    @widened
    def lerp(self, end: Any, weight: Any) -> Tensor:
        """x + weight · (end − x), exactly x for the weight 0 and exactly `end` for 1."""
        end = operand(end, self)
        apart = end - self
        dtypes.number_for(weight, self.array.dtype, "lerp: weight")
        near = abs(weight) < 0.5
        if isinstance(near, bool):
            return self + weight * apart if near else end - apart * (1 - weight)
        return choice.Where(near, self, end) + choice.Where(near, weight, weight - 1) * apart

    @widened
    def addcmul(self, tensor1: Any, tensor2: Any, value: float = 1) -> Tensor:
        """x + value · tensor1 ⊙ tensor2."""
        return self + tensor1 * tensor2 * dtypes.number_for(value, self.array.dtype, "addcmul: value")

    @widened
    def addcdiv(self, tensor1: Any, tensor2: Any, value: float = 1) -> Tensor:
        """x + value · tensor1 / tensor2."""
        return self + tensor1 / tensor2 * dtypes.number_for(value, self.array.dtype, "addcdiv: value")

    def logaddexp(self, other: Any) -> Tensor:
        """ln(exp x + exp other), without overflow."""
        return binary(curve.LogAddExp, self, other)

    def logical_xor(self, other: Any) -> Tensor:
        """Whether exactly one is not 0."""
        return binary(choice.NotEqual, choice.LogicalNot(self), choice.LogicalNot(operand(other, self)))

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

    def bitwise_left_shift(self, other: Any) -> Tensor:
        """x << other."""
        return self << other

    def bitwise_right_shift(self, other: Any) -> Tensor:
        """x >> other."""
        return self >> other

    def isclose(self, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
        """Whether |x − other| ≤ atol + rtol · |other|, infinite ones where they are equal."""
        if rtol < 0 or atol < 0:
            raise ValueError(f"isclose: rtol and atol must be at least 0, got {rtol} and {atol}")
        pair: Any = self, operand(other, self)
        x, y = (t if t.dtype.kind == "f" else t.double() for t in pair)
        apart = (x - y).abs()
        near = ((apart <= atol + rtol * y.abs()) & apart.isfinite()) | (x == y)
        return near | (x.isnan() & y.isnan()) if equal_nan else near

    def allclose(self, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
        """Whether `isclose` holds for every element."""
        return self.isclose(other, rtol, atol, equal_nan).array.all().item()

    def equal(self, other: Any) -> bool:
        """Whether both have one shape and the same elements."""
        return self.array.shape == other.array.shape and (self.array == other.array).all().item()

    def dist(self, other: Any, p: float = 2) -> Tensor:
        """‖x − other‖_p over all elements."""
        return (self - other).norm(p)

    def is_complex(self) -> bool:
        """False: tensors hold no complex numbers."""
        return False

    def get_device(self) -> int:
        """The number of the GPU, −1 on the CPU."""
        _, _, number = devices.device_of(self.array).partition(":")
        return int(number) if number else -1

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
        return (self.array == (element.array if isinstance(element, Variable) else element)).any().item()

    def __round__(self, ndigits: int | None = None) -> Tensor:
        return self.round(decimals=ndigits or 0)
