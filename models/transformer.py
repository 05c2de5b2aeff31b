"""What Transformers are built of: attention, feed-forward, and the block that joins them."""

from collections.abc import Callable
from typing import Any

from models.positions import Rotation, rotate
from tinygrad_edu import Tensor, nn
from tinygrad_edu.generation import Layer
from tinygrad_edu.nn import functional as F

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "gelu": nn.GELU,  # BERT's: Φ exactly
    "gelu-tanh": lambda: nn.GELU("tanh"),  # GPT-2's: Φ by tanh, which was faster
    "relu": nn.ReLU,  # of the first Transformer
    "silu": nn.SiLU,
    "swiglu": nn.SiLU,  # on a gate beside the features, see FeedForward
}
NORMS: dict[str, Callable[..., nn.Module]] = {
    "layer": nn.LayerNorm,
    "rms": lambda width, eps, bias: nn.RMSNorm(width, eps),  # it subtracts no mean and adds no bias
}


class Attention(nn.Module):
    """O = P·V with P = softmax(Q·Kᵀ/√d, hidden scores at −∞), in H heads side by side, then W_O.

    Where the keys and values come from decides what it is: from x itself, self-attention; from `memory`,
    cross-attention. Only P·V moves content between positions; every projection works row by row.

    Args:
        width: D.
        heads: H; each takes d = D/H features.
        dropout: part of the weights, and of the result, dropped in training.
        bias: whether the projections add one.
        key_heads: how many heads of keys and values there are, each read by H/key_heads heads of queries; as many as
            heads where None. Fewer make the cache of generation smaller.
        normalised: divide each query and key by its root mean square, times a learned scale for each feature. Their
            lengths then stay within bounds, so that no score grows until its softmax learns no more.
        eps: ε of that norm.

    Args of the call: x [B, q, D]; memory [B, k, D] or None; visible, boolean, broadcast to [B, H, q, k], True where
    query q may read key k; causal, whether position q reads none after itself; turn, from `rotation`, for rotary
    positions in self-attention; kept, a cache's layer, whose keys and values stand before those of x, or are those of
    memory. Returns [B, q, D]. A query that may read nothing gets 0, never NaN.
    Raises ValueError for a width that is no multiple of heads, or heads that are none of key_heads.
    Source: Vaswani et al., "Attention is all you need", 2017, section 3.2; Ainslie et al., "GQA: training generalized
    multi-query Transformer models", 2023; Henry et al., "Query-key normalization for Transformers", 2020.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        key_heads: int | None = None,
        normalised: bool = False,
        eps: float = 1e-5,
    ) -> None:
        super().__init__()
        if heads < 1 or width % heads:
            raise ValueError(
                f"Attention: width {width} is not a multiple of heads {heads}; a head takes width/heads features"
            )
        shared = heads if key_heads is None else key_heads
        if shared < 1 or heads % shared:
            raise ValueError(
                f"Attention: heads {heads} is not a multiple of key_heads {key_heads}; each head of keys serves "
                f"heads/key_heads heads of queries"
            )
        self.width, self.heads, self.key_heads = width, heads, shared
        d = width // heads
        self.widths = (width, shared * d, shared * d)  # of q, k and v
        self.qkv = nn.Linear(width, sum(self.widths), bias=bias)  # one product for all three, rows W_Q, W_K and W_V
        self.query_norm = nn.RMSNorm(d, eps) if normalised else None
        self.key_norm = nn.RMSNorm(d, eps) if normalised else None
        self.output = nn.Linear(width, width, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        visible: Tensor | None = None,
        causal: bool = False,
        turn: Rotation | None = None,
        kept: Layer | None = None,
    ) -> Tensor:
        if memory is not None and kept is not None and kept.length:
            q, (k, v) = self.query(x), kept.all()  # of the same memory as before, so nothing of it is made again
        else:
            q, k, v = self.project(x, memory)  # [B, H, q, d], [B, G, k, d], [B, G, k, d] with G heads of keys
            if turn is not None:
                q, k = rotate(q, turn), rotate(k, turn)
            if kept is not None:
                k, v = kept.extend(k, v)  # [B, G, k, d], k the positions before x and those of x
        dropped = self.dropout.p if self.training else 0.0
        grouped = self.key_heads < self.heads
        o = F.scaled_dot_product_attention(q, k, v, visible, dropped, causal, enable_gqa=grouped)  # [B, H, q, d]
        return self.dropout(self.output(self.merge(o)))  # [B, q, D]

    def project(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Q from x; K and V from x as well, or from memory: views of one product, or of two."""
        if memory is None:
            q, k, v = map(self.split, self.qkv(x).split(self.widths, dim=-1))  # [B, H, T, d], [B, G, T, d] twice
            q = q if self.query_norm is None else self.query_norm(q)
        else:
            D, W, b = self.width, self.qkv.weight, self.qkv.bias
            q = self.query(x)  # [B, H, q, d]
            both = F.linear(memory, W[D:], None if b is None else b[D:])  # [B, k, 2·G·d]
            k, v = map(self.split, both.chunk(2, dim=-1))  # each [B, G, k, d]
        return q, k if self.key_norm is None else self.key_norm(k), v

    def query(self, x: Tensor) -> Tensor:
        """Q alone, [B, H, q, d]."""
        D, W, b = self.width, self.qkv.weight, self.qkv.bias
        q = self.split(F.linear(x, W[:D], None if b is None else b[:D]))
        return q if self.query_norm is None else self.query_norm(q)

    def split(self, x: Tensor) -> Tensor:
        """[B, T, H·d] -> [B, H, T, d]"""
        B, T, _ = x.shape
        return x.view(B, T, -1, self.width // self.heads).transpose(1, 2)

    def merge(self, o: Tensor) -> Tensor:
        """[B, H, T, d] -> [B, T, D]"""
        B, H, T, d = o.shape
        return o.transpose(1, 2).reshape(B, T, H * d)


class FeedForward(nn.Module):
    """y = W_down·φ(W_up·x + b) + b: each position by itself, widened to F features and back.

    φ is one of ACTIVATIONS. With "swiglu" the features are weighed by a gate: y = W_down·(SiLU(W_gate·x) ⊙ W_up·x),
    three matrices, so that F = 8/3·D has as many weights as F = 4·D without. The call takes x [B, T, D] and returns
    [B, T, D]. Raises ValueError for another activation.
    Source: Shazeer, "GLU variants improve Transformer", 2020.
    """

    def __init__(
        self, width: int, hidden: int, dropout: float = 0.0, bias: bool = True, activation: str = "gelu-tanh"
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"FeedForward: activation is one of {', '.join(ACTIVATIONS)}, not {activation!r}")
        self.gate = nn.Linear(width, hidden, bias=bias) if activation == "swiglu" else None
        self.up = nn.Linear(width, hidden, bias=bias)
        self.activation = ACTIVATIONS[activation]()
        self.down = nn.Linear(hidden, width, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        h = (
            self.activation(self.up(x)) if self.gate is None else self.activation(self.gate(x)) * self.up(x)
        )  # [B, T, F]
        return self.dropout(self.down(h))  # [B, T, D]


class Block(nn.Module):
    """One layer: x + Attention(norm(x)), then x + FeedForward(norm(x)).

    With norm_first the stream x itself is never normalised, so gradients pass through every layer unchanged beside the
    two branches. Without, it is the first Transformer's: norm(x + Attention(x)), then norm(x + FeedForward(x)). With
    `cross` an attention to another sequence stands between the two.

    Args:
        width, heads, dropout, bias: D, H and what Attention and FeedForward take; the norms' bias too.
        hidden: F, 4·D where None.
        activation: see FeedForward.
        norm: "layer" or "rms".
        eps: ε of all norms.
        norm_first: whether the norms stand before the branches.
        cross: whether there is a cross-attention.
        options: more of Attention: key_heads, normalised.

    The call takes x [B, T, D] with `visible`, `causal`, `turn` and `kept` as in Attention, and for the cross-attention
    memory [B, k, D] with memory_visible, broadcast to [B, H, T, k], and memory_kept; it returns [B, T, D].
    Raises ValueError for a norm of another name; the call raises one for a memory that nothing reads, or none to read.
    Source: Xiong et al., "On layer normalization in the Transformer architecture", 2020; Zhang and Sennrich, "Root mean
    square layer normalization", 2019.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        hidden: int | None = None,
        activation: str = "gelu-tanh",
        norm: str = "layer",
        eps: float = 1e-5,
        norm_first: bool = True,
        cross: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        if norm not in NORMS:
            raise ValueError(f"Block: norm is one of {', '.join(NORMS)}, not {norm!r}")
        self.norm_first = norm_first
        self.attention_norm = NORMS[norm](width, eps=eps, bias=bias)
        self.attention = Attention(width, heads, dropout, bias, eps=eps, **options)
        self.cross_norm = NORMS[norm](width, eps=eps, bias=bias) if cross else None
        self.cross = Attention(width, heads, dropout, bias, eps=eps, **options) if cross else None
        self.feed_forward_norm = NORMS[norm](width, eps=eps, bias=bias)
        self.feed_forward = FeedForward(width, hidden or 4 * width, dropout, bias, activation)

    def forward(
        self,
        x: Tensor,
        visible: Tensor | None = None,
        causal: bool = False,
        turn: Rotation | None = None,
        memory: Tensor | None = None,
        memory_visible: Tensor | None = None,
        kept: Layer | None = None,
        memory_kept: Layer | None = None,
    ) -> Tensor:
        if (memory is None) != (self.cross is None):
            raise ValueError(
                "Block: memory is what the cross-attention of a block made with cross=True reads; give it there, and "
                "only there"
            )
        if self.norm_first:
            x = x + self.attention(
                self.attention_norm(x), visible=visible, causal=causal, turn=turn, kept=kept
            )  # [B, T, D]
            if self.cross is not None and self.cross_norm is not None:
                x = x + self.cross(self.cross_norm(x), memory, memory_visible, kept=memory_kept)  # [B, T, D]
            return x + self.feed_forward(self.feed_forward_norm(x))  # [B, T, D]
        a = self.attention(x, visible=visible, causal=causal, turn=turn, kept=kept)  # [B, T, D]
        x = self.attention_norm(x + a)
        if self.cross is not None and self.cross_norm is not None:
            x = self.cross_norm(x + self.cross(x, memory, memory_visible, kept=memory_kept))  # [B, T, D]
        return self.feed_forward_norm(x + self.feed_forward(x))  # [B, T, D]
