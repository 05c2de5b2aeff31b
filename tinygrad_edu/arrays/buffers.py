"""Where output arrays get their memory: arrays that nobody holds any more are handed out again.

A fresh large array costs page faults on its first touch, often more than the arithmetic on it. So each thread keeps
the memory that it handed out. A piece of memory is free when its reference count says that only the pool refers to it;
every array on it, and every view of such an array, holds a reference, so nothing that anybody can still see is reused,
and nobody has to give anything back. Where no piece of the right size is free, a larger one serves: what the forward
pass kept for the backward pass is where gradients go.

Limits. Arrays under `SMALL` bytes come from `np.empty`. A thread keeps at most `KEEP` bytes, or one and a half times
what it lately used if that is more: beyond it, pieces not used since the last sweep are dropped, and `PERIOD` calls
without a sweep bring one too. Where reference counts do not tell (a free-threaded Python, another implementation)
every array comes from `np.empty`.
"""

import math
import sys
import threading
import weakref
from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike

SMALL = 16 << 10
KEEP = 64 << 20
PERIOD = 20_000
PROBES = 64
WASTE = 2.5  # how many times as large as needed a free piece may be that serves before a new one is made
LINE = 64


class _Memory(np.ndarray):
    """Raw bytes. NumPy does not look for a view's base across a change of class, so a view of an array on this memory
    refers to that array, not past it: the array's own reference count tells whether it has views."""


class Place:
    """A part of a larger memory that shows one array at a time.

    memory: the part, a contiguous NumPy array; the place owns it from now on.

    >>> place = Place(np.zeros(8, np.float32)[2:5])
    >>> a = place.array()
    >>> row = a[:2]
    >>> del a
    >>> print(place.array(), place.shows(row.base))
    None True
    >>> del row
    >>> place.array().shape
    (3,)
    """

    __slots__ = ("_memory", "_shown")

    def __init__(self, memory: np.ndarray) -> None:
        self._memory = memory.view(_Memory)[...]  # with the class before it as well, else NumPy would look past it
        self._shown: Callable[[], np.ndarray | None] = _nothing

    def array(self) -> np.ndarray | None:
        """The memory as an array; None while one from before, or a view of it, can still be seen by somebody."""
        if self._shown() is not None:
            return None
        array = np.ndarray(self._memory.shape, self._memory.dtype, self._memory)
        self._shown = weakref.ref(array)
        return array

    def shows(self, array: np.ndarray | None) -> bool:
        """Whether `array` is what `array()` gave last; for None, whether nobody can see the memory."""
        return self._shown() is array


def _nothing() -> None:
    return None


class _Piece:
    """One reusable memory, the offset of its first cache line, and the period in which it was last handed out."""

    __slots__ = ("memory", "offset", "period")

    def __init__(self, size, period):
        self.memory = np.ndarray.__new__(_Memory, size + LINE, np.uint8)
        self.offset = -self.memory.ctypes.data % LINE
        self.period = period


class _Bin:
    """The pieces of one size, where to look first, and the sizes that serve where none of them is free."""

    __slots__ = ("pieces", "size", "sizes", "start")

    def __init__(self, size):
        self.size, self.pieces, self.start = size, [], 0
        self.sizes = [size]
        while self.sizes[-1] < WASTE * size:
            self.sizes.append(self.sizes[-1] + (1 << (self.sizes[-1].bit_length() - 3)))


