"""Methods that arrange elements anew: shapes, axes, pieces, triangles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinygrad_edu.arrays import devices, library
from tinygrad_edu.engine.tape import Variable
from tinygrad_edu.methods.common import (
    Dims,
    axes_of,
    axis_of,
    check_broadcast,
    count_of,
    full_shape,
    integers,
    numpy_names,
    whole,
)
from tinygrad_edu.ops import choice, shape
from tinygrad_edu.ops import index as pick

if TYPE_CHECKING:
    from tinygrad_edu.tensor import Tensor


class Shapes(Variable, result=False):
    """Methods of Tensor that compute nothing; where the memory allows, results show the same memory."""

    __slots__ = ()

    def reshape(self, *given: Any, shape: Any = None) -> Tensor:
        """The elements row by row in another shape; one length may be −1."""
        return _filled(self, integers(given, shape), "reshape")

    def view(self, *given: Any, size: Any = None) -> Tensor:
        """`reshape`. Unlike PyTorch's it copies where the memory allows no view."""
        if len(given) == 1 and not isinstance(given[0], int | tuple | list) and not hasattr(given[0], "__index__"):
            raise TypeError(f"view: lengths are integers, got {given[0]!r}; .to(dtype) converts")
        return _filled(self, integers(given, size), "view")

    def view_as(self, other: Variable) -> Tensor:
        """In the shape of `other`."""
        return self.reshape(other.array.shape)

    reshape_as = view_as

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """The axes from `start_dim` to `end_dim` as one."""
        lengths = self.array.shape
        if not lengths:
            return shape.Reshape(self, shape=(1,))
        first, last = axis_of(self, start_dim, "flatten"), axis_of(self, end_dim, "flatten")
        if first > last:
            raise ValueError(f"flatten: start_dim {start_dim} lies behind end_dim {end_dim}")
        joined = count_of(self, tuple(range(first, last + 1)))
        return shape.Reshape(self, shape=(*lengths[:first], joined, *lengths[last + 1 :]))

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Tensor:
        """Axis `dim` as several of the lengths `sizes`, one of which may be −1."""
        axis = axis_of(self, dim, "unflatten")
        lengths = self.array.shape
        known = math.prod(n for n in sizes if n != -1)
        whole = [lengths[axis] // known if n == -1 and known else n for n in sizes]  # also where another axis has 0
        return self.reshape((*lengths[:axis], *whole, *lengths[axis + 1 :]))

    @numpy_names
    def unsqueeze(self, dim: int) -> Tensor:
        """A new axis of 1 at `dim`."""
        at = axis_of(self, dim, "unsqueeze", extra=1)
        return shape.Reshape(self, shape=(*self.array.shape[:at], 1, *self.array.shape[at:]))

    @numpy_names
    def squeeze(self, dim: Dims = None) -> Tensor:
        """Without the axes of 1, or without those among `dim`."""
        axes = axes_of(self, dim, "squeeze")
        return shape.Reshape(self, shape=tuple(n for i, n in enumerate(self.array.shape) if n != 1 or i not in axes))

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        """Two axes exchanged."""
        if not self.array.ndim and {dim0, dim1} <= {0, -1}:
            return shape.Alias(self)
        return shape.Transpose(self, dim0=axis_of(self, dim0, "transpose"), dim1=axis_of(self, dim1, "transpose"))

    swapdims = transpose

    def swapaxes(self, axis0: int, axis1: int) -> Tensor:
        """`transpose`."""
        return self.transpose(axis0, axis1)

    def permute(self, *given: Any, dims: Any = None) -> Tensor:
        """The axes in another order."""
        axes = tuple(axis_of(self, d, "permute") for d in integers(given, dims))
        if sorted(axes) != list(range(self.array.ndim)):
            raise ValueError(f"permute: {integers(given, dims)} does not name each of the {self.array.ndim} axes once")
        return shape.Permute(self, axes=axes)

    def movedim(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
        """One axis, or several, moved to other places, the others in order."""
        if not self.array.ndim and {*integers((source,)), *integers((destination,))} <= {0, -1}:
            return shape.Alias(self)
        starts = [axis_of(self, d, "movedim") for d in integers((source,))]
        ends = [axis_of(self, d, "movedim") for d in integers((destination,))]
        if len(starts) != len(ends) or len({*starts}) != len(starts) or len({*ends}) != len(ends):
            raise ValueError(f"movedim: {source} and {destination} must name equally many axes, each once")
        axes = [i for i in range(self.array.ndim) if i not in starts]
        for end, start in sorted(zip(ends, starts)):
            axes.insert(end, start)
        return shape.Permute(self, axes=tuple(axes))

    moveaxis = movedim

    def t(self) -> Tensor:
        """A matrix transposed; vectors and numbers stay."""
        if self.array.ndim > 2:
            raise ValueError(f"t: needs at most two axes, got shape {self.array.shape}; use .transpose or .mT")
        return shape.Permute(self, axes=tuple(reversed(range(self.array.ndim))))

    @property
    def mT(self) -> Tensor:
        """The last two axes exchanged."""
        n = self.array.ndim
        if n < 2:
            raise ValueError(f"mT: needs two axes, this tensor has shape {self.array.shape}")
        return shape.Transpose(self, dim0=n - 2, dim1=n - 1)

    @property
    def T(self) -> Tensor:
        """The axes in reverse order."""
        return shape.Permute(self, axes=tuple(reversed(range(self.array.ndim))))

    def expand(self, *given: Any, size: Any = None) -> Tensor:
        """Axes of 1 copied up to a length, new ones in front; −1 keeps a length. No memory is used."""
        target, lengths = integers(given, size), self.array.shape
        lead = len(target) - len(lengths)
        target = tuple(lengths[i - lead] if n == -1 and i >= lead else n for i, n in enumerate(target))
        check_broadcast(lengths, target, "expand")
        return shape.Expand(self, shape=target)

    def expand_as(self, other: Variable) -> Tensor:
        """Expanded to the shape of `other`."""
        return self.expand(other.array.shape)

    def repeat(self, *given: Any, repeats: Any = None) -> Tensor:
        """A copy: the whole, `repeats` times along each axis, new axes in front."""
        times, lengths = integers(given, repeats), self.array.shape
        lead = len(times) - len(lengths)
        if lead < 0:
            raise ValueError(f"repeat: {len(lengths)} axes need as many numbers at least, got {times}")
        if any(n < 0 for n in times):
            raise ValueError(f"repeat: nothing is there a negative number of times, got {times}")
        full = (1,) * lead + lengths
        apart = shape.Reshape(self, shape=tuple(k for n in full for k in (1, n)))
        spread = shape.Expand(apart, shape=tuple(k for r, n in zip(times, full) for k in (r, n)))
        return shape.Reshape(shape.Clone(spread), shape=tuple(r * n for r, n in zip(times, full)))

    @numpy_names
    def repeat_interleave(self, repeats: Any, dim: int | None = None, *, output_size: int | None = None) -> Tensor:
        """Every element `repeats` times, one behind the other, along `dim`, or flattened."""
        x: Any = self if dim is not None else self.reshape(-1)
        axis = axis_of(x, dim if dim is not None else 0, "repeat_interleave")
        xp = library.module_of(self.array)
        times: Any = repeats
        if isinstance(repeats, Variable | list | tuple) or library.is_array(repeats):
            times = repeats.array if isinstance(repeats, Variable) else devices.new_array(repeats)
            if times.dtype.kind not in "iu" or times.ndim > 1 or (times < 0).any().item():
                raise ValueError(
                    f"repeat_interleave: repeats holds integers of at least 0 in one axis, got {times.dtype} of shape "
                    f"{times.shape}"
                )
        else:
            times = whole(repeats, "repeat_interleave: repeats", 0)
        at = xp.repeat(xp.arange(x.array.shape[axis]), times)
        if output_size is not None and at.size != output_size:
            raise ValueError(f"repeat_interleave: output_size is {output_size}, but {at.size} elements came out")
        return pick.GetItem(x, index=(*(slice(None),) * axis, at))

    def ravel(self) -> Tensor:
        """All elements as a vector, row by row: in the same memory where they lie so in it, else a copy."""
        return shape.Reshape(self.contiguous(), shape=(self.array.size,))

    def broadcast_to(self, size: Any) -> Tensor:
        """`expand`."""
        return self.expand(size)

    def tile(self, *given: Any, dims: Any = None) -> Tensor:
        """`repeat`; where there are fewer numbers than axes, the first axes stay."""
        times = integers(given, dims)
        return self.repeat((1,) * (self.array.ndim - len(times)) + times)

    def contiguous(self, memory_format: Any = None) -> Tensor:
        """Itself, or a copy with rows in order where its memory is not."""
        return self if self.array.flags.c_contiguous else shape.Clone(self)  # type: ignore[return-value]

    def is_contiguous(self) -> bool:
        """Whether the rows lie in memory in order."""
        return bool(self.array.flags.c_contiguous)

    @numpy_names
    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
        """Pieces along `dim`: each of `split_size`, the last shorter, or of the lengths given."""
        axis = axis_of(self, dim, "split")
        n = self.array.shape[axis]
        if isinstance(split_size, int):
            if split_size < 1:
                raise ValueError(f"split: the size of a piece must be at least 1, got {split_size}")
            sizes = [min(split_size, n - i) for i in range(0, n, split_size)] or [0]
        else:
            sizes = [int(s) for s in split_size]
            if sum(sizes) != n or min(sizes, default=0) < 0:
                raise ValueError(f"split: lengths {sizes} do not add up to {n}, the length of axis {dim}")
        return shape.Split(self, sizes=tuple(sizes), axis=axis)

    @numpy_names
    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """At most `chunks` pieces of equal length along `dim`, the last one shorter if need be."""
        if chunks < 1:
            raise ValueError(f"chunk: the number of pieces must be at least 1, got {chunks}")
        n = self.array.shape[axis_of(self, dim, "chunk")]
        return self.split(-(-n // chunks) if n else [0] * chunks, dim)

    @numpy_names
    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """The slices along `dim`, without that axis."""
        return shape.Unbind(self, axis=axis_of(self, dim, "unbind"))

    def narrow(self, dim: int, start: Any, length: int) -> Tensor:
        """`length` elements from `start` on along `dim`."""
        if isinstance(start, Variable):
            if start.array.ndim or start.array.dtype.kind not in "iu":
                raise TypeError(f"narrow: start is an integer, got a tensor of {start.array.dtype} {start.array.shape}")
            start = start.array.item()
        axis = axis_of(self, dim, "narrow")
        n = self.array.shape[axis]
        begin = start + n if start < 0 else start
        if not 0 <= begin <= begin + length <= n:
            raise IndexError(f"narrow: {length} elements from {start} do not lie within the {n} of dim {dim}")
        return shape.Narrow(self, axis=axis, start=begin, stop=begin + length)

    def unfold(self, dimension: int, size: int, step: int = 1) -> Tensor:
        """Windows of `size` elements along `dimension`, one every `step`: their elements are a new last axis.

        They show the same memory (a copy on a GPU); where they overlap they cannot be written to.
        """
        if not self.array.ndim:
            return shape.Reshape(self, shape=(1,)).unfold(dimension, size, step)[0]
        axis = axis_of(self, dimension, "unfold")
        n = self.array.shape[axis]
        if not 0 < size <= n or step < 1:
            raise ValueError(f"unfold: a window of {size} every {step} elements does not fit into the {n} of the axis")
        return pick.Windows(self, axis=axis, size=size, step=step)

    def select(self, dim: int, index: int) -> Tensor:
        """Element `index` along `dim`, without that axis."""
        return pick.GetItem(self, index=(*(slice(None),) * axis_of(self, dim, "select"), index.__index__()))

    @numpy_names
    def flip(self, *given: Any, dims: Any = None) -> Tensor:
        """From back to front along `dims`."""
        return shape.Flip(self, axes=axes_of(self, integers(given, dims), "flip"))

    def fliplr(self) -> Tensor:
        """From back to front along axis 1."""
        return shape.Flip(self, axes=(axis_of(self, 1, "fliplr"),))

    def flipud(self) -> Tensor:
        """From back to front along axis 0."""
        return shape.Flip(self, axes=(axis_of(self, 0, "flipud"),))

    @numpy_names
    def roll(self, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
        """Moved on by `shifts` along `dims`, what leaves at the end comes in at the start; flattened without `dims`."""
        if dims is None:
            flat = shape.Roll(self.reshape(-1), shifts=(whole(shifts, "roll: shifts, without dims,"),), axes=(0,))
            return shape.Reshape(flat, shape=self.array.shape)
        steps, axes = integers((shifts,)), tuple(axis_of(self, d, "roll") for d in integers((dims,)))
        if len(steps) != len(axes) or not steps:
            raise ValueError(f"roll: {len(steps)} shifts for {len(axes)} axes; give one for each")
        return shape.Roll(self, shifts=steps, axes=axes)

    def tril(self, diagonal: int = 0) -> Tensor:
        """The lower triangle of the last two axes, 0 above `diagonal`."""
        return choice.MaskedFill(self, ~triangle(self, diagonal, "tril"), value=0)

    def triu(self, diagonal: int = 0) -> Tensor:
        """The upper triangle of the last two axes, 0 below `diagonal`."""
        return choice.MaskedFill(self, triangle(self, diagonal - 1, "triu"), value=0)


def _filled(x: Any, target: tuple[int, ...], what: str) -> Any:
    return shape.Reshape(x, shape=full_shape(x, target, what))


def triangle(x: Variable, diagonal: int, what: str) -> Any:
    """[n, m], True on and below `diagonal` of the last two axes of `x`."""
    if x.array.ndim < 2:
        raise ValueError(f"{what}: needs two axes, got shape {x.array.shape}")
    return library.module_of(x.array).tri(*x.array.shape[-2:], diagonal, dtype=bool)
