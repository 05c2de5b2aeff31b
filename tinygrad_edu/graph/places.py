"""Where each axis of an op's input stands in its output, told from what the op does and not from lengths."""

from __future__ import annotations

from tinygrad_edu.graph.axis_rules import ELEMENTWISE, REDUCTIONS, RULES, is_array
from tinygrad_edu.graph.record import Application, Record

_KEPT = frozenset(("split", "narrow", "pad", "crop", "expand", "sum_to", "cat", "sort", "set_item"))


def is_elementwise(application: Application) -> bool:
    """Whether an op works element by element on operands that broadcast, or along an axis that stays."""
    op = application.op
    return op in ELEMENTWISE or (op not in RULES and op not in REDUCTIONS and "keepdim" not in application.static)


def places_of(application: Application, record: Record) -> dict[int, int]:
    """By axis of the first input: which axis of the first output it is. Axes that are gone or merged are left out."""
    shape, made = (record.values[i].shape for i in (application.inputs[0] or 0, application.outputs[0]))
    n, m = len(shape), len(made)
    op, static = application.op, application.static
    if op == "transpose":
        found = {i: i for i in range(n)}
        i, j = static["dim0"] % n, static["dim1"] % n
        found[i], found[j] = j, i
        return found
    if op == "permute":
        return {axis % n: at for at, axis in enumerate(static["axes"])}
    if op == "reshape":
        return _reshaped(shape, made)
    if op == "get_item":
        return _picked(static["index"], n)
    if "keepdim" in static or op == "unbind":
        axes = static["axes"] if "axes" in static else (static["axis"],)
        gone = set(range(n)) if axes == (None,) else {axis % n for axis in axes}
        left = [i for i in range(n) if i not in gone]
        return {i: i if static.get("keepdim") else at for at, i in enumerate(left)}
    if op in _KEPT or is_elementwise(application):
        return {i: i + m - n for i in range(n) if i + m - n >= 0}
    return {}


def _reshaped(shape: tuple[int, ...], made: tuple[int, ...]) -> dict[int, int]:
    """The axes that a reshape leaves whole: those with as many elements before them as after it."""
    found, before = {}, 1
    starts = {}
    for at, n in enumerate(made):
        if n != 1:
            starts[before, n] = at
        before *= n
    before = 1
    for i, n in enumerate(shape):
        if n != 1 and (before, n) in starts:
            found[i] = starts[before, n]
        before *= n
    return found


def _picked(index: object, n: int) -> dict[int, int]:
    parts = list(index) if isinstance(index, tuple | list) else [index]
    if any(map(is_array, parts)):
        return {}
    named = sum(part is not None and part != "..." for part in parts)
    if "..." not in parts:
        parts.append("...")
    found, i, at = {}, 0, 0
    for part in parts:
        many = 1 if part != "..." else n - named
        for _ in range(many):
            if part is None:
                at += 1
            elif isinstance(part, int):
                i += 1
            else:
                found[i] = at
                i, at = i + 1, at + 1
    return found
