"""The error function and its kin, and GELU with its derivative computed in the same pass."""

import math
from typing import Any

import numpy as np

from ...arrays.buffers import empty
from .. import crew
from .common import chunks, constants, packed, scalars

# Mills' ratio of the normal law, G(a) = Φ(−a)·exp(a²/2) for a ≥ 0, as a quotient of polynomials (lowest power first).
# Minimax fits in relative error made for this file: 5e-9 on [0, 14.5] and 5e-17 on [0, 39]; beyond that exp(−a²/2) is
# 0 in float32 and float64. All coefficients are positive: nothing cancels.
_MILLS = {
    np.dtype(np.float32): (
        scalars(np.float32, 0.5, 0.43267657, 0.17916556, 0.03928366, 0.00392113),
        scalars(np.float32, 1, 1.66323803, 1.18539933, 0.45873866, 0.09847877, 0.00982861),
    ),
    np.dtype(np.float64): (
        scalars(
            np.float64,
            0.4999999999999999748,
            0.7749029020709307508,
            0.594088687514594634,
            0.2893632121828405783,
            0.09771319594593343692,
            0.02362669205452715803,
            0.004090227478675530461,
            0.0004905506394057647292,
            3.726636452673873104e-5,
            1.386249377434661709e-6,
        ),
        scalars(
            np.float64,
            1,
            2.347690364944716843,
            2.561363270764544294,
            1.714514970507493435,
            0.7821250793475855779,
            0.2549965020627743471,
            0.06044601324378206166,
            0.0103460927595674625,
            0.001233102914956895884,
            9.341292301329860071e-5,
            3.474811885177632015e-6,
        ),
    ),
}
_FAR = 40  # beyond it exp(−x²/2) is 0 in float32 and float64
_HALF_OF_THE_DIGITS = np.int64(-1 << 27)
_K0 = 1.5957691216057308, -9.96930880911092e-17  # 2√(2/π) and, below, 0.044715 times it, each with its rounding
_K1 = 0.07135481627260025, -6.175149918155315e-19
_TANH = constants(-_K0[0] / 2, -_K1[0] / 2, 2.0**60 * _K0[0], 2.0**60 * 3 * _K1[0], 2.0**-30, 2.0**-60)
_LIMIT = {np.dtype(kind): np.array(most, kind) for kind, most in ((np.float32, 65.1), (np.float64, 375.6))}
# of −w/2: 2⁻⁶⁰·exp(−w) is just below the end of the dtype there
_EXACT = constants(0.5, 1 / math.sqrt(2 * math.pi), -0.5)
_SILU = constants(0.5, 80)
_SIGN = {np.dtype(f"f{n}"): np.array(np.iinfo(f"i{n}").min, f"i{n}") for n in (4, 8)}
_TAME = 1e12  # Σx² of a chunk below which no intermediate value overflows
_WIDE = 1e3  # beyond it the GELU is x or 0 in every precision
_ERF_SERIES = [(-1) ** n / (math.factorial(n) * (2 * n + 1)) * 2 / math.sqrt(math.pi) for n in range(13)]


def _polynomial(coefficients, a, out):
    """Horner's rule: out = Σ c_n·aⁿ."""
    np.multiply(a, coefficients[-1], out=out)
    for c in coefficients[-2:0:-1]:
        out += c
        out *= a
    out += coefficients[0]


def _mills(a, out, scratch):
    """out = G(a) = Φ(−a)·exp(a²/2) for a ≥ 0."""
    upper, lower = _MILLS[a.dtype]
    _polynomial(upper, a, out)
    _polynomial(lower, a, scratch)
    out /= scratch


def _bell(a, scale, out, scratch):
    """out = exp(−scale·a²) for 0 ≤ a ≤ 40 in float64, within 2 units in the last place.

    The rounding of a² would become an error of as many units as the exponent is large. So a = h + l, where h has half
    the digits and its square is exact: a² = h² + (a + h)·l.
    """
    np.bitwise_and(a.view(np.int64), _HALF_OF_THE_DIGITS, out=out.view(np.int64))
    np.subtract(a, out, out=scratch)
    scratch *= a + out
    scratch *= -scale
    np.exp(scratch, out=scratch)
    out *= out
    out *= -scale
    np.exp(out, out=out)
    out *= scratch


