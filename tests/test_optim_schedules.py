"""Schedules: their rates, several groups, saved state, and what they refuse."""

import json
import math
from typing import Any

import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn, optim
from tinygrad_edu.optim import lr_scheduler as S


def sgd(*lrs: float, **options: Any) -> Any:
    return optim.SGD([{"params": [nn.Parameter(tg.zeros(1))], "lr": lr} for lr in lrs or (1.0,)], **options)


def made(anything: Any) -> Any:
    """What no type checker objects to."""
    return anything


def sequence(optimizer: Any) -> Any:
    return S.SequentialLR(optimizer, [S.LinearLR(optimizer, 0.5, total_iters=2), S.StepLR(optimizer, 2, 0.5)], [3])


ALL: dict[str, Any] = {
    "LambdaLR": lambda o: S.LambdaLR(o, lambda t: 1 / (1 + t)),
    "StepLR": lambda o: S.StepLR(o, 2, gamma=0.5),
    "MultiStepLR": lambda o: S.MultiStepLR(o, [1, 3], gamma=0.5),
    "ExponentialLR": lambda o: S.ExponentialLR(o, 0.5),
    "ConstantLR": lambda o: S.ConstantLR(o, 0.5, 2),
    "LinearLR": lambda o: S.LinearLR(o, 0.25, total_iters=3),
    "CosineAnnealingLR": lambda o: S.CosineAnnealingLR(o, 2),
    "CosineAnnealingWarmRestarts": lambda o: S.CosineAnnealingWarmRestarts(o, 2),
    "OneCycleLR": lambda o: S.OneCycleLR(o, 1.0, 6, pct_start=0.5, anneal_strategy="linear", div_factor=4),
    "SequentialLR": sequence,
}

RATES = {
    "LambdaLR": [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5],
    "StepLR": [1, 1, 0.5, 0.5, 0.25],
    "MultiStepLR": [1, 0.5, 0.5, 0.25, 0.25],
    "ExponentialLR": [1, 0.5, 0.25, 0.125, 0.0625],
    "ConstantLR": [0.5, 0.5, 1, 1, 1],
    "LinearLR": [0.25, 0.5, 0.75, 1, 1],
    "CosineAnnealingLR": [1, 0.5, 0, 0.5, 1],
    "CosineAnnealingWarmRestarts": [1, 0.5, 1, 0.5, 1],
    "OneCycleLR": [0.25, 0.625, 1, 2 / 3, 1 / 3],
    "SequentialLR": [0.5, 0.75, 1, 1, 1, 0.5, 0.5, 0.25],
}


@pytest.mark.parametrize("name", ALL)
def test_rates_of_two_groups(name: str) -> None:
    optimizer = sgd(1.0, 0.1)
    schedule = ALL[name](optimizer)
    second = 1.0 if name == "OneCycleLR" else 0.1  # which overwrites the groups' rates
    for rate in RATES[name]:
        assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([rate, second * rate], abs=1e-4)
        assert schedule.get_last_lr() == [group["lr"] for group in optimizer.param_groups]
        optimizer.step()
        schedule.step()


@pytest.mark.parametrize("name", ALL)
def test_a_schedule_saved_as_json_goes_on(name: str) -> None:
    first, second = sgd(1.0), sgd(1.0)
    schedule, again = ALL[name](first), ALL[name](second)
    for _ in range(3):
        schedule.step()
    states = json.loads(json.dumps([first.state_dict(), schedule.state_dict()]))
    second.load_state_dict(states[0])
    again.load_state_dict(states[1])
    assert again.get_last_lr() == schedule.get_last_lr()
    for _ in range(3):
        schedule.step()
        again.step()
        assert second.param_groups[0]["lr"] == first.param_groups[0]["lr"]


