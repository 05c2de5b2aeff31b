"""Models of letters as PyTorch users write them, each a function of the package: of this one and of PyTorch."""

# mypy: disable-error-code="name-defined"

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

WORDS = ["anna", "bob", "carla", "dora", "emil", "fabio", "gina", "hugo"]
LETTERS = sorted(set("".join(WORDS)))
V, T = len(LETTERS) + 1, 8


def words(torch: Any) -> tuple[Any, Any]:
    """Names as ids, 0 before and behind; the labels behind a name's end are -1, which is not counted."""
    x = torch.zeros(len(WORDS), T, dtype=torch.long)
    y = torch.full((len(WORDS), T), -1, dtype=torch.long)
    for row, word in enumerate(WORDS):
        ids = torch.tensor([LETTERS.index(c) + 1 for c in word], dtype=torch.long)
        x[row, 1 : 1 + len(ids)] = ids
        y[row, : len(ids)] = ids
        y[row, len(ids)] = 0
    return x, y


def next_letter(torch: Any, model: Any) -> Any:
    """The loss of a model of names: of its logits [B, T, V] against the letters that follow."""
    x, y = words(torch)
    logits = model(x)
    return torch.nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1), ignore_index=-1)


def gpt(torch: Any) -> tuple[Any, Any]:
    """A decoder with one product for q, k and v, a mask in a buffer, and the head tied to the table."""
    nn, F = torch.nn, torch.nn.functional
    c = SimpleNamespace(width=16, heads=2, depth=2)

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(c.width, 3 * c.width)
            self.out = nn.Linear(c.width, c.width, bias=False)
            self.register_buffer("seen", torch.tril(torch.ones(T, T)).view(1, 1, T, T))

        def forward(self, x: Any) -> Any:
            B, t, C = x.size()
            q, k, v = self.qkv(x).split(C, dim=2)
            q, k, v = (s.view(B, t, c.heads, C // c.heads).transpose(1, 2) for s in (q, k, v))
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = F.softmax(att.masked_fill(self.seen[:, :, :t, :t] == 0, float("-inf")), dim=-1)
            return self.out((att @ v).transpose(1, 2).contiguous().view(B, t, C))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(c.width), nn.LayerNorm(c.width, bias=False)
            self.attention = Attention()
            self.mlp = nn.Sequential(
                nn.Linear(c.width, 4 * c.width), nn.GELU(), nn.Linear(4 * c.width, c.width), nn.Dropout(0.0)
            )

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.ModuleDict(
                {
                    "tokens": nn.Embedding(V, c.width),
                    "places": nn.Embedding(T, c.width),
                    "blocks": nn.ModuleList([Block() for _ in range(c.depth)]),
                    "norm": nn.LayerNorm(c.width),
                }
            )
            self.head = nn.Linear(c.width, V, bias=False)
            self.body.tokens.weight = self.head.weight
            self.apply(self.start)
            for name, p in self.named_parameters():
                if name.endswith("out.weight"):
                    nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * c.depth))

        def start(self, module: Any) -> None:
            if isinstance(module, nn.Linear | nn.Embedding):
                module.weight.data.normal_(mean=0.0, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                module.bias.data.zero_()

        def forward(self, ids: Any) -> Any:
            _, t = ids.shape
            places = torch.arange(0, t, dtype=torch.long, device=ids.device).unsqueeze(0)
            x = self.body.tokens(ids) + self.body.places(places)
            for block in self.body.blocks:
                x = block(x)
            return self.head(self.body["norm"](x))

        @torch.no_grad()
        def generate(self, ids: Any, count: int, top_k: int | None = None) -> Any:
            for _ in range(count):
                logits = self(ids[:, -T:])[:, -1, :] / 0.8
                if top_k is not None:
                    v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
                    logits[logits < v[:, [-1]]] = -float("inf")
                follower = torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)
                ids = torch.cat((ids, follower), dim=1)
            return ids

    return GPT(), next_letter


