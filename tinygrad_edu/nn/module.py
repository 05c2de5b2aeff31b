"""Module: the base of every layer and model, which finds its parameters by looking at its own attributes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from tinygrad_edu import backend
from tinygrad_edu.modes import no_grad, thread
from tinygrad_edu.nn.parameter import Buffer, Parameter, TransientBuffer
from tinygrad_edu.tensor import Tensor

Self = TypeVar("Self", bound="Module")
Kind = TypeVar("Kind")


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict(strict=False)` left out: names the module has and the state has not, and the reverse."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Module:
    """A function with parameters. A subclass makes its layers in `__init__` and writes `forward`; call the object.

    Differs from PyTorch: there is no table of registered parts. Whatever is an attribute counts, also inside lists,
    tuples and dicts at any depth (not in sets or other objects), so `self.layers = [nn.Linear(2, 2)]` is trained and
    saved as `layers.0.weight`. A parameter under several names is tied: listed once, saved under all of them.

    >>> from tinygrad_edu import nn
    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layers = [nn.Linear(4, 3, bias=False), nn.LayerNorm(3)]
    ...
    ...     def forward(self, x):
    ...         for layer in self.layers:
    ...             x = layer(x)
    ...         return x
    >>> [(name, p.shape) for name, p in Net().named_parameters()]
    [('layers.0.weight', (3, 4)), ('layers.1.weight', (3,)), ('layers.1.bias', (3,))]
    """

    training: bool

    def __init__(self) -> None:
        self.training = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; a subclass writes it, `module(...)` runs it."""
        raise NotImplementedError(f"{type(self).__name__} has no forward; write `def forward(self, x): ...`")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        trace = thread.mode.trace
        if trace is None:
            return self.forward(*args, **kwargs)
        trace.enter(self)
        try:
            return self.forward(*args, **kwargs)
        finally:
            trace.leave(self)

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "training" and "training" not in self.__dict__ and any(_inside(name, value, (Parameter, Module))):
            raise AttributeError(
                f"{type(self).__name__}: {name!r} is assigned before super().__init__(); make that call the first line "
                f"of __init__"
            )
        if isinstance(value, Tensor) and not isinstance(value, Parameter | Buffer):
            present = self.__dict__.get(name)
            if isinstance(present, Parameter):
                raise TypeError(
                    f"{type(self).__name__}.{name} is a Parameter and a plain Tensor would take it out of training; "
                    f"assign nn.Parameter(tensor), or change the values: with no_grad(): {name}.copy_(tensor)"
                )
            if isinstance(present, Buffer):
                value = type(present)(value)
        object.__setattr__(self, name, value)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Make `tensor` the buffer `self.name`: moved with the module and, if `persistent`, saved; never trained.

        Raises KeyError for a name that is taken or holds a dot, TypeError for anything but a Tensor or None.
        """
        if "." in name or not name or hasattr(self, name):
            raise KeyError(f"register_buffer: {name!r} must be a new attribute name without dots")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"register_buffer: {name!r} is a {type(tensor).__name__}; give a Tensor, or None")
        kind = Buffer if persistent else TransientBuffer
        setattr(self, name, None if tensor is None else kind(tensor))

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """The same as `setattr(self, name, param)`; None for a parameter that this instance goes without."""
        setattr(self, name, param)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """(name, module) of every module directly inside, each once; in a plain list the name is `layers.0`."""
        seen: set[int] = set()
        for name, child in _inside("", vars(self), Module):
            if id(child) not in seen:
                seen.add(id(child))
                yield name, child

    def children(self) -> Iterator[Module]:
        """Every module directly inside, each once."""
        return (child for _, child in self.named_children())

    def named_modules(self, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """(path, module) of this module, then of all inside it, in the order of the attributes; each once, or under
        every path if `remove_duplicate` is False."""
        return _walk(self, prefix, set() if remove_duplicate else None, ())

    def modules(self) -> Iterator[Module]:
        """This module and all inside it, each once."""
        return (module for _, module in self.named_modules())

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """(name, parameter), a module's own first, then its children's; a tied one once, under its first name."""
        return self._named(Parameter, prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Every parameter once. A generator: it can be read one time, so make it a list to use it twice."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Buffer]]:
        """(name, buffer), a module's own first, then its children's; a shared one once, under its first name."""
        return self._named(Buffer, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Buffer]:
        """Every buffer once."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    def _named(
        self, kind: type[Kind], prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Kind]]:
        seen: set[int] = set()
        for path, module in self.named_modules(prefix, remove_duplicate) if recurse else [(prefix, self)]:
            for name, value in _inside(path, vars(module), kind):
                if not remove_duplicate or id(value) not in seen:
                    seen.add(id(value))
                    yield name, value

    def _state(self) -> dict[str, Tensor]:
        """Every parameter and saved buffer under each of its names."""
        state: dict[str, Tensor] = {}
        for path, module in self.named_modules(remove_duplicate=False):
            for kind in (Parameter, Buffer):
                for name, value in _inside(path, vars(module), kind):
                    if isinstance(value, Buffer) and not value.persistent:
                        continue
                    if name in state:
                        raise ValueError(f"{type(self).__name__}: two tensors are named {name!r}; rename a dict key")
                    state[name] = value
        return state

    def state_dict(self) -> dict[str, Tensor]:
        """Name to Tensor for all parameters and saved buffers, in the memory of the module (copy to keep values).

        >>> from tinygrad_edu import nn
        >>> {name: t.shape for name, t in nn.Linear(3, 2).state_dict().items()}
        {'weight': (2, 3), 'bias': (2,)}
        """
        return {name: value.detach() for name, value in self._state().items()}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Copy values into the parameters and buffers, in place. Everything is checked first: all of it or nothing.

        Differs from PyTorch: a tied parameter may be given under one of its names, and under several only with equal
        values; a dtype that would lose fractions is refused.

        Args:
            state_dict: name to Tensor or array, as from `state_dict()`.
            strict: False to leave out names that only one side has.

        Raises ValueError, naming every missing and unexpected name (if strict) and every wrong shape or dtype.
        """
        own = self._state()
        names: dict[int, list[str]] = {}
        for name, target in own.items():
            names.setdefault(id(target), []).append(name)
        wrong = []
        new: dict[int, tuple[Tensor, Any]] = {}
        missing = [n for n, t in own.items() if not any(alias in state_dict for alias in names[id(t)])]
        unexpected = [n for n in state_dict if n not in own]
        if strict and missing:
            wrong.append("missing: " + ", ".join(missing))
        if strict and unexpected:
            wrong.append("unexpected: " + ", ".join(unexpected))
        for name, target in own.items():
            if name not in state_dict:
                continue
            value = state_dict[name]
            array = value.array if isinstance(value, Tensor) else value
            if not backend.is_array(array):
                wrong.append(f"{name} is a {type(value).__name__}, no Tensor or array")
            elif array.shape != target.array.shape:
                wrong.append(f"{name} has shape {array.shape}, the module's is {target.array.shape}")
            elif array.dtype.kind == "f" and target.array.dtype.kind != "f":
                wrong.append(f"{name} has dtype {array.dtype}, the module's is {target.array.dtype}")
            else:
                copy = backend.new_array(array, target.array.dtype, backend.device_of(target.array))
                if id(target) in new and not ((before := new[id(target)][1]) == copy).all():
                    both = (before != before) & (copy != copy)
                    if not ((before == copy) | both).all():
                        wrong.append(f"{' and '.join(names[id(target)])} are one tied parameter, with unequal values")
                new[id(target)] = target, copy
        if wrong:
            raise ValueError(f"{type(self).__name__}.load_state_dict: nothing was loaded; " + "; ".join(wrong))
        for target, array in new.values():
            target.array[...] = array
            target.bump_version()
        return IncompatibleKeys(missing, unexpected)

    def train(self: Self, mode: bool = True) -> Self:
        """Set training mode, here and in every module inside: dropout is active. Returns the module."""
        if not isinstance(mode, bool):
            raise ValueError(f"train: mode must be True or False, not {mode!r}")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: Self) -> Self:
        """Set evaluation mode, here and in every module inside: dropout does nothing. Returns the module."""
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Freeze (False) or unfreeze (True) every parameter. Returns the module."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget every parameter's gradient (None: no update, no decay), or set it to zeros."""
        zero_grads(self.parameters(), set_to_none)

    def apply(self: Self, fn: Callable[[Module], Any]) -> Self:
        """Call `fn` on every module inside, each once, children before what holds them. Returns the module."""
        seen: set[int] = set()

        def visit(module: Module) -> None:
            seen.add(id(module))
            for child in module.children():
                if id(child) not in seen:
                    visit(child)
            fn(module)

        visit(self)
        return self

    def to(self: Self, device: Any = None, dtype: Any = None) -> Self:
        """Move parameters, buffers and gradients to a device, and the floating ones to a dtype. Returns the module.

        Each Parameter stays the same object, so an optimizer keeps working. `module.to(tg.float64)` is understood.
        Raises ValueError for a device that is not there, TypeError for a dtype that is not floating.
        """
        if device is not None and not isinstance(device, str):
            device, dtype = None, device
        if dtype is not None and (dtype := backend.dtype_of(dtype)).kind != "f":
            raise TypeError(f"to: parameters need a floating dtype, not {dtype}; use float32 or float64")
        held: list[Tensor] = [*self.parameters(), *self.buffers()]
        held += [t.grad for t in held if t.grad is not None]
        moved = []
        for tensor in held:
            array = tensor.array if device is None else backend.to_device(tensor.array, device)
            if dtype is not None and array.dtype.kind == "f":
                array = array.astype(dtype, copy=False)
            moved.append(array)
        for tensor, array in zip(held, moved, strict=True):
            tensor.array = array
        return self

    def extra_repr(self) -> str:
        """What the printed form of the module shows in its parentheses; a subclass writes it."""
        return ""

    def __repr__(self) -> str:
        rows = [self.extra_repr()] if self.extra_repr() else []
        children = [(*_numbered(name), repr(child)) for name, child in self.named_children()]
        for (stem, numbered, shown), equal in groupby(children, lambda c: (c[0], c[1] is not None, c[2])):
            numbers = [number for _, number, _ in equal]
            if numbered and len(numbers) > 1:
                rows.append(f"({stem}{numbers[0]}-{numbers[-1]}): {len(numbers)} x {shown}")
            else:
                rows += [f"({stem}{'' if number is None else number}): {shown}" for number in numbers]
        if len(rows) == 1 and not children:
            return f"{type(self).__name__}({rows[0]})"
        body = "".join("\n  " + row.replace("\n", "\n  ") for row in rows)
        return f"{type(self).__name__}({body}{chr(10) if rows else ''})"


