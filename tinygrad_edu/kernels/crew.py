"""Threads that share long passes over flat memory, where somebody has offered them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

LEAST = 1 << 17  # elements that a thread must get to be worth the waking

Run = Callable[[Callable[[int], Any], int], list[Any]]


class _Thread(threading.local):
    run: Run | None = None
    count = 1


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
