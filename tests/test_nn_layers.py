"""Layers, first values, and the clipping of gradients."""

import math
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.nn import functional as F

f64 = tg.float64


@pytest.fixture(autouse=True)
def _seed() -> None:
    tg.manual_seed(0)


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_layer_norm_of_a_constant_row() -> None:
    x = tg.full((4,), 5.0, dtype=f64, requires_grad=True)
    y = nn.LayerNorm(4, elementwise_affine=False)(x)
    y[0].backward()
    assert y.tolist() == [0, 0, 0, 0]
    assert x.grad is not None
    assert np.allclose(x.grad.array, np.array([0.75, -0.25, -0.25, -0.25]) / math.sqrt(1e-5))


def test_layer_norm_over_one_feature() -> None:
    x = tg.tensor([[7.0], [-2.0], [0.5]], dtype=f64, requires_grad=True)
    norm: Any = nn.LayerNorm(1, dtype=f64)
    nn.init.constant_(norm.weight, 4.0)
    nn.init.constant_(norm.bias, 0.3)
    y = norm(x)
    (y * tg.tensor([[1.0], [2.0], [3.0]], dtype=f64)).sum().backward()
    assert y.flatten().tolist() == [0.3] * 3
    assert norm.bias.grad.item() == 6
    assert norm.weight.grad.item() == 0
    assert x.grad is not None
    assert abs(x.grad.array).max() == 0


def test_layer_norm_over_several_axes_and_without_parts() -> None:
    norm = nn.LayerNorm((2, 3), bias=False)
    assert norm.bias is None
    y = norm(tg.randn(4, 2, 3))
    assert np.allclose(y.detach().numpy().reshape(4, 6).mean(1), 0, atol=1e-6)
    assert count(nn.LayerNorm(3, elementwise_affine=False)) == 0
    with pytest.raises(ValueError, match="must hold lengths"):
        nn.LayerNorm(())


@pytest.mark.parametrize("padding", [0, -4])
def test_the_padding_row_stays_zero(padding: int) -> None:
    table: Any = nn.Embedding(4, 2, padding_idx=padding, dtype=f64)
    table.reset_parameters(std=0.02)
    assert table.weight[0].tolist() == [0, 0]
    assert abs(table.weight[1:].array).min() > 0
    table([[1, 0], [2, 0]]).sum().backward()
    assert table.weight.grad.tolist() == [[0, 0], [1, 1], [1, 1], [0, 0]]
    with pytest.raises(ValueError, match="padding_idx 4 is outside the table of 4 rows"):
        nn.Embedding(4, 2, padding_idx=4)


