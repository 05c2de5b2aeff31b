"""Every op against NumPy, against finite differences to the second order, and against its definition: a line per op."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import tests.lines as lines
import tests.properties as p
import tinygrad_edu as tg
from tinygrad_edu import kernels
from tinygrad_edu.arrays import library, pieces
from tinygrad_edu.engine.tape import Op, registry
from tinygrad_edu.nn import functional as F
from tinygrad_edu.ops import arithmetic, attention, index, layer, loss, reduction, shape

C = p.Case
IDS = np.array([[1, 2, 1], [0, 1, 4]])
TARGET = np.array([1, -100, 3])
SEEN = np.random.default_rng(0).random((2, 1, 4, 6)) > 0.4
SEEN[0, 0, 1] = False  # a query that may read nothing
PICK = np.array([[0, 2], [2, 2], [1, 0]])
COUNTS = tg.Tensor([0.0, 4.0])


def gradient(x: tg.Tensor) -> np.ndarray:
    assert x.grad is not None
    return x.grad.array


def erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf)(x)


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def layer_norm(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def rms_norm(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def cross_entropy(x: np.ndarray, s: float) -> np.ndarray:
    log = np.log(softmax(x, 1))
    rows = [0.0 if t < 0 else -(1 - s) * row[t] - s * row.mean() for t, row in zip(TARGET, log, strict=True)]
    return np.array(rows)


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, seen: Any) -> np.ndarray:
    scores = np.where(seen, q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), -np.inf)
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(softmax(scores, -1)) @ v


WEIGHT = np.array([1.0, 0.5, 3.0, 2.0, 1.0])


def changed(x: tg.Tensor, change: Any) -> tg.Tensor:
    """What a change in place makes of a copy."""
    y = x * 1
    change(y)
    return y


TIES = {
    "max": lambda x: x.max(),
    "amax": lambda x: x.amax(0, keepdim=True),
    "max, an axis": lambda x: x.max(0, keepdim=True)[0],
    "min": lambda x: -(-x).min(),
    "amin": lambda x: -(-x).amin(0),
    "min, an axis": lambda x: -(-x).min(0)[0],
    "aminmax": lambda x: x.aminmax()[1],
    "cummax": lambda x: x.cummax(0)[0][-1],
    "topk": lambda x: x.topk(1)[0],
    "norm": lambda x: x.norm(math.inf),
    "max_pool1d": lambda x: F.max_pool1d(x.reshape(1, 1, 4), 4),
    "maximum": lambda x: tg.maximum(x[0], x[1]),
    "minimum": lambda x: -tg.minimum(-x[0], -x[3]),
    "fmax": lambda x: x[0].fmax(x[1]),
    "scatter_reduce": lambda x: x[:1].scatter_reduce(0, tg.zeros_like(x[1:]).long(), x[1:], "amax"),
}


def put(x: np.ndarray, v: np.ndarray) -> np.ndarray:
    y = x.copy()
    y[:, 1] = v
    return y


def put_where(x: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.where(PICK > 1, v, x)


def bce(z: tg.Tensor, y: tg.Tensor) -> tg.Tensor:
    return F.binary_cross_entropy_with_logits(z, y, reduction="none")


def plain_bce(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    return -(y * np.log(p) + (1 - y) * np.log(1 - p)).mean()


def add_short(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    z = x.copy()
    z[:2, 0] += y[0].sum(), 0
    z[1, 1] += y[1].sum()
    return z * z


def smooth_l1(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    d = np.abs(x - y)
    return np.where(d < 1, d * d / 2, d - 0.5)


PLAIN = [
    C("add", lambda x, y: x + y, np.add, ((3, 4), (3, 4))),
    C("add, a row", lambda x, y: x + y, np.add, ((3, 4), (4,))),
    C("add, both spread", lambda x, y: x + y, np.add, ((3, 1), (2, 1, 4))),
    C("add, no axes", lambda x, y: x + y, np.add, ((), (2, 3))),
    C("sub", lambda x, y: x - y, np.subtract, ((3, 4), (3, 1))),
    C("number minus", lambda x: 2 - x, lambda x: 2 - x, ((3, 4),)),
    C("mul", lambda x, y: x * y, np.multiply, ((3, 4), (4,))),
    C("mul, one tensor twice", lambda x: x * x, np.square, ((3, 4),)),
    C("div", lambda x, y: x / y, np.divide, ((3, 4), (4,)), 0.5, 2.0),
    C("number over", lambda x: 2 / x, lambda x: 2 / x, ((3, 4),), 0.5, 2.0),
    C("neg", lambda x: -x, np.negative, ((3, 4),)),
    C("pow", lambda x, y: x**y, np.power, ((3, 4), (4,)), 0.5, 2.0),
    C("pow_number 3", lambda x: x**3, lambda x: x**3, ((3, 4),)),
    C("pow_number 2", lambda x: x**2, lambda x: x**2, ((3, 4),)),
    C("pow_number 0", lambda x: x**0, lambda x: x**0, ((3, 4),)),
    C("pow_number -1.5", lambda x: x**-1.5, lambda x: x**-1.5, ((3, 4),), 0.5, 2.0),
    C("exp", lambda x: x.exp(), np.exp, ((3, 4),)),
    C("log", lambda x: x.log(), np.log, ((3, 4),), 0.5, 2.0),
    C("sqrt", lambda x: x.sqrt(), np.sqrt, ((3, 4),), 0.5, 2.0),
    C("tanh", lambda x: x.tanh(), np.tanh, ((3, 4),)),
    C("sigmoid", lambda x: x.sigmoid(), lambda x: 1 / (1 + np.exp(-x)), ((3, 4),)),
    C("erf", lambda x: x.erf(), erf, ((3, 4),)),
    C("relu", lambda x: x.relu(), lambda x: np.maximum(x, 0), ((3, 4),)),
    C("abs", lambda x: x.abs(), np.abs, ((3, 4),)),
    C("maximum", tg.maximum, np.maximum, ((3, 4), (4,))),
    C("where", lambda x, y: tg.where(x > y, x * x, y), lambda x, y: np.where(x > y, x * x, y), ((3, 4), (4,))),
    C("masked_fill", lambda x: x.masked_fill(PICK == 2, 7.0), lambda x: np.where(PICK == 2, 7.0, x), ((3, 2),)),
    C("tril", lambda x: tg.tril(x * x, 1), lambda x: np.tril(x * x, 1), ((2, 3, 4),)),
    C("triu", lambda x: tg.triu(x * x), lambda x: np.triu(x * x), ((3, 4),)),
    C("sum", lambda x: x.sum(), np.sum, ((3, 4),)),
    C("sum, an axis", lambda x: x.sum(1) ** 2, lambda x: x.sum(1) ** 2, ((3, 4, 2),)),
    C("sum, two kept", lambda x: x.sum((0, -1), keepdim=True), lambda x: x.sum((0, 2), keepdims=True), ((3, 4, 2),)),
    C("mean", lambda x: x.mean(-1) ** 2, lambda x: x.mean(-1) ** 2, ((3, 4),)),
    C("var", lambda x: x.var(1), lambda x: x.var(1, ddof=1), ((3, 4),)),
    C("amax", lambda x: x.amax((0, 2)), lambda x: x.max((0, 2)), ((3, 4, 2),)),
    C("max", lambda x: x.max(1), lambda x: (x.max(1), x.argmax(1)), ((3, 4),)),
    C("max, kept", lambda x: x.max(0, keepdim=True)[0] ** 2, lambda x: x.max(0, keepdims=True) ** 2, ((3, 4),)),
    C("logsumexp", lambda x: x.logsumexp(1), lambda x: np.log(np.exp(x).sum(1)), ((3, 4),)),
    C("reshape", lambda x: x.reshape(4, -1) ** 2, lambda x: x.reshape(4, -1) ** 2, ((2, 3, 4),)),
    C("flatten", lambda x: x.flatten(1), lambda x: x.reshape(2, -1), ((2, 3, 4),)),
    C("unsqueeze, squeeze", lambda x: x.unsqueeze(1).squeeze(-1), lambda x: x[:, None, :, 0], ((3, 4, 1),)),
    C("permute", lambda x: x.permute(2, 0, 1) ** 2, lambda x: x.transpose(2, 0, 1) ** 2, ((2, 3, 4),)),
    C("permute, negative", lambda x: x.permute(-1, -3, -2), lambda x: x.transpose(2, 0, 1), ((2, 3, 4),)),
    C("transpose", lambda x: x.transpose(0, -1) ** 2, lambda x: x.swapaxes(0, 2) ** 2, ((2, 3, 4),)),
    C("T, mT", lambda x: x.T.mT, lambda x: x.T.swapaxes(1, 2), ((2, 3, 4),)),
    C("expand", lambda x: x.expand(2, -1, 4) ** 2, lambda x: np.broadcast_to(x, (2, 3, 4)) ** 2, ((3, 1),)),
    C("cat", lambda x, y: tg.cat([x, y, x], 1) ** 2, lambda x, y: np.concatenate([x, y, x], 1) ** 2, ((2, 3), (2, 1))),
    C("stack", lambda x, y: tg.stack([x, y], 1), lambda x, y: np.stack([x, y], 1), ((2, 3), (2, 3))),
    C("split", lambda x: x.split([1, 3], 1), lambda x: (x[:, :1], x[:, 1:]), ((2, 4),)),
    C("split, a part used", lambda x: x.split(2, 1)[1] ** 2, lambda x: x[:, 2:4] ** 2, ((2, 5),)),
    C("chunk", lambda x: x.chunk(2)[0] ** 2, lambda x: x[:2] ** 2, ((3, 2),)),
    C("item", lambda x: x[1], lambda x: x[1], ((3, 4),)),
    C("slices", lambda x: x[..., ::-2, None] ** 2, lambda x: x[..., ::-2, None] ** 2, ((3, 4),)),
    C("index", lambda x: x[[0, 2, 0]] ** 2, lambda x: x[[0, 2, 0]] ** 2, ((3, 4),)),
    C("index, boolean", lambda x: x[PICK == 2] ** 2, lambda x: x[PICK == 2] ** 2, ((3, 2),)),
    C("gather", lambda x: x.gather(1, PICK) ** 2, lambda x: np.take_along_axis(x, PICK, 1) ** 2, ((3, 4),)),
    C("matmul", lambda x, y: x @ y, np.matmul, ((3, 4), (4, 2))),
    C("matmul, rows and a matrix", lambda x, y: x @ y, np.matmul, ((2, 5, 3, 4), (4, 2))),
    C("matmul, batches", lambda x, y: x @ y, np.matmul, ((5, 1, 2, 3), (4, 3, 2))),
    C("matmul, matrix and batches", lambda x, y: x @ y, np.matmul, ((2, 3), (4, 3, 2))),
    C("matmul, matrix and vector", lambda x, y: x @ y, np.matmul, ((2, 3, 4), (4,))),
    C("matmul, vector and matrix", lambda x, y: x @ y, np.matmul, ((4,), (2, 4, 3))),
    C("matmul, vectors", lambda x, y: x @ y, np.matmul, ((4,), (4,))),
    C("rsqrt", lambda x: x.rsqrt(), lambda x: x**-0.5, ((3, 4),), 0.5, 2.0),
    C("log2, reciprocal", lambda x: x.log2() * x.reciprocal(), lambda x: np.log2(x) / x, ((3, 4),), 0.5, 2.0),
    C("log1p", lambda x: x.log1p(), np.log1p, ((3, 4),), -0.5, 2.0),
    C("expm1", lambda x: x.expm1(), np.expm1, ((3, 4),)),
    C("sin", lambda x: x.sin(), np.sin, ((3, 4),)),
    C("cos", lambda x: x.cos(), np.cos, ((3, 4),)),
    C("silu", F.silu, lambda x: x / (1 + np.exp(-x)), ((3, 4),)),
    C("softplus", lambda x: F.softplus(x, 2.0), lambda x: np.log(1 + np.exp(2 * x)) / 2, ((3, 4),)),
    C("logsigmoid", F.logsigmoid, lambda x: -np.log(1 + np.exp(-x)), ((3, 4),)),
    C("leaky_relu", lambda x: F.leaky_relu(x, 0.1), lambda x: np.where(x > 0, x, 0.1 * x), ((3, 4),)),
    C("elu", lambda x: F.elu(x, 1.5), lambda x: np.where(x > 0, x, 1.5 * (np.exp(x) - 1)), ((3, 4),)),
    C("clamp", lambda x: x.clamp(-1, 0.5), lambda x: np.clip(x, -1, 0.5), ((3, 4),)),
    C("clamp, below", lambda x: x.clamp(min=0.1), lambda x: np.maximum(x, 0.1), ((3, 4),)),
    C("clamp, tensors", lambda x, y: x.clamp(y, y + 1), lambda x, y: np.clip(x, y, y + 1), ((3, 4), (4,))),
    C("minimum", tg.minimum, np.minimum, ((3, 4), (4,))),
    C("remainder", lambda x, y: x % y, np.mod, ((3, 4), (4,)), 0.5, 3.0),
    C("amin", lambda x: x.amin((0, 2)), lambda x: x.min((0, 2)), ((3, 4, 2),)),
    C("min", lambda x: x.min(1), lambda x: (x.min(1), x.argmin(1)), ((3, 4),)),
    C("std", lambda x: x.std((0, 1)), lambda x: x.std((0, 1), ddof=1), ((3, 4, 2),)),
    C("prod", lambda x: x.prod(1), lambda x: x.prod(1), ((3, 5),)),
    C("prod, two axes", lambda x: x.prod((0, -1), keepdim=True), lambda x: x.prod((0, 2), keepdims=True), ((3, 4, 2),)),
    C(
        "prod, zeros",
        lambda x: x.prod(1),
        lambda x: x.prod(1),
        (np.array([[5.0, 0, 2, 3], [0, 0, 4, 1], [1, 2, 3, 4]]),),
    ),
    C("norm", lambda x: x.norm(), np.linalg.norm, ((3, 4),)),
    C("norm, an axis", lambda x: x.norm(dim=-1), lambda x: np.linalg.norm(x, axis=-1), ((3, 4),)),
    C("norm, 1", lambda x: x.norm(1, 0), lambda x: np.abs(x).sum(0), ((3, 4),)),
    C("norm, 3", lambda x: x.norm(3, 0), lambda x: (np.abs(x) ** 3).sum(0) ** (1 / 3), ((3, 4),)),
    C("norm, inf", lambda x: x.norm(np.inf, 1), lambda x: np.abs(x).max(1), ((3, 4),)),
    C("cumsum", lambda x: x.cumsum(1) ** 2, lambda x: x.cumsum(1) ** 2, ((3, 4),)),
    C("sort", lambda x: x.sort(0)[0] ** 2, lambda x: np.sort(x, 0) ** 2, ((5, 4),)),
    C(
        "sort, descending",
        lambda x: x.sort(descending=True),
        lambda x: (-np.sort(-x), np.argsort(-x)),
        ((5, 4),),
    ),
    C("topk", lambda x: x.topk(2, 1), lambda x: (-np.sort(-x)[:, :2], np.argsort(-x)[:, :2]), ((3, 4),)),
    C("topk, smallest", lambda x: x.topk(2, 0, largest=False)[0] ** 2, lambda x: np.sort(x, 0)[:2] ** 2, ((4, 3),)),
    C("unbind", lambda x: x.unbind(1), lambda x: tuple(x.swapaxes(0, 1)), ((2, 3, 4),)),
    C("unbind, one used", lambda x: x.unbind(-1)[2] ** 2, lambda x: x[..., 2] ** 2, ((2, 4),)),
    C("flip", lambda x: x.flip(0, -1) ** 2, lambda x: x[::-1, :, ::-1] ** 2, ((2, 3, 4),)),
    C("roll", lambda x: x.roll((1, -2), (0, 1)) ** 2, lambda x: np.roll(x, (1, -2), (0, 1)) ** 2, ((3, 4),)),
    C("roll, flat", lambda x: x.roll(2), lambda x: np.roll(x, 2), ((3, 4),)),
    C(
        "pad",
        lambda x: F.pad(x, (1, 2, 0, 1), value=3.0) ** 2,
        lambda x: np.pad(x, ((0, 0), (0, 1), (1, 2)), constant_values=3.0) ** 2,
        ((2, 3, 4),),
    ),
    C("pad, negative", lambda x: F.pad(x, (-1, 1)) ** 2, lambda x: np.pad(x[:, 1:], ((0, 0), (0, 1))) ** 2, ((2, 3),)),
    C("repeat", lambda x: x.repeat(2, 1, 3) ** 2, lambda x: np.tile(x, (2, 1, 3)) ** 2, ((2, 3),)),
    C("repeat_interleave", lambda x: x.repeat_interleave(2, 1), lambda x: np.repeat(x, 2, 1), ((2, 3),)),
    C("movedim", lambda x: x.movedim(0, -1) ** 2, lambda x: np.moveaxis(x, 0, -1) ** 2, ((2, 3, 4),)),
    C("unflatten", lambda x: x.unflatten(1, (2, -1)) ** 2, lambda x: x.reshape(3, 2, 2) ** 2, ((3, 4),)),
    C("narrow", lambda x: x.narrow(1, 1, 2) ** 2, lambda x: x[:, 1:3] ** 2, ((3, 4),)),
    C("index_select", lambda x: x.index_select(1, [2, 0, 2]) ** 2, lambda x: x[:, [2, 0, 2]] ** 2, ((3, 4),)),
    C(
        "scatter_add",
        lambda x, y: x.scatter_add(1, PICK, y) ** 2,
        lambda x, y: np.stack([r + np.bincount(i, v, 4) for r, i, v in zip(x, PICK, y)]) ** 2,
        ((3, 4), (3, 2)),
    ),
    C("einsum, product", lambda x, y: tg.einsum("bij,jk->bik", x, y), lambda x, y: x @ y, ((2, 3, 4), (4, 5))),
    C(
        "einsum, summed alone",
        lambda x, y: tg.einsum("ijk,jl->li", x, y),
        lambda x, y: np.einsum("ijk,jl->li", x, y),
        ((2, 3, 4), (3, 5)),
    ),
    C("einsum, diagonal", lambda x: tg.einsum("iji->j", x), lambda x: np.einsum("iji->j", x), ((3, 4, 3),)),
    C(
        "einsum, dots",
        lambda x, y: tg.einsum("...ij,...j", x, y),
        lambda x, y: np.einsum("...ij,...j", x, y),
        ((2, 1, 3, 4), (5, 4)),
    ),
    C(
        "einsum, three",
        lambda x, y, z: tg.einsum("ab,bc,cd->ad", x, y, z),
        lambda x, y, z: x @ y @ z,
        ((2, 3), (3, 4), (4, 2)),
    ),
    C("diagonal", lambda x: x.diagonal(1, 2, 0) ** 2, lambda x: x.diagonal(1, 2, 0) ** 2, ((4, 2, 3),)),
    C("scatter_add, short", lambda x, y: x.scatter_add(1, [[0, 0], [1, 1]], y) ** 2, add_short, ((3, 4), (2, 2))),
    C("gather, short", lambda x: x.gather(1, [[0, 3]]) ** 2, lambda x: x[:1, [0, 3]] ** 2, ((3, 4),)),
    C("logaddexp", lambda x, y: x.logaddexp(y), np.logaddexp, ((3, 4), (4,))),
    C("binary_cross_entropy", F.binary_cross_entropy, plain_bce, ((3, 4), (3, 4)), 0.1, 0.9),
    C("outer", tg.outer, np.outer, ((3,), (4,))),
    C("where, methods", lambda x, y: x.where(PICK == 2, y), lambda x, y: np.where(PICK == 2, x, y), ((3, 2), (3, 2))),
    C("set", lambda x, v: changed(x, lambda y: y.__setitem__((slice(None), 1), v)), put, ((3, 4), (3,))),
    C("set, boolean", lambda x, v: changed(x, lambda y: y.__setitem__(PICK > 1, v)), put_where, ((3, 2), ())),
    C("add_", lambda x, y: changed(x, lambda z: z.add_(y, alpha=3)), lambda x, y: x + 3 * y, ((3, 4), (4,))),
    C("mul_", lambda x, y: changed(x, lambda z: z.mul_(y)), lambda x, y: x * y, ((3, 4), (4,))),
    C("mul_ by itself", lambda x: changed(x, lambda z: z.mul_(z)), lambda x: x * x, ((3, 4),)),
    C("exp_", lambda x: changed(x, lambda z: z.exp_()), np.exp, ((3, 4),)),
    C("copy_", lambda x, y: changed(x, lambda z: z.copy_(y)), lambda x, y: y + 0 * x, ((3, 4), (3, 4))),
    C(
        "masked_fill_",
        lambda x: changed(x, lambda z: z.masked_fill_(PICK == 2, 7.0)),
        lambda x: np.where(PICK == 2, 7.0, x),
        ((3, 2),),
    ),
    C("binary_cross_entropy_with_logits", bce, lambda z, y: np.log(1 + np.exp(z)) - z * y, ((3, 4), (3, 4)), 0.1, 0.9),
    C("mse_loss", F.mse_loss, lambda x, y: ((x - y) ** 2).mean(), ((3, 4), (3, 4))),
    C("l1_loss", lambda x, y: F.l1_loss(x, y, reduction="sum"), lambda x, y: np.abs(x - y).sum(), ((3, 4), (3, 4))),
    C("smooth_l1_loss", lambda x, y: F.smooth_l1_loss(x, y, reduction="none"), smooth_l1, ((3, 4), (3, 4))),
    C(
        "kl_div",
        lambda x, y: F.kl_div(x, y, reduction="sum"),
        lambda x, y: (y * (np.log(y) - x)).sum(),
        ((3, 4), (3, 4)),
        0.1,
        0.9,
    ),
    C(
        "nll_loss",
        lambda x: F.nll_loss(x, TARGET, WEIGHT, reduction="mean"),
        lambda x: -(x[0, 1] * 0.5 + x[2, 3] * 2) / 2.5,
        ((3, 5),),
    ),
    C("clone", lambda x: x.clone() * x, lambda x: x * x, ((3, 4),)),
    C("to", lambda x: x.to(x.dtype) * x, lambda x: x * x, ((3, 4),)),
]
FUSED = [
    C("softmax", lambda x: F.softmax(x, -1), lambda x: softmax(x, -1), ((2, 3, 4),)),
    C("softmax, axis 0", lambda x: F.softmax(x, 0), lambda x: softmax(x, 0), ((3, 4),)),
    C("log_softmax", lambda x: F.log_softmax(x, 1), lambda x: np.log(softmax(x, 1)), ((2, 3, 4),)),
    C("gelu", F.gelu, lambda x: x * (1 + erf(x / 2**0.5)) / 2, ((3, 4),)),
    C(
        "gelu, tanh",
        lambda x: F.gelu(x, "tanh"),
        lambda x: x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))),
        ((3, 4),),
    ),
    C("linear", F.linear, lambda x, w, b: x @ w.T + b, ((2, 3, 4), (5, 4), (5,))),
    C("linear, no bias", F.linear, lambda x, w: x @ w.T, ((3, 4), (5, 4))),
    C("embedding", lambda w: F.embedding(IDS, w), lambda w: w[IDS], ((5, 3),)),
    C("prod", lambda x: x.prod((0, 2)), lambda x: x.prod((0, 2)), ((2, 3, 3),)),
    C("prod, zeros", lambda x: x.prod(0), lambda x: x.prod(0), (np.array([[5.0, 0, 2], [0, 0, 4], [1, 2, 3]]),)),
    C("rms_norm", lambda x, w: F.rms_norm(x, (4,), w, 1e-5), lambda x, w: rms_norm(x) * w, ((2, 3, 4), (4,))),
    C("rms_norm, bare", lambda x: F.rms_norm(x, 4, eps=1e-5), rms_norm, ((3, 4),)),
    C("layer_norm, bare", lambda x: F.layer_norm(x, 4), lambda x: layer_norm(x, (1,)), ((3, 4),)),
    C(
        "layer_norm",
        lambda x, w, b: F.layer_norm(x, (4,), w, b),
        lambda x, w, b: layer_norm(x, (2,)) * w + b,
        ((2, 3, 4), (4,), (4,)),
    ),
    C(
        "layer_norm, two axes",
        lambda x, w: F.layer_norm(x, (3, 4), w),
        lambda x, w: layer_norm(x, (1, 2)) * w,
        ((2, 3, 4), (3, 4)),
    ),
    C(
        "cross_entropy",
        lambda x: F.cross_entropy(x, TARGET, reduction="none"),
        lambda x: cross_entropy(x, 0),
        ((3, 5),),
    ),
    C(
        "cross_entropy, smoothed mean",
        lambda x: F.cross_entropy(x, TARGET, label_smoothing=0.1),
        lambda x: cross_entropy(x, 0.1).sum() / 2,
        ((3, 5),),
    ),
    C(
        "attention, causal",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda q, k, v: attend(q, k, v, np.tri(4, 6, 2, dtype=bool)),
        ((2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 2)),
    ),
    C(
        "attention, mask",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, SEEN),
        lambda q, k, v: attend(q, k, v, SEEN),
        ((2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 2)),
    ),
    C(
        "attention, mask and causal",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, SEEN[:, 0], is_causal=True),
        lambda q, k, v: attend(q, k, v, SEEN[:, 0] & np.tri(4, 6, 2, dtype=bool)),
        ((2, 4, 5), (2, 6, 5), (2, 6, 2)),
    ),
    C(
        "attention, one head",
        F.scaled_dot_product_attention,
        lambda q, k, v: attend(q, k, v, True),
        ((4, 5), (6, 5), (6, 2)),
    ),
    C(
        "attention, one tensor thrice",
        lambda x: F.scaled_dot_product_attention(x, x, x),
        lambda x: attend(x, x, x, True),
        ((4, 5),),
    ),
]
ROUGH = [
    C("equal", lambda x, y: x == y, np.equal, (PICK, PICK[::-1]), smooth=False),
    C("not_equal", lambda x, y: x != y, np.not_equal, (PICK, PICK[::-1]), smooth=False),
    C("less", lambda x, y: x < y, np.less, (PICK, PICK[::-1]), smooth=False),
    C("less_equal", lambda x, y: x <= y, np.less_equal, (PICK, PICK[::-1]), smooth=False),
    C("greater", lambda x: x > 1, lambda x: x > 1, (PICK,), smooth=False),
    C("greater_equal", lambda x: x >= 1, lambda x: x >= 1, (PICK,), smooth=False),
    C("logical", lambda x: ~(x > 1) & (x < 1) | (x == 2), lambda x: (x < 1) | (x == 2), (PICK,), smooth=False),
    C("floor", lambda x: x.floor(), np.floor, ((3, 4),), smooth=False),
    C("ceil", lambda x: x.ceil(), np.ceil, ((3, 4),), smooth=False),
    C("round", lambda x: x.round(1), lambda x: x.round(1), ((3, 4),), smooth=False),
    C("floor_divide", lambda x: x // 0.7, lambda x: x // 0.7, ((3, 4),), smooth=False),
    C("sign", lambda x: x.sign(), np.sign, ((3, 4),), smooth=False),
    C("any", lambda x: (x > 1).any(1), lambda x: (x > 1).any(1), ((3, 4),), smooth=False),
    C("all", lambda x: (x > 1).all(), lambda x: (x > 1).all(), ((3, 4),), smooth=False),
    C("argmin", lambda x: x.argmin(0, keepdim=True), lambda x: x.argmin(0, keepdims=True), ((3, 4),), smooth=False),
    C("argsort", lambda x: x.argsort(0), lambda x: np.argsort(x, 0), ((3, 4),), smooth=False),
    C("isnan", lambda x: (x * 0).isnan() | x.isinf(), lambda x: np.zeros((3, 4), bool), ((3, 4),), smooth=False),
    C("argmax", lambda x: x.argmax(1), lambda x: x.argmax(1), ((3, 4),), smooth=False),
    C("argmax of all", lambda x: x.argmax(), lambda x: x.argmax(), ((3, 4),), smooth=False),
    C("detach", lambda x: x.detach(), lambda x: x, ((3, 4),), smooth=False),
]
PLAIN, FUSED, ROUGH = PLAIN + lines.PLAIN, FUSED + lines.FUSED, ROUGH + lines.ROUGH
EVERY = PLAIN + FUSED + ROUGH
# What names lengths, masks or places of its own, and so cannot be given other shapes; unbind of nothing has no output.
FIXED = {
    *(
        "flatten",
        "expand",
        "split",
        "split, a part used",
        "gather",
        "unbind",
        "unbind, one used",
        "narrow",
        "where, methods",
    ),
    *("masked_fill", "masked_fill_", "scatter_add", "set, boolean", "index", "index, boolean", "index_select", "topk"),
    *(
        "gather, short",
        "scatter_add, short",
        "diagonal",
        "topk, smallest",
        "pad, negative",
        "unflatten",
        "layer_norm",
        "layer_norm, bare",
        "layer_norm, two axes",
        "item",
    ),
    *("rms_norm", "rms_norm, bare", "cross_entropy", "cross_entropy, smoothed mean", "nll_loss", "embedding", "set"),
    *lines.FIXED,
    *("attention, causal", "attention, mask", "attention, mask and causal", "attention, one head", "reshape"),
}


def each(cases: list[p.Case]) -> Any:
    return pytest.mark.parametrize("case", cases, ids=lambda c: c.name)


@each(EVERY)
def test_forward_is_numpy(case: p.Case) -> None:
    p.forward_is_numpy(case)


@each(PLAIN + FUSED)
def test_first_derivative(case: p.Case) -> None:
    p.first_derivative(case)


@each(PLAIN + FUSED)
def test_second_derivative(case: p.Case) -> None:
    p.second_derivative(case)


@each(EVERY)
def test_keeps_float32(case: p.Case) -> None:
    p.keeps_float32(case)


@each(PLAIN + FUSED)
def test_takes_strided_input(case: p.Case) -> None:
    p.takes_strided_input(case)


@each(PLAIN + FUSED)
def test_large_arrays(case: p.Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where arrays are large: formulas go over them piece by piece, and what a condition chooses is put together."""
    monkeypatch.setattr(pieces, "PIECE", 16)
    monkeypatch.setattr(library, "FEW_TO_CHOOSE", 0)
    p.forward_is_numpy(case)
    p.first_derivative(case)
    p.takes_strided_input(case)


