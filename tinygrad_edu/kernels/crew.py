"""Threads that compute side by side: long passes that they share, and turns that they take at short ones."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ContextDecorator, contextmanager
from typing import Any

LEAST = 1 << 17  # elements that a thread must get to be worth the waking
PATIENCE = 5e-4  # seconds; after that a thread goes on without its turn

Run = Callable[[Callable[[int], Any], int], list[Any]]


class _Thread(threading.local):
    run: Run | None = None
    count = 1
    turn: threading.Lock | None = None
    held = False
    depth = 0


_thread = _Thread()


@contextmanager
def offered(run: Run, count: int) -> Iterator[None]:
    """For a `with` block in this thread: `run(function, n)`, n up to `count`, calls function(0), ..., function(n − 1)
    at once, in threads of their own, and comes back when all have ended."""
    before = _thread.run, _thread.count
    _thread.run, _thread.count = run, count
    try:
        yield
    finally:
        _thread.run, _thread.count = before


def shared(function: Callable[[int, int], Any], size: int) -> None:
    """Call function(start, stop) for ranges that together are 0 to `size`: one range for each thread on offer.

    function must write to nothing outside its range. Without an offer, or where there is little to do, one call here.

    >>> shared(lambda start, stop: print(start, stop), 10)
    0 10
    """
    run, count = _thread.run, min(_thread.count, size // LEAST)
    if run is None or count < 2:
        function(0, size)
        return
    edges = [size * i // count // 64 * 64 for i in range(count)] + [size]
    run(lambda i: function(edges[i], edges[i + 1]), count)


@contextmanager
def taking_turns(turn: threading.Lock) -> Iterator[None]:
    """A `with` block in which this thread holds `turn` whenever it is not in the block of `apart`.

    A short operation of NumPy gives the interpreter away and wants it back at once. Two threads in a run of those
    wake each other at every one; so one does its short operations while the other is in a long one. It is a courtesy,
    not a guard: who has waited for `PATIENCE` goes on without.
    """
    before = _thread.turn, _thread.held
    _thread.turn, _thread.held = turn, turn.acquire(timeout=PATIENCE)
    try:
        yield
    finally:
        if _thread.held:
            turn.release()
        _thread.turn, _thread.held = before


class _Apart(ContextDecorator):
    """The block, or the function, of a long operation, during which the other thread may have its turn."""

    def __enter__(self) -> None:
        _thread.depth += 1
        if _thread.held and _thread.turn is not None:
            _thread.held = False
            _thread.turn.release()

    def __exit__(self, *_: object) -> None:
        _thread.depth -= 1
        if _thread.turn is not None and not _thread.depth:
            _thread.held = _thread.turn.acquire(timeout=PATIENCE)


apart = _Apart()
