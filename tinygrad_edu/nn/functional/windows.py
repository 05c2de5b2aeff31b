"""Convolution and pooling: windows of the input as strided slices side by side, then one product or one extreme."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from tinygrad_edu.functional import stack
from tinygrad_edu.methods.common import widened
from tinygrad_edu.nn.functional.common import beside, floating_of
from tinygrad_edu.nn.functional.layers import pad
from tinygrad_edu.options import integer, lengths
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
    """The largest of each window of the last axis, one every `stride`, a window's length unless given.

    Args:
        input: [B, C, T] or [C, T].
        padding: how many numbers smaller than anything are added to both ends, at most half a window.
        dilation: distance between the elements of a window.

    Raises ValueError where the shapes do not fit. Of equal ones the first gets the gradient.
    """
    return _pooled(input, kernel_size, stride, padding, dilation, "max_pool1d", float("-inf")).max(-1).values


def max_pool2d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1) -> Tensor:
    """`max_pool1d` over two axes: input [B, C, H, W] or [C, H, W]; options are a number or a pair."""
    return _pooled(input, kernel_size, stride, padding, dilation, "max_pool2d", float("-inf")).max(-1).values


def avg_pool1d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0) -> Tensor:
    """The mean of each window of the last axis, zeros of the padding included; arguments as of `max_pool1d`."""
    return _pooled(input, kernel_size, stride, padding, 1, "avg_pool1d", 0.0).mean(-1)


def avg_pool2d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0) -> Tensor:
    """The mean of each window of the last two axes, zeros of the padding included; arguments as of `max_pool2d`."""
    return _pooled(input, kernel_size, stride, padding, 1, "avg_pool2d", 0.0).mean(-1)


def adaptive_avg_pool1d(input: Any, output_size: Any) -> Tensor:
    """The means of `output_size` windows that make up the last axis; window i goes from ⌊i·n/m⌋ to ⌈(i + 1)·n/m⌉.

    input [B, C, n] or [C, n].
    """
    size = lengths(output_size, 1, "adaptive_avg_pool1d: output_size", 0)[0]
    return _adapted(floating_of(input, "adaptive_avg_pool1d: input"), [size], "adaptive_avg_pool1d")


def adaptive_avg_pool2d(input: Any, output_size: Any) -> Tensor:
    """`adaptive_avg_pool1d` of the last two axes, of [B, C, H, W] or [C, H, W]; None keeps a length."""
    x, what = floating_of(input, "adaptive_avg_pool2d: input"), "adaptive_avg_pool2d: output_size"
    given = list(output_size) if isinstance(output_size, tuple | list) else [output_size] * 2
    if len(given) != 2 or output_size is None:
        raise ValueError(f"{what} must be one length or two, got {output_size!r}")
    return _adapted(x, [n if n is None else integer(n, what, 0) for n in given], "adaptive_avg_pool2d")


def _adapted(x: Any, sizes: list[int | None], what: str) -> Any:
    axes = len(sizes)
    _check_form(x, what, axes, x.array.shape[-axes:])
    y = x
    for dim, size in zip(range(-1, -axes - 1, -1), reversed(sizes)):
        n = x.array.shape[dim]
        if size == 0:
            y = y.narrow(dim, 0, 0)
        elif size == 1:
            y = y.mean(dim, keepdim=True)
        elif size is not None and size != n:
            ends = [(i * n // size, -(-(i + 1) * n // size)) for i in range(size)]
            y = stack([y.narrow(dim, a, b - a).mean(dim) for a, b in ends], dim)
    return x.clone() if y is x else y


def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The windows of [B, C, H, W] as columns: [B, C·kH·kW, number of windows]."""
    x = floating_of(input, "unfold: input")
    if x.ndim != 4:
        raise ValueError(f"unfold: needs [B, C, H, W], got shape {x.shape}")
    size, step, around, apart = _options("unfold", 2, kernel_size, stride, padding, dilation)
    windows = _windows(x, size, step, around, apart, 0.0)  # [B, C, H, W, k]
    return windows.permute(0, 1, 4, 2, 3).flatten(3).flatten(1, 2)


