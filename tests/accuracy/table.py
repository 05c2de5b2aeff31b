"""The functions of the table: every elementwise op, the softmax family and the losses, each with mpmath's formula."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from mpmath import mp

from tests.accuracy.measure import Line, Point

L = Line


def spread(low: float, high: float, count: int) -> list[float]:
    """Log-spaced numbers whose digits follow no pattern."""
    return [float(v) for v in np.geomspace(low, high, count) * (1 + np.sin(np.arange(count)) / 50)]


TINY_TO_HUGE = [*spread(1e-300, 1e-39, 9), *spread(1e-37, 1e-3, 23), *spread(1e38, 1e300, 9), *spread(300, 1e37, 19)]
MIDDLE = spread(1e-3, 250, 65)
POSITIVE = [*MIDDLE, *TINY_TO_HUGE, 1.0, 2.0, 0.5]
SIGNED = [s * v for v in POSITIVE for s in (1, -1)]
INSIDE = [*spread(1e-300, 0.9, 40), *(1 - v for v in spread(1e-16, 0.4, 24))]  # 0 to 1


def one(values: Any, *more: float) -> list[Point]:
    return [(float(v),) for v in (*more, *values)]


def pairs(first: Any, second: Any, each: int = 7) -> list[Point]:
    """Each number of the first with some of the second, so that the points stay few."""
    second = list(second)
    step = max(1, len(second) // each)
    return [(float(a), float(b)) for i, a in enumerate(first) for b in second[i % step :: step]]


FEW = [s * v for v in (1e-30, 1e-8, 0.01, 0.37, 1.7, 9.3, 55.0, 1e6, 1e30) for s in (1, -1)]
BOTH = [*pairs(FEW, FEW), *((v, v) for v in FEW), *((v, -v) for v in FEW), *((v, v * (1 + 1e-6)) for v in FEW)]
# With few digits, so that differences to a row's largest number are exact: rounded, they would be an error of the
# exponential of as many units as they are large.
GAPS = [s * round(v * 2**20) / 2**20 for v in (1e-5, 0.001, 0.037, 0.3, 0.7) for s in (1, -1)]
GAPS += [s * round(v * 64) / 64 for v in spread(1, 700, 25) for s in (1, -1)]


def apart(rows: Sequence[Point]) -> list[Point]:
    """The rows in which no probability is near ½ or near a smoothed target: there derivatives change their sign."""

    def clear(row: Point) -> bool:
        p = np.exp(np.array(row) - max(row))
        p /= p.sum()
        return all(abs(v - near) > far for v in p for near, far in ((0.5, 0.08), (1 / 30, 0.006), (28 / 30, 0.012)))

    return [row for row in rows if clear(row)]


ROWS3 = apart(
    [(g, 0.0, 1.75) for g in GAPS] + [(0.0, g, 1.75) for g in GAPS] + [(-40.0, g, 0.0) for g in GAPS if abs(g) >= 1]
)


# mpmath's formulas


def sigmoid(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def softplus(x: Any) -> Any:
    return mp.log(1 + mp.exp(x))


def cdf(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def tanh_cdf(x: Any) -> Any:
    return sigmoid(2 * mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3))


def elu(x: Any, alpha: float) -> Any:
    return x if x > 0 else alpha * mp.expm1(x)


def clip(x: Any, low: Any, high: Any) -> Any:
    return min(max(x, mp.mpf(low)), mp.mpf(high))


def lse(*xs: Any) -> Any:
    return mp.log(mp.fsum(mp.exp(x) for x in xs))


def power(x: Any, y: Any) -> Any:
    return x**y


def rounded(x: Any) -> Any:
    return mp.nint(x)


def at(*places: float) -> Any:
    """Whether the first argument is one of these, where there is no derivative."""
    return lambda x, *_: x in places


def equal(x: float, y: float) -> bool:
    return x == y


def vanished(x: float, y: float) -> bool:
    """Whether x^y is no normal number of float32: what is made of it cannot have more digits."""
    return y * np.log(x) < -87


def jumps(x: float, y: float) -> bool:
    """Whether x / y rounded to an integer jumps there, or so near that the differences of the reference meet it."""
    return abs(x / y) > 1e6 or (Fraction(x) / Fraction(y)).denominator == 1


def towards_0(x: Any) -> Any:
    return mp.sign(x) * mp.floor(abs(x))


def F(t: Any) -> Any:
    return t.nn.functional


SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772
TENTH = float(np.float32(0.1))

CURVES = [
    L("exp", lambda t, x: t.exp(x), mp.exp, one(SIGNED, 0.0)),
    L("expm1", lambda t, x: t.expm1(x), mp.expm1, one(SIGNED, 0.0)),
    L("exp2", lambda t, x: t.exp2(x), lambda x: mp.mpf(2) ** x, one(SIGNED, 0.0)),
    L("log", lambda t, x: t.log(x), mp.log, one(POSITIVE)),
    L("log2", lambda t, x: t.log2(x), lambda x: mp.log(x) / mp.log(2), one(POSITIVE)),
    L("log10", lambda t, x: t.log10(x), mp.log10, one(POSITIVE)),
    L("log1p", lambda t, x: t.log1p(x), mp.log1p, [*one(POSITIVE), *one(-v for v in INSIDE)]),
    L("sqrt", lambda t, x: t.sqrt(x), mp.sqrt, one(POSITIVE)),
    L("rsqrt", lambda t, x: t.rsqrt(x), lambda x: 1 / mp.sqrt(x), one(POSITIVE)),
    L("square", lambda t, x: t.square(x), lambda x: x * x, one(SIGNED, 0.0)),
    L("reciprocal", lambda t, x: t.reciprocal(x), lambda x: 1 / x, one(SIGNED)),
    L("sin", lambda t, x: t.sin(x), mp.sin, one(SIGNED, 0.0)),
    L("cos", lambda t, x: t.cos(x), mp.cos, one(SIGNED, 0.0)),
    L("tan", lambda t, x: t.tan(x), mp.tan, one(SIGNED, 0.0)),
    L("asin", lambda t, x: t.asin(x), mp.asin, one([s * v for v in INSIDE for s in (1, -1)], 0.0)),
    L("acos", lambda t, x: t.acos(x), mp.acos, one([s * v for v in INSIDE for s in (1, -1)], 0.0)),
    L("atan", lambda t, x: t.atan(x), mp.atan, one(SIGNED, 0.0)),
    L("sinh", lambda t, x: t.sinh(x), mp.sinh, one(SIGNED, 0.0)),
    L("cosh", lambda t, x: t.cosh(x), mp.cosh, one(SIGNED, 0.0)),
    L("tanh", lambda t, x: t.tanh(x), mp.tanh, one(SIGNED, 0.0)),
    L("asinh", lambda t, x: t.asinh(x), mp.asinh, one(SIGNED, 0.0)),
    L("acosh", lambda t, x: t.acosh(x), mp.acosh, one([v for v in POSITIVE if v > 1] + [1 + v for v in INSIDE])),
    L("atanh", lambda t, x: t.atanh(x), mp.atanh, one([s * v for v in INSIDE for s in (1, -1)], 0.0)),
    L("erf", lambda t, x: t.erf(x), mp.erf, one(SIGNED, 0.0)),
    L("erfc", lambda t, x: t.erfc(x), mp.erfc, one(SIGNED, 0.0)),
    L("sigmoid", lambda t, x: t.sigmoid(x), sigmoid, one(SIGNED, 0.0)),
    L("logit", lambda t, x: t.logit(x), lambda x: mp.log(x / (1 - x)), one(INSIDE)),
    L(
        "logit, eps",
        lambda t, x: t.logit(x, 0.125),
        lambda x: mp.log(clip(x, 0.125, 0.875) / (1 - clip(x, 0.125, 0.875))),
        one(INSIDE),
    ),
    L("abs", lambda t, x: t.abs(x), abs, one(SIGNED), linear=(0,)),
    L("neg", lambda t, x: t.neg(x), lambda x: -x, one(SIGNED), linear=(0,)),
    L("sign", lambda t, x: t.sign(x), mp.sign, one(SIGNED), linear=(0,)),
    L("sgn", lambda t, x: t.sgn(x), mp.sign, one(SIGNED), linear=(0,)),
    L("deg2rad", lambda t, x: t.deg2rad(x), lambda x: x * mp.pi / 180, one(SIGNED), linear=(0,)),
    L("rad2deg", lambda t, x: t.rad2deg(x), lambda x: x * 180 / mp.pi, one(SIGNED), linear=(0,)),
    L("nan_to_num", lambda t, x: t.nan_to_num(x), lambda x: x, one(SIGNED), linear=(0,)),
    L("positive", lambda t, x: t.positive(x), lambda x: x, one(SIGNED), linear=(0,)),
    L("floor", lambda t, x: t.floor(x), mp.floor, one(SIGNED), lambda x: x == int(x), linear=(0,)),
    L("ceil", lambda t, x: t.ceil(x), mp.ceil, one(SIGNED), lambda x: x == int(x), linear=(0,)),
    L(
        "trunc",
        lambda t, x: t.trunc(x),
        towards_0,
        one(SIGNED),
        lambda x: x == int(x),
        linear=(0,),
    ),
    L(
        "round",
        lambda t, x: t.round(x),
        mp.nint,
        one(SIGNED),
        lambda x: x == int(x) or x * 2 == int(x * 2),
        linear=(0,),
    ),
    L(
        "frac",
        lambda t, x: t.frac(x),
        lambda x: x - towards_0(x),
        one(MIDDLE),
        lambda x: x == int(x),
        linear=(0,),
    ),
    L("clamp", lambda t, x: t.clamp(x, -1.5, 2.5), lambda x: clip(x, -1.5, 2.5), one(SIGNED), linear=(0,)),
    L("x ** 3", lambda t, x: x**3, lambda x: x**3, one(SIGNED)),
    L("x ** 0.5", lambda t, x: x**0.5, mp.sqrt, one(POSITIVE)),
    L("x ** -1.5", lambda t, x: x**-1.5, lambda x: x ** mp.mpf(-1.5), one(POSITIVE)),
    L("x ** 0.1", lambda t, x: x**TENTH, lambda x: x ** mp.mpf(TENTH), one(POSITIVE)),
    L("x ** -7", lambda t, x: x**-7, lambda x: x**-7, one([*SIGNED, *spread(2e4, 3e4, 12)])),
    L("x ** 4", lambda t, x: x**4, lambda x: x**4, one(SIGNED)),
]
# The exponent of the fused float32 kernel is rounded: as many units as it is large, some 90 at the end of float32.
TANH_GELU: dict[Any, float] = {("float32", "value"): 128, ("float32", "first"): 128}
BENDS = [
    L("relu", lambda t, x: F(t).relu(x), lambda x: max(x, mp.mpf(0)), one(SIGNED), linear=(0,)),
    L("relu6", lambda t, x: F(t).relu6(x), lambda x: clip(x, 0, 6), one(SIGNED), linear=(0,)),
    L("hardtanh", lambda t, x: F(t).hardtanh(x), lambda x: clip(x, -1, 1), one(SIGNED), at(1.0, -1.0), linear=(0,)),
    L(
        "hardsigmoid",
        lambda t, x: F(t).hardsigmoid(x),
        lambda x: clip((x + 3) / 6, 0, 1),
        one(SIGNED, 0.0),
        linear=(0,),
    ),
    L("hardswish", lambda t, x: F(t).hardswish(x), lambda x: x * clip((x + 3) / 6, 0, 1), one(SIGNED)),
    L("leaky_relu", lambda t, x: F(t).leaky_relu(x, 0.125), lambda x: x if x > 0 else x / 8, one(SIGNED), linear=(0,)),
    L("elu", lambda t, x: F(t).elu(x, 1.5), lambda x: elu(x, 1.5), one(SIGNED)),
    L(
        "selu",
        lambda t, x: F(t).selu(x),
        lambda x: SELU_SCALE * elu(x, SELU_ALPHA),
        one(SIGNED),
    ),
    L("celu", lambda t, x: F(t).celu(x, 2.0), lambda x: 2 * elu(x / 2, 1.0), one(SIGNED)),
    L("silu", lambda t, x: F(t).silu(x), lambda x: x * sigmoid(x), one(SIGNED, 0.0)),
    L(
        "mish",
        lambda t, x: F(t).mish(x),
        lambda x: x * mp.tanh(softplus(x)),
        one(SIGNED, 0.0),
    ),
    L("softplus", lambda t, x: F(t).softplus(x, threshold=1e9), softplus, one(SIGNED, 0.0)),
    L(
        "softplus, beta",
        lambda t, x: F(t).softplus(x, 0.5, threshold=1e9),
        lambda x: 2 * softplus(x / 2),
        one(SIGNED, 0.0),
    ),
    L("logsigmoid", lambda t, x: F(t).logsigmoid(x), lambda x: -softplus(-x), one(SIGNED, 0.0)),
    L("softsign", lambda t, x: F(t).softsign(x), lambda x: x / (1 + abs(x)), one(SIGNED)),
    L("tanhshrink", lambda t, x: F(t).tanhshrink(x), lambda x: x - mp.tanh(x), one(SIGNED)),
    L(
        "gelu",
        lambda t, x: F(t).gelu(x),
        lambda x: x * cdf(x),
        one(SIGNED, 0.0),
        bounds={("float32", "value"): 64, ("float32", "first"): 64},  # the fused kernel: see its docstring
    ),
    L(
        "gelu, tanh",
        lambda t, x: F(t).gelu(x, approximate="tanh"),
        lambda x: x * tanh_cdf(x),
        one(SIGNED, 0.0),
        bounds=TANH_GELU,
    ),
    L(
        "glu",
        lambda t, a, b: F(t).glu(t.stack([a, b], 1), 1)[:, 0],
        lambda a, b: a * sigmoid(b),
        pairs(FEW, SIGNED),
        linear=(0,),
    ),
    L(
        "prelu",
        lambda t, x, w: F(t).prelu(x.reshape(1, -1), w)[0],
        lambda x, w: x if x > 0 else x * w,
        [(v, 0.25) for v in SIGNED],
        linear=(0, 1),
    ),
]
# With quotients near an integer, the larger of the two numbers rounded down and up.
QUOTIENTS = [*pairs(FEW, FEW), *((v, -v) for v in FEW), *((n * v, v) for v in FEW for n in (3, -7, 1000))]
QUOTIENTS += [
    (float(np.nextafter(kind(n * v), kind(way))), float(kind(v)))
    for kind in (np.float32, np.float64)
    for v in (0.1, -0.37, 9.3, 1e-8)
    for n in (3, -7, 10, 1000)
    for way in (0, n * v * 2)
]
TRIPLES = [(a, b, c) for i, a in enumerate(FEW) for b in FEW[i % 3 :: 3] for c in FEW[i % 4 :: 5]]
PARTS = [(float(a), float(b), w) for a, b in pairs(FEW, FEW) for w in (0.0, 0.25, 0.5, 0.7, 1.0, 1.0 - 2.0**-20, 1.5)]
TWO = [
    L("add", lambda t, x, y: x + y, lambda x, y: x + y, BOTH, linear=(0, 1)),
    L("sub", lambda t, x, y: x - y, lambda x, y: x - y, BOTH, linear=(0, 1)),
    L("mul", lambda t, x, y: x * y, lambda x, y: x * y, BOTH, linear=(0, 1)),
    L("div", lambda t, x, y: x / y, lambda x, y: x / y, BOTH, linear=(0,)),
    L("pow", lambda t, x, y: x**y, power, pairs(POSITIVE, FEW), vanished),
    L("maximum", lambda t, x, y: t.maximum(x, y), max, BOTH, equal, linear=(0, 1)),
    L("minimum", lambda t, x, y: t.minimum(x, y), min, BOTH, equal, linear=(0, 1)),
    L("fmax", lambda t, x, y: t.fmax(x, y), max, BOTH, equal, linear=(0, 1)),
    L("fmin", lambda t, x, y: t.fmin(x, y), min, BOTH, equal, linear=(0, 1)),
    L("atan2", lambda t, x, y: t.atan2(x, y), mp.atan2, BOTH),
    L("hypot", lambda t, x, y: t.hypot(x, y), mp.hypot, BOTH),
    L(
        "logaddexp",
        lambda t, x, y: t.logaddexp(x, y),
        lse,
        [(g, 0.0) for g in GAPS] + [(1.5, g) for g in GAPS] + [(2.0, 2.0)],
    ),
    L("xlogy", lambda t, x, y: t.xlogy(x, y), lambda x, y: x * mp.log(y), pairs(FEW, POSITIVE), linear=(0,)),
    L(
        "remainder",
        lambda t, x, y: t.remainder(x, y),
        lambda x, y: x - y * mp.floor(x / y),
        QUOTIENTS,
        jumps,
        linear=(0, 1),
    ),
    L(
        "fmod",
        lambda t, x, y: t.fmod(x, y),
        lambda x, y: x - y * towards_0(x / y),
        QUOTIENTS,
        jumps,
        linear=(0, 1),
    ),
    L(
        "floor_divide",
        lambda t, x, y: t.floor_divide(x, y),
        lambda x, y: mp.floor(x / y),
        QUOTIENTS,
        jumps,
        linear=(0, 1),
    ),
    L(
        "div, trunc",
        lambda t, x, y: t.div(x, y, rounding_mode="trunc"),
        lambda x, y: towards_0(x / y),
        QUOTIENTS,
        jumps,
        linear=(0, 1),
    ),
    L(
        "clamp, tensors",
        lambda t, x, y: t.clamp(x, y, y + 1.0),
        lambda x, y: clip(x, y, y + 1),
        [(v, w) for v, w in BOTH if abs(w) < 100],
        lambda x, y: x in (y, y + 1),
        linear=(0, 1),
    ),
]
THREE = [
    L("lerp", lambda t, x, y, w: t.lerp(x, y, w), lambda x, y, w: x + w * (y - x), PARTS, linear=(0, 1, 2)),
    *(
        L(
            f"lerp, {w}",
            lambda t, x, y, w=w: t.lerp(x, y, w),
            lambda x, y, w=w: x + mp.mpf(w) * (y - x),
            BOTH,
            linear=(0, 1),
        )
        for w in (0.25, 0.75)
    ),
    L(
        "addcmul",
        lambda t, x, y, z: t.addcmul(x, y, z, value=0.75),
        lambda x, y, z: x + y * z * 3 / 4,
        TRIPLES,
        linear=(0, 1, 2),
    ),
    L(
        "addcdiv",
        lambda t, x, y, z: t.addcdiv(x, y, z, value=0.75),
        lambda x, y, z: x + y / z * 3 / 4,
        TRIPLES,
        linear=(0, 1),
    ),
]


def row(t: Any, xs: Any) -> Any:
    return t.stack(list(xs), 1)


def classes(t: Any, xs: Any, target: int) -> Any:
    return t.tensor([target] * xs[0].shape[0])


def smoothed(*xs: Any) -> Any:
    return lse(*xs) - mp.mpf("0.9") * xs[0] - sum(xs) / 10 / len(xs)


ROWS = [
    L("softmax, first", lambda t, *xs: F(t).softmax(row(t, xs), 1)[:, 0], lambda *xs: mp.exp(xs[0] - lse(*xs)), ROWS3),
    L("softmax, second", lambda t, *xs: F(t).softmax(row(t, xs), 1)[:, 1], lambda *xs: mp.exp(xs[1] - lse(*xs)), ROWS3),
    L(
        "softmin",
        lambda t, *xs: F(t).softmin(row(t, xs), 1)[:, 0],
        lambda *xs: mp.exp(-xs[0] - lse(*[-x for x in xs])),
        [tuple(-x for x in xs) for xs in ROWS3],
    ),
    L("log_softmax, first", lambda t, *xs: F(t).log_softmax(row(t, xs), 1)[:, 0], lambda *xs: xs[0] - lse(*xs), ROWS3),
    L("log_softmax, second", lambda t, *xs: F(t).log_softmax(row(t, xs), 1)[:, 1], lambda *xs: xs[1] - lse(*xs), ROWS3),
    L("logsumexp", lambda t, *xs: t.logsumexp(row(t, xs), 1), lse, ROWS3),
    L("logcumsumexp", lambda t, *xs: t.logcumsumexp(row(t, xs), 1)[:, 1], lse, [r[:2] for r in ROWS3]),
    L(
        "cross_entropy",
        lambda t, *xs: F(t).cross_entropy(row(t, xs), classes(t, xs, 0), reduction="none"),
        lambda *xs: lse(*xs) - xs[0],
        ROWS3,
    ),
    L(
        "cross_entropy, smoothed",
        lambda t, *xs: F(t).cross_entropy(row(t, xs), classes(t, xs, 0), reduction="none", label_smoothing=0.1),
        smoothed,
        ROWS3,
    ),
    L(
        "cross_entropy, weight",
        lambda t, *xs: F(t).cross_entropy(
            row(t, xs), classes(t, xs, 1), t.tensor([0.3, 1.7, 2.0], dtype=xs[0].dtype), reduction="none"
        ),
        lambda *xs: mp.mpf("1.7") * (lse(*xs) - xs[1]),
        ROWS3,
    ),
    *(
        L(
            f"cross_entropy, probabilities {name}",
            lambda t, *xs, q=q: F(t).cross_entropy(
                row(t, xs), t.tensor([q] * xs[0].shape[0], dtype=xs[0].dtype), reduction="none"
            ),
            lambda *xs, q=q: lse(*xs) - mp.fsum(mp.mpf(v) * x for v, x in zip(q, xs, strict=True)),
            ROWS3,
        )
        for name, q in (("of one", (1.0, 0.0, 0.0)), ("of all", (0.25, 0.125, 0.625)))
    ),
    L(
        "nll_loss",
        lambda t, *xs: F(t).nll_loss(row(t, xs), classes(t, xs, 1), reduction="none"),
        lambda x, y, z: -y,
        ROWS3,
        linear=(0, 1, 2),
    ),
]
# Rows in which one entry is nearly all of the norm, and others.
LENGTHS = [
    tuple(scale * v for v in vs)
    for scale in (1.0, -1e-20, 3e25)
    for vs in (
        (1.0, 1e-4, 3e-5),
        (2e-3, -1.7, 0.03),
        (0.9, 1.1, -1.3),
        (1e-7, 4e-6, 2.5),
        (-0.8, 1e-12, 0.6),
        (1.0, 1.0, 1e-3),
        (0.37, 0.0, -1e-5),
    )
]


def norm(p: float) -> Any:
    return lambda *xs: mp.fsum(abs(x) ** p for x in xs) ** (mp.mpf(1) / p)


def some_0(*xs: float) -> bool:
    return not all(xs)


def unit(p: float, i: int) -> Any:
    return lambda *xs: xs[i] / max(norm(p)(*xs), mp.mpf(1e-12))


def cosine(*xs: Any) -> Any:
    x, y = xs[: len(xs) // 2], xs[len(xs) // 2 :]
    return mp.fsum(a * b for a, b in zip(x, y, strict=True)) / norm(2)(*x) / norm(2)(*y)


def distance(*xs: Any) -> Any:
    return norm(2)(*(a - b for a, b in zip(xs[: len(xs) // 2], xs[len(xs) // 2 :], strict=True)))


FACES = [(*x[:2], *y[:2]) for x in LENGTHS[:7] for y in ((-0.3, -4.1), (5e-5, 2.0))]
NORMS = [
    L("norm, 2", lambda t, *xs: t.norm(row(t, xs), 2, 1), norm(2), LENGTHS),
    L("norm, 1", lambda t, *xs: t.norm(row(t, xs), 1, 1), norm(1), LENGTHS, some_0, linear=(0, 1, 2)),
    L("norm, 3", lambda t, *xs: t.norm(row(t, xs), 3, 1), norm(3), LENGTHS),
    L("norm, 1.5", lambda t, *xs: t.norm(row(t, xs), 1.5, 1), norm(1.5), LENGTHS, some_0),
    L(
        "norm, inf",
        lambda t, *xs: t.norm(row(t, xs), float("inf"), 1),
        lambda *xs: max(map(abs, xs)),
        LENGTHS,
        lambda *xs: sorted(map(abs, xs))[1] == max(map(abs, xs)),
        linear=(0, 1, 2),
    ),
    *(
        L(
            f"normalize, {p}, {i}",
            lambda t, *xs, p=p, i=i: F(t).normalize(row(t, xs), p, 1)[:, i],
            unit(p, i),
            LENGTHS,
            some_0 if p == 1 else lambda *xs: False,
            bounds={"second": 32},  # it changes its sign along three surfaces: sums of products that cancel near them
        )
        for p, i in ((1, 0), (2, 0), (2, 1), (3, 0))
    ),
    L(
        "cosine_similarity",
        lambda t, *xs: F(t).cosine_similarity(row(t, xs[:2]), row(t, xs[2:]), 1),
        cosine,
        FACES,
    ),
    L(
        "pairwise_distance",
        lambda t, *xs: F(t).pairwise_distance(row(t, xs[:2]), row(t, xs[2:]), eps=0.0),
        distance,
        FACES,
    ),
    L(
        "cdist",
        lambda t, *xs: t.cdist(row(t, xs[:2])[:, None], row(t, xs[2:])[:, None])[:, 0, 0],
        distance,
        FACES,
    ),
    L("prod", lambda t, *xs: t.prod(row(t, xs), 1), lambda x, y, z: x * y * z, LENGTHS, linear=(0, 1, 2)),
    L("cumprod", lambda t, *xs: t.cumprod(row(t, xs), 1)[:, 2], lambda x, y, z: x * y * z, LENGTHS, linear=(0, 1, 2)),
]
PROBABILITIES = pairs([v for v in INSIDE if v > 1e-43], [0.0, 1.0, 0.3, 0.75], 2)
LOGITS = pairs(SIGNED, [0.0, 1.0, 0.3, 0.75], 2)


def bce(p: Any, y: Any) -> Any:
    return -y * mp.log(p) - (1 - y) * mp.log(1 - p)


def logit_bce(z: Any, y: Any) -> Any:
    return y * softplus(-z) + (1 - y) * softplus(z)


def smooth_l1(x: Any, y: Any, beta: float) -> Any:
    d = abs(x - y)
    return d * d / (2 * beta) if d < beta else d - mp.mpf(beta) / 2


def loss(name: str, **options: Any) -> Any:
    """The loss of nn.functional, an element each."""
    return lambda t, x, y: getattr(F(t), name)(x, y, reduction="none", **options)


LOSSES = [
    L("binary_cross_entropy", loss("binary_cross_entropy"), bce, PROBABILITIES, linear=(1,)),
    L("binary_cross_entropy_with_logits", loss("binary_cross_entropy_with_logits"), logit_bce, LOGITS, linear=(1,)),
    L(
        "binary_cross_entropy_with_logits, pos_weight",
        lambda t, z, y: F(t).binary_cross_entropy_with_logits(
            z, y, reduction="none", pos_weight=t.tensor(3.0, dtype=z.dtype)
        ),
        lambda z, y: 3 * y * softplus(-z) + (1 - y) * softplus(z),
        LOGITS,
        linear=(1,),
    ),
    L("mse_loss", loss("mse_loss"), lambda x, y: (x - y) ** 2, BOTH),
    L("l1_loss", loss("l1_loss"), lambda x, y: abs(x - y), BOTH, equal, linear=(0, 1)),
    L("smooth_l1_loss", loss("smooth_l1_loss", beta=2.0), lambda x, y: smooth_l1(x, y, 2.0), BOTH),
    L("huber_loss", loss("huber_loss", delta=2.0), lambda x, y: 2 * smooth_l1(x, y, 2.0), BOTH),
    L(
        "kl_div",
        loss("kl_div"),
        lambda x, y: y * (mp.log(y) - x),
        pairs([-v for v in POSITIVE], spread(1e-30, 0.99, 20)),
        linear=(0,),
    ),
    L(
        "kl_div, log_target",
        loss("kl_div", log_target=True),
        lambda x, y: mp.exp(y) * (y - x),
        pairs([-v for v in POSITIVE], [-v for v in MIDDLE if v < 80]),
        linear=(0,),
    ),
]
LINES = [*CURVES, *BENDS, *TWO, *THREE, *ROWS, *NORMS, *LOSSES]
