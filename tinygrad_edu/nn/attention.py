"""MultiheadAttention: projections into heads, scaled dot-product attention, a projection back."""

from __future__ import annotations

from typing import Any

from tinygrad_edu.arrays import library
from tinygrad_edu.creation import empty, zeros
from tinygrad_edu.functional import cat, where
from tinygrad_edu.methods.common import widened
from tinygrad_edu.nn import functional as F
from tinygrad_edu.nn import init
from tinygrad_edu.nn.layers import Linear
from tinygrad_edu.nn.module import Module
from tinygrad_edu.nn.parameter import Parameter
from tinygrad_edu.options import flag, integer, probability
from tinygrad_edu.tensor import Tensor


class MultiheadAttention(Module):
    """concat(head_1, ..., head_H)·W_O, head_h the attention of Q·W_Q,h over the keys K·W_K,h and values V·W_V,h.

    In masks True hides, as in PyTorch's class of this name; in `F.scaled_dot_product_attention` True shows.

    Args:
        embed_dim: D, width of queries and result. num_heads: H, which divides D.
        dropout: probability of dropping an attention weight, in training.
        bias: whether the projections have biases.
        add_bias_kv: whether one learned key and value is added behind the others.
        add_zero_attn: whether a key and a value of zeros is added behind the others.
        kdim, vdim: widths of keys and values, D where None.
        batch_first: whether inputs and results are [B, T, D], not [T, B, D].
        device, dtype: of the parameters.

    Parameters: in_proj_weight [3D, D], the rows of Q, K and V in this order (with kdim or vdim: q_proj_weight,
    k_proj_weight, v_proj_weight), in_proj_bias [3D], out_proj.weight [D, D] and out_proj.bias [D].
    Raises ValueError where D is no multiple of H, and, called, for shapes that do not fit.
    Source: Vaswani et al., "Attention is all you need", 2017, section 3.2.2.

    >>> import tinygrad_edu as tg
    >>> x = tg.zeros(2, 5, 8)
    >>> y, weights = MultiheadAttention(8, 2, batch_first=True)(x, x, x)
    >>> y.shape, weights.shape
    ((2, 5, 8), (2, 5, 5))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        integer(embed_dim, "MultiheadAttention: embed_dim", 1), integer(num_heads, "MultiheadAttention: num_heads", 1)
        for name, width in (("kdim", kdim), ("vdim", vdim)):
            integer(width or 0, f"MultiheadAttention: {name}", 0)
        dropout, batch_first = (
            probability(dropout, "MultiheadAttention: dropout"),
            flag(batch_first, "MultiheadAttention: batch_first"),
        )
        if embed_dim % num_heads:
            raise ValueError(f"MultiheadAttention: embed_dim {embed_dim} must be a multiple of num_heads {num_heads}")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self.in_proj_weight = self.q_proj_weight = self.k_proj_weight = self.v_proj_weight = None
        if self.kdim == self.vdim == embed_dim:
            self.in_proj_weight = Parameter(empty(3 * embed_dim, embed_dim, **made))
        else:
            self.q_proj_weight = Parameter(empty(embed_dim, embed_dim, **made))
            self.k_proj_weight = Parameter(empty(embed_dim, self.kdim, **made))
            self.v_proj_weight = Parameter(empty(embed_dim, self.vdim, **made))
        self.in_proj_bias = Parameter(empty(3 * embed_dim, **made)) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, **made)
        self.bias_k = Parameter(empty(1, 1, embed_dim, **made)) if add_bias_kv else None
        self.bias_v = Parameter(empty(1, 1, embed_dim, **made)) if add_bias_kv else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the first values again: xavier for the projections in, zeros for the biases."""
        for w in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if w is not None:
                init.xavier_uniform_(w)
        for b in (self.in_proj_bias, self.out_proj.bias):
            if b is not None:
                init.zeros_(b)
        for b in (self.bias_k, self.bias_v):
            if b is not None:
                init.xavier_normal_(b)

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """(query [q, B, D], key [k, B, kdim], value [k, B, vdim]) -> (result [q, B, D], weights [B, q, k] or None).

        Without the batch axis, or with it first (`batch_first`), all of them are so.

        Args:
            key_padding_mask: [B, k], True where a key is padding and hidden, or numbers added to its scores.
            need_weights: whether the weights are returned; without them the fast kernel computes.
            attn_mask: [q, k] or [B·H, q, k], True where hidden, or numbers added to the scores.
            average_attn_weights: the weights' mean over the heads, not [B, H, q, k].
            is_causal: hide later keys; unlike PyTorch's, it needs no `attn_mask` beside it.
        """
        alone = query.ndim == 2
        if alone:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (
                (query.transpose(0, 1),) * 3
                if query is key is value
                else tuple(x.transpose(0, 1) for x in (query, key, value))
            )
        if query.ndim != 3 or key.ndim != 3 or value.ndim != 3 or query.shape[-1] != self.embed_dim:
            raise ValueError(
                f"MultiheadAttention: query {query.shape}, key {key.shape} and value {value.shape} do not fit; with "
                f"the batch first they are [B, q, {self.embed_dim}], [B, k, {self.kdim}] and [B, k, {self.vdim}]"
            )
        q, k, v = self._projected(query, key, value)
        if self.bias_k is not None and self.bias_v is not None:
            k, v = (
                cat([x, b.expand(x.shape[0], 1, self.embed_dim)], dim=1)
                for x, b in ((k, self.bias_k), (v, self.bias_v))
            )
        if self.add_zero_attn:
            more = zeros(k.shape[0], 1, self.embed_dim, dtype=k.dtype, device=k.device)
            k, v = cat([k, more], dim=1), cat([v, more], dim=1)
        q, k, v = (x.reshape(*x.shape[:2], self.num_heads, self.head_dim).transpose(1, 2) for x in (q, k, v))
        mask = self._mask(q, k.shape[2], attn_mask, key_padding_mask, is_causal, k.shape[2] - key.shape[1])
        weights = None
        p = self.dropout if self.training else 0.0
        if need_weights:
            y, weights = _attended(q, k, v, mask, p)
            weights = weights.mean(dim=1) if average_attn_weights else weights
            weights = weights.squeeze(0) if alone else weights
        else:
            y = F.scaled_dot_product_attention(q, k, v, mask, p)
        y = self.out_proj(y.transpose(1, 2).reshape(*query.shape[:2], self.embed_dim))
        return y.squeeze(0) if alone else y if self.batch_first else y.transpose(0, 1), weights

    def _projected(self, query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
        if self.in_proj_weight is not None and query is key is value:
            q, k, v = F.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
            return q, k, v
        weights: Any = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        if self.in_proj_weight is not None:
            weights = self.in_proj_weight.chunk(3)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        q, k, v = (F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))
        return q, k, v

    def _mask(self, q: Any, keys: int, attn: Any, padding: Any, is_causal: bool, added: int) -> Any:
        """One mask for F.scaled_dot_product_attention: boolean, True where shown, or numbers to add."""
        batch, queries = q.shape[0], q.shape[2]
        parts = []
        if attn is not None:
            flat = attn.ndim == 2
            heads = (queries, keys - added) if flat else (batch * self.num_heads, queries, keys - added)
            shape = (1, 1, *heads) if flat else (batch, self.num_heads, *heads[1:])
            parts.append((_of_shape(attn, heads, "attn_mask"), shape))
        if padding is not None:
            padding = _of_shape(padding, (batch, keys - added), "key_padding_mask")
            parts.append((padding, (batch, 1, 1, keys - added)))
        if is_causal:
            hidden = library.module_of(q.array).tri(queries, keys - added, keys - added - queries, dtype=bool)
            parts.append((Tensor(~hidden), (1, 1, queries, keys - added)))
        shown: Any = None
        bias: Any = None
        for mask, shape in parts:
            mask = mask.reshape(shape)
            if added:  # learned and zero keys are never hidden
                mask = cat([mask, mask.new_zeros(*shape[:-1], added)], dim=-1)
            if mask.dtype.kind == "b":
                shown = ~mask if shown is None else shown & ~mask
            else:
                bias = mask if bias is None else bias + mask
        if bias is None:
            return shown
        bias = bias.to(q.dtype)
        return bias if shown is None else where(shown, bias, float("-inf"))


def _of_shape(mask: Any, shape: tuple[int, ...], name: str) -> Any:
    if tuple(mask.shape) != shape:
        raise ValueError(f"MultiheadAttention: {name} has shape {tuple(mask.shape)}, expected {shape}")
    if mask.dtype.kind not in "bf":
        raise TypeError(f"MultiheadAttention: {name} must be boolean or floating, got {mask.dtype}")
    return mask


@widened
def _attended(q: Any, k: Any, v: Any, mask: Any, p: float) -> tuple[Tensor, Tensor]:
    """(P·V, P) with P = softmax(Q·Kᵀ / √d), of which a share p is dropped."""
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores + mask if mask.dtype.kind == "f" else scores.masked_fill(~mask, float("-inf"))
    weights = F.dropout(F.softmax(scores, dim=-1), p)
    return weights @ v, weights
