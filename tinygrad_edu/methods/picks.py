"""Methods that pick elements by their index, or put elements at an index of a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygrad_edu import backend
from tinygrad_edu.methods.common import axis_of, index_of, operand
from tinygrad_edu.ops import arithmetic, choice, shape
from tinygrad_edu.ops import index as pick
from tinygrad_edu.tape import Variable, wrap

if TYPE_CHECKING:
    from tinygrad_edu.tensor import Tensor


class Picks(Variable, result=False):
    """Methods of Tensor that take indices or masks; ids never count from the end, except in x[...]."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Tensor:
        return pick.GetItem(self, index=index_of(key))

    def gather(self, dim: int, index: Any) -> Tensor:
        """out[..., i, ...] = x[..., index[..., i, ...], ...] along `dim`; the other lengths are the index's."""
        axis, at = self._along(dim, index, "gather")
        if any(k > n for i, (k, n) in enumerate(zip(at.array.shape, self.array.shape)) if i != axis):
            raise ValueError(f"gather: index {at.array.shape} is longer than {self.array.shape} beside dim {dim}")
        return pick.Gather(self, at, axis=axis)

    def take_along_dim(self, indices: Any, dim: int | None = None) -> Tensor:
        """x[..., indices[..., i, ...], ...] along `dim`, the other lengths broadcast; of the flattened x where None."""
        x, at = operand(self, self), operand(indices, self)
        if dim is None:
            return x.reshape(-1).gather(0, at.reshape(-1))
        axis = axis_of(self, dim, "take_along_dim")
        lengths = [k if n == 1 else n for n, k in zip(x.array.shape, at.array.shape)]
        wide = [-1 if i == axis else n for i, n in enumerate(lengths)]
        return x.expand(wide).gather(axis, at.expand(wide))

    def scatter_add(self, dim: int, index: Any, src: Any) -> Tensor:
        """x with src[..., i, ...] added at [..., index[..., i, ...], ...] along `dim`."""
        axis, at = self._along(dim, index, "scatter_add")
        source = operand(src, self)
        if source.array.shape != at.array.shape:
            raise ValueError(f"scatter_add: src {source.array.shape} and index {at.array.shape} must have one shape")
        return arithmetic.Add(self, pick.ScatterAdd(source, at, axis=axis, shape=self.array.shape))

    def _along(self, dim: int, index: Any, what: str) -> tuple[int, Any]:
        axis, at = axis_of(self, dim, what), operand(index, self)
        if at.array.ndim != self.array.ndim:
            raise ValueError(
                f"{what}: index needs {self.array.ndim} axes like the input, it has shape {at.array.shape}"
            )
        backend.check_ids(at.array, self.array.shape[axis], what)
        return axis, at

    def index_select(self, dim: int, index: Any) -> Tensor:
        """The elements `index`, a vector, along `dim`."""
        axis, at = axis_of(self, dim, "index_select"), operand(index, self).array
        backend.check_ids(at, self.array.shape[axis], "index_select")
        return pick.GetItem(self, index=(*(slice(None),) * axis, at.reshape(-1).copy()))

    def masked_select(self, mask: Any) -> Tensor:
        """The elements where the boolean `mask` is true, as a vector."""
        return self[operand(mask, self)]

    def scatter(self, dim: int, index: Any, src: Any = None, value: Any = None) -> Tensor:
        """x with src[..., i, ...] (or the number `value`) at [..., index[..., i, ...], ...] along `dim`.

        Raises ValueError where an element would get two values that carry a gradient.
        """
        axis, at = self._along(dim, index, "scatter")
        given = operand(src if value is None else value, self)
        place = grid_of(at.array, axis)
        if given.array.ndim:
            given = given[tuple(slice(n) for n in at.array.shape)]
        if given.requires_grad and backend.names_twice(self.array, place):
            raise ValueError("scatter: the index names an element twice, so which value it gets is not defined")
        if given.array.dtype != self.array.dtype:
            given = choice.Cast(given, dtype=self.array.dtype)
        return pick.SetItem(self, given, index=place)

    def index_add(self, dim: int, index: Any, source: Any, alpha: float = 1) -> Tensor:
        """x with alpha · source[..., i, ...] added at [..., index[i], ...] along `dim`; `index` is a vector."""
        return arithmetic.Add(self, added_at(self, dim, index, source, alpha, "index_add"))

    def index_fill(self, dim: int, index: Any, value: float) -> Tensor:
        """x with the number `value` at every [..., index[i], ...] along `dim`; `index` is a vector."""
        axis, at = axis_of(self, dim, "index_fill"), operand(index, self).array
        backend.check_ids(at, self.array.shape[axis], "index_fill")
        return pick.SetItem(self, value, index=(*(slice(None),) * axis, at.copy()))

    def nonzero(self, as_tuple: bool = False) -> Any:
        """The indices of the elements that are not 0: [how many, axes], or a vector for each axis if `as_tuple`."""
        found = self.array.nonzero()
        if as_tuple:
            return tuple(wrap(self.result, at) for at in found)
        return wrap(self.result, backend.module_of(self.array).stack(found, axis=1))

    argwhere = nonzero

    def take(self, index: Any) -> Tensor:
        """The elements `index` of the flattened tensor, in the shape of the index."""
        at = operand(index, self).array
        backend.check_ids(at, self.array.size, "take")
        return pick.GetItem(shape.Reshape(self, shape=(self.array.size,)), index=(at.copy(),))

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """The elements [i, i + offset] of two axes as a last axis instead of the two. Read only, in the same memory."""
        first, second = axis_of(self, dim1, "diagonal"), axis_of(self, dim2, "diagonal")
        if first == second:
            raise ValueError(f"diagonal: dim1 {dim1} and dim2 {dim2} are one axis; name two")
        return pick.Diagonal(self, offset=offset, first=first, second=second)

    def diag(self, diagonal: int = 0) -> Tensor:
        """The diagonal of a matrix, or the matrix [n, n] with a vector on its diagonal and 0 elsewhere."""
        if self.array.ndim == 2:
            return self.diagonal(diagonal)
        if self.array.ndim != 1:
            raise ValueError(f"diag: needs a vector or a matrix, got shape {self.array.shape}; use .diagonal")
        size = self.array.size + abs(diagonal)
        along = backend.module_of(self.array).arange(self.array.size)
        place = (along + max(-diagonal, 0), along + max(diagonal, 0))
        return pick.PutAdd(self, index=place, shape=(size, size))

    def trace(self) -> Tensor:
        """The sum of a matrix's diagonal."""
        return self.diagonal().sum()

    def unique(self, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Any:
        """The different elements in order; with them, if asked for, where each element went and how many there were."""
        found = backend.module_of(self.array).unique(
            self.array, return_inverse=return_inverse, return_counts=return_counts
        )
        return tuple(wrap(self.result, x) for x in found) if isinstance(found, tuple) else wrap(self.result, found)

    def bincount(self, weights: Any = None, minlength: int = 0) -> Tensor:
        """How often each of 0, 1, ... is an element of a vector of integers, or the sums of their weights."""
        w = weights.array if isinstance(weights, Variable) else weights
        return wrap(self.result, backend.module_of(self.array).bincount(self.array, w, minlength))


def grid_of(index: Any, axis: int) -> tuple[Any, ...]:
    """The index arrays that stand for [..., index[..., i, ...], ...] along `axis`."""
    xp, n = backend.module_of(index), index.ndim
    grid = [xp.arange(k).reshape((1,) * i + (k,) + (1,) * (n - i - 1)) for i, k in enumerate(index.shape)]
    grid[axis] = index.copy()
    return tuple(xp.broadcast_arrays(*grid)) if n else (index.copy(),)


def added_at(x: Any, dim: int, index: Any, source: Any, alpha: float, what: str) -> Any:
    """alpha · source at the places `index` of axis `dim`, 0 elsewhere, in the shape of `x`."""
    axis, at, values = axis_of(x, dim, what), operand(index, x).array, operand(source, x)
    backend.check_ids(at, x.array.shape[axis], what)
    expected = (*x.array.shape[:axis], at.size, *x.array.shape[axis + 1 :])
    if values.array.shape != expected:
        raise ValueError(f"{what}: source needs the shape {expected}, it has {values.array.shape}")
    scaled = values if alpha == 1 else values * alpha
    return pick.PutAdd(scaled, index=(*(slice(None),) * axis, at.copy()), shape=x.array.shape)
