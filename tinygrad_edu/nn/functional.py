"""The functions that layers are made of, under PyTorch's names: linear, softmax, cross_entropy, attention, ..."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygrad_edu import backend, random
from tinygrad_edu.modes import thread
from tinygrad_edu.ops import activation, attention, elementwise, layer, loss
from tinygrad_edu.tape import Variable
from tinygrad_edu.tensor import Tensor, _axis


def _tensor(x: Any, what: str) -> Any:
    if isinstance(x, Variable):
        return x
    if x is None:
        raise TypeError(f"{what} is None; give a Tensor")
    return Tensor(x)


def _floating(x: Any, what: str) -> Any:
    t = _tensor(x, what)
    if t.array.dtype.kind != "f":
        raise TypeError(f"{what} must be floating, got {t.array.dtype}; convert it with .float()")
    return t


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
    x, w = _floating(input, "linear: input"), _floating(weight, "linear: weight")
    b = None if bias is None else _floating(bias, "linear: bias")
    xs, ws = x.array.shape, w.array.shape
    if len(ws) != 2 or not xs or xs[-1] != ws[1]:
        raise ValueError(
            f"linear: input {xs} and weight {ws} do not fit: weight is [out, in], and the input's last axis must be in"
        )
    if b is not None and b.array.shape != ws[:1]:
        raise ValueError(f"linear: bias has shape {b.array.shape}, the weight {ws} needs {ws[:1]}")
    if w.array.dtype != x.array.dtype or (b is not None and b.array.dtype != x.array.dtype):
        raise TypeError(f"linear: input is {x.array.dtype}, weight {w.array.dtype}; convert one with .to()")
    return layer.Linear(x, w, b)


def embedding(input: Any, weight: Any, padding_idx: int | None = None) -> Tensor:
    """The rows of a table: y[..., :] = W[ids[...], :].

    Args:
        input: token ids, integers [...] from 0 to V − 1; negative ones are refused, also by arrays that would wrap.
        weight: [V, D].
        padding_idx: a row that gets no gradient; a negative one counts from the end.

    Returns:
        [..., D].

    Raises:
        IndexError: an id is out of range. TypeError: ids are no integers.

    >>> embedding([1, 0], [[1.0, 2.0], [3.0, 4.0]]).tolist()
    [[3.0, 4.0], [1.0, 2.0]]
    """
    ids, w = _tensor(input, "embedding: input"), _floating(weight, "embedding: weight")
    if w.array.ndim != 2:
        raise ValueError(f"embedding: weight must be [V, D], got shape {w.array.shape}")
    rows = w.array.shape[0]
    backend.check_ids(ids.array, rows, "embedding")
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise IndexError(f"embedding: padding_idx {padding_idx} is outside {-rows} to {rows - 1}")
        padding_idx %= rows
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
    x = _floating(input, "layer_norm: input")
    over = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not over or x.array.shape[-len(over) :] != over:
        raise ValueError(f"layer_norm: input {x.array.shape} does not end with normalized_shape {over}")
    parts = []
    for name, part in (("weight", weight), ("bias", bias)):
        if part is not None:
            part = _floating(part, f"layer_norm: {name}")
            if part.array.shape != over:
                raise ValueError(f"layer_norm: {name} has shape {part.array.shape}, expected {over}")
            if part.array.dtype != x.array.dtype:
                raise TypeError(f"layer_norm: input is {x.array.dtype}, {name} {part.array.dtype}; convert with .to()")
        parts.append(part)
    return layer.LayerNorm(x, *parts, axes=len(over), eps=eps)


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
    return activation.Gelu(_floating(input, "gelu: input"), approximate=approximate)


def relu(input: Any) -> Tensor:
    """y = max(x, 0), any shape; the gradient at 0 is 0.

    >>> relu([-1.0, 2.0])
    tensor([0., 2.])
    """
    return elementwise.Relu(_tensor(input, "relu: input"))


def softmax(input: Any, dim: int) -> Tensor:
    """y = exp x / Σ exp x along `dim`: nonnegative, summing to 1; where all are −∞, 0 everywhere and no NaN.

    Args:
        input: scores or logits, any shape with an axis `dim`.

    Returns:
        The shape of the input.

    >>> softmax([0.0, 0.0], dim=0)
    tensor([0.5, 0.5])
    """
    x = _floating(input, "softmax: input")
    return activation.Softmax(x, axis=_axis(x, dim, "softmax"))


def log_softmax(input: Any, dim: int) -> Tensor:
    """y = x − ln Σ exp x along `dim`, finite for logits of any size.

    >>> log_softmax([0.0, 0.0], dim=0)
    tensor([-0.6931472, -0.6931472])
    """
    x = _floating(input, "log_softmax: input")
    return activation.LogSoftmax(x, axis=_axis(x, dim, "log_softmax"))


def cross_entropy(
    input: Any,
    target: Any,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """−Σ_c q_c ln softmax(logits)_c, in nats, q = 1 − s at the target plus s/V anywhere, s = `label_smoothing`.

    Args:
        input: logits [N, V], [V] for one row, or [B, V, ...] with the classes on axis 1.
        target: class ids, integers [N], [] or [B, ...], from 0 to V − 1 or `ignore_index`.
        ignore_index: targets of this value add neither loss nor gradient nor count.
        reduction: "mean" over the targets that count (NaN where none does), "sum", or "none".
        label_smoothing: s, from 0 to 1.

    Returns:
        A number, or for "none" the shape of the target.

    Raises:
        IndexError: a target is out of range. ValueError: shapes or options do not fit.

    >>> round(cross_entropy([[0.0, 0.0]], [1]).item(), 4)
    0.6931
    """
    logits, ids = _floating(input, "cross_entropy: input"), _tensor(target, "cross_entropy: target")
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"cross_entropy: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"cross_entropy: label_smoothing must lie in 0 to 1, got {label_smoothing}")
    shape, wanted = logits.array.shape, ids.array.shape
    expected = shape[:1] + shape[2:] if len(shape) > 1 else ()
    if not shape or wanted != expected:
        raise ValueError(f"cross_entropy: logits {shape} need a target of shape {expected}, got {wanted}")
    classes = shape[1] if len(shape) > 1 else shape[0]
    if len(shape) > 2:
        logits = logits.permute(0, *range(2, len(shape)), 1)
    rows, flat = logits.reshape(-1, classes) if len(shape) != 2 else logits, ids.array.reshape(-1)
    if flat.dtype.kind not in "iu":
        raise TypeError(f"cross_entropy: target ids must be integers, got {flat.dtype}; convert them with .long()")
    counted = flat != ignore_index
    backend.check_ids(flat[counted], classes, "cross_entropy: target")
    losses = loss.CrossEntropy(
        rows, ids.reshape(-1) if len(wanted) != 1 else ids, ignore_index=ignore_index, smoothing=label_smoothing
    )
    if reduction == "none":
        return losses.reshape(wanted)
    total = losses.sum()
    if reduction == "sum":
        return total
    count = int(counted.sum())
    return total / count if count else total * float("nan")


def dropout(input: Any, p: float = 0.5, training: bool = True) -> Tensor:
    """In training, every element becomes 0 with probability `p`, else x / (1 − p); otherwise x itself.

    Which elements drop depends on the random stream and on the sample's index (axis 0) in the whole batch, not on how
    the batch is split.

    Args:
        input: any shape, samples on axis 0.
        p: probability from 0 to 1.

    Source: Srivastava et al., "Dropout", 2014.

    >>> dropout([1.0, 2.0], p=0.5, training=False)
    tensor([1., 2.])
    """
    x = _floating(input, "dropout: input")
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout: p is a probability from 0 to 1, got {p}")
    if not training or p == 0.0:
        return x
    return layer.Dropout(x, **_drops(p))


def _drops(p: float) -> dict[str, Any]:
    return {"p": p, "key": random.current().key(), "first_sample": thread.mode.first_sample}


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """P·V with P = softmax(Q·Kᵀ · scale) over the keys, hidden scores at −∞.

    Args:
        query: [..., q, d].
        key: [..., k, d].
        value: [..., k, e].
        attn_mask: boolean, broadcast to [..., q, k], True where the query may read the key; unlike PyTorch's, it goes
            together with `is_causal`, and numbers to be added are not taken.
        dropout_p: probability of dropping a weight; always applied when above 0, so pass 0 outside training.
        is_causal: key k is hidden from query q unless k ≤ q + (keys − queries): the ends are aligned, so one new query
            over a cache sees all of it. (PyTorch aligns the starts.)
        scale: factor of the scores, 1/√d where None.

    Returns:
        [..., q, e]; a query that may read nothing gets 0.

    Raises:
        ValueError: shapes do not fit, or there are more queries than keys under `is_causal`.

    Source: Vaswani et al., "Attention is all you need", 2017, section 3.2.1.

    >>> v = Tensor([[1.0], [3.0], [8.0]])
    >>> scaled_dot_product_attention(Tensor([[0.0]] * 3), Tensor([[0.0]] * 3), v, is_causal=True).tolist()
    [[1.0], [2.0], [4.0]]
    """
    q, k, v = (_floating(x, f"attention: {name}") for x, name in ((query, "query"), (key, "key"), (value, "value")))
    qs, ks, vs = q.array.shape, k.array.shape, v.array.shape
    if min(len(qs), len(ks), len(vs)) < 2 or qs[-1] != ks[-1] or ks[-2] != vs[-2]:
        raise ValueError(
            f"attention: query {qs}, key {ks} and value {vs} do not fit: [..., q, d], [..., k, d] and [..., k, e]"
        )
    if qs[:-2] != ks[:-2] or ks[:-2] != vs[:-2]:
        raise ValueError(f"attention: the leading axes of query {qs}, key {ks} and value {vs} must be equal")
    if not q.array.dtype == k.array.dtype == v.array.dtype:
        raise TypeError(
            f"attention: query, key and value need one dtype, got {q.array.dtype}, {k.array.dtype}, {v.array.dtype}"
        )
    if is_causal and qs[-2] > ks[-2]:
        raise ValueError(f"attention: under is_causal there must be a key for every query, got {qs[-2]} and {ks[-2]}")
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"attention: dropout_p is a probability from 0 to 1, got {dropout_p}")
    visible = attn_mask
    if visible is not None:
        visible = _tensor(visible, "attention: attn_mask")
        if visible.array.dtype.kind != "b":
            raise TypeError(
                f"attention: attn_mask must be boolean (True = may read), got {visible.array.dtype}; compare something"
            )
        scores = (*qs[:-1], ks[-2])
        if visible.array.ndim > len(scores) or any(
            n not in (1, m) for n, m in zip(visible.array.shape[::-1], scores[::-1], strict=False)
        ):
            raise ValueError(f"attention: attn_mask {visible.array.shape} does not broadcast to the scores {scores}")
    factor = float(scale) if scale is not None else 1.0 / qs[-1] ** 0.5 if qs[-1] else 1.0
    if dropout_p > 0.0:
        return attention.attend(q, k, v, visible, is_causal=is_causal, scale=factor, dropout=_drops(dropout_p))
    return attention.ScaledDotProductAttention(q, k, v, visible, is_causal=is_causal, scale=factor)
