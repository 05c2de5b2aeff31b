"""Names of axes that user code gives itself: `B, T, D = x.shape` calls the axes of x by three names."""

from __future__ import annotations

import ast
import linecache

Unpacking = tuple[str, tuple[str | None, ...], int]  # variable, names, and how many of them count from the front

Lengths = tuple[tuple[str | None, ...], int]  # names, and how many of them count from the front

_files: dict[tuple[str, int], tuple[dict[int, Unpacking], dict[int, list[Lengths]]]] = {}


def unpackings(filename: str, module_globals: dict[str, object]) -> dict[int, Unpacking]:
    """By line: which variable's shape is taken apart there into names; `_` names nothing.

    In `B, *rest, D = x.shape` the names behind the star count from the end.
    """
    return _read(filename, module_globals)[0]


def lengths(filename: str, module_globals: dict[str, object]) -> dict[int, list[Lengths]]:
    """By line: what the code calls the lengths that it gives to `view` or `reshape` there.

    In `x.view(B, T, self.heads, D // self.heads)` that is B, T, heads and D/heads; other expressions name nothing.
    """
    return _read(filename, module_globals)[1]


def _read(filename: str, module_globals: dict[str, object]) -> tuple[dict[int, Unpacking], dict[int, list[Lengths]]]:
    text = linecache.getlines(filename, module_globals)
    key = filename, hash(tuple(text))
    if key not in _files:
        try:
            tree = ast.parse("".join(text))
        except SyntaxError:
            tree = ast.Module([], [])
        apart, given = _files[key] = {}, {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                found = _taken_apart(node.targets[0], node.value)
                if found is not None:
                    apart[node.lineno] = found
            elif isinstance(node, ast.Call) and _is_reshape(node):
                for line in {node.lineno, node.func.end_lineno or node.lineno}:
                    given.setdefault(line, []).append(_given(node.args))
    return _files[key]


def _is_reshape(call: ast.Call) -> bool:
    named = isinstance(call.func, ast.Attribute) and call.func.attr in ("view", "reshape")
    return named and bool(call.args) and not call.keywords


def _given(arguments: list[ast.expr]) -> Lengths:
    if len(arguments) == 1 and isinstance(arguments[0], ast.Tuple | ast.List):
        arguments = arguments[0].elts
    stars = [i for i, argument in enumerate(arguments) if isinstance(argument, ast.Starred)]
    if len(stars) > 1:
        return (), 0
    names = [_length(argument) for argument in arguments if not isinstance(argument, ast.Starred)]
    return tuple(names), stars[0] if stars else len(names)


def _length(expression: ast.expr) -> str | None:
    """What an expression for a length is called."""
    if isinstance(expression, ast.Name):
        return expression.id if expression.id.strip("_") else None
    if isinstance(expression, ast.Attribute):
        return expression.attr
    if isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.FloorDiv):
        left, right = _length(expression.left), _length(expression.right)
        return f"{left}/{right}" if left and right and "/" not in left + right else None
    return None


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
