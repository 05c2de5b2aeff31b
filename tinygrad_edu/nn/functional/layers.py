"""What layers with weights compute: linear, embedding, the norms, dropout, padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinygrad_edu import random
from tinygrad_edu.arrays import dtypes, indexing, library
from tinygrad_edu.engine.modes import active, no_grad
from tinygrad_edu.functional import broadcast_tensors, where
from tinygrad_edu.methods.common import reduced, widened
from tinygrad_edu.nn.functional.common import beside, floating_of, in_place, tensor_of
from tinygrad_edu.ops import choice, layer, reduction, shape
from tinygrad_edu.options import axes_lengths, flag, integer, number, probability
from tinygrad_edu.tensor import Tensor


def linear(input: Any, weight: Any, bias: Any = None) -> Tensor:
    """y = x·Wᵀ + b, row by row.

    Args:
        input: [..., in_features].
        weight: [out_features, in_features].
        bias: [out_features] or None.

    Returns:
        [..., out_features].

    Raises:
        ValueError: the shapes do not fit. TypeError: the dtypes differ.

    >>> linear([[1.0, 2.0]], [[3.0, 4.0]], [0.5])
    tensor([[11.5]])
    """
    x, w = floating_of(input, "linear: input"), floating_of(weight, "linear: weight")
    b = None if bias is None else floating_of(bias, "linear: bias")
    xs, ws = x.array.shape, w.array.shape
    if len(ws) != 2 or not xs or xs[-1] != ws[1]:
        raise ValueError(
            f"linear: input {xs} and weight {ws} do not fit: weight is [out, in], and the input's last axis must be in"
        )
    if b is not None and b.array.shape != ws[:1]:
        raise ValueError(f"linear: bias has shape {b.array.shape}, the weight {ws} needs {ws[:1]}")
    if w.array.dtype != x.array.dtype or (b is not None and b.array.dtype != x.array.dtype):
        raise TypeError(f"linear: input is {x.array.dtype}, weight {w.array.dtype}; convert one with .to()")
    if len(xs) == 1:  # as one row: the definition's matrix product takes no vectors
        return layer.Linear(x.reshape(1, *xs), w, b).reshape(ws[0])
    return layer.Linear(x, w, b)


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of a table: y[..., :] = W[ids[...], :].

    Args:
        input: token ids, integers [...] from 0 to V − 1; negative ones are refused, also by arrays that would wrap.
        weight: [V, D].
        padding_idx: a row that gets no gradient; a negative one counts from the end.
        max_norm: the norm, by `norm_type`, that a row is shortened to in place when it is asked for and longer.
        scale_grad_by_freq: False is all there is.
        sparse: without effect: gradients are dense.

    Returns:
        [..., D].

    Raises:
        IndexError: an id is out of range. TypeError: ids are no integers.

    >>> embedding([1, 0], [[1.0, 2.0], [3.0, 4.0]]).tolist()
    [[3.0, 4.0], [1.0, 2.0]]
    """
    w = floating_of(weight, "embedding: weight")
    ids = beside(input, w, "embedding: input")
    if w.array.ndim != 2:
        raise ValueError(f"embedding: weight must be [V, D], got shape {w.array.shape}")
    rows = w.array.shape[0]
    indexing.check_ids(ids, rows, "embedding")
    if padding_idx is not None:
        padding_idx = integer(padding_idx, "embedding: padding_idx")
        if not -rows <= padding_idx < rows:
            raise IndexError(f"embedding: padding_idx {padding_idx} is outside {-rows} to {rows - 1}")
        padding_idx %= rows
    flag(sparse, "embedding: sparse")
    if flag(scale_grad_by_freq, "embedding: scale_grad_by_freq"):
        raise ValueError("embedding: scale_grad_by_freq is not here; scale the gradient in a hook on the weight")
    if max_norm is not None:
        max_norm = number(max_norm, "embedding: max_norm", nan=True)
        norm_type = number(norm_type, "embedding: norm_type")
    if max_norm is not None and ids.array.size and w.array.size:
        with no_grad():
            asked = ids.unique()
            picked = w[asked]
            size = picked.norm(norm_type, -1, keepdim=True)
            w[asked] = where(size > max_norm, picked * (max_norm / (size + 1e-7)), picked)
    return layer.Embedding(ids, w, padding=padding_idx)


