"""Fused activations: softmax, log_softmax and GELU, each with the composition that defines it."""

from tinygrad_edu import kernels
from tinygrad_edu.ops.arithmetic import Div, Exp, Log, Sub
from tinygrad_edu.ops.choice import Where
from tinygrad_edu.ops.curve import Erf, Tanh
from tinygrad_edu.ops.reduction import Amax, Sum
from tinygrad_edu.ops.shape import Detach
from tinygrad_edu.tape import Op


def _shifted(x, axis):
    """`x` minus its largest along `axis`, which no gradient sees; a row of −∞ alone, or of nothing, stays as it is."""
    if not x.shape[axis]:
        return x
    top = Detach(Amax(x, axes=(axis,), keepdim=True))
    return Sub(x, Where(top > float("-inf"), top, 0.0))


class Softmax(Op):
    """{out} = exp {x} / Σ exp {x} over {axis}; a row of −∞ alone gives 0"""

    def definition(x, *, axis):
        e = Exp(_shifted(x, axis))
        total = Sum(e, axes=(axis,), keepdim=True)
        return Div(e, Where(total > 0, total, 1.0))

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

    def definition(x, *, axis):
        z = _shifted(x, axis)
        return Sub(z, Log(Sum(Exp(z), axes=(axis,), keepdim=True)))

    def forward(x, *, axis):
        return kernels.of(x).log_softmax(x, axis)

    def dx(g, out, axis):
        """d{x} = d{out} − exp {out} ⊙ Σ d{out}"""
        return kernels.of(g).log_softmax_backward(g, out, axis)


class Gelu(Op):
    """{out} = {x} ⊙ Φ({x}), Φ the normal distribution function, exact or through tanh"""

    saves = ("slope",)

    def definition(x, *, approximate="none"):
        if approximate == "tanh":  # Hendrycks and Gimpel 2016: √(2/π) (x + 0.044715 x³)
            return x * 0.5 * (Tanh((x + x * x * x * 0.044715) * 0.7978845608028654) + 1.0)
        return x * 0.5 * (Erf(x * 0.7071067811865476) + 1.0)

    def forward(x, *, approximate="none", recording=False):
        return kernels.of(x).gelu(x, approximate, recording)

    def dx(g, slope):
        """d{x} = d{out} ⊙ (Φ({x}) + {x} ⊙ φ({x}))"""
        return g * slope
