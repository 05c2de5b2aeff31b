"""What Transformers are built of: attention, feed-forward, and the block that joins them."""

from tinygrad_edu import Tensor, nn
from tinygrad_edu.nn import functional as F


class Attention(nn.Module):
    """O = P·V with P = softmax(Q·Kᵀ/√d, hidden scores at −∞), in H heads side by side, then W_O.

    Where the keys and values come from decides what it is: from x itself, self-attention; from `memory`,
    cross-attention. Only P·V moves content between positions; every projection works row by row.

    Args of the call: x [B, q, D]; memory [B, k, D] or None; visible, boolean, broadcast to [B, H, q, k], True where
    query q may read key k; causal, whether position q reads none after itself. Returns [B, q, D]. A query that may read
    nothing gets 0, never NaN.
    Raises ValueError for a width that is no multiple of heads.
    Source: Vaswani et al., "Attention is all you need", 2017, section 3.2.
    """

    def __init__(self, width: int, heads: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        if heads < 1 or width % heads:
            raise ValueError(
                f"Attention: width {width} is not a multiple of heads {heads}; a head takes width/heads features"
            )
        self.width, self.heads = width, heads
        self.qkv = nn.Linear(width, 3 * width, bias=bias)  # one product for all three, its rows W_Q, W_K and W_V
        self.output = nn.Linear(width, width, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, memory: Tensor | None = None, visible: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        q, k, v = self.project(x, memory)  # [B, H, q, d], [B, H, k, d], [B, H, k, d]
        dropped = self.dropout.p if self.training else 0.0
        o = F.scaled_dot_product_attention(q, k, v, visible, dropped, causal)  # [B, H, q, d]
        return self.dropout(self.output(self.merge(o)))  # [B, q, D]

    def project(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Q from x; K and V from x as well, or from memory: views of one product, or of two."""
        D = self.width
        if memory is None:
            q, k, v = self.qkv(x).split(D, dim=-1)  # each [B, T, D]
        else:
            W, b = self.qkv.weight, self.qkv.bias
            q = F.linear(x, W[:D], None if b is None else b[:D])  # [B, q, D]
            k, v = F.linear(memory, W[D:], None if b is None else b[D:]).split(D, dim=-1)  # each [B, k, D]
        return self.split(q), self.split(k), self.split(v)

    def split(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, H, T, d]"""
        B, T, D = x.shape
        return x.view(B, T, self.heads, D // self.heads).transpose(1, 2)

    def merge(self, o: Tensor) -> Tensor:
        """[B, H, T, d] -> [B, T, D]"""
        B, H, T, d = o.shape
        return o.transpose(1, 2).reshape(B, T, H * d)


class FeedForward(nn.Module):
    """y = W_down·GELU(W_up·x + b) + b: each position by itself, widened to F features and back.

    The call takes x [B, T, D] and returns [B, T, D]. GELU is the tanh form, GPT-2's.
    """

    def __init__(self, width: int, hidden: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden, bias=bias)
        self.activation = nn.GELU(approximate="tanh")
        self.down = nn.Linear(hidden, width, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        h = self.activation(self.up(x))  # [B, T, F]
        return self.dropout(self.down(h))  # [B, T, D]


class Block(nn.Module):
    """One layer: x + Attention(LN(x)), then x + FeedForward(LN(x)).

    Pre-norm: the stream x itself is never normalised, so gradients pass through every layer unchanged beside the two
    branches. F = 4·D. The call takes x [B, T, D] with `visible` and `causal` as in Attention, and returns [B, T, D].
    Source: Xiong et al., "On layer normalization in the Transformer architecture", 2020.
    """

    def __init__(self, width: int, heads: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width, bias=bias)
        self.attention = Attention(width, heads, dropout, bias)
        self.feed_forward_norm = nn.LayerNorm(width, bias=bias)
        self.feed_forward = FeedForward(width, 4 * width, dropout, bias)

    def forward(self, x: Tensor, visible: Tensor | None = None, causal: bool = False) -> Tensor:
        x = x + self.attention(self.attention_norm(x), visible=visible, causal=causal)  # [B, T, D]
        return x + self.feed_forward(self.feed_forward_norm(x))  # [B, T, D]
