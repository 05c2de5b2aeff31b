"""Layers and the base class of models, under PyTorch's names."""

from tinygrad_edu.nn import functional, init, utils
from tinygrad_edu.nn.containers import ModuleList, Sequential
from tinygrad_edu.nn.layers import GELU, Dropout, Embedding, LayerNorm, Linear
from tinygrad_edu.nn.module import Module
from tinygrad_edu.nn.parameter import Buffer, Parameter

__all__ = [
    "GELU",
    "Buffer",
    "Dropout",
    "Embedding",
    "LayerNorm",
    "Linear",
    "Module",
    "ModuleList",
    "Parameter",
    "Sequential",
    "functional",
    "init",
    "utils",
]
