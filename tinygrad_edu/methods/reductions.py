"""Methods that go through axes: sums, means, extremes, norms, running sums, orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygrad_edu.methods.common import Dims, axes_of, axis_of, count_of, some_elements
from tinygrad_edu.ops import activation, arithmetic, choice, order, reduction, shape
from tinygrad_edu.tape import Variable

if TYPE_CHECKING:
    from tinygrad_edu.tensor import Tensor


class Reductions(Variable, result=False):
    """Methods of Tensor over axes. `dim` is an axis, several, or None for all; `keepdim` leaves a 1 where they were."""

    __slots__ = ()

    def sum(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """Σ x."""
        return reduction.Sum(self, axes=axes_of(self, dim, "sum"), keepdim=keepdim)

    def mean(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """Σ x / n; NaN where n = 0."""
        return reduction.Mean(self, axes=axes_of(self, dim, "mean"), keepdim=keepdim)

    def var(self, dim: Dims = None, correction: int = 1, keepdim: bool = False, unbiased: bool | None = None) -> Tensor:
        """Σ (x − mean)² / (n − correction); NaN where that divides by 0. `unbiased` True is correction 1, False 0."""
        axes = axes_of(self, dim, "var")
        spare = count_of(self, axes) - (correction if unbiased is None else int(unbiased))
        centred = arithmetic.Sub(self, reduction.Mean(self, axes=axes, keepdim=True))
        total = reduction.Sum(arithmetic.PowNumber(centred, exponent=2), axes=axes, keepdim=keepdim)
        return total * (1.0 / spare if spare > 0 else float("nan"))

    def std(self, dim: Dims = None, correction: int = 1, keepdim: bool = False, unbiased: bool | None = None) -> Tensor:
        """The square root of `var`."""
        return self.var(dim, correction, keepdim, unbiased).sqrt()

    def prod(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """Π x."""
        return reduction.Prod(self, axes=axes_of(self, dim, "prod"), keepdim=keepdim)

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
        root = arithmetic.PowNumber(choice.Where(total > 0, total, 1.0), exponent=1 / p)
        return choice.Where(total > 0, root, 0.0)

    def amax(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """The largest; equal ones share the gradient evenly."""
        axes = axes_of(self, dim, "amax")
        some_elements(self, axes, "amax")
        return reduction.Amax(self, axes=axes, keepdim=keepdim)

    def amin(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """The smallest; equal ones share the gradient evenly."""
        axes = axes_of(self, dim, "amin")
        some_elements(self, axes, "amin")
        return reduction.Amin(self, axes=axes, keepdim=keepdim)

    def max(self, dim: Any = None, keepdim: bool = False) -> Any:
        """The largest of all, or (values, indices) along axis `dim`, the first where equal."""
        if dim is None:
            return self.amax()
        if isinstance(dim, Variable):
            return arithmetic.Maximum(self, dim)
        axis = axis_of(self, dim, "max")
        some_elements(self, (axis,), "max")
        return order.Max(self, axis=axis, keepdim=keepdim)

    def min(self, dim: Any = None, keepdim: bool = False) -> Any:
        """The smallest of all, or (values, indices) along axis `dim`, the first where equal."""
        if dim is None:
            return self.amin()
        if isinstance(dim, Variable):
            return arithmetic.Minimum(self, dim)
        axis = axis_of(self, dim, "min")
        some_elements(self, (axis,), "min")
        return order.Min(self, axis=axis, keepdim=keepdim)

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Where the largest stands first: along axis `dim`, or in the flattened tensor."""
        axis = self._axis_or_all(dim, "argmax")
        return order.Argmax(self, axis=axis, keepdim=keepdim)

    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Where the smallest stands first: along axis `dim`, or in the flattened tensor."""
        axis = self._axis_or_all(dim, "argmin")
        return order.Argmin(self, axis=axis, keepdim=keepdim)

    def _axis_or_all(self, dim: int | None, what: str) -> int | None:
        axis = None if dim is None else axis_of(self, dim, what)
        some_elements(self, tuple(range(self.array.ndim)) if axis is None else (axis,), what)
        return axis

    def logsumexp(self, dim: Dims, keepdim: bool = False) -> Tensor:
        """ln Σ exp x, without overflow."""
        axes = axes_of(self, dim, "logsumexp")
        some_elements(self, axes, "logsumexp")
        return reduction.LogSumExp(self, axes=axes, keepdim=keepdim)

    def softmax(self, dim: int) -> Tensor:
        """exp x / Σ exp x along `dim`; see nn.functional.softmax."""
        return activation.Softmax(self, axis=axis_of(self, dim, "softmax"))

    def log_softmax(self, dim: int) -> Tensor:
        """x − ln Σ exp x along `dim`; see nn.functional.log_softmax."""
        return activation.LogSoftmax(self, axis=axis_of(self, dim, "log_softmax"))

    def any(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """Whether any is not 0."""
        found = choice.NotEqual(self, 0) if self.array.dtype.kind != "b" else self
        return reduction.Any(found, axes=axes_of(self, dim, "any"), keepdim=keepdim)

    def all(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """Whether none is 0."""
        found = choice.NotEqual(self, 0) if self.array.dtype.kind != "b" else self
        return reduction.All(found, axes=axes_of(self, dim, "all"), keepdim=keepdim)

    def cumsum(self, dim: int) -> Tensor:
        """out_i = Σ x_j over j ≤ i along `dim`."""
        return reduction.Cumsum(self, axis=axis_of(self, dim, "cumsum"))

    def sort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> Any:
        """(values, indices) in order along `dim`; equal elements keep their order, NaN counts as largest."""
        return order.Sort(self._with_axis(), axis=self._sorted_axis(dim, "sort"), descending=descending)

    def argsort(self, dim: int = -1, descending: bool = False) -> Tensor:
        """The indices of `sort`."""
        return self.sort(dim, descending)[1]

    def topk(self, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
        """(values, indices) of the `k` largest (or smallest) along `dim`, always in order."""
        axis = self._sorted_axis(dim, "topk")
        n = self._with_axis().array.shape[axis]
        if not 0 <= k <= n:
            raise ValueError(f"topk: k must lie in 0 to {n}, the length of dim {dim}; got {k}")
        return order.Topk(self._with_axis(), k=int(k), axis=axis, largest=largest)

    def _sorted_axis(self, dim: int, what: str) -> int:
        return axis_of(self._with_axis(), dim, what)

    def _with_axis(self) -> Any:
        return self if self.array.ndim else shape.Reshape(self, shape=(1,))