def _in_float64(x, body):
    """body(part, out, scratch, scratch) over pieces of x, any shape, computed in float64; result of the dtype of x."""
    values = packed(x).reshape(-1)
    y = empty(values.shape, x.dtype)
    for at in chunks(0, values.size):
        part = values[at].astype(np.float64, copy=False)
        out = np.empty_like(part)
        body(part, out, np.empty_like(part), np.empty_like(part))
        y[at] = out
    return y.reshape(x.shape)


def bell(x: np.ndarray, scale: float) -> np.ndarray:
    """exp(−scale·x²), scale from ½ to 1, within a few units in the last place; x of any shape, result of the same.

    >>> bell(np.array([0.0, 1.0, -np.inf]), 0.5).round(4)
    array([1.    , 0.6065, 0.    ])
    """

    def body(part, out, a, scratch):
        np.minimum(np.abs(part), _FAR, out=a)
        _bell(a, scale, out, scratch)

    return _in_float64(x, body)


def erf(x: np.ndarray) -> np.ndarray:
    """The error function erf x = 2/√π ∫₀ˣ exp(−t²) dt, within a few units in the last place.

    x, any shape; result of the same shape and dtype. Below ½ the Taylor series, above it the tail of the normal law.
    Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", 1964, 7.1.5 and 26.2.

    >>> erf(np.array([0.0, 1.0, -np.inf])).round(6)
    array([ 0.      ,  0.842701, -1.      ])
    """

    def body(part, out, a, scratch):
        _erfc_of(part, out, a, scratch)
        np.subtract(1, out, out=out)
        np.copysign(out, part, out=out)
        _set_near_0(part, out)

    return _in_float64(x, body)


def erfc(x: np.ndarray) -> np.ndarray:
    """1 − erf x, within a few units in the last place also far to the right; x of any shape, result of the same.

    >>> erfc(np.array([0.0, -np.inf])), bool(0 < erfc(np.array([26.0])) < 1e-290)
    (array([1., 2.]), True)
    """

    def body(part, out, a, scratch):
        _erfc_of(part, out, a, scratch)
        np.subtract(2, out, out=out, where=part < 0)
        near = np.zeros_like(part)
        small = _set_near_0(part, near)
        np.subtract(1, near, out=out, where=small)

    return _in_float64(x, body)


def normal_cdf(x: np.ndarray) -> np.ndarray:
    """The normal law's Φ(x), within a few units in the last place also far to the left; x any shape, result the same.

    >>> normal_cdf(np.array([-1.0, 0.0, np.inf])).round(4)
    array([0.1587, 0.5   , 1.    ])
    """

    def body(part, out, a, scratch):
        np.minimum(np.abs(part), _FAR, out=a)
        tail = np.empty_like(a)
        _mills(a, tail, scratch)
        _bell(a, 0.5, out, scratch)
        out *= tail
        np.subtract(1, out, out=out, where=part > 0)

    return _in_float64(x, body)


def tanh_cdf(x: np.ndarray) -> np.ndarray:
    """½(1 + tanh(√(2/π)(x + 0.044715x³))), close to Φ(x), within a few units in the last place also far to the left.

    x of any shape, result of the same.

    >>> tanh_cdf(np.array([-1.0, 0.0, np.inf])).round(4)
    array([0.1588, 0.5   , 1.    ])
    """

    def body(part, out, a, scratch):
        np.clip(part, -_FAR, _FAR, out=a)
        w, rest = _exponent(a)
        with np.errstate(over="ignore"):  # 1/∞ is the 0 that it is far to the left
            np.exp(-w, out=out)
        out *= np.exp(-rest)
        out += 1
        np.reciprocal(out, out=out)

    return _in_float64(x, body)


