"""Methods that go through axes: sums, means, extremes, norms, running sums, orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygrad_edu.methods.common import (
    Dims,
    ValuesIndices,
    axes_of,
    axis_of,
    count_of,
    numpy_names,
    some_elements,
)
from tinygrad_edu.ops import activation, arithmetic, choice, order, reduction, shape
from tinygrad_edu.tape import Variable

if TYPE_CHECKING:
    from tinygrad_edu.tensor import Tensor


class Reductions(Variable, result=False):
    """Methods of Tensor over axes. `dim` is an axis, several, or None for all; `keepdim` leaves a 1 where they were."""

    __slots__ = ()

    @numpy_names
    def sum(self, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """Σ x, computed in `dtype` if that is given."""
        return reduction.Sum(_as(self, dtype), axes=axes_of(self, dim, "sum"), keepdim=keepdim)

    @numpy_names
    def mean(self, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """Σ x / n, computed in `dtype` if that is given; NaN where n = 0."""
        return reduction.Mean(_as(self, dtype), axes=axes_of(self, dim, "mean"), keepdim=keepdim)

    @numpy_names
    def var(self, dim: Dims = None, correction: int = 1, keepdim: bool = False, unbiased: bool | None = None) -> Tensor:
        """Σ (x − mean)² / (n − correction); NaN where that divides by 0. `unbiased` True is correction 1, False 0."""
        axes = axes_of(self, dim, "var")
        spare = count_of(self, axes) - (correction if unbiased is None else int(unbiased))
        centred = arithmetic.Sub(self, reduction.Mean(self, axes=axes, keepdim=True))
        total = reduction.Sum(arithmetic.PowNumber(centred, exponent=2), axes=axes, keepdim=keepdim)
        return total * (1.0 / spare if spare > 0 else float("nan"))

    @numpy_names
    def std(self, dim: Dims = None, correction: int = 1, keepdim: bool = False, unbiased: bool | None = None) -> Tensor:
        """The square root of `var`; the gradient at 0 is 0."""
        variance = self.var(dim, correction, keepdim, unbiased)
        zero = variance == 0  # there the root has no slope, and the gradient counts as 0
        return choice.Where(zero, 0.0, arithmetic.Sqrt(choice.Where(zero, 1.0, variance)))

    @numpy_names
    def prod(self, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """Π x, computed in `dtype` if that is given."""
        return reduction.Prod(_as(self, dtype), axes=axes_of(self, dim, "prod"), keepdim=keepdim)

    @numpy_names
    def norm(self, p: Any = 2, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """(Σ |x|^p)^(1/p), for p = inf the largest |x|; "fro" is 2. The gradient at 0 is 0."""
        axes = axes_of(self, dim, "norm")
        if p in (2, "fro", None):
            return reduction.Norm(self, axes=axes, keepdim=keepdim)
        size = arithmetic.Abs(self)
        if p == float("inf"):
            some_elements(self, axes, "norm")
            return reduction.Amax(size, axes=axes, keepdim=keepdim)
        if p == 1:
            return reduction.Sum(size, axes=axes, keepdim=keepdim)
        if p <= 0:
            raise ValueError(f"norm: p must be positive or inf, got {p}")
        total = reduction.Sum(arithmetic.PowNumber(size, exponent=p), axes=axes, keepdim=keepdim)
        zero = total == 0
        return choice.Where(zero, 0.0, arithmetic.PowNumber(choice.Where(zero, 1.0, total), exponent=1 / p))

    @numpy_names
    def amax(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """The largest; equal ones share the gradient evenly."""
        axes = axes_of(self, dim, "amax")
        some_elements(self, axes, "amax")
        return reduction.Amax(self, axes=axes, keepdim=keepdim)

    @numpy_names
    def amin(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """The smallest; equal ones share the gradient evenly."""
        axes = axes_of(self, dim, "amin")
        some_elements(self, axes, "amin")
        return reduction.Amin(self, axes=axes, keepdim=keepdim)

    @numpy_names
    def max(self, dim: Any = None, keepdim: bool = False) -> Any:
        """The largest of all, or (values, indices) along axis `dim`, the first where equal."""
        if dim is None:
            return self.amax()
        if isinstance(dim, Variable):
            return arithmetic.Maximum(self, dim)
        axis = axis_of(self, dim, "max")
        some_elements(self, (axis,), "max")
        return ValuesIndices(*order.Max(self, axis=axis, keepdim=keepdim))

    @numpy_names
    def min(self, dim: Any = None, keepdim: bool = False) -> Any:
        """The smallest of all, or (values, indices) along axis `dim`, the first where equal."""
        if dim is None:
            return self.amin()
        if isinstance(dim, Variable):
            return arithmetic.Minimum(self, dim)
        axis = axis_of(self, dim, "min")
        some_elements(self, (axis,), "min")
        return ValuesIndices(*order.Min(self, axis=axis, keepdim=keepdim))

    @numpy_names
    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Where the largest stands first: along axis `dim`, or in the flattened tensor."""
        axis = self._axis_or_all(dim, "argmax")
        return order.Argmax(self, axis=axis, keepdim=keepdim)

    @numpy_names
    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Where the smallest stands first: along axis `dim`, or in the flattened tensor."""
        axis = self._axis_or_all(dim, "argmin")
        return order.Argmin(self, axis=axis, keepdim=keepdim)

    def _axis_or_all(self, dim: int | None, what: str) -> int | None:
        axis = None if dim is None else axis_of(self, dim, what)
        some_elements(self, tuple(range(self.array.ndim)) if axis is None else (axis,), what)
        return axis

    @numpy_names
    def logsumexp(self, dim: Dims, keepdim: bool = False) -> Tensor:
        """ln Σ exp x, without overflow."""
        return reduction.LogSumExp(self, axes=axes_of(self, dim, "logsumexp"), keepdim=keepdim)

    @numpy_names
    def softmax(self, dim: int, dtype: Any = None) -> Tensor:
        """exp x / Σ exp x along `dim`; see nn.functional.softmax."""
        return activation.Softmax(_as(self, dtype), axis=axis_of(self, dim, "softmax"))

    @numpy_names
    def log_softmax(self, dim: int, dtype: Any = None) -> Tensor:
        """x − ln Σ exp x along `dim`; see nn.functional.log_softmax."""
        return activation.LogSoftmax(_as(self, dtype), axis=axis_of(self, dim, "log_softmax"))

    @numpy_names
    def any(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """Whether any is not 0."""
        found = choice.NotEqual(self, 0) if self.array.dtype.kind != "b" else self
        return reduction.Any(found, axes=axes_of(self, dim, "any"), keepdim=keepdim)

    @numpy_names
    def all(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """Whether none is 0."""
        found = choice.NotEqual(self, 0) if self.array.dtype.kind != "b" else self
        return reduction.All(found, axes=axes_of(self, dim, "all"), keepdim=keepdim)

    @numpy_names
    def cumsum(self, dim: int, dtype: Any = None) -> Tensor:
        """out_i = Σ x_j over j ≤ i along `dim`."""
        return reduction.Cumsum(_as(self, dtype), axis=axis_of(self, dim, "cumsum"))

    @numpy_names
    def sort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> Any:
        """(values, indices) in order along `dim`; equal elements keep their order, NaN counts as largest."""
        axis = self._sorted_axis(dim, "sort")
        return ValuesIndices(*order.Sort(self._with_axis(), axis=axis, descending=descending))

    @numpy_names
    def argsort(self, dim: int = -1, descending: bool = False) -> Tensor:
        """The indices of `sort`."""
        return self.sort(dim, descending)[1]

    @numpy_names
    def topk(self, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
        """(values, indices) of the `k` largest (or smallest) along `dim`, always in order."""
        axis = self._sorted_axis(dim, "topk")
        n = self._with_axis().array.shape[axis]
        if not 0 <= k <= n:
            raise ValueError(f"topk: k must lie in 0 to {n}, the length of dim {dim}; got {k}")
        return ValuesIndices(*order.Topk(self._with_axis(), k=int(k), axis=axis, largest=largest))

    def median(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The element in the middle, the lower of two: of all, or (values, indices) along axis `dim`."""
        if dim is None:
            return self.reshape(-1).median(0)[0]  # type: ignore[attr-defined]
        axis = axis_of(self, dim, "median")
        some_elements(self, (axis,), "median")
        ordered = self.sort(axis)
        middle = [each.narrow(axis, (each.shape[axis] - 1) // 2, 1) for each in ordered]
        last = [each.narrow(axis, each.shape[axis] - 1, 1) for each in ordered]
        spoiled = last[0].isnan()  # NaN counts as largest in order, and makes the median NaN
        found = [choice.Where(spoiled, end, each) for end, each in zip(last, middle)]
        return ValuesIndices(*(found if keepdim else (each.squeeze(axis) for each in found)))

    def aminmax(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """(smallest, largest)."""
        return self.amin(dim, keepdim), self.amax(dim, keepdim)

    @numpy_names
    def count_nonzero(self, dim: Dims = None) -> Tensor:
        """How many are not 0."""
        return choice.NotEqual(self, 0).sum(dim)

    def _sorted_axis(self, dim: int, what: str) -> int:
        return axis_of(self._with_axis(), dim, what)

    def _with_axis(self) -> Any:
        return self if self.array.ndim else shape.Reshape(self, shape=(1,))


def _as(x: Any, dtype: Any) -> Any:
    return x if dtype is None else x.to(dtype)
