"""Hooks: functions that a module calls before and after its forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any


class Hooks:
    """The (hook, whether it takes keywords) that a module calls before and after forward.

    An object and no list, so that a module among the hooks does not count as a part of the one it watches.
    """

    def __init__(self) -> None:
        self.before: list[Any] = []
        self.after: list[Any] = []


class HookHandle:
    """Takes a module's hook back: by `remove()`, or at the end of a `with` block."""

    def __init__(self, hooks: Hooks, place: str, entry: Any) -> None:
        self.hooks, self.place, self.entry = hooks, place, entry

    def remove(self) -> None:
        """Take the hook back; nothing more the second time."""
        left = [entry for entry in getattr(self.hooks, self.place) if entry is not self.entry]
        setattr(self.hooks, self.place, left)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class Hooked:
    """Methods of Module that set hooks on it. They run inside the call, so `module.forward(x)` runs none."""

    _hooks: Hooks | None = None  # made when the first one comes

    if TYPE_CHECKING:

        def forward(self, *args: Any, **kwargs: Any) -> Any: ...

    def _with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        hooks = self._hooks or Hooks()
        for hook, named in list(hooks.before):
            changed = hook(self, args, kwargs) if named else hook(self, args)
            if changed is not None and named:
                args, kwargs = changed
            elif changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        result = self.forward(*args, **kwargs)
        for hook, named in list(hooks.after):
            changed = hook(self, args, kwargs, result) if named else hook(self, args, result)
            result = result if changed is None else changed
        return result

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> HookHandle:
        """Call `hook(module, args)` before every forward; what it returns, if not None, takes the place of the args.

        Args:
            hook: with `with_kwargs` called as hook(module, args, kwargs), and may return a new (args, kwargs).
            prepend: before the hooks that there are, not after.

        Returns a handle; `handle.remove()` takes the hook back.
        """
        return self._set_hook("before", hook, prepend, with_kwargs)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> HookHandle:
        """Call `hook(module, args, result)` after every forward; what it returns, if not None, becomes the result.

        Args:
            hook: with `with_kwargs` called as hook(module, args, kwargs, result).
            prepend: before the hooks that there are, not after.

        Returns a handle; `handle.remove()` takes the hook back.

        >>> from tinygrad_edu import nn
        >>> import tinygrad_edu as tg
        >>> layer = nn.Linear(2, 3)
        >>> with layer.register_forward_hook(lambda module, args, result: print(result.shape)):
        ...     _ = layer(tg.zeros(1, 2))
        (1, 3)
        """
        return self._set_hook("after", hook, prepend, with_kwargs)

    def _set_hook(self, place: str, hook: Callable[..., Any], prepend: bool, with_kwargs: bool) -> HookHandle:
        if self._hooks is None:
            self._hooks = Hooks()
        hooks: list[Any] = getattr(self._hooks, place)
        entry = (hook, with_kwargs)
        hooks.insert(0 if prepend else len(hooks), entry)
        return HookHandle(self._hooks, place, entry)
