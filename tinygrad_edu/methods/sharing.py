"""What a change in place is for all others who show that memory: from then on their history leads through it, too."""

from __future__ import annotations

from typing import Any

from tinygrad_edu.arrays import library, memory
from tinygrad_edu.engine import hooks
from tinygrad_edu.engine.tape import Variable, wrap
from tinygrad_edu.ops import index as pick
from tinygrad_edu.ops import shape


def others(v: Variable) -> list[Variable]:
    """Those alive who show the memory of `v`, or a part of it, in the order in which they came to it."""
    return [other for ref in v._version[1:] if (other := ref()) is not None and other is not v]


def twin(v: Variable) -> Variable:
    """The value and history that `v` has now, which the change of `v` itself will not touch."""
    found = wrap(v.result, v.array, v.record, v.index, v._version)
    found.needs = v.needs
    return found


def overlap(v: Variable, other: Variable) -> tuple[Any, Any] | None:
    """(which elements of `other` lie in `v`, a mask; their numbers in `v` row by row), None where none does."""
    xp = library.module_of(v.array)
    start = memory.address_of(v.array)
    mine, theirs = _places(v.array, start).ravel(), _places(other.array, start)
    order = mine.argsort()
    near = xp.searchsorted(mine[order], theirs).clip(0, max(mine.size - 1, 0))
    if not mine.size or not theirs.size:
        return None
    found = order[near]
    hit = mine[found] == theirs
    return (hit, found[hit]) if hit.any() else None


def shows(value: Variable, v: Variable, place: Any) -> bool:
    """Whether `value` is the very view v[place]."""
    if value._version is not v._version or not library.is_array(part := v.array[place]):
        return False
    return (memory.address_of(part), part.shape, part.strides) == (
        memory.address_of(value.array),
        value.array.shape,
        value.array.strides,
    )


def follow(other: Variable, v: Variable) -> None:
    """After `v` was changed: where `other` shows the same elements, its history goes through those of `v`."""
    common = overlap(v, other)
    if common is None:
        return
    lies, numbers = common
    flat = shape.Reshape(twin(v), shape=(v.array.size,))
    new = pick.SetItem(twin(other), pick.GetItem(flat, index=(numbers,)), index=lies)
    hooks.become(other, new)


def _places(array: Any, start: int) -> Any:
    """Where in memory each element lies, counted in elements from the address `start`."""
    xp = library.module_of(array)
    places = xp.full(array.shape, (memory.address_of(array) - start) // array.itemsize)
    for axis, (length, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
        steps = xp.arange(length) * (stride // array.itemsize)
        places += steps.reshape((-1,) + (1,) * (array.ndim - 1 - axis))
    return places
