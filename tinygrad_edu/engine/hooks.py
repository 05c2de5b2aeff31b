"""What a user attaches to a value on the tape: functions its gradient passes through, and the wish to see `.grad`."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from tinygrad_edu.engine.tape import Variable, wrap

Key = Any  # id of a leaf, or (record number, output) of a value that an op made

hooks: dict[Key, list[Any]] = {}  # the functions for a value's gradient, in order; gone with the value
retained: dict[Key, Any] = {}  # weak reference to the tensor an op made whose .grad is wanted


def key_of(v: Variable) -> Key:
    """Under which key the gradient of `v` stands in a pass's table."""
    return (v.record.number, v.index) if v.record is not None else id(v)


class Handle:
    """Takes a hook back: `handle.remove()`."""

    def __init__(self, functions: list[Any], hook: Any) -> None:
        self.functions, self.hook = functions, hook

    def remove(self) -> None:
        """Take the hook back; once is enough."""
        self.functions[:] = [h for h in self.functions if h is not self.hook]


def register_hook(v: Variable, hook: Callable[[Any], Any]) -> Handle:
    """Let the gradient of `v` pass through `hook(gradient)`, which may return another one to go on with."""
    if not v.requires_grad:
        raise RuntimeError("register_hook: this tensor needs no gradient, so none will come; set requires_grad first")
    key = key_of(v)
    if key not in hooks:
        hooks[key] = []
        weakref.finalize(v.record or v, hooks.pop, key, None)
    hooks[key].append(hook)
    return Handle(hooks[key], hook)


def retain(v: Variable) -> None:
    """Have backward write `.grad` of a tensor that an op made."""
    if not v.requires_grad:
        raise RuntimeError("retain_grad: this tensor needs no gradient, so none will come; set requires_grad first")
    if v.record is not None:
        key = key_of(v)
        retained[key] = weakref.ref(v, lambda _: retained.pop(key, None))


def become(v: Variable, new: Variable) -> None:
    """Let `v`, changed in place, have the history of `new`; a wish to see its `.grad` is for its new value."""
    key = key_of(v)
    v.record, v.index, v.needs = new.record, new.index, True
    if key in retained and retained[key]() is v:
        del retained[key]
        retain(v)


def hooked(key: Key, g: Any, kind: type[Variable]) -> Any:
    """The gradient after the functions that were registered for it, a Variable if it came as one."""
    for hook in hooks[key]:
        given = g if isinstance(g, Variable) else wrap(kind, g)
        new = hook(given)
        if new is not None:
            if new.array.shape != given.array.shape:
                raise ValueError(f"hook: returned a gradient of shape {new.array.shape}, not {given.array.shape}")
            g = new if isinstance(g, Variable) else new.array
    return g
