"""Scaled dot-product attention."""

from tinygrad_edu import kernels
from tinygrad_edu.arrays.library import module_of
from tinygrad_edu.engine.tape import Op
from tinygrad_edu.ops.activation import Softmax
from tinygrad_edu.ops.arithmetic import Mul
from tinygrad_edu.ops.choice import LogicalAnd, LogicalNot, MaskedFill
from tinygrad_edu.ops.layer import Dropout
from tinygrad_edu.ops.matrix import Matmul
from tinygrad_edu.ops.shape import Transpose


def causal_mask(queries, keys, like):
    """[q, k], True where key k may be read by query q: the last query reads all, aligned to the end."""
    xp = module_of(like)
    return xp.tri(queries, keys, keys - queries, dtype=bool)


def attend(query, key, value, visible=None, *, is_causal, scale, dropout=None):
    """P·V with P = softmax(Q·Kᵀ · scale), hidden scores at −∞, as primitive ops; a query that sees nothing gives 0."""
    scores = Mul(Matmul(query, Transpose(key)), scale)  # [..., q, k]
    if is_causal:
        array = getattr(query, "array", query)
        causal = causal_mask(query.shape[-2], key.shape[-2], array)
        visible = causal if visible is None else LogicalAnd(visible, causal)
    if visible is not None:
        scores = MaskedFill(scores, LogicalNot(visible), value=float("-inf"))
    weights = Softmax(scores, axis=-1)  # [..., q, k]
    if dropout is not None:
        weights = Dropout(weights, **dropout)
    return Matmul(weights, value)  # [..., q, d]


class ScaledDotProductAttention(Op):
    """{out} = softmax({query}·{key}ᵀ · {scale})·{value}, hidden scores at −∞"""

    saves = ("saved",)
    formulas = {
        "query": "d{query} = dS·{key} · {scale}, dS = P ⊙ (dP − Σ_k dP ⊙ P), dP = d{out}·{value}ᵀ",
        "key": "d{key} = dSᵀ·{query} · {scale}",
        "value": "d{value} = Pᵀ·d{out}",
    }

    definition = attend

    def forward(query, key, value, visible=None, *, is_causal, scale, recording=False):
        if visible is not None and len(query.shape) != 4:
            visible = module_of(query).broadcast_to(visible, (*query.shape[:-1], key.shape[-2]))
        four = [x if x is None else _four(x) for x in (query, key, value, visible)]
        out, saved = kernels.of(query).attention(*four, is_causal, scale, recording)
        return out.reshape((*query.shape[:-1], value.shape[-1])), saved

    def gradients(g, need, query, key, value, saved):
        found = kernels.of(g).attention_backward(_four(g), _four(query), _four(key), _four(value), saved, need[:3])
        return [d if d is None else d.reshape(x.shape) for d, x in zip(found, (query, key, value), strict=True)]


def _four(x):
    """`x` [..., q, d] as [B, H, q, d], the form that kernels take."""
    if len(x.shape) == 4:
        return x
    heads = x.shape[-3] if len(x.shape) > 3 else 1
    lead = 1
    for n in x.shape[:-2]:
        lead *= n
    return x.reshape((lead // max(heads, 1), heads, *x.shape[-2:]))
