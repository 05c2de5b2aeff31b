"""Derivatives as functions of functions, functions with a derivative of their own, recomputed activations."""

from collections.abc import Sequence
from typing import Any

from tinygrad_edu.absent import missing
from tinygrad_edu.autograd import function, functional
from tinygrad_edu.autograd.function import Function
from tinygrad_edu.autograd.functional import hessian, hessian_vector_product, hvp, jacobian, jvp, vjp
from tinygrad_edu.autograd.recompute import checkpoint
from tinygrad_edu.compat import set_grad_enabled
from tinygrad_edu.engine.modes import enable_grad, is_grad_enabled, no_grad
from tinygrad_edu.functional import grad
from tinygrad_edu.tensor import Tensor
from tinygrad_edu.watching import detect_anomaly

Variable = Tensor  # PyTorch's old name for a tensor that has a gradient


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Sequence[Tensor] | None = None,
) -> None:
    """`tensor.backward(gradient)` of one tensor or of several; of several, each gradient may be None for 1.

    `inputs`: the tensors whose `.grad` is to be filled, instead of all leaves.
    """
    roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    seeds = [grad_tensors] if isinstance(grad_tensors, Tensor | None) else list(grad_tensors)
    seeds = seeds if len(seeds) == len(roots) else [None] * len(roots)
    keep = create_graph if retain_graph is None else retain_graph
    for i, (root, seed) in enumerate(zip(roots, seeds)):
        root.backward(seed, keep or i + 1 < len(roots), create_graph, inputs)


_INSTEAD = {
    "gradcheck": "tinygrad_edu.check has it",
    "gradgradcheck": "tinygrad_edu.check has it",
    "profiler": "tinygrad_edu.watching.watch tells every op with its time and bytes",
    "set_detect_anomaly": "use detect_anomaly() around the block",
    "forward_ad": "jvp derives along a direction",
    "graph": "tensor.register_hook sees gradients, tinygrad_edu.watching.watch sees ops",
}

__all__ = [
    "Function",
    "Variable",
    "backward",
    "checkpoint",
    "detect_anomaly",
    "enable_grad",
    "function",
    "functional",
    "grad",
    "hessian",
    "hessian_vector_product",
    "hvp",
    "is_grad_enabled",
    "jacobian",
    "jvp",
    "no_grad",
    "set_grad_enabled",
    "vjp",
]


def __getattr__(name: str) -> Any:
    raise missing("autograd", name, __all__, _INSTEAD)
