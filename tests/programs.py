"""Model files as PyTorch users write them, each a function of the package: of this one and of PyTorch."""

# mypy: disable-error-code="name-defined"

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.programs_letters import LETTERS, WORDS, V, bag_of_words, gpt, gru, llama, mlp, recurrent, words


def pairs(torch: Any) -> tuple[Any, Any, Any]:
    """Source names, the same backwards as targets with 0 in front, and what follows in them; padded with 0."""
    source, target = torch.zeros(len(WORDS), 5).long(), torch.zeros(len(WORDS), 6).long()
    for row, word in enumerate(WORDS):
        ids = torch.LongTensor([LETTERS.index(c) + 1 for c in word])
        source[row, : len(word)] = ids
        target[row, 1 : 1 + len(word)] = torch.flip(ids, dims=[0])
    return source, target[:, :-1], target[:, 1:].contiguous()


def sinusoids(torch: Any, length: int, width: int) -> Any:
    """Positions as waves [length, width]."""
    table = torch.zeros(length, width)
    place = torch.arange(0, length, dtype=torch.float).unsqueeze(1)
    slow = torch.exp(torch.arange(0, width, 2).float() * (-math.log(10000.0) / width))
    table[:, 0::2] = torch.sin(place * slow)
    table[:, 1::2] = torch.cos(place * slow)
    return table


def encoder_decoder(torch: Any) -> tuple[Any, Any]:
    """Blocks around nn.MultiheadAttention: an encoder, and a decoder that looks at it; padding is hidden."""
    nn = torch.nn
    D = 12

    class Block(nn.Module):
        def __init__(self, looks: bool) -> None:
            super().__init__()
            self.own = nn.MultiheadAttention(D, 3, dropout=0.0, batch_first=True)
            self.other = nn.MultiheadAttention(D, 3, batch_first=True) if looks else None
            self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(3))
            self.mlp = nn.Sequential(nn.Linear(D, 20), nn.ReLU(), nn.Dropout(p=0.0), nn.Linear(20, D))

        def forward(self, x: Any, hidden: Any, padded: Any, memory: Any = None, memory_padded: Any = None) -> Any:
            y = self.norms[0](x)
            x = x + self.own(y, y, y, attn_mask=hidden, key_padding_mask=padded, need_weights=False)[0]
            if self.other is not None:
                y, self.looked = self.other(self.norms[1](x), memory, memory, key_padding_mask=memory_padded)
                x = x + y
            return x + self.mlp(self.norms[2](x))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(V, D, padding_idx=0)
            self.encoder = nn.ModuleList([Block(False)])
            self.decoder = nn.ModuleList([Block(True) for _ in range(2)])
            self.head = nn.Linear(D, V)
            self.register_buffer("places", sinusoids(torch, 10, D).unsqueeze(0))

        def forward(self, source: Any, target: Any) -> Any:
            padded = source == 0
            x = self.table(source) * math.sqrt(D) + self.places[:, : source.size(1)].requires_grad_(False)
            for block in self.encoder:
                x = block(x, None, padded)
            n = target.size(1)
            later = torch.triu(torch.ones((n, n), dtype=torch.bool, device=target.device), diagonal=1)
            y = self.table(target) * math.sqrt(D) + self.places[:, :n]
            for block in self.decoder:
                y = block(y, later, None, x, padded)
            return self.head(y)

    def loss(torch: Any, model: Any) -> Any:
        source, target, labels = pairs(torch)
        return nn.CrossEntropyLoss(ignore_index=0)(model(source, target).flatten(0, 1), labels.view(-1))

    return Net(), loss


def whole_transformer(torch: Any) -> tuple[Any, Any]:
    """nn.Transformer with its own mask, sequences first."""
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(V, 8)
            self.core = nn.Transformer(8, 2, 1, 2, dim_feedforward=16, dropout=0.0, activation="gelu")
            self.head = nn.Linear(8, V)
            self.register_buffer("places", sinusoids(torch, 10, 8).unsqueeze(1))

        def forward(self, source: Any, target: Any) -> Any:
            s, t = source.transpose(0, 1), target.t()
            x, y = (self.table(ids) + self.places[: ids.size(0)] for ids in (s, t))
            mask = self.core.generate_square_subsequent_mask(t.size(0)).to(y.dtype)
            y = self.core(
                x, y, tgt_mask=mask, src_key_padding_mask=(source == 0), memory_key_padding_mask=(source == 0)
            )
            return self.head(y).permute(1, 2, 0)

    def loss(torch: Any, model: Any) -> Any:
        source, target, labels = pairs(torch)
        return torch.nn.functional.cross_entropy(model(source, target), labels, ignore_index=0, label_smoothing=0.1)

    return Net(), loss


