"""CUDA sources compiled where they are first used, and launched on the GPU of their arrays."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import cupy
import numpy as np

THREADS = 256  # of a block
OPTIONS = ("--std=c++17", "--fmad=false")  # no contraction: sums and products round as NumPy's do
_BLOCKS = 1 << 16  # of a launch whose threads take several elements each


def source(name: str) -> str:
    """The CUDA C++ text of a family of kernels, which stands beside this file."""
    return Path(__file__).with_name(f"{name}.cu").read_text(encoding="utf-8")


@functools.cache
def _function(family: str, name: str, device: int) -> Any:
    return cupy.RawModule(code=source(family), options=OPTIONS, backend="nvrtc").get_function(name)


def launch(family: str, name: str, like: Any, blocks: int, *arguments: Any) -> None:
    """Run kernel `name` of a family in the dtype of `like`, on its GPU, in `blocks` blocks of `THREADS` threads.

    arguments: contiguous arrays, and NumPy scalars of just the types that the kernel declares.
    """
    function = _function(family, f"{name}_{like.dtype.name}", like.device.id)
    function((blocks,), (THREADS,), arguments)


def blocks_for(count: int) -> int:
    """How many blocks to start for `count` elements."""
    return min(-(-count // THREADS), _BLOCKS)


def numbers(like: Any, *values: float) -> list[Any]:
    """Scalars in the dtype of `like`."""
    return [like.dtype.type(v) for v in values]


def lengths(*values: int) -> list[np.int64]:
    """Counts and indices as kernels take them."""
    return [np.int64(v) for v in values]
