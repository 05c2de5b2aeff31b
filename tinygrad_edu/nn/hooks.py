"""Hooks: functions that a module calls before and after its forward and its backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from tinygrad_edu.engine.modes import is_grad_enabled
from tinygrad_edu.engine.tape import Op, Variable, wrap
from tinygrad_edu.tensor import Tensor


class Hooks:
    """What a module calls: (hook, whether it takes keywords, whether also after an error) before and after forward, and
    (hook,) before and after its backward.

    An object and no list, so that a module among the hooks does not count as a part of the one it watches.
    """

    def __init__(self) -> None:
        self.before: list[Any] = []
        self.after: list[Any] = []
        self.backward_before: list[Any] = []
        self.backward_after: list[Any] = []


class _Backward:
    """The gradients of one call of a module on their way through its hooks."""

    def __init__(self, module: Any, hooks: Hooks) -> None:
        self.module, self.hooks = module, hooks
        self.arguments, self.results = 0, 0  # how many there were
        self.into: list[int] = []  # which arguments have a gradient
        self.out: list[int] = []  # which results
        self.grad_output: tuple[Any, ...] = ()

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, with those that have a gradient watched."""
        self.arguments, self.into = len(args), _live(args)
        if not self.into or not is_grad_enabled():
            return args
        watched = iter(ModuleInputs(*(args[i] for i in self.into), watch=self))
        return tuple(next(watched) if i in self.into else x for i, x in enumerate(args))

    def leave(self, result: Any) -> Any:
        """The result, with the tensors in it that have a gradient watched."""
        several = isinstance(result, tuple | list)
        parts = list(result) if several else [result]
        self.results, self.out = len(parts), _live(parts)
        if not self.out:
            return result
        for i, y in zip(self.out, ModuleOutputs(*(parts[i] for i in self.out), watch=self)):
            parts[i] = y
        if not several:
            return parts[0]
        return result._make(parts) if hasattr(result, "_make") else type(result)(parts)

    def outputs(self, g: list[Any]) -> list[Any]:
        """The gradients of the outputs, once all are there."""
        self.grad_output = _through(self.hooks.backward_before, self.module, _spread(g, self.out, self.results))
        if not self.into:  # no input has a gradient to wait for
            _through(self.hooks.backward_after, self.module, (None,) * self.arguments, self.grad_output)
        return _gathered(self.grad_output, self.out, g)

    def inputs(self, g: list[Any]) -> list[Any]:
        """The gradients of the inputs, once all are there."""
        given = _spread(g, self.into, self.arguments)
        found = _through(self.hooks.backward_after, self.module, given, self.grad_output)
        return _gathered(found, self.into, g)


def _through(hooks: list[Any], module: Any, gradients: tuple[Any, ...], *more: Any) -> tuple[Any, ...]:
    """The gradients after every hook; what one returns, if not None, takes their place."""
    for (hook,) in list(hooks):
        new = hook(module, gradients, *more)
        if new is not None:
            new = new if isinstance(new, tuple) else (new,)
            if len(new) != len(gradients):
                raise RuntimeError(f"backward hook: returned {len(new)} gradients, there are {len(gradients)}")
            gradients = new
    return gradients


def _live(values: Any) -> list[int]:
    return [i for i, x in enumerate(values) if isinstance(x, Tensor) and x.requires_grad]


def _spread(g: list[Any], places: list[int], count: int) -> tuple[Any, ...]:
    """The gradients as tensors, each at its place, None elsewhere."""
    found: list[Any] = [None] * count
    for place, d in zip(places, g):
        found[place] = d if d is None or isinstance(d, Variable) else wrap(Tensor, d)
    return tuple(found)


def _gathered(gradients: tuple[Any, ...], places: list[int], g: list[Any]) -> list[Any]:
    """Those at the places, as arrays where the pass is on arrays."""
    recorded = any(isinstance(d, Variable) for d in g)
    return [d if d is None or recorded else d.array for d in (gradients[place] for place in places)]


