"""Scaled dot-product attention."""

from __future__ import annotations

from typing import Any

from tinygrad_edu.methods.common import widened
from tinygrad_edu.nn.functional.common import beside, floating_of
from tinygrad_edu.nn.functional.layers import drops
from tinygrad_edu.ops import activation, attention, layer, shape
from tinygrad_edu.options import flag, number, probability
from tinygrad_edu.tensor import Tensor


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """P·V with P = softmax(Q·Kᵀ · scale) over the keys, hidden scores at −∞.

    Args:
        query: [..., q, d].
        key: [..., k, d].
        value: [..., k, e].
        attn_mask: broadcast to [..., q, k]: boolean, True where the query may read the key, or floating, added to the
            scores (−∞ hides). Unlike PyTorch's, it goes together with `is_causal`.
        dropout_p: probability of dropping a weight; always applied when above 0, so pass 0 outside training.
        is_causal: key k is hidden from query q unless k ≤ q + (keys − queries): the ends are aligned, so one new query
            over a cache sees all of it. (PyTorch aligns the starts.)
        scale: factor of the scores, 1/√d where None.
        enable_gqa: key and value may have fewer heads (axis −3) than the query, each then serving several (grouped
            queries, Ainslie et al. 2023).

    Returns:
        [..., q, e]; a query that may read nothing gets 0.

    Raises:
        ValueError: shapes do not fit, or there are more queries than keys under `is_causal`.

    Source: Vaswani et al., "Attention is all you need", 2017, section 3.2.1.

    >>> v = Tensor([[1.0], [3.0], [8.0]])
    >>> scaled_dot_product_attention(Tensor([[0.0]] * 3), Tensor([[0.0]] * 3), v, is_causal=True).tolist()
    [[1.0], [2.0], [4.0]]
    """
    q, k, v = (floating_of(x, f"attention: {name}") for x, name in ((query, "query"), (key, "key"), (value, "value")))
    qs, ks, vs = q.array.shape, k.array.shape, v.array.shape
    if min(len(qs), len(ks), len(vs)) < 2 or qs[-1] != ks[-1] or ks[-2] != vs[-2]:
        raise ValueError(
            f"attention: query {qs}, key {ks} and value {vs} do not fit: [..., q, d], [..., k, d] and [..., k, e]"
        )
    if flag(enable_gqa, "attention: enable_gqa") and len(qs) > 2 and qs[:-2] != ks[:-2]:
        k, v = (_for_each_head(x, qs[-3]) for x in (k, v))
        ks, vs = k.array.shape, v.array.shape
    if qs[:-2] != ks[:-2] or ks[:-2] != vs[:-2]:
        raise ValueError(f"attention: the leading axes of query {qs}, key {ks} and value {vs} must be equal")
    if not q.array.dtype == k.array.dtype == v.array.dtype:
        raise TypeError(
            f"attention: query, key and value need one dtype, got {q.array.dtype}, {k.array.dtype}, {v.array.dtype}"
        )
    flag(is_causal, "attention: is_causal")
    if is_causal and qs[-2] > ks[-2]:
        raise ValueError(f"attention: under is_causal there must be a key for every query, got {qs[-2]} and {ks[-2]}")
    dropout_p = probability(dropout_p, "attention: dropout_p")
    visible = attn_mask
    if visible is not None:
        visible = beside(visible, q, "attention: attn_mask")
        if visible.array.dtype.kind not in "bf":
            raise TypeError(
                f"attention: attn_mask must be boolean (True = may read) or floating (added to the scores), got "
                f"{visible.array.dtype}; compare something"
            )
        scores = (*qs[:-1], ks[-2])
        if visible.array.ndim > len(scores) or any(
            n not in (1, m) for n, m in zip(visible.array.shape[::-1], scores[::-1], strict=False)
        ):
            raise ValueError(f"attention: attn_mask {visible.array.shape} does not broadcast to the scores {scores}")
    bias = None
    if visible is not None and visible.array.dtype.kind == "f":
        visible, bias = _split_mask(visible)
    factor = (
        number(scale, "attention: scale", nan=True) if scale is not None else 1.0 / qs[-1] ** 0.5 if qs[-1] else 1.0
    )
    if bias is not None:
        return _biased(q, k, v, bias.to(q.array.dtype), is_causal, factor, dropout_p)
    if dropout_p > 0.0:
        return widened(attention.attend)(q, k, v, visible, is_causal=is_causal, scale=factor, dropout=drops(dropout_p))
    return attention.ScaledDotProductAttention(q, k, v, visible, is_causal=is_causal, scale=factor)


@widened
def _biased(q: Any, k: Any, v: Any, bias: Any, is_causal: bool, factor: float, dropout_p: float) -> Any:
    """P·V with P = softmax(Q·Kᵀ · factor + bias)."""
    scores = q @ k.transpose(-2, -1) * factor + bias
    if is_causal:
        hidden = ~attention.causal_mask(q.array.shape[-2], k.array.shape[-2], q.array)
        scores = scores.masked_fill(hidden, float("-inf"))
    weights = activation.Softmax(scores, axis=-1)
    return (layer.Dropout(weights, **drops(dropout_p)) if dropout_p > 0.0 else weights) @ v


def _split_mask(mask: Any) -> tuple[Any, Any]:
    """A floating mask as a boolean one where it holds but 0 and −∞ and needs no gradient, else as it is."""
    if not mask.requires_grad:
        shown = mask.array == 0
        if (shown | (mask.array == float("-inf"))).all().item():
            return Tensor(shown), None
    return None, mask


def _for_each_head(x: Any, heads: int) -> Any:
    """[..., G, k, d] with every head repeated for its group of queries: [..., heads, k, d]."""
    *lead, groups, k, d = x.array.shape
    if not groups or heads % groups:
        raise ValueError(f"attention: {heads} heads of queries cannot share {groups} heads of keys evenly")
    apart = shape.Reshape(x, shape=(*lead, groups, 1, k, d))
    spread = shape.Expand(apart, shape=(*lead, groups, heads // groups, k, d))
    return shape.Reshape(spread, shape=(*lead, heads, k, d))
