"""The modes that code computes in (gradients, definitions, trace, random stream): one object that contexts replace."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from types import FrameType
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def _nothing() -> None:
    pass


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

    def saving(self, op: str, what: str, array: Any) -> Callable[[], None]:
        """An op keeps this array for its rules by itself, as `save_for_backward` does; called where they read it."""
        return _nothing

    def verify(self, record: Any) -> None:
        """What a record saved is about to be read: told at the start of a pass, and once more before its rules run."""

    def branch(self, record: Any, at: int) -> AbstractContextManager[Any]:
        """The block in which the rule for input number `at` runs; once for all of an op whose rules are joint."""
        return nullcontext()

    def arrived(self, record: Any, at: int, gradient: Any) -> None:
        """The gradient of input number `at` of a record, a Variable, or None where there is none."""

    def summing(self, source: Any, index: int) -> AbstractContextManager[Any]:
        """The block in which a further contribution is added to a value's gradient, where the pass is lifted."""
        return nullcontext()


class Mode:
    """What a thread, or an asyncio task, computes under; never changed: blocks put another one in its place.

    grad: ops are recorded. definitions: fused ops run their readable composition (True, or the names of the ops that
    do). trace: the Listener told of every op, module and gradient branch, or None. generator: where random draws come
    from, None for the default one. first_sample: index, in the whole batch, of the first sample this thread holds, so
    that dropout does not depend on how a batch is split.
    """

    __slots__ = (
        "_outer",
        "_own",
        "_owner",
        "_running",
        "_seen",
        "definitions",
        "first_sample",
        "generator",
        "grad",
        "guarded",
        "trace",
    )

    def __init__(self) -> None:
        self.grad = True
        self.definitions: bool | frozenset[str] = False
        self.trace: Listener | None = None
        self.generator: Any = None
        self.first_sample = 0
        # The block that is entered last, and the mode outside it. A list of blocks, not a value to put back: so blocks
        # of interleaved generators may end in any order, and each takes away what it changed.
        self._outer: Mode | None = None
        self._owner: setting | None = None
        self._own: dict[str, Any] = {}  # what this block changes
        self._running: FrameType | None = None  # the generator that the block is written in
        self.guarded = False  # whether this block or one outside it is written in a generator
        self._seen: tuple[list[Mode], Mode] | None = None

    def inside(self, changes: dict[str, Any], owner: setting | None, running: FrameType | None) -> Mode:
        """The mode of a block entered in this one."""
        m = Mode.__new__(Mode)
        get = changes.get
        m.grad = get("grad", self.grad)
        m.definitions = get("definitions", self.definitions)
        m.trace = get("trace", self.trace)
        m.generator = get("generator", self.generator)
        m.first_sample = get("first_sample", self.first_sample)
        m._outer, m._owner, m._own, m._running, m._seen = self, owner, changes, running, None
        m.guarded = running is not None or self.guarded
        return m

    def without(self, blocks: list[Mode]) -> Mode:
        """The mode as it would be, had these blocks, of those that led to it, never been entered."""
        kept = []
        m, left = self, len(blocks)
        while left and m._outer is not None:
            if any(m is block for block in blocks):
                left -= 1
            else:
                kept.append(m)
            m = m._outer
        return m._with(kept)

    def onto(self, base: Mode, old: Mode) -> Mode:
        """The mode as it would be, were the blocks entered since `old` entered in `base`; itself where none were."""
        kept = []
        m: Mode | None = self
        while m is not None and m is not old:
            kept.append(m)
            m = m._outer
        return self if m is None else base._with(kept)

    def _with(self, blocks: list[Mode]) -> Mode:
        m = self
        for block in reversed(blocks):
            m = m.inside(block._own, block._owner, block._running)
        return m

    def suspended(self) -> bool:
        """Whether the block is written in a generator that is not running, or was left in another thread or task."""
        frame = self._running
        return frame is not None and (frame.f_back is None or frame in self._owner.left)  # type: ignore[union-attr]

    def awake(self) -> Mode:
        """The mode without the blocks whose generators are suspended: those count for the code inside them alone."""
        asleep, m = [], self
        while m.guarded:
            if m.suspended():
                asleep.append(m)
            m = m._outer  # type: ignore[assignment]
        if not asleep:
            return self
        if self._seen is None or self._seen[0] != asleep:
            self._seen = asleep, self.without(asleep)
        return self._seen[1]

    def changed(self, changes: dict[str, Any]) -> Mode:
        """The mode with other values until the end of the block that is running."""
        if self.suspended():
            return self._outer.changed(changes).inside(self._own, self._owner, self._running)  # type: ignore[union-attr]
        if self._outer is None:
            return self.inside(changes, None, None).rooted()
        return self._outer.inside({**self._own, **changes}, self._owner, self._running)

    def rooted(self) -> Mode:
        """The same values, outside all blocks."""
        self._outer, self._own = None, {}
        return self

    def defines(self, name: str) -> bool:
        """Whether the fused op `name` runs as its definition."""
        return self.definitions if isinstance(self.definitions, bool) else name in self.definitions


_mode = ContextVar("mode", default=Mode())  # noqa: B039 - a Mode is never changed
entered = _mode.get  # for the tape: this is `active` where `guarded` is False
_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
_CONTEXT = {"__enter__", "__aenter__", "__exit__", "__aexit__"}


