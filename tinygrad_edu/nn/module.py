"""Module: the base of every layer and model, which finds its parameters by looking at its own attributes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tinygrad_edu.absent import missing
from tinygrad_edu.arrays import devices, library
from tinygrad_edu.engine.modes import active, no_grad
from tinygrad_edu.nn.conversions import Conversions
from tinygrad_edu.nn.hooks import Hooked
from tinygrad_edu.nn.inside import inside, walk
from tinygrad_edu.nn.parameter import Buffer, Parameter, TransientBuffer
from tinygrad_edu.tensor import Tensor

Self = TypeVar("Self", bound="Module")
_INSTEAD = {
    "_parameters": "use named_parameters(recurse=False); setattr adds one",
    "_buffers": "use named_buffers(recurse=False); register_buffer adds one",
    "_modules": "use named_children(); setattr adds one",
    "register_backward_hook": "use register_full_backward_hook",
    "get_extra_state": "keep it as a buffer, or save it beside state_dict()",
    "set_extra_state": "keep it as a buffer, or save it beside state_dict()",
    "register_state_dict_post_hook": "change what state_dict() returns",
    "register_state_dict_pre_hook": "change what state_dict() returns",
    "register_load_state_dict_pre_hook": "change the dict before load_state_dict(dict)",
    "register_load_state_dict_post_hook": "do it after load_state_dict(dict)",
    "bfloat16": "the array libraries have no such dtype; use float()",
    "compile": "there is no compiler; use the module as it is",
    "to_empty": "use to(device)",
    "share_memory": "threads share the memory anyway; tinygrad_edu.parallel.Shards uses the cores",
}
Kind = TypeVar("Kind")


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict(strict=False)` left out: names the module has and the state has not, and the reverse."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Module(Hooked, Conversions):
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
        trace = active().trace
        run = self.forward if self._hooks is None else self._with_hooks
        if trace is None:
            return run(*args, **kwargs)
        trace.enter(self)
        try:
            return run(*args, **kwargs)
        finally:
            trace.leave(self)

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "training" and "training" not in self.__dict__ and any(inside(name, value, (Parameter, Module))):
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
        for name, child in inside("", vars(self), Module):
            if id(child) not in seen:
                seen.add(id(child))
                yield name, child

    def children(self) -> Iterator[Module]:
        """Every module directly inside, each once."""
        return (child for _, child in self.named_children())

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """(path, module) of this module, then of all inside it, in the order of the attributes; each once, or under
        every path if `remove_duplicate` is False. Modules in `memo` are left out."""
        return walk(self, Module, prefix, {id(m) for m in memo or ()} if remove_duplicate else None, ())

    def add_module(self, name: str, module: Module | None) -> None:
        """The same as `setattr(self, name, module)`, for names that are made up as the program runs."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"add_module: {name!r} is a {type(module).__name__}; give a Module, or None")
        if "." in name or not name:
            raise KeyError(f"add_module: {name!r} must be an attribute name without dots")
        setattr(self, name, module)

    register_module = add_module

    def get_submodule(self, target: str) -> Module:
        """The module at a path such as "layers.0.norm"; "" is this one. Raises AttributeError for another path."""
        return self._found_at(target, dict(self.named_modules(remove_duplicate=False)), "module")

    def set_submodule(self, target: str, module: Module) -> None:
        """Put `module` in the place of the one at a path such as "layers.0.norm"."""
        owner, _, name = target.rpartition(".")
        if not isinstance(module, Module):
            raise ValueError(f"set_submodule: {target!r} is to be a {type(module).__name__}; give a Module")
        self.get_submodule(target)
        holder: Any = self.get_submodule(owner) if owner else self
        if hasattr(type(holder), "__setitem__"):
            holder[int(name) if name.isdigit() else name] = module
        else:
            setattr(holder, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path such as "layers.0.weight". Raises AttributeError for another path."""
        return self._found_at(target, dict(self.named_parameters(remove_duplicate=False)), "parameter")

    def get_buffer(self, target: str) -> Buffer:
        """The buffer at a path such as "layers.0.mask". Raises AttributeError for another path."""
        return self._found_at(target, dict(self.named_buffers(remove_duplicate=False)), "buffer")

    def _found_at(self, target: str, found: dict[str, Any], what: str) -> Any:
        if target not in found:
            raise AttributeError(f"{type(self).__name__} has no {what} {target!r}; it has {', '.join(found)}")
        return found[target]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            kind = type(self).__name__
            if "training" not in self.__dict__ and name == "training":
                raise AttributeError(f"{kind}: super().__init__() was not called; make it the first line of __init__")
            raise missing(kind, name, [n for n in (*self.__dict__, *dir(type(self))) if n[0] != "_"], _INSTEAD)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all inside it, each once, or as often as it stands there if `remove_duplicate` is False."""
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

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
        for path, module in self.named_modules(None, prefix, remove_duplicate) if recurse else [(prefix, self)]:
            for name, value in inside(path, vars(module), kind):
                if not remove_duplicate or id(value) not in seen:
                    seen.add(id(value))
                    yield name, value

    def _own_state(self) -> dict[str, Tensor]:
        """Every parameter and saved buffer under each of its names."""
        state: dict[str, Tensor] = {}
        for path, module in self.named_modules(remove_duplicate=False):
            for kind in (Parameter, Buffer):
                for name, value in inside(path, vars(module), kind):
                    if isinstance(value, Buffer) and not value.persistent:
                        continue
                    if name in state:
                        raise ValueError(f"{type(self).__name__}: two tensors are named {name!r}; rename a dict key")
                    state[name] = value
        return state

    def state_dict(self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> dict[str, Tensor]:
        """Name to Tensor for all parameters and saved buffers, in the memory of the module (copy to keep values).

        `prefix` comes before every name; `destination` is a dict to fill; `keep_vars` gives the parameters themselves,
        not tensors without history.

        >>> from tinygrad_edu import nn
        >>> {name: t.shape for name, t in nn.Linear(3, 2).state_dict().items()}
        {'weight': (2, 3), 'bias': (2,)}
        """
        state: dict[str, Tensor] = {} if destination is None else destination
        state.update((prefix + name, t if keep_vars else t.detach()) for name, t in self._own_state().items())
        return state

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy values into the parameters and buffers, in place. Everything is checked first: all of it or nothing.

        Differs from PyTorch: a tied parameter may be given under one of its names, and under several only with equal
        values; a dtype that would lose fractions is refused.

        Args:
            state_dict: name to Tensor or array, as from `state_dict()`.
            strict: False to leave out names that only one side has.
            assign: give the parameters new memory, of the state's dtype, instead of filling theirs.

        Raises ValueError, naming every missing and unexpected name (if strict) and every wrong shape or dtype.
        """
        own = self._own_state()
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
            if not library.is_array(array):
                wrong.append(f"{name} is a {type(value).__name__}, no Tensor or array")
            elif array.shape != target.array.shape:
                wrong.append(f"{name} has shape {array.shape}, the module's is {target.array.shape}")
            elif array.dtype.kind == "f" and target.array.dtype.kind != "f":
                wrong.append(f"{name} has dtype {array.dtype}, the module's is {target.array.dtype}")
            else:
                dtype = array.dtype if assign else target.array.dtype
                copy = devices.new_array(array, dtype, devices.device_of(target.array))
                if id(target) in new and not ((before := new[id(target)][1]) == copy).all().item():
                    both = (before != before) & (copy != copy)
                    if not ((before == copy) | both).all().item():
                        wrong.append(f"{' and '.join(names[id(target)])} are one tied parameter, with unequal values")
                new[id(target)] = target, copy
        if wrong:
            raise ValueError(f"{type(self).__name__}.load_state_dict: nothing was loaded; " + "; ".join(wrong))
        for target, array in new.values():
            if assign:
                target.array = array
            else:
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


def _numbered(name: str) -> tuple[str, int | None]:
    """'layers.12' -> ('layers.', 12); 'norm' -> ('norm', None)"""
    stem, digits = re.fullmatch(r"(.*?)(\d*)", name).groups()  # type: ignore[union-attr]
    return (stem, int(digits)) if digits and (not stem or stem[-1] == ".") else (name, None)
