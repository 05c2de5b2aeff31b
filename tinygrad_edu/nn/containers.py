"""Modules that hold modules: ModuleList, ModuleDict, Sequential."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, overload

from tinygrad_edu.nn.module import Module


class _Ordered(Module):
    """Parts under the names "0", "1", ..."""

    def __len__(self) -> int:
        return len(self._parts())

    def __iter__(self) -> Iterator[Module]:
        return iter(self._parts())

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Any: ...
    def __getitem__(self, index: int | slice) -> Any:
        parts = self._parts()
        if isinstance(index, slice):
            return self._of(parts[index])
        try:
            return parts[index]
        except IndexError:
            raise IndexError(f"{type(self).__name__}: index {index} of {len(parts)} modules") from None

    def __setitem__(self, index: int, module: Module) -> None:
        parts = self._parts()
        names = [name for name, value in vars(self).items() if isinstance(value, Module)]
        if not -len(parts) <= index < len(parts):
            raise IndexError(f"{type(self).__name__}: index {index} of {len(parts)} modules")
        setattr(self, names[index], self._checked(module))

    def __delitem__(self, index: int | slice) -> None:
        parts = self._parts()
        del parts[index]
        self._renumber(parts)

    def _renumber(self, parts: list[Module]) -> None:
        for name in [name for name, value in vars(self).items() if isinstance(value, Module)]:
            delattr(self, name)
        for i, part in enumerate(parts):
            setattr(self, str(i), part)

    def pop(self, index: int = -1) -> Module:
        """Take the module at `index` out and return it; those behind it get the number before."""
        module = self[index]
        del self[index]
        return module

    def append(self, module: Module) -> Any:
        """Add a module at the end. Returns the container."""
        setattr(self, str(len(self)), self._checked(module))
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add modules at the end. Returns the container."""
        for module in list(modules):
            self.append(module)
        return self

    def _parts(self) -> list[Module]:
        return [value for value in vars(self).values() if isinstance(value, Module)]

    def _of(self, parts: list[Module]) -> Any:
        raise NotImplementedError

    def _checked(self, module: Any) -> Module:
        if not isinstance(module, Module):
            raise TypeError(f"{type(self).__name__} holds modules, not a {type(module).__name__}: {module!r}")
        return module


class ModuleList(_Ordered):
    """A list of modules. (A plain Python list works as well: a module finds its layers in one.)

    Args:
        modules: any number of modules.

    Raises TypeError for anything else in it.

    >>> from tinygrad_edu import nn
    >>> nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
    ModuleList(
      (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)
    )
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    def insert(self, index: int, module: Module) -> None:
        """Put a module before position `index`; those behind it get the next number."""
        parts = self._parts()
        parts.insert(index, self._checked(module))
        self._renumber(parts)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, other: Iterable[Module]) -> ModuleList:
        return self.extend(other)

    def _of(self, parts: list[Module]) -> ModuleList:
        return ModuleList(parts)


class Sequential(_Ordered):
    """y = fₙ(… f₂(f₁(x))): each module takes the result of the one before.

    Args:
        modules: the modules in order, or one dict of name to module.

    Raises TypeError for anything else.

    >>> from tinygrad_edu import nn
    >>> import tinygrad_edu as tg
    >>> nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3))(tg.zeros(2, 4)).shape
    (2, 3)
    """

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], dict):
            for name, module in modules[0].items():
                setattr(self, name, self._checked(module))
        else:
            self.extend(modules)

    def forward(self, input: Any) -> Any:
        """The input through all modules in order."""
        for module in self:
            input = module(input)
        return input

    def _of(self, parts: list[Module]) -> Sequential:
        return Sequential(*parts)


class Named(Module):
    """Parts of class `kind` under names, as attributes of the same names, in the order they came."""

    kind: ClassVar[Any]
    noun: ClassVar[str]

    def __getitem__(self, key: str) -> Any:
        parts = dict(self.items())
        if key not in parts:
            raise KeyError(f"{type(self).__name__} has no {self.noun} {key!r}; it has {', '.join(parts) or 'none'}")
        return parts[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str) or not key or "." in key or (hasattr(self, key) and key not in self):
            raise KeyError(f"{type(self).__name__}: {key!r} must be a new attribute name without dots")
        setattr(self, key, self._checked(value))

    def __delitem__(self, key: str) -> None:
        self[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self.items())

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, key: object) -> bool:
        return key in self.keys()

    def keys(self) -> list[str]:
        """The names, in order."""
        return [name for name, _ in self.items()]

    def values(self) -> list[Any]:
        """The parts, in order."""
        return [value for _, value in self.items()]

    def items(self) -> list[tuple[str, Any]]:
        """(name, part), in order."""
        return [(name, value) for name, value in vars(self).items() if isinstance(value, self.kind)]

    def update(self, parts: Any) -> None:
        """Take the parts of a mapping or of pairs, in place of those with the same names."""
        for name, value in parts.items() if hasattr(parts, "items") else parts:
            self[name] = value

    def pop(self, key: str) -> Any:
        """Take a part out and return it."""
        value = self[key]
        del self[key]
        return value

    def clear(self) -> None:
        """Take all parts out."""
        for key in self.keys():
            del self[key]

    def _checked(self, value: Any) -> Any:
        raise NotImplementedError


class ModuleDict(Named):
    """A dict of modules, in the order they came. A module is an attribute under its key as well.

    Args:
        modules: a mapping or pairs of name and module.

    Raises TypeError for anything but a Module, KeyError for a name that is no plain attribute name.

    >>> from tinygrad_edu import nn
    >>> parts = nn.ModuleDict({"up": nn.Linear(2, 4), "act": nn.GELU()})
    >>> list(parts), parts.up.weight.shape
    (['up', 'act'], (4, 2))
    """

    kind: ClassVar[Any] = Module
    noun: ClassVar[str] = "module"

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        self.update(modules or {})

    def _checked(self, value: Any) -> Module:
        if not isinstance(value, Module):
            raise TypeError(f"ModuleDict holds modules, not a {type(value).__name__}: {value!r}")
        return value