def _check_form(x: Any, what: str, axes: int, filled: tuple[int, ...]) -> None:
    """Raise where the input has not `axes` axes after the channels, and maybe a batch; none of `filled` may be 0."""
    if x.array.ndim not in (axes + 1, axes + 2) or 0 in filled:
        form = "[B, C, T] or [C, T]" if axes == 1 else "[B, C, H, W] or [C, H, W]"
        raise ValueError(f"{what}: input must be {form}, not empty, got shape {x.array.shape}")


def _options(what: str, axes: int, size: Any, stride: Any, padding: Any, dilation: Any) -> list[tuple[int, ...]]:
    """Lengths of the window, its stride, padding and dilation, for each axis; checked."""
    least = {"kernel_size": (size, 1), "stride": (stride, 1), "padding": (padding, 0), "dilation": (dilation, 1)}
    return [lengths(value, axes, f"{what}: {name}", low) for name, (value, low) in least.items()]


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
    groups = integer(groups, f"{what}: groups", 1)
    x, w = floating_of(input, f"{what}: input"), floating_of(weight, f"{what}: weight")
    alone = x.ndim == axes + 1
    x = x.unsqueeze(0) if alone else x
    if x.ndim != axes + 2 or w.ndim != axes + 2 or x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise ValueError(
            f"{what}: input {x.shape} and weight {w.shape} do not fit at groups={groups}: the input is [B, C, ...], "
            f"the weight [O, C / groups, ...] with {axes} more axes"
        )
    b = None if bias is None else beside(bias, x, f"{what}: bias")
    if b is not None and b.shape != w.shape[:1]:
        raise ValueError(f"{what}: bias has shape {b.shape}, the weight {w.shape} needs {w.shape[:1]}")
    for name, part in (("weight", w), ("bias", b)):
        if part is not None and part.dtype != x.dtype:
            raise TypeError(f"{what}: input is {x.dtype}, {name} {part.dtype}; convert one with .to()")
    size, padding = w.shape[2:], options[1]
    if isinstance(padding, str) and padding not in ("same", "valid"):
        raise ValueError(f"{what}: padding is a number, 'same' or 'valid', not {padding!r}")
    around = 0 if isinstance(padding, str) else padding
    _, stride, around, dilation = _options(what, axes, size, options[0], around, options[2])
    if padding == "same":
        if any(s != 1 for s in stride):
            raise ValueError(f"{what}: padding 'same' needs stride 1, got {stride}")
        lacks = [d * (k - 1) for k, d in zip(size, dilation)]
        x = pad(x, [n for lack in reversed(lacks) for n in (lack // 2, lack - lack // 2)])
    windows = _windows(x, size, stride, around, dilation, 0.0)  # [B, C, *windows, k]
    rows = windows.movedim(1, -2).unflatten(-2, (groups, -1)).flatten(-2)  # [B, *windows, groups, C / groups · k]
    y = _weighed(rows, w, b).movedim(-1, 1)
    return y.squeeze(0) if alone else y


@widened
def _weighed(rows: Any, w: Any, b: Any) -> Any:
    """Every window times the kernels of its group, and the bias: [..., groups, C / groups · k] to [..., O]."""
    groups = rows.shape[-2]
    kernels = w.reshape(groups, w.shape[0] // groups, -1).mT  # [groups, C / groups · k, O / groups]
    y = (rows.unsqueeze(-2) @ kernels).squeeze(-2).flatten(-2) if groups > 1 else rows.squeeze(-2) @ kernels[0]
    return y if b is None else y + b


def _pooled(input: Any, size: Any, stride: Any, padding: Any, dilation: Any, what: str, value: float) -> Any:
    axes = int(what[-2])
    x = floating_of(input, f"{what}: input")
    _check_form(x, what, axes, x.array.shape[-axes - 1 :])
    stride = size if stride is None or stride == [] else stride
    sizes, steps, around, apart = _options(what, axes, size, stride, padding, dilation)
    if any(2 * p > k for p, k in zip(around, sizes)):
        raise ValueError(f"{what}: padding must be at most half the window {sizes}, got {around}")
    return _windows(x, sizes, steps, around, apart, value)
