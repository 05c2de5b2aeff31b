"""float16: what overflows on the way, a square, a sum, a score, makes no infinity of an ordinary result.

Every line is computed in float16 and, from the same numbers, in float64: values and gradients agree to float16's
digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from models.bert import BERT, BERTConfig
from models.gpt import GPT, GPTConfig
from models.language import summed_loss
from models.seq2seq import Seq2Seq, Seq2SeqConfig
from tinygrad_edu import nn, optim
from tinygrad_edu.nn import functional as F

RNG = np.random.default_rng(0)
WIDE = (RNG.standard_normal((3, 1024)) * 300).astype(np.float16)  # squares and sums beyond 65504
TALL = (RNG.standard_normal((70_000, 2)) * 10).astype(np.float16)  # more rows than float16 can count
SMALL = (RNG.standard_normal((4, 6)) * 200).astype(np.float16)
IMAGES = (RNG.standard_normal((4, 6, 5, 5)) * 300).astype(np.float16)
POSITIVE = np.full((2, 1000), 100, np.float16)
WEIGHT = RNG.standard_normal(1024).astype(np.float16)
IDS = np.array([5, 0, 999])
QUERIES = np.full((2, 3, 5, 128), 100, np.float16)  # scores of 110,000 and some
KEYS = 100 + RNG.integers(-2, 3, QUERIES.shape) / np.float16(16)
VALUES = RNG.standard_normal(QUERIES.shape).astype(np.float16)
MASK = np.where(np.tri(5), 0.0, -np.inf) + np.eye(5)
GATES = (RNG.standard_normal((600, 4)) * 100).astype(np.float16)

Line = tuple[Callable[..., Any], tuple[np.ndarray, ...]]
LINES: dict[str, Line] = {
    "layer_norm": (lambda x: F.layer_norm(x, (1024,)), (WIDE,)),
    "layer_norm, weight": (lambda x, w: F.layer_norm(x, (1024,), w, w), (WIDE, WEIGHT)),
    "rms_norm": (lambda x: F.rms_norm(x, (1024,), eps=1e-5), (WIDE,)),
    "rms_norm, weight": (lambda x, w: F.rms_norm(x, (1024,), w, eps=1e-5), (WIDE, WEIGHT)),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), (IMAGES,)),
    "batch_norm, two rows": (
        lambda x: F.batch_norm(x, None, None, training=True),
        (np.array([[300.0], [3000.0]], np.float16),),
    ),
    "group_norm": (lambda x: F.group_norm(x, 2), (IMAGES,)),
    "var": (lambda x: x.var(), (WIDE / 2,)),
    "var of rows": (lambda x: x.var(1), (WIDE / 2,)),
    "std": (lambda x: x.std(1), (WIDE,)),
    "std, axis 0": (lambda x: x.std(0), (TALL,)),
    "mean": (lambda x: x.mean(), (POSITIVE,)),
    "mean, axis 1": (lambda x: x.mean(1), (POSITIVE,)),
    "mean of many": (lambda x: x.mean(0), (np.abs(TALL),)),
    "sum": (lambda x: x.sum(1) / 16, (WIDE / 8,)),
    "nanmean": (lambda x: x.nanmean(0), (np.abs(TALL),)),
    "norm": (lambda x: x.norm(), (WIDE,)),
    "norm of many": (lambda x: x.norm(2, 0), (TALL,)),
    "norm, 3": (lambda x: x.norm(3, 1), (WIDE,)),
    "norm, ½": (lambda x: x.norm(0.5), (SMALL,)),
    "vector_norm": (lambda x: tg.linalg.vector_norm(x, 4, 1), (WIDE,)),
    "matrix_norm": (tg.linalg.matrix_norm, (WIDE,)),
    "logsumexp": (lambda x: x.logsumexp(0), (TALL * 0,)),
    "logcumsumexp": (lambda x: x.logcumsumexp(0)[-1], (TALL[:300] * 0,)),
    "cumsum": (lambda x: x.cumsum(1)[:, ::100] / 16, (POSITIVE / 4,)),
    "cumprod": (lambda x: x.cumprod(0)[-1], (np.full((900, 2), 1.001, np.float16),)),
    "prod": (lambda x: x.prod(0), (np.full((900, 2), 1.001, np.float16),)),
    "softmax": (lambda x: F.softmax(x, 0) * 1000, (TALL[:30_000] / 10,)),
    "log_softmax": (lambda x: F.log_softmax(x, 0)[:5], (TALL * 0,)),
    "cross_entropy": (lambda x: F.cross_entropy(x, tg.tensor([3, 4])), (TALL.T * 0,)),
    "cross_entropy, smoothed": (lambda x: F.cross_entropy(x, tg.tensor([3, 4]), label_smoothing=0.1), (TALL.T,)),
    "cross_entropy, weighed": (
        lambda x: F.cross_entropy(x, tg.tensor(IDS), tg.full((1024,), 200.0, dtype=x.dtype)),
        (WIDE / 100,),
    ),
    "cross_entropy, probabilities": (F.cross_entropy, (TALL.T, TALL.T * 0 + np.float16(1e-4))),
    "nll_loss": (lambda x: F.nll_loss(x, tg.tensor(IDS), reduction="sum"), (WIDE,)),
    "l1_loss": (lambda x: F.l1_loss(x, x * 0), (np.full(3000, 100, np.float16),)),
    "mse_loss": (F.mse_loss, (SMALL / 4, -SMALL / 4)),
    "mse_loss of few that are far": (lambda x: F.mse_loss(x, x * 0), (np.eye(20, dtype=np.float16) * 500,)),
    "smooth_l1_loss": (lambda x: F.smooth_l1_loss(x, x * 0, beta=500), (WIDE,)),
    "huber_loss": (lambda x: F.huber_loss(x, x * 0, delta=40.0), (WIDE,)),
    "kl_div": (lambda x: F.kl_div(x, x * 0 + 1), (WIDE * 10,)),
    "bce_with_logits": (lambda x: F.binary_cross_entropy_with_logits(x, x * 0 + 1), (WIDE,)),
    "bce": (lambda x: F.binary_cross_entropy(x, x * 0 + 1), (np.full(3000, 0.0001, np.float16),)),
    "cosine_similarity": (F.cosine_similarity, (WIDE, WIDE[::-1] + 100)),
    "pairwise_distance": (F.pairwise_distance, (WIDE, -WIDE)),
    "normalize": (F.normalize, (WIDE,)),
    "cdist": (tg.cdist, (SMALL, SMALL[:3] + 50)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 5), (np.full((1, 2, 50, 50), 9000, np.float16),)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 1), (np.full((1, 2, 9, 9), 9000, np.float16),)),
    "matmul": (lambda x: x @ x.T, (WIDE / 64,)),
    "linear": (F.linear, (WIDE, WIDE / 4096, WEIGHT[:3])),
    "addmm": (lambda b, x: b.addmm(x, -x.T, beta=2, alpha=1e-4), (WIDE[:, :3] / 8, WIDE)),
    "einsum": (lambda x: tg.einsum("ij,ij->i", x, x), (WIDE / 64,)),
    "einsum of three": (lambda x, y: tg.einsum("ij,kj,j->ik", x, x, y), (WIDE / 32, np.full(1024, 0.001, np.float16))),
    "attention": (F.scaled_dot_product_attention, (QUERIES, KEYS, VALUES)),
    "attention, causal": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (QUERIES, KEYS, VALUES[..., :4]),
    ),
    "attention, bias": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, tg.tensor(MASK)),
        (QUERIES, KEYS, VALUES),
    ),
    "index_add": (lambda x: tg.zeros(1, 4, dtype=x.dtype).index_add(0, tg.zeros(600).long(), x), (GATES,)),
    "scatter_add": (lambda x: tg.zeros(1, 4, dtype=x.dtype).scatter_add(0, tg.zeros(600, 4).long(), x), (GATES,)),
    "a bias": (lambda b: tg.ones(9000, 2, dtype=b.dtype) * 0.5 + b, (np.ones(2, np.float16),)),
    "expand": (lambda b: b.expand(9000, 2), (np.ones(2, np.float16),)),
    "embedding": (lambda w: F.embedding(tg.zeros(5000).long(), w) * 3, (np.ones((2, 2), np.float16),)),
    "x[ids]": (lambda w: w[tg.zeros(5000).long()] * 3, (np.ones((2, 2), np.float16),)),
    "times a large number": (lambda x: x * 1e5 * 0.1, (SMALL / 10_000,)),
    "divided by a large number": (lambda x: x / 1e5 * 100, (SMALL,)),
    "times a number": (lambda x: x * 0.1, (SMALL,)),
    "gelu, tanh": (lambda x: F.gelu(x, "tanh"), (SMALL,)),
    "gelu": (F.gelu, (SMALL,)),
    "silu": (F.silu, (SMALL,)),
    "round to decimals": (lambda x: x.round(decimals=2), (SMALL * 50,)),
    "conv1d and a bias": (lambda x: F.conv1d(x, x[:1, :, :1], x[0, :1, 0] * 0 - 6e4), (np.full((2, 1, 3), 300),)),
    "softplus, beta": (lambda x: F.softplus(x, beta=1000), (SMALL,)),
    "lerp": (lambda x: x.lerp(-x, 0.5), (SMALL * 80,)),
    "addcmul": (lambda x: x.addcmul(x, x, value=1e-3), (SMALL * 5,)),
    "addcdiv": (lambda x: x.addcdiv(x, x * 0 + 0.01, value=1e-3), (SMALL * 5,)),
    "addcmul_": (lambda x: x.clone().addcmul_(x, x, value=1e-3), (SMALL * 5,)),
    "addcdiv_": (lambda x: x.clone().addcdiv_(x, x * 0 + 0.01, value=1e-3), (SMALL * 5,)),
    "cross": (lambda x: x[:, :3].cross(x[:, 3:] / 8, 1) / 8, (SMALL,)),
    "scatter_reduce, prod": (
        lambda x: tg.ones(1, 2, dtype=x.dtype).scatter_reduce(0, tg.zeros(900, 2).long(), x, "prod"),
        (np.full((900, 2), 1.001, np.float16),),
    ),
    "scatter_reduce, mean": (
        lambda x: tg.ones(1, 4, dtype=x.dtype).scatter_reduce(0, tg.zeros(600, 4).long(), x, "mean"),
        (np.abs(GATES),),
    ),
}  # fmt: skip


def run(name: str, dtype: Any, create_graph: bool = False) -> tuple[list[np.ndarray], Any]:
    """Value and gradients of a weighted sum of the result, from float16's numbers, in `dtype`."""
    function, given = LINES[name]
    xs = [tg.tensor(x.astype(np.float16), dtype=dtype, requires_grad=True) for x in given]
    y = function(*xs)
    weight = (1 + 0.5 * np.cos(np.arange(y.numel()))).reshape(y.shape).astype(np.float16)
    grads = tg.grad(y, xs, tg.tensor(weight, dtype=dtype), allow_unused=True, create_graph=create_graph)
    found = [y, *(g for g in grads if g is not None)]
    return [t.detach().numpy().astype(np.float64) for t in found], y.dtype


