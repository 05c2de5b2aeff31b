"""Every schedule against PyTorch's, rate by rate."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import tinygrad_edu as tg
from tinygrad_edu import nn, optim

Make = Callable[[Any, Any], Any]  # (the library's lr_scheduler, its optimizer) -> schedule


def sequence(S: Any, o: Any) -> Any:
    parts = [S.LinearLR(o, 0.1, total_iters=4), S.StepLR(o, 2, 0.5), S.CosineAnnealingLR(o, 6)]
    return S.SequentialLR(o, parts, milestones=[5, 12])


def other_sequence(S: Any, o: Any) -> Any:
    parts = [S.ConstantLR(o, 0.5, 3), S.CosineAnnealingWarmRestarts(o, 3, 2), S.LambdaLR(o, lambda t: 1 / (t + 1))]
    parts += [S.MultiStepLR(o, [0, 2]), S.ExponentialLR(o, 0.8)]
    return S.SequentialLR(o, parts, [4, 20, 25, 30])


MAKERS: dict[str, Make] = {
    "LambdaLR": lambda S, o: S.LambdaLR(o, lambda t: 0.9**t + 0.01 * t),
    "LambdaLR, one each": lambda S, o: S.LambdaLR(o, [lambda t: 0.9**t, lambda t: 1 / (1 + t)]),
    "StepLR": lambda S, o: S.StepLR(o, 7),
    "StepLR, gamma": lambda S, o: S.StepLR(o, step_size=3, gamma=0.7),
    "MultiStepLR": lambda S, o: S.MultiStepLR(o, [2, 5, 5, 11]),
    "MultiStepLR, at once": lambda S, o: S.MultiStepLR(o, milestones=[0, 9, 3], gamma=0.5),
    "ExponentialLR": lambda S, o: S.ExponentialLR(o, gamma=0.93),
    "ConstantLR": lambda S, o: S.ConstantLR(o),
    "ConstantLR, long": lambda S, o: S.ConstantLR(o, factor=0.25, total_iters=17),
    "LinearLR": lambda S, o: S.LinearLR(o),
    "LinearLR, down": lambda S, o: S.LinearLR(o, start_factor=1.0, end_factor=0.05, total_iters=20),
    "CosineAnnealingLR": lambda S, o: S.CosineAnnealingLR(o, T_max=7, eta_min=0.001),
    "CosineAnnealingLR, one way": lambda S, o: S.CosineAnnealingLR(o, 45),
    "CosineAnnealingWarmRestarts": lambda S, o: S.CosineAnnealingWarmRestarts(o, T_0=5),
    "CosineAnnealingWarmRestarts, longer": lambda S, o: S.CosineAnnealingWarmRestarts(o, 3, T_mult=2, eta_min=0.01),
    "OneCycleLR": lambda S, o: S.OneCycleLR(o, max_lr=0.5, total_steps=45),
    "OneCycleLR, lines": lambda S, o: S.OneCycleLR(
        o, [0.5, 0.1], epochs=5, steps_per_epoch=9, anneal_strategy="linear"
    ),
    "OneCycleLR, three phases": lambda S, o: S.OneCycleLR(
        o, 0.5, 41, pct_start=0.25, base_momentum=[0.8, 0.7], max_momentum=0.9, div_factor=10.0, three_phase=True
    ),
    "OneCycleLR, no way up": lambda S, o: S.OneCycleLR(o, 0.5, 45, pct_start=0.0, final_div_factor=10.0),
    "OneCycleLR, lr alone": lambda S, o: S.OneCycleLR(o, 0.5, 45, cycle_momentum=False),
    "SequentialLR": sequence,
    "SequentialLR, other": other_sequence,
}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """More threads than free cores only wait for each other over arrays this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def both(name: str = "SGD") -> tuple[Any, Any]:
    ours = [nn.Parameter(tg.zeros(2)) for _ in range(2)]
    theirs = [torch.nn.Parameter(torch.zeros(2)) for _ in range(2)]
    return (
        getattr(optim, name)([{"params": ours[:1]}, {"params": ours[1:], "lr": 0.03}], lr=0.2),
        getattr(torch.optim, name)([{"params": theirs[:1]}, {"params": theirs[1:], "lr": 0.03}], lr=0.2),
    )


def advance(optimizers: Any, schedules: Any) -> None:
    for optimizer in optimizers:
        optimizer.step()
    for schedule in schedules:
        schedule.step()


def same(optimizers: Any, schedules: Any = ()) -> None:
    mine, yours = ([g["lr"] for g in optimizer.param_groups] for optimizer in optimizers)
    assert mine == pytest.approx(yours, rel=1e-12, abs=1e-18)
    for key in ("momentum", "betas"):
        mine, yours = ([g.get(key, 0) for g in optimizer.param_groups] for optimizer in optimizers)
        assert mine == [pytest.approx(value, rel=1e-12) for value in yours]
    if schedules:
        mine, yours = (schedule.get_last_lr() for schedule in schedules)
        assert mine == pytest.approx(yours, rel=1e-12, abs=1e-18)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("name", MAKERS)
