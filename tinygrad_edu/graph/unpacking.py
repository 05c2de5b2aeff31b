"""Names of axes that user code gives itself: `B, T, D = x.shape` calls the axes of x by three names."""

from __future__ import annotations

import ast
import linecache

Unpacking = tuple[str, tuple[str | None, ...], int]  # variable, names, and how many of them count from the front

_files: dict[tuple[str, int], dict[int, Unpacking]] = {}


def unpackings(filename: str, module_globals: dict[str, object]) -> dict[int, Unpacking]:
    """By line: which variable's shape is taken apart there into names; `_` names nothing.

    In `B, *rest, D = x.shape` the names behind the star count from the end.
    """
    lines = linecache.getlines(filename, module_globals)
    key = filename, hash(tuple(lines))
    if key not in _files:
        try:
            tree = ast.parse("".join(lines))
        except SyntaxError:
            tree = ast.Module([], [])
        _files[key] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                found = _taken_apart(node.targets[0], node.value)
                if found is not None:
                    _files[key][node.lineno] = found
    return _files[key]


def _taken_apart(target: ast.expr, value: ast.expr) -> Unpacking | None:
    if isinstance(value, ast.Call) and not value.args and not value.keywords:
        value, wanted = value.func, "size"
    else:
        wanted = "shape"
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Attribute) or value.attr != wanted:
        return None
    if not isinstance(value.value, ast.Name):
        return None
    names: list[str | None] = []
    front = len(target.elts)
    for i, element in enumerate(target.elts):
        if isinstance(element, ast.Starred):
            front = i
        elif isinstance(element, ast.Name):
            names.append(element.id if element.id.strip("_") else None)
        else:
            return None
    return value.value.id, tuple(names), front