def _erfc_of(x, out, a, scratch):
    """out = erfc |x| = 2·G(√2·|x|)·exp(−x²)."""
    np.minimum(np.abs(x), 28, out=a)
    _bell(a, 1.0, out, scratch)
    a *= math.sqrt(2)
    tail = np.empty_like(a)
    _mills(a, tail, scratch)
    out *= 2
    out *= tail


def _set_near_0(x, out):
    """out = erf x where |x| < ½, by its Taylor series; returns where that is."""
    small = np.abs(x) < 0.5
    near = x[small]
    series = np.empty_like(near)
    _polynomial(_ERF_SERIES, near * near, series)
    out[small] = series * near
    return small


def gelu(x: np.ndarray, approximate: str = "none", slope: bool = True) -> tuple[np.ndarray, Any]:
    """y = x·Φ(x) with the normal law's Φ, and the slope dy/dx at each x.

    approximate "none": Φ exactly, slope Φ(x) + x·exp(−x²/2)/√2π. "tanh": s = ½(1 + tanh(√(2/π)(x + 0.044715x³))) in
    its place, slope s + 2x·s·(1 − s)·√(2/π)(1 + 3·0.044715x²). x, any shape; y and slope of the same shape; the slope
    is None where it is not asked for. ValueError for another `approximate`.
    In float32 the rounding of the exponent is left: 64 units in the last place where y is as small as 10⁻³⁸ ("tanh":
    128), fewer in proportion to ln |y|; to correct for it would cost a sixth of the time. In float64 it is corrected.
    Source: Hendrycks and Gimpel, "Gaussian error linear units", 2016.

    >>> y, slope = gelu(np.array([-1.0, 0.0, 1.0]))
    >>> y.round(4), slope.round(4)
    (array([-0.1587,  0.    ,  0.8413]), array([-0.0833,  0.5   ,  1.0833]))
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f'gelu: approximate is {approximate!r}; use "none" for the exact formula or "tanh"')
    if x.dtype not in _TANH:
        y, slopes = gelu(x.astype(np.float32), approximate, slope)
        return y.astype(x.dtype), None if slopes is None else slopes.astype(x.dtype)
    body = _gelu_tanh if approximate == "tanh" else _gelu_exact

    def limited(part, out, change, scratch):
        if np.dot(part, part) < _TAME:
            body(part, out, change, scratch)
        else:
            body(np.clip(part, -_WIDE, _WIDE), out, change, scratch)
            wide = part > _WIDE
            out[wide] = part[wide]

    return _with_slope(x, limited, slope)


def silu(x: np.ndarray, slope: bool = True) -> tuple[np.ndarray, Any]:
    """y = x·σ(x), σ the sigmoid, and the slope σ(x) + x·σ(x)·σ(−x) at each x.

    x, any shape; y and slope of the same shape; the slope is None where it is not asked for.

    >>> y, slope = silu(np.array([-1.0, 0.0, 1.0]))
    >>> y.round(4), slope.round(4)
    (array([-0.2689,  0.    ,  0.7311]), array([0.0723, 0.5   , 0.9277]))
    """
    return _with_slope(x, _silu, slope)


def _with_slope(x, body, slope):
    """body(part, y, its slope or None, scratch [4, n]) over pieces of x, any shape."""
    values = packed(x).reshape(-1)
    y = empty(values.shape, x.dtype)
    slopes = empty(values.shape, x.dtype) if slope else None
    places = chunks(0, values.size)
    scratch = empty((4, places[0].stop if places else 0), x.dtype)
    with crew.apart, np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for at in places:
            body(values[at], y[at], None if slopes is None else slopes[at], scratch)
    return y.reshape(x.shape), None if slopes is None else slopes.reshape(x.shape)


def _silu(x, y, slope, scratch):
    """With h = exp(x/2) and q = 1/(h + 1/h): σ(x) = h·q and σ(−x) = q/h. σ(x) itself can be too small where x·q·h is
    not."""
    half, limit = _SILU[x.dtype]
    t, h, q = (row[: x.size] for row in scratch[:3])
    np.minimum(x, limit, out=t)  # beyond, σ(x) is 1
    np.multiply(t, half, out=h)
    np.exp(h, out=h)
    np.reciprocal(h, out=q)
    q += h
    np.reciprocal(q, out=q)
    np.multiply(x, q, out=y)
    y *= h
    if slope is not None:
        t *= q
        t += h
        np.multiply(t, q, out=slope)


def _gelu_tanh(x, y, slope, scratch):
    """With w = 2√(2/π)(x + 0.044715x³), Φ is replaced by s = σ(w): y = x·s, and the slope s + y·(1 − s)·dw/dx.

    From e = t·exp(−w): s = t/(t + e) and 1 − s = e·s/t, where nothing is taken from 1. The factor t = 2⁻⁶⁰ keeps e from
    overflow as long as s is more than 0, and w is limited where it is 0.
    """
    minus_half_k0, minus_half_k1, slope_k0, slope_k1, root_t, t = _TANH[x.dtype]
    u, e, s = (row[: x.size] for row in scratch[:3])
    np.multiply(x, x, out=u)
    if x.dtype == np.float32:
        np.multiply(u, minus_half_k1, out=e)
        e += minus_half_k0
        e *= x
    else:
        e[...], rest = _exponent(x)
        e *= -0.5
    np.minimum(e, _LIMIT[x.dtype], out=e)
    np.exp(e, out=e)  # of −w/2, whose square is in range with the factor only
    if x.dtype != np.float32:
        e *= np.exp(-0.5 * rest)
    e *= root_t
    e *= e
    np.add(e, t, out=s)
    np.divide(t, s, out=s)
    np.multiply(x, s, out=y)
    if slope is not None:
        u *= slope_k1
        u += slope_k0
        u *= y
        e *= s
        np.multiply(u, e, out=slope)
        slope += s


def _exponent(x):
    """2√(2/π)(x + 0.044715x³) of float64 numbers as a sum of two, the second the rounding of the first."""
    square, low = _product(x, x)
    cubic, rest = _product(square, _K1[0])
    rest += square * _K1[1] + low * _K1[0]
    total = cubic + _K0[0]
    back = total - cubic
    rest += (cubic - (total - back)) + (_K0[0] - back) + _K0[1]
    w, low = _product(total, x)
    return w, low + rest * x


def _product(a, b):
    """a·b rounded, and what that left out. Source: Dekker, "A floating-point technique", 1971."""
    high_a, high_b = (134217729.0 * v - (134217729.0 * v - v) for v in (a, b))
    low_a, low_b = a - high_a, b - high_b
    p = a * b
    return p, low_a * low_b - (((p - high_a * high_b) - low_a * high_b) - high_a * low_b)


def _gelu_exact(x, y, slope, scratch):
    """With a = |x|, Φ(−a) = G(a)·exp(−a²/2): y = max(x, 0) − a·Φ(−a), and the slope of −a is Φ(−a) − a·φ(a), that of a
    is 1 less it."""
    half, density, minus_half = _EXACT[x.dtype]
    a, bell, tail, rest = (row[: x.size] for row in scratch)
    np.abs(x, out=a)
    if x.dtype == np.float32:
        np.multiply(a, a, out=bell)
        bell *= minus_half
        np.exp(bell, out=bell)
    else:
        _bell(np.minimum(a, _FAR), 0.5, bell, rest)
    _mills(a, tail, rest)
    np.add(x, a, out=y)
    y *= half
    np.multiply(a, tail, out=rest)
    rest *= bell
    y -= rest
    if slope is not None:
        a *= density
        a -= tail
        a *= bell  # a·φ(a) − Φ(−a)
        _signed_half(x, half, rest)
        a *= rest
        a += a
        rest += half  # 1 where x ≥ 0, else 0
        np.add(a, rest, out=slope)


def _signed_half(x, half, out):
    """out = ½ with the sign of x, by its sign bit (five times as fast as `np.copysign`)."""
    sign = _SIGN[x.dtype]
    bits = out.view(sign.dtype)
    np.bitwise_and(x.view(sign.dtype), sign, out=bits)
    bits |= half.view(sign.dtype)
