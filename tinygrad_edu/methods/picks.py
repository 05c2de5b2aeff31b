"""Methods that pick elements by their index, or put elements at an index of a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tinygrad_edu.arrays import devices, dtypes, indexing, library
from tinygrad_edu.engine.tape import Variable
from tinygrad_edu.methods.common import axis_of, index_of, mask_of, of_vectors, operand, widened, with_axis
from tinygrad_edu.methods.keys import numbers_first
from tinygrad_edu.ops import arithmetic, shape
from tinygrad_edu.ops import index as pick

if TYPE_CHECKING:
    from tinygrad_edu.tensor import Tensor


class Picks(Variable, result=False):
    """Methods of Tensor that take indices or masks; ids never count from the end, except in x[...]."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Tensor:
        if (steps := numbers_first(key)) is not None:
            return self[steps[0]][steps[1]]
        return pick.GetItem(self, index=index_of(key, self))

    @of_vectors
    def gather(self, dim: int, index: Any, *, sparse_grad: bool = False) -> Tensor:
        """out[..., i, ...] = x[..., index[..., i, ...], ...] along `dim`; the other lengths are the index's."""
        axis, at = self._along(dim, index, "gather")
        if not at.array.size:
            return pick.GetItem(shape.Reshape(self, shape=(self.array.size,)), index=(at.array.astype(int),))
        if any(k > n for i, (k, n) in enumerate(zip(at.array.shape, self.array.shape)) if i != axis):
            raise ValueError(f"gather: index {at.array.shape} is longer than {self.array.shape} beside dim {dim}")
        return pick.Gather(self, at, axis=axis)

    def take_along_dim(self, indices: Any, dim: int | None = None) -> Tensor:
        """x[..., indices[..., i, ...], ...] along `dim`, the other lengths broadcast; of the flattened x where None.
        Indices below 0 count from the end.
        """
        x, at = operand(self, self), operand(indices, self)
        if dim is None:
            return x.reshape(-1).take_along_dim(at.reshape(-1), 0)
        axis = axis_of(self, dim, "take_along_dim")
        at = _from_start(at, self.array.shape[axis], "take_along_dim")
        lengths = [k if n == 1 else n for n, k in zip(x.array.shape, at.array.shape)]
        wide = [-1 if i == axis else n for i, n in enumerate(lengths)]
        return x.expand(wide).gather(axis, at.expand(wide))

    @of_vectors
    def scatter_add(self, dim: int, index: Any, src: Any) -> Tensor:
        """x with src[..., i, ...] added at [..., index[..., i, ...], ...] along `dim`."""
        axis, at = self._along(dim, index, "scatter_add")
        source = same_dtype(operand(src, self), self, "scatter_add: src")
        if source.array.shape != at.array.shape:
            raise ValueError(f"scatter_add: src {source.array.shape} and index {at.array.shape} must have one shape")
        return arithmetic.Add(self, pick.ScatterAdd(source, at, axis=axis, shape=self.array.shape))

    def _along(self, dim: int, index: Any, what: str) -> tuple[int, Any]:
        axis, at = axis_of(self, dim, what), operand(index, self)
        if at.array.ndim != self.array.ndim and at.array.size:
            raise ValueError(
                f"{what}: index needs {self.array.ndim} axes like the input, it has shape {at.array.shape}"
            )
        indexing.check_ids(at.array, self.array.shape[axis], what)
        return axis, at

    @of_vectors
    def index_select(self, dim: int, index: Any) -> Tensor:
        """The elements `index`, a vector, along `dim`."""
        axis, at = axis_of(self, dim, "index_select"), operand(index, self).array
        indexing.check_ids(at, self.array.shape[axis], "index_select")
        if at.ndim > 1:
            raise IndexError(
                f"index_select: index must be a vector, got shape {at.shape}; x[..., index] takes any shape"
            )
        return pick.GetItem(self, index=(*(slice(None),) * axis, at.reshape(-1).copy()))

    def masked_select(self, mask: Any) -> Tensor:
        """The elements where the boolean `mask` is true, as a vector; both broadcast."""
        where = mask_of(mask, self, "masked_select")
        full = np.broadcast_shapes(self.array.shape, where.array.shape)
        return self.expand(full)[where.expand(full)]  # type: ignore[attr-defined]

    def masked_scatter(self, mask: Any, source: Any) -> Tensor:
        """x, broadcast to the shape of `mask`, with the first elements of `source` where the boolean mask is true."""
        where, values = mask_of(mask, self, "masked_scatter"), operand(source, self)
        same_dtype(values, self, "masked_scatter: source")
        full = np.broadcast_shapes(self.array.shape, where.array.shape)
        x, where = self.expand(full), where.expand(full)  # type: ignore[attr-defined]
        count = where.array.sum().item()
        if count > values.array.size:
            raise ValueError(f"masked_scatter: {count} places to fill, but source has {values.array.size} elements")
        return pick.SetItem(x, values.reshape(-1)[:count], index=(where.array.copy(),))

    @of_vectors
    def scatter(self, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Tensor:
        """x with src[..., i, ...] (or the number `value`) at [..., index[..., i, ...], ...] along `dim`.

        `reduce` "add" adds it to what is there, "multiply" multiplies. Raises ValueError where an element would get two
        values that carry a gradient.
        """
        axis, at = self._along(dim, index, "scatter")
        given = written(src, value, self, at.array.shape, "scatter")
        if reduce is not None:
            if reduce not in ("add", "multiply"):
                raise ValueError(f"scatter: reduce is 'add' or 'multiply', not {reduce!r}; see scatter_reduce")
            wide = given if given.array.ndim else given.expand(at.array.shape)
            return self.scatter_reduce(dim, at, wide, "sum" if reduce == "add" else "prod")
        place = grid_of(at.array, axis)
        if given.requires_grad and indexing.names_twice(self.array, place):
            raise ValueError("scatter: the index names an element twice, so which value it gets is not defined")
        return pick.SetItem(self, given, index=place)

    @of_vectors
    def scatter_reduce(self, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Tensor:
        """x with all src[..., i, ...] that go to one [..., index[..., i, ...], ...] along `dim` put together there.

        Args:
            reduce: "sum", "prod", "mean", "amax" or "amin".
            include_self: whether the element of x at such a place is one of them.
        """
        axis, at = self._along(dim, index, "scatter_reduce")
        given = written(src, None, self, at.array.shape, "scatter_reduce")
        if reduce not in _NEUTRAL:
            raise ValueError(f"scatter_reduce: reduce is one of {', '.join(_NEUTRAL)}, not {reduce!r}")
        if self.array.dtype == dtypes.float16:
            return widened(type(self).scatter_reduce)(self, dim, at, given, reduce, include_self=include_self)
        x: Any = self
        if not include_self:
            x = pick.SetItem(x, _NEUTRAL[reduce](self.array), index=grid_of(at.array, axis))
        if reduce in ("amax", "amin"):
            return pick.ScatterExtreme(x, given, at, axis=axis, largest=reduce == "amax")
        if reduce == "prod":
            return _multiplied(x, at.array, given, axis)
        total = arithmetic.Add(x, pick.ScatterAdd(given, at, axis=axis, shape=self.array.shape))
        if reduce == "sum":
            return total
        count = library.module_of(self.array).zeros(self.array.shape, dtype=self.array.dtype)
        indexing.add_along(count, at.array, 1, axis)
        count = count + 1 if include_self else count.clip(1)
        return (arithmetic.Div if self.array.dtype.kind == "f" else arithmetic.FloorDivide)(total, count)

    @of_vectors
    def index_copy(self, dim: int, index: Any, source: Any) -> Tensor:
        """x with source[..., i, ...] at [..., index[i], ...] along `dim`; `index` is a vector."""
        axis, at = axis_of(self, dim, "index_copy"), operand(index, self).array
        indexing.check_ids(at, self.array.shape[axis], "index_copy")
        given = same_dtype(operand(source, self), self, "index_copy: source")
        return pick.SetItem(self, given, index=(*(slice(None),) * axis, at.copy()))

    def index_put(self, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
        """x with `values` at x[indices], a tuple of index tensors; added to what is there if `accumulate`."""
        place, given = index_of(tuple(indices), self), same_dtype(operand(values, self), self, "index_put: values")
        if not accumulate:
            return pick.SetItem(self, given, index=place)
        given = given.expand(self.array[place].shape)
        return arithmetic.Add(self, pick.PutAdd(given, index=place, shape=self.array.shape))

    @of_vectors
    def index_add(self, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Tensor:
        """x with alpha · source[..., i, ...] added at [..., index[i], ...] along `dim`; `index` is a vector."""
        return arithmetic.Add(self, added_at(self, dim, index, source, alpha, "index_add"))

    def index_fill(self, dim: int, index: Any, value: float) -> Tensor:
        """x with the number `value` at every [..., index[i], ...] along `dim`; `index` is a vector, below 0 from the
        end."""
        return self.masked_fill(at_index(self, dim, index, "index_fill"), value)  # type: ignore[attr-defined]

    def take(self, index: Any) -> Tensor:
        """The elements `index` of the flattened tensor, in the shape of the index; below 0 they count from the end."""
        at = _from_start(operand(index, self), self.array.size, "take").array
        return pick.GetItem(shape.Reshape(self, shape=(self.array.size,)), index=(at.copy(),))

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """The elements [i, i + offset] of two axes as a last axis instead of the two, in the same memory."""
        first, second = axis_of(self, dim1, "diagonal"), axis_of(self, dim2, "diagonal")
        if first == second:
            raise ValueError(f"diagonal: dim1 {dim1} and dim2 {dim2} are one axis; name two")
        return pick.Diagonal(self, offset=offset, first=first, second=second)

    def diag(self, diagonal: int = 0) -> Tensor:
        """A copy of the diagonal of a matrix, or the matrix [n, n] with a vector on its diagonal and 0 elsewhere."""
        if self.array.ndim == 2:
            return shape.Clone(self.diagonal(diagonal))
        if self.array.ndim != 1:
            raise ValueError(f"diag: needs a vector or a matrix, got shape {self.array.shape}; use .diagonal")
        size = self.array.size + abs(diagonal)
        along = library.module_of(self.array).arange(self.array.size)
        place = (along + max(-diagonal, 0), along + max(diagonal, 0))
        return pick.PutAdd(self, index=place, shape=(size, size))

    def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
        """The last axis on the diagonal `offset` of two new axes `dim1` and `dim2`, 0 elsewhere."""
        first, second = axis_of(self, dim1, "diag_embed", extra=1), axis_of(self, dim2, "diag_embed", extra=1)
        if first == second:
            raise ValueError(f"diag_embed: dim1 {dim1} and dim2 {dim2} are one axis; name two")
        size = self.array.shape[-1] + abs(offset)
        others = iter(self.array.shape[:-1])
        target = tuple(size if i in (first, second) else next(others) for i in range(self.array.ndim + 1))
        return pick.PutDiagonal(self, shape=target, offset=offset, first=first, second=second)

    def trace(self) -> Tensor:
        """The sum of a matrix's diagonal."""
        if self.array.ndim != 2:
            raise ValueError(f"trace: needs a matrix, got shape {self.array.shape}; use .diagonal(...).sum(-1)")
        return self.diagonal().sum()


def at_index(x: Any, dim: int, index: Any, what: str) -> Any:
    """Where the numbers `index` stand along axis `dim`, a mask that broadcasts to the shape of `x`."""
    axis, at = axis_of(with_axis(x), dim, what), operand(index, x).array
    n = x.array.shape[axis] if x.array.ndim else 1
    indexing.check_ids(at, n, what, from_end=True)
    mask = library.module_of(at).zeros(n, dtype=bool)
    mask[at] = True
    return mask.reshape((n,) + (1,) * (x.array.ndim - axis - 1) if x.array.ndim else ())


def _from_start(index: Any, length: int, what: str) -> Any:
    """Indices counted from the start, also those that are below 0."""
    indexing.check_ids(index, length, what, from_end=True)
    return index % length if length and (index.array < 0).any().item() else index


def same_dtype(source: Any, x: Any, what: str) -> Any:
    """`source`, whose dtype must be that of `x`: nothing that is put there is rounded unseen."""
    if source.array.dtype != x.array.dtype:
        raise TypeError(
            f"{what} is {source.array.dtype}, which a tensor of {x.array.dtype} cannot hold unseen; use .to(x.dtype)"
        )
    return source


def written(src: Any, value: Any, x: Any, lengths: tuple[int, ...], what: str) -> Any:
    """What is put at an index of these lengths: the part of `src` that it takes, or the number `value`."""
    if value is None and isinstance(src, int | float):
        src, value = None, src
    if value is not None:
        value = value.array.item() if isinstance(value, Variable) else value
        return operand(devices.new_array(dtypes.number_for(value, x.array.dtype, what), x.array.dtype), x)
    given = same_dtype(operand(src, x), x, f"{what}: src")
    if given.array.ndim:
        given = given[tuple(slice(n) for n in lengths)]
    return given


def grid_of(index: Any, axis: int) -> tuple[Any, ...]:
    """The index arrays that stand for [..., index[..., i, ...], ...] along `axis`."""
    xp, n = library.module_of(index), index.ndim
    grid = [xp.arange(k).reshape((1,) * i + (k,) + (1,) * (n - i - 1)) for i, k in enumerate(index.shape)]
    grid[axis] = index.copy()
    return tuple(xp.broadcast_arrays(*grid)) if n else (index.copy(),)


def added_at(x: Any, dim: int, index: Any, source: Any, alpha: float, what: str) -> Any:
    """alpha · source at the places `index` of axis `dim`, 0 elsewhere, in the shape of `x`."""
    axis, at = axis_of(x, dim, what), operand(index, x).array
    values = same_dtype(operand(source, x), x, f"{what}: source")
    indexing.check_ids(at, x.array.shape[axis], what)
    expected = (*x.array.shape[:axis], at.size, *x.array.shape[axis + 1 :])
    if values.array.shape != expected:
        raise ValueError(f"{what}: source needs the shape {expected}, it has {values.array.shape}")
    scaled = values if alpha == 1 else values * alpha
    return pick.PutAdd(scaled, index=(*(slice(None),) * axis, at.copy()), shape=x.array.shape)


_NEUTRAL: dict[str, Any] = {  # what changes nothing, for an array of x's dtype
    "sum": lambda x: 0,
    "mean": lambda x: 0,
    "prod": lambda x: 1,
    "amax": lambda x: float("-inf") if x.dtype.kind == "f" else x.dtype.kind != "b" and np.iinfo(x.dtype).min,
    "amin": lambda x: float("inf") if x.dtype.kind == "f" else x.dtype.kind == "b" or np.iinfo(x.dtype).max,
}


def _multiplied(x: Any, index: Any, src: Any, axis: int) -> Any:
    """`x` times all of `src` that go to one place, in rounds in which none gets two."""
    xp = library.module_of(index)
    flat = [each.reshape(-1) for each in grid_of(index, axis)]
    places = xp.ravel_multi_index(tuple(flat), x.array.shape) if flat else index.reshape(-1)
    order = xp.argsort(places, kind="stable")
    sorted_ = places[order]
    begins = xp.searchsorted(sorted_, sorted_)  # where the run of equal places begins
    rounds = xp.arange(sorted_.size) - begins
    values = src.reshape(-1)
    flat_x = x.reshape(-1)
    for n in range(rounds.max().item() + 1 if rounds.size else 0):
        now = order[rounds == n]
        at = (places[now],)
        flat_x = pick.SetItem(flat_x, pick.GetItem(flat_x, index=at) * values[now], index=at)
    return flat_x.reshape(x.array.shape)
