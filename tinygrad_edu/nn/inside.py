"""How parameters and modules are found among the attributes of a module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def join(path: str, name: Any) -> str:
    return f"{path}.{name}" if path else str(name)


def inside(path: str, value: Any, kind: Any, within: tuple[int, ...] = ()) -> Iterator[tuple[str, Any]]:
    """(name, object) of class `kind` in `value`, through lists, tuples and dicts; `within` stops circles."""
    if isinstance(value, kind):
        yield path, value
    elif isinstance(value, list | tuple | dict) and id(value) not in within:
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            if not isinstance(item, str | int | float):
                yield from inside(join(path, name), item, kind, (*within, id(value)))


def walk(module: Any, kind: Any, path: str, seen: set[int] | None, above: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    """(path, module) of a module and of all modules, of class `kind`, inside it: those in `seen` are left out, and,
    where that is None, those in `above`, which hold it."""
    if id(module) in (above if seen is None else seen):
        return
    if seen is not None:
        seen.add(id(module))
    yield path, module
    for name, child in inside(path, vars(module), kind):
        yield from walk(child, kind, name, seen, (*above, id(module)))
