"""Every optimizer and option against PyTorch's, over thirty steps with groups and missing gradients."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import tinygrad_edu as tg
from tinygrad_edu import nn, optim

SHAPES = [(4, 3), (3,), (), (2, 2, 2), (0, 2), (40_000,)]
MATRICES = [(4, 3), (3, 7), (5, 5), (1, 6)]

CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9}),
    ("SGD", {"momentum": 0.9, "dampening": 0.3}),
    ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.5, "weight_decay": 0.2, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"weight_decay": 0.1, "betas": (0.8, 0.95), "eps": 1e-5}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("Adam", {"maximize": True, "weight_decay": 0.1}),
    ("AdamW", {"amsgrad": True, "betas": (0.5, 0.6)}),
    ("AdamW", {"maximize": True}),
    ("RMSprop", {}),
    ("RMSprop", {"alpha": 0.8, "momentum": 0.9, "eps": 1e-4}),
    ("RMSprop", {"centered": True, "weight_decay": 0.1}),
    ("RMSprop", {"centered": True, "momentum": 0.5, "maximize": True}),
    ("Adagrad", {}),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1, "eps": 1e-6}),
    ("Adagrad", {"initial_accumulator_value": 0.3, "maximize": True}),
    ("Muon", {}),
    ("Muon", {"nesterov": False, "weight_decay": 0.0}),
    ("Muon", {"momentum": 0.5, "adjust_lr_fn": "match_rms_adamw", "ns_steps": 3}),
    ("Muon", {"adjust_lr_fn": "original", "ns_coefficients": (2.0, -1.5, 0.5), "eps": 0.1}),
]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """More threads than free cores only wait for each other over arrays this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def twins(shapes: list[Any], dtype: str) -> tuple[list[Any], list[Any]]:
    random = np.random.default_rng(0)
    values = [random.normal(size=shape).astype(dtype) for shape in shapes]
    ours = [nn.Parameter(tg.tensor(np.asarray(v))) for v in values]
    return ours, [torch.nn.Parameter(torch.tensor(v)) for v in values]


def push(ours: Any, theirs: Any, optimizers: tuple[Any, ...], random: np.random.Generator, step: int) -> None:
    for i, (p, q) in enumerate(zip(ours, theirs)):
        p.grad = q.grad = None
        if (step + 2 * i) % 5:
            g = np.asarray(random.normal(size=p.shape) * 10.0 ** random.integers(-2, 2)).astype(p.dtype)
            p.grad, q.grad = tg.tensor(g), torch.tensor(g)
    for optimizer in optimizers:
        optimizer.step()


@pytest.fixture
def exact_muon(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch orthogonalises in bfloat16; without that rounding the two can be compared to the last digits."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda x: x.clone())


@pytest.mark.usefixtures("exact_muon")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "options"), CASES, ids=[f"{n} {', '.join(o) or 'defaults'}" for n, o in CASES])
def test_thirty_steps(name: str, options: dict[str, Any], dtype: str) -> None:
    ours, theirs = twins(MATRICES if name == "Muon" else SHAPES, dtype)

    def groups(ps: list[Any]) -> list[dict[str, Any]]:
        return [{"params": ps[:2], "weight_decay": 0.05}, {"params": ps[2:], "lr": 0.003}]

    pair = (
        getattr(optim, name)(groups(ours), lr=0.02, **options),
        getattr(torch.optim, name)(groups(theirs), lr=0.02, **options),
    )
    random = np.random.default_rng(1)
    for step in range(30):
        push(ours, theirs, pair, random, step)
        if step == 15:
            for optimizer in pair:
                optimizer.param_groups[1]["lr"] = 0.01
    for p, q in zip(ours, theirs):
        expected = q.detach().numpy()
        bound = 1e-10 if dtype == "float64" else 3e-5
        assert np.allclose(p.array, expected, rtol=bound, atol=bound), abs(p.array - expected).max()
    mine, yours = pair[0].state_dict()["state"], pair[1].state_dict()["state"]
    for at, entry in yours.items():
        for slot, value in entry.items():
            if slot != "step":
                assert np.allclose(mine[at][slot].numpy(), value.numpy(), rtol=1e-4, atol=1e-5), slot
            elif torch.is_tensor(value) or value:
                assert mine[at]["step"] == int(value)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Muon"])
