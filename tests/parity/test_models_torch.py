"""GPT and bigram against the same models in PyTorch: logits, loss, every gradient, ten steps of training."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import tinygrad_edu as tg
from models import GPT, Bigram, BigramConfig, GPTConfig
from models.transformer import ACTIVATIONS
from tinygrad_edu import nn, optim

CONFIG = GPTConfig(vocab_size=13, block_size=12, layers=3, heads=4, width=32)
CLOSE = {"float32": 1e-5, "float64": 1e-10}


class TorchNorm(torch.nn.Module):
    """LayerNorm or RMSNorm by their formulas, with the parameters that ours has."""

    def __init__(self, c: GPTConfig, width: int, norm: str) -> None:
        super().__init__()
        self.eps, self.centred = c.eps, norm == "layer"
        self.weight = torch.nn.Parameter(torch.ones(width))
        self.bias = torch.nn.Parameter(torch.zeros(width)) if c.bias and self.centred else None

    def forward(self, x: Any) -> Any:
        if self.centred:
            x = x - x.mean(-1, keepdim=True)
        y = x / (x.pow(2).mean(-1, keepdim=True) + self.eps).sqrt() * self.weight
        return y if self.bias is None else y + self.bias


class TorchAttention(torch.nn.Module):
    def __init__(self, c: GPTConfig) -> None:
        super().__init__()
        self.c, self.heads, self.groups, d = c, c.heads, c.key_heads or c.heads, c.width // c.heads
        self.qkv = torch.nn.Linear(c.width, c.width + 2 * self.groups * d, bias=c.bias)
        self.output = torch.nn.Linear(c.width, c.width, bias=c.bias)
        if c.normalised:
            self.query_norm, self.key_norm = TorchNorm(c, d, "rms"), TorchNorm(c, d, "rms")

    def forward(self, x: Any) -> Any:
        B, T, D = x.shape
        d = D // self.heads
        parts = self.qkv(x).split([D, self.groups * d, self.groups * d], dim=-1)
        q, k, v = (s.view(B, T, -1, d).transpose(1, 2) for s in parts)
        if self.c.normalised:
            q, k = self.query_norm(q), self.key_norm(k)
        if self.c.positions == "rotary":
            q, k = self.turned(q), self.turned(k)
        k, v = (s.repeat_interleave(self.heads // self.groups, dim=1) for s in (k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(d)
        hidden = torch.ones(T, T, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(hidden, float("-inf")).softmax(dim=-1)
        return self.output((weights @ v).transpose(1, 2).reshape(B, T, D))

    def turned(self, x: Any) -> Any:
        """As complex numbers: feature pair i at position t times e^(i·t·base^(-2i/d))."""
        d = x.shape[-1]
        clocks = self.c.rotary_base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
        angle = torch.outer(torch.arange(x.shape[-2], dtype=torch.float64), clocks)
        both = torch.complex(*x.chunk(2, dim=-1)) * torch.polar(torch.ones_like(angle), angle)
        return torch.cat([both.real, both.imag], dim=-1).to(x.dtype)


class TorchFeedForward(torch.nn.Module):
    def __init__(self, c: GPTConfig) -> None:
        super().__init__()
        self.kind = c.activation
        if c.activation == "swiglu":
            self.gate = torch.nn.Linear(c.width, c.features, bias=c.bias)
        self.up = torch.nn.Linear(c.width, c.features, bias=c.bias)
        self.down = torch.nn.Linear(c.features, c.width, bias=c.bias)

    def forward(self, x: Any) -> Any:
        F = torch.nn.functional
        if self.kind == "swiglu":
            return self.down(F.silu(self.gate(x)) * self.up(x))
        bend = {"gelu": F.gelu, "gelu-tanh": lambda h: F.gelu(h, approximate="tanh"), "relu": F.relu, "silu": F.silu}
        return self.down(bend[self.kind](self.up(x)))


class TorchBlock(torch.nn.Module):
    def __init__(self, c: GPTConfig) -> None:
        super().__init__()
        self.norm_first = c.norm_first
        self.attention_norm = TorchNorm(c, c.width, c.norm)
        self.attention = TorchAttention(c)
        self.feed_forward_norm = TorchNorm(c, c.width, c.norm)
        self.feed_forward = TorchFeedForward(c)

    def forward(self, x: Any) -> Any:
        if self.norm_first:
            x = x + self.attention(self.attention_norm(x))
            return x + self.feed_forward(self.feed_forward_norm(x))
        x = self.attention_norm(x + self.attention(x))
        return self.feed_forward_norm(x + self.feed_forward(x))


class TorchGPT(torch.nn.Module):
    def __init__(self, c: GPTConfig) -> None:
        super().__init__()
        self.c = c
        self.token = torch.nn.Embedding(c.vocab_size, c.width)
        if c.positions == "learned":
            self.position = torch.nn.Embedding(c.block_size, c.width)
        self.blocks = torch.nn.ModuleList(TorchBlock(c) for _ in range(c.layers))
        self.norm = TorchNorm(c, c.width, c.norm) if c.norm_first else torch.nn.Identity()
        self.head = torch.nn.Linear(c.width, c.vocab_size, bias=False)
        if c.tied:
            self.head.weight = self.token.weight

    def forward(self, ids: Any) -> Any:
        x = self.token(ids)
        if self.c.positions == "learned":
            x = x + self.position(torch.arange(ids.shape[1]))
        elif self.c.positions == "sinusoidal":
            x = x * self.c.width**0.5 + self.waves(ids.shape[1]).to(x.dtype)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def waves(self, T: int) -> Any:
        D = self.c.width
        rows = [[(math.sin, math.cos)[i % 2](t / 10_000 ** ((i - i % 2) / D)) for i in range(D)] for t in range(T)]
        return torch.tensor(rows, dtype=torch.float64)


def gpt_pair(dtype: str, **changes: Any) -> tuple[Any, Any]:
    """Our model with weights large enough that every gradient counts, and PyTorch's with the same."""
    tg.manual_seed(0)
    config = dataclasses.replace(CONFIG, **changes)
    ours = GPT(config).to(getattr(tg, dtype))
    for name, p in ours.named_parameters():
        nn.init.normal_(p, mean=1.0 if "norm.weight" in name else 0.0, std=0.2)
    return ours, same_weights(ours, TorchGPT(config).to(getattr(torch, dtype)))


