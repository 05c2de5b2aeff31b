"""Threads that stay: each waits for a call, runs it, and hands back its result or its exception."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any


class _Call:
    """One call for another thread, and its outcome."""

    def __init__(self, function: Callable[[int], Any], number: int) -> None:
        self.function, self.number = function, number
        self.context = contextvars.copy_context()  # NumPy's error settings, among others
        self.finished: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def run(self) -> None:
        try:
            result = self.context.run(self.function, self.number)
        except BaseException as error:
            self.finished.put((None, error))
        else:
            self.finished.put((result, None))


def _serve(calls: SimpleQueue[_Call | None]) -> None:
    while (call := calls.get()) is not None:
        call.run()
        call = None  # what a finished call refers to shall not wait for the next one


class Workers:
    """The caller's thread and `count` − 1 more.

    ValueError for a count below 1.
    """

    def __init__(self, count: int) -> None:
        self._queues: list[SimpleQueue[_Call | None]] = [SimpleQueue() for _ in range(count - 1)]
        self._threads = [
            threading.Thread(target=_serve, args=(calls,), name=f"shard-{i + 1}", daemon=True)
            for i, calls in enumerate(self._queues)
        ]
        for worker in self._threads:
            worker.start()

    def run(self, function: Callable[[int], Any], count: int) -> list[Any]:
        """[function(0), ..., function(count − 1)], each in a thread of its own, function(0) in the caller's.

        Comes back when all of them have ended, also where one raised or the user interrupted: then that is raised
        here, of several exceptions the one of the lowest number.
        """
        calls = [_Call(function, i) for i in range(count)]
        for call, waiting in zip(calls[1:], self._queues):
            waiting.put(call)
        calls[0].run()
        outcomes: list[tuple[Any, BaseException | None]] = []
        interrupt = None
        while len(outcomes) < count:
            try:
                outcomes.append(calls[len(outcomes)].finished.get())
            except KeyboardInterrupt as error:
                interrupt = error
        for raised in [interrupt, *(error for _, error in outcomes)]:
            if raised is not None:
                raise raised
        return [result for result, _ in outcomes]

    def close(self) -> None:
        """End the threads."""
        for waiting in self._queues:
            waiting.put(None)
        for worker in self._threads:
            worker.join()
