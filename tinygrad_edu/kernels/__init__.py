"""The fast bodies of the fused ops: a table of kernels for each array library, with the same signatures in each."""

import functools
import importlib
from types import ModuleType
from typing import Any

import numpy as np


@functools.cache
def _load(library: str) -> ModuleType:
    return importlib.import_module(f"tinygrad_edu.kernels.{library}")


def of(array: Any) -> ModuleType:
    """The kernels for the library that owns `array`, and for its dtype."""
    if not isinstance(array, np.ndarray | np.generic):
        return _load("cupy")
    return _load("half" if array.dtype == np.float16 else "numpy")


def take(name: str, array: Any) -> bool:
    """Whether there is a kernel `name` for the library of `array`; CuPy's are for float32 and float64."""
    return hasattr(of(array), name) and (isinstance(array, np.ndarray) or array.dtype.name in ("float32", "float64"))
