"""The fast bodies of the fused ops, one package per array library, with the same functions in each."""

import functools
import importlib
from types import ModuleType
from typing import Any

import numpy as np


@functools.cache
def _load(library: str) -> ModuleType:
    return importlib.import_module(f"tinygrad_edu.kernels.{library}")


def of(array: Any) -> ModuleType:
    """The kernels for the library that owns `array`."""
    return _load("numpy" if isinstance(array, np.ndarray | np.generic) else "cupy")
