"""Kernels of the fused ops on NumPy arrays: fast bodies that write only to memory of their own.

Every function takes float32 or float64 arrays of any strides, also empty ones, gives results of the input's dtype on
fresh memory, and leaves its inputs as they were (`adamw`, which updates in place, is the exception).
"""

from ...random import keep_mask
from .activation import bell, erf, erfc, gelu, normal_cdf, silu, tanh_cdf
from .attention import Weights, attention, attention_backward
from .linear import embedding, embedding_backward, linear, linear_backward
from .loss import Rows, cross_entropy, cross_entropy_backward
from .norm import layer_norm, layer_norm_backward
from .optimizer import adamw, sum_of_squares
from .recurrent import gru, gru_backward, lstm, lstm_backward, rnn, rnn_backward
from .rms import rms_norm, rms_norm_backward
from .softmax import log_softmax, log_softmax_backward, softmax, softmax_backward

__all__ = [
    "Rows",
    "Weights",
    "adamw",
    "attention",
    "attention_backward",
    "bell",
    "cross_entropy",
    "cross_entropy_backward",
    "embedding",
    "embedding_backward",
    "erf",
    "erfc",
    "gelu",
    "gru",
    "gru_backward",
    "keep_mask",
    "layer_norm",
    "layer_norm_backward",
    "linear",
    "linear_backward",
    "log_softmax",
    "log_softmax_backward",
    "lstm",
    "lstm_backward",
    "normal_cdf",
    "rms_norm",
    "rms_norm_backward",
    "rnn",
    "rnn_backward",
    "silu",
    "softmax",
    "softmax_backward",
    "sum_of_squares",
    "tanh_cdf",
]
