"""Further lines of the table in test_ops: angles, running results, orders, scattering, products, bits, searches."""

from __future__ import annotations

from typing import Any

import numpy as np

import tinygrad_edu as tg
from tests.properties import Case as C
from tinygrad_edu.nn import functional as F
from tinygrad_edu.ops import recurrent

PICK = np.array([[0, 2], [2, 2], [1, 0]])
MASK = PICK > 1
ROWS = np.array([2, 0, 2])
WHOLE = np.array([[6, 3, 12], [5, 1, 9]])
ZEROS = np.array([[5.0, 0, 2, 3], [0, 0, 4, 1], [1, 2, 3, 4]])

UNEVEN = np.array([[2.0, 0.1, -0.3], [0.5, -0.4, 0.6], [0.01, -3.0, 0.02]])  # one entry is nearly all of a row's norm


def running_sums(x: np.ndarray) -> np.ndarray:
    return x.cumsum(1)


def twin(name: str, *args: Any) -> Any:
    """x.name_(...) on a copy of x."""

    def change(x: tg.Tensor, *more: tg.Tensor) -> tg.Tensor:
        return getattr(x * 1, name)(*more, *args)

    return change


def scattered(x: np.ndarray, src: np.ndarray, put: Any, own: bool = True) -> np.ndarray:
    """What a loop over src puts together at the places PICK of axis 1."""
    groups: dict[tuple[int, int], list[float]] = {}
    for i, row in enumerate(PICK):
        for j, at in enumerate(row):
            groups.setdefault((i, int(at)), [float(x[i, at])] * own).append(float(src[i, j]))
    y = x.copy()
    for place, values in groups.items():
        y[place] = put(values)
    return y


def scatter(reduce: str, own: bool = True) -> Any:
    return lambda x, y: x.scatter_reduce(1, PICK, y, reduce, include_self=own) ** 2