class _Pool:
    """The bins of one thread."""

    __slots__ = ("bins", "calls", "held", "limit", "period", "plans")

    def __init__(self):
        self.bins, self.plans = {}, {}
        self.held, self.limit = 0, KEEP
        self.calls, self.period = 0, 0

    def plan(self, shape, dtype):
        """The bin for arrays of this shape and dtype; None where `np.empty` is to make them."""
        kind = np.dtype(dtype)
        nbytes = math.prod(shape) * kind.itemsize
        chosen = None
        if nbytes >= SMALL and all(n > 0 for n in shape) and not kind.hasobject:
            step = 1 << ((nbytes - 1).bit_length() - 3)  # four sizes an octave: 2**k times 1, 5/4, 6/4, 7/4
            size = -(-nbytes // step) * step
            chosen = self.bins.get(size)
            if chosen is None:
                chosen = self.bins[size] = _Bin(size)
        if len(self.plans) >= 4096:
            self.plans.clear()
        self.plans[shape, dtype] = chosen
        return chosen

    def take(self, bin, shape, dtype, free):
        """An array on a piece of the bin. `memory` is itself a reference: should a finalizer or a signal handler ask
        for an array between the look and the hand-out, it sees this piece as taken."""
        self.calls += 1
        if self.calls > PERIOD:
            self.sweep(free)
        for size in bin.sizes:
            source = bin if size == bin.size else self.bins.get(size)
            if source is None:
                continue
            pieces, i = source.pieces, source.start
            count = len(pieces)
            for _ in range(count if count < PROBES else PROBES):
                if i >= count:
                    i = 0
                piece = pieces[i]
                memory = piece.memory
                if sys.getrefcount(memory) == free:
                    source.start, piece.period = i, self.period
                    return np.ndarray(shape, dtype, memory, piece.offset)
                i += 1
            source.start = i
        piece = _Piece(bin.size, self.period)
        array = np.ndarray(shape, dtype, piece.memory, piece.offset)
        bin.pieces.append(piece)
        self.held += bin.size
        if self.held > self.limit:
            self.sweep(free)
        return array

    def sweep(self, free, everything=False):
        """Drop the free pieces that were not handed out since the last sweep; all free ones on request. New lists, so
        that a `take` that is interrupted by a sweep goes on with the list it had."""
        held = 0
        for bin in list(self.bins.values()):
            kept = []
            for piece in bin.pieces:
                memory = piece.memory
                if (piece.period == self.period and not everything) or sys.getrefcount(memory) != free:
                    kept.append(piece)
            bin.pieces, bin.start = kept, 0
            held += bin.size * len(kept)
        self.held, self.limit = held, max(KEEP, held + held // 2)
        self.calls, self.period = 0, self.period + 1


def _calibrate():
    """The reference count of a free piece as `take` sees it; None where counts do not tell free from held."""
    if not hasattr(sys, "getrefcount") or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    pool = _Pool()
    shape, dtype = (SMALL,), np.dtype(np.uint8)
    bin = pool.plan(shape, dtype)

    def take(free):
        """An array, with only the first piece on offer."""
        bin.pieces, bin.start = bin.pieces[:1], 0
        return pool.take(bin, shape, dtype, free)

    first = take(-1).ctypes.data
    for _ in range(64):  # until an adaptive interpreter has settled on the code that later runs
        take(-1)
    candidates = [free for free in range(1, 9) if take(free).ctypes.data == first]
    if len(candidates) != 1:
        return None
    free = candidates[0]
    for hold in (np.asarray, lambda array: array[5:].reshape(-1, 1).T, memoryview):
        held = hold(take(free))
        if take(free).ctypes.data == first:
            return None
        del held
        if take(free).ctypes.data != first:
            return None
    return free


class _Local(threading.local):
    def __init__(self):
        self.pool = _Pool()


_FREE = _calibrate()
_local = _Local()


def empty(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """An array with arbitrary content, C-contiguous and writable, on memory that nobody else holds.

    shape: a tuple of whole numbers; dtype: anything that `np.dtype` accepts. Arrays of `SMALL` bytes or more start on
    a cache line and reuse memory of this thread that is no longer held. To keep such an array is to keep its memory:
    no release, no copy. `np.asarray(x)`, slices, transposes and memoryviews of it keep it as well; a bare address
    (`x.ctypes.data`) does not. ValueError for a negative length, as from `np.empty`.

    >>> a = empty((64, 128), np.float32)
    >>> a.shape, a.dtype.name, a.flags.c_contiguous
    ((64, 128), 'float32', True)
    >>> b = empty((64, 128), np.float32)
    >>> np.shares_memory(a, b)
    False
    """
    if _FREE is None:
        return np.empty(shape, dtype)
    pool = _local.pool
    try:
        bin = pool.plans[shape, dtype]
    except KeyError:
        bin = pool.plan(shape, dtype)
    if bin is None:
        return np.empty(shape, dtype)
    return pool.take(bin, shape, dtype, _FREE)


def owned(array: np.ndarray) -> bool:
    """Whether `array` is the one array on its memory, so that every other way to see the memory refers to `array`.

    True for an array that owns its memory and for one that `empty` handed out; False for views and for read-only
    arrays. Together with `sys.getrefcount(array)` it tells whether writing to `array` can be seen elsewhere.

    >>> a = empty((64, 128), np.float32)
    >>> owned(a), owned(a.T), owned(np.zeros(3))
    (True, False, True)
    """
    flags = array.flags
    return flags.writeable and (flags.owndata or type(array.base) is _Memory)


def held_bytes() -> int:
    """Bytes that this thread's pool keeps, in use or free.

    >>> held_bytes() >= 0
    True
    """
    return _local.pool.held


def clear() -> None:
    """Give back all free memory of this thread's pool; arrays in use are untouched and stay valid.

    >>> clear()
    """
    pool = _local.pool
    pool.plans.clear()
    pool.sweep(-1 if _FREE is None else _FREE, everything=True)
    pool.bins = {size: bin for size, bin in pool.bins.items() if bin.pieces}
