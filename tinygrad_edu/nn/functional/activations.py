"""Functions of one tensor: the bends of neural networks, softmax and log_softmax."""

from __future__ import annotations

import warnings
from typing import Any

from tinygrad_edu.methods.common import along, axis_of
from tinygrad_edu.nn.functional.common import floating_of, in_place, number_beside, tensor_of
from tinygrad_edu.ops import activation, choice, curve
from tinygrad_edu.options import number
from tinygrad_edu.tensor import Tensor


def gelu(input: Any, approximate: str = "none") -> Tensor:
    """y = x·Φ(x), Φ the distribution function of the normal distribution.

    Args:
        input: any shape.
        approximate: "none" for the exact Φ(x) = (1 + erf(x/√2))/2; "tanh" for (1 + tanh(√(2/π)(x + 0.044715x³)))/2.

    Returns:
        The shape of the input.

    Value and slope keep their digits far to the left. In float32 they are within 64 units in the last place ("tanh":
    128) where they are as small as 10⁻³⁸, and with "tanh" what a recorded pass finds is within 4 |ln y| units.

    Source: Hendrycks and Gimpel, "Gaussian error linear units", 2016.

    >>> round(gelu([1.0]).item(), 4)
    0.8413
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return activation.Gelu(floating_of(input, "gelu: input"), approximate=approximate)


def relu(input: Any, inplace: bool = False) -> Tensor:
    """y = max(x, 0), any shape; the gradient at 0 is 0.

    `inplace`, here and below, writes the result into the memory of the input and returns that, as the methods whose
    names end in an underscore do. It saves no memory where a gradient is wanted.

    >>> relu([-1.0, 2.0])
    tensor([0., 2.])
    """
    if inplace:
        return in_place(relu, input)
    x = tensor_of(input, "relu: input")
    if x.array.dtype.kind == "b":
        raise TypeError("relu: input must be numbers, got bool; convert it with .float()")
    return curve.Relu(x)


def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """y = softmax(−x) along `dim`."""
    return softmax(-tensor_of(input, "softmin: input"), dim, dtype=dtype)


def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """y = exp x / Σ exp x along `dim`: nonnegative, summing to 1; where all are −∞, 0 everywhere and no NaN.

    Args:
        input: scores or logits, any shape with an axis `dim`.
        dim: the axis. Where it is None, axis 0 for tensors of 0, 1 or 3 axes and axis 1 for others, with a warning.
        dtype: what to convert the input to first.

    Returns:
        The shape of the input.

    >>> softmax([0.0, 0.0], dim=0)
    tensor([0.5, 0.5])
    """
    x = floating_of(_converted(input, dtype), "softmax: input")
    return along(activation.Softmax, x, _axis(x, dim, "softmax"), "softmax")


def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """y = x − ln Σ exp x along `dim`, finite for logits of any size.

    >>> log_softmax([0.0, 0.0], dim=0)
    tensor([-0.6931472, -0.6931472])
    """
    x = floating_of(_converted(input, dtype), "log_softmax: input")
    return along(activation.LogSoftmax, x, _axis(x, dim, "log_softmax"), "log_softmax")


def silu(input: Any, inplace: bool = False) -> Tensor:
    """y = x·σ(x), σ the sigmoid, any shape; also called swish.

    >>> round(silu([1.0]).item(), 4)
    0.7311
    """
    if inplace:
        return in_place(silu, input)
    return curve.Silu(floating_of(input, "silu: input"))


def sigmoid(input: Any) -> Tensor:
    """y = 1 / (1 + exp(−x)), any shape."""
    return curve.Sigmoid(tensor_of(input, "sigmoid: input"))


def tanh(input: Any) -> Tensor:
    """y = tanh x, any shape."""
    return curve.Tanh(tensor_of(input, "tanh: input"))


def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """y = ln(1 + exp(beta·x)) / beta, any shape, without overflow.

    Where beta·x is above `threshold`, y = x. From the default on that changes no float32, and the formula is used
    everywhere: its derivatives are exact there, too.

    >>> softplus([1000.0])
    tensor([1000.])
    """
    x = floating_of(input, "softplus: input")
    beta = number_beside(beta, x, "softplus: beta", above=0.0, nan=False)
    y = curve.Softplus(x, beta=beta)
    threshold = number_beside(threshold, x, "softplus: threshold", nan=False)
    return y if threshold >= 20.0 else choice.Where(x * beta > threshold, x, y)


def logsigmoid(input: Any) -> Tensor:
    """y = ln σ(x) = −softplus(−x), any shape, without overflow.

    >>> logsigmoid([-300.0])
    tensor([-300.])
    """
    return -softplus(-tensor_of(input, "logsigmoid: input"))


def relu6(input: Any, inplace: bool = False) -> Tensor:
    """y = x brought into 0 to 6, any shape; at a bound and beyond, the gradient is 0."""
    if inplace:
        return in_place(relu6, input)
    return hardtanh(input, 0.0, 6.0)


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """y = x brought into min_val to max_val, any shape; at a bound and beyond, the gradient is 0.

    >>> hardtanh([-2.0, 0.5])
    tensor([-1. ,  0.5])
    """
    if inplace:
        return in_place(hardtanh, input, min_val, max_val)
    x = floating_of(input, "hardtanh: input")
    min_val, max_val = (number(v, f"hardtanh: {n}") for n, v in (("min_val", min_val), ("max_val", max_val)))
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val must not be above max_val, got {min_val:g} and {max_val:g}")
    outside = (x <= min_val) | (x >= max_val)
    return choice.Where(outside, x.detach().clamp(min_val, max_val), x)  # the gradient passes at NaN


def hardsigmoid(input: Any, inplace: bool = False) -> Tensor:
    """y = (x + 3) / 6 brought into 0 to 1, any shape."""
    if inplace:
        return in_place(hardsigmoid, input)
    x = floating_of(input, "hardsigmoid: input") + 3.0
    return choice.Where((x > 0) & (x < 6), x, x.detach().clamp(0.0, 6.0)) / 6.0  # unlike relu6, 0 is the slope at NaN


def hardswish(input: Any, inplace: bool = False) -> Tensor:
    """y = x · hardsigmoid(x), any shape."""
    if inplace:
        return in_place(hardswish, input)
    x = floating_of(input, "hardswish: input")
    return x * hardsigmoid(x)


def mish(input: Any, inplace: bool = False) -> Tensor:
    """y = x · tanh(softplus(x)), any shape."""
    if inplace:
        return in_place(mish, input)
    x = floating_of(input, "mish: input")
    return x * curve.TanhSoftplus(x)


def selu(input: Any, inplace: bool = False) -> Tensor:
    """y = 1.0507·(x where x > 0, else 1.6733·(exp x − 1)), any shape.

    Source: Klambauer et al., "Self-normalizing neural networks", 2017.
    """
    if inplace:
        return in_place(selu, input)
    return elu(input, 1.6732632423543772) * 1.0507009873554805


def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """y = x where x > 0, else alpha·(exp(x/alpha) − 1), any shape."""
    if inplace:
        return in_place(celu, input, alpha)
    x = floating_of(input, "celu: input")
    alpha = number_beside(alpha, x, "celu: alpha")
    if not alpha:
        raise ValueError("celu: alpha must not be 0: the formula divides by it")
    return curve.Elu(x, alpha=alpha, width=alpha)


def softsign(input: Any) -> Tensor:
    """y = x / (1 + |x|), any shape."""
    return curve.Softsign(floating_of(input, "softsign: input"))


def tanhshrink(input: Any) -> Tensor:
    """y = x − tanh x, any shape."""
    return curve.Tanhshrink(floating_of(input, "tanhshrink: input"))


def prelu(input: Any, weight: Any) -> Tensor:
    """y = x where x > 0, else weight·x; `weight` [1], or one number for each index of axis 1."""
    x, w = floating_of(input, "prelu: input"), floating_of(weight, "prelu: weight")
    shape, form = x.array.shape, w.array.shape
    if len(form) > 1 or (w.array.size != 1 and (len(shape) < 2 or form != shape[1:2])):
        raise ValueError(f"prelu: weight {form} must be one number, or one for each index of axis 1 of {shape}")
    if w.array.dtype != x.array.dtype:
        raise TypeError(f"prelu: input is {x.array.dtype}, weight {w.array.dtype}; convert one with .to()")
    w = w.reshape(()) if w.array.size == 1 else w.reshape(-1, *(1,) * (len(shape) - 2))
    return choice.Where(x > 0, x, x * w)


def glu(input: Any, dim: int = -1) -> Tensor:
    """y = a·σ(b), a and b the halves of the input along `dim`.

    Source: Dauphin et al., "Language modeling with gated convolutional networks", 2017.

    >>> glu([1.0, 2.0, 0.0, 0.0])
    tensor([0.5, 1. ])
    """
    x = floating_of(input, "glu: input")
    if x.array.shape[axis_of(x, dim, "glu")] % 2:
        raise ValueError(f"glu: the length of dim {dim} must be even, the input has shape {x.array.shape}")
    a, b = x.chunk(2, dim)
    return a * b.sigmoid()


def gumbel_softmax(logits: Any, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """y = softmax((logits + noise) / tau) with Gumbel noise: a soft draw from the distribution of the logits.

    `hard` makes it one-hot, with the gradient of the soft one. `eps` is PyTorch's and has no effect.

    Source: Jang, Gu and Poole, "Categorical reparameterization with Gumbel-softmax", 2017.
    """
    x = floating_of(logits, "gumbel_softmax: logits")
    tau = number(tau, "gumbel_softmax: tau", nan=True)
    noise = -x.new_zeros(x.array.shape).exponential_().log()
    soft = softmax((x + noise) / tau, dim)
    if not hard:
        return soft
    place = soft.detach().argmax(dim, keepdim=True)
    return x.new_zeros(x.array.shape).scatter_(dim, place, 1.0) - soft.detach() + soft


def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """y = x where x > 0, else negative_slope·x, any shape."""
    if inplace:
        return in_place(leaky_relu, input, negative_slope)
    x = floating_of(input, "leaky_relu: input")
    return curve.LeakyRelu(x, slope=number_beside(negative_slope, x, "leaky_relu: negative_slope"))


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """y = x where x > 0, else alpha·(exp x − 1), any shape."""
    if inplace:
        return in_place(elu, input, alpha)
    x = floating_of(input, "elu: input")
    return curve.Elu(x, alpha=number_beside(alpha, x, "elu: alpha"))


def _converted(x: Any, dtype: Any) -> Any:
    return x if dtype is None else tensor_of(x, "input").to(dtype)


def _axis(x: Any, dim: int | None, what: str) -> int:
    if dim is not None:
        return dim
    axis = 0 if x.array.ndim in (0, 1, 3) else 1
    warnings.warn(f"{what}: dim was not given, so it is {axis}; say which axis is meant", stacklevel=3)
    return axis
