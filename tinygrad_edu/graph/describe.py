"""Arrays, ops and static arguments told in plain data."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any

from tinygrad_edu.arrays import devices, library
from tinygrad_edu.engine import tape
from tinygrad_edu.engine.save_plan import Branch
from tinygrad_edu.engine.tape import Op
from tinygrad_edu.graph.record import Application


def is_copy(array: Any, given: Any) -> bool:
    """Whether two arrays hold the same elements: integers, or numbers that are not all the same one."""
    if (
        array.shape != given.shape
        or given.dtype.kind not in "iubf"
        or (array.dtype.kind == "f") != (given.dtype.kind == "f")
    ):
        return False
    x, y = devices.on_host(array), devices.on_host(given)
    return bool((x == y).all()) and (x.dtype.kind != "f" or bool(x.size and (x != x.flat[0]).any()))


@cache
def dtype_of(dtype: Any) -> str:
    """The name of a dtype."""
    return str(dtype)


@cache
def formula_of(op: Any) -> str:
    """The first line of an op's docstring, a template over its arguments."""
    return (inspect.getdoc(op) or "").partition("\n")[0]


@cache
def arguments_of(op: Any, count: int) -> tuple[str, ...]:
    """The names of the inputs of one application, those of `*xs` numbered."""
    fixed = [name for name in op.inputs if name != op.variadic]
    return (*fixed[:count], *(f"{op.variadic}{i}" for i in range(count - len(fixed))))


def names_of(op: type[Op], application: Application) -> list[str]:
    """What may be saved of an op: its result, what it computed besides, its inputs."""
    return ["out", *op.saves, *application.arguments]


def reads_of(record: tape.Record, branch: Branch, application: Application) -> tuple[str, ...]:
    """The names of the saved arrays that a rule reads; what else it reads, such as shapes, is no array."""
    names = [names_of(record.op, application)[place] for place in record.plan.keep]
    pairs = list(zip(names, record.kept or (), strict=False))
    found: list[tuple[str, Any]] = []
    for place in branch.reads:
        found += pairs[place] if isinstance(place, slice) else pairs[place : place + 1]
    return tuple(name for name, kept in found if next(arrays_in(kept), None) is not None)


def arrays_in(value: Any) -> Iterator[Any]:
    """The arrays in a static argument, or in what an op kept."""
    for part in value if isinstance(value, tuple) else (value,):
        if library.is_array(part):
            yield part


def kept_inputs(record: tape.Record) -> dict[int, Any]:
    """What a record kept of its op's inputs, by their places: arrays, and numbers."""
    first = 1 + len(record.op.saves)
    pairs = zip(record.plan.keep, record.kept or (), strict=False)
    return {place - first: kept for place, kept in pairs if place >= first}


def kept_outputs(record: tape.Record) -> dict[int, Any]:
    """The results that a record kept, by their places."""
    if record.kept is None or not record.plan.keeps_out:
        return {}
    kept = record.kept[record.plan.keep.index(0)]
    return dict(enumerate(kept)) if isinstance(kept, tuple) else {0: kept}


def is_optional(op: type[Op], at: int) -> bool:
    """Whether an op may be applied without this input."""
    parameter = inspect.signature(op.forward).parameters[op.inputs[min(at, len(op.inputs) - 1)]]
    return parameter.default is not inspect.Parameter.empty


def axis_words(text: str, shape: tuple[int, ...], where: str) -> list[str | None]:
    """The names of axes in a text such as "B _ d", None for `_`. Raises ValueError where they are not one for each.

    >>> axis_words("B _ d", (2, 5, 4), "x")
    ['B', None, 'd']
    """
    words: list[str | None] = [None if word == "_" else word for word in text.split()]
    if len(words) != len(shape):
        raise ValueError(f"trace: axes name {len(words)} axes of {where} ({text!r}), but its shape is {shape}")
    return words


def picked_names(static: dict[str, Any]) -> dict[str, Any]:
    """What the arrays in static arguments are called as inputs: picked0, picked1, ..., or mask0 where they choose."""
    arrays = [part for value in static.values() for part in arrays_in(value)]
    return {f"{'mask' if array.dtype.kind == 'b' else 'picked'}{i}": array for i, array in enumerate(arrays)}


def plain_arguments(static: dict[str, Any]) -> dict[str, Any]:
    """Static arguments as data, an array in them as the input that it is: {picked0}."""
    names = iter(picked_names(static))

    def told(value: Any) -> Any:
        return f"{{{next(names)}}}" if library.is_array(value) else plain(value)

    return {n: tuple(map(told, value)) if isinstance(value, tuple) else told(value) for n, value in static.items()}


def plain(value: Any) -> Any:
    """A static argument as data: what is no number, text or tuple becomes text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return tuple(plain(item) for item in value)
    if isinstance(value, slice):
        ends = ["" if end is None else str(end) for end in (value.start, value.stop, value.step)]
        return ":".join(ends if ends[2] else ends[:2])
    if value is Ellipsis:
        return "..."
    if library.is_array(value):
        return f"array {'×'.join(map(str, value.shape))}" if value.shape else str(value.item())
    return str(value)
