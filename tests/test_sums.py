"""How sums add up: long ones of float32 in every layout, in every op and in every gradient."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.arrays.contraction import contracted
from tinygrad_edu.arrays.sums import column_sums, ones, product, row_dots, row_sums, running, total
from tinygrad_edu.nn import functional as F
from tinygrad_edu.ops import recurrent

N = 100_000
TENTH = float(np.float32(0.1))
EXACT = 2e-6  # of Σ |x|; one by one, the error of `N` equal numbers is 1e-3


def slope(x: Any) -> np.ndarray:
    return np.asarray(x.grad.numpy())


def layouts(x: np.ndarray) -> dict[str, np.ndarray]:
    first, last = (slice(1),), (..., slice(1))
    return {
        "rows in order": x,
        "columns in order": np.asfortranarray(x),
        "transposed": x.T,
        "axes moved": np.moveaxis(x, 0, -1),
        "every second row": x[::2],
        "backwards": x[..., ::-1],
        "the first columns": x[:, :2] if x.ndim > 1 else x[:2],
        "one row copied": np.broadcast_to(x[first], x.shape),
        "one column copied": np.broadcast_to(x[last], x.shape),
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(N, 2), (2, N // 2, 2), (70, 50, 3, 20), (1000, 33), (129,), (4000, 1, 3), (0, 3)])
def test_a_sum_is_exact_over_all_axes_of_all_layouts(shape: tuple[int, ...], dtype: type) -> None:
    drawn: np.ndarray = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    equal: np.ndarray = np.full(shape, 0.1, dtype)
    for x in (equal, drawn):
        for name, view in layouts(x).items():
            before = view.copy()
            for count in range(1, view.ndim + 1):
                for axes in itertools.combinations(range(view.ndim), count):
                    for keepdims in (False, True):
                        y = total(view, axes, keepdims)
                        right = view.sum(axis=axes, keepdims=keepdims, dtype=np.float64)
                        size = np.abs(view).sum(axis=axes, keepdims=keepdims, dtype=np.float64)
                        assert (y.dtype, y.shape) == (dtype, right.shape), (name, axes)
                        assert (np.abs(y - right) <= EXACT / 2 * size).all(), (name, axes, keepdims)
                        assert not np.shares_memory(y, view)
            assert np.array_equal(view, before)


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_a_sum_passes_on_what_is_not_finite(special: float) -> None:
    x = np.zeros((1000, 3), np.float32)
    x[700, 1] = special
    assert np.array_equal(total(x, (0,)), [0, special, 0], equal_nan=True)


def test_sums_of_whole_numbers_are_int64() -> None:
    x = np.full((300, 2), 200, np.uint8)
    for y in (total(x, (0,)), running(x, 0)[-1]):
        assert y.tolist() == [60000, 60000]
        assert y.dtype == np.int64
    assert total(x > 0, (0, 1)) == 600


@pytest.mark.parametrize("length", [1, 127, 129, 1000, N])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 5), (5, 1), (3, 4), (1, 700)])
def test_a_product_with_few_results_is_exact(rows: int, columns: int, length: int) -> None:
    if columns * length > 10 * N:
        length = 5000
    x, y = np.full((2, rows, length), 0.1, np.float32), np.full((length, columns), 0.7, np.float32)
    right = x.astype(np.float64) @ y.astype(np.float64)
    for z in (product(x, y), product(x, np.asfortranarray(y)), product(x, y, out=np.empty(right.shape, np.float32))):
        assert z.shape == right.shape
        assert np.allclose(z, right, EXACT, 0)


@pytest.mark.parametrize("width", [3, 1000, 3000, N])
def test_rows_add_up_exactly(width: int) -> None:
    x, w = np.full((2, 3, width), 0.1, np.float32), np.full(width, 0.7, np.float32)
    assert np.allclose(row_sums(x, w), 0.7 * TENTH * width, EXACT, 0)
    assert np.allclose(row_dots(x, x), TENTH**2 * width, EXACT, 0)
    assert np.allclose(column_sums(x[0].T, ones(width, x.dtype)), TENTH * width, EXACT, 0)


COLUMN = tg.full((N, 2), 0.1)
STACK = tg.full((2, N, 2), 0.1)
REDUCED: dict[str, tuple[Callable[[], Any], float]] = {
    "sum(0)": (lambda: COLUMN.sum(0), TENTH * N),
    "sum(1) of a stack": (lambda: STACK.sum(1), TENTH * N),
    "sum of a part": (STACK[:, :, :1].sum, TENTH * 2 * N),
    "mean(0)": (lambda: COLUMN.mean(0), TENTH),
    "mean of a transposed": (lambda: COLUMN.t().mean(1), TENTH),
    "mean((0, 1))": (lambda: STACK.mean((0, 1)), TENTH),
    "mean(0) of an expanded": (lambda: tg.full((1, 2), 0.1).expand(N, 2).mean(0), TENTH),
    "var(0), far from 0": (lambda: ((tg.arange(N).float() % 2) + 100)[:, None].expand(N, 2).var(0, correction=0), 0.25),
    "std(0)": (lambda: ((tg.arange(N).float() % 2) + 100).reshape(N, 1).std(0, correction=0), 0.5),
    "nansum(0)": (lambda: COLUMN.nansum(0), TENTH * N),
    "nanmean(0)": (lambda: COLUMN.nanmean(0), TENTH),
    "norm(2, 0)": (lambda: COLUMN.norm(2, 0), TENTH * N**0.5),
    "norm(1, 0)": (lambda: COLUMN.norm(1, 0), TENTH * N),
    "norm(3, 0)": (lambda: COLUMN.norm(3, 0), TENTH * N ** (1 / 3)),
    "logsumexp(0)": (lambda: COLUMN.logsumexp(0), TENTH + np.log(N)),
    "cumsum(0)": (lambda: COLUMN.cumsum(0)[-1], TENTH * N),
    "cumsum(1)": (lambda: COLUMN.t().cumsum(1)[:, -1], TENTH * N),
    "logcumsumexp": (lambda: COLUMN[:, 0].logcumsumexp(0)[-1], TENTH + np.log(N)),
    "dot": (lambda: COLUMN[:, 0].dot(COLUMN[:, 1]), TENTH**2 * N),
    "mv": (lambda: COLUMN.t().mv(tg.ones(N)), TENTH * N),
    "x.T @ x": (lambda: COLUMN.t() @ COLUMN, TENTH**2 * N),
    "tensordot": (lambda: tg.tensordot(STACK, COLUMN, 2), TENTH**2 * 2 * N),
    "inner": (lambda: COLUMN.t().inner(tg.ones(N)), TENTH * N),
    "einsum ij->j": (lambda: tg.einsum("ij->j", COLUMN), TENTH * N),
    "einsum ij->": (lambda: tg.einsum("ij->", COLUMN), TENTH * 2 * N),
    "einsum ij,ij->j": (lambda: tg.einsum("ij,ij->j", COLUMN, COLUMN), TENTH**2 * N),
    "einsum ij,ik->jk": (lambda: tg.einsum("ij,ik->jk", COLUMN, COLUMN), TENTH**2 * N),
    "einsum bij,ij->bj": (lambda: tg.einsum("bij,ij->bj", STACK, COLUMN), TENTH**2 * N),
    "einsum i,i,i->": (lambda: tg.einsum("i,i,i->", *(COLUMN[:, 0],) * 3), TENTH**3 * N),
    "index_add": (lambda: tg.zeros(1, 2).index_add(0, tg.zeros(N).long(), COLUMN), TENTH * N),
    "scatter_add": (lambda: tg.zeros(1, 2).scatter_add(0, tg.zeros(N, 2).long(), COLUMN), TENTH * N),
    "scatter_reduce": (lambda: tg.zeros(1, 2).scatter_reduce(0, tg.zeros(N, 2).long(), COLUMN, "sum"), TENTH * N),
    "index_put": (lambda: tg.zeros(1, 2).index_put((tg.zeros(N).long(),), COLUMN, accumulate=True), TENTH * N),
    "bincount": (lambda: tg.zeros(N).long().bincount(COLUMN[:, 0]), TENTH * N),
    "trace": (lambda: tg.full((1000, 1000), 0.1).trace(), TENTH * 1000),
    "linear, a long row": (lambda: F.linear(tg.full((1, N), 0.1), tg.ones(2, N)), TENTH * N),
    "linear, few rows": (lambda: F.linear(tg.full((3, N), 0.1), tg.ones(2, N)), TENTH * N),
    "mse_loss": (lambda: F.mse_loss(COLUMN, COLUMN * 0), TENTH**2),
    "l1_loss, sum": (lambda: F.l1_loss(COLUMN, COLUMN * 0, reduction="sum"), TENTH * 2 * N),
    "cross_entropy": (lambda: F.cross_entropy(tg.zeros(2, N), tg.tensor([1, 2])), np.log(N)),
    "log_softmax": (lambda: -F.log_softmax(tg.zeros(N, 2), 0), np.log(N)),
    "softmax": (lambda: F.softmax(tg.zeros(2, N), 1) * N, 1.0),
    "attention": (lambda: F.scaled_dot_product_attention(tg.zeros(1, 4), tg.zeros(N, 4), tg.full((N, 2), 0.1)), TENTH),
    "avg_pool1d": (lambda: F.adaptive_avg_pool1d(tg.full((1, 1, N), 0.1), 1), TENTH),
    "avg_pool2d": (lambda: F.adaptive_avg_pool2d(tg.full((1, 2, 300, 300), 0.1), 1), TENTH),
    "cosine_similarity": (lambda: F.cosine_similarity(COLUMN, COLUMN * 3, 0), 1.0),
    "layer_norm": (lambda: F.layer_norm((tg.arange(N) % 2 * 2 - 1).float()[None], (N,)).abs(), 1 / (1 + 1e-5) ** 0.5),
    "rms_norm": (lambda: F.rms_norm(tg.full((1, N), 0.1), (N,), eps=0.0), 1.0),
    "batch_norm": (
        lambda: F.batch_norm((tg.arange(N) % 2).float().reshape(N, 1), None, None, training=True).abs(),
        0.5 / (0.25 + 1e-5) ** 0.5,
    ),
}


@pytest.mark.parametrize("name", REDUCED)
def test_a_reduction_of_many_equal_numbers_is_exact(name: str) -> None:
    compute, right = REDUCED[name]
    assert np.allclose(compute().numpy().astype(np.float64), right, EXACT, 0)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "cross_entropy", "attention", "layer_norm", "rms_norm"])
def test_a_definition_is_as_exact(name: str) -> None:
    with tg.definitions():
        test_a_reduction_of_many_equal_numbers_is_exact(name)


IDS = tg.zeros(N).long()
WEIGHTED: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], float]] = {
    "a bias": (lambda b: tg.zeros(N, 2) + b, (2,), N),
    "a number": (lambda b: tg.zeros(N, 2) + b, (), 2 * N),
    "expand": (lambda b: b.expand(N, 2), (2,), N),
    "expand, an axis of 1": (lambda b: b.expand(2, N, 2), (2, 1, 2), N),
    "repeat": (lambda b: b.repeat(N, 1), (2,), N),
    "position embeddings": (lambda b: tg.zeros(N, 2, 3) + b, (2, 3), N),
    "a factor": (lambda b: tg.ones(N, 2) * b, (2,), N),
    "linear, bias": (lambda b: F.linear(tg.ones(N, 3), tg.ones(2, 3), b), (2,), N),
    "linear, weight": (lambda w: F.linear(tg.ones(N, 3), w), (2, 3), N),
    "matmul": (lambda w: tg.ones(N, 3) @ w, (3, 2), N),
    "matmul of a stack": (lambda w: tg.ones(4, N // 4, 3) @ w, (3, 2), N),
    "einsum": (lambda w: tg.einsum("ij,jk->ik", tg.ones(N, 3), w), (3, 2), N),
    "layer_norm, bias": (lambda b: F.layer_norm(tg.ones(N, 2), (2,), tg.ones(2), b), (2,), N),
    "layer_norm, weight": (
        lambda w: F.layer_norm(tg.tensor([[1e3, -1e3]]).expand(N, 2), (2,), w) * tg.tensor([1.0, -1.0]),
        (2,),
        N,
    ),
    "rms_norm, weight": (lambda w: F.rms_norm(tg.ones(N, 2), (2,), w, eps=0.0), (2,), N),
    "batch_norm, bias": (lambda b: F.batch_norm(tg.ones(N, 2), tg.zeros(2), tg.ones(2), None, b), (2,), N),
    "conv1d, bias": (lambda b: F.conv1d(tg.ones(1, 1, N), tg.ones(2, 1, 1), b), (2,), N),
    "conv1d, weight": (lambda w: F.conv1d(tg.ones(1, 1, N), w), (2, 1, 1), N),
    "embedding": (lambda w: F.embedding(IDS, w)[:, :1], (1, 2), N),
    "embedding, many rows": (lambda w: F.embedding(IDS, w), (600, 2), N),
    "x[ids]": (lambda w: w[IDS], (1, 2), N),
    "index_select": (lambda w: w.index_select(0, IDS), (1, 2), N),
    "gather": (lambda w: w.gather(0, IDS[:, None].expand(N, 2)), (1, 2), N),
    "take": (lambda w: w.take(IDS), (1,), N),
    "cumsum": (lambda w: w.expand(N).cumsum(0)[-1:].expand(1), (1,), N),
    "cumsum of a column": (lambda w: tg.cat([w, tg.zeros(N - 1)]).cumsum(0), (1,), N),
    "cumprod": (lambda w: tg.cat([w, tg.ones(N // 10 - 1)]).cumprod(0), (1,), N // 10),
    "rnn, bias": (
        lambda b: recurrent.Rnn(tg.zeros(2, N // 2, 2), tg.zeros(2, 2), tg.zeros(N // 2, 2), b, nonlinearity="relu"),
        (2,),
        N,
    ),
    "rnn, weight": (
        lambda w: recurrent.Rnn(tg.zeros(1, N, 2), w, tg.ones(N, 2), nonlinearity="relu"),
        (2, 2),
        N,
    ),
    "attention, values": (
        lambda v: F.scaled_dot_product_attention(tg.zeros(2000, 2), tg.zeros(1, 2), v),
        (1, 2),
        2000,
    ),
}


@pytest.mark.parametrize("name", WEIGHTED)
def test_the_gradient_of_what_was_used_often_is_exact(name: str) -> None:
    compute, shape, uses = WEIGHTED[name]
    w = tg.ones(*shape, requires_grad=True) if shape else tg.tensor(1.0, requires_grad=True)
    (compute(w) * 0.1).sum().backward()
    assert np.allclose(slope(w).reshape(-1)[0], TENTH * uses, 2 * EXACT, 0)


@pytest.mark.parametrize("often", [1, 31, 33, 1025, 5000])
def test_rows_of_a_table_that_were_read_often(often: int) -> None:
    rng = np.random.default_rng(0)
    ids = rng.permutation(np.concatenate([np.full(often, 7), np.arange(600), rng.integers(0, 600, 900)]))
    w = tg.zeros(600, 3, requires_grad=True)
    g = rng.standard_normal((len(ids), 3)).astype(np.float32)
    (F.embedding(ids, w) * tg.tensor(g)).sum().backward()
    right = np.zeros((600, 3))
    np.add.at(right, ids, g)
    assert np.abs(slope(w) - right).max() < 1e-4


@pytest.mark.parametrize(
    "equation",
    ["ij->ji", "ij->", "ij,jk->ik", "ij,ij->ij", "ij,ij->", "i,j->ij", "mij,mjk->mik", "ijk,k->ij", "ij,jk,kl->il",
     "i,i,i->", "ij,k->", "ij,jk,kl,lm->im", "ij,j,kj->ik", ",i->i", ",->", "i,ij,ijk->jk"],
)  # fmt: skip
def test_sums_of_products_are_numpys(equation: str) -> None:
    rng, lengths = np.random.default_rng(0), {"i": 3, "j": 4, "k": 5, "l": 2, "m": 6}
    terms = equation.split("->")[0].split(",")
    for short in (0.0, 0.0, 0.4, 0.4, 0.4):
        xs = [np.asarray(rng.standard_normal([1 if rng.random() < short else lengths[c] for c in t])) for t in terms]
        y = contracted(equation, xs)
        right = np.einsum(equation, *xs)
        assert y.shape == right.shape
        assert np.allclose(y, right)
        assert not any(np.shares_memory(y, x) for x in xs)
        tensors = [tg.tensor(x, requires_grad=True) for x in xs]
        tg.einsum(equation, *tensors).sum().backward()
        assert all(slope(t).shape == x.shape for t, x in zip(tensors, xs))


def test_einsum_of_small_integers_adds_in_int64_what_it_adds_alone() -> None:
    x = tg.tensor([200, 100], dtype=tg.uint8)
    alone = tg.einsum("i->", x)
    assert (alone.item(), alone.dtype) == (300, tg.int64)
    assert tg.einsum("i,j->i", x, x).tolist() == [60000, 30000]
    assert tg.einsum("i,i->", x, x).item() == 80  # a product of uint8 is uint8, as in PyTorch


def test_einsum_takes_a_letter_three_times_and_none_twice_in_the_result() -> None:
    x = tg.arange(8.0).reshape(2, 2, 2)
    assert tg.einsum("iii->i", x).tolist() == [0, 7]
    with pytest.raises(ValueError, match="'i' twice"):
        tg.einsum("i->ii", tg.ones(2))


def test_a_layer_norm_of_many_rows_and_its_definition_agree() -> None:
    rng = np.random.default_rng(0)
    x, g = (tg.tensor(rng.standard_normal((3000, 48)), dtype=tg.float32) for _ in range(2))
    grads = []
    for definitions in (False, True):
        layer = nn.LayerNorm(48)
        with tg.definitions() if definitions else tg.enable_grad():
            (layer(x) * g).sum().backward()
        grads.append([slope(p) for p in layer.parameters()])
    assert all(np.allclose(a, b, 1e-4, 1e-3) for a, b in zip(*grads))


@pytest.mark.parametrize("often", [31, 33, 64, 3000])
@pytest.mark.parametrize("shape", [(2,), ()])
def test_a_value_that_many_ops_used(often: int, shape: tuple[int, ...]) -> None:
    w = tg.zeros(*shape, requires_grad=True) if shape else tg.tensor(0.0, requires_grad=True)
    total = tg.zeros(*shape)
    for _ in range(often):
        total = total + w * 0.1
    total.sum().backward()
    assert np.allclose(slope(w), TENTH * often, EXACT, 0)
    assert w.grad is not None
    assert tg.grad((w * 2 + w * 3).sum(), w)[0].tolist() == (w.grad * 0 + 5).tolist()