@pytest.mark.parametrize("name", ALL)
def test_a_state_that_does_not_fit_changes_nothing(name: str) -> None:
    schedule = ALL[name](sgd(1.0))
    before = schedule.state_dict()
    ahead = ALL[name](sgd(1.0))
    ahead.step()
    state = ahead.state_dict()
    with pytest.raises(ValueError, match=f"{name}.load_state_dict: the state lacks last_epoch"):
        schedule.load_state_dict({k: v for k, v in state.items() if k != "last_epoch"})
    with pytest.raises(ValueError, match="has other, which is of another schedule"):
        schedule.load_state_dict({**state, "other": 1})
    with pytest.raises(ValueError, match="the state has 2 groups, the optimizer 1"):
        schedule.load_state_dict(ALL[name](sgd(1.0, 2.0)).state_dict())
    assert schedule.state_dict() == before


def test_a_sequence_is_loaded_whole_or_not_at_all() -> None:
    schedule = sequence(sgd(1.0))
    before = schedule.state_dict()
    state = schedule.state_dict()
    state["schedulers"][0]["last_epoch"] = 9
    del state["schedulers"][1]["gamma"]
    with pytest.raises(ValueError, match=r"StepLR\.load_state_dict: the state lacks gamma"):
        schedule.load_state_dict(state)
    with pytest.raises(ValueError, match="the state has 1 schedulers, this one 2"):
        schedule.load_state_dict({**before, "schedulers": before["schedulers"][:1]})
    assert schedule.state_dict() == before


def test_sequences_within_sequences() -> None:
    optimizer = sgd(1.0)
    inner = [sequence(optimizer) for _ in range(2)]
    schedule = S.SequentialLR(optimizer, inner, milestones=[4])
    rates = []
    for _ in range(12):
        rates.append(optimizer.param_groups[0]["lr"])
        schedule.step()
    assert rates == pytest.approx([0.5, 0.75, 1, 1, *RATES["SequentialLR"]])


def test_schedules_multiply() -> None:
    optimizer = sgd(1.0)
    both = [S.ExponentialLR(optimizer, 0.5), S.ConstantLR(optimizer, 0.1, 2)]
    rates = []
    for _ in range(4):
        rates.append(optimizer.param_groups[0]["lr"])
        for schedule in both:
            schedule.step()
    assert rates == pytest.approx([0.1, 0.05, 0.25, 0.125])


def test_going_on_keeps_the_rates() -> None:
    optimizer = sgd(1.0)
    schedule = S.StepLR(optimizer, 2, 0.5)
    for _ in range(2):
        schedule.step()
    saved, other = optimizer.state_dict(), sgd(9.0)
    other.load_state_dict(saved)
    again = S.StepLR(other, 2, 0.5, last_epoch=1)
    assert again.last_epoch == 2
    assert other.param_groups[0]["lr"] == 0.5
    again.step()
    again.step()
    assert again.get_last_lr() == [0.25]
    with pytest.raises(ValueError, match="have no 'initial_lr' to go on from"):
        S.StepLR(sgd(1.0), 2, last_epoch=1)


def test_one_cycle_turns_momentum_round() -> None:
    optimizer = sgd(1.0, 1.0)
    schedule = S.OneCycleLR(optimizer, 1.0, 5, pct_start=0.6, base_momentum=[0.8, 0.6], max_momentum=0.9)
    momenta = []
    for _ in range(5):
        momenta.append([group["momentum"] for group in optimizer.param_groups])
        optimizer.step()
        schedule.step()
    assert momenta[0] == momenta[4] == pytest.approx([0.9, 0.9])
    assert momenta[2] == pytest.approx([0.8, 0.6])
    with pytest.raises(ValueError, match="step 6 of 5; the cycle is over"):
        schedule.step()


def test_one_cycle_with_both_kinds_of_momentum_and_with_none() -> None:
    groups = [{"params": [tg.ones(2, 2, requires_grad=True)], "use_muon": True}, {"params": [nn.Parameter(tg.ones(1))]}]
    both = optim.MuonAdamW(groups)
    S.OneCycleLR(both, 1.0, 10, max_momentum=0.97)
    assert both.param_groups[0]["momentum"] == 0.97
    assert both.param_groups[1]["betas"] == (0.97, 0.999)
    adagrad = optim.Adagrad([nn.Parameter(tg.ones(1))])
    with pytest.raises(ValueError, match="Adagrad has neither momentum nor betas"):
        S.OneCycleLR(adagrad, 1.0, 10)
    S.OneCycleLR(adagrad, 1.0, 10, cycle_momentum=False)


