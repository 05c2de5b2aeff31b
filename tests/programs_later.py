"""More model files as PyTorch users write them: routed experts, adversaries under a penalty, packed attention."""
# mypy: disable-error-code="name-defined, has-type"

from __future__ import annotations

from typing import Any


def experts(torch: Any) -> tuple[Any, Any]:
    """Two mixtures of experts: tokens gathered and added back by index, and gates scattered over boolean masks."""
    nn, F = torch.nn, torch.nn.functional

    class Expert(nn.Module):
        def __init__(self, d: int, h: int) -> None:
            super().__init__()
            self.gate_proj, self.up_proj = nn.Linear(d, h, bias=False), nn.Linear(d, h, bias=False)
            self.down_proj = nn.Linear(h, d, bias=False)

        def forward(self, x: Any) -> Any:
            return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))

    class Routed(nn.Module):
        def __init__(self, d: int, count: int, k: int) -> None:
            super().__init__()
            self.count, self.k = count, k
            self.gate = nn.Linear(d, count, bias=False)
            self.experts = nn.ModuleList([Expert(d, 16) for _ in range(count)])

        def forward(self, x: Any) -> Any:
            B, T, D = x.shape
            flat = x.view(-1, D)
            logits = self.gate(flat)
            weights, chosen = torch.topk(F.softmax(logits, dim=1), self.k, dim=-1)
            weights /= weights.sum(dim=-1, keepdim=True)
            out = torch.zeros((B * T, D), dtype=flat.dtype, device=flat.device)
            mask = F.one_hot(chosen, num_classes=self.count).permute(2, 1, 0)
            for i in range(self.count):
                place, token = torch.where(mask[i])
                if token.shape[0] == 0:
                    continue
                part = self.experts[i](flat[None, token].reshape(-1, D)) * weights[token, place, None]
                out.index_add_(0, token, part.to(flat.dtype))
            return out.reshape(B, T, D), logits

    class Gated(nn.Module):
        def __init__(self, d: int, count: int, k: int) -> None:
            super().__init__()
            self.k, self.route = k, nn.Linear(d, count)
            self.experts = nn.ModuleList(nn.Sequential(nn.Linear(d, d), nn.ReLU()) for _ in range(count))

        def forward(self, x: Any) -> Any:
            logits = self.route(x)
            top, at = logits.topk(self.k, dim=-1)
            gates = F.softmax(torch.full_like(logits, float("-inf")).scatter(-1, at, top), dim=-1)
            out = torch.zeros_like(x)
            for i, expert in enumerate(self.experts):
                mask = (at == i).any(dim=-1)
                if mask.any():
                    out[mask] += expert(x[mask]) * gates[mask][:, i].unsqueeze(1)
            return out

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(11, 12)
            self.routed = nn.ModuleList([Routed(12, 4, 2) for _ in range(2)])
            self.gated, self.norm, self.head = Gated(12, 3, 2), nn.RMSNorm(12), nn.Linear(12, 11)

        def forward(self, ids: Any) -> Any:
            x = self.table(ids)
            gates: tuple[Any, ...] = ()
            for layer in self.routed:
                y, logits = layer(x)
                x, gates = x + y, (*gates, logits)
            return self.head(self.norm(x + self.gated(self.norm(x)))), gates

    def loss(torch: Any, model: Any) -> Any:
        ids = torch.arange(20).view(2, 10) * 3 % 11
        logits, gates = model(ids[:, :-1])
        spread = F.softmax(torch.cat(gates, dim=0), dim=-1)
        share = F.one_hot(torch.topk(spread, 2, dim=-1)[1], 4).to(spread.dtype).mean(dim=0)
        return F.cross_entropy(logits.transpose(1, 2), ids[:, 1:]) + 0.08 * torch.sum(
            share * spread.mean(0).unsqueeze(0)
        )

    return Net(), loss