class ModuleInputs(Op):
    """outputs = {xs}, the inputs of a module that has backward hooks"""

    outputs = True
    views = True
    formulas: ClassVar[dict[str, str]] = {"xs": "d of each input, as the hooks leave it"}

    def forward(*xs: Any, watch: Any) -> Any:
        return tuple(x[...] for x in xs)

    def gradients(g, need, watch):
        return watch.inputs(g)


class ModuleOutputs(Op):
    """outputs = {xs}, the outputs of a module that has backward hooks"""

    outputs = True
    views = True
    formulas: ClassVar[dict[str, str]] = {"xs": "d of each output, as the hooks leave it"}

    def forward(*xs: Any, watch: Any) -> Any:
        return tuple(x[...] for x in xs)

    def gradients(g, need, watch):
        return watch.outputs(g)


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
        for hook, named, _ in list(hooks.before):
            changed = hook(self, args, kwargs) if named else hook(self, args)
            if changed is not None and named:
                args, kwargs = changed
            elif changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        watch = _Backward(self, hooks) if hooks.backward_before or hooks.backward_after else None
        waiting = list(hooks.after)
        result = None
        try:
            result = self.forward(*(args if watch is None else watch.enter(args)), **kwargs)
            while waiting:
                hook, named, _ = waiting.pop(0)
                changed = hook(self, args, kwargs, result) if named else hook(self, args, result)
                result = result if changed is None else changed
        except BaseException:
            for hook, named, always in waiting:
                if always:
                    hook(self, args, kwargs, result) if named else hook(self, args, result)
            raise
        return result if watch is None else watch.leave(result)

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> HookHandle:
        """Call `hook(module, args)` before every forward; what it returns, if not None, takes the place of the args.

        Args:
            hook: with `with_kwargs` called as hook(module, args, kwargs), and may return a new (args, kwargs).
            prepend: before the hooks that there are, not after.

        Returns a handle; `handle.remove()` takes the hook back.
        """
        return self._set_hook("before", (hook, with_kwargs, False), prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> HookHandle:
        """Call `hook(module, args, result)` after every forward; what it returns, if not None, becomes the result.

        Args:
            hook: with `with_kwargs` called as hook(module, args, kwargs, result).
            prepend: before the hooks that there are, not after.
            always_call: also when forward raises, with the result None.

        Returns a handle; `handle.remove()` takes the hook back.

        >>> from tinygrad_edu import nn
        >>> import tinygrad_edu as tg
        >>> layer = nn.Linear(2, 3)
        >>> with layer.register_forward_hook(lambda module, args, result: print(result.shape)):
        ...     _ = layer(tg.zeros(1, 2))
        (1, 3)
        """
        return self._set_hook("after", (hook, with_kwargs, always_call), prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> HookHandle:
        """Call `hook(module, grad_input, grad_output)` when the gradients of the inputs of a call are there.

        Both are tuples: of the positional arguments, None for what has no gradient, and of the outputs. What the hook
        returns, if not None, takes the place of grad_input. Only tensors that are arguments or outputs themselves are
        watched, not those within lists or dicts. The module may not change its inputs in place.

        >>> from tinygrad_edu import nn
        >>> import tinygrad_edu as tg
        >>> layer = nn.Linear(2, 3)
        >>> with layer.register_full_backward_hook(lambda module, into, out: print(into[0].shape, out[0].shape)):
        ...     layer(tg.zeros(1, 2, requires_grad=True)).sum().backward()
        (1, 2) (1, 3)
        """
        return self._set_hook("backward_after", (hook,), prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> HookHandle:
        """Call `hook(module, grad_output)` when the gradients of the outputs of a call are there.

        What it returns, if not None, takes their place.
        """
        return self._set_hook("backward_before", (hook,), prepend)

    def _set_hook(self, place: str, entry: tuple[Any, ...], prepend: bool) -> HookHandle:
        if self._hooks is None:
            self._hooks = Hooks()
        hooks: list[Any] = getattr(self._hooks, place)
        hooks.insert(0 if prepend else len(hooks), entry)
        return HookHandle(self._hooks, place, entry)
