"""Functions of one tensor: the bends of neural networks, softmax and log_softmax."""

from __future__ import annotations

from typing import Any

from tinygrad_edu.methods.common import axis_of
from tinygrad_edu.nn.functional.common import floating_of, tensor_of
from tinygrad_edu.ops import activation, curve
from tinygrad_edu.tensor import Tensor


def gelu(input: Any, approximate: str = "none") -> Tensor:
    """y = x·Φ(x), Φ the distribution function of the normal distribution.

    Args:
        input: any shape.
        approximate: "none" for the exact Φ(x) = (1 + erf(x/√2))/2; "tanh" for (1 + tanh(√(2/π)(x + 0.044715x³)))/2.

    Returns:
        The shape of the input.

    Source: Hendrycks and Gimpel, "Gaussian error linear units", 2016.

    >>> round(gelu([1.0]).item(), 4)
    0.8413
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return activation.Gelu(floating_of(input, "gelu: input"), approximate=approximate)


def relu(input: Any) -> Tensor:
    """y = max(x, 0), any shape; the gradient at 0 is 0.

    >>> relu([-1.0, 2.0])
    tensor([0., 2.])
    """
    return curve.Relu(tensor_of(input, "relu: input"))


def softmax(input: Any, dim: int) -> Tensor:
    """y = exp x / Σ exp x along `dim`: nonnegative, summing to 1; where all are −∞, 0 everywhere and no NaN.

    Args:
        input: scores or logits, any shape with an axis `dim`.

    Returns:
        The shape of the input.

    >>> softmax([0.0, 0.0], dim=0)
    tensor([0.5, 0.5])
    """
    x = floating_of(input, "softmax: input")
    return activation.Softmax(x, axis=axis_of(x, dim, "softmax"))


def log_softmax(input: Any, dim: int) -> Tensor:
    """y = x − ln Σ exp x along `dim`, finite for logits of any size.

    >>> log_softmax([0.0, 0.0], dim=0)
    tensor([-0.6931472, -0.6931472])
    """
    x = floating_of(input, "log_softmax: input")
    return activation.LogSoftmax(x, axis=axis_of(x, dim, "log_softmax"))


def silu(input: Any) -> Tensor:
    """y = x·σ(x), σ the sigmoid, any shape; also called swish.

    >>> round(silu([1.0]).item(), 4)
    0.7311
    """
    return curve.Silu(floating_of(input, "silu: input"))


def sigmoid(input: Any) -> Tensor:
    """y = 1 / (1 + exp(−x)), any shape."""
    return curve.Sigmoid(tensor_of(input, "sigmoid: input"))


def tanh(input: Any) -> Tensor:
    """y = tanh x, any shape."""
    return curve.Tanh(tensor_of(input, "tanh: input"))


def softplus(input: Any, beta: float = 1.0) -> Tensor:
    """y = ln(1 + exp(beta·x)) / beta, any shape, without overflow.

    >>> softplus([1000.0])
    tensor([1000.])
    """
    if not beta > 0:
        raise ValueError(f"softplus: beta must be positive, got {beta}")
    return curve.Softplus(floating_of(input, "softplus: input"), beta=float(beta))


def logsigmoid(input: Any) -> Tensor:
    """y = ln σ(x) = −softplus(−x), any shape, without overflow.

    >>> logsigmoid([-300.0])
    tensor([-300.])
    """
    return -softplus(-tensor_of(input, "logsigmoid: input"))


def leaky_relu(input: Any, negative_slope: float = 0.01) -> Tensor:
    """y = x where x > 0, else negative_slope·x, any shape."""
    return curve.LeakyRelu(floating_of(input, "leaky_relu: input"), slope=float(negative_slope))


def elu(input: Any, alpha: float = 1.0) -> Tensor:
    """y = x where x > 0, else alpha·(exp x − 1), any shape."""
    return curve.Elu(floating_of(input, "elu: input"), alpha=float(alpha))