def adversary(torch: Any) -> tuple[Any, Any]:
    """An encoder against a discriminator whose gradient is held to length 1; batch statistics kept by hand."""
    nn, F = torch.nn, torch.nn.functional

    class BatchNorm(nn.Module):
        def __init__(self, dim: int) -> None:
            super().__init__()
            self.gamma, self.beta = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))
            self.register_buffer("mean", torch.zeros(dim))
            self.register_buffer("var", torch.ones(dim))
            self.register_buffer("seen", torch.tensor(0, dtype=torch.long))

        def forward(self, x: Any) -> Any:
            with torch.no_grad():
                self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
                self.var = 0.9 * self.var + 0.1 * x.var(0)
                self.seen += 1
            return self.gamma * (x - x.mean(0)) / torch.sqrt(x.var(0, unbiased=False) + 1e-5) + self.beta

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode = nn.Sequential(nn.Linear(12, 8, bias=False), BatchNorm(8), nn.Tanh(), nn.Linear(8, 3))
            self.judge = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2, inplace=True), nn.Linear(8, 1), nn.Sigmoid())

    def loss(torch: Any, model: Any) -> Any:
        x = torch.sin(torch.arange(72).double()).view(6, 12)
        z = model.encode(x)
        mixed_up = torch.stack([z[torch.roll(torch.arange(6), i), i] for i in range(3)], dim=1).detach()
        total = F.binary_cross_entropy(model.judge(z), torch.ones(6, 1).double())
        total = total + nn.BCELoss()(model.judge(mixed_up), torch.zeros(6, 1).double())
        share = torch.linspace(0, 1, 6).double().unsqueeze(1).expand_as(z)
        between = (share * z + (1 - share) * mixed_up).detach().requires_grad_(True)
        out = model.judge(between)
        (slope,) = torch.autograd.grad(
            outputs=out,
            inputs=between,
            grad_outputs=torch.ones_like(out),
            create_graph=True,
            retain_graph=True,
            only_inputs=True,
        )
        return total + ((slope.norm(2, dim=1) - 1) ** 2).mean()

    return Net(), loss


def packed(torch: Any) -> tuple[Any, Any]:
    """A translator: packed sentences, additive attention, a decoder that writes its outputs one by one."""
    nn, F = torch.nn, torch.nn.functional

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.read, self.write = nn.Embedding(9, 6), nn.Embedding(9, 6)
            self.rnn, self.first = nn.GRU(6, 8, bidirectional=True), nn.Linear(16, 8)
            self.attn, self.v = nn.Linear(24, 8), nn.Parameter(torch.rand(8))
            self.cell, self.out = nn.GRUCell(22, 8), nn.Linear(30, 9)

        def attention(self, hidden: Any, memory: Any, mask: Any) -> Any:
            repeated = hidden.unsqueeze(1).repeat(1, memory.shape[0], 1)
            memory = memory.permute(1, 0, 2)
            energy = torch.tanh(self.attn(torch.cat((repeated, memory), dim=2))).permute(0, 2, 1)
            v = self.v.repeat(memory.size(0), 1).unsqueeze(1)
            scores = torch.bmm(v, energy).squeeze(1).masked_fill(mask == 0, -1e10)
            return torch.bmm(F.softmax(scores, dim=1).unsqueeze(1), memory).squeeze(1)

        def forward(self, source: Any, lengths: Any, target: Any) -> Any:
            together = nn.utils.rnn.pack_padded_sequence(self.read(source), lengths, enforce_sorted=False)
            states, hidden = self.rnn(together)
            memory, _ = nn.utils.rnn.pad_packed_sequence(states)
            hidden = torch.tanh(self.first(torch.cat((hidden[-2, :, :], hidden[-1, :, :]), dim=1)))
            outputs = torch.zeros(target.shape[0], target.shape[1], 9).to(hidden.dtype)
            token, mask = target[0, :], (source != 0).permute(1, 0)
            for t in range(1, target.shape[0]):
                x, seen = self.write(token), self.attention(hidden, memory, mask)
                hidden = self.cell(torch.cat((x, seen), dim=1), hidden)
                outputs[t] = self.out(torch.cat((hidden, seen, x), dim=1))
                token = target[t] if t % 2 else outputs[t].argmax(1)
            return outputs

    def loss(torch: Any, model: Any) -> Any:
        source = torch.tensor([[1, 3, 4, 2, 0], [1, 5, 2, 0, 0], [1, 7, 8, 6, 2]]).t()
        target = torch.tensor([[1, 4, 3, 2, 0], [1, 5, 2, 0, 0], [1, 6, 8, 7, 2]]).t()
        out = model(source, torch.tensor([4, 3, 5]), target)
        return nn.CrossEntropyLoss(ignore_index=0)(out[1:].view(-1, out.shape[-1]), target[1:].reshape(-1))

    return Net(), loss


PROGRAMS = [experts, adversary, packed]