def same_weights(ours: nn.Module, theirs: Any) -> Any:
    theirs.load_state_dict({name: torch.tensor(p.numpy()) for name, p in ours.state_dict().items()})
    return theirs


def batch(seed: int = 0, B: int = 3, T: int = 12, V: int = 13) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    ids, labels = random.integers(0, V, (B, T)), random.integers(0, V, (B, T))
    labels[random.random((B, T)) < 0.2] = -100
    return ids, labels


def torch_loss(model: Any, ids: np.ndarray, labels: np.ndarray) -> Any:
    logits = model(torch.tensor(ids))
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor(labels).flatten())


def compare(ours: Any, theirs: Any, close: float) -> None:
    ids, labels = batch()
    assert np.allclose(ours(ids).detach().numpy(), theirs(torch.tensor(ids)).detach().numpy(), rtol=close, atol=close)
    total, count = ours.loss((ids, labels))
    loss = total / count
    expected = torch_loss(theirs, ids, labels)
    assert loss.item() == pytest.approx(expected.item(), rel=close, abs=close)
    loss.backward()
    expected.backward()
    gradients = {name: p.grad for name, p in theirs.named_parameters()}
    assert gradients.keys() == {name for name, _ in ours.named_parameters()}
    for name, p in ours.named_parameters():
        g = gradients[name].numpy()
        assert abs(g).max() > 0, name
        assert np.allclose(p.grad.numpy(), g, rtol=close, atol=close), name


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_gpt(dtype: str, tied: bool, bias: bool) -> None:
    compare(*gpt_pair(dtype, tied=tied, bias=bias), CLOSE[dtype])


