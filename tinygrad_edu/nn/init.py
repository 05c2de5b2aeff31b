"""First values for parameters, drawn or set in place; every function returns its tensor and records nothing.

Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010 (xavier);
He et al., "Delving deep into rectifiers", 2015 (kaiming).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_edu import random
from tinygrad_edu.absent import missing
from tinygrad_edu.creation import eye
from tinygrad_edu.engine.modes import no_grad
from tinygrad_edu.methods.common import check_draws
from tinygrad_edu.random import Generator
from tinygrad_edu.tensor import Tensor

_GAINS = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2.0), "selu": 3 / 4}


@no_grad
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform in [a, b)."""
    return tensor.uniform_(a, b, generator=generator)


@no_grad
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with the given mean and standard deviation."""
    return tensor.normal_(mean, std, generator=generator)


@no_grad
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Normal, draws outside [a, b] made again. Raises ValueError where next to none would lie inside.

    `a` and `b` are values, not numbers of standard deviations.
    """
    check_draws(tensor, "trunc_normal_")
    if not std > 0:
        raise ValueError(f"trunc_normal_: std must be above 0, got {std}")
    if not a < b or (a - mean) / std > 6 or (b - mean) / std < -6:
        raise ValueError(f"trunc_normal_: hardly a draw with mean {mean} and std {std} lies in [{a}, {b}]")
    rng = (generator or random.current()).numpy()
    draws = rng.normal(mean, std, tensor.shape)
    while (outside := (draws < a) | (draws > b)).any():
        draws[outside] = rng.normal(mean, std, int(outside.sum()))
    return tensor.copy_(draws)


@no_grad
def eye_(tensor: Tensor) -> Tensor:
    """The identity: a matrix with ones on the diagonal. Raises ValueError for other than two axes."""
    if tensor.ndim != 2:
        raise ValueError(f"eye_: needs a matrix, got shape {tensor.shape}")
    return tensor.copy_(eye(tensor.shape[0], tensor.shape[1]))


@no_grad
def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """gain·Q with orthonormal rows (or columns, where there are more rows), drawn evenly among all such.

    Axes from the second on count as one. Raises ValueError for fewer than two axes.

    Source: Saxe, McClelland and Ganguli, "Exact solutions to the nonlinear dynamics of learning", 2014.
    """
    check_draws(tensor, "orthogonal_")
    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_: needs two or more axes, got shape {tensor.shape}")
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    draws = (generator or random.current()).numpy().standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(draws)
    q *= np.sign(np.diag(r))
    return tensor.copy_(gain * (q if rows >= columns else q.T).reshape(tensor.shape))


@no_grad
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Every element `val`."""
    return tensor.fill_(val)


@no_grad
def zeros_(tensor: Tensor) -> Tensor:
    """Every element 0."""
    return tensor.zero_()


@no_grad
def ones_(tensor: Tensor) -> Tensor:
    """Every element 1."""
    return tensor.fill_(1.0)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the spread of activations through a nonlinearity; `param` is leaky_relu's slope, 0.01.

    Raises ValueError for a name it does not know.

    >>> calculate_gain("relu") ** 2
    2.0000000000000004
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"calculate_gain: {nonlinearity!r} is none of {', '.join([*_GAINS, 'leaky_relu'])}")
    return _GAINS[nonlinearity]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform in ±gain·√(6 / (fan_in + fan_out)), for a weight [out, in, ...]."""
    bound = gain * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with standard deviation gain·√(2 / (fan_in + fan_out)), for a weight [out, in, ...]."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))), generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform in ±gain·√(3 / fan), for a weight [out, in, ...] before the nonlinearity (`a`: leaky_relu's slope)."""
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal with standard deviation gain / √fan, for a weight [out, in, ...] before the nonlinearity."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"kaiming: mode is 'fan_in' or 'fan_out', not {mode!r}")
    return calculate_gain(nonlinearity, a) / math.sqrt(_fans(tensor)[mode == "fan_out"])


def _fans(tensor: Tensor) -> tuple[int, int]:
    if tensor.ndim < 2:
        raise ValueError(f"init: fan_in and fan_out need a weight of two or more axes, not the shape {tensor.shape}")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


_calculate_fan_in_and_fan_out = _fans  # not public in PyTorch, yet layers written by hand call it

_INSTEAD = {
    name: f"use {name}_, which changes in place as its name says"
    for name in ("uniform", "normal", "constant", "xavier_uniform", "xavier_normal", "kaiming_uniform",
                 "kaiming_normal", "orthogonal", "eye")
} | {"dirac_": "use zeros_, then assign the middle", "sparse_": "use normal_ and a mask"}  # fmt: skip


def __getattr__(name: str) -> Any:
    raise missing("nn.init", name, [n for n in globals() if n[0] != "_"], _INSTEAD)
