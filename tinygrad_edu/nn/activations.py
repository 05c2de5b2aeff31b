"""Activations as modules: each calls the function of its name in nn.functional."""

from __future__ import annotations

from typing import Any

from tinygrad_edu.creation import full
from tinygrad_edu.nn import functional as F
from tinygrad_edu.nn.module import Module
from tinygrad_edu.nn.parameter import Parameter
from tinygrad_edu.options import integer
from tinygrad_edu.tensor import Tensor


class _Activation(Module):
    """A module without parameters, x of any shape to y of the same shape; its arguments are shown when printed.

    `inplace` writes y into the memory of x, and y is x.
    """

    def extra_repr(self) -> str:
        """negative_slope=0.01"""
        return ", ".join(
            f"{name}={value}"
            for name, value in vars(self).items()
            if name[0] != "_" and name not in ("training", "inplace")
        )


class ReLU(_Activation):
    """y = max(x, 0); the gradient at 0 is 0."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Tensor:
        """x of any shape -> y of the same shape."""
        return F.relu(input, self.inplace)


class ReLU6(_Activation):
    """y = x brought into 0 to 6."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Tensor:
        """x of any shape -> y of the same shape."""
        return F.relu6(input, self.inplace)


class LeakyReLU(_Activation):
    """y = x where x > 0, else negative_slope·x."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Any) -> Tensor:
        """x of any shape -> y of the same shape."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class ELU(_Activation):
    """y = x where x > 0, else alpha·(exp x − 1)."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Any) -> Tensor:
        """x of any shape -> y of the same shape."""
        return F.elu(input, self.alpha, self.inplace)


class CELU(_Activation):
    """y = x where x > 0, else alpha·(exp(x/alpha) − 1)."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Any) -> Tensor:
        """x of any shape -> y of the same shape."""
        return F.celu(input, self.alpha, self.inplace)


class SELU(_Activation):
    """y = 1.0507·(x where x > 0, else 1.6733·(exp x − 1))."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Tensor:
        """x of any shape -> y of the same shape."""
        return F.selu(input, self.inplace)


class SiLU(_Activation):
    """y = x·σ(x), σ the sigmoid; also called swish."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Tensor:
        """x of any shape -> y of the same shape."""
        return F.silu(input, self.inplace)


class Mish(_Activation):
    """y = x·tanh(softplus(x))."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Tensor:
        """x of any shape -> y of the same shape."""
        return F.mish(input, self.inplace)


class Hardswish(_Activation):
    """y = x·hardsigmoid(x)."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Tensor:
        """x of any shape -> y of the same shape."""
        return F.hardswish(input, self.inplace)


class Hardsigmoid(_Activation):
    """y = (x + 3) / 6 brought into 0 to 1."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Tensor:
        """x of any shape -> y of the same shape."""
        return F.hardsigmoid(input, self.inplace)


class Hardtanh(_Activation):
    """y = x brought into min_val to max_val."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        if not min_val < max_val:
            raise ValueError(f"Hardtanh: max_val must be above min_val, got {max_val} and {min_val}")
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input: Any) -> Tensor:
        """x of any shape -> y of the same shape."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class Sigmoid(_Activation):
    """y = 1 / (1 + exp(−x))."""

    def forward(self, input: Any) -> Tensor:
        """x of any shape -> y of the same shape."""
        return F.sigmoid(input)


class LogSigmoid(_Activation):
    """y = ln σ(x), σ the sigmoid, without overflow."""

    def forward(self, input: Any) -> Tensor:
        """x of any shape -> y of the same shape."""
        return F.logsigmoid(input)


class Tanh(_Activation):
    """y = tanh x."""

    def forward(self, input: Any) -> Tensor:
        """x of any shape -> y of the same shape."""
        return F.tanh(input)


class Tanhshrink(_Activation):
    """y = x − tanh x."""

    def forward(self, input: Any) -> Tensor:
        """x of any shape -> y of the same shape."""
        return F.tanhshrink(input)


class Softsign(_Activation):
    """y = x / (1 + |x|)."""

    def forward(self, input: Any) -> Tensor:
        """x of any shape -> y of the same shape."""
        return F.softsign(input)


class Softplus(_Activation):
    """y = ln(1 + exp(beta·x)) / beta, without overflow."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Any) -> Tensor:
        """x of any shape -> y of the same shape."""
        return F.softplus(input, self.beta, self.threshold)


class GLU(_Activation):
    """y = a·σ(b), a and b the halves of x along `dim`."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Tensor:
        """x [..., 2n] -> y [..., n] along `dim`."""
        return F.glu(input, self.dim)


class Softmax(_Activation):
    """y = exp x / Σ exp x along `dim`; see nn.functional.softmax for None."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Tensor:
        """x of any shape -> y of the same shape."""
        return F.softmax(input, self.dim)


class LogSoftmax(_Activation):
    """y = x − ln Σ exp x along `dim`; see nn.functional.softmax for None."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Tensor:
        """x of any shape -> y of the same shape."""
        return F.log_softmax(input, self.dim)


class Softmin(_Activation):
    """y = softmax(−x) along `dim`; see nn.functional.softmax for None."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Tensor:
        """x of any shape -> y of the same shape."""
        return F.softmin(input, self.dim)


class PReLU(Module):
    """y = x where x > 0, else weight·x, the weight learned: one, or one for each index of axis 1.

    Args:
        num_parameters: how many weights. init: their first value. device, dtype: of the weight.

    >>> import tinygrad_edu as tg
    >>> PReLU()(tg.tensor([-4.0, 1.0])).tolist()
    [-1.0, 1.0]
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = integer(num_parameters, "PReLU: num_parameters", 0)
        self.weight = Parameter(full((num_parameters,), float(init), dtype=dtype, device=device))

    def forward(self, input: Any) -> Tensor:
        """x of any shape -> y of the same shape."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """num_parameters=1"""
        return f"num_parameters={self.num_parameters}"
