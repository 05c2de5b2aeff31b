"""The NumPy kernels on float16 arrays: they compute in float32, and only their results are rounded.

What a forward kernel saves for the backward pass stays float32, and so do the gradients of a backward kernel, which the
tape brings to the dtype of what they belong to.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays.sums import narrow, wide
from . import numpy as exact
from .numpy import embedding, keep_mask

__all__ = ["embedding", "keep_mask"]  # they compute nothing that could overflow


@functools.cache
def __getattr__(name: str) -> Callable[..., Any]:
    if name not in exact.__all__ or name == "adamw":  # which writes in place
        raise AttributeError(f"no kernel {name} for float16")
    kernel = getattr(exact, name)

    @functools.wraps(kernel)
    def call(*given: Any, **options: Any) -> Any:
        found = kernel(*map(_wide, given), **{key: _wide(value) for key, value in options.items()})
        if name.endswith("_backward"):
            return found
        return (_narrow(found[0]), *found[1:]) if isinstance(found, tuple) else _narrow(found)

    return call


def _wide(value: Any) -> Any:
    return wide(value) if isinstance(value, np.ndarray) else value


def _narrow(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_narrow, value))
    return narrow(value, np.float16) if isinstance(value, np.ndarray) else value