def test_arguments_and_defaults(name: str) -> None:
    """What PyTorch's optimizer takes is taken, in its order, with its defaults; but for how it is computed."""
    import inspect

    how = {"foreach", "fused", "capturable", "differentiable", "decoupled_weight_decay"}
    # RMSprop's maximize stands behind how things are computed there, so that it cannot be given by position here
    kind = name != "RMSprop"
    mine, yours = (
        [
            (n, p.default, kind and p.kind)
            for n, p in inspect.signature(getattr(o, name)).parameters.items()
            if n not in how
        ]
        for o in (optim, torch.optim)
    )
    assert mine == yours


def test_muon_is_near_the_one_in_bfloat16() -> None:
    ours, theirs = twins([(6, 9), (9, 6)], "float32")
    muon, other = optim.Muon(ours, lr=0.1), torch.optim.Muon(theirs, lr=0.1)
    start = [p.array.copy() for p in ours]
    random = np.random.default_rng(2)
    for step in range(1, 4):
        push(ours, theirs, (muon, other), random, step)
    for p, q, before in zip(ours, theirs, start):
        expected = q.detach().numpy()
        assert np.linalg.norm(p.array - expected) < 0.05 * np.linalg.norm(expected - before)


@pytest.mark.usefixtures("exact_muon")
def test_muon_and_adamw_in_one_are_the_two_side_by_side() -> None:
    ours, theirs = twins([(4, 3), (3, 7), (5, 4), (3,)], "float64")
    both = optim.MuonAdamW(
        [{"params": ours[:2], "use_muon": True}, {"params": ours[2:], "betas": (0.8, 0.9)}], lr=0.02, weight_decay=0.3
    )
    muon = torch.optim.Muon(theirs[:2], lr=0.02, weight_decay=0.3, adjust_lr_fn="match_rms_adamw")
    adamw = torch.optim.AdamW(theirs[2:], lr=0.02, weight_decay=0.3, betas=(0.8, 0.9))
    random = np.random.default_rng(3)
    for step in range(20):
        push(ours, theirs, (both, muon, adamw), random, step)
    for p, q in zip(ours, theirs):
        assert np.allclose(p.array, q.detach().numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("norm_type", [1.0, 1.5, 2.0, 3.0, math.inf, "inf"])
def test_norms_of_clipping(norm_type: Any) -> None:
    ours, theirs = twins(SHAPES[:4], "float64")
    for p, q in zip(ours, theirs):
        p.grad, q.grad = p.detach().clone(), q.detach().clone()
    mine = nn.utils.clip_grad_norm_(ours, 2.5, norm_type=norm_type)
    assert mine.item() == pytest.approx(torch.nn.utils.clip_grad_norm_(theirs, 2.5, norm_type=norm_type).item())
    for p, q in zip(ours, theirs):
        assert np.allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-12, atol=0)


def test_clipping_by_value_and_vectors() -> None:
    ours, theirs = twins(SHAPES, "float64")
    for p, q in zip(ours, theirs):
        p.grad, q.grad = p.detach().clone(), q.detach().clone()
    nn.utils.clip_grad_value_(ours, 0.5)
    torch.nn.utils.clip_grad_value_(theirs, 0.5)
    for p, q in zip(ours, theirs):
        assert np.array_equal(p.grad.numpy(), q.grad.numpy())
    vector, other = nn.utils.parameters_to_vector(ours), torch.nn.utils.parameters_to_vector(theirs)
    assert np.array_equal(vector.detach().numpy(), other.detach().numpy())
    nn.utils.vector_to_parameters(vector * 2, ours)
    torch.nn.utils.vector_to_parameters(other * 2, theirs)
    for p, q in zip(ours, theirs):
        assert np.array_equal(p.detach().numpy(), q.detach().numpy())