@each([c for c in PLAIN + FUSED if c.name not in FIXED and all(isinstance(x, tuple) for x in c.inputs)])
def test_takes_lengths_0_and_1(case: p.Case) -> None:
    p.takes_lengths_0_and_1(case)


@each(PLAIN + FUSED)
def test_writes_to_no_input(case: p.Case) -> None:
    p.writes_to_no_input(case)


@each(FUSED)
def test_kernel_is_definition(case: p.Case) -> None:
    p.kernel_is_definition(case)


def test_the_exceptions_are_cases() -> None:
    assert {c.name for c in PLAIN + FUSED} >= FIXED


def test_every_op_is_held_to_the_properties() -> None:
    """Walks the registry: an op that no case above runs, forward or backward, fails here."""
    elsewhere = {"dropout", "transfer"}  # random, and between devices: tested below and with a GPU
    ran = p.ops_run_by(EVERY)
    with tg.definitions():
        ran |= p.ops_run_by(FUSED)
    assert p.all_ops() - ran - elsewhere == {"alias"}  # what a recorded pass over a fused op starts from


def test_definitions_use_no_kernel() -> None:
    """A definition is made of primitive ops: running it touches no module of kernels but for erf."""
    fused = {name for name in p.all_ops() if registry[name].definition is not None}
    assert fused == {
        "softmax", "log_softmax", "gelu", "linear", "embedding", "layer_norm", "rms_norm", "cross_entropy", "prod",
        "cumprod", "scaled_dot_product_attention", "silu", "rnn", "gru", "lstm",
    }  # fmt: skip
    with tg.definitions():
        assert not p.ops_run_by(FUSED) & fused