def layer_norm(
    input: Any, normalized_shape: int | Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """y = (x − μ) / √(σ² + eps) ⊙ weight + bias, μ and σ² (over n, not n − 1) over the last axes.

    Args:
        input: [..., *normalized_shape].
        normalized_shape: the lengths of the axes that are normalised together.
        weight, bias: of that shape, or None.

    Returns:
        The shape of the input.

    Source: Ba, Kiros and Hinton, "Layer normalization", 2016.

    >>> layer_norm([1.0, 3.0], (2,)).numpy().round(3).tolist()
    [-1.0, 1.0]
    """
    x = floating_of(input, "layer_norm: input")
    over = _normalized(x, normalized_shape, "layer_norm")
    parts = [_scale(x, part, over, f"layer_norm: {name}") for name, part in (("weight", weight), ("bias", bias))]
    return layer.LayerNorm(x, *parts, axes=len(over), eps=number(eps, "layer_norm: eps", nan=True))


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training, every element becomes 0 with probability `p`, else x / (1 − p); otherwise x itself.

    Which elements drop depends on the random stream and on the sample's index (axis 0) in the whole batch, not on how
    the batch is split.

    Args:
        input: any shape, samples on axis 0.
        p: probability from 0 to 1.
        inplace: write the result into the memory of the input.

    Source: Srivastava et al., "Dropout", 2014.

    >>> dropout([1.0, 2.0], p=0.5, training=False)
    tensor([1., 2.])
    """
    x = floating_of(input, "dropout: input")
    p = probability(p, "dropout: p")
    if not flag(training, "dropout: training") or p == 0.0:
        return x
    return in_place(dropout, x, p) if inplace else layer.Dropout(x, **drops(p))


def drops(p: float) -> dict[str, Any]:
    return {"p": p, "key": random.current().key(), "first_sample": active().first_sample}


def rms_norm(input: Any, normalized_shape: int | Sequence[int], weight: Any = None, eps: float | None = None) -> Tensor:
    """y = x / √(mean(x²) + eps) ⊙ weight, the mean over the last axes.

    Args:
        input: [..., *normalized_shape].
        normalized_shape: the lengths of the axes that are normalised together.
        weight: of that shape, or None.
        eps: where None, the rounding unit of the dtype computed in, which is float32 for float16.

    Returns:
        The shape of the input.

    Source: Zhang and Sennrich, "Root mean square layer normalization", 2019.

    >>> rms_norm([2.0, -2.0], (2,))
    tensor([ 1., -1.])
    """
    x = floating_of(input, "rms_norm: input")
    over = _normalized(x, normalized_shape, "rms_norm")
    part = _scale(x, weight, over, "rms_norm: weight")
    computed = dtypes.float32 if x.array.dtype == dtypes.float16 else x.array.dtype
    small = float(library.module_of(x.array).finfo(computed).eps) if eps is None else eps
    return layer.RmsNorm(x, part, axes=len(over), eps=number(small, "rms_norm: eps", nan=True))


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """y = (x − μ) / √(σ² + eps) ⊙ weight + bias for every channel, axis 1.

    Args:
        input: [B, C, ...].
        running_mean, running_var: [C] or None; used in place of μ and σ², in training brought nearer to them in place
            (σ² then over n − 1).
        weight, bias: [C] or None.
        training: whether μ and σ² (over n) are the batch's.
        momentum: the new part of the running means.
        eps: above 0 in training, at least 0 otherwise.

    Raises ValueError for a batch of one value a channel in training, and for shapes that do not fit.
    """
    x = floating_of(input, "batch_norm: input")
    training = flag(training, "batch_norm: training")
    momentum, eps = number(momentum, "batch_norm: momentum", nan=True), number(eps, "batch_norm: eps", 0.0, nan=True)
    if training and not eps:
        raise ValueError("batch_norm: eps must be above 0 in training, got 0")
    _check_channels(x, "batch_norm", running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    if (running_mean is None) != (running_var is None) or (running_mean is None and not training):
        raise ValueError("batch_norm: give both running_mean and running_var, or in training neither")
    axes = (0, *range(2, x.array.ndim))
    form = (1, -1, *(1,) * (x.array.ndim - 2))[-x.array.ndim :]
    exact = x.float() if x.array.dtype == dtypes.float16 else x
    mean, var = running_mean, running_var
    if training:
        count = x.array.size // max(x.array.shape[1], 1) if x.array.size else 0
        if count == 1:
            raise ValueError(f"batch_norm: more than one value a channel is needed in training, got {x.array.shape}")
        mean, var = exact.mean(axes), exact.var(axes, unbiased=False)
        if running_mean is not None and count:
            with no_grad():
                running_mean.lerp_(mean.to(running_mean.dtype), momentum)
                running_var.lerp_((var * (count / (count - 1))).to(running_var.dtype), momentum)
    y = _affine((exact - mean.reshape(form)) * (var.reshape(form) + eps).rsqrt(), weight, bias, form)
    return y if y.array.dtype == x.array.dtype else y.to(x.array.dtype)


@widened
def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """y = (x − μ) / √(σ² + eps) ⊙ weight + bias, μ and σ² of a group of channels of a sample.

    input [B, C, ...], weight and bias [C].
    """
    x = floating_of(input, "group_norm: input")
    lengths, num_groups = x.array.shape, integer(num_groups, "group_norm: num_groups", 1)
    if len(lengths) < 2 or lengths[1] % num_groups:
        raise ValueError(f"group_norm: the channels of {lengths} do not divide into {num_groups} groups")
    if x.array.size == num_groups:
        raise ValueError(f"group_norm: more than one value a group is needed, got {lengths} in {num_groups} groups")
    _check_channels(x, "group_norm", weight=weight, bias=bias)
    parts = x.reshape(lengths[0], num_groups, math.prod(lengths[1:]) // num_groups)
    y = layer_norm(parts, parts.array.shape[-1], eps=eps).reshape(lengths)
    y = _affine(y, weight, bias, (1, -1, *(1,) * (len(lengths) - 2)))
    return y if y.array.dtype == x.array.dtype else y.to(x.array.dtype)


def _check_channels(x: Any, what: str, **parts: Any) -> None:
    """Raise for a part that is not one number a channel, in the dtype of `x`, or float32 next to float16."""
    shape = x.array.shape
    if len(shape) < 2 and x.array.size:
        raise ValueError(f"{what}: input must be [B, C, ...], got shape {shape}")
    for name, part in parts.items():
        if part is None:
            continue
        given = floating_of(part, f"{what}: {name}")
        if given.array.shape != (shape[1:2] or (0,)):
            raise ValueError(
                f"{what}: {name} has shape {given.array.shape}, expected one number a channel {shape[1:2]}"
            )
        if given.array.dtype != x.array.dtype and not (given.array.dtype.itemsize == 4 and x.array.dtype.itemsize == 2):
            raise TypeError(f"{what}: {name} is {given.array.dtype}, the input {x.array.dtype}; convert one with .to()")
        if name.startswith("running") and ((given.requires_grad and active().grad) or given is not part):
            raise TypeError(
                f"{what}: {name} must be a Tensor that needs no gradient: it is changed in place in training"
            )


def _affine(y: Any, weight: Any, bias: Any, form: tuple[int, ...]) -> Any:
    y = y if weight is None else y * floating_of(weight, "weight").reshape(form)
    return y if bias is None else y + floating_of(bias, "bias").reshape(form)


def _normalized(x: Any, normalized_shape: int | Sequence[int], what: str) -> tuple[int, ...]:
    over = axes_lengths(normalized_shape, f"{what}: normalized_shape")
    if not over or x.array.shape[-len(over) :] != over:
        raise ValueError(f"{what}: input {x.array.shape} does not end with normalized_shape {over}")
    return over


def _scale(x: Any, part: Any, over: tuple[int, ...], what: str) -> Any:
    if part is None:
        return None
    part = floating_of(part, what)
    if part.array.shape != over:
        raise ValueError(f"{what} has shape {part.array.shape}, expected {over}")
    if part.array.dtype != x.array.dtype:
        raise TypeError(f"{what} is {part.array.dtype}, the input {x.array.dtype}; convert one with .to()")
    return part


def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """The input with `value`, 0 where None, around it; negative widths cut off instead.

    Args:
        pad: (before, behind) for the last axis, then for the last but one, ...
        mode: "constant" is all there is.

    >>> pad([1.0, 2.0], (1, 2))
    tensor([0., 1., 2., 0., 0.])
    """
    x = tensor_of(input, "pad: input")
    if mode != "constant":
        raise ValueError(f"pad: mode {mode!r} is not here; only 'constant' is")
    n = x.array.ndim
    if not isinstance(pad, tuple | list) or len(pad) % 2 or len(pad) > 2 * n:
        raise ValueError(f"pad: needs pairs of widths for at most {n} axes, got {pad!r}")
    pad = [integer(width, "pad: a width") for width in pad]
    filler = 0.0 if value is None else number(value, "pad: value", nan=True)
    dtypes.number_for(filler, x.array.dtype, "pad: value")
    widths = [(0, 0)] * n
    for i in range(len(pad) // 2):
        widths[n - 1 - i] = pad[2 * i], pad[2 * i + 1]
    if any(n + min(a, 0) + min(b, 0) < 0 for n, (a, b) in zip(x.array.shape, widths)):
        raise ValueError(f"pad: {tuple(pad)} would cut more than there is off the shape {x.array.shape}")
    if any(a < 0 or b < 0 for a, b in widths):
        x = shape.Crop(x, widths=tuple((max(-a, 0), max(-b, 0)) for a, b in widths))
    return shape.Pad(x, widths=tuple((max(a, 0), max(b, 0)) for a, b in widths), value=filler)


def one_hot(input: Any, num_classes: int = -1) -> Tensor:
    """1 at the class and 0 elsewhere: ids [...] to int64 [..., num_classes]; −1 takes the largest id + 1.

    >>> one_hot([0, 2]).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """
    ids, num_classes = tensor_of(input, "one_hot: input"), integer(num_classes, "one_hot: num_classes", -1)
    if ids.array.dtype.kind not in "iu" or (num_classes == -1 and not ids.array.size):
        raise ValueError(
            f"one_hot: input must hold integers, and some where num_classes is not given, got {ids.array.dtype} of "
            f"shape {ids.array.shape}"
        )
    classes = ids.array.max().item() + 1 if num_classes == -1 else num_classes
    indexing.check_ids(ids.array, classes, "one_hot")
    xp = library.module_of(ids.array)
    return (ids.unsqueeze(-1) == Tensor(xp.arange(classes))).long()


@widened
def normalize(input: Any, p: Any = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x / max(‖x‖_p, eps) along `dim`."""
    x = floating_of(input, "normalize: input")
    eps = number(eps, "normalize: eps", nan=True)
    length = x.norm(p, dim, keepdim=True)
    y = x / length.clamp(min=eps)
    if isinstance(p, str) or not 1 <= p < float("inf"):
        return y
    axes = reduced(x, dim, "normalize")
    return choice.Where(length > eps, reduction.Unit(x, length, axes=axes, p=p), y)


@widened
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Σ x1 ⊙ x2 / (‖x1‖·‖x2‖) along `dim`; both broadcast, and a norm below `eps` counts as that.

    As in PyTorch the gradient is that of the norm also there.

    >>> cosine_similarity([[1.0, 0.0]], [[3.0, 4.0]])
    tensor([0.6])
    """
    x1, x2 = floating_of(x1, "cosine_similarity: x1"), floating_of(x2, "cosine_similarity: x2")
    parts = []
    for x in broadcast_tensors(x1, x2):
        length = x.norm(2, dim, keepdim=True)
        short = x / (length + (length.clamp(min=eps) - length).detach())
        unit = reduction.Unit(x, length, axes=reduced(x, dim, "cosine_similarity"))
        parts.append(choice.Where(length > eps, unit, short))
    return (parts[0] * parts[1]).sum(dim)


@widened
def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """‖x1 − x2 + eps‖_p over the last axis."""
    x = floating_of(x1, "pairwise_distance: x1")
    eps = number(eps, "pairwise_distance: eps", nan=True)
    d = x - floating_of(x2, "pairwise_distance: x2") + eps
    return d.norm(number(p, "pairwise_distance: p"), -1, keepdim=flag(keepdim, "pairwise_distance: keepdim"))
