"""Methods that find and count: where something stands, which values there are, how many; none has a gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tinygrad_edu import random
from tinygrad_edu.arrays import devices, dtypes
from tinygrad_edu.engine.tape import Variable
from tinygrad_edu.methods.common import axis_of, of_floats, operand, whole, with_axis
from tinygrad_edu.ops import search

if TYPE_CHECKING:
    from tinygrad_edu.tensor import Tensor


class Searches(Variable, result=False):
    """Methods of Tensor whose result depends on which values there are."""

    __slots__ = ()

    def nonzero(self, *, as_tuple: bool = False) -> Any:
        """The indices of the elements that are not 0: [how many, axes], or a vector for each axis if `as_tuple`."""
        found = search.Nonzero(with_axis(self))
        if as_tuple:
            return found.unbind(1)
        return found if self.array.ndim else found[:, :0]

    def argwhere(self) -> Tensor:
        """The indices of the elements that are not 0: [how many, axes]."""
        return self.nonzero()

    def unique(
        self, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Any:
        """The different elements, or slices along `dim`, in order; if asked for, where each went, and how many there
        were. Every NaN is an element of its own. As in PyTorch there is no derivative: backward raises
        NotImplementedError; use x.detach().unique() for values that need none."""
        found = search.Unique(self, axis=None if dim is None else axis_of(self, dim, "unique"))
        kept = [x for x, asked in zip(found, (True, return_inverse, return_counts)) if asked]
        return tuple(kept) if len(kept) > 1 else kept[0]

    def bincount(self, weights: Any = None, minlength: int = 0) -> Tensor:
        """How often each of 0, 1, ... is an element of a vector of integers, or the sums of their weights.

        The sums are float32 where the weights are, else float64. As in PyTorch they have no derivative: backward raises
        NotImplementedError; zeros(n).index_add(0, x, weights) has one.
        """
        kind, lengths = self.array.dtype, self.array.shape
        if len(lengths) != 1 or kind.kind not in "iu" or (self.array < 0).any().item():
            raise ValueError(f"bincount: needs a vector of integers of at least 0, got {kind} of shape {lengths}")
        return search.Bincount(self, None if weights is None else operand(weights, self), minlength=minlength)

    def multinomial(
        self, num_samples: int, replacement: bool = False, *, generator: random.Generator | None = None
    ) -> Tensor:
        """Indices drawn with probabilities in proportion to these weights; see `tinygrad_edu.multinomial`."""
        num_samples = whole(num_samples, "multinomial: num_samples", 1)
        of_floats(self, "multinomial: input")
        rows = np.atleast_2d(devices.to_device(self.array, "cpu"))
        if self.array.ndim not in (1, 2) or not rows.size:
            raise ValueError(f"multinomial: input must be [V] or [N, V], V at least 1, got shape {self.array.shape}")
        if not np.isfinite(rows).all() or (rows < 0).any() or not rows.any(axis=1).all():
            raise ValueError("multinomial: weights must be finite, not negative, and above 0 somewhere in every row")
        if not replacement and num_samples > (rows > 0).sum(axis=1).min():
            raise ValueError(f"multinomial: {num_samples} different indices, but a row has fewer weights above 0")
        key = (generator or random.current()).key()
        return search.Multinomial(self, count=num_samples, replacement=replacement, key=key)


def searchsorted(
    sorted_sequence: Any, input: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None
) -> Tensor:
    """Where `input` belongs in an ascending sequence: behind all that are smaller, if `right` behind equal ones, too.

    Args:
        sorted_sequence: a vector, or rows [..., n] of the leading lengths of `input`, each in ascending order.
        input: a number or a tensor. side: "left" or "right", the same as `right`.

    Returns:
        int64 from 0 to n, in the shape of `input`; int32 if `out_int32`.

    >>> import tinygrad_edu as tg
    >>> tg.searchsorted(tg.tensor([1, 3, 5]), tg.tensor([3, 6])).tolist()
    [1, 3]
    """
    like = sorted_sequence if isinstance(sorted_sequence, Variable) else input
    x, values = operand(sorted_sequence, like), operand(input, like)
    if side not in (None, "left", "right") or (side == "left" and right):
        raise ValueError(f"searchsorted: side is 'left' or 'right' and agrees with right, got {side!r}")
    if not x.array.ndim or (x.array.ndim > 1 and x.array.shape[:-1] != values.array.shape[:-1]):
        raise ValueError(
            f"searchsorted: the sequence {x.array.shape} must be a vector, or have the leading lengths of the input "
            f"{values.array.shape}"
        )
    found = search.Searchsorted(x, values, right=right or side == "right")
    return found.to(dtypes.int32) if out_int32 else found


def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The number of the interval between ascending `boundaries` that each element lies in; see `searchsorted`."""
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element is among `test_elements`, or, if `invert`, is not.

    >>> import tinygrad_edu as tg
    >>> tg.isin(tg.tensor([1, 2, 3]), tg.tensor([2, 5])).tolist()
    [False, True, False]
    """
    like = elements if isinstance(elements, Variable) else test_elements
    return search.Isin(operand(elements, like), operand(test_elements, like), invert=invert)
