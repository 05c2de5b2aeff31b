"""What a module says of a name it does not have: what to use instead, or which names come near."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def missing(module: str, name: str, names: Iterable[str], instead: Mapping[str, str]) -> AttributeError:
    """The error for `module.name`: from the table `instead`, else the nearest of `names`.

    >>> print(missing("nn", "Lineal", ["Linear", "GELU"], {}))
    nn has no 'Lineal'; the nearest is Linear. dir(nn) lists what it has
    """
    if name in instead:
        return AttributeError(f"{module}.{name} is not here: {instead[name]}")
    if name.startswith("__"):
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    import difflib

    plain = {n.lower(): n for n in names}
    found = [plain[n] for n in difflib.get_close_matches(name.lower(), plain, 3, 0.7)]
    near = f"; the nearest is {' or '.join(found)}." if found else "."
    return AttributeError(f"{module} has no {name!r}{near} dir({module}) lists what it has")
