"""Softmax, log_softmax and GELU, each with the composition that defines it, and logsumexp."""

import math

from tinygrad_edu import kernels
from tinygrad_edu.arrays.library import largest, module_of, quiet
from tinygrad_edu.arrays.sums import narrow, total, wide
from tinygrad_edu.engine.tape import Op
from tinygrad_edu.ops.arithmetic import Div, Exp, Sub
from tinygrad_edu.ops.choice import LogicalAnd, MaskedFill, Where
from tinygrad_edu.ops.curve import Log1p, NormalCdf, TanhCdf
from tinygrad_edu.ops.order import Max
from tinygrad_edu.ops.reduction import Sum, kept
from tinygrad_edu.ops.shape import Permute, Reshape


def _below_the_largest(x, axis):
    """(`x` minus the first largest along `axis`, where that one is); a row of −∞ alone stays as it is, NaN and ∞ leave
    NaN.

    The gradient of the largest is that of all others with the other sign: its own, a 1 − p where p may have rounded to
    1, is never computed.
    """
    axis %= len(x.shape)
    place = [n if i == axis else 1 for i, n in enumerate(x.shape)]
    top, at = Max(x, axis=axis, keepdim=True)
    along = module_of(getattr(x, "array", x)).arange(x.shape[axis]).reshape(place)
    z = Sub(x, Where(top == float("-inf"), 0.0, top))
    first = LogicalAnd(at == along, z == 0)
    return MaskedFill(z, first, value=0.0), first


class Softmax(Op):
    """{out} = exp {x} / Σ exp {x} over {axis}; a row of −∞ alone gives 0"""

    def definition(x, *, axis):
        if not x.shape[axis]:
            return Exp(x)
        e = Exp(_below_the_largest(x, axis)[0])
        total = Sum(e, axes=(axis,), keepdim=True)
        return Div(e, Where(total == 0, 1.0, total))

    @classmethod
    def has_kernel(cls, arrays):
        return super().has_kernel(arrays) or kernels.take("softmax", arrays[0])

    def forward(x, *, axis):
        return kernels.of(x).softmax(x, axis)

    def dx(g, out, axis):
        """d{x} = {out} ⊙ (d{out} − Σ d{out} ⊙ {out})"""
        return kernels.of(g).softmax_backward(g, out, axis)


class LogSoftmax(Op):
    """{out} = {x} − ln Σ exp {x} over {axis}"""

    saves = ("saved",)

    def definition(x, *, axis):
        if not x.shape[axis]:
            return Exp(x)
        z, first = _below_the_largest(x, axis)
        others = MaskedFill(Exp(z), first, value=0.0)
        return Sub(z, Log1p(Sum(others, axes=(axis,), keepdim=True)))

    def forward(x, *, axis):
        return kernels.of(x).log_softmax(x, axis)

    def dx(g, x, saved, axis):
        """d{x} = d{out} − exp {out} ⊙ Σ d{out}"""
        return kernels.of(g).log_softmax_backward(g, x, saved, axis)


class LogSumExp(Op):
    """{out} = ln Σ exp {x} over {axes}, the largest taken out first"""

    def forward(x, *, axes, keepdim=False):
        xp, exact = module_of(x), wide(x)
        top = largest(exact, axes, -xp.inf)
        top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
        with quiet(x):
            first = exact == top
            rest = total(xp.where(first, 0, xp.exp(exact - top)), axes, True)
            y = xp.log1p(rest + (total(first, axes, True) - 1).astype(exact.dtype)) + top
        return narrow(y if keepdim else y.squeeze(axes), x.dtype)

    def dx(g, x, out, axes, keepdim, x_shape):
        """d{x} = d{out} ⊙ exp({x} − {out})"""
        none = (kept(out, axes, keepdim, x_shape) == float("inf")) & (x < float("inf"))  # softmax has only NaN there
        return kept(g, axes, keepdim, x_shape) * Where(none, 0.0, _softmax_over(x, axes))


def _softmax_over(x, axes):
    """Softmax over several axes at once."""
    if len(axes) == 1:
        return Softmax(x, axis=axes[0])
    order = (*(i for i in range(len(x.shape)) if i not in axes), *axes)
    lead = tuple(x.shape[i] for i in order)
    rows = Reshape(
        Permute(x, axes=order), shape=(*lead[: len(order) - len(axes)], math.prod(lead[len(order) - len(axes) :]))
    )
    y = Reshape(Softmax(rows, axis=len(order) - len(axes)), shape=lead)
    return Permute(y, axes=tuple(order.index(i) for i in range(len(order))))


class Gelu(Op):
    """{out} = {x} ⊙ Φ({x}), Φ the normal distribution function, exact or through tanh"""

    saves = ("slope",)

    def definition(x, *, approximate="none"):
        if approximate == "tanh":
            return x * TanhCdf(x)
        return x * NormalCdf(x)

    def forward(x, *, approximate="none", recording=False):
        return kernels.of(x).gelu(x, approximate, recording)

    def dx(g, slope):
        """d{x} = d{out} ⊙ (Φ({x}) + {x} ⊙ φ({x}))"""
        return g * slope
