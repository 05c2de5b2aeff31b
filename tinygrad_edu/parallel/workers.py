"""Threads that stay: each waits for a call, runs it, and hands back its result or its exception."""

from __future__ import annotations

import _thread
import contextvars
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

PATIENCE = 0.2  # seconds; a call that nobody has begun after that is run by the caller

_inside: contextvars.ContextVar[object] = contextvars.ContextVar("inside", default=None)  # which call is running


class _Call:
    """One call, and its outcome.

    The main thread runs signal handlers, so an exception can come up between any two of its instructions. Nothing is
    lost by that: the outcome stays here, `finished` is set before anybody is woken, and asking twice who runs the call
    gives the same answer.
    """

    __slots__ = ("_context", "_runner", "_wake", "caller", "error", "finished", "function", "number", "outer", "result")

    def __init__(self, function: Callable[[int], Any], number: int) -> None:
        self.function, self.number = function, number
        self.caller, self.outer = threading.get_ident(), _inside.get()
        self.result: Any = None
        self.error: BaseException | None = None
        self.finished = False
        self._context = contextvars.copy_context()  # modes and NumPy's error settings, among others
        self._runner: dict[str, object] = {}
        self._wake = _thread.allocate_lock()
        self._wake.acquire()

    def claim(self, who: object) -> bool:
        """Whether it is `who` that runs the call, or nobody: the first to ask."""
        return self._runner.setdefault("who", who) is who

    def run(self, who: object) -> bool:
        """Run it, unless another has begun it; whether it was run here. `finish` tells of it."""
        if not self.claim(who):
            return False
        try:
            self.result = self._context.run(self._body)
        except BaseException as error:
            self.error = error
        return True

    def _body(self) -> Any:
        _inside.set(object())
        return self.function(self.number)

    def finish(self) -> None:
        self.finished = True
        self._wake.release()

    def wait(self, who: object, process: int) -> None:
        """Until the call has ended; run it here where nobody has begun it, and once more in a forked child, to which
        the thread that ran it did not come along."""
        while not self.finished:
            if self._wake.acquire(timeout=PATIENCE):
                continue  # `finished` is set
            if os.getpid() != process:
                self._runner, self._context = {}, self._context.copy()
            if self.run(who):
                self.finished = True


class _Worker:
    """A thread, the calls that wait for it, and the one that it is in."""

    def __init__(self, name: str) -> None:
        self.calls: SimpleQueue[_Call | None] = SimpleQueue()
        self.current: _Call | None = None
        self.thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        process = os.getpid()
        while (call := self.calls.get()) is not None:
            self.current = call
            ran = call.run(self)
            self.current = None  # first, so that whoever is woken finds this thread free
            if ran:
                call.finish()
            call = None  # what a finished call refers to shall not wait for the next one
            if os.getpid() != process:
                return  # the call forked, and here is the child, which nobody gives a further call

    def idle(self) -> bool:
        return self.current is None and self.calls.empty()

    def lost(self) -> bool:
        """Whether it is in a call of this thread's that this thread no longer waits for: it was interrupted twice."""
        call = self.current
        return (
            call is not None
            and not call.finished
            and call.caller == threading.get_ident()
            and call.outer is _inside.get()
        )


class Workers:
    """The caller's thread and `count` − 1 more, which end when the pool is closed or no longer referred to.

    It may be used by several threads, and by a call that it runs: what finds no idle thread is run by the caller, so
    nobody waits for himself. A forked child has threads of its own from the first `run` on.

    RuntimeError where the system starts no more threads.
    """

    def __init__(self, count: int) -> None:
        self._workers: list[_Worker] = []
        self._process = os.getpid()
        try:
            for i in range(count - 1):
                self._workers.append(_Worker(f"shard-{i + 1}"))
        except BaseException as error:
            self.close()
            if isinstance(error, RuntimeError):
                raise RuntimeError(f"{count} threads were asked for, and the system starts no more: {error}") from None
            raise

    def run(self, function: Callable[[int], Any], count: int) -> list[Any]:
        """[function(0), ..., function(count − 1)], each in a thread of its own, function(0) in the caller's.

        Comes back when all of them have ended, also where one raised or a signal handler did, as Ctrl-C's does: then
        that is raised here, of several exceptions of functions the one of the lowest number. Where there is one
        already, a second from a handler is raised at once, and what has not ended is left alone.
        """
        me, process = object(), os.getpid()
        calls = [_Call(function, i) for i in range(count)]
        elsewhere = set()
        try:
            self._restore(process)
            for call, worker in zip(calls[1:], self._workers):
                if worker.idle():
                    worker.calls.put(call)
                    elsewhere.add(call.number)
            for call in calls:
                if call.number not in elsewhere:
                    call.run(me)
            for call in calls:
                if call.number in elsewhere:
                    call.wait(me, process)
        except BaseException:
            if calls[0].error is None:
                for call in calls:
                    if not call.claim(me):
                        call.wait(me, process)
            raise
        errors = [call.error for call in calls if call.error is not None]
        for call in calls:
            call.error = None
        try:
            if errors:
                raise errors[0]
        finally:
            errors.clear()  # its traceback refers to this frame: no cycle
        return [call.result for call in calls]

    def _restore(self, process: int) -> None:
        """New threads for those that did not come along into a forked child, or that are lost."""
        for i, worker in enumerate(self._workers):
            if process != self._process or worker.lost():
                worker.calls.put(None)
                try:
                    self._workers[i] = _Worker(worker.thread.name)
                except RuntimeError:  # the system starts no more, or is at its end: the caller does it all
                    del self._workers[i:]
                    break
        self._process = process

    def close(self) -> None:
        """End the threads, and wait for those that are not in a call that was left alone."""
        for worker in self._workers:
            worker.calls.put(None)
        if os.getpid() == self._process:
            for worker in self._workers:
                if worker.current is None and worker.thread is not threading.current_thread():
                    worker.thread.join(5 * PATIENCE)
        self._workers = []

    def __del__(self) -> None:
        for worker in self._workers:
            worker.calls.put(None)
