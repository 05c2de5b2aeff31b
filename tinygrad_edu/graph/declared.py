"""What a model says of itself, by attributes of its modules or to the trace: names of axes, what attention may see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from tinygrad_edu.graph.record import Application, Declared, Record
from tinygrad_edu.nn.module import Module

_WORDS = ("causal", "padding", "documents", "full")


def declared_axes(root: Module | None) -> Iterator[Mapping[str, str]]:
    """The `axes` of the modules, by paths from the root, outer modules first."""
    for path, module in root.named_modules() if root is not None else ():
        axes = _attribute(module, "axes")
        if isinstance(axes, Mapping):
            yield {f"{path}.{name}" if path else name: text for name, text in axes.items()}


def declarations(root: Module | None, called: list[str], visibility: Any, scaled: Any) -> dict[str, Declared]:
    """What is declared of attention, by the path of the module, "" for all.

    called: paths of the modules that ran. Raises ValueError for what cannot be declared, and for paths that name none.
    """
    found: dict[str, Declared] = {}
    for path, module in root.named_modules() if root is not None else ():
        said = _attribute(module, "visibility"), _attribute(module, "scaled")
        _say(found, path, said[0] if isinstance(said[0], str) else None, said[1] if isinstance(said[1], bool) else None)
    known = dict.fromkeys(["", *found, *called])
    for name, given in (("visibility", visibility), ("scaled", scaled)):
        for pattern, what in (given if isinstance(given, Mapping) else {"": given}).items():
            paths = [path for path in known if fnmatchcase(path, pattern)]
            if not paths:
                raise ValueError(f"trace: {name} is declared for {pattern!r}, but no module of that path ran")
            for path in paths:
                _say(found, path, **{name: what})
    return found


def _attribute(module: Module, name: str) -> Any:
    """What a module or its class has under a name; an absent one is no error, for which a near one would be sought."""
    return vars(module).get(name, getattr(type(module), name, None))


def _say(found: dict[str, Declared], path: str, visibility: str | None = None, scaled: bool | None = None) -> None:
    said = found.setdefault(path, Declared()) if visibility is not None or scaled is not None else Declared()
    if visibility is not None:
        words = set(str(visibility).replace(" and ", " ").split())
        if not words or not words <= set(_WORDS) or len(words - {"causal"}) > 1 or {"causal", "full"} <= words:
            raise ValueError(
                f"visibility of {path or 'the model'}: {visibility!r} says nothing; it is 'causal', 'padding', "
                f"'documents', 'causal padding', 'causal documents' or 'full'"
            )
        said.visibility = " ".join(word for word in _WORDS if word in words)
    if scaled is not None:
        said.scaled = bool(scaled)


def declared_of(application: Application, record: Record) -> Declared:
    """What is declared of an op: by the innermost module around it that says anything of the kind, else by all."""
    path = record.calls[application.call].path if application.call is not None else ""
    found = Declared()
    while True:
        said = record.declared.get(path, Declared())
        found.visibility = found.visibility if found.visibility is not None else said.visibility
        found.scaled = found.scaled if found.scaled is not None else said.scaled
        if not path:
            return found
        path = path.rpartition(".")[0]