@pytest.mark.parametrize("name", sorted(p.all_ops()))
def test_every_formula_names_what_is_there(name: str) -> None:
    op = registry[name]
    from string import Formatter

    texts = {"forward": op.__doc__ or "", **op.formulas}
    texts |= {n: op.__dict__["d" + n].__doc__ or "" for n in op.inputs if "d" + n in op.__dict__}
    known = {"out", *op.inputs, *op.static}
    for text in texts.values():
        assert text
        assert {field for _, field, _, _ in Formatter().parse(text) if field is not None} <= known
    assert set(op.formulas) <= set(op.inputs)


def test_an_op_that_reads_what_is_not_there_is_refused() -> None:
    with pytest.raises(TypeError, match="a rule reads"):

        class Wrong(Op):
            """{out} = {x}"""

            def forward(x):
                return x

            def dx(g, y):
                """d{x} = d{out}"""
                return g * y

    registry.pop("wrong", None)


class TestAdjointPairs:
    """⟨A x, y⟩ = ⟨x, Aᵀ y⟩ for every pair that says it is one."""

    @pytest.mark.parametrize(
        ("forward", "back", "x_shape"),
        [
            (lambda x: shape.Expand(x, shape=(2, 3, 4)), lambda y: shape.SumTo(y, shape=(3, 1)), (3, 1)),
            (lambda x: shape.Reshape(x, shape=(4, 3)), lambda y: shape.Reshape(y, shape=(2, 6)), (2, 6)),
            (shape.Transpose, shape.Transpose, (2, 3, 4)),
            (lambda x: shape.Permute(x, axes=(2, 0, 1)), lambda y: shape.Permute(y, axes=(1, 2, 0)), (2, 3, 4)),
            (
                lambda x: shape.Narrow(x, axis=1, start=1, stop=3),
                lambda y: shape.Widen(y, axis=1, start=1, length=4),
                (2, 4),
            ),
            (
                lambda x: index.GetItem(x, index=(PICK[0], slice(None))),
                lambda y: index.PutAdd(y, index=(PICK[0], slice(None)), shape=(3, 4)),
                (3, 4),
            ),
            (
                lambda x: index.Gather(x, PICK, axis=1),
                lambda y: index.ScatterAdd(y, PICK, axis=1, shape=(3, 4)),
                (3, 4),
            ),
            (lambda x: reduction.Sum(x, axes=(0,)), lambda y: shape.Expand(y, shape=(3, 4)), (3, 4)),
        ],
    )
    def test_inner_products_agree(self, forward: Any, back: Any, x_shape: tuple[int, ...]) -> None:
        rng = np.random.default_rng(0)
        x = rng.standard_normal(x_shape)
        image = forward(x)
        y = rng.standard_normal(image.shape)
        assert np.isclose((image * y).sum(), (x * back(y)).sum(), rtol=1e-12)