def tagger(torch: Any) -> tuple[Any, Any]:
    """An LSTM in both directions that tells vowels from consonants."""
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(V, 6)
            self.lstm = nn.LSTM(6, 7, num_layers=2, batch_first=True, bidirectional=True)
            self.out = nn.Linear(14, 3)

        def forward(self, ids: Any) -> Any:
            states, (h, c) = self.lstm(self.table(ids))
            assert h.shape == c.shape == (4, len(WORDS), 7)
            return torch.log_softmax(self.out(states), dim=-1)

    def loss(torch: Any, model: Any) -> Any:
        ids, _ = words(torch)
        vowels = torch.tensor([False] + [c in "aeiou" for c in LETTERS])
        tags = torch.where(ids == 0, torch.zeros_like(ids), 1 + vowels[ids].long())
        found = model(ids)
        assert found.argmax(dim=-1).shape == tags.shape
        return nn.NLLLoss()(found.view(-1, 3), tags.reshape(-1))

    return Net(), loss


def autoencoder(torch: Any) -> tuple[Any, Any]:
    """A variational autoencoder of bits, its noise given."""
    nn, F = torch.nn, torch.nn.functional
    rng = np.random.default_rng(3)
    bits, noise = rng.random((10, 12)) > 0.5, rng.standard_normal((10, 3))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode = nn.Sequential(nn.Linear(12, 16), nn.LeakyReLU(0.2), nn.Linear(16, 6))
            self.decode = nn.Sequential(nn.Linear(3, 16), nn.ELU(), nn.Linear(16, 12))

        def forward(self, x: Any, eps: Any) -> tuple[Any, Any, Any]:
            mu, logvar = self.encode(x).chunk(2, dim=-1)
            return self.decode(mu + eps * (0.5 * logvar).exp()), mu, logvar

    def loss(torch: Any, model: Any) -> Any:
        x = torch.from_numpy(bits.astype(np.float64))
        logits, mu, logvar = model(x, torch.from_numpy(noise))
        made = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        divergence = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        return (made + divergence) / x.size(0)

    return Net(), loss


def smoothed(torch: Any) -> tuple[Any, Any]:
    """A classifier trained on smoothed targets that are put together by hand, with a frozen first layer."""
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 5)
            self.scale = nn.ParameterList([torch.ones(8), torch.zeros(8)])
            for p in self.first.parameters():
                p.requires_grad = False

        def forward(self, x: Any) -> Any:
            x = torch.relu(self.first(x))
            x = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5)
            return torch.log_softmax(self.second(x * self.scale[0] + self.scale[1]), -1)

    def loss(torch: Any, model: Any) -> Any:
        x = torch.linspace(-1, 1, 24).double().view(6, 4) ** 2
        target = torch.tensor([0, 1, 2, 3, 4, 0])
        log = model(x)
        wanted = log.data.clone().fill_(0.1 / 3)
        wanted.scatter_(1, target.data.unsqueeze(1), 0.9)
        wanted[:, 0] = 0
        ignored = torch.nonzero(target.data == 0)
        wanted.index_fill_(0, ignored.squeeze(), 0.0)
        assert wanted.sum(dim=1).count_nonzero() == 4
        return nn.KLDivLoss(reduction="sum")(log, wanted.detach())

    return Net(), loss


PROGRAMS = [
    gpt, llama, mlp, recurrent, gru, bag_of_words, encoder_decoder, whole_transformer, tagger, autoencoder, smoothed
]  # fmt: skip


def scalars(torch: Any) -> list[float]:
    """What a scalar engine's tests do: one number at a time, some in place; values and gradients."""
    a, b = (torch.tensor([v], dtype=torch.float64, requires_grad=True) for v in (-4.0, 2.0))
    c = a + b
    d = a * b + b**3
    c += c + 1
    c += 1 + c + (-a)
    d += d * 2 + (b + a).relu()
    d += 3 * d + (b - a).relu()
    e = c - d
    f = e**2
    g = f / 2.0
    g += 10.0 / f
    g = g + (a / 4).tanh() * b.exp() - (b - a) ** -1
    g.backward()
    return [g.item(), a.grad.item(), b.grad.item()]


def by_hand(torch: Any) -> list[float]:
    """A network without modules: a table, two matrices and a loop that changes .data."""
    rng = np.random.default_rng(1)
    C, W1, W2 = (torch.tensor(rng.normal(0, 0.5, shape)) for shape in ((V, 3), (6, 10), (10, V)))
    b1, b2 = torch.zeros(10, dtype=torch.float64), torch.zeros(V).double()
    parameters = [C, W1, b1, W2, b2]
    for p in parameters:
        p.requires_grad = True
    x, y = words(torch)
    X, Y = torch.stack([x[:, :-2].reshape(-1), x[:, 1:-1].reshape(-1)], 1), y[:, 1:-1].reshape(-1).clamp(min=0)
    losses = []
    for i in range(5):
        h = torch.tanh(C[X].view(-1, 6) @ W1 + b1)
        counts = (h @ W2 + b2).exp()
        probs = counts / counts.sum(1, keepdims=True)
        loss = -probs[torch.arange(len(Y)), Y].log().mean() + 0.01 * (W1**2).mean()
        for p in parameters:
            p.grad = None
        loss.backward()
        for p in parameters:
            p.data += -(0.5 if i < 3 else 0.1) * p.grad
        losses.append(loss.item())
    return losses
