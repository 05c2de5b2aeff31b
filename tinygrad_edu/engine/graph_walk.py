"""Which records a backward pass will visit, checked to be whole before any rule runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygrad_edu.engine.hooks import Key
from tinygrad_edu.engine.tape import Record, Variable


def leads(source: Record | Variable, index: int, found: dict[int, Record], wanted: set[Key]) -> bool:
    """Whether a gradient for this value is of use: it is wanted, or what is wanted lies behind it."""
    if isinstance(source, Record):
        return source.number in found or (source.number, index) in wanted
    return id(source) in wanted


def reachable(roots: Sequence[Variable], wanted: set[Key] | None) -> dict[int, Record]:
    """The records that the roots came from (and that lead to a wanted value), checked to be whole."""
    lowest = 0
    if wanted is not None and all(isinstance(key, tuple) for key in wanted):
        lowest = min((key[0] for key in wanted), default=0)
    found: dict[int, Record] = {}
    stack: list[Any] = [v.record for v in roots]
    while stack:
        r = stack.pop()
        if type(r) is Record and r.number >= lowest and r.number not in found:
            found[r.number] = r
            stack += [entry[0] for entry in r.inputs if entry]
    if wanted is not None:
        leading: dict[int, Record] = {}
        for n in sorted(found):
            r = found[n]
            if any(entry and leads(*entry, leading, wanted) for entry in r.inputs):
                leading[n] = r
        found = leading
    for r in found.values():
        if r.kept is None:
            raise RuntimeError(
                f"{r.op.name}: this graph was freed by an earlier backward pass, its saved arrays are gone; "
                f"pass retain_graph=True to the earlier one to walk it again"
            )
        for entry in r.versions:
            if entry is not None and entry[0][0] != entry[1]:
                raise RuntimeError(
                    f"{r.op.name}: a value it saved for backward was changed in place since (version {entry[1]} then, "
                    f"{entry[0][0]} now), so its derivative would be wrong; change a copy (x.clone()) instead"
                )
    return found


def uses(found: dict[int, Record]) -> dict[int, int]:
    """How many contributions each leaf waits for."""
    waiting: dict[int, int] = {}
    for r in found.values():
        for entry in r.inputs:
            if entry and isinstance(entry[0], Variable):
                waiting[id(entry[0])] = waiting.get(id(entry[0]), 0) + 1
    return waiting
