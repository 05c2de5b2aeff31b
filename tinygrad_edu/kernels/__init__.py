"""The fast bodies of the fused ops, one package per array library, with the same functions in each."""

from types import ModuleType
from typing import Any

import numpy as np


def of(array: Any) -> ModuleType:
    """The kernels for the library that owns `array`."""
    if isinstance(array, np.ndarray | np.generic):
        from tinygrad_edu.kernels import numpy as kernels
    else:
        from tinygrad_edu.kernels import cupy as kernels
    return kernels
