"""Kernels of the fused ops on CuPy arrays, with the signatures of NumPy's; an op that has none runs as its definition.

Every function takes float32 or float64 arrays of any strides, also empty ones, gives results of the input's dtype on
fresh memory, and leaves its inputs as they were (`adamw`, which updates in place, is the exception).
"""

from .activation import bell, erf, erfc, normal_cdf, tanh_cdf
from .dropout import keep_mask
from .optimizer import adamw
from .softmax import softmax, softmax_backward

__all__ = ["adamw", "bell", "erf", "erfc", "keep_mask", "normal_cdf", "softmax", "softmax_backward", "tanh_cdf"]
