"""PyTorch as a contender: the same training step, eager, with its fused attention and fused AdamW."""

import json
import sys
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tools.bench_rounds import answer
from tools.bench_train import BETAS, CLIP, LEARNING_RATE, WEIGHT_DECAY, Shape, batches, weights


class Block(nn.Module):
    """One layer, pre-norm, without bias."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1 = nn.LayerNorm(width, bias=False)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        self.norm_2 = nn.LayerNorm(width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Any) -> Any:
        B, T, D = x.shape
        parts = self.qkv(self.norm_1(x)).split(D, dim=-1)
        q, k, v = (part.view(B, T, self.heads, D // self.heads).transpose(1, 2) for part in parts)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(o.transpose(1, 2).reshape(B, T, D))
        return x + self.down(F.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class GPT(nn.Module):
    """Mean cross-entropy of a tied GPT."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.token = nn.Embedding(shape.vocab_size, shape.width)
        self.position = nn.Embedding(shape.block_size, shape.width)
        self.blocks = nn.ModuleList(Block(shape.width, shape.heads) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width, bias=False)

    def forward(self, ids: Any, labels: Any) -> Any:
        x = self.token(ids) + self.position(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(F.linear(self.norm(x), self.token.weight).flatten(0, 1), labels.flatten())


def contend(shape: Shape, threads: int) -> None:
    """Train with PyTorch."""
    if threads:
        torch.set_num_threads(threads)
    gpt = GPT(shape)
    parameters = list(gpt.parameters())
    with torch.no_grad():
        for p, start in zip(parameters, weights(tuple(p.shape) for p in parameters), strict=True):
            p.copy_(torch.from_numpy(start))
    decayed, plain = [p for p in parameters if p.dim() > 1], [p for p in parameters if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=BETAS, fused=True)
    data = [(torch.from_numpy(ids), torch.from_numpy(labels)) for ids, labels in batches(shape)]

    def step(i: int) -> float:
        loss = gpt(*data[i % len(data)])
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, CLIP, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    answer(step)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("tools.bench starts this program: python -m tools.bench train")
    contend(Shape(**json.loads(sys.argv[1])), int(sys.argv[2]))
