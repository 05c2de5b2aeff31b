"""What is done to a model's gradients and parameters from outside, under PyTorch's names."""

from typing import Any

from tinygrad_edu.absent import missing
from tinygrad_edu.nn.utils import rnn
from tinygrad_edu.nn.utils.gradients import (
    clip_grad_norm_,
    clip_grad_value_,
    parameters_to_vector,
    vector_to_parameters,
)

__all__ = ["clip_grad_norm_", "clip_grad_value_", "parameters_to_vector", "rnn", "vector_to_parameters"]

_INSTEAD = {
    "clip_grad_norm": "use clip_grad_norm_",
    "weight_norm": "keep a direction and a length as two Parameters and multiply them in forward",
    "spectral_norm": "it is not written; divide the weight by an estimate of its norm in forward",
    "parametrize": "compute the weight from its Parameters in forward",
    "prune": "multiply the weight by a mask in forward",
}


def __getattr__(name: str) -> Any:
    raise missing("nn.utils", name, __all__, _INSTEAD)
