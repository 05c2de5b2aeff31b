"""Derivatives as functions of functions, functions with a derivative of their own, recomputed activations."""

from tinygrad_edu.autograd import function, functional
from tinygrad_edu.autograd.function import Function
from tinygrad_edu.autograd.functional import hessian, hessian_vector_product, hvp, jacobian, jvp, vjp
from tinygrad_edu.autograd.recompute import checkpoint
from tinygrad_edu.compat import set_grad_enabled
from tinygrad_edu.functional import grad
from tinygrad_edu.modes import enable_grad, is_grad_enabled, no_grad
from tinygrad_edu.tensor import Tensor
from tinygrad_edu.watching import detect_anomaly

Variable = Tensor  # PyTorch's old name for a tensor that has a gradient

__all__ = [
    "Function",
    "Variable",
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
