"""The modes a thread computes in (gradients, definitions, trace, random stream): one object that contexts replace."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class Listener:
    """What `Mode.trace` is an instance of: told of every op, module and gradient branch, here ignoring all of it.

    lifts: whether the rules of a backward pass run on Variables, so that the ops in them are told of, too.
    """

    lifts = False

    def starting(self, op: Any, inputs: Any) -> None:
        """An op is about to compute."""

    def applied(self, op: Any, inputs: Any, arrays: Any, outputs: Any, static: Any, record: Any) -> None:
        """An op computed `outputs`, a tuple of Variables, from `arrays`; record is None where no gradient flows."""

    def opened(self, op: Any, inputs: Any, static: Any) -> AbstractContextManager[Any]:
        """The block in which a fused op runs as its definition."""
        return nullcontext()

    def enter(self, module: Any) -> None:
        """A module is called."""

    def leave(self, module: Any) -> None:
        """A module's call ends, also by an exception."""

    def named(self, x: Any, name: str, axes: str | None) -> None:
        """`x.named(name, axes)` was called."""

    def copied(self, source: Any, array: Any) -> None:
        """An op will read `array`, a copy of this Variable or array, as a static argument."""

    def passing(self, roots: Any) -> AbstractContextManager[Any]:
        """The block in which a reverse pass runs that starts at these Variables."""
        return nullcontext()

    def branch(self, record: Any, at: int) -> AbstractContextManager[Any]:
        """The block in which the rule for input number `at` runs; once for all of an op whose rules are joint."""
        return nullcontext()

    def arrived(self, record: Any, at: int, gradient: Any) -> None:
        """The gradient of input number `at` of a record, a Variable, or None where there is none."""

    def summing(self, source: Any, index: int) -> AbstractContextManager[Any]:
        """The block in which a further contribution is added to a value's gradient, where the pass is lifted."""
        return nullcontext()


@dataclass(frozen=True, slots=True)
class Mode:
    """What one thread computes under; contexts swap the whole object, so a thread can be given another's by assignment.

    grad: ops are recorded. definitions: fused ops run their readable composition (True, or the names of the ops that
    do). trace: the Listener told of every op, module and gradient branch, or None. generator: where random draws come
    from, None for the default one. first_sample: index, in the whole batch, of the first sample this thread holds, so
    that dropout does not depend on how a batch is split.
    """

    grad: bool = True
    definitions: bool | frozenset[str] = False
    trace: Listener | None = None
    generator: Any = None
    first_sample: int = 0

    def defines(self, name: str) -> bool:
        """Whether the fused op `name` runs as its definition."""
        return self.definitions if isinstance(self.definitions, bool) else name in self.definitions


class _Thread(threading.local):
    mode = Mode()


thread = _Thread()


class setting:
    """Change fields of the thread's mode for a `with` block, a function, or the running parts of a generator.

    The mode from before comes back on every way out. Decorating a generator function swaps the mode at each resume
    and back at each yield, so the caller never sees it; one object may be entered again while it is active.

    >>> with setting(grad=False):
    ...     thread.mode.grad
    False
    >>> thread.mode.grad
    True
    """

    __slots__ = ("changes", "entered")

    def __init__(self, **changes: Any) -> None:
        self.changes = changes
        self.entered: list[tuple[int, Mode]] = []

    def __enter__(self) -> None:
        self.entered.append((threading.get_ident(), thread.mode))
        thread.mode = replace(thread.mode, **self.changes)

    def __exit__(self, *_: object) -> None:
        me = threading.get_ident()
        at = next(i for i in reversed(range(len(self.entered))) if self.entered[i][0] == me)
        thread.mode = self.entered.pop(at)[1]

    def __call__(self, function: Function) -> Function:
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"{function.__name__}: a mode cannot decorate an async function, whose body runs after the call "
                f"returned; use `with` inside it"
            )
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generator(*args: Any, **kwargs: Any) -> Any:
                steps = function(*args, **kwargs)
                resume, value = steps.send, None
                while True:
                    try:
                        with setting(**self.changes):
                            item = resume(value)
                    except StopIteration as end:
                        return end.value
                    try:
                        resume, value = steps.send, (yield item)
                    except GeneratorExit:
                        with setting(**self.changes):
                            steps.close()
                        raise
                    except BaseException as error:
                        resume, value = steps.throw, error

            return generator  # type: ignore[return-value]

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with setting(**self.changes):
                return function(*args, **kwargs)

        return call  # type: ignore[return-value]


def no_grad(function: Any = None) -> Any:
    """Compute without recording: results need no gradient. A `with` block or a decorator, for this thread only.

    >>> import tinygrad_edu as tg
    >>> x = tg.ones(2, requires_grad=True)
    >>> with tg.no_grad():
    ...     (x * 2).requires_grad
    False
    """
    return setting(grad=False) if function is None else setting(grad=False)(function)


def enable_grad(function: Any = None) -> Any:
    """Record again inside a `no_grad` region. A `with` block or a decorator, for this thread only."""
    return setting(grad=True) if function is None else setting(grad=True)(function)


def definitions(function: Any = None) -> Any:
    """Run every fused op as its definition, the readable composition of primitive ops.

    >>> import tinygrad_edu as tg
    >>> from tinygrad_edu.nn import functional as F
    >>> x = tg.tensor([0.0, 1.0], requires_grad=True)
    >>> F.softmax(x, dim=-1).grad_fn.name
    'softmax'
    >>> with tg.definitions():
    ...     F.softmax(x, dim=-1).grad_fn.name
    'div'
    """
    return setting(definitions=True) if function is None else setting(definitions=True)(function)


def is_grad_enabled() -> bool:
    """Whether ops on tensors that need gradients are recorded in this thread."""
    return thread.mode.grad
