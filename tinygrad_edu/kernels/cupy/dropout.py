"""Dropout masks made where they are needed, of the same random bits as on the CPU."""

from typing import Any

import cupy
import numpy as np

from .launch import blocks_for, launch, lengths, numbers


def keep_mask(like: Any, p: float, key: tuple[int, int], first_sample: int) -> Any:
    """An array like `like`: 0 with probability `p`, else 1 / (1 − p); the same numbers as of `random.keep_mask`.

    like, [B, ...], floating. key: the seed and number of the draw, first_sample: number of its first row in
    the whole batch.
    """
    mask = cupy.empty(like.shape, dtype=like.dtype if like.dtype.name == "float64" else "float32")
    if mask.size:
        samples = like.shape[0] if like.shape else 1
        each = mask.size // samples
        counts = -(-each // 8)  # eight times 32 bits for each count
        drawn = np.uint64(key[0]), np.uint64(key[1]), np.uint32(min(round(p * 2**32), 2**32 - 1))
        scale = numbers(mask, 1.0 / (1.0 - p) if p < 1 else 0.0)
        sizes = lengths(samples, each, counts, first_sample)
        launch("dropout", "keep_mask", mask, blocks_for(samples * counts), mask, *sizes, *drawn, *scale)
    return mask.astype(like.dtype, copy=False)
