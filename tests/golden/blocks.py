"""Blocks of Transformers as a user writes them: an encoder's under a padding mask, one that reads another sequence."""

from typing import Any

import numpy as np

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.nn import functional as F
from tinygrad_edu.random import Generator


class Heads(nn.Module):
    """Attention of H heads side by side; keys and values may come from elsewhere."""

    def __init__(self, D: int, H: int) -> None:
        super().__init__()
        self.heads = H
        self.query, self.key, self.value, self.output = (nn.Linear(D, D) for _ in range(4))

    def forward(self, x: Any, mem: Any, visible: Any = None) -> Any:
        B, H, d = len(x), self.heads, x.shape[-1] // self.heads
        q, k, v = self.query(x), self.key(mem), self.value(mem)
        q, k, v = (part.view(B, -1, H, d).transpose(1, 2) for part in (q, k, v))
        scores = q @ k.mT / d**0.5
        if visible is not None:
            scores = scores.masked_fill(~visible, float("-inf"))
        weights = F.softmax(scores, dim=-1)
        o = weights @ v
        return self.output(o.transpose(1, 2).flatten(2))


class Encoder(nn.Module):
    """x + attention, x + feed-forward, each behind a norm; `visible` [B, S], True at tokens and False at padding."""

    visibility, scaled = "padding", True

    def __init__(self, D: int, H: int, F: int) -> None:
        super().__init__()
        self.attention_norm, self.attention, self.norm = nn.LayerNorm(D), Heads(D, H), nn.LayerNorm(D)
        self.up, self.down = nn.Linear(D, F), nn.Linear(F, D)

    def forward(self, x: Any, visible: Any) -> Any:
        h = self.attention_norm(x)
        x = x + self.attention(h, h, visible[:, None, None, :])
        return x + self.down(F.relu(self.up(self.norm(x))))


class Cross(nn.Module):
    """x + attention whose keys and values come from mem."""

    visibility, scaled = "full", True

    def __init__(self, D: int, H: int) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(D), Heads(D, H)

    def forward(self, x: Any, mem: Any) -> Any:
        return x + self.attention(self.norm(x), mem)


def encoder(B: int = 2, S: int = 6, D: int = 12, H: int = 3, F: int = 20) -> Any:
    """An encoder block over x [B, S, D] whose first sequence ends in two positions of padding, the second in none."""
    tg.manual_seed(0)
    block = Encoder(D, H, F)
    block.axes = {"x": "B S D", "visible": "B S", "up.weight": "F D"}
    visible = np.arange(S) < S - 2 * (np.arange(B) == 0)[:, None]
    return block, (tg.randn(B, S, D, generator=Generator(1)), tg.tensor(visible))


def cross(B: int = 2, T: int = 5, S: int = 7, D: int = 12, H: int = 3) -> Any:
    """A block over x [B, T, D] that reads mem [B, S, D]."""
    tg.manual_seed(0)
    block, draw = Cross(D, H), Generator(1)
    block.axes = {"x": "B T D", "mem": "B S D"}
    return block, (tg.randn(B, T, D, generator=draw), tg.randn(B, S, D, generator=draw))
