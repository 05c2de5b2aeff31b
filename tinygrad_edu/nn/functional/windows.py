"""Convolution and pooling: windows of the input as strided slices side by side, then one product or one extreme."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from tinygrad_edu.functional import stack
from tinygrad_edu.nn.functional.common import floating_of
from tinygrad_edu.nn.functional.layers import pad
from tinygrad_edu.tensor import Tensor


def conv1d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """y[o, t] = b[o] + Σ_{c, i} W[o, c, i] · x[c, t·stride + i·dilation − padding].

    Args:
        input: [B, C, T] or [C, T]. weight: [O, C / groups, k]. bias: [O].
        padding: zeros on both ends, or "valid" for none and "same" for as many outputs as inputs at stride 1.
        groups: so many parts of the channels that do not see each other.

    Returns [B, O, (T + 2·padding − dilation·(k − 1) − 1) // stride + 1]. Raises ValueError where the shapes do not fit.

    >>> conv1d([[1.0, 2.0, 3.0]], [[[1.0, 10.0]]])
    tensor([[21., 32.]])
    """
    return _convolved(input, weight, bias, (stride, padding, dilation), groups, 1)


def conv2d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """`conv1d` over two axes: input [B, C, H, W] or [C, H, W], weight [O, C / groups, kH, kW].

    Options are a number or a pair.
    """
    return _convolved(input, weight, bias, (stride, padding, dilation), groups, 2)


def max_pool1d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1) -> Tensor:
    """The largest of each window of the last axis, one every `stride`, a window's length unless given."""
    return _pooled(input, kernel_size, stride, padding, dilation, 1, float("-inf")).amax(-1)


def max_pool2d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1) -> Tensor:
    """The largest of each window of the last two axes; `padding` is smaller than anything.

    Unlike PyTorch's, equal ones share the gradient evenly.
    """
    return _pooled(input, kernel_size, stride, padding, dilation, 2, float("-inf")).amax(-1)


def avg_pool1d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0) -> Tensor:
    """The mean of each window of the last axis, zeros of the padding included."""
    return _pooled(input, kernel_size, stride, padding, 1, 1, 0.0).mean(-1)


def avg_pool2d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0) -> Tensor:
    """The mean of each window of the last two axes, zeros of the padding included."""
    return _pooled(input, kernel_size, stride, padding, 1, 2, 0.0).mean(-1)


def adaptive_avg_pool1d(input: Any, output_size: Any) -> Tensor:
    """The means of `output_size` windows that make up the last axis; window i goes from ⌊i·n/m⌋ to ⌈(i + 1)·n/m⌉."""
    return _adapted(floating_of(input, "adaptive_avg_pool1d: input"), -1, _each(output_size, 1)[0])


def adaptive_avg_pool2d(input: Any, output_size: Any) -> Tensor:
    """`adaptive_avg_pool1d` of the last two axes; None keeps a length."""
    x, sizes = floating_of(input, "adaptive_avg_pool2d: input"), output_size
    rows, columns = (sizes, sizes) if isinstance(sizes, int) else sizes
    return _adapted(_adapted(x, -1, columns), -2, rows)


def _adapted(x: Any, dim: int, size: int | None) -> Any:
    n = x.shape[dim]
    if size is None or size == n:
        return x
    if size == 1:
        return x.mean(dim, keepdim=True)
    ends = [(i * n // size, -(-(i + 1) * n // size)) for i in range(size)]
    return stack([x.narrow(dim, a, b - a).mean(dim) for a, b in ends], dim)


def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The windows of [B, C, H, W] as columns: [B, C·kH·kW, number of windows]."""
    x = floating_of(input, "unfold: input")
    if x.ndim != 4:
        raise ValueError(f"unfold: needs [B, C, H, W], got shape {x.shape}")
    size, step, around, apart = (_each(v, 2) for v in (kernel_size, stride, padding, dilation))
    windows = _windows(x, size, step, around, apart, 0.0)  # [B, C, H, W, k]
    return windows.permute(0, 1, 4, 2, 3).flatten(3).flatten(1, 2)


def _each(value: Any, axes: int) -> tuple[int, ...]:
    """An option for each axis, from a number or a sequence."""
    given = (value,) * axes if isinstance(value, int) else tuple(value)
    return given * axes if len(given) == 1 else given


def _windows(
    x: Any,
    size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    value: float,
) -> Any:
    """x [..., *lengths] -> [..., *windows, Π size], each position of a window a strided slice of the padded x."""
    axes = len(size)
    if any(padding):
        x = pad(x, [n for p in reversed(padding) for n in (p, p)], value=value)
    spans = [d * (k - 1) + 1 for k, d in zip(size, dilation)]
    counts = [(n - span) // s + 1 for n, span, s in zip(x.shape[-axes:], spans, stride)]
    if any(n < span for n, span in zip(x.shape[-axes:], spans)):
        raise ValueError(f"a window of {tuple(spans)} does not fit into {x.shape[-axes:]}, padding included")
    parts = []
    for place in itertools.product(*map(range, size)):
        begins = [i * d for i, d in zip(place, dilation)]
        cut = (slice(b, b + (n - 1) * s + 1, s) for b, n, s in zip(begins, counts, stride))
        parts.append(x[(..., *cut)])
    return stack(parts, -1)


def _convolved(input: Any, weight: Any, bias: Any, options: tuple[Any, Any, Any], groups: int, axes: int) -> Any:
    what = f"conv{axes}d"
    x, w = floating_of(input, f"{what}: input"), floating_of(weight, f"{what}: weight")
    alone = x.ndim == axes + 1
    x = x.unsqueeze(0) if alone else x
    if x.ndim != axes + 2 or w.ndim != axes + 2 or x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise ValueError(
            f"{what}: input {x.shape} and weight {w.shape} do not fit at groups={groups}: the input is [B, C, ...], "
            f"the weight [O, C / groups, ...] with {axes} more axes"
        )
    stride, dilation = _each(options[0], axes), _each(options[2], axes)
    size, padding = w.shape[2:], options[1]
    if padding == "same":
        if any(s != 1 for s in stride):
            raise ValueError(f"{what}: padding 'same' needs stride 1, got {stride}")
        lacks = [d * (k - 1) for k, d in zip(size, dilation)]
        x = pad(x, [n for lack in reversed(lacks) for n in (lack // 2, lack - lack // 2)])
    padding = (0,) * axes if isinstance(padding, str) else _each(padding, axes)
    windows = _windows(x, size, stride, padding, dilation, 0.0)  # [B, C, *windows, k]
    rows = windows.movedim(1, -2).unflatten(-2, (groups, -1)).flatten(-2)  # [B, *windows, groups, C / groups · k]
    kernels = w.reshape(groups, w.shape[0] // groups, -1).mT  # [groups, C / groups · k, O / groups]
    y = (rows.unsqueeze(-2) @ kernels).squeeze(-2).flatten(-2) if groups > 1 else rows.squeeze(-2) @ kernels[0]
    y = (y if bias is None else y + bias).movedim(-1, 1)
    return y.squeeze(0) if alone else y


def _pooled(input: Any, size: Any, stride: Any, padding: Any, dilation: Any, axes: int, value: float) -> Any:
    x = floating_of(input, f"pool{axes}d: input")
    sizes = _each(size, axes)
    steps = sizes if stride is None else _each(stride, axes)
    return _windows(x, sizes, steps, _each(padding, axes), _each(dilation, axes), value)