def test_rates(name: str, optimizer: str) -> None:
    pair = both(optimizer)
    schedules = MAKERS[name](optim.lr_scheduler, pair[0]), MAKERS[name](torch.optim.lr_scheduler, pair[1])
    same(pair, schedules)
    for _ in range(41):
        advance(pair, schedules)
        same(pair, schedules)


@pytest.mark.parametrize(
    "names",
    [
        ("ExponentialLR", "MultiStepLR"),
        ("LinearLR", "CosineAnnealingLR"),
        ("ConstantLR", "StepLR", "CosineAnnealingLR, one way"),
    ],
)
def test_several_at_once_on_rates_that_somebody_changes(names: tuple[str, ...]) -> None:
    pair = both()
    ours = [MAKERS[name](optim.lr_scheduler, pair[0]) for name in names]
    theirs = [MAKERS[name](torch.optim.lr_scheduler, pair[1]) for name in names]
    for step in range(30):
        advance(pair, ours + theirs)
        if step == 11:
            for optimizer in pair:
                optimizer.param_groups[0]["lr"] *= 3
        same(pair)
        for schedules in zip(ours, theirs):
            same(pair, schedules)


@pytest.mark.parametrize("name", MAKERS)
def test_a_saved_schedule_goes_on(name: str) -> None:
    pair, fresh = both(), both()
    make = MAKERS[name]
    schedules = make(optim.lr_scheduler, pair[0]), make(torch.optim.lr_scheduler, pair[1])
    for _ in range(10):
        advance(pair, schedules)
    again = make(optim.lr_scheduler, fresh[0])
    fresh[0].load_state_dict(pair[0].state_dict())
    again.load_state_dict(schedules[0].state_dict())
    assert again.get_last_lr() == schedules[0].get_last_lr()
    pair = fresh[0], pair[1]
    for _ in range(20):
        advance(pair, (again, schedules[1]))
        same(pair, (again, schedules[1]))


@pytest.mark.parametrize("name", ["ExponentialLR", "LinearLR", "CosineAnnealingLR", "StepLR", "LambdaLR", "OneCycleLR"])
def test_going_on_by_last_epoch(name: str) -> None:
    arguments: dict[str, list[Any]] = {
        "ExponentialLR": [0.93],
        "LinearLR": [1.0, 0.05, 20],
        "CosineAnnealingLR": [7, 0.001],
        "StepLR": [4],
        "LambdaLR": [lambda t: 0.9**t],
        "OneCycleLR": [0.5, 45],
    }
    pair = both()
    libraries = optim.lr_scheduler, torch.optim.lr_scheduler
    schedules = [getattr(S, name)(o, *arguments[name]) for S, o in zip(libraries, pair)]
    for _ in range(6):
        advance(pair, schedules)
    again = getattr(optim.lr_scheduler, name)(pair[0], *arguments[name], last_epoch=5)
    theirs = schedules[1]
    for _ in range(20):
        same(pair, (again, theirs))
        advance(pair, (again, theirs))


@pytest.mark.parametrize("T_mult", [1, 2, 3])
def test_restarts_at_times_between_steps(T_mult: int) -> None:
    pair = both()
    ours = optim.lr_scheduler.CosineAnnealingWarmRestarts(pair[0], 4, T_mult, 0.001)
    theirs = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(pair[1], 4, T_mult, 0.001)
    for time in (0.5, 1, 3.9, 4.1, 9.25, 26.5, 2.75):
        for schedule in (ours, theirs):
            schedule.step(time)
        same(pair, (ours, theirs))
        advance(pair, (ours, theirs))
        same(pair, (ours, theirs))


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("threshold_mode", ["rel", "abs"])
@pytest.mark.parametrize(
    "options", [{}, {"factor": 0.5, "patience": 1, "cooldown": 2, "min_lr": [0.01, 0.02]}, {"patience": 0, "eps": 0.02}]
)
def test_plateaus(mode: str, threshold_mode: str, options: dict[str, Any]) -> None:
    pair = both()
    arguments = {"mode": mode, "threshold_mode": threshold_mode, "threshold": 0.05, **options}
    schedules = [
        S.ReduceLROnPlateau(o, **arguments) for S, o in zip((optim.lr_scheduler, torch.optim.lr_scheduler), pair)
    ]
    sign = 1 if mode == "max" else -1
    metrics = [5 + sign * m for m in (0, 1, 2, 2.01, 1.9, 2.05, 2.0, 2.5, float("nan"), 2.4, *[2.3] * 25, 3, 3, 3, 3)]
    for metric in metrics:
        for schedule in schedules:
            schedule.step(metric)
        same(pair, schedules)
        for key in ("best", "num_bad_epochs", "cooldown_counter", "last_epoch"):
            assert getattr(schedules[0], key) == getattr(schedules[1], key)


OURS = {"WarmupCosine", "WarmupLinear", "LRScheduler"}  # what PyTorch does not have, or has as a base alone


@pytest.mark.parametrize("name", [n for n in optim.lr_scheduler.__all__ if n not in OURS])
def test_arguments_and_defaults(name: str) -> None:
    import inspect

    ours, theirs = (
        [(n, p.default) for n, p in inspect.signature(getattr(S, name)).parameters.items()]
        for S in (optim.lr_scheduler, torch.optim.lr_scheduler)
    )
    assert ours == theirs