def llama(torch: Any) -> tuple[Any, Any]:
    """A decoder with turned positions, grouped keys, RMS norms and a gated feed-forward."""
    nn, F = torch.nn, torch.nn.functional
    D, H, G = 16, 4, 2

    class Norm(nn.Module):
        def __init__(self, eps: float = 1e-6) -> None:
            super().__init__()
            self.eps, self.weight = eps, nn.Parameter(torch.ones(D))

        def forward(self, x: Any) -> Any:
            x_ = x.to(torch.float64)
            y = x_ * torch.rsqrt(x_.pow(2).mean(-1, keepdim=True) + self.eps)
            return y.type_as(x) * self.weight

    def turn(x: Any, cos: Any, sin: Any) -> Any:
        a, b = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
        cos, sin = (f[None, : x.shape[1], None, :] for f in (cos, sin))
        return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(3).type_as(x)

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wq, self.wo = (nn.Linear(D, D, bias=False) for _ in range(2))
            self.wk, self.wv = (nn.Linear(D, G * D // H, bias=False) for _ in range(2))
            self.w1, self.w3, self.w2 = nn.Linear(D, 24, bias=False), nn.Linear(D, 24, bias=False), nn.Linear(24, D)
            self.norm1, self.norm2 = Norm(), Norm()

        def forward(self, x: Any, cos: Any, sin: Any) -> Any:
            B, t, _ = x.shape
            y = self.norm1(x)
            q, k, v = (w(y).view(B, t, -1, D // H) for w in (self.wq, self.wk, self.wv))
            q, k = turn(q, cos, sin), turn(k, cos, sin)
            k, v = (s[:, :, :, None, :].expand(B, t, G, H // G, D // H).reshape(B, t, H, D // H) for s in (k, v))
            q, k, v = q.transpose(1, 2), k.transpose(1, 2), torch.swapaxes(v, 1, 2)
            scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(D // H)
            hidden = torch.full((t, t), float("-inf"), device=x.device, dtype=x.dtype)
            scores = scores + torch.triu(hidden, diagonal=1)
            y = torch.matmul(F.softmax(scores, dim=-1).type_as(q), v)
            x = x + self.wo(y.transpose(1, 2).contiguous().view(B, t, -1))
            y = self.norm2(x)
            return x + self.w2(F.silu(self.w1(y)) * self.w3(y))

    class Llama(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(V, D)
            self.layers = nn.ModuleList()
            for _ in range(2):
                self.layers.append(Layer())
            self.norm, self.head = Norm(), nn.Linear(D, V)
            slow = 1.0 / (100.0 ** (torch.arange(0, D // H, 2)[: D // H // 2].double() / (D // H)))
            angles = torch.outer(torch.arange(T, device=slow.device).double(), slow).to(self.head.weight.dtype)
            self.register_buffer("cos", torch.cos(angles), persistent=False)
            self.register_buffer("sin", torch.sin(angles), persistent=False)

        def forward(self, ids: Any) -> Any:
            x = self.tokens(ids)
            for layer in self.layers:
                x = layer(x, self.cos, self.sin)
            return self.head(self.norm(x))

    return Llama(), next_letter


def mlp(torch: Any) -> tuple[Any, Any]:
    """Three letters at once: tables of the last ones side by side, one hidden layer."""
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(V + 1, 6)
            self.net = nn.Sequential(nn.Linear(18, 20), nn.Tanh(), nn.Linear(20, V))

        def forward(self, ids: Any) -> Any:
            parts = []
            for _ in range(3):
                parts.append(self.table(ids))
                ids = torch.roll(ids, 1, 1)
                ids[:, 0] = V
            return self.net(torch.cat(parts, -1))

    return Net(), next_letter


def recurrent(torch: Any, gated: bool = False) -> tuple[Any, Any]:
    """A recurrent cell of Linear layers, run letter by letter from a learned start."""
    nn, F = torch.nn, torch.nn.functional

    class Cell(nn.Module):
        def __init__(self, width: int, state: int) -> None:
            super().__init__()
            names = ["keep", "reset", "new"] if gated else ["new"]
            self.parts = nn.ModuleDict({name: nn.Linear(width + state, state) for name in names})

        def forward(self, x: Any, h: Any) -> Any:
            if not gated:
                return F.tanh(self.parts["new"](torch.cat([x, h], dim=1)))
            both = torch.cat([x, h], dim=1)
            keep, reset = (torch.sigmoid(self.parts[name](both)) for name in ("keep", "reset"))
            new = self.parts.new(torch.cat([x, reset * h], dim=1)).tanh()
            return (1 - keep) * h + keep * new

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.start = nn.Parameter(torch.zeros(1, 10))
            self.table, self.cell, self.head = nn.Embedding(V, 5), Cell(5, 10), nn.Linear(10, V)

        def forward(self, ids: Any) -> Any:
            b, t = ids.size()
            x, h = self.table(ids), self.start.expand((b, -1))
            states = []
            for i in range(t):
                h = self.cell(x[:, i, :], h)
                states.append(h)
            return self.head(torch.stack(states, 1))

    return Net(), next_letter


def gru(torch: Any) -> tuple[Any, Any]:
    """The same with gates."""
    return recurrent(torch, gated=True)


def bag_of_words(torch: Any) -> tuple[Any, Any]:
    """The mean of all letters so far, by a softmax of equal scores."""
    nn, F = torch.nn, torch.nn.functional

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters, self.places = nn.Embedding(V, 12), nn.Embedding(T, 12)
            self.mix = nn.Sequential(nn.Linear(12, 16), nn.ReLU(inplace=True), nn.Linear(16, 12))
            self.head = nn.Linear(12, V)
            self.register_buffer("seen", torch.tril(torch.ones(T, T)).bool().unsqueeze(0))

        def forward(self, ids: Any) -> Any:
            B, t = ids.shape
            x = self.letters(ids) + self.places.weight[:t]
            equal = torch.zeros((B, t, t), device=x.device, dtype=x.dtype)
            weights = F.softmax(equal.masked_fill(~self.seen[:, :t, :t], -torch.inf), dim=-1)
            x = x + torch.bmm(weights, x)
            return self.head(x + self.mix(x))

    return Net(), next_letter
