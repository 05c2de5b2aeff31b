"""What stands around ops and modules on the stand-in: draws, checks, derivatives of functions, halves, shards."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tests.strict.ran import host, note, same_on_both
from tinygrad_edu import autograd, check, nn, optim, parallel, utils, watching
from tinygrad_edu.nn import functional as F

X = np.random.default_rng(0).standard_normal((3, 4))
CALLS: dict[str, Callable[[Any, str], Any]] = {
    "rand": lambda x, d: tg.rand(2, 3, device=d),
    "randint": lambda x, d: tg.randint(0, 5, (3,), device=d),
    "randperm": lambda x, d: tg.randperm(4, device=d),
    "rand_like": lambda x, d: tg.rand_like(x),
    "normal, of tensors": lambda x, d: tg.normal(x, x.abs()),
    "bernoulli": lambda x, d: tg.bernoulli(F.softmax(x, -1)),
    "multinomial": lambda x, d: tg.multinomial(F.softmax(x, -1), 2),
    "uniform_": lambda x, d: tg.zeros(3, device=d).uniform_(),
    "normal_": lambda x, d: tg.zeros(3, device=d).normal_(),
    "tril_indices": lambda x, d: tg.tril_indices(3, 3, device=d),
    "where, alone": lambda x, d: tg.where(x > 0),
    "nonzero": lambda x, d: (x > 0).nonzero(),
    "unique": lambda x, d: tg.tensor([1, 2, 1], device=d).unique(return_counts=True),
    "one_hot": lambda x, d: F.one_hot(tg.tensor([0, 2], device=d)),
    "median": lambda x, d: x.median(),
    "normalize": lambda x, d: F.normalize(x),
    "cosine_similarity": lambda x, d: F.cosine_similarity(x, x * 2),
    "cross_entropy, weighed": lambda x, d: F.cross_entropy(x, [0, 1, -100], weight=[1.0, 2.0, 1.0, 1.0]),
    "cross_entropy, of shares": lambda x, d: F.cross_entropy(x, F.softmax(x, -1).detach(), label_smoothing=0.1),
    "attention, a mask added": lambda x, d: F.scaled_dot_product_attention(x, x, x, attn_mask=np.tri(3) * 0.5),
    "half softmax": lambda x, d: F.softmax(x.half(), -1).double(),
    "half gelu": lambda x, d: F.gelu(x.half()).double(),
    "half dropout": lambda x, d: F.dropout(x.half(), 0.5).double(),
    "jacobian": lambda x, d: autograd.functional.jacobian(lambda a: a.sum(0) ** 2, x.detach()),
    "hessian": lambda x, d: autograd.functional.hessian(lambda a: (a**3).sum(), x[0].detach()),
    "jvp": lambda x, d: autograd.functional.jvp(lambda a: a.tanh(), x.detach(), x.detach())[1],
    "grad of grad": lambda x, d: autograd.grad((x**3).sum(), x, create_graph=True)[0],
    "checkpoint": lambda x, d: utils.checkpoint.checkpoint(lambda a: a.tanh() * a, x, use_reentrant=False),
    "parameters_to_vector": lambda x, d: nn.utils.parameters_to_vector([x, x]),
    "a copy": lambda x, d: copy.deepcopy(x),
    "rows": lambda x, d: [row * 2 for row in x],
}


@pytest.mark.parametrize("name", CALLS)
def test_is_numpy(name: str) -> None:
    def run(device: str) -> list[Any]:
        tg.manual_seed(3)
        found = CALLS[name](tg.Tensor(X, requires_grad=True, device=device), device)
        return list(found) if isinstance(found, tuple | list) else [found]

    same_on_both(run, rtol=2e-3 if "half" in name else 1e-9)
    note("further calls", name)


@pytest.mark.parametrize(
    "function", [lambda x: x.tanh() * x, lambda x: F.softmax(x, -1) * x, lambda x: F.layer_norm(x, 4)]
)
def test_gradcheck(function: Any) -> None:
    x = tg.Tensor(X, requires_grad=True, device="cuda")
    assert check.gradcheck(function, x)
    assert check.gradgradcheck(function, x)


def test_a_tensor_is_a_number_where_it_is_asked_to_be() -> None:
    x = tg.tensor([2.5], device="cuda")
    assert (float(x), int(x), bool(x > 2), f"{x.sum():.1f}", 2.5 in x) == (2.5, 2, True, "2.5", True)
    assert 1 if (x > 2).any() else 0


def test_the_op_that_made_a_nan_is_found() -> None:
    x = tg.tensor([1.0, -1.0], device="cuda", requires_grad=True)
    with pytest.raises(watching.AnomalyError, match="sqrt"), watching.detect_anomaly():
        x.sqrt().sum().backward()


def test_a_change_past_the_tape_is_found() -> None:
    x = tg.tensor([[1.0, 2.0], [3.0, 4.0]], device="cuda", requires_grad=True)
    ids = tg.tensor([0, 1], device="cuda")
    with watching.detect_anomaly():
        F.softmax(x.expand(3, 2, 2) * x.t() + F.embedding(ids, x), -1).sum().backward(retain_graph=True)
        y = (x.t() * x).half().sum()
        y.backward(retain_graph=True)
        x.array[0] = x.array[0, ::-1].copy()
        with pytest.raises(RuntimeError, match=r"mul: .* past the tape"):
            y.backward()


def test_shards_and_two_optimizers_in_one() -> None:
    def run(device: str) -> list[Any]:
        tg.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)).double().to(device)
        optimizer = optim.MuonAdamW(optim.muon_groups(model, weight_decay=0.1))
        for _ in range(3):
            optimizer.zero_grad()
            model(tg.Tensor(X, device=device)).square().mean().backward()
            optimizer.step()
        return list(model.parameters())

    same_on_both(run)

    class Squares(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def loss(self, batch: Any) -> Any:
            y = self.layer(tg.tensor(batch[0], dtype="float32", device=self.layer.weight.device))
            return (y * y).sum(), len(batch[0])

    gradients = []
    for device in ("cpu", "cuda"):
        tg.manual_seed(0)
        model = Squares().to(device)
        with parallel.Shards(2) as shards:
            shards.backward(model, (X,))
        gradients.append(host(model.layer.weight.grad))
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-5)
