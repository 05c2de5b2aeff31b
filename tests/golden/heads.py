"""An attention head as a user writes it: plain lines, no names given, no modules."""

from typing import Any

import numpy as np

import tinygrad_edu as tg
from tinygrad_edu.nn import functional as F
from tinygrad_edu.random import Generator


def head(B: int = 2, T: int = 5, D: int = 12, d: int = 4) -> Any:
    """One causal head over x [B, T, D]."""
    draw = Generator(0)
    x = tg.randn(B, T, D, generator=draw, requires_grad=True)
    Wq, Wk, Wv = (tg.Tensor(draw.numpy().standard_normal((D, d)) / D**0.5, requires_grad=True) for _ in range(3))
    Wq, Wk, Wv = (tg.Tensor(W.array.astype("float32"), requires_grad=True) for W in (Wq, Wk, Wv))
    bq, bk, bv = (tg.zeros(d, requires_grad=True) for _ in range(3))
    hidden = tg.Tensor(~np.tri(T, dtype=bool))

    def attention_head(x: Any) -> Any:
        q = x @ Wq + bq
        k = x @ Wk + bk
        v = x @ Wv + bv
        scores = q @ k.transpose(-2, -1) / d**0.5
        scores = scores.masked_fill(hidden, float("-inf"))
        weights = F.softmax(scores, dim=-1)
        o = weights @ v
        return o

    return attention_head, (x,)


def equal() -> Any:
    """The same head with all lengths equal, where shapes tell nothing apart."""
    return head(4, 4, 4, 4)