def active() -> Mode:
    """The mode of the code that is running: its thread's, and within an asyncio task the task's own."""
    mode = _mode.get()
    return mode.awake() if mode.guarded else mode


def change(**changes: Any) -> Callable[[], None]:
    """Set fields of the mode from here on: until the end of the `with` block that is running, if there is one.

    Returns what takes it back.
    """
    before = _mode.get()
    made = before.changed(changes)
    _mode.set(made)

    def take_back() -> None:
        _mode.set(_mode.get().onto(before, made))

    return take_back


def _generator(frame: FrameType | None) -> FrameType | None:
    """The frame of the generator that a `with` is written in; None where it is in a function.

    A generator under `contextlib.contextmanager` is a context itself, and what counts is where that one is entered.
    """
    while frame is not None:
        code, before = frame.f_code, frame.f_back
        if code.co_flags & _SUSPENDS:
            if before is None or before.f_code.co_filename != contextlib.__file__:
                return frame
        elif code.co_name not in _CONTEXT and code.co_filename != contextlib.__file__:
            return None
        frame = before
    return None


class setting:
    """Change fields of the mode for a `with` block, a function, or the running parts of a generator.

    The change ends on every way out, in whatever order blocks are left. It is the thread's, or within an asyncio task
    the task's (a task starts with the mode it was made in). In a generator, also an async one, a block counts while
    the generator runs, so its caller never sees it; likewise where a generator function is decorated. One object may
    be entered again while it is active. A subclass may have a `begin` that makes the changes, and an `end`.

    RuntimeError where a block is left in another thread or task than it was entered in.

    >>> with setting(grad=False):
    ...     active().grad
    False
    >>> active().grad
    True
    """

    __slots__ = ("changes", "left")

    def __init__(self, **changes: Any) -> None:
        self.changes = changes
        self.left: tuple[FrameType, ...] = ()  # generators that ended in another context than they were entered in

    def begin(self) -> dict[str, Any]:
        """The changes, where a block is entered or a decorated function called."""
        return self.changes

    def end(self, changes: dict[str, Any]) -> None:
        """The block that changed this is left."""

    def __enter__(self) -> None:
        before = _mode.get()
        inner = before.inside(self.begin(), self, _generator(sys._getframe(1)))
        try:
            _mode.set(inner)
        except BaseException:  # of a signal handler, which may run here: no block is entered, so none will be left
            _mode.set(before)
            raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        mode = _mode.get()
        block = mode if mode._owner is self and not mode.suspended() else self._find(mode, kind)
        if block is not None:
            _mode.set(block._outer if block is mode else mode.without([block]))  # type: ignore[arg-type]
            self.end(block._own)

    def _find(self, mode: Mode, kind: type[BaseException] | None) -> Mode | None:
        """The block to leave, where it is not the one that was entered last."""
        blocks = []
        m: Mode | None = mode
        while m is not None:
            if m._owner is self:
                blocks.append(m)
            m = m._outer
        for block in blocks:
            if not block.suspended():
                return block
        if blocks:
            return blocks[0]
        frame = _generator(sys._getframe(2))
        if frame is not None:
            self.left = (*self.left, frame)
        if kind is GeneratorExit:  # thrown away elsewhere, as a task is at the end: the block counts for nobody now
            return None
        raise RuntimeError(
            f"a block that sets {', '.join(self.changes) or type(self).__name__} was left in another thread or asyncio "
            f"task than it was entered in, where it still counts; leave it there, or, for a generator that goes on "
            f"elsewhere, decorate its function instead"
        )

    def __call__(self, function: Function) -> Function:
        bodies = function, type(function).__call__  # the second of an object that can be called
        if any(inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f) for f in bodies):
            raise TypeError(
                f"{_name(function)}: a mode cannot decorate an async function, whose body runs after the call "
                f"returned; use `with` inside it"
            )
        if any(inspect.isgeneratorfunction(f) for f in bodies):

            @functools.wraps(function)
            def generator(*args: Any, **kwargs: Any) -> Any:
                changes = self.begin()
                try:
                    steps = function(*args, **kwargs)
                    resume, value = steps.send, None
                    while True:
                        try:
                            item = _resumed(changes, resume, value)
                        except StopIteration as end:
                            return end.value
                        try:
                            resume, value = steps.send, (yield item)
                        except GeneratorExit:
                            _resumed(changes, lambda _: steps.close(), None)
                            raise
                        except BaseException as error:
                            resume, value = steps.throw, error
                finally:
                    self.end(changes)

            return generator  # type: ignore[return-value]

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return call  # type: ignore[return-value]


def _resumed(changes: dict[str, Any], resume: Callable[[Any], Any], value: Any) -> Any:
    with setting(**changes):
        return resume(value)


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def no_grad(function: Any = None) -> Any:
    """Compute without recording: results need no gradient. A `with` block or a decorator, for this thread only.

    Unlike PyTorch's, the block counts for its asyncio task alone, and in a generator only while the generator runs;
    in a context made with `contextlib.contextmanager` it counts until that context is left.

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
    """Whether ops on tensors that need gradients are recorded in this thread, or asyncio task."""
    return active().grad
