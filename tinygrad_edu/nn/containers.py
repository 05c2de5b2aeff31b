"""Modules that hold modules in order: ModuleList and Sequential."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, overload

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
        for i, part in enumerate(parts):
            setattr(self, str(i), part)

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

    def forward(self, x: Any) -> Any:
        """The input through all modules in order."""
        for module in self:
            x = module(x)
        return x

    def _of(self, parts: list[Module]) -> Sequential:
        return Sequential(*parts)
