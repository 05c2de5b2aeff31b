"""Functions and methods against PyTorch's of the same name: one line each, value and gradient in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tinygrad_edu as tg

R = np.random.default_rng(0)
X = R.uniform(-2, 2, (3, 4, 5))
P = R.uniform(0.2, 0.9, (3, 4, 5))
M = R.uniform(-2, 2, (4, 4))
V = R.uniform(-2, 2, 4)
W = R.uniform(-2, 2, 4)
IDS = R.integers(0, 3, (2, 4, 5))
MASK = R.random((3, 4, 5)) > 0.5
ROWS = R.uniform(-2, 2, (6, 5))
TARGET = np.array([1, 4, -100, 0, 2, 2])


def names(text: str) -> list[str]:
    return text.split()


# One element of a line: (inputs that need a gradient, a function of the package t and the inputs). A line is named by
# its position; what is compared is every output's value and the inputs' gradients.
UNARY = names(
    "abs absolute exp exp2 expm1 sin cos tan tanh sinh cosh sigmoid erf relu sign floor ceil trunc round square neg "
    "negative reciprocal isnan isinf isfinite logical_not numel ravel t_like"
)
POSITIVE = names("log log2 log10 log1p sqrt rsqrt logit")
BINARY = names(
    "add sub mul div subtract multiply divide true_divide maximum minimum eq ne lt le gt ge greater less "
    "greater_equal less_equal not_equal remainder logaddexp logical_and logical_or logical_xor isclose"
)
REDUCTIONS = names("sum mean var std prod amax amin logsumexp all any count_nonzero")


def f(t: Any) -> Any:
    return t.nn.functional


LINES: list[tuple[tuple[Any, ...], Any]] = [
    *[((X,), lambda t, x, n=n: getattr(t, n)(x)) for n in UNARY if n != "t_like"],
    *[((P,), lambda t, x, n=n: getattr(t, n)(x)) for n in POSITIVE],
    *[((X, X[:, :1]), lambda t, x, y, n=n: getattr(t, n)(x, y)) for n in BINARY],
    *[((X, V[0]), lambda t, x, y, n=n: getattr(x, n)(y)) for n in BINARY if n != "isclose"],
    *[((X,), lambda t, x, n=n: getattr(t, n)(x, dim=-1)) for n in REDUCTIONS],
    *[((X,), lambda t, x, n=n: getattr(x, n)(1, keepdim=True)) for n in REDUCTIONS if n != "count_nonzero"],
    *[((X,), lambda t, x, n=n: getattr(t, n)(x, dim=(0, -1))) for n in REDUCTIONS if n not in ("prod", "all", "any")],
    *[((X,), lambda t, x, n=n: getattr(t, n)(x)) for n in ("sum", "mean", "var", "std", "prod", "max", "min", "norm")],
    *[((X,), lambda t, x, n=n: getattr(x, n)(1)) for n in ("max", "min", "sort", "median")],
    *[((X,), lambda t, x, n=n: getattr(t, n)(x, -1, True)) for n in ("max", "min", "argmax", "argmin", "sort")],
    *[((X,), lambda t, x, n=n: getattr(x, n)(axis=1)) for n in ("sum", "mean", "argmax", "cumsum", "unbind")],
    *[((X,), lambda t, x, p=p: t.norm(x, p, dim=-1)) for p in (1, 2, 3, float("inf"))],
    ((X,), lambda t, x: x.sum(1, keepdims=True)),
    ((X,), lambda t, x: x.var(-1, unbiased=False) + x.std(dim=-1, correction=0)),
    ((X,), lambda t, x: t.var_mean(x, dim=1)),
    ((X,), lambda t, x: x.median()),
    ((X,), lambda t, x: x.topk(2, dim=1)),
    ((X,), lambda t, x: t.topk(x, 3, largest=False).values),
    ((X,), lambda t, x: x.argsort(dim=0, descending=True)),
    ((X,), lambda t, x: t.cumsum(x, dim=-1)),
    ((X,), lambda t, x: t.softmax(x, dim=1) + x.log_softmax(-1)),
    ((X,), lambda t, x: x.aminmax()),
    # elementwise with further arguments
    ((X,), lambda t, x: t.clamp(x, -0.5, 1.0) + x.clamp(min=0.1) + x.clamp_max(0.3) + x.clip(0, 1)),
    ((X, X[:, :1]), lambda t, x, y: t.clamp(x, min=y)),
    ((X,), lambda t, x: t.pow(x, 3) + x.pow(2) + x**3),
    ((P,), lambda t, x: x**-0.5 + t.pow(2.0, x) + 2**x),
    ((P, X), lambda t, x, y: t.pow(x, y)),
    ((X,), lambda t, x: 1 - x / 2 + 3 * x - (-x) + 2 / (x * x + 1)),
    ((X,), lambda t, x: x.detach() // 0.7 + x % 0.7 + t.floor_divide(x.detach(), 0.3)),
    ((X, X[0]), lambda t, x, y: t.add(x, y, alpha=2) + x.sub(y, alpha=3)),
    ((X, X[0], P), lambda t, x, y, p: t.lerp(x, y, p) + x.addcmul(y, p, value=2) + t.addcdiv(x, y, p)),
    ((X, X[0]), lambda t, x, y: t.where(x > y, x, y) + x.where(x > 0, y) + t.where(x > 0, x, 0.0)),
    ((X,), lambda t, x: x.masked_fill(t.tensor(MASK), -1.0) + x.masked_fill(t.tensor(MASK[0]), float(2))),
    ((X,), lambda t, x: t.round(x, decimals=1)),
    ((X,), lambda t, x: t.nan_to_num(t.log(x).detach() * 0 + x, nan=1.0)),
    ((X,), lambda t, x: (x > 0) & (x < 1) | ~(x == 0) ^ (x > 1)),
    # products
    ((M, M), lambda t, x, y: x @ y + t.mm(x, y) + t.matmul(x, y.T)),
    ((X, X.transpose(0, 2, 1)), lambda t, x, y: t.bmm(x, y)),
    ((M, V), lambda t, x, v: x @ v + v @ x + t.mv(x, v)),
    ((V, W), lambda t, v, w: t.dot(v, w) + v @ w),
    ((V, W), lambda t, v, w: t.outer(v, w)),
    ((V, M, M), lambda t, v, x, y: t.addmm(v, x, y, beta=0.5, alpha=2)),
    ((X[:, :, :4], X[:, :, :4], X.transpose(0, 2, 1)[:, :4]), lambda t, a, x, y: t.baddbmm(a, x, y)),
    ((X, M), lambda t, x, m: t.einsum("bij,ik->bkj", x, m) + t.einsum("...ij,ik->...kj", x, m)),
    ((M, V), lambda t, m, v: t.einsum("ii", m) + t.einsum("i,i->", v, v) + t.einsum("ij,j", m, v).sum()),
    # shapes
    ((X,), lambda t, x: x.view(12, 5) + x.reshape(-1, 5) + x.flatten(0, 1) + t.flatten(x, 0, 1)),
    ((X,), lambda t, x: x.transpose(0, 2) + x.permute(2, 1, 0) + t.permute(x, (2, 1, 0)) + x.swapaxes(0, -1)),
    ((X,), lambda t, x: x.mT + x.transpose(-1, -2) + t.movedim(x, 1, 2) + x.movedim((0, 2), (0, 1))),
    ((M,), lambda t, x: x.T + x.t() + t.tril(x) + t.triu(x, diagonal=1) + x.tril(-1)),
    ((M,), lambda t, x: (t.diag(x), x.diagonal(1), x.diagonal(-1), t.trace(x))),
    ((V,), lambda t, v: t.diag(v) + t.diag(v, 0)),
    ((V,), lambda t, v: t.diag(v, 1) + t.diag(v, -1)),
    ((X,), lambda t, x: t.diagonal(x, dim1=1, dim2=2) + x.diagonal(0, -2, -1)),
    ((X,), lambda t, x: x.unsqueeze(1).squeeze(1) + x[None].squeeze() + t.unsqueeze(x, -1)[..., 0]),
    ((V,), lambda t, v: v.expand(3, -1) + t.broadcast_to(v, (3, 4)) + v.repeat(3, 1) + t.tile(v, (3, 1))),
    ((V,), lambda t, v: t.repeat_interleave(v, 2) + v.repeat_interleave(2, dim=0) + v.repeat(2)),
    ((X,), lambda t, x: [*x.split(2, dim=1), *t.split(x, [1, 3], dim=1), *x.chunk(3, -1), *t.unbind(x, 1)]),
    ((X, X), lambda t, x, y: t.cat((x, y), dim=1) + t.cat([y, x], 1)),
    ((X, X), lambda t, x, y: (t.stack([x, y], dim=-1), t.hstack([x, y]), t.vstack([x, y]), t.stack((x, y), dim=0))),
    ((X,), lambda t, x: t.flip(x, (0, 2)) + x.flip(0) + t.roll(x, 1, 0) + x.roll((1, 2), (0, 1))),
    ((X,), lambda t, x: t.roll(x, 3) + x.narrow(1, 0, 4) + x.unflatten(1, (2, 2)).flatten(1, 2)),
    ((V, W), lambda t, v, w: [*t.meshgrid(v, w, indexing="ij"), *t.meshgrid(v, w, indexing="xy")]),
    ((X, V[:1]), lambda t, x, v: t.broadcast_tensors(x, v)[1]),
    # picking
    ((X,), lambda t, x: (x[0], x[:, 1:3], x[..., -1], x[:, None, ::2], x[1, 2, 3], x[-1:, [0, 2]])),
    ((X,), lambda t, x: (x[t.tensor([0, 2])], x[:, t.tensor([[1, 0], [3, 3]])], x[t.tensor(MASK)], x[[0, 1], [2, 3]])),
    ((X,), lambda t, x: x[t.tensor(1) : t.tensor(3)]),
    ((X,), lambda t, x: t.gather(x, 0, t.tensor(IDS)) + x.gather(dim=0, index=t.tensor(IDS))),
    ((X,), lambda t, x: t.index_select(x, 1, t.tensor([0, 3, 3])) + x.index_select(dim=1, index=t.tensor([1, 1, 2]))),
    ((X,), lambda t, x: t.masked_select(x, t.tensor(MASK)) + x.masked_select(x > -9)[: int(MASK.sum())]),
    (
        (X, X[:2]),
        lambda t, x, s: x.scatter_add(0, t.tensor(IDS), s) + t.scatter_add(x, dim=0, index=t.tensor(IDS), src=s),
    ),
    ((X,), lambda t, x: x.scatter(0, t.tensor(IDS), 7.0) + t.scatter(x, 0, t.tensor(IDS), 1.0)),
    ((X, X[:1]), lambda t, x, s: x.scatter(0, t.tensor(IDS[:1]), s)),
    ((X, X[:2]), lambda t, x, s: t.index_add(x, 0, t.tensor([0, 2]), s, alpha=2) + x.index_fill(0, t.tensor([1]), 3.0)),
    ((X,), lambda t, x: t.take(x, t.tensor([0, 7, 7])) + x.select(0, 1)[0, :3]),
    ((X,), lambda t, x: (t.nonzero(x > 0), t.argwhere(x > 1), *t.nonzero(x > 0, as_tuple=True), *t.where(x > 0))),
    ((X,), lambda t, x: (x.detach().round().unique(), t.unique(x.detach().sign(), return_counts=True))),
    ((X,), lambda t, x: t.bincount(t.tensor([0, 2, 2]), minlength=5)),
    # making
    ((V,), lambda t, v: (t.arange(5), t.arange(1, 6, 2), t.arange(0, 1, 0.25), t.linspace(-1, 1, 5), t.eye(3, 2))),
    ((V,), lambda t, v: (t.zeros(2, 3), t.ones((2, 3)), t.full((2,), 7), t.zeros_like(v), t.full_like(v, 2.5))),
    ((V,), lambda t, v: (t.tril_indices(3, 4), t.triu_indices(3, 3, 1), v.new_zeros(2), v.new_tensor([1, 2]))),
    ((V,), lambda t, v: (v.new_ones(2, 3), v.new_full((2,), 3), t.tensor([1, 2], dtype=t.float64), v.type(t.float32))),
    ((V,), lambda t, v: (v.long(), v.int(), v.bool(), v.float(), v.double(), v.to(t.float32), v.type(t.LongTensor))),
    # nn.functional
    *[
        ((X,), lambda t, x, n=n: getattr(f(t), n)(x))
        for n in names(
            "relu relu6 silu mish selu elu celu softplus logsigmoid leaky_relu hardtanh hardsigmoid hardswish softsign "
            "tanhshrink gelu sigmoid tanh"
        )
    ],
    ((X,), lambda t, x: f(t).gelu(x, approximate="tanh") + f(t).elu(x, alpha=0.5) + f(t).celu(x, 2.0)),
    ((X,), lambda t, x: f(t).leaky_relu(x, 0.2) + f(t).softplus(x, beta=2.0) + f(t).hardtanh(x, -0.5, 0.7)),
    ((X,), lambda t, x: f(t).softmax(x, dim=-1) + f(t).log_softmax(x, dim=0) + f(t).softmin(x, dim=1)),
    ((X,), lambda t, x: f(t).softmax(x, dim=-1, dtype=t.float32)),
    ((ROWS[:, :4],), lambda t, x: f(t).glu(x) + f(t).glu(x, dim=-1)),
    ((X, V), lambda t, x, w: f(t).prelu(x, w) + f(t).prelu(x, w[:1])),
    ((X, R.uniform(-1, 1, (2, 5)), V[:2]), lambda t, x, w, b: f(t).linear(x, w, b) + f(t).linear(x, weight=w)),
    ((ROWS,), lambda t, w: f(t).embedding(t.tensor([[0, 5], [2, 2]]), w) + f(t).embedding(t.tensor([1, 1]), w)),
    ((X, V[:1] + np.ones(5), W[:1] + np.zeros(5)), lambda t, x, w, b: f(t).layer_norm(x, (5,), w, b)),
    ((X,), lambda t, x: f(t).layer_norm(x, (4, 5), eps=1e-3) + f(t).rms_norm(x, (5,), eps=1e-4)),
    ((X,), lambda t, x: f(t).pad(x, (1, 2), value=3.0)[:, :, :5] + f(t).pad(x, (0, 0, 1, -1))),
    ((X,), lambda t, x: f(t).normalize(x, dim=-1) + f(t).normalize(x)),
    ((X, P), lambda t, x, y: f(t).cosine_similarity(x, y, dim=-1) + f(t).pairwise_distance(x, y)),
    ((X,), lambda t, x: f(t).one_hot(t.tensor([0, 2, 1]), num_classes=4).double()),
    ((ROWS,), lambda t, x: f(t).cross_entropy(x, t.tensor(TARGET))),
    ((ROWS,), lambda t, x: f(t).cross_entropy(x, t.tensor(TARGET), label_smoothing=0.1, reduction="sum")),
    ((ROWS,), lambda t, x: f(t).cross_entropy(x, t.tensor(TARGET), weight=t.tensor(P[0, 0]), reduction="none")),
    ((ROWS,), lambda t, x: f(t).cross_entropy(x, t.tensor(TARGET), t.tensor(P[0, 0]), label_smoothing=0.2)),
    ((ROWS,), lambda t, x: f(t).cross_entropy(x, f(t).softmax(t.tensor(ROWS[::-1].copy()), dim=-1))),
    ((ROWS,), lambda t, x: f(t).nll_loss(x, t.tensor(TARGET), t.tensor(P[0, 0])) + f(t).nll_loss(x, t.tensor(TARGET))),
    ((X, P), lambda t, x, y: f(t).binary_cross_entropy_with_logits(x, y, pos_weight=t.tensor(P[0, 0]))),
    ((P, P[::-1].copy()), lambda t, x, y: f(t).binary_cross_entropy(x, y.detach())),
    *[
        ((X, P), lambda t, x, y, n=n, r=r: getattr(f(t), n)(x, y, reduction=r))
        for n in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
        for r in ("mean", "sum", "none")
    ],
    ((X,), lambda t, x: f(t).kl_div(f(t).log_softmax(x, -1), t.tensor(P), reduction="batchmean")),
    ((X, X, X), lambda t, q, k, v: f(t).scaled_dot_product_attention(q, k, v, is_causal=True)),
    ((X, X, X), lambda t, q, k, v: f(t).scaled_dot_product_attention(q, k, v, attn_mask=t.tensor(M))),
    ((X, X, X, M), lambda t, q, k, v, m: f(t).scaled_dot_product_attention(q, k, v, attn_mask=m, scale=0.3)),
    (
        (X, X, X),
        lambda t, q, k, v: f(t).scaled_dot_product_attention(
            q, k, v, t.full((4, 4), float("-inf"), dtype=t.float64).triu(1)
        ),
    ),
]


def flat(out: Any) -> list[Any]:
    if isinstance(out, tuple | list):
        return [y for part in out for y in flat(part)]
    return [out]


def arrays(package: Any, inputs: tuple[Any, ...], function: Any) -> tuple[list[Any], list[Any]]:
    """Every output's value, and the gradient of each input of a weighted sum of the floating outputs."""
    xs = [package.tensor(x, dtype=package.float64, requires_grad=True) for x in inputs]
    ys = flat(function(package, *xs))
    total: Any = 0
    for i, y in enumerate(ys):
        if hasattr(y, "requires_grad") and y.requires_grad:
            weight = np.cos(np.arange(y.numel()) + i).reshape(tuple(y.shape))
            total = total + (y * package.tensor(weight)).sum()
    if not isinstance(total, int):
        total.backward()
    values = [y.detach().numpy() if hasattr(y, "detach") else np.asarray(y) for y in ys]
    return values, [None if x.grad is None else x.grad.numpy() for x in xs]


@pytest.mark.parametrize(("inputs", "function"), LINES, ids=range(len(LINES)))
def test_value_and_gradient(inputs: tuple[Any, ...], function: Any) -> None:
    ours, our_gradients = arrays(tg, inputs, function)
    theirs, their_gradients = arrays(torch, inputs, function)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-6 if a.dtype == np.float32 else 1e-9, atol=1e-9)
    for g, h in zip(our_gradients, their_gradients):
        if g is None or h is None:  # a gradient that is zero everywhere may be left out
            assert (0 if g is None else abs(g).max()) + (0 if h is None else abs(h).max()) == 0
        else:
            np.testing.assert_allclose(g, h, rtol=1e-6, atol=1e-9)
