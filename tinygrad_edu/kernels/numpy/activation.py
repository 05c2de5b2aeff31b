"""The error function, and GELU with its derivative computed in the same pass."""

import math
from typing import Any

import numpy as np

from ...buffers import empty
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
_MINUS_HALF = constants(-0.5)
_K0 = math.sqrt(2 / math.pi)
_TANH = constants(_K0, 0.044715 * _K0, 2 * _K0, 6 * 0.044715 * _K0, 0.5, 1)
_EXACT = constants(0.5, 1 / math.sqrt(2 * math.pi))
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


def _normal_tail(a, bell, out, scratch):
    """out = Φ(−a) and bell = exp(−a²/2) for a ≥ 0."""
    upper, lower = _MILLS[a.dtype]
    (minus_half,) = _MINUS_HALF[a.dtype]
    np.multiply(a, a, out=bell)
    bell *= minus_half
    np.exp(bell, out=bell)
    _polynomial(upper, a, out)
    _polynomial(lower, a, scratch)
    out /= scratch
    out *= bell


def erf(x: np.ndarray) -> np.ndarray:
    """The error function erf x = 2/√π ∫₀ˣ exp(−t²) dt, within a few units in the last place.

    x, any shape, float32 or float64; result of the same shape and dtype. Below ½ the Taylor series, above it the tail
    of the normal law. Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", 1964, 7.1.5 and 26.2.

    >>> erf(np.array([0.0, 1.0, -np.inf])).round(6)
    array([ 0.      ,  0.842701, -1.      ])
    """
    values = packed(x).reshape(-1)
    y = empty(values.shape, x.dtype)
    for at in chunks(0, values.size):
        part, out = values[at], y[at]
        a = np.minimum(np.abs(part), 28)
        a *= math.sqrt(2)
        bell, scratch = np.empty_like(a), np.empty_like(a)
        _normal_tail(a, bell, out, scratch)
        out *= -2
        out += 1
        np.copysign(out, part, out=out)
        small = np.abs(part) < 0.5
        near = part[small]
        series = np.empty_like(near)
        _polynomial(_ERF_SERIES, near * near, series)
        out[small] = series * near
    return y.reshape(x.shape)


def gelu(x: np.ndarray, approximate: str = "none", slope: bool = True) -> tuple[np.ndarray, Any]:
    """y = x·Φ(x) with the normal law's Φ, and the slope dy/dx at each x.

    approximate "none": Φ exactly, slope Φ(x) + x·exp(−x²/2)/√2π. "tanh": s = ½(1 + tanh(√(2/π)(x + 0.044715x³))) in
    its place, slope s + 2x·s·(1 − s)·√(2/π)(1 + 3·0.044715x²). x, any shape; y and slope of the same shape; the slope
    is None where it is not asked for. ValueError for another `approximate`.
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
    values = packed(x).reshape(-1)
    y = empty(values.shape, x.dtype)
    slopes = empty(values.shape, x.dtype) if slope else None
    places = chunks(0, values.size)
    scratch = empty((2 if approximate == "tanh" else 4, places[0].stop if places else 0), x.dtype)
    with crew.apart, np.errstate(over="ignore", invalid="ignore"):
        for at in places:
            part, out = values[at], y[at]
            change = None if slopes is None else slopes[at]
            if np.dot(part, part) < _TAME:
                body(part, out, change, scratch)
            else:
                body(np.clip(part, -_WIDE, _WIDE), out, change, scratch)
                wide = part > _WIDE
                out[wide] = part[wide]
    return y.reshape(x.shape), None if slopes is None else slopes.reshape(x.shape)


def _gelu_tanh(x, y, slope, scratch):
    k0, k1, two_k0, six_k1, half, one = _TANH[x.dtype]
    u, s = scratch[0, : x.size], scratch[1, : x.size]
    np.multiply(x, x, out=u)
    np.multiply(u, k1, out=s)
    s += k0
    s *= x
    np.tanh(s, out=s)
    s *= half
    s += half
    np.multiply(x, s, out=y)
    if slope is not None:
        u *= six_k1
        u += two_k0
        u *= y
        np.subtract(one, s, out=slope)
        slope *= u
        slope += s


def _gelu_exact(x, y, slope, scratch):
    """With a = |x| and the tail t = Φ(−a): y = max(x, 0) − a·t, and the slope of −a is t − a·φ(a), that of a is 1 less
    it, so both are ½ ± (½ − t + a·φ(a)) with the sign of x."""
    half, density = _EXACT[x.dtype]
    a, bell, tail, rest = (row[: x.size] for row in scratch)
    np.abs(x, out=a)
    _normal_tail(a, bell, tail, rest)
    np.add(x, a, out=y)
    y *= half
    np.multiply(a, tail, out=rest)
    y -= rest
    if slope is not None:
        a *= bell
        a *= density
        a -= tail
        a += half
        _signed_like(a, x)
        np.add(a, half, out=slope)


def _signed_like(a, x):
    """Give a ≥ 0 the signs of x, by their sign bits (five times as fast as `np.copysign`)."""
    kind = np.dtype(f"i{x.dtype.itemsize}")
    sign = np.bitwise_and(x.view(kind), np.iinfo(kind).min)
    bits = a.view(kind)
    bits |= sign