def index_added(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    z = x.copy()
    np.add.at(z, ROWS, 2 * y)
    return z * z


def put_rows(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    z = x.copy()
    z[[2, 0]] = y
    return z * z


def running_log(x: np.ndarray) -> np.ndarray:
    return np.log(np.cumsum(np.exp(x), 1))


def nan_at_2(x: tg.Tensor) -> tg.Tensor:
    return x.masked_fill(MASK, float("nan"))


def without_2(x: np.ndarray) -> np.ndarray:
    return np.where(MASK, np.nan, x)


def cosine(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (x * y).sum(1) / (np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1))


def distances(x: np.ndarray, y: np.ndarray, p: float) -> np.ndarray:
    return np.linalg.norm(x[..., :, None, :] - y[..., None, :, :], p, -1)


def convolved(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Two axes, stride (2, 1), one 0 around, every second column of a window."""
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    H, W = (x.shape[2] - 3) // 2 + 1, x.shape[3] - 2
    y = np.zeros((len(x), len(w), H, W)) + b[:, None, None]
    for i in range(H):
        for j in range(W):
            y[:, :, i, j] += np.einsum("bcij,ocij->bo", x[:, :, 2 * i : 2 * i + 3, j : j + 3 : 2], w)
    return y


def of_channels(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def read(step: Any, x: np.ndarray, state: Any, order: Any, sizes: Any = None) -> Any:
    """The outputs of a recurrent step at all positions, and the last state; step(x_t, state) gives the next one."""
    y = np.zeros((*x.shape[:2], state[0].shape[1]))
    for t in order:
        live = np.arange(x.shape[1])[:, None] < (x.shape[1] if sizes is None else sizes[t])
        state = [np.where(live, new, old) for new, old in zip(step(x[t], state), state, strict=True)]
        y[t] = state[0]
    return y, state


def gru(x: np.ndarray, w: np.ndarray, h: np.ndarray, b: Any = 0.0, order: Any = (0, 1, 2), sizes: Any = None) -> Any:
    def step(xt: np.ndarray, state: Any) -> Any:
        (xr, xz, xn), (hr, hz, hn) = np.split(xt, 3, 1), np.split(state[0] @ w.T + b, 3, 1)
        z, n = sigmoid(xz + hz), np.tanh(xn + sigmoid(xr + hr) * hn)
        return [(1 - z) * n + z * state[0]]

    return read(step, x, [h], order, sizes)[0]


def lstm(x: np.ndarray, w: np.ndarray, h: np.ndarray, c: np.ndarray, b: Any, order: Any, sizes: Any = None) -> Any:
    def step(xt: np.ndarray, state: Any) -> Any:
        i, f, g, o = np.split(xt + state[0] @ w.T + b, 4, 1)
        c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
        return [sigmoid(o) * np.tanh(c), c]

    y, state = read(step, x, [h, c], order, sizes)
    return y, state[1]


def rnn(x: np.ndarray, w: np.ndarray, h: np.ndarray, b: np.ndarray, bend: Any, order: Any, sizes: Any = None) -> Any:
    return read(lambda xt, state: [bend(xt + state[0] @ w.T + b)], x, [h], order, sizes)[0]


PAIR = ((3, 4), (3, 4))
SIZES = (4, 3, 1)
ON, BACK = (0, 1, 2), (2, 1, 0)
SRC = ((3, 4), (3, 2))
PLAIN = [
    C("asin", lambda x: x.asin(), np.arcsin, ((3, 4),), -0.9, 0.9),
    C("acos", lambda x: x.acos(), np.arccos, ((3, 4),), -0.9, 0.9),
    C("atan", lambda x: x.atan(), np.arctan, ((3, 4),)),
    C("atan2", lambda x, y: x.atan2(y), np.arctan2, ((3, 4), (4,))),
    C("hypot", lambda x, y: x.hypot(y), np.hypot, ((3, 4), (4,))),
    C("asinh", lambda x: x.asinh(), np.arcsinh, ((3, 4),)),
    C("acosh", lambda x: x.acosh(), np.arccosh, ((3, 4),), 1.2, 3.0),
    C("atanh", lambda x: x.atanh(), np.arctanh, ((3, 4),), -0.9, 0.9),
    C("tan", lambda x: x.tan(), np.tan, ((3, 4),), -1.2, 1.2),
    C("sinh", lambda x: x.sinh(), np.sinh, ((3, 4),)),
    C("cosh", lambda x: x.cosh(), np.cosh, ((3, 4),)),
    C("exp2", lambda x: x.exp2(), np.exp2, ((3, 4),)),
    C("log2", lambda x: x.log2(), np.log2, ((3, 4),), 0.5, 2.0),
    C("log10", lambda x: x.log10(), np.log10, ((3, 4),), 0.5, 2.0),
    C("erfc", lambda x: x.erfc() + x.erf(), np.ones_like, ((3, 4),)),
    C("softsign", F.softsign, lambda x: x / (1 + np.abs(x)), ((3, 4),)),
    C("tanhshrink", F.tanhshrink, lambda x: x - np.tanh(x), ((3, 4),)),
    C("mish", F.mish, lambda x: x * np.tanh(np.log(1 + np.exp(x))), ((3, 4),)),
    C("div, trunc", lambda x, y: x.div(y, rounding_mode="trunc") * x, lambda x, y: np.trunc(x / y) * x, PAIR, 0.5, 3.0),
    C("logit", lambda x: x.logit(), lambda x: np.log(x / (1 - x)), ((3, 4),), 0.1, 0.9),
    C("xlogy", lambda x, y: x.xlogy(y), lambda x, y: x * np.log(y), PAIR, 0.5, 2.0),
    C("frac", lambda x: x.frac() * x, lambda x: (x - np.trunc(x)) * x, ((3, 4),)),
    C("norm, 0", lambda x: x.norm(0, 1) * x.sum(1), lambda x: (x != 0).sum(1) * x.sum(1), ((3, 4),)),
    C("fmod", lambda x, y: x.fmod(y), np.fmod, ((3, 4), (4,)), 0.5, 3.0),
    C("fmax", lambda x, y: x.fmax(y), np.fmax, ((3, 4), (4,))),
    C("fmin", lambda x, y: x.fmin(y), np.fmin, ((3, 4), (4,))),
    C("lerp", lambda x, y, w: x.lerp(y, w), lambda x, y, w: x + w * (y - x), ((3, 4), (3, 4), (4,))),
    C("cumsum_", twin("cumsum_", 1), running_sums, ((3, 4),)),
    C("sin_", twin("sin_"), np.sin, ((3, 4),)),
    C("fmod_", twin("fmod_"), np.fmod, ((3, 4), (4,)), 0.5, 3.0),
    C("hypot_", twin("hypot_"), np.hypot, PAIR),
    C("cummax", lambda x: x.cummax(1)[0] ** 2, lambda x: np.maximum.accumulate(x, 1) ** 2, ((3, 4),)),
    C("cummin", lambda x: x.cummin(0)[0] ** 2, lambda x: np.minimum.accumulate(x, 0) ** 2, ((3, 4),)),
    C("logcumsumexp", lambda x: x.logcumsumexp(1), running_log, ((3, 5),)),
    C("diff", lambda x: x.diff() ** 2, lambda x: np.diff(x) ** 2, ((3, 4),)),
    C("diff, twice", lambda x, y: x.diff(2, 0, y), lambda x, y: np.diff(x, 2, 0, y), ((3, 4), (1, 4))),
    C("kthvalue", lambda x: x.kthvalue(2, 1), lambda x: (np.sort(x, 1)[:, 1], np.argsort(x, 1)[:, 1]), ((3, 4),)),
    C("median", lambda x: x.median() ** 2, lambda x: np.sort(x.reshape(-1))[5] ** 2, ((3, 4),)),
    C("median, an axis", lambda x: x.median(0)[0] ** 2, lambda x: np.sort(x, 0)[1] ** 2, ((3, 4),)),
    C("quantile", lambda x: x.quantile(0.3, 1) ** 2, lambda x: np.quantile(x, 0.3, 1) ** 2, ((3, 4),)),
    C(
        "quantile, several",
        lambda x: x.quantile([0.1, 0.8], 0, keepdim=True),
        lambda x: np.quantile(x, [0.1, 0.8], 0, keepdims=True),
        ((3, 4),),
    ),
    C("nansum", lambda x: nan_at_2(x).nansum(1) ** 2, lambda x: np.nansum(without_2(x), 1) ** 2, ((3, 2),)),
    C("nanmean", lambda x: nan_at_2(x).nanmean(0) ** 2, lambda x: np.nanmean(without_2(x), 0) ** 2, ((3, 2),)),
    C("scatter_reduce, sum", scatter("sum"), lambda x, y: scattered(x, y, sum) ** 2, SRC),
    C("scatter_reduce, mean", scatter("mean"), lambda x, y: scattered(x, y, np.mean) ** 2, SRC),
    C("scatter_reduce, prod", scatter("prod"), lambda x, y: scattered(x, y, np.prod) ** 2, SRC),
    C("scatter_reduce, amax", scatter("amax"), lambda x, y: scattered(x, y, max) ** 2, SRC),
    C("scatter_reduce, amin", scatter("amin"), lambda x, y: scattered(x, y, min) ** 2, SRC),
    C("scatter_reduce, others", scatter("amax", False), lambda x, y: scattered(x, y, max, False) ** 2, SRC),
    C("scatter_reduce, mean of others", scatter("mean", False), lambda x, y: scattered(x, y, np.mean, False) ** 2, SRC),
    C(
        "scatter, multiply",
        lambda x, y: x.scatter(1, PICK, y, reduce="multiply"),
        lambda x, y: scattered(x, y, np.prod),
        SRC,
    ),
    C("index_add", lambda x, y: x.index_add(0, ROWS, y, alpha=2) ** 2, index_added, PAIR),
    C("index_copy", lambda x, y: x.index_copy(0, [2, 0], y) ** 2, put_rows, ((3, 4), (2, 4))),
    C("index_put", lambda x, y: x.index_put([tg.tensor([2, 0])], y) ** 2, put_rows, ((3, 4), (2, 4))),
    C("index_put, added", lambda x, y: x.index_put((ROWS,), y * 2, True) ** 2, index_added, PAIR),
    C("masked_select", lambda x: x.masked_select(MASK) ** 2, lambda x: x[MASK] ** 2, ((3, 2),)),
    C(
        "masked_scatter",
        lambda x, y: x.masked_scatter(MASK, y),
        lambda x, y: np.array([[x[0, 0], y[0]], [y[1], y[2]], [x[2, 0], x[2, 1]]]),
        ((3, 2), (5,)),
    ),
    C(
        "take_along_dim",
        lambda x: x.take_along_dim(tg.tensor(PICK, device=x.device), 1) ** 2,
        lambda x: np.take_along_axis(x, PICK, 1) ** 2,
        ((3, 4),),
    ),
    C("diag, of a vector", lambda x: x.diag(-1) ** 2, lambda x: np.diag(x, -1) ** 2, ((3,),)),
    C("diag_embed", lambda x: x.diag_embed(1) ** 2, lambda x: np.stack([np.diag(r, 1) for r in x]) ** 2, ((3, 4),)),
    C(
        "unfold",
        lambda x: x.unfold(1, 3, 2) ** 2,
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 3, 1)[:, ::2] ** 2,
        ((2, 7),),
    ),
    C("tensordot", lambda x, y: tg.tensordot(x, y, 2), lambda x, y: np.tensordot(x, y, 2), ((2, 3, 4), (3, 4, 2))),
    C(
        "tensordot, named",
        lambda x, y: tg.tensordot(x, y, ([0, -1], [1, 0])),
        lambda x, y: np.tensordot(x, y, ([0, -1], [1, 0])),
        ((2, 3, 4), (4, 2)),
    ),
    C("inner", lambda x, y: x.inner(y), np.inner, ((2, 4), (3, 4))),
    C("kron", lambda x, y: x.kron(y), np.kron, ((2, 3), (3, 2))),
    C("kron, fewer axes", lambda x, y: x.kron(y), np.kron, ((2, 3), (2,))),
    C("cross", lambda x, y: x.cross(y, -1), np.cross, ((4, 3), (4, 3))),
    C("addmm", lambda b, x, y: b.addmm(x, y, beta=2), lambda b, x, y: 2 * b + x @ y, ((2,), (3, 4), (4, 2))),
    C("baddbmm", lambda b, x, y: b.baddbmm(x, y), lambda b, x, y: b + x @ y, ((3, 2), (5, 3, 4), (5, 4, 2))),
    C("cdist", tg.cdist, lambda x, y: distances(x, y, 2), ((2, 3, 4), (2, 5, 4))),
    C("cdist, 1", lambda x, y: tg.cdist(x, y, 1.0), lambda x, y: distances(x, y, 1), ((3, 4), (5, 4))),
    C(
        "block_diag",
        tg.block_diag,
        lambda x, y: np.block([[x, np.zeros((2, 1))], [np.zeros((3, 2)), y]]),
        ((2, 2), (3, 1)),
    ),
    C("vector_norm, 4", lambda x: tg.linalg.vector_norm(x, 4, 1), lambda x: np.linalg.norm(x, 4, 1), ((3, 4),)),
    C("matrix_norm, 1", lambda x: tg.linalg.matrix_norm(x, 1), lambda x: np.linalg.norm(x, 1), ((3, 4),)),
    C("matrix_norm, inf", lambda x: tg.linalg.norm(x, np.inf), lambda x: np.linalg.norm(x, np.inf), ((3, 4),)),
    C(
        "conv2d",
        lambda x, w, b: F.conv2d(x, w, b, (2, 1), 1, (1, 2)),
        convolved,
        ((2, 2, 5, 4), (3, 2, 3, 2), (3,)),
    ),
    C(
        "conv1d",
        F.conv1d,
        lambda x, w: np.stack([np.convolve(x[0, 0], k[0, ::-1], "valid") for k in w])[None],
        ((1, 1, 7), (2, 1, 3)),
    ),
    C(
        "max_pool1d",
        lambda x: F.max_pool1d(x, 2, padding=1) ** 2,
        lambda x: np.stack([x[..., 0], x[..., 1:3].max(-1), x[..., 3]], -1) ** 2,
        ((2, 3, 4),),
    ),
    C(
        "avg_pool2d",
        lambda x: F.avg_pool2d(x, (2, 1)) ** 2,
        lambda x: (x[..., ::2, :] + x[..., 1::2, :]) ** 2 / 4,
        ((2, 3, 4, 3),),
    ),
    C(
        "adaptive_avg_pool1d",
        lambda x: F.adaptive_avg_pool1d(x, 2) ** 2,
        lambda x: np.stack([x[..., :2].mean(-1), x[..., 1:].mean(-1)], -1) ** 2,
        ((2, 3, 3),),
    ),
    C(
        "unfold, images",
        lambda x: F.unfold(x, (1, 2), stride=2) ** 2,
        lambda x: np.stack([x[..., :1, 0], x[..., :1, 1]], 2).reshape(2, 6, 1) ** 2,
        ((2, 3, 2, 3),),
    ),
    C(
        "batch_norm",
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
        lambda x, w, b: of_channels(x, (0, 2)) * w[:, None] + b[:, None],
        ((3, 2, 4), (2,), (2,)),
    ),
    C(
        "group_norm",
        lambda x: F.group_norm(x, 2),
        lambda x: of_channels(x.reshape(3, 2, -1), (2,)).reshape(x.shape),
        ((3, 4, 2),),
    ),
    C("normalize", F.normalize, lambda x: x / np.linalg.norm(x, axis=1, keepdims=True), ((3, 4),)),
    C(
        "normalize, 3",
        lambda x: F.normalize(x, 3, 1),
        lambda x: x / (abs(x) ** 3).sum(1)[:, None] ** (1 / 3),
        (UNEVEN,),
    ),
    C("norm of a plane", lambda x: x.norm(dim=(0, 2)) ** 2, lambda x: (x * x).sum((0, 2)), ((2, 3, 4),)),
    C(
        "norm, uneven",
        lambda x: x.norm(dim=1, keepdim=True) * x,
        lambda x: x * (x * x).sum(1)[:, None] ** 0.5,
        (UNEVEN,),
    ),
    C("cosine_similarity", F.cosine_similarity, cosine, PAIR),
    C("pairwise_distance", F.pairwise_distance, lambda x, y: np.linalg.norm(x - y + 1e-6, axis=-1), PAIR),
]
FUSED = [
    C("cumprod", lambda x: x.cumprod(1), lambda x: x.cumprod(1), ((3, 5),)),
    C("cumprod, zeros", lambda x: x.cumprod(-1), lambda x: x.cumprod(-1), (ZEROS,)),
    C("cumprod, axis 0", lambda x: x.cumprod(0), lambda x: x.cumprod(0), ((3, 2, 2),)),
    C(
        "rnn",
        recurrent.Rnn,
        lambda x, w, h, b: rnn(x, w, h, b, np.tanh, ON),
        ((3, 4, 2), (2, 2), (4, 2), (2,)),
    ),
    C(
        "rnn, relu, back, packed",
        lambda x, w, h, b: recurrent.Rnn(x, w, h, b, nonlinearity="relu", reverse=True, batch_sizes=SIZES),
        lambda x, w, h, b: rnn(x, w, h, b, lambda a: np.maximum(a, 0), BACK, SIZES),
        ((3, 4, 2), (2, 2), (4, 2), (2,)),
    ),
    C("gru, no bias", recurrent.Gru, gru, ((3, 4, 6), (6, 2), (4, 2))),
    C(
        "gru, back, packed",
        lambda x, w, h, b: recurrent.Gru(x, w, h, b, reverse=True, batch_sizes=SIZES),
        lambda x, w, h, b: gru(x, w, h, b, BACK, SIZES),
        ((3, 4, 6), (6, 2), (4, 2), (6,)),
    ),
    C(
        "lstm",
        recurrent.Lstm,
        lambda x, w, h, c, b: lstm(x, w, h, c, b, ON),
        ((3, 4, 8), (8, 2), (4, 2), (4, 2), (8,)),
    ),
    C(
        "lstm, only c",
        lambda x, w, h, c: recurrent.Lstm(x, w, h, c, reverse=True)[1],
        lambda x, w, h, c: lstm(x, w, h, c, 0.0, BACK)[1],
        ((3, 4, 8), (8, 2), (4, 2), (4, 2)),
    ),
    C(
        "lstm, packed",
        lambda x, w, h, c, b: recurrent.Lstm(x, w, h, c, b, batch_sizes=SIZES),
        lambda x, w, h, c, b: lstm(x, w, h, c, b, ON, SIZES),
        ((3, 4, 8), (8, 2), (4, 2), (4, 2), (8,)),
    ),
    C(
        "lstm, only h, back, packed",
        lambda x, w, h, c, b: recurrent.Lstm(x, w, h, c, b, reverse=True, batch_sizes=SIZES)[0],
        lambda x, w, h, c, b: lstm(x, w, h, c, b, BACK, SIZES)[0],
        ((3, 4, 8), (8, 2), (4, 2), (4, 2), (8,)),
    ),
]
ROUGH = [
    C("trunc", lambda x: x.trunc(), np.trunc, ((3, 4),), smooth=False),
    C("div, trunc", lambda x: x.div(0.7, rounding_mode="trunc"), lambda x: np.trunc(x / 0.7), ((3, 4),), smooth=False),
    C("div, floor", lambda x: x.div(0.7, rounding_mode="floor"), lambda x: x // 0.7, ((3, 4),), smooth=False),
    C("bitwise_and", lambda x: x.long() & 5, lambda x: x.astype(int) & 5, (WHOLE,), smooth=False),
    C("bitwise_or", lambda x: x.long() | x.long().T[0, 0], lambda x: x.astype(int) | 6, (WHOLE,), smooth=False),
    C("bitwise_xor", lambda x: 5 ^ x.long(), lambda x: x.astype(int) ^ 5, (WHOLE,), smooth=False),
    C("bitwise_not", lambda x: ~x.long(), lambda x: ~x.astype(int), (WHOLE,), smooth=False),
    C("left_shift", lambda x: x.long() << 2, lambda x: x.astype(int) << 2, (WHOLE,), smooth=False),
    C("right_shift", lambda x: x.long() >> 1, lambda x: x.astype(int) >> 1, (WHOLE,), smooth=False),
    C("nonzero", lambda x: (x > 0).nonzero(), lambda x: np.argwhere(x > 0), ((3, 4),), smooth=False),
    C(
        "unique",
        lambda x: x.detach().unique(return_inverse=True, return_counts=True),
        lambda x: np.unique(x, return_inverse=True, return_counts=True),
        (PICK,),
        smooth=False,
    ),
    C("unique, rows", lambda x: x.detach().unique(dim=0), lambda x: np.unique(x, axis=0), (PICK,), smooth=False),
    C("bincount", lambda x: x.long().reshape(-1).bincount(), lambda x: np.array([2, 1, 3]), (PICK,), smooth=False),
    C(
        "bincount, weighed",
        lambda x: x.long().reshape(-1).bincount(x.detach().reshape(-1), 5).to(x.dtype),
        lambda x: np.array([0, 1, 6, 0, 0]),
        (PICK,),
        smooth=False,
    ),
    C(
        "searchsorted",
        lambda x: tg.searchsorted(x.sort(1)[0], x, right=True),
        lambda x: x.argsort(1).argsort(1) + 1,
        ((3, 4),),
        smooth=False,
    ),
    C("bucketize", lambda x: tg.bucketize(x, [-1.0, 0.5]), lambda x: (x > -1) + (x > 0.5) * 1, ((3, 4),), smooth=False),
    C("isin", lambda x: tg.isin(x, [0, 1]), lambda x: np.isin(x, [0, 1]), (PICK,), smooth=False),
    C("multinomial", lambda x: tg.multinomial(x, 1), lambda x: [[1], [0], [2]], (np.eye(3)[[1, 0, 2]],), smooth=False),
    C("isclose", lambda x: x.isclose(x + 1e-9), lambda x: np.ones((3, 4), bool), ((3, 4),), smooth=False),
]
# What names lengths, masks or places of its own.
FIXED = {
    *(case.name for case in FUSED if case.name.startswith(("rnn", "gru", "lstm"))),
    *(case.name for case in PLAIN if case.name.startswith(("scatter", "index_", "masked", "nan"))),
    *(
        "conv1d",
        "conv2d",
        "max_pool1d",
        "avg_pool2d",
        "adaptive_avg_pool1d",
        "unfold, images",
        "batch_norm",
        "group_norm",
    ),
    "cosine_similarity",
    "take_along_dim",
    "unfold",
    "cross",
    "block_diag",
    "kthvalue",
    "median",
    "median, an axis",
    "quantile",
    "quantile, several",
    "diff, twice",
    "matrix_norm, 1",
    "matrix_norm, inf",
}
