"""Methods that shorten axes: sums, means, spreads, extremes, norms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygrad_edu.arrays import dtypes
from tinygrad_edu.engine.tape import Variable
from tinygrad_edu.methods.common import (
    Dims,
    MinMax,
    ValuesIndices,
    along,
    axes_of,
    axis_of,
    count_of,
    numpy_names,
    of_floats,
    reduced,
    some_elements,
    widened,
    with_axis,
)
from tinygrad_edu.ops import activation, arithmetic, choice, order, reduction, shape

if TYPE_CHECKING:
    from tinygrad_edu.tensor import Tensor


class Reductions(Variable, result=False):
    """Methods of Tensor over axes. `dim` is an axis, several, or None or () for all (of `any` and `all`, () is none);
    `keepdim` leaves a 1 where they were."""

    __slots__ = ()

    @numpy_names
    def sum(self, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """Σ x, computed in `dtype` if that is given; of integers and booleans else in int64."""
        return _as(reduction.Sum(_as(self, dtype), axes=reduced(self, dim, "sum"), keepdim=keepdim), dtype)

    @numpy_names
    def mean(self, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """Σ x / n, computed in `dtype` if that is given, of integers in float32; NaN where n = 0."""
        if dtype is not None and dtypes.dtype_of(dtype).kind != "f":
            raise TypeError(f"mean: dtype must be floating, got {dtypes.dtype_of(dtype)}")
        return reduction.Mean(_as(self, dtype), axes=reduced(self, dim, "mean"), keepdim=keepdim)

    @numpy_names
    @widened
    def var(
        self, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
    ) -> Tensor:
        """Σ (x − mean)² / (n − correction); where n ≤ correction it is ∞, or NaN where all x are the same.

        The correction is 1 unless given; `unbiased`, also by itself in the place of `dim`, is its older form: True
        means 1, False 0.
        """
        axes, spare = _spread(self, dim, unbiased, correction, "var")
        total = reduction.CentredSquares(self, axes=axes, keepdim=keepdim)
        if spare <= 0:  # Σ/0
            return total * choice.Where(total > 0, float("inf"), float("nan"))
        return total * (1.0 / spare)

    @numpy_names
    @widened
    def std(
        self, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
    ) -> Tensor:
        """The square root of `var`, also where that leaves the dtype; its gradient at 0 is 0."""
        axes, spare = _spread(self, dim, unbiased, correction, "std")
        centred = arithmetic.Sub(self, reduction.Mean(self, axes=axes, keepdim=True))
        length = reduction.Norm(centred, axes=axes, keepdim=keepdim)  # squares of large numbers overflow
        return length * (spare**-0.5 if spare > 0 else choice.Where(length > 0, float("inf"), float("nan")))

    @numpy_names
    def nansum(self, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        """Σ x over what is a number; in `dtype` as by `sum`."""
        return _numbers(self).sum(reduced(self, dim, "nansum"), keepdim, dtype)

    @numpy_names
    @widened
    def nanmean(self, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        """Σ x / n over what is a number; NaN where nothing is."""
        x, axes = _as(self, dtype), reduced(self, dim, "nanmean")
        count = reduction.Sum(choice.Cast(choice.Equal(x, x), dtype=x.dtype), axes=axes, keepdim=keepdim)
        return reduction.Sum(_numbers(x), axes=axes, keepdim=keepdim) / count

    @numpy_names
    def prod(self, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """Π x, computed in `dtype` if that is given; of integers and booleans else in int64."""
        return _as(reduction.Prod(_as(self, dtype), axes=reduced(self, dim, "prod"), keepdim=keepdim), dtype)

    @numpy_names
    @widened
    def norm(self, p: Any = "fro", dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """(Σ |x|^p)^(1/p), "fro" is 2; for p = inf the largest |x|, for −inf the smallest, for 0 how many are not 0.
        For a p below 0 it is 0 where an x is.

        Integers and booleans are refused unless `dtype` is a floating one: they would hold no root.

        The gradient at 0 is 0; that of `(x * x).sum().sqrt()`, spelled out, is NaN there (0 · ∞).
        """
        x, axes = of_floats(_as(self, dtype), "norm: input"), reduced(self, dim, "norm")
        if p in (2, "fro", None):
            return reduction.Norm(x, axes=axes, keepdim=keepdim)
        size = arithmetic.Abs(x)
        if p in (float("inf"), float("-inf")):
            some_elements(self, axes, "norm")
            return (reduction.Amax if p > 0 else reduction.Amin)(size, axes=axes, keepdim=keepdim, nan_shares=True)
        if p == 0:
            return reduction.CountNonzero(x, axes=axes, keepdim=keepdim)
        if p == 1:
            return reduction.Sum(size, axes=axes, keepdim=keepdim)
        if p == "nuc":
            raise NotImplementedError("norm: 'nuc' needs singular values, which are not found here")
        if not isinstance(p, int | float) or p != p:
            raise ValueError(f"norm: p must be a number, inf, -inf or 'fro', got {p!r}")
        if p < 0:
            some_elements(self, axes, "norm")
        elif not count_of(self, axes):
            return reduction.Sum(size, axes=axes, keepdim=keepdim)
        if p > 1:
            return reduction.PowerNorm(x, axes=axes, keepdim=keepdim, p=p)
        # Powers of large or small numbers leave the dtype, so the largest (for p < 0 the smallest) is taken out first.
        top: Any = (reduction.Amax if p > 0 else reduction.Amin)(shape.Detach(size), axes=axes, keepdim=True)
        top = choice.Where((top > 0) & top.isfinite(), top, 1.0)
        # Where x is 0 no power of it has a slope that is a number, and where all are 0 neither has the root.
        none = choice.Equal(size, 0)
        powers = arithmetic.PowNumber(arithmetic.Div(choice.Where(none, 1.0, size), top), exponent=p)
        total = reduction.Sum(choice.Where(none, 0.0 if p > 0 else float("inf"), powers), axes=axes, keepdim=True)
        zero = total == (0 if p > 0 else float("inf"))
        found = choice.Where(zero, 0.0, arithmetic.PowNumber(choice.Where(zero, 1.0, total), exponent=1 / p) * top)
        lengths = tuple(n for i, n in enumerate(self.array.shape) if i not in axes)
        return found if keepdim else shape.Reshape(found, shape=lengths)

    @numpy_names
    def amax(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """The largest; equal ones share the gradient evenly. A NaN makes all gradients NaN, unlike those of `max`."""
        axes = reduced(self, dim, "amax")
        some_elements(self, axes, "amax")
        return reduction.Amax(self, axes=axes, keepdim=keepdim)

    @numpy_names
    def amin(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """The smallest; equal ones share the gradient evenly. A NaN makes all gradients NaN, unlike those of `min`."""
        axes = reduced(self, dim, "amin")
        some_elements(self, axes, "amin")
        return reduction.Amin(self, axes=axes, keepdim=keepdim)

    @numpy_names
    def max(self, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
        """The largest of all, or (values, indices) along axis `dim`, the first where equal.

        With another tensor, in the place of `dim` or as `other`, it is `maximum`.
        """
        dim = dim if other is None else other
        if dim is None:
            return self._extreme(reduction.Amax, "max")
        if isinstance(dim, Variable):
            return arithmetic.Maximum(self, dim)
        x = with_axis(self)
        axis = axis_of(x, dim, "max")
        some_elements(x, (axis,), "max")
        return ValuesIndices(*order.Max(x, axis=axis, keepdim=keepdim and self.array.ndim > 0))

    @numpy_names
    def min(self, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
        """The smallest of all, or (values, indices) along axis `dim`, the first where equal.

        With another tensor, in the place of `dim` or as `other`, it is `minimum`.
        """
        dim = dim if other is None else other
        if dim is None:
            return self._extreme(reduction.Amin, "min")
        if isinstance(dim, Variable):
            return arithmetic.Minimum(self, dim)
        x = with_axis(self)
        axis = axis_of(x, dim, "min")
        some_elements(x, (axis,), "min")
        return ValuesIndices(*order.Min(x, axis=axis, keepdim=keepdim and self.array.ndim > 0))

    def _extreme(self, op: Any, what: str) -> Tensor:
        axes = reduced(self, None, what)
        some_elements(self, axes, what)
        return op(self, axes=axes, nan_shares=True)

    @numpy_names
    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Where the largest stands first: along axis `dim`, or in the flattened tensor."""
        x, axis = self._axis_or_all(dim, "argmax")
        return order.Argmax(x, axis=axis, keepdim=keepdim and self.array.ndim > 0)

    @numpy_names
    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Where the smallest stands first: along axis `dim`, or in the flattened tensor."""
        x, axis = self._axis_or_all(dim, "argmin")
        return order.Argmin(x, axis=axis, keepdim=keepdim and self.array.ndim > 0)

    def _axis_or_all(self, dim: int | None, what: str) -> tuple[Any, int | None]:
        x = with_axis(self)
        axis = None if dim is None else axis_of(x, dim, what)
        some_elements(x, tuple(range(x.array.ndim)) if axis is None else (axis,), what)
        return x, axis

    @numpy_names
    def logsumexp(self, dim: Dims, keepdim: bool = False) -> Tensor:
        """ln Σ exp x, without overflow."""
        x = self if self.array.dtype.kind == "f" else choice.Cast(self, dtype=dtypes.default_dtype())
        return activation.LogSumExp(x, axes=reduced(self, dim, "logsumexp"), keepdim=keepdim)

    @numpy_names
    def softmax(self, dim: int, dtype: Any = None) -> Tensor:
        """exp x / Σ exp x along `dim`; see nn.functional.softmax."""
        return along(activation.Softmax, of_floats(_as(self, dtype), "softmax: input"), dim, "softmax")

    @numpy_names
    def log_softmax(self, dim: int, dtype: Any = None) -> Tensor:
        """x − ln Σ exp x along `dim`; see nn.functional.log_softmax."""
        return along(activation.LogSoftmax, of_floats(_as(self, dtype), "log_softmax: input"), dim, "log_softmax")

    @numpy_names
    def any(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """Whether any is not 0; of uint8 as a uint8."""
        found = choice.NotEqual(self, 0) if self.array.dtype.kind != "b" else self
        return _truth(reduction.Any(found, axes=axes_of(self, dim, "any"), keepdim=keepdim), self)

    @numpy_names
    def all(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """Whether none is 0; of uint8 as a uint8."""
        found = choice.NotEqual(self, 0) if self.array.dtype.kind != "b" else self
        return _truth(reduction.All(found, axes=axes_of(self, dim, "all"), keepdim=keepdim), self)

    def aminmax(self, *, dim: int | None = None, keepdim: bool = False) -> Any:
        """(min, max) of all or along axis `dim`."""
        return MinMax(self.amin(dim, keepdim), self.amax(dim, keepdim))

    @numpy_names
    def count_nonzero(self, dim: Dims = None) -> Tensor:
        """How many are not 0."""
        return choice.NotEqual(self, 0).sum(dim)


def _spread(
    x: Any, dim: Any, unbiased: bool | None, correction: float | None, what: str
) -> tuple[tuple[int, ...], float]:
    """(The axes, n − correction)."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    axes = reduced(x, dim, what)
    given = correction if correction is not None else 1 if unbiased is None else int(unbiased)
    return axes, count_of(x, axes) - given


def _numbers(x: Any) -> Any:
    """`x` with 0 for what is no number."""
    return choice.Where(choice.Equal(x, x), x, 0.0) if x.dtype.kind == "f" else x


def _truth(found: Any, x: Any) -> Any:
    """A boolean result, as uint8 where `x` is: PyTorch's, from the time before there were booleans."""
    return choice.Cast(found, dtype=x.dtype) if x.dtype == dtypes.uint8 else found


def _as(x: Any, dtype: Any) -> Any:
    return x if dtype is None else x.to(dtype)