def zero_grads(parameters: Any, set_to_none: bool) -> None:
    """Set the gradient of each parameter to None, or the ones that are there to zeros."""
    for p in parameters:
        if set_to_none or p.grad is None:
            p.grad = None
        else:
            with no_grad():
                p.grad = p.grad.detach().zero_()


def _join(path: str, name: Any) -> str:
    return f"{path}.{name}" if path else str(name)


def _inside(path: str, value: Any, kind: Any, within: tuple[int, ...] = ()) -> Iterator[tuple[str, Any]]:
    """(name, object) of class `kind` in `value`, through lists, tuples and dicts; `within` stops circles."""
    if isinstance(value, kind):
        yield path, value
    elif isinstance(value, list | tuple | dict) and id(value) not in within:
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            if not isinstance(item, str | int | float):
                yield from _inside(_join(path, name), item, kind, (*within, id(value)))


def _walk(module: Module, path: str, seen: set[int] | None, above: tuple[int, ...]) -> Iterator[tuple[str, Module]]:
    if id(module) in (above if seen is None else seen):
        return
    if seen is not None:
        seen.add(id(module))
    yield path, module
    for name, child in _inside(path, vars(module), Module):
        yield from _walk(child, name, seen, (*above, id(module)))


def _numbered(name: str) -> tuple[str, int | None]:
    """'layers.12' -> ('layers.', 12); 'norm' -> ('norm', None)"""
    stem, digits = re.fullmatch(r"(.*?)(\d*)", name).groups()  # type: ignore[union-attr]
    return (stem, int(digits)) if digits and (not stem or stem[-1] == ".") else (name, None)