class TestDropout:
    def test_keeps_in_expectation(self) -> None:
        tg.manual_seed(0)
        y = F.dropout(tg.ones(200, 100), 0.25).array
        assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.75)}
        assert abs((y == 0).mean() - 0.25) < 0.01

    def test_gradient_is_the_mask(self) -> None:
        x = tg.ones(4, 5, requires_grad=True)
        y = F.dropout(x, 0.5)
        y.sum().backward()
        np.testing.assert_array_equal(gradient(x), y.array)

    def test_recorded_pass_replays_the_mask(self) -> None:
        x = tg.Tensor(np.full((4, 5), 3.0), requires_grad=True)
        y = F.dropout(x * x, 0.5)
        (g,) = tg.grad(y.sum(), x, create_graph=True)
        (h,) = tg.grad(g.sum(), x)
        np.testing.assert_allclose(h.array, y.array / 9 * 2)

    def test_samples_drop_the_same_however_the_batch_is_cut(self) -> None:
        from tinygrad_edu.engine.modes import setting

        x = tg.ones(6, 7)
        tg.manual_seed(3)
        whole = F.dropout(x, 0.5).array
        tg.manual_seed(3)
        with setting(first_sample=4):
            part = F.dropout(x[4:], 0.5).array
        np.testing.assert_array_equal(whole[4:], part)

    def test_ends(self) -> None:
        assert (F.dropout(tg.ones(9), 1.0).array == 0).all()
        assert (F.dropout(tg.ones(9), 0.0).array == 1).all()
        with pytest.raises(ValueError, match=r"p is a probability and must be from 0 to 1, got 1\.5"):
            F.dropout(tg.ones(9), 1.5)

    def test_attention_drops_weights(self) -> None:
        tg.manual_seed(0)
        v = tg.ones(2, 40, 3)
        out = F.scaled_dot_product_attention(tg.zeros(2, 40, 3), tg.zeros(2, 40, 3), v, dropout_p=0.5).array
        assert out.std() > 0
        assert abs(out.mean() - 1) < 0.1


