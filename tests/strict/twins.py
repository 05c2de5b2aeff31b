"""The CUDA kernels in NumPy: the same blocks, threads and order of operations, to check them by anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray


def _together(mine: Array, both: Callable[[Array, Array], Array]) -> Any:
    """What the threads of a block found, brought together in pairs that lie half of them apart."""
    room = mine.copy()
    half = len(room) // 2
    while half:
        room[:half] = both(room[:half], room[half : 2 * half])
        half //= 2
    return room[0]


def _by_thread(row: Array, threads: int, start: Array, both: Callable[[Array, Array], Array]) -> Array:
    """Each thread over its own elements, t, t + T, t + 2T, ..."""
    mine = start.copy()
    for i in range(0, len(row), threads):
        part = row[i : i + threads]
        mine[: len(part)] = both(mine[: len(part)], part)
    return mine


def softmax(blocks: int, threads: int, x: Array, y: Array, n: int) -> None:
    xs, ys = x.reshape(blocks, n), y.reshape(blocks, n)
    for row, out in zip(xs, ys, strict=True):
        top = _together(_by_thread(row, threads, np.full(threads, row[0]), np.maximum), np.maximum)
        if np.isneginf(top):
            top = top.dtype.type(0)
        out[:] = np.exp(row - top)
        total = _together(_by_thread(out, threads, np.zeros(threads, x.dtype), np.add), np.add)
        out *= 1 if total == 0 else 1 / total


def softmax_backward(blocks: int, threads: int, dy: Array, y: Array, dx: Array, n: int) -> None:
    for g, p, out in zip(*(a.reshape(blocks, n) for a in (dy, y, dx)), strict=True):
        level = g[p > 0.5].sum()
        mean = _together(_by_thread((g - level) * p, threads, np.zeros(threads, y.dtype), np.add), np.add)
        out[:] = p * (g - level - mean)


def _strides(blocks: int, threads: int, n: int) -> Any:
    """The elements of each round of a launch, block behind block."""
    return (slice(i, min(i + blocks * threads, n)) for i in range(0, n, blocks * threads))


def adamw(
    blocks: int, threads: int, param: Array, grad: Array, mean: Array, square: Array, n: int,
    keep1: Any, keep2: Any, take1: Any, take2: Any, floor: Any, size: Any, decay: Any,
) -> None:  # fmt: skip
    for at in _strides(blocks, threads, n):
        g = grad[at] * take2
        mean[at] = mean[at] * keep1 + grad[at] * take1
        square[at] = square[at] * keep2 + g * g
        param[at] = param[at] * decay - mean[at] / (np.sqrt(square[at]) + floor) * size


def _times(a: int, b: Array) -> tuple[Array, Array]:
    """High and low word of a 64-bit number times many."""
    low32 = np.uint64(0xFFFFFFFF)
    a0, a1 = np.uint64(a & 0xFFFFFFFF), np.uint64(a >> 32)
    b0, b1 = b & low32, b >> np.uint64(32)
    middle = (a0 * b0 >> np.uint64(32)) + (a1 * b0 & low32) + (a0 * b1 & low32)
    high = a1 * b1 + (a1 * b0 >> np.uint64(32)) + (a0 * b1 >> np.uint64(32)) + (middle >> np.uint64(32))
    return high, np.uint64(a) * b


def philox(c: list[Array], k0: Any, k1: Any) -> list[Array]:
    """Ten rounds of Philox 4x64 on four words each."""
    keys = int(k0), int(k1)
    for n in range(10):
        high0, low0 = _times(0xD2E7470EE14C6C93, c[0])
        high1, low1 = _times(0xCA5A826395121157, c[2])
        now = [
            (key + n * step) % 2**64 for key, step in zip(keys, (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B), strict=True)
        ]
        c = [high1 ^ c[1] ^ np.uint64(now[0]), low1, high0 ^ c[3] ^ np.uint64(now[1]), low0]
    return c


def keep_mask(
    blocks: int, threads: int, mask: Array, samples: int, each: int, counts: int, first: int, k0: Any, k1: Any,
    threshold: Any, scale: Any,
) -> None:  # fmt: skip
    rows = mask.reshape(samples, each)
    for at in _strides(blocks, threads, int(samples * counts)):
        i = np.arange(at.start, at.stop, dtype=np.int64)
        sample, block = i // counts, i % counts
        c = [((first + sample) * counts + block + 1).astype(np.uint64), *(np.zeros(len(i), np.uint64),) * 3]
        words = philox(c, k0, k1)
        for j in range(8):
            bits = (words[j // 2] >> np.uint64(j % 2 * 32)).astype(np.uint32)
            there = block * 8 + j < each
            rows[sample[there], (block * 8 + j)[there]] = np.where(bits[there] >= threshold, scale, 0)
