"""Modules that hold parameters: ParameterList and ParameterDict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from tinygrad_edu.nn.containers import Named
from tinygrad_edu.nn.module import Module
from tinygrad_edu.nn.parameter import Parameter
from tinygrad_edu.tensor import Tensor


class ParameterList(Module):
    """A list of parameters. (A plain Python list works as well: a module finds its parameters in one.)

    Args:
        values: Parameters; other Tensors become Parameters on their memory.

    >>> import tinygrad_edu as tg
    >>> [name for name, _ in ParameterList([tg.zeros(2), tg.zeros(3)]).named_parameters()]
    ['0', '1']
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self.extend(values or ())

    def __len__(self) -> int:
        return len(self._held())

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self._held())

    def __getitem__(self, index: int | slice) -> Any:
        held = self._held()
        return ParameterList(held[index]) if isinstance(index, slice) else held[index]

    def __setitem__(self, index: int, value: Any) -> None:
        n = len(self)
        if not -n <= index < n:
            raise IndexError(f"ParameterList: index {index} of {n} parameters")
        setattr(self, str(index % n), _parameter(value, "ParameterList"))

    def append(self, value: Any) -> ParameterList:
        """Add a parameter at the end. Returns the list."""
        setattr(self, str(len(self)), _parameter(value, "ParameterList"))
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add parameters at the end. Returns the list."""
        for value in list(values):
            self.append(value)
        return self

    def _held(self) -> list[Parameter]:
        return [value for value in vars(self).values() if isinstance(value, Parameter)]

    def extra_repr(self) -> str:
        """0: (2, 3), 1: (3,)"""
        return ", ".join(f"{i}: {p.shape}" for i, p in enumerate(self))


class ParameterDict(Named):
    """A dict of parameters, in the order they came. A parameter is an attribute under its key as well.

    Args:
        parameters: a mapping or pairs of name and Parameter; other Tensors become Parameters on their memory.

    Raises KeyError for a name that is no plain attribute name.

    >>> import tinygrad_edu as tg
    >>> list(ParameterDict({"scale": tg.ones(2)}).state_dict())
    ['scale']
    """

    kind: ClassVar[Any] = Parameter
    noun: ClassVar[str] = "parameter"

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self.update(parameters or {})

    def _checked(self, value: Any) -> Parameter:
        return _parameter(value, "ParameterDict")

    def extra_repr(self) -> str:
        """scale: (2,)"""
        return ", ".join(f"{name}: {p.shape}" for name, p in self.items())


def _parameter(value: Any, what: str) -> Parameter:
    if not isinstance(value, Tensor):
        raise TypeError(f"{what} holds parameters, not a {type(value).__name__}: {value!r}")
    return value if isinstance(value, Parameter) else Parameter(value)
