"""Norms over the batch and over groups of channels, as modules."""

from __future__ import annotations

from typing import Any, ClassVar

from tinygrad_edu.creation import ones, zeros
from tinygrad_edu.engine.modes import no_grad
from tinygrad_edu.nn import functional as F
from tinygrad_edu.nn.module import Module
from tinygrad_edu.nn.parameter import Buffer, Parameter
from tinygrad_edu.options import integer, number
from tinygrad_edu.tensor import Tensor


class BatchNorm1d(Module):
    """y = (x − mean) / √(variance + ε) ⊙ weight + bias for every channel, over the batch and what lies behind axis 1.

    In training mean and variance are the batch's, and running means of them are kept; in evaluation those are used.

    Args:
        num_features: C of [B, C] or [B, C, T].
        eps: ε. momentum: the new part of a running mean; None counts all batches alike.
        affine: whether there are weight and bias. track_running_stats: whether running means are kept.
        device, dtype: of the parameters. bias: False for a weight alone.

    Buffers: running_mean, running_var [C], num_batches_tracked.
    Source: Ioffe and Szegedy, "Batch normalization", 2015.

    >>> import tinygrad_edu as tg
    >>> BatchNorm1d(2)(tg.tensor([[1.0, 5.0], [3.0, 5.0]])).detach().numpy().round(2).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """

    ndims: ClassVar[tuple[int, ...]] = (2, 3)

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        integer(num_features, f"{type(self).__name__}: num_features", 0)
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.weight = Parameter(ones(num_features, dtype=dtype, device=device)) if affine else None
        self.bias = Parameter(zeros(num_features, dtype=dtype, device=device)) if affine and bias else None
        kept = track_running_stats
        self.running_mean = Buffer(zeros(num_features, dtype=dtype, device=device)) if kept else None
        self.running_var = Buffer(ones(num_features, dtype=dtype, device=device)) if kept else None
        self.num_batches_tracked = Buffer(0) if kept else None

    def forward(self, input: Any) -> Tensor:
        """[B, C, ...] -> the same shape."""
        if input.ndim not in self.ndims:
            raise ValueError(f"{type(self).__name__}: needs {self.ndims} axes, got shape {input.shape}")
        momentum = self.momentum
        if self.training and self.num_batches_tracked is not None:
            with no_grad():
                self.num_batches_tracked.add_(1)
            momentum = 1.0 / self.num_batches_tracked.item() if momentum is None else momentum
        number(self.eps, f"{type(self).__name__}: eps", above=0.0)
        own = self.training or self.running_mean is None
        return F.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, own, momentum or 0.0, self.eps
        )

    def extra_repr(self) -> str:
        """8, eps=1e-05, momentum=0.1"""
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"


class BatchNorm2d(BatchNorm1d):
    """`BatchNorm1d` of [B, C, H, W]."""

    ndims = (4,)


class GroupNorm(Module):
    """y = (x − mean) / √(variance + ε) ⊙ weight + bias, over each group of channels of each sample.

    Args:
        num_groups: into how many groups the channels are divided. num_channels: C of [B, C, ...].
        eps: ε. affine: whether there are weight and bias, [C]. device, dtype: of the parameters.
        bias: False for a weight alone.

    Source: Wu and He, "Group normalization", 2018.

    >>> import tinygrad_edu as tg
    >>> GroupNorm(2, 4)(tg.zeros(3, 4, 5)).shape
    (3, 4, 5)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        integer(num_groups, "GroupNorm: num_groups", 1)
        if integer(num_channels, "GroupNorm: num_channels", 0) % num_groups:
            raise ValueError(f"GroupNorm: {num_channels} channels do not divide into {num_groups} groups")
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = Parameter(ones(num_channels, dtype=dtype, device=device)) if affine else None
        self.bias = Parameter(zeros(num_channels, dtype=dtype, device=device)) if affine and bias else None

    def forward(self, input: Any) -> Tensor:
        """[B, C, ...] -> the same shape."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """2, 4, eps=1e-05"""
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}"
