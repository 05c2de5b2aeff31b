"""Ops that go along an axis and keep what they have so far: sums, products, extremes."""

from tinygrad_edu.arrays.dtypes import float64
from tinygrad_edu.arrays.library import module_of, quiet, sum_dtype
from tinygrad_edu.arrays.sums import narrow, running, wide
from tinygrad_edu.engine.tape import Op
from tinygrad_edu.ops.arithmetic import Mul
from tinygrad_edu.ops.index import ScatterAdd
from tinygrad_edu.ops.shape import Clone, Flip, Narrow, Pad


class Cumsum(Op):
    """{out}_i = Σ {x}_j over j ≤ i along {axis}"""

    def forward(x, *, axis):
        return running(x, axis)

    def dx(g, axis):
        """d{x}_j = Σ d{out}_i over i ≥ j"""
        return Flip(Cumsum(Flip(g, axes=(axis,)), axis=axis), axes=(axis,))


def shifted(x, axis, steps, first):
    """`x` moved `steps` on along `axis`, its end cut off, `first` where it began."""
    n, widths = x.shape[axis], [(0, 0)] * len(x.shape)
    widths[axis] = (steps, 0)
    return Pad(Narrow(x, axis=axis, start=0, stop=n - steps), widths=tuple(widths), value=first)


def scan(combine, x, axis, neutral):
    """out_i = x_0 ∘ ... ∘ x_i along `axis` for any associative ∘, in log₂ n steps of doubled reach.

    Source: Hillis and Steele, "Data parallel algorithms", 1986.
    """
    steps, n = 1, x.shape[axis]
    while steps < n:
        x = combine(shifted(x, axis, steps, neutral), x)
        steps *= 2
    return x if n > 1 else Clone(x)


class Cumprod(Op):
    """{out}_i = Π {x}_j over j ≤ i along {axis}"""

    def definition(x, *, axis):
        return scan(Mul, x, axis, 1)

    def forward(x, *, axis):
        with quiet(x):
            return narrow(wide(x).cumprod(axis=axis, dtype=sum_dtype(wide(x))), sum_dtype(x))

    def dx(g, x, axis):
        """d{x}_k = Π {x}_j over j < k ⊙ Σ over i ≥ k of d{out}_i ⊙ Π {x}_j over k < j ≤ i"""
        xp = module_of(x)
        x, g = (xp.moveaxis(each, axis, 0).astype(float64) for each in (x, g))  # a long sum, one by one
        d = xp.ones_like(x)
        d[1:] = x[:-1].cumprod(axis=0)
        behind = 0.0
        for k in reversed(range(len(x))):  # no division, so that a factor of 0 is like any other
            behind = g[k] + behind
            d[k] *= behind
            behind = behind * x[k]
        return xp.moveaxis(d, 0, axis)


class Cummax(Op):
    """values, indices = the largest of {x} so far along {axis} and where it stands last; a NaN stays"""

    outputs = True
    differentiable = (True, False)
    saves = ("at",)

    def forward(x, *, axis):
        return _extremes(x, axis, module_of(x).maximum)

    def dx(g, at, axis, x_shape):
        """d{x} = dvalues added at the indices, else 0"""
        return ScatterAdd(g[0], at, axis=axis, shape=x_shape)


class Cummin(Op):
    """values, indices = the smallest of {x} so far along {axis} and where it stands last; a NaN stays"""

    outputs = True
    differentiable = (True, False)
    saves = ("at",)

    def forward(x, *, axis):
        return _extremes(x, axis, module_of(x).minimum)

    def dx(g, at, axis, x_shape):
        """d{x} = dvalues added at the indices, else 0"""
        return ScatterAdd(g[0], at, axis=axis, shape=x_shape)


def _extremes(x, axis, larger):
    """(The running extremes of `x`, where each stands last), and a copy of that for the rule."""
    xp = module_of(x)
    values = larger.accumulate(x, axis=axis)
    places = xp.arange(x.shape[axis]).reshape((-1,) + (1,) * (x.ndim - axis - 1))
    at = xp.maximum.accumulate(xp.where((x == values) | (x != x), places, 0), axis=axis)
    return (values, at), at.copy()
