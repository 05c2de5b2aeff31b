"""AdamW, clipping, the schedule, modules and first values against PyTorch's."""

import math
from typing import Any

import numpy as np
import pytest
import torch

import tinygrad_edu as tg
from tinygrad_edu import nn, optim

SHAPES = [(4, 3), (3,), (), (2, 2, 2), (70_000,)]


def both(dtype: str) -> tuple[list[Any], list[Any]]:
    random = np.random.default_rng(0)
    values = [random.normal(size=shape).astype(dtype) for shape in SHAPES]
    return (
        [nn.Parameter(tg.tensor(np.asarray(v))) for v in values],
        [torch.nn.Parameter(torch.tensor(v)) for v in values],
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("clip", [None, 0.7])
def test_fifty_steps_with_groups_clipping_a_schedule_and_missing_gradients(dtype: str, clip: float | None) -> None:
    ours, theirs = both(dtype)

    def groups(ps: list[Any]) -> list[dict[str, Any]]:
        return [
            {"params": ps[:2], "weight_decay": 0.1, "betas": (0.8, 0.95)},
            {"params": ps[2:], "lr": 0.003, "eps": 1e-5},
        ]

    adamw, other = optim.AdamW(groups(ours), lr=0.02), torch.optim.AdamW(groups(theirs), lr=0.02)
    plan = optim.WarmupCosine(adamw, warmup_steps=5, total_steps=40, min_lr=1e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        other, [lambda i: plan.lr_at(i, 0.02) / 0.02, lambda i: plan.lr_at(i, 0.003) / 0.003]
    )
    random = np.random.default_rng(1)
    for step in range(50):
        for i, (p, q) in enumerate(zip(ours, theirs)):
            p.grad = q.grad = None
            if (step + 2 * i) % 5:
                g = np.asarray(random.normal(size=p.shape) * 10.0 ** random.integers(-4, 2)).astype(dtype)
                p.grad, q.grad = tg.tensor(g), torch.tensor(g)
        if clip is not None:
            norm = nn.utils.clip_grad_norm_(ours, clip)
            assert norm.item() == pytest.approx(torch.nn.utils.clip_grad_norm_(theirs, clip).item(), rel=1e-5)
        assert plan.get_last_lr() == pytest.approx(schedule.get_last_lr())
        adamw.step()
        other.step()
        plan.step()
        schedule.step()
    for p, q in zip(ours, theirs):
        assert np.allclose(p.array, q.detach().numpy(), rtol=0, atol=1e-12 if dtype == "float64" else 3e-6)


def test_the_state_has_pytorchs_layout() -> None:
    ours, theirs = both("float64")
    adamw = optim.AdamW([(f"p{i}", p) for i, p in enumerate(ours)])
    other = torch.optim.AdamW([(f"p{i}", p) for i, p in enumerate(theirs)])
    for p, q in zip(ours[:-1], theirs[:-1]):
        p.grad, q.grad = tg.ones_like(p), torch.ones_like(q)
    adamw.step()
    other.step()
    mine, yours = adamw.state_dict(), other.state_dict()
    assert mine["state"].keys() == yours["state"].keys()
    for at, entry in yours["state"].items():
        assert mine["state"][at]["step"] == int(entry["step"])
        for name in ("exp_avg", "exp_avg_sq"):
            assert np.allclose(mine["state"][at][name].numpy(), entry[name].numpy(), rtol=0, atol=1e-15)
    for key in ("lr", "eps", "weight_decay", "params", "param_names"):
        assert mine["param_groups"][0][key] == yours["param_groups"][0][key]


@pytest.mark.parametrize("norm_type", [2.0, math.inf])
def test_clipping(norm_type: float) -> None:
    ours, theirs = both("float64")
    for p, q in zip(ours, theirs):
        p.grad, q.grad = p.detach().clone(), q.detach().clone()
    mine = nn.utils.clip_grad_norm_(ours, 2.5, norm_type=norm_type)
    assert mine.item() == pytest.approx(torch.nn.utils.clip_grad_norm_(theirs, 2.5, norm_type=norm_type).item())
    for p, q in zip(ours, theirs):
        assert np.allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-12, atol=0)


def test_names_in_a_module_have_pytorchs_order() -> None:
    def build(nn: Any, zeros: Any, ones: Any) -> Any:
        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first = nn.Sequential(nn.Linear(2, 3), nn.GELU(), nn.LayerNorm(3))
                self.register_buffer("seen", zeros(1))
                self.scale = nn.Parameter(ones(1))
                self.last = nn.ModuleList([nn.Embedding(3, 2, padding_idx=1), nn.Linear(2, 3, bias=False)])
                self.again = self.first[0]

        return Net()

    ours, theirs = build(nn, tg.zeros, tg.ones), build(torch.nn, torch.zeros, torch.ones)
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    assert [n for n, _ in ours.named_modules()] == [n for n, _ in theirs.named_modules()]
    assert [n for n, _ in ours.named_children()] == [n for n, _ in theirs.named_children()]
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert repr(ours).splitlines()[:2] == repr(theirs).splitlines()[:2]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda nn: nn.Linear(50, 200), "weight"),
        (lambda nn: nn.Linear(50, 20_000), "bias"),
        (lambda nn: nn.Embedding(200, 50), "weight"),
        (lambda nn: nn.LayerNorm(50), "weight"),
        (lambda nn: nn.LayerNorm(50), "bias"),
    ],
    ids=["Linear weight", "Linear bias", "Embedding", "LayerNorm weight", "LayerNorm bias"],
)
def test_first_values_have_the_same_distribution(make: Any, name: str) -> None:
    tg.manual_seed(0)
    torch.manual_seed(0)
    mine = np.sort(getattr(make(nn), name).array, axis=None)
    yours = np.sort(getattr(make(torch.nn), name).detach().numpy(), axis=None)
    steps = np.concatenate([mine, yours])
    distance = abs(np.searchsorted(mine, steps, "right") - np.searchsorted(yours, steps, "right")).max() / mine.size
    assert distance < 1.95 / math.sqrt(mine.size / 2)  # Kolmogorov and Smirnov, at the level of 0.001


@pytest.mark.parametrize("name", ["xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_"])
def test_spreads_of_init(name: str) -> None:
    tg.manual_seed(0)
    torch.manual_seed(0)
    mine = getattr(nn.init, name)(tg.zeros(300, 40, 5)).array
    yours = getattr(torch.nn.init, name)(torch.zeros(300, 40, 5)).numpy()
    assert mine.std() == pytest.approx(yours.std(), rel=0.02)
    if "uniform" in name:
        assert abs(mine).max() == pytest.approx(abs(yours).max(), rel=1e-3)
    for nonlinearity in ("linear", "tanh", "relu", "leaky_relu", "sigmoid"):
        assert nn.init.calculate_gain(nonlinearity) == torch.nn.init.calculate_gain(nonlinearity)