def test_smoothed_loss_leaves_ignored_rows_out() -> None:
    logits = tg.tensor([[2.0, 0.0, 0.0], [9.0, -9.0, 1.0]], dtype=f64, requires_grad=True)
    loss = F.cross_entropy(logits, [0, -100], label_smoothing=0.1)
    loss.backward()
    spread = math.log(math.exp(2) + 2)
    assert loss.item() == pytest.approx((0.9 + 0.1 / 3) * (spread - 2) + 0.2 / 3 * spread, abs=1e-12)
    assert loss.item() == pytest.approx(0.3728784, abs=1e-6)
    assert loss.item() == pytest.approx(F.cross_entropy(logits[:1], [0], label_smoothing=0.1).item(), abs=1e-15)
    assert logits.grad is not None
    assert logits.grad[1].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: nn.Linear(-1, 2), "in_features must be at least 0, got -1"),
        (lambda: nn.Embedding(2, -1), "embedding_dim must be at least 0, got -1"),
        (lambda: nn.Dropout(1.5), "probability"),
        (lambda: nn.GELU("relu"), "'none' or 'tanh'"),
    ],
)
def test_layers_refuse_what_they_cannot_be(make: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


def test_layers_take_a_dtype_and_a_device() -> None:
    for layer in (nn.Linear(2, 3, dtype=f64, device="cpu"), nn.Embedding(2, 3, dtype=f64), nn.LayerNorm(2, dtype=f64)):
        assert {p.dtype for p in layer.parameters()} == {f64}
    assert nn.Linear(0, 2)(tg.zeros(3, 0)).shape == (3, 2)


# First values


def test_first_values_of_layers() -> None:
    layer, table = nn.Linear(100, 400), nn.Embedding(300, 100)
    for p in layer.parameters():
        assert 0.09 < abs(p.array).max() <= 0.1
        assert p.array.std() == pytest.approx(0.1 / math.sqrt(3), rel=0.15)
    assert table.weight.array.mean() == pytest.approx(0, abs=0.02)
    assert table.weight.array.std() == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize(
    ("draw", "std"),
    [
        (lambda t: nn.init.uniform_(t, -3, 1), 4 / math.sqrt(12)),
        (lambda t: nn.init.normal_(t, 5.0, 0.3), 0.3),
        (lambda t: nn.init.xavier_uniform_(t, gain=2.0), 2 * math.sqrt(2 / 500)),
        (nn.init.xavier_normal_, math.sqrt(2 / 500)),
        (lambda t: nn.init.kaiming_uniform_(t, a=math.sqrt(5)), 1 / math.sqrt(3 * 100)),
        (lambda t: nn.init.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"), math.sqrt(2 / 400)),
    ],
)
def test_draws_have_their_spread(draw: Any, std: float) -> None:
    w = nn.Parameter(tg.zeros(400, 100))
    assert draw(w) is w
    assert w.requires_grad
    assert w.record is None
    assert w.array.std() == pytest.approx(std, rel=0.02)


def test_draws_come_from_the_seed() -> None:
    tg.manual_seed(3)
    first = nn.Linear(3, 3).weight.tolist()
    second = nn.Linear(3, 3).weight.tolist()
    tg.manual_seed(3)
    assert nn.Linear(3, 3).weight.tolist() == first != second
    a, b = (nn.init.normal_(tg.zeros(3), generator=tg.Generator(5)).tolist() for _ in range(2))
    assert a == b


def test_bad_first_values() -> None:
    with pytest.raises(ValueError, match="two or more axes"):
        nn.init.xavier_uniform_(tg.zeros(3))
    with pytest.raises(ValueError, match="'fan_in' or 'fan_out'"):
        nn.init.kaiming_uniform_(tg.zeros(3, 3), mode="fan")
    with pytest.raises(ValueError, match="none of linear"):
        nn.init.calculate_gain("gelu")


# Clipping


def scalars(*gradients: float | None) -> list[Any]:
    made = []
    for g in gradients:
        p = tg.zeros(dtype=f64, requires_grad=True)
        p.grad = None if g is None else tg.tensor(g, dtype=f64)
        made.append(p)
    return made


def test_clipping_takes_the_norm_of_all() -> None:
    p, q, r = scalars(3.0, 4.0, None)
    memory = p.grad.array
    assert nn.utils.clip_grad_norm_([p, q, r], 1.0).item() == pytest.approx(5, abs=1e-12)
    assert p.grad.array is memory
    assert [p.grad.item(), q.grad.item()] == pytest.approx([0.6, 0.8], abs=1e-5)
    assert r.grad is None


def test_clipping_leaves_small_and_zero_gradients_alone() -> None:
    p, q = scalars(0.0, 0.0)
    assert nn.utils.clip_grad_norm_([p, q], 1.0).item() == 0
    assert p.grad.item() == 0
    p, q = scalars(0.3, 0.4)
    assert nn.utils.clip_grad_norm_([p, q], 1.0).item() == pytest.approx(0.5)
    assert p.grad.item() == 0.3
    assert nn.utils.clip_grad_norm_([p, q], math.inf, norm_type=math.inf).item() == pytest.approx(0.4)


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_clipping_tells_of_gradients_that_are_not_finite(bad: float) -> None:
    p, q = scalars(bad, 1.0)
    assert not math.isfinite(nn.utils.clip_grad_norm_([p, q], 1.0).item())
    assert q.grad.item() == 1
    assert not math.isfinite(nn.utils.clip_grad_norm_([p, q], 1.0, norm_type=math.inf).item())
    with pytest.raises(RuntimeError, match="infinite or NaN"):
        nn.utils.clip_grad_norm_([p, q], 1.0, error_if_nonfinite=True)


def test_clipping_of_nothing_of_one_and_of_a_generator() -> None:
    assert nn.utils.clip_grad_norm_([], 1.0).item() == 0
    assert nn.utils.clip_grad_norm_(scalars(None), 1.0).item() == 0
    (p,) = scalars(3.0)
    assert nn.utils.clip_grad_norm_(p, 1.0).item() == 3
    (q,) = scalars(3.0)
    assert nn.utils.clip_grad_norm_([q, q], 1.0).item() == 3
    net: Any = nn.Linear(1, 1)
    for _ in range(2):
        net.weight.grad, net.bias.grad = tg.tensor([[3.0]]), tg.tensor([4.0])
        assert nn.utils.clip_grad_norm_(net.parameters(), 1.0).item() == 5
        assert net.weight.grad.item() == pytest.approx(0.6, abs=1e-5)


def test_clipping_refuses_other_norms() -> None:
    with pytest.raises(ValueError, match=r"norm_type must be a number above 0"):
        nn.utils.clip_grad_norm_(scalars(1.0), 1.0, norm_type=0.0)
    for wrong in (-1.0, math.nan):
        with pytest.raises(ValueError, match="max_norm must be at least 0"):
            nn.utils.clip_grad_norm_(scalars(1.0), wrong)


def test_a_huge_norm_is_still_a_number() -> None:
    p: Any = tg.zeros(2, requires_grad=True)
    p.grad = tg.tensor([3e20, 4e20])
    assert nn.utils.clip_grad_norm_(p, 1.0).item() == pytest.approx(5e20, rel=1e-6)
    assert p.grad.tolist() == pytest.approx([0.6, 0.8], rel=1e-5)