CHOICES: dict[str, dict[str, Any]] = {
    **{activation: {"activation": activation} for activation in ACTIVATIONS},
    "F": {"hidden": 24},
    "rms": {"norm": "rms"},
    "eps": {"eps": 0.1},
    "post-norm": {"norm_first": False},
    "post-norm rms": {"norm_first": False, "norm": "rms"},
    "sinusoidal": {"positions": "sinusoidal"},
    "rotary": {"positions": "rotary"},
    "rotary base": {"positions": "rotary", "rotary_base": 100.0},
    "grouped": {"key_heads": 2},
    "one head of keys": {"key_heads": 1},
    "normalised": {"normalised": True},
    "all": {
        "activation": "swiglu", "hidden": 24, "norm": "rms", "positions": "rotary", "rotary_base": 50.0, "key_heads": 2,
        "normalised": True, "tied": False,
    },
}  # fmt: skip


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("changes", CHOICES.values(), ids=CHOICES)
def test_gpt_of_every_choice(dtype: str, bias: bool, changes: dict[str, Any]) -> None:
    compare(*gpt_pair(dtype, bias=bias, **changes), CLOSE[dtype])


@pytest.mark.parametrize("changes", CHOICES.values(), ids=CHOICES)
def test_operations_are_counted_as_by_pytorch(changes: dict[str, Any]) -> None:
    ours, theirs = gpt_pair("float32", **changes)
    ids, labels = batch()
    with FlopCounterMode(display=False) as forward:
        loss = torch_loss(theirs, ids, labels)
    with FlopCounterMode(display=False) as backward:
        loss.backward()
    assert forward.get_total_flops() == ours.flops_per_token(keys=12) * ids.size
    assert forward.get_total_flops() + backward.get_total_flops() == ours.flops_per_token(12, training=True) * ids.size


@pytest.mark.parametrize("dtype", CLOSE)
def test_gpt_of_the_cpu_run(dtype: str) -> None:
    """The shape that is trained in the demonstration, with its own first weights."""
    tg.manual_seed(1)
    config = GPTConfig(vocab_size=13)
    ours = GPT(config).to(getattr(tg, dtype))
    compare(ours, same_weights(ours, TorchGPT(config).to(getattr(torch, dtype))), CLOSE[dtype])


@pytest.mark.parametrize("dtype", CLOSE)
def test_bigram(dtype: str) -> None:
    tg.manual_seed(0)
    ours = Bigram(BigramConfig(13)).to(getattr(tg, dtype))
    nn.init.normal_(ours.table.weight)
    theirs = torch.nn.Sequential()
    theirs.add_module("table", torch.nn.Embedding(13, 13, dtype=getattr(torch, dtype)))
    compare(ours, same_weights(ours, theirs), CLOSE[dtype])


@pytest.mark.parametrize("dtype", CLOSE)
def test_ten_steps_of_training(dtype: str) -> None:
    """Decay groups, warm-up and cosine, clipping: the same losses, norms and weights all the way."""
    ours, theirs = gpt_pair(dtype, bias=True)
    # eps far above rounding: the bias of the keys has no true gradient, and Adam would blow its noise up to whole steps
    options: dict[str, Any] = {"lr": 1e-2, "betas": (0.9, 0.99), "eps": 1e-4}
    adamw = optim.AdamW(optim.decay_groups(ours, 0.1), **options)
    plan = optim.WarmupCosine(adamw, warmup_steps=3, total_steps=8, min_lr=1e-3)
    decayed = [p for p in theirs.parameters() if p.dim() >= 2]
    plain = [p for p in theirs.parameters() if p.dim() < 2]
    other = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}], **options
    )
    close = CLOSE[dtype]
    losses = []
    for _ in range(10):
        ids, labels = batch()
        total, count = ours.loss((ids, labels))
        loss, expected = total / count, torch_loss(theirs, ids, labels)
        assert loss.item() == pytest.approx(expected.item(), rel=close)
        losses.append(loss.item())
        adamw.zero_grad()
        other.zero_grad()
        loss.backward()
        expected.backward()
        norm = nn.utils.clip_grad_norm_(ours.parameters(), 1.0)
        theirs_norm = torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        assert norm.item() == pytest.approx(theirs_norm.item(), rel=close)
        for group in other.param_groups:
            group["lr"] = plan.get_last_lr()[0]
        adamw.step()
        other.step()
        plan.step()
    assert losses[-1] < losses[0] - 0.5
    if dtype == "float64":
        for name, p in theirs.named_parameters():
            mine = dict(ours.named_parameters())[name].array
            assert np.allclose(mine, p.detach().numpy(), rtol=0, atol=1e-10), name
