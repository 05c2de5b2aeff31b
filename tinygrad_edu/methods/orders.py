"""Methods along one axis: order, what stands where in it, running sums and extremes, differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygrad_edu.arrays import devices
from tinygrad_edu.engine.tape import Variable
from tinygrad_edu.methods.common import (
    ValuesIndices,
    along,
    axis_of,
    numpy_names,
    of_floats,
    operand,
    some_elements,
    whole,
    widened,
    with_axis,
)
from tinygrad_edu.ops import arithmetic, choice, curve, order, reduction, running, shape
from tinygrad_edu.ops import index as pick

if TYPE_CHECKING:
    from tinygrad_edu.tensor import Tensor


class Orders(Variable, result=False):
    """Methods of Tensor that compare or add up elements along one axis; a tensor of no axes counts as a vector of 1."""

    __slots__ = ()

    @numpy_names
    def sort(self, dim: int = -1, descending: bool = False, *, stable: bool = True) -> Any:
        """(values, indices) in order along `dim`; equal elements always keep their order, NaN counts as largest."""
        x = with_axis(self)
        found = order.Sort(x, axis=axis_of(x, dim, "sort"), descending=descending)
        return ValuesIndices(*(_shaped(each, self) for each in found))

    @numpy_names
    def argsort(self, dim: int = -1, descending: bool = False, *, stable: bool = True) -> Tensor:
        """The indices of `sort`."""
        return self.sort(dim, descending).indices

    def msort(self) -> Tensor:
        """In order along axis 0."""
        return self.sort(0).values

    @numpy_names
    def topk(self, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
        """(values, indices) of the `k` largest (or smallest) along `dim`, always in order."""
        x = with_axis(self)
        axis = axis_of(x, dim, "topk")
        n, k = x.array.shape[axis], whole(k, "topk: k")
        if not 0 <= k <= n:
            raise ValueError(f"topk: k must lie in 0 to {n}, the length of dim {dim}; got {k}")
        return ValuesIndices(*(_shaped(each, self) for each in order.Topk(x, k=int(k), axis=axis, largest=largest)))

    @numpy_names
    def kthvalue(self, k: int, dim: int = -1, keepdim: bool = False) -> Any:
        """(values, indices) of the `k`-th smallest along `dim`, counted from 1; NaN counts as largest."""
        x = with_axis(self)
        axis = axis_of(x, dim, "kthvalue")
        n, k = x.array.shape[axis], whole(k, "kthvalue: k")
        if not 1 <= k <= n:
            raise ValueError(f"kthvalue: k must lie in 1 to {n}, the length of dim {dim}; got {k}")
        return _placed(order.Sort(x, axis=axis), axis, int(k) - 1, keepdim and self.array.ndim > 0)

    @numpy_names
    def median(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The element in the middle, the lower of two: of all, or (values, indices) along axis `dim`; NaN among NaN.

        Along an axis the gradient goes to the element at the index; equal ones share that of the median of all evenly.
        """
        if dim is None:
            flat: Any = shape.Reshape(self, shape=(self.array.size,))
            middle = shape.Detach(flat.median(0).values)
            equal = flat[(flat == middle) | (flat.isnan() & middle.isnan())]
            return reduction.Amax(equal, axes=(0,)) if not middle.isnan() else equal.mean()
        x = with_axis(self)
        axis = axis_of(x, dim, "median")
        some_elements(x, (axis,), "median")
        n, found = x.array.shape[axis], order.Sort(x, axis=axis)
        keepdim = keepdim and self.array.ndim > 0
        middle, last = _placed(found, axis, (n - 1) // 2, keepdim), order.Max(x, axis=axis, keepdim=keepdim)  # or a NaN
        return ValuesIndices(*(choice.Where(last[0].isnan(), end, each) for end, each in zip(last, middle)))

    @numpy_names
    def quantile(
        self, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
    ) -> Tensor:
        """The value below which the share `q` of the elements lies, of all or along `dim`; NaN among NaN.

        Args:
            q: from 0 to 1, a number, or a vector [Q], which gives the result an axis Q in front.
            interpolation: between two elements "linear", "lower", "higher", "midpoint" or "nearest".
        """
        shares = operand(q if isinstance(q, Variable) else devices.new_array(q, self.array.dtype), self)
        if shares.array.ndim > 1 or not ((shares.array >= 0) & (shares.array <= 1)).all().item():
            raise ValueError(f"quantile: q holds numbers from 0 to 1 in at most one axis, got {q}")
        x: Any = shape.Reshape(self, shape=(self.array.size,)) if dim is None else with_axis(self)
        axis = axis_of(x, 0 if dim is None else dim, "quantile")
        some_elements(x, (axis,), "quantile")
        ordered = order.Sort(x, axis=axis)[0].movedim(axis, 0)
        places = shares.to(x.dtype).reshape(-1) * (ordered.shape[0] - 1)
        low, high = places.floor(), places.ceil()
        if interpolation == "nearest":
            low = high = places.round()
        elif interpolation not in ("linear", "lower", "higher", "midpoint"):
            raise ValueError(
                f"quantile: interpolation {interpolation!r} is not linear, lower, higher, midpoint, nearest"
            )
        apart = {"lower": 0.0, "higher": 1.0, "midpoint": 0.5}.get(interpolation)
        weight: Any = apart if apart is not None else (places - low).reshape(-1, *(1,) * (ordered.ndim - 1))
        found = ordered.index_select(0, low.long()).lerp(ordered.index_select(0, high.long()), weight)
        found = choice.Where(ordered[-1].isnan(), float("nan"), found)
        if not self.array.ndim:
            found = found.reshape(-1)
        elif keepdim:
            lengths = (1,) * self.array.ndim
            found = found.unsqueeze(axis + 1) if dim is not None else found.reshape(-1, *lengths)
        return found if shares.array.ndim else found[0]

    @numpy_names
    def cumsum(self, dim: int, *, dtype: Any = None) -> Tensor:
        """out_i = Σ x_j over j ≤ i along `dim`, in `dtype` if that is given; of integers and booleans else in int64."""
        return _running(running.Cumsum, self, dim, dtype, "cumsum")

    @numpy_names
    def cumprod(self, dim: int, *, dtype: Any = None) -> Tensor:
        """out_i = Π x_j over j ≤ i along `dim`, in `dtype` if that is given; of integers and booleans else in int64."""
        return _running(running.Cumprod, self, dim, dtype, "cumprod")

    @numpy_names
    @widened
    def logcumsumexp(self, dim: int) -> Tensor:
        """out_i = ln Σ exp x_j over j ≤ i along `dim`, without overflow."""
        x = with_axis(of_floats(self, "logcumsumexp"))
        axis = axis_of(x, dim, "logcumsumexp")
        return _shaped(running.scan(curve.LogAddExp, x, axis, float("-inf")), self)

    @numpy_names
    def cummax(self, dim: int) -> Any:
        """(values, indices) of the largest so far along `dim`, the last where equal."""
        x = with_axis(self)
        found = running.Cummax(x, axis=axis_of(x, dim, "cummax"))
        return ValuesIndices(*(_shaped(each, self) for each in found))

    @numpy_names
    def cummin(self, dim: int) -> Any:
        """(values, indices) of the smallest so far along `dim`, the last where equal."""
        x = with_axis(self)
        found = running.Cummin(x, axis=axis_of(x, dim, "cummin"))
        return ValuesIndices(*(_shaped(each, self) for each in found))

    @numpy_names
    def diff(self, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
        """x_{i+1} − x_i along `dim`, `n` times over; `prepend` and `append` are put on the ends first."""
        axis, n = axis_of(self, dim, "diff"), whole(n, "diff: n", 0)
        parts = [operand(part, self) for part in (prepend, self, append) if part is not None]
        if any(part.array.ndim != self.array.ndim for part in parts):
            raise ValueError(f"diff: prepend and append need {self.array.ndim} axes like the tensor")
        if not n:
            return shape.Clone(self)
        x = shape.Cat(*parts, axis=axis) if len(parts) > 1 else self
        for _ in range(n):
            length = x.array.shape[axis]
            behind = shape.Narrow(x, axis=axis, start=min(1, length), stop=length)
            before = shape.Narrow(x, axis=axis, start=0, stop=max(length - 1, 0))
            x = choice.NotEqual(behind, before) if x.array.dtype.kind == "b" else arithmetic.Sub(behind, before)
        return shape.Clone(x) if x is self else x  # type: ignore[return-value]


def _running(op: Any, x: Any, dim: int, dtype: Any, what: str) -> Any:
    if dtype is None:
        return along(op, x, dim, what)
    return along(op, x.to(dtype), dim, what).to(dtype)


def _shaped(found: Any, x: Variable) -> Any:
    """What was found along the one axis that a tensor of no axes counts as having, without that axis."""
    return found if x.array.ndim or not found.array.size else shape.Reshape(found, shape=())


def _placed(found: Any, axis: int, place: int, keepdim: bool) -> ValuesIndices:
    """What stands at `place` of sorted (values, indices)."""
    at = (*(slice(None),) * axis, slice(place, place + 1) if keepdim else place)
    return ValuesIndices(*(pick.GetItem(each, index=at) for each in found))