def test_one_cycle_that_turns_at_its_first_step() -> None:
    schedule = S.OneCycleLR(sgd(1.0), 1.0, 4, pct_start=0.25, anneal_strategy="linear", final_div_factor=math.inf)
    rates = []
    for _ in range(4):
        rates.append(schedule.get_last_lr()[0])
        schedule.step()
    assert rates == pytest.approx([1, 2 / 3, 1 / 3, 0])


def test_a_plateau_takes_tensors_and_saves_its_state() -> None:
    first, second = sgd(1.0), sgd(1.0)
    schedule, again = S.ReduceLROnPlateau(first, patience=1, factor=0.5), S.ReduceLROnPlateau(second)
    for loss in (tg.tensor(3.0), 4.0, 5.0):
        schedule.step(loss)
    assert schedule.get_last_lr() == [0.5]
    second.load_state_dict(first.state_dict())
    again.load_state_dict(schedule.state_dict())
    for loss in (3.5, 4.0):
        schedule.step(loss)
        again.step(loss)
    assert again.get_last_lr() == schedule.get_last_lr() == [0.25]


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda o: S.StepLR(made(nn.Linear(1, 1)), 2), TypeError, "optimizer is a Linear"),
        (lambda o: S.StepLR(o, 0), ValueError, "step_size must be at least 1"),
        (lambda o: S.LambdaLR(o, [abs, abs]), ValueError, "LambdaLR: lr_lambda: 2 values for 1 groups"),
        (lambda o: S.ConstantLR(o, 1.5), ValueError, "ConstantLR: factor must lie above 0"),
        (lambda o: S.LinearLR(o, 0.0), ValueError, "LinearLR: start_factor must lie above 0"),
        (lambda o: S.LinearLR(o, end_factor=2.0), ValueError, "end_factor must lie between 0 and 1"),
        (lambda o: S.CosineAnnealingWarmRestarts(o, 0), ValueError, "T_0 is an integer of at least 1"),
        (lambda o: S.CosineAnnealingWarmRestarts(o, 2, T_mult=made(1.5)), ValueError, "T_mult is an integer"),
        (lambda o: S.CosineAnnealingWarmRestarts(o, 2).step(-1), ValueError, "epoch must be at least 0"),
        (lambda o: S.OneCycleLR(o, 1.0), ValueError, "give total_steps, or both"),
        (lambda o: S.OneCycleLR(o, 1.0, 0), ValueError, "total_steps must be at least 1"),
        (lambda o: S.OneCycleLR(o, 1.0, 5, pct_start=2.0), ValueError, "pct_start must be from 0 to 1"),
        (lambda o: S.OneCycleLR(o, 1.0, 5, anneal_strategy="sin"), ValueError, "'cos' or 'linear', not 'sin'"),
        (lambda o: S.ReduceLROnPlateau(o, mode="best"), ValueError, "mode is 'min' or 'max'"),
        (lambda o: S.ReduceLROnPlateau(o, factor=1.0), ValueError, "factor must be below 1"),
        (lambda o: S.SequentialLR(o, [S.StepLR(o, 1)], [3]), ValueError, "1 schedulers need 0 milestones, not 1"),
        (
            lambda o: S.SequentialLR(o, [S.StepLR(sgd(), 1)], []),
            ValueError,
            "scheduler 0 was made for another optimizer",
        ),
        (lambda o: S.SequentialLR(o, [S.ReduceLROnPlateau(o)], []), ValueError, "whose step needs a metric"),
        (lambda o: S.SequentialLR(o, [S.StepLR(o, 1)] * 3, [5, 2]), ValueError, "milestones must rise"),
        (S.LRScheduler, NotImplementedError, "needs a get_lr"),
        (lambda o: S.CyclicLR, AttributeError, "CyclicLR is not here; LambdaLR takes any formula"),
        (lambda o: S.Cyclic, AttributeError, "has no attribute 'Cyclic'"),
    ],
)
def test_schedules_that_cannot_be(make: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        make(sgd(1.0))
