"""Convolutions and pooling as modules, each one line of nn.functional."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_edu.creation import empty
from tinygrad_edu.nn import functional as F
from tinygrad_edu.nn import init
from tinygrad_edu.nn.module import Module
from tinygrad_edu.nn.parameter import Parameter
from tinygrad_edu.options import integer, lengths
from tinygrad_edu.tensor import Tensor


class _Convolution(Module):
    axes = 1

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        kind = type(self).__name__
        integer(groups, f"{kind}: groups", 1)
        integer(in_channels, f"{kind}: in_channels", 0), integer(out_channels, f"{kind}: out_channels", 0)
        if in_channels % groups or out_channels % groups:
            raise ValueError(f"{kind}: {in_channels} and {out_channels} channels do not divide into {groups} groups")
        if padding_mode != "zeros":
            raise ValueError(f"{kind}: padding_mode {padding_mode!r} is not here; only 'zeros' is")
        size = lengths(kernel_size, self.axes, f"{kind}: kernel_size", 1)
        lengths(stride, self.axes, f"{kind}: stride", 1), lengths(dilation, self.axes, f"{kind}: dilation", 1)
        if not isinstance(padding, str):
            lengths(padding, self.axes, f"{kind}: padding", 0)
        elif padding not in ("same", "valid"):
            raise ValueError(f"{kind}: padding is a number, 'same' or 'valid', not {padding!r}")
        elif padding == "same" and set(lengths(stride, self.axes, f"{kind}: stride")) != {1}:
            raise ValueError(f"{kind}: padding 'same' needs stride 1, got {stride}")
        self.in_channels, self.out_channels, self.kernel_size, self.groups = in_channels, out_channels, size, groups
        self.stride, self.padding, self.dilation = stride, padding, dilation
        shape = (out_channels, in_channels // groups, *size)
        self.weight = Parameter(empty(shape, dtype=dtype, device=device))
        self.bias = Parameter(empty(out_channels, dtype=dtype, device=device)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the first values again."""
        bound = 1 / math.sqrt(max(math.prod(self.weight.shape[1:]), 1))
        for p in (self.weight, self.bias):
            if p is not None:
                init.uniform_(p, -bound, bound)

    def extra_repr(self) -> str:
        """3, 8, kernel_size=(3, 3), stride=1"""
        return f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"


class Conv1d(_Convolution):
    """A sum of products with a small kernel that moves along an axis; see nn.functional.conv1d.

    Args:
        in_channels, out_channels: C and O of [B, C, T] -> [B, O, T']. kernel_size: k.
        stride, padding, dilation, groups: as of nn.functional.conv1d. bias: whether there is one.
        padding_mode: "zeros" is all there is. device, dtype: of the parameters.

    Parameters: weight [O, C / groups, k] and bias [O], uniform in ±1/√(C / groups · k) at first.

    >>> import tinygrad_edu as tg
    >>> Conv1d(3, 8, kernel_size=5, padding=2)(tg.zeros(2, 3, 10)).shape
    (2, 8, 10)
    """

    def forward(self, input: Any) -> Tensor:
        """[B, C, T] -> [B, O, T']."""
        return F.conv1d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv2d(_Convolution):
    """`Conv1d` over two axes, [B, C, H, W] -> [B, O, H', W']; options are a number or a pair.

    >>> import tinygrad_edu as tg
    >>> Conv2d(3, 8, kernel_size=4, stride=4)(tg.zeros(2, 3, 16, 8)).shape
    (2, 8, 4, 2)
    """

    axes = 2

    def forward(self, input: Any) -> Tensor:
        """[B, C, H, W] -> [B, O, H', W']."""
        return F.conv2d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class _Pool(Module):
    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, kernel_size if stride is None else stride, padding

    def forward(self, input: Any) -> Tensor:
        """[B, C, ...] -> [B, C, ...]"""
        return getattr(F, self.function)(input, self.kernel_size, self.stride, self.padding)

    function = ""

    def extra_repr(self) -> str:
        """kernel_size=2, stride=2, padding=0"""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxPool1d(_Pool):
    """The largest of each window; see nn.functional.max_pool1d."""

    function = "max_pool1d"


class MaxPool2d(_Pool):
    """The largest of each window; see nn.functional.max_pool2d."""

    function = "max_pool2d"


class AvgPool1d(_Pool):
    """The mean of each window; see nn.functional.avg_pool1d."""

    function = "avg_pool1d"


class AvgPool2d(_Pool):
    """The mean of each window; see nn.functional.avg_pool2d."""

    function = "avg_pool2d"


class AdaptiveAvgPool1d(Module):
    """The means of so many windows as make up the last axis; see nn.functional.adaptive_avg_pool1d."""

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Any) -> Tensor:
        """[B, C, T] -> [B, C, output_size]."""
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(Module):
    """The means of so many windows as make up the last two axes; see nn.functional.adaptive_avg_pool2d."""

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Any) -> Tensor:
        """[B, C, H, W] -> [B, C, *output_size]."""
        return F.adaptive_avg_pool2d(input, self.output_size)
