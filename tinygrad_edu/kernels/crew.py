"""Threads that compute side by side: long passes that they share, and turns that they take at short ones."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ContextDecorator, contextmanager, suppress
from contextvars import ContextVar
from typing import Any

LEAST = 1 << 17  # elements that a thread must get to be worth the waking
PATIENCE = 5e-4  # seconds; after that a thread goes on without its turn

Run = Callable[[Callable[[int], Any], int], list[Any]]


class Offer:
    """A `run(function, n)` that calls function(0), ..., function(n − 1) at once, n up to `count`, in threads of their
    own, and comes back when all have ended; for the thread that calls `make`, until it is withdrawn."""

    def __init__(self, run: Run, count: int) -> None:
        self.run, self.count = run, count

    def make(self) -> None:
        """The offer begins."""
        _thread.offers = (*_thread.offers, self)

    def withdraw(self) -> None:
        """The offer ends, whichever others there are; once is enough."""
        _thread.offers = tuple(offer for offer in _thread.offers if offer is not self)


class _Thread(threading.local):
    offers: tuple[Offer, ...] = ()


_thread = _Thread()


def shared(function: Callable[[int, int], Any], size: int) -> None:
    """Call function(start, stop) for ranges that together are 0 to `size`: one range for each thread on offer.

    function must write to nothing outside its range. Without an offer, or where there is little to do, one call here.

    >>> shared(lambda start, stop: print(start, stop), 10)
    0 10
    """
    offers = _thread.offers
    count = min(offers[-1].count, size // LEAST) if offers else 1
    if count < 2:
        function(0, size)
        return
    edges = [size * i // count // 64 * 64 for i in range(count)] + [size]
    offers[-1].run(lambda i: function(edges[i], edges[i + 1]), count)


class _Turn:
    """The turn as a thread sees it: whether it has it now, and in how many blocks of `apart` it is."""

    __slots__ = ("depth", "held", "lock")

    def __init__(self, lock: threading.Lock) -> None:
        self.lock, self.held, self.depth = lock, False, 0

    def take(self) -> None:
        self.held = self.lock.acquire(timeout=PATIENCE)

    def give(self) -> None:
        if self.held:
            self.held = False
            with suppress(RuntimeError):  # of a lock that is free: an exception came up between here and `take`
                self.lock.release()


_turn: ContextVar[_Turn | None] = ContextVar("turn", default=None)


@contextmanager
def taking_turns(lock: threading.Lock) -> Iterator[None]:
    """A `with` block in which this thread holds `lock` whenever it is not in the block of `apart`.

    A short operation of NumPy gives the interpreter away and wants it back at once. Two threads in a run of those
    wake each other at every one; so one does its short operations while the other is in a long one. It is a courtesy,
    not a guard: who has waited for `PATIENCE` goes on without.
    """
    before, turn = _turn.get(), _Turn(lock)
    try:
        _turn.set(turn)
        turn.take()
        yield
    finally:
        turn.give()
        _turn.set(before)


class _Apart(ContextDecorator):
    """The block, or the function, of a long operation, during which the other thread may have its turn."""

    def __enter__(self) -> None:
        turn = _turn.get()
        if turn is not None:
            turn.depth += 1
            turn.give()

    def __exit__(self, *_: object) -> None:
        turn = _turn.get()
        if turn is not None:
            turn.depth -= 1
            if not turn.depth:
                turn.take()


apart = _Apart()