def same(name: str, ours: list[np.ndarray], right: list[np.ndarray]) -> None:
    near = 3e-2 if name.startswith("attention") else 4e-3  # float32 scores near 113,000 are 1/128 apart
    for a, b in zip(ours, right, strict=True):
        top = np.abs(b).max()
        assert top < 65504, "the test itself asks for what float16 cannot hold"
        np.testing.assert_allclose(a, b, rtol=near, atol=max(near * top, 1e-6))


@pytest.mark.parametrize("name", LINES)
def test_float16_gives_what_float64_rounds_to(name: str) -> None:
    ours, dtype = run(name, tg.float16)
    assert dtype == tg.float16
    same(name, ours, run(name, tg.float64)[0])


@pytest.mark.parametrize("name", LINES)
def test_so_do_the_definitions(name: str) -> None:
    with tg.definitions():
        ours = run(name, tg.float16)[0]
    same(name, ours, run(name, tg.float64)[0])


@pytest.mark.parametrize("name", ["layer_norm, weight", "rms_norm, weight", "attention", "cross_entropy", "gelu, tanh"])
def test_a_recorded_gradient_is_the_same(name: str) -> None:
    same(name, run(name, tg.float16, create_graph=True)[0], run(name, tg.float64)[0])


MODERN = {"norm": "rms", "activation": "swiglu", "positions": "rotary", "normalised": True, "key_heads": 2}
MODELS: dict[str, Callable[[], nn.Module]] = {
    "gpt": lambda: GPT(GPTConfig(40, 16, 2, 4, 64, bias=True, tied=False)),
    "gpt, modern": lambda: GPT(GPTConfig(40, 16, 2, 4, 64, tied=False, **MODERN)),  # type: ignore[arg-type]
    "gpt, norms last": lambda: GPT(GPTConfig(40, 16, 2, 4, 64, tied=False, norm_first=False, activation="relu")),
    "bert": lambda: BERT(BERTConfig(40, 16, 2, 4, 64)),
    "seq2seq": lambda: Seq2Seq(Seq2SeqConfig(40, 16, 2, 4, 64)),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_in_float16_with_large_activations_gives_its_logits(name: str) -> None:
    tg.manual_seed(0)
    half, whole = MODELS[name](), MODELS[name]()
    with tg.no_grad():
        for key, p in half.named_parameters():
            if "position" in key or ("token" in key and name != "bert" and name != "seq2seq"):
                p.mul_(60_000)  # a stream of thousands
            if key.endswith(("output.weight", "down.weight")):
                p.mul_(100)
    half.half()
    whole.load_state_dict({key: p.float() if p.dtype == tg.float16 else p for key, p in half.state_dict().items()})
    ids = RNG.integers(0, 40, (2, 16))
    given = (ids, ids[:, ::-1].copy()) if name == "seq2seq" else (ids,)
    right = whole(*given).detach().numpy()
    for definitions in (False, True):
        with tg.definitions() if definitions else tg.enable_grad():
            logits = half(*given)
        assert logits.dtype == tg.float16
        assert np.abs(logits.detach().numpy() - right).max() < 1e-2 * np.abs(right).max()


def test_a_summed_loss_of_float16_is_float32() -> None:
    total, count = summed_loss(tg.zeros(500, 40, 1000, dtype=tg.float16), tg.zeros(500, 40).long())
    assert np.allclose(total.item() / count, np.log(1000), 1e-5)


def test_running_statistics_of_a_batch_norm_are_kept_in_their_own_dtype() -> None:
    norm = nn.BatchNorm1d(2).half()
    norm(tg.tensor([[100.0, -50.0], [300.0, 50.0]], dtype=tg.float16))
    assert norm.running_var is not None
    assert norm.running_var.dtype == tg.float16
    assert np.allclose(norm.running_var.numpy(), 0.9 + 0.1 * np.array([20000, 5000]), 1e-3)


def test_a_dtype_asked_for_is_the_results() -> None:
    x = tg.tensor(WIDE)
    for result in (x.norm(dtype=tg.float32), x.nanmean(dtype=tg.float32), x.sum(dtype=tg.float32)):
        assert result.dtype == tg.float32


def test_weights_of_multihead_attention_in_float16() -> None:
    layer = nn.MultiheadAttention(64, 2, batch_first=True)
    x = tg.tensor(RNG.standard_normal((2, 5, 64)) * 40, dtype=tg.float32)
    right = layer(x, x, x)[0]
    ours, halves = layer.half()(x.half(), x.half(), x.half())
    assert ours.dtype == halves.dtype == tg.float16
    assert np.isfinite(ours.detach().numpy()).all()
    assert np.abs(ours.detach().numpy() - right.detach().numpy()).max() < 0.05 * np.abs(right.detach().numpy()).max()


@pytest.mark.parametrize("scale", [1e-4, 1.0, 100.0])
def test_the_norm_of_float16_gradients(scale: float) -> None:
    w = tg.zeros(3, 1024, dtype=tg.float16, requires_grad=True)
    g = (RNG.standard_normal((3, 1024)) * scale).astype(np.float16)
    (w * tg.tensor(g)).sum().backward()
    norm = nn.utils.clip_grad_norm_(w, 0.5 * scale)
    assert np.allclose(norm.item(), np.linalg.norm(g.astype(float)), 1e-3)
    assert w.grad is not None
    assert np.allclose(w.grad.numpy().astype(float), g * (0.5 * scale / norm.item()), 2e-2, 1e-7)


@pytest.mark.parametrize("size", [1e-4, 1.0, 1000.0])
@pytest.mark.parametrize(
    "new",
    [
        optim.AdamW,
        optim.Adam,
        lambda p: optim.AdamW(p, amsgrad=True),
        lambda p: optim.SGD(p, lr=1e-3, momentum=0.9),
        optim.Adagrad,
        lambda p: optim.RMSprop(p, centered=True),
    ],
)
def test_an_optimizer_moves_float16_weights_as_float32_ones(new: Any, size: float) -> None:
    g = (RNG.standard_normal((5, 100)) * size).astype(np.float16)
    moved = []
    for dtype in (tg.float16, tg.float32):
        w = tg.tensor(np.linspace(-1, 1, 100), dtype=dtype, requires_grad=True)
        optimizer = new([w])
        for row in g:
            w.grad = tg.tensor(row, dtype=dtype)
            optimizer.step()
        moved.append(w.detach().numpy().astype(float))
    assert np.abs(moved[0] - moved[1]).max() < 5e-3 + 1e-2 * np.abs(moved[1]).max()
