"""The memory of arrays: views that show several, who may write, copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_edu.arrays.devices import device_of, settle, to_device
from tinygrad_edu.arrays.library import Array, module_of


def address_of(array: Array) -> int:
    """Where the memory of an array begins."""
    interface = getattr(array, "__array_interface__", None) or array.__cuda_array_interface__
    return int(interface["data"][0])


def side_by_side(pieces: list[Any], axis: int) -> Array | None:
    """A view of all pieces as one array, if they already follow each other in one memory along `axis`, else None."""
    first = pieces[0]
    if type(first) is not np.ndarray or type(first.base) is not np.ndarray or not first.base.flags.c_contiguous:
        return None
    start = here = address_of(first)
    length = 0
    for piece in pieces:
        if (
            piece.base is not first.base
            or piece.strides != first.strides
            or piece.dtype != first.dtype
            or address_of(piece) != here
        ):
            return None
        length += piece.shape[axis]
        here += piece.shape[axis] * piece.strides[axis]
    shape = (*first.shape[:axis], length, *first.shape[axis + 1 :])
    return np.ndarray(shape, first.dtype, first.base, start - address_of(first.base), first.strides)


def windows(array: Array, axis: int, size: int, step: int) -> Array:
    """Windows of `size` elements along `axis`, one every `step`, as a new last axis: a view, or a copy on a GPU and of
    memory that NumPy does not own. Read-only where windows overlap."""
    count = (array.shape[axis] - size) // step + 1
    owner = array if array.base is None else array.base
    if type(owner) is not np.ndarray or not (owner.flags.c_contiguous or owner.flags.f_contiguous):
        xp = module_of(array)
        at = xp.arange(count)[:, None] * step + xp.arange(size)
        return xp.moveaxis(array[(*(slice(None),) * axis, at)], axis + 1, -1)
    shape = (*array.shape[:axis], count, *array.shape[axis + 1 :], size)
    strides = (*array.strides[:axis], array.strides[axis] * step, *array.strides[axis + 1 :], array.strides[axis])
    memory = owner if owner.flags.c_contiguous else owner.T
    found = np.ndarray(shape, array.dtype, memory, address_of(array) - address_of(owner), strides)
    found.flags.writeable = array.flags.writeable and size <= step
    return found


def writable(array: Array) -> bool:
    """Whether writing to the array changes its own elements alone; CuPy would write to copied ones, too."""
    if isinstance(array, np.ndarray):
        return array.flags.writeable
    return all(step or n < 2 for step, n in zip(array.strides, array.shape, strict=True))


def unlocked(view: Array, source: Array) -> Array:
    """A view in which no element of `source` stands twice, writable if that is; NumPy hands some out read-only."""
    if isinstance(view, np.ndarray):
        view.flags.writeable = source.flags.writeable
    return view


def copy_beside(array: Array, like: Array) -> Array:
    """A copy on the device of `like`."""
    return array.copy() if type(array) is type(like) else to_device(array, device_of(like))


def own_copy(array: Array) -> Array:
    """A copy in memory of its own, rows in C order."""
    settle(array)
    return array.copy(order="C")
