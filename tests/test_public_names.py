"""Every public name with its parameters, against a list: none is renamed, dropped or given another default unseen."""

import dataclasses
import importlib
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

LIST = Path(__file__).parent / "golden" / "public_names.txt"
MODULES = [
    "tinygrad_edu",
    *(f"tinygrad_edu.{path}" for path in (
        "amp", "autograd", "check", "cuda", "data", "generation", "graph", "linalg", "nn", "nn.functional", "nn.init",
        "nn.utils", "nn.utils.rnn", "optim", "optim.lr_scheduler", "parallel", "random", "training",
        "training.checkpoint", "utils", "utils.checkpoint", "utils.data", "watching",
    )),
    *(f"models.{path}" for path in ("bert", "bigram", "gpt", "ocr", "seq2seq")),
]  # fmt: skip


def ours(value: Any) -> bool:
    """Whether a value was made here, and not imported from a library."""
    return (getattr(value, "__module__", None) or "tinygrad_edu").partition(".")[0] in ("tinygrad_edu", "models")


def shown(value: Any) -> str:
    """A default value or constant, without addresses and without the place of what it is in the house."""
    if isinstance(value, type) or callable(value):
        return getattr(value, "__qualname__", type(value).__qualname__)
    if isinstance(value, (int, float, str, bytes, type(None))):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(map(shown, value))})"
    return f"<{type(value).__qualname__}>"


def parameters(function: Any) -> str:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return "(...)"
    found, keyword_only = [], False
    for p in signature.parameters.values():
        if p.kind is p.KEYWORD_ONLY and not keyword_only:
            found.append("*")
        keyword_only = keyword_only or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        star = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
        default = (
            "" if p.default is p.empty else "=..." if dataclasses.is_dataclass(p.default) else f"={shown(p.default)}"
        )
        found.append(star + p.name + default)
        if p.kind is p.POSITIONAL_ONLY:
            found[-1] += " (by place)"
    return f"({', '.join(found)})"


def lines(place: str, value: Any, public: set[type]) -> Iterator[str]:
    """One line for a name; for a class one more for each public name that it defines, or a base that is not public."""
    if not inspect.isclass(value):
        yield place + (parameters(value) if callable(value) else f" = {shown(value)}")
        return
    yield f"{place}{parameters(value)}"
    members: dict[str, Any] = {}
    known = {c for base in value.__mro__[1:] if base in public for c in base.__mro__}
    for base in reversed(value.__mro__):
        if base not in known and ours(base) and base is not object:
            members |= {name: member for name, member in vars(base).items() if not name.startswith("_")}
    for name, member in sorted(members.items()):
        function = getattr(member, "__func__", member)
        yield f"{place}.{name}" + (parameters(function) if callable(function) else "")


def public_names() -> Iterator[str]:
    found: dict[str, Any] = {}
    for path in MODULES:
        module = importlib.import_module(path)
        chosen = getattr(module, "__all__", None)
        for name in sorted(chosen or dir(module)):
            value = getattr(module, name)
            own = chosen or getattr(value, "__module__", None) == path
            if own and not name.startswith("_") and ours(value) and not isinstance(value, ModuleType):
                found[f"{path}.{name}"] = value
    first: dict[type, str] = {}
    for place, value in found.items():
        if inspect.isclass(value) and place != first.setdefault(value, place):
            yield f"{place} is {first[value]}"
        else:
            yield from lines(place, value, {c for c in found.values() if inspect.isclass(c)})


def test_public_names() -> None:
    """After a wanted change run this with UPDATE_GOLDEN=1 in the environment and look at the difference."""
    found = "".join(f"{line}\n" for line in public_names())
    if os.environ.get("UPDATE_GOLDEN"):
        LIST.write_text(found, encoding="utf-8")
    assert found.splitlines() == LIST.read_text(encoding="utf-8").splitlines()
