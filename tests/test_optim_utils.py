"""Clipping by norm and by value, and parameters as one vector."""

import math
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.nn.utils import clip_grad_norm_, clip_grad_value_, parameters_to_vector, vector_to_parameters

f64 = tg.float64


def scalars(*gradients: float | None) -> list[Any]:
    made: list[Any] = [tg.zeros((), dtype=f64, requires_grad=True) for _ in gradients]
    for p, g in zip(made, gradients):
        p.grad = None if g is None else tg.tensor(g, dtype=f64)
    return made


def gradients(parameters: list[Any]) -> list[float | None]:
    return [None if p.grad is None else p.grad.item() for p in parameters]


@pytest.mark.parametrize(
    ("norm_type", "norm", "after"),
    [
        (2.0, 5.0, [0.6, 0.8, None]),
        (1, 7.0, [3 / 7, 4 / 7, None]),
        (3.0, 91 ** (1 / 3), [3 / 91 ** (1 / 3), 4 / 91 ** (1 / 3), None]),
        (math.inf, 4.0, [0.75, 1.0, None]),
        ("inf", 4.0, [0.75, 1.0, None]),
    ],
)
def test_clipping_by_each_norm(norm_type: Any, norm: float, after: list[Any]) -> None:
    parameters = scalars(3.0, 4.0, None)
    versions = [p.grad._version[0] for p in parameters[:2]]
    assert clip_grad_norm_(parameters, 1.0, norm_type=norm_type).item() == pytest.approx(norm, abs=1e-12)
    assert gradients(parameters)[:2] == pytest.approx(after[:2], abs=1e-5)
    assert gradients(parameters)[2] is None
    assert [p.grad._version[0] - v for p, v in zip(parameters, versions)] == [1, 1]


@pytest.mark.parametrize("clip", [clip_grad_norm_, clip_grad_value_])
def test_clipping_of_nothing(clip: Any) -> None:
    assert clip([], 1.0).item() == 0
    assert clip(scalars(None), 1.0).item() == 0
    zero = scalars(0.0, 0.0)
    assert clip(zero, 1.0).item() == 0
    assert gradients(zero) == [0, 0]
    empty = tg.zeros(0, 3, requires_grad=True)
    empty.grad = tg.zeros(0, 3)
    assert clip([empty], 1.0).item() == 0
    with pytest.raises(ValueError, match="must be at least 0"):
        clip(zero, -1.0)


@pytest.mark.parametrize("norm_type", [1.0, 2.0, math.inf])
@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_a_norm_that_is_not_finite_is_told_and_nothing_is_scaled(norm_type: float, bad: float) -> None:
    parameters = scalars(3.0, bad)
    assert not math.isfinite(clip_grad_norm_(parameters, 1.0, norm_type=norm_type).item())
    assert gradients(parameters)[0] == 3
    with pytest.raises(RuntimeError, match="some gradient is infinite or NaN"):
        clip_grad_norm_(parameters, 1.0, norm_type=norm_type, error_if_nonfinite=True)


def test_clipping_by_value() -> None:
    parameters = scalars(3.0, -4.0, None, 0.5)
    assert clip_grad_value_(iter(parameters), 1.0).item() == pytest.approx(math.sqrt(25.25))
    assert gradients(parameters) == [1, -1, None, 0.5]
    bad = scalars(math.inf, math.nan, -math.inf)
    assert math.isnan(clip_grad_value_(bad, 2.0).item())
    assert str(gradients(bad)) == "[2.0, nan, -2.0]"
    one = scalars(3.0)[0]
    assert clip_grad_value_(one, 1.0).item() == 3
    assert one.grad.item() == 1
    shared = scalars(3.0, None)
    shared[1].grad = shared[0].grad
    assert clip_grad_norm_([shared[0], shared[0]], 1.0).item() == 3


def test_a_generator_that_is_used_up_by_the_optimizer_clips_nothing_but_a_model_clips_each_time() -> None:
    net = nn.Linear(1, 1, bias=False)
    for _ in range(2):
        net.weight.grad = tg.tensor([[5.0]])
        assert clip_grad_norm_(net.parameters(), 1.0).item() == 5
        assert net.weight.grad.item() == pytest.approx(1, abs=1e-5)


def test_parameters_as_a_vector_and_back() -> None:
    net: Any = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3))
    vector = parameters_to_vector(net.parameters())
    assert vector.shape == (15,)
    assert vector.tolist()[:6] == net[0].weight.flatten().tolist()
    (vector * tg.arange(15)).sum().backward()
    assert net[0].weight.grad.tolist() == [[0, 1], [2, 3], [4, 5]]
    kept, before = net[0].weight, net[0].weight._version[0]
    new = tg.arange(15).float()
    vector_to_parameters(new, net.parameters())
    assert net[0].weight is kept
    assert kept._version[0] == before + 1
    assert kept.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert net[1].bias.tolist() == [12, 13, 14]
    new.zero_()
    assert net[1].bias.tolist() == [12, 13, 14]
    assert np.array_equal(parameters_to_vector(net.parameters()).detach().numpy(), np.arange(15))
    with pytest.raises(ValueError, match=r"have 15 elements, and the vector has shape \(16,\)"):
        vector_to_parameters(tg.zeros(16), net.parameters())
    with pytest.raises(ValueError, match="there are no parameters"):
        parameters_to_vector(iter(()))
