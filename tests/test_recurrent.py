"""Recurrent layers over all positions: kernels in every layout, tails, ends, and what is read again on the way back."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tests.arrays import DTYPES, FORMS, close, numbers
from tinygrad_edu import nn
from tinygrad_edu.graph import trace
from tinygrad_edu.kernels import numpy as kernels
from tinygrad_edu.ops import recurrent

GATES = {"Rnn": 1, "Gru": 3, "Lstm": 4}
OPS = sorted(GATES)
ORDERS = [{}, {"reverse": True}, {"batch_sizes": (3, 3, 2, 1)}, {"reverse": True, "batch_sizes": (3, 2, 2, 1)}]


def inputs(name: str, shape: tuple[int, int, int], dtype: Any, form: str = "contiguous") -> list[np.ndarray]:
    """x, weight, first states and bias; read-only."""
    (T, B, H), rows = shape, GATES[name] * shape[2]
    shapes = [(T, B, rows), (rows, H), (B, H), *[(B, H)] * (name == "Lstm"), (rows,)]
    return [numbers(s, dtype, i, 0.8, form if len(s) > 1 else "contiguous") for i, s in enumerate(shapes)]


def run(name: str, arrays: list[np.ndarray], **static: Any) -> list[np.ndarray]:
    """The outputs, and all gradients of their sum with weights."""
    xs = [tg.tensor(0.0)] * len(arrays)
    for i, a in enumerate(arrays):
        xs[i] = tg.Tensor(a)
        xs[i].array = a
        xs[i].requires_grad_()
    ys = getattr(recurrent, name)(*xs, **static)
    ys = ys if isinstance(ys, tuple) else (ys,)
    total: Any = sum((y * tg.Tensor(numbers(y.shape, y.dtype, 9))).sum() for y in ys)
    return [y.array for y in ys] + [g.array for g in tg.grad(total, xs)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", OPS)
def test_every_layout_gives_what_the_definition_gives(name: str, form: str, dtype: Any, order: dict[str, Any]) -> None:
    found = run(name, inputs(name, (4, 3, 5), dtype, form), **order)
    with tg.definitions():
        wanted = run(name, [a.astype(np.float64) for a in inputs(name, (4, 3, 5), dtype, form)], **order)
    for y, w in zip(found, wanted, strict=True):
        close(y, w, dtype, 10)


@pytest.mark.parametrize("shape", [(1, 3, 4), (3, 1, 4), (2, 0, 3), (2, 2, 1), (2, 2, 1100)])
@pytest.mark.parametrize("name", OPS)
def test_lengths_of_0_and_1_and_wide_states(name: str, shape: tuple[int, int, int]) -> None:
    arrays = inputs(name, shape, np.float64)
    arrays[1] = arrays[1] / shape[2]
    found = run(name, arrays)
    with tg.definitions():
        for y, w in zip(found, run(name, arrays), strict=True):
            np.testing.assert_allclose(y, w, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", OPS)
def test_far_from_0_gradients_keep_their_digits(name: str) -> None:
    """Where a gate has rounded to 1, what is left of its slope comes from what was bent, not from 1 − 1."""
    arrays = inputs(name, (3, 4, 2), np.float32)
    arrays[0] = arrays[0] * 30
    found = run(name, arrays)
    with tg.definitions():
        wanted = run(name, [a.astype(np.float64) for a in arrays])
    at = len(wanted) - len(arrays)  # the gradient of x
    told = [0, 1, 4, 5] if name == "Gru" else slice(None)  # that of z has the factor y − n, which may be 1 − 1
    assert (np.abs(wanted[at]) < 1e-10).any()
    np.testing.assert_allclose(found[at][..., told], wanted[at][..., told], rtol=3e-4, atol=1e-36)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("size", [1e4, 1e30, np.inf])
def test_extremes_bring_no_warning(name: str, size: float) -> None:
    arrays = inputs(name, (3, 4, 2), np.float32)
    arrays[0] = np.sign(arrays[0]) * np.float32(size)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = run(name, arrays)
    assert name == "Rnn" or np.isfinite(found[0]).all()
    assert np.isfinite(found[len(found) - len(arrays)]).all()


@pytest.mark.parametrize("name", OPS)
def test_nothing_is_kept_where_nothing_is_recorded(name: str) -> None:
    arrays = inputs(name, (3, 2, 4), np.float32)
    alone, none = getattr(kernels, name.lower())(*arrays, keep=False)
    recorded, kept = getattr(kernels, name.lower())(*arrays)
    assert none is None
    assert kept is not None
    for y, r in zip(*((y if isinstance(y, tuple) else (y,)) for y in (alone, recorded)), strict=True):
        np.testing.assert_array_equal(y, r)
        assert y.flags.owndata


@pytest.mark.parametrize("name", OPS)
def test_float16_is_computed_in_float32(name: str) -> None:
    arrays = [a.astype(np.float16) for a in inputs(name, (6, 3, 4), np.float32)]
    found, wanted = run(name, arrays), run(name, [a.astype(np.float32) for a in arrays])
    for y, w in zip(found, wanted, strict=True):
        assert y.dtype == np.float16
        np.testing.assert_allclose(y.astype(np.float32), w, rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_what_backward_reads_may_not_change(kind: str) -> None:
    layer = getattr(nn, kind)(3, 4)
    for change in (lambda y: y.mul_(2), lambda y: layer.weight_hh_l0.mul_(2)):
        y, _ = layer(tg.randn(5, 2, 3))
        with tg.no_grad():
            change(y)
        with pytest.raises(RuntimeError, match="changed"):
            y.sum().backward()


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_a_state_goes_on_where_it_was_left(kind: str) -> None:
    """In two parts with the state between them, as where gradients stop after some positions."""
    layer = getattr(nn, kind)(3, 4, num_layers=2).double()
    x = tg.randn(6, 2, 3, dtype=tg.float64, requires_grad=True)
    whole, end = layer(x)
    first, state = layer(x[:4])
    second, last = layer(x[4:], state)
    np.testing.assert_allclose(tg.cat([first, second]).array, whole.array, rtol=1e-12)
    for a, b in zip(last, end, strict=True):
        np.testing.assert_allclose(a.array, b.array, rtol=1e-12)
    (together,), (apart,) = tg.grad((whole**2).sum(), [x]), tg.grad((first**2).sum() + (second**2).sum(), [x])
    np.testing.assert_allclose(together.array, apart.array, rtol=1e-10)


def test_a_state_of_another_dtype_is_refused() -> None:
    with pytest.raises(TypeError, match="first state is float64, input float32"):
        nn.GRU(3, 4)(tg.zeros(5, 2, 3), tg.zeros(1, 2, 4, dtype=tg.float64))


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_a_picture_says_that_content_moves_and_along_which_axes(kind: str) -> None:
    graph = trace(getattr(nn, kind)(3, 5), tg.randn(7, 2, 3), axes={"input": "T B D"})
    card = next(card for card in graph.picture(2).cards() if card.op == kind.lower())
    assert (card.kind, card.shape) == ("mixes", "[T B 5] 7×2×5")
    assert {row.note for row in card.rows[:2]} == {"sum over T B"}
    assert "from each position to all that are read after it" in graph.ledger()


def test_attention_over_a_recurrent_layer_is_not_over_its_input() -> None:
    class Reading(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.memory = nn.LSTM(4, 4, batch_first=True)

        def forward(self, x: Any) -> Any:
            read, _ = self.memory(x)
            return tg.softmax(x @ read.transpose(1, 2) * 0.5, dim=-1) @ read

    graph = trace(Reading(), tg.randn(2, 3, 4), axes={"x": "B T D"})
    assert "Q from x, K and V from read: cross-attention" in graph.ledger()


def test_a_picture_opens_the_step() -> None:
    graph = trace(nn.LSTM(3, 4), tg.randn(2, 2, 3))
    assert "lstm" in [card.op for card in graph.picture(2).cards()]
    opened = [card.op for card in graph.picture(3).cards()]
    assert "lstm" not in opened
    assert opened.count("sigmoid") == 2 * 3