class TestValues:
    """Values that other systems got wrong."""

    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "uint8", "bool"])
    def test_where_keeps_every_bit(self, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(library, "FEW_TO_CHOOSE", 0)
        rng = np.random.default_rng(0)
        condition = rng.random((3, 1, 5)) > 0.5
        odd = [0.0, -0.0, np.nan, np.inf, -np.inf] if dtype.startswith("f") else [0, 1, 2, 3, 0]
        rows = np.array([odd, odd[::-1]]).astype(dtype)
        pairs = [
            (rows, rows[::-1]),
            (rows[:1].T, rows[1]),
            *((a, b) for x in odd for a, b in [(rows, x), (x, rows)]),
        ]
        for x, y in pairs:
            x, y = (np.asarray(each, dtype) for each in (x, y))
            for some in (condition, condition[:1, :, 1:2], condition[..., ::-1]):
                assert library.where(some, x, y).tobytes() == np.where(some, x, y).tobytes()

    @pytest.mark.parametrize("count", [4, 20_000])
    def test_a_boolean_of_foreign_memory_holds_unless_all_its_bits_are_0(self, count: int) -> None:
        condition = tg.from_numpy(np.resize(np.array([0, 2, 255, 1], np.uint8), count).view(bool))
        found = tg.where(condition, tg.full((count,), 3.0), tg.full((count,), 7.0))
        np.testing.assert_array_equal(found.array, np.resize([7.0, 3.0, 3.0, 3.0], count))

    def test_chain_rule_through_shared_values(self) -> None:
        a, b = (tg.Tensor(np.array(v), requires_grad=True) for v in (1.5, -2.0))
        d, m = a - b, a * b
        y = d * m + m * m + d
        y.backward()
        assert (y.item(), gradient(a).item(), gradient(b).item()) == (2.0, 3.0, -1.75)

    def test_broadcast_gradients_have_the_operands_shapes(self) -> None:
        a, b, c = tg.Tensor([[1.0], [-2], [4]]), tg.Tensor([[0.5, 1, 1.5, 2]]), tg.Tensor(3.0)
        for t in (a, b, c):
            t.requires_grad_()
        f = (a * b * c).sum()
        f.backward()
        assert f.item() == 45
        assert gradient(a).tolist() == [[15.0]] * 3
        assert gradient(b).tolist() == [[9.0] * 4]
        assert gradient(c).shape == ()
        assert gradient(c).item() == 15
        w = tg.zeros(1, 3, requires_grad=True)
        (w + tg.zeros(2, 4, 3)).sum().backward()
        assert gradient(w).tolist() == [[8.0] * 3]

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize(
        ("values", "function", "slope"),
        [
            ([-0.25, -9.0, 4.0], lambda x: tg.where(x > 0, tg.where(x > 0, x, 1.0).sqrt(), 3 * x), [3.0, 3.0, 0.25]),
            ([1.0, 6.0], lambda x: tg.where(COUNTS == 0, 0.0, x / tg.where(COUNTS == 0, 1.0, COUNTS)), [0.0, 0.25]),
            ([90.0], lambda x: tg.where(x < 1, tg.where(x < 1, x, 0.0).exp(), 2 * x), [2.0]),
        ],
        ids=["sqrt", "division", "exp"],
    )
    def test_no_nan_through_a_guarded_where(self, values: list[float], function: Any, slope: list[float]) -> None:
        x = tg.Tensor(values, requires_grad=True)
        function(x).sum().backward()
        assert gradient(x).tolist() == slope

    def test_equal_maxima_share_one_gradient(self) -> None:
        x = tg.Tensor([7.0, 7, 2, 7], requires_grad=True)
        x.max().backward()
        np.testing.assert_allclose(gradient(x), np.array([1 / 3, 1 / 3, 0, 1 / 3]), rtol=1e-6)
        a, b = tg.tensor(4.0, requires_grad=True), tg.tensor(4.0, requires_grad=True)
        tg.maximum(a, b).backward()
        assert (gradient(a).item(), gradient(b).item()) == (0.5, 0.5)

    @pytest.mark.parametrize("function", TIES.values(), ids=TIES)
    def test_equal_extremes_get_one_gradient_in_all(self, function: Any) -> None:
        x = tg.Tensor(np.array([7.0, 7.0, 2.0, 7.0]), requires_grad=True)
        function(x).sum().backward()
        assert gradient(x)[2] == 0
        assert (gradient(x) >= 0).all()
        assert math.isclose(gradient(x).sum(), 1.0)

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("p", [2, 1, 3, math.inf])
    def test_the_norm_of_zeros_has_gradient_0(self, p: float) -> None:
        x = tg.zeros(3, requires_grad=True)
        for power in (1, 2):
            x.grad = None
            (x.norm(p) ** power).backward()
            assert gradient(x).tolist() == [0.0] * 3
        x.grad = None
        (x * x).sum().sqrt().backward()  # what `norm` is for
        assert np.isnan(gradient(x)).all()

    def test_the_unit_vector_of_one_large_entry(self) -> None:
        x = tg.tensor([[1e4, 1.0]], requires_grad=True)
        F.normalize(x)[0, 0].backward()
        assert gradient(x)[0, 0] == pytest.approx(1e-12, rel=1e-6, abs=0)  # what the other adds up to, not 1 − 1

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize(
        ("values", "slope"),
        [
            ([5.0, 0.0, 2.0, 3.0], [0.0, 30.0, 0.0, 0.0]),
            ([0.0, 0.0, 4.0], [0.0, 0.0, 0.0]),
            ([[1.0, 2.0], [0.0, 7.0]], [[2.0, 1.0], [7.0, 0.0]]),
        ],
    )
    def test_products_of_zeros(self, values: list[Any], slope: list[Any]) -> None:
        for context in (nullcontext(), tg.definitions()):
            x = tg.Tensor(values, requires_grad=True)
            with context:
                x.prod(-1).sum().backward()
            assert gradient(x).tolist() == slope

    @pytest.mark.parametrize(
        ("function", "slope"),
        [
            (lambda x: x.clamp(0, 1), [0, 10, 10, 10, 0]),
            (lambda x: x.clamp(tg.zeros(1), tg.ones(1)), [0, 10, 10, 10, 0]),
            (lambda x: changed(x, lambda y: y.clamp_(0, 1)), [0, 10, 10, 10, 0]),
            (lambda x: F.hardtanh(x, 0, 1), [0, 0, 10, 0, 0]),
            (lambda x: F.relu6(6 * x) / 6, [0, 0, 10, 0, 0]),
            (F.relu, [0, 0, 10, 10, 10]),
        ],
        ids=["clamp", "clamp, tensors", "clamp_", "hardtanh", "relu6", "relu"],
    )
    def test_the_gradient_at_a_bound(self, function: Any, slope: list[float]) -> None:
        x = tg.Tensor([-1.0, 0.0, 0.5, 1.0, 2.0], requires_grad=True)
        function(x).backward(tg.full((5,), 10.0))
        np.testing.assert_allclose(gradient(x), slope, rtol=1e-6)

    @pytest.mark.filterwarnings("error")
    def test_power_at_zero(self) -> None:
        a, b = tg.Tensor([0.0, 3.0], requires_grad=True), tg.Tensor([1.0, 2.0], requires_grad=True)
        (a**b).sum().backward()
        assert gradient(a).tolist() == [1.0, 6.0]
        np.testing.assert_allclose(gradient(b), np.array([0, 9 * np.log(3)]), rtol=1e-6)
        for base, exponent, slope in ((-2.0, 3, 12.0), (0.0, 0, 0.0), (0.0, 2, 0.0)):
            n = tg.tensor(base, requires_grad=True)
            y = n**exponent
            y.backward()
            assert (y.item(), gradient(n).item()) == (base**exponent, slope)

    def test_a_row_that_sees_nothing_is_zero(self) -> None:
        s = tg.Tensor([[0.0, math.log(3)], [0.0, 0.0]], requires_grad=True)
        v = tg.Tensor([[4.0], [8.0]], requires_grad=True)
        hidden = np.array([[False, False], [True, True]])
        out = F.softmax(s.masked_fill(hidden, -math.inf), -1) @ v
        out.sum().backward()
        np.testing.assert_allclose(out.array, np.array([[7.0], [0.0]]), rtol=1e-6)
        np.testing.assert_allclose(gradient(v), np.array([[0.25], [0.75]]), rtol=1e-6)
        np.testing.assert_allclose(gradient(s), np.array([[-0.75, 0.75], [0, 0]]), rtol=1e-6)

    def test_picked_twice_gets_both_gradients(self) -> None:
        x = tg.Tensor([0.1, 0.2], requires_grad=True)
        x[np.array([0, 0, 1, 0])].backward(tg.Tensor([1.0, 2, 4, 8]))
        assert gradient(x).tolist() == [11.0, 4.0]
        w = tg.zeros(4, 2, requires_grad=True)
        F.embedding(np.array([[1, 3, 1], [1, 0, 3]]), w).sum().backward()
        assert gradient(w).tolist() == [[1, 1], [3, 3], [0, 0], [2, 2]]

    @pytest.mark.parametrize(
        ("key", "upstream", "expected"),
        [
            (slice(1, 3), [1, 1], [0, 1, 1, 0, 0, 0]),
            (slice(5, 0, -3), [10, 20], [0, 0, 20, 0, 0, 10]),
            (slice(4, 1, -7), [9], [0, 0, 0, 0, 9, 0]),
        ],
    )
    def test_slices(self, key: slice, upstream: list[float], expected: list[float]) -> None:
        x = tg.zeros(6, requires_grad=True)
        x[key].backward(tg.Tensor(np.array(upstream, np.float32)))
        assert gradient(x).tolist() == expected

    def test_an_element_of_each_row(self) -> None:
        x = tg.zeros(2, 3, requires_grad=True)
        y = x[..., None, -1]
        y.sum().backward()
        assert y.shape == (2, 1)
        assert gradient(x).tolist() == [[0, 0, 1], [0, 0, 1]]

    def test_permute_goes_back_by_the_inverse(self) -> None:
        for axes in ((2, 0, 1), (-1, -3, -2)):
            x = tg.zeros(2, 3, 4, requires_grad=True)
            x.permute(axes).backward(tg.arange(24).reshape(4, 2, 3).float())
            g = gradient(x)
            assert (g[1, 2, 3], g[0, 1, 2], g[1, 0, 0]) == (23, 13, 3)

    def test_products_with_vectors(self) -> None:
        a, b = tg.Tensor([[1.0, 2], [3, 4]], requires_grad=True), tg.Tensor([5.0, -1], requires_grad=True)
        da, db = tg.grad((a @ b).sum(), [a, b])
        assert (da.tolist(), db.tolist()) == ([[5, -1], [5, -1]], [4, 6])
        da, db = tg.grad((b @ a).sum(), [a, b])
        assert (da.tolist(), db.tolist()) == ([[5, 5], [-1, -1]], [3, 7])
        assert tg.grad(b @ b, b)[0].tolist() == [10, -2]
        rows, c = tg.ones(2, 3, 4, requires_grad=True), tg.Tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
        drows, dc = tg.grad((rows @ c).sum(), [rows, c])
        assert dc.tolist() == [6.0] * 4
        assert drows.tolist() == [[[1.0, 2.0, 3.0, 4.0]] * 3] * 2

    def test_a_matrix_times_many_gets_the_gradients_of_all(self) -> None:
        a, many = tg.ones(2, 2, requires_grad=True), tg.stack([k * tg.eye(2) for k in (1, 2, 3)]).requires_grad_()
        da, dmany = tg.grad((a @ many).sum(), [a, many])
        assert da.tolist() == [[6.0] * 2] * 2
        assert dmany.tolist() == [[[2.0] * 2] * 2] * 3

    def test_nothing_at_all(self) -> None:
        e = tg.zeros(0, requires_grad=True)
        e.sum().backward()
        assert gradient(e).shape == (0,)
        assert np.isnan(e.mean().item())
        with pytest.raises(ValueError, match="no elements"):
            e.max()
        rows = tg.zeros(2, 0, requires_grad=True)
        assert rows.sum(1).tolist() == [0.0, 0.0]
        rows.sum(1).sum().backward()
        assert gradient(rows).shape == (2, 0)
        assert np.isnan(rows.mean(1).detach().array).all()
        for extreme in (rows.max, rows.min, rows.amax, rows.amin):
            with pytest.raises(ValueError, match=r"no elements; the shape is \(2, 0\)"):
                extreme(1)
        a, b = tg.ones(3, 4, requires_grad=True), tg.ones(4, 0, requires_grad=True)
        (a @ b).sum().backward()
        assert (gradient(a) == 0).all()
        assert gradient(b).shape == (4, 0)
        assert (tg.ones(3, 0) @ tg.ones(0, 2)).tolist() == [[0.0, 0.0]] * 3

    def test_saturated_probabilities_have_finite_gradients(self) -> None:
        x = tg.tensor([40.0, -200.0], requires_grad=True)
        y = F.binary_cross_entropy(x.sigmoid(), tg.tensor([1.0, 0.0]), reduction="sum")
        y.backward()
        assert y.item() == 0.0
        np.testing.assert_allclose(gradient(x), [-math.exp(-40), 0.0], rtol=1e-6)

    def test_nothing_hides_a_nan(self) -> None:
        x = tg.tensor([float("nan"), 1.0, 2.0])
        for y in (x.norm(3), x.norm(), x.median(), x.std(), x.amax(), x.sort()[0][-1], x.mean(), x.prod()):
            assert np.isnan(y.item())
        rows = tg.tensor([[float("nan"), 1.0, 2.0], [5.0, 4.0, 3.0]])
        assert np.isnan(rows.median(1)[0][0].item())
        assert rows.median(1)[0][1].item() == 4.0

    def test_the_spread_of_equal_numbers_has_gradient_0(self) -> None:
        x = tg.ones(3, requires_grad=True)
        x.std().backward()
        assert gradient(x).tolist() == [0.0] * 3

    def test_logaddexp_of_infinities(self) -> None:
        inf = float("inf")
        for value in (-inf, inf):
            assert tg.tensor([value]).logaddexp(tg.tensor([value])).item() == value

    @pytest.mark.filterwarnings("error")
    def test_sigmoid_far_out(self) -> None:
        assert tg.tensor([-1000.0, 0.0, 1000.0]).sigmoid().tolist() == [0.0, 0.5, 1.0]
        for value in (-20.0, -80.0):  # small, yet all of its digits are there
            assert math.isclose(tg.tensor(value).sigmoid().log().item(), value, rel_tol=1e-6)
            assert math.isclose(F.silu(tg.tensor(value)).item(), value * math.exp(value), rel_tol=1e-5)
        x = tg.tensor([-300.0, 0.0, 300.0], requires_grad=True)
        y = F.logsigmoid(x)
        y.sum().backward()
        np.testing.assert_allclose(y.array, [-300.0, -math.log(2), 0.0], rtol=1e-6)
        assert gradient(x).tolist() == [1.0, 0.5, 0.0]

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize(
        ("logit", "label", "value", "slope"),
        [
            (-100.0, 0.0, math.exp(-100), math.exp(-100)),
            (-100.0, 1.0, 100.0, -1.0),
            (100.0, 0.0, 100.0, 1.0),
            (0.0, 0.0, math.log(2), 0.5),
            (0.0, 1.0, math.log(2), -0.5),
        ],
    )
    def test_binary_cross_entropy_far_out_and_at_0(
        self, logit: float, label: float, value: float, slope: float
    ) -> None:
        for dtype, rtol, atol in ((np.float64, 1e-12, 0.0), (np.float32, 1e-6, 1e-43)):  # e⁻¹⁰⁰ in float32 may be 0
            z = tg.Tensor(np.array(logit, dtype), requires_grad=True)
            y = F.binary_cross_entropy_with_logits(z, tg.Tensor(np.array(label, dtype)))
            y.backward()
            np.testing.assert_allclose([y.item(), gradient(z).item()], [value, slope], rtol, atol)

    @pytest.mark.parametrize(
        ("logits", "target", "value", "slope"),
        [
            ([1e8, 1e8], 1, math.log(2), [0.5, -0.5]),
            ([-40.0, 40.0], 0, 80.0, [-1.0, 1.0]),
            ([1000.0, 0.0, 0.0], 0, 0.0, [0.0, 0.0, 0.0]),
        ],
    )
    def test_cross_entropy_of_large_logits(self, logits: Any, target: int, value: float, slope: Any) -> None:
        x = tg.Tensor([logits], requires_grad=True)
        y = F.cross_entropy(x, [target])
        y.backward()
        assert math.isclose(y.item(), value, rel_tol=1e-6)
        np.testing.assert_allclose(gradient(x), np.array([slope]), atol=1e-7)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("gap", [20.0, 40.0, 80.0])
    def test_the_winner_at_a_large_gap_has_a_gradient(self, gap: float, dtype: Any) -> None:
        p = math.exp(-gap) / (1 + math.exp(-gap))
        row, uneven = np.array([gap, 0.0], dtype), np.array([0.3, -1.2], dtype)
        for context in (nullcontext(), tg.definitions()):
            with context:
                for function, seed, value, slope in (
                    (lambda z: F.softmax(z, 0), [1, 0], 1.0, p * (1 - p)),
                    (lambda z: F.softmax(z, 0), [7, 7], 1.0, 0.0),
                    (lambda z: F.log_softmax(z, 0), [1, 0], -p, p),
                    (lambda z: F.log_softmax(z, 0), [1, 1], -p, -math.tanh(gap / 2)),
                    (lambda z: F.cross_entropy(z[None], [0], reduction="none"), [1], p, -p),
                    (lambda z: F.softmax(z, 0), uneven, 1.0, 1.5 * p * (1 - p)),
                ):
                    x = tg.Tensor(row, requires_grad=True)
                    y = function(x)
                    (g,) = tg.grad([y], x, [np.array(seed, dtype)])
                    np.testing.assert_allclose(y.array[0], value, rtol=2e-6)
                    np.testing.assert_allclose(g.array, [slope, -slope], rtol=2e-5)
                    assert abs(g.array.sum()) <= 1e-6 * abs(g.array[0])

    @pytest.mark.parametrize("smoothing", [0.0, 0.1])
    def test_smoothed_rows_sum_to_0_at_a_large_gap(self, smoothing: float) -> None:
        z = tg.Tensor(np.array([[40.0, 0, 1], [0, 40, 1], [3, 2, 1]]), requires_grad=True)
        F.cross_entropy(z, [0, 2, 1], tg.Tensor(np.array([1.0, 3.0, 0.5])), label_smoothing=smoothing).backward()
        assert (np.abs(gradient(z).sum(1)) <= 1e-15 * np.abs(gradient(z)).max(1)).all()

    def test_logsumexp_of_several_axes_is_that_of_all_at_once(self) -> None:
        x = tg.Tensor(np.arange(24.0).reshape(2, 3, 4) * 3, requires_grad=True)
        x.logsumexp((0, 2)).backward(tg.Tensor(np.array([1.0, 2.0, 4.0])))
        found = gradient(x).swapaxes(0, 1).reshape(3, 8)
        expected = softmax(x.array.swapaxes(0, 1).reshape(3, 8), 1) * np.array([[1.0], [2.0], [4.0]])
        np.testing.assert_allclose(found, expected, rtol=1e-14)

    def test_atan2_at_the_origin_and_around_it(self) -> None:
        for y, x in ((0.0, 0.0), (-0.0, 0.0), (0.0, -0.0)):
            a, b = tg.tensor([y], requires_grad=True), tg.tensor([x], requires_grad=True)
            assert [g.item() for g in tg.grad(tg.atan2(a, b).sum(), [a, b])] == [0.0, 0.0]
        a, b = (tg.tensor([0.0, 1.0], requires_grad=True) for _ in range(2))
        (g,) = tg.grad(tg.where(tg.tensor([False, True]), tg.atan2(a, b), 0.0).sum(), a)
        assert g.tolist() == [0.0, 0.5]
        for size in (1e-30, 1e30):
            a, b = (tg.tensor([size], requires_grad=True) for _ in range(2))
            for g, s in zip(tg.grad(tg.atan2(a, b).sum(), [a, b]), (0.5, -0.5)):
                assert math.isclose(g.item(), s / size, rel_tol=1e-6)

    def test_logaddexp_bends_at_equal_operands(self) -> None:
        x, y = tg.tensor([0.0, 1.0], requires_grad=True), tg.tensor([0.0, 3.0], requires_grad=True)
        (g,) = tg.grad(tg.logaddexp(x, y).sum(), x, create_graph=True)
        (h,) = tg.grad(g.sum(), x)
        np.testing.assert_allclose(h.array, [0.25, 0.10499359], rtol=1e-6)

    def test_softmax_with_any_upstream(self) -> None:
        x = tg.Tensor(np.array([0.0, math.log(3)]), requires_grad=True)
        (g,) = tg.grad([F.log_softmax(x, 0)], x, [np.array([1.0, 1.0])])
        np.testing.assert_allclose(g.array, np.array([0.5, -0.5]))
        (g,) = tg.grad([F.softmax(x, 0)], x, [np.array([1.0, 0.0])])
        np.testing.assert_allclose(g.array, np.array([0.1875, -0.1875]))

    def test_smoothing_leaves_ignored_rows_out(self) -> None:
        x = tg.Tensor(np.array([[2.0, 0, 0], [9, -9, 1]]), requires_grad=True)
        y = F.cross_entropy(x, [0, -100], label_smoothing=0.1)
        y.backward()
        assert math.isclose(y.item(), 0.3728784, abs_tol=1e-6)
        assert (gradient(x)[1] == 0).all()

    def test_the_ends_of_label_smoothing(self) -> None:
        x = tg.Tensor(np.array([[2.0, 0, 0], [9, -9, 1]]))
        log = np.log(softmax(x.array, 1))
        assert math.isclose(F.cross_entropy(x, [0, 1], label_smoothing=0.0).item(), -(log[0, 0] + log[1, 1]) / 2)
        assert math.isclose(F.cross_entropy(x, [0, 1], label_smoothing=1.0).item(), -log.mean())

    def test_class_weights_reach_both_parts_of_a_smoothed_loss(self) -> None:
        x, w = tg.Tensor(np.array([[2.0, 0, 0]])), np.array([1.0, 2.0, 3.0])
        log = np.log(softmax(x.array, 1))[0]
        loss = F.cross_entropy(x, [1], tg.Tensor(w), label_smoothing=0.1, reduction="sum").item()
        assert math.isclose(loss, -0.9 * 2 * log[1] - 0.1 * (w * log).mean())

    def test_rows_of_counts_become_frequencies(self) -> None:
        counts = tg.Tensor(np.array([[1.0, 3.0], [5.0, 5.0]]))
        assert (counts / counts.sum(1, keepdim=True)).tolist() == [[0.25, 0.75], [0.5, 0.5]]
        smooth = tg.Tensor(np.array([[0.0, 0.0], [0.0, 4.0]])) + 1
        frequencies = smooth / smooth.sum(1, keepdim=True)
        np.testing.assert_allclose(frequencies.array, [[0.5, 0.5], [1 / 6, 5 / 6]], rtol=1e-15)
        assert math.isclose(-frequencies[1, 0].log().item(), math.log(6))

    def test_layer_norm_of_a_constant_row(self) -> None:
        x = tg.Tensor(np.full(4, 5.0), requires_grad=True)
        y = F.layer_norm(x, 4)
        y[0].backward()
        assert (y.array == 0).all()
        expected = np.array([0.75, -0.25, -0.25, -0.25]) / 1e-5**0.5
        np.testing.assert_allclose(gradient(x), expected)

    def test_causal_mask_is_aligned_to_the_end(self) -> None:
        v = tg.arange(1, 6).float().reshape(5, 1)
        for queries, expected in ((2, [[2.5], [3.0]]), (1, [[3.0]])):
            out = F.scaled_dot_product_attention(tg.zeros(queries, 4), tg.zeros(5, 4), v, is_causal=True)
            np.testing.assert_allclose(out.array, expected)
        with pytest.raises(ValueError, match="a key for every query"):
            F.scaled_dot_product_attention(tg.zeros(6, 4), tg.zeros(5, 4), v, is_causal=True)

    def test_mask_says_who_may_read(self) -> None:
        v = tg.Tensor([[1.0], [3.0], [8.0]])
        for n in (3, 2, 3):
            zero = tg.zeros(n, 2)
            out = F.scaled_dot_product_attention(zero, zero, v[:n], np.tri(n, dtype=bool))
            np.testing.assert_allclose(out.array, np.array([[1.0], [2.0], [4.0]])[:n])


class TestBadInput:
    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (lambda: tg.ones(2, 3) + tg.ones(4), ValueError, r"add: shapes \(2, 3\) and \(4,\) do not broadcast"),
            (lambda: tg.ones(2, 3) @ tg.ones(2, 3), ValueError, r"matmul: \(2, 3\) and \(2, 3\) do not fit"),
            (lambda: tg.ones(2, 3).sum(2), IndexError, "sum: dim 2 is outside -2 to 1"),
            (lambda: tg.ones(2, 3).reshape(4, 2), ValueError, r"reshape: 6 elements"),
            (lambda: tg.ones(2, 3).permute(0, 0), ValueError, "permute"),
            (lambda: tg.ones(2, 3).split([1, 3], 1), ValueError, r"split: lengths \[1, 3\] do not add up to 3"),
            (lambda: F.embedding([0, 5], tg.ones(5, 2)), IndexError, "ids must lie in 0 to 4, got values from 0 to 5"),
            (lambda: F.embedding([0, -6], tg.ones(5, 2)), IndexError, "ids must lie in 0 to 4"),
            (lambda: F.embedding([0, -1], tg.ones(5, 2)), IndexError, "ids must lie in 0 to 4"),
            (lambda: F.cross_entropy(tg.ones(2, 3), [0, -1]), IndexError, "target: ids must lie in 0 to 2"),
            (lambda: tg.ones(3, 4)[[0, 3]], IndexError, "3 is out of bounds for axis 0"),
            (lambda: tg.ones(3, 4)[:, [-5]], IndexError, "-5 is out of bounds for axis 1"),
            (lambda: F.embedding([0.5], tg.ones(5, 2)), TypeError, "ids must be integers"),
            (lambda: F.cross_entropy(tg.ones(2, 3), [0, 3]), IndexError, "target: ids must lie in 0 to 2"),
            (lambda: F.cross_entropy(tg.ones(2, 3), [0]), ValueError, r"need a target of shape \(2,\), got \(1,\)"),
            (lambda: F.linear(tg.ones(2, 3), tg.ones(4, 2)), ValueError, r"linear: input \(2, 3\) and weight \(4, 2\)"),
            (lambda: F.gelu(tg.ones(2), "fast"), ValueError, "approximate must be"),
            (lambda: F.softmax(tg.arange(3), 0), TypeError, "must be floating, got int64"),
            (lambda: F.layer_norm(tg.ones(2, 3), 4), ValueError, r"does not end with normalized_shape \(4,\)"),
            (lambda: tg.cat([]), ValueError, "needs at least one tensor"),
            (lambda: tg.cat([tg.ones(2, 3), tg.ones(3, 3)], 1), ValueError, "differ elsewhere"),
            (lambda: tg.ones(2) + "a", TypeError, "cannot compute with a str"),
            (lambda: tg.ones(2).masked_fill(tg.ones(2), 0), TypeError, "the mask must be boolean"),
            (
                lambda: F.scaled_dot_product_attention(tg.ones(2, 3), tg.ones(2, 4), tg.ones(2, 4)),
                ValueError,
                r"query \(2, 3\), key \(2, 4\)",
            ),
        ],
    )
    def test_is_named(self, call: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            call()


def test_kernels_belong_to_the_array() -> None:
    assert kernels.of(np.ones(1)).__name__ == "tinygrad_edu.kernels.numpy"
    assert all(m.__name__.startswith("tinygrad_edu.ops") for m in (attention, arithmetic, layer, loss))


@pytest.mark.filterwarnings("error")
def test_what_is_no_number_comes_without_a_warning() -> None:
    x = tg.tensor([0.0, -1.0, 1.0], requires_grad=True)
    for y in (
        x / x,
        x.log(),
        x.sqrt(),
        x.rsqrt(),
        x**-1.5,
        1.0 / x,
        x % (x * 0),
        (x * 1000).exp(),
        x.acosh(),
        x.atanh(),
    ):
        assert not np.isfinite(y.array).all()
        y.backward(tg.ones_like(y), retain_graph=True)
    assert (tg.ones(2) // tg.zeros(2)).tolist() == [math.inf] * 2
    w = tg.zeros(2, requires_grad=True)
    w.grad = tg.zeros(2)
    tg.optim.Adagrad([w], eps=0.0).step()
    assert np.isnan(w.array).all()


def test_a_variance_with_no_degrees_of_freedom_is_a_division_by_0() -> None:
    x = tg.tensor([[1.0, 2.0], [3.0, 3.0]])
    for correction in (2, 3):
        np.testing.assert_array_equal(x.var(1, correction=correction).numpy(), [np.inf, np.nan])
        np.testing.assert_array_equal(x.half().std(1, correction=correction).numpy(), [np.inf, np.nan])


@pytest.mark.parametrize("size", [1e-25, 1e20])
def test_a_standard_deviation_whose_square_leaves_the_dtype(size: float) -> None:
    x = tg.tensor([[1.0, 3.0, 5.0]]).mul(size).requires_grad_()
    y = x.std(1)
    y.backward()
    assert np.allclose(y.detach().numpy() / size, 2)
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), [[-0.5, 0, 0.5]], atol=1e-6)


def test_every_nan_is_an_element_of_its_own() -> None:
    values, inverse = tg.tensor([np.nan, 1.0, np.nan]).unique(return_inverse=True)
    np.testing.assert_array_equal(values.numpy(), [1.0, np.nan, np.nan])
    assert inverse.tolist() == [1, 0, 2]


def test_sums_of_weights_keep_float32() -> None:
    ids = tg.tensor([0, 1, 1])
    for given, found in (("float32", "float32"), ("float64", "float64"), ("int64", "float64"), ("float16", "float64")):
        assert ids.bincount(tg.ones(3, dtype=given)).dtype == found
