"""Ops that shorten axes: sums, means, maxima, over a tuple of axes."""

from tinygrad_edu.backend import floating, module_of, quiet
from tinygrad_edu.ops.elementwise import Cast, Exp
from tinygrad_edu.ops.shape import Expand, Reshape
from tinygrad_edu.tape import Op


def kept(g, axes, keepdim, shape):
    """`g` with the reduced axes standing as 1, so that it broadcasts against the input of shape `shape`."""
    return g if keepdim else Reshape(g, shape=tuple(1 if i in axes else n for i, n in enumerate(shape)))


class Sum(Op):
    """{out} = Σ {x} over {axes}"""

    def forward(x, *, axes, keepdim=False):
        return x.sum(axis=axes, keepdims=keepdim)

    def dx(g, axes, keepdim, x_shape):
        """d{x} = d{out}, copied along {axes}"""
        return Expand(kept(g, axes, keepdim, x_shape), shape=x_shape)


class Mean(Op):
    """{out} = Σ {x} / n over {axes}; of nothing it is NaN"""

    def forward(x, *, axes, keepdim=False):
        n = _count(x.shape, axes)
        total = floating(x).sum(axis=axes, keepdims=keepdim)
        return total * (1.0 / n) if n else total * float("nan")

    def dx(g, axes, keepdim, x_shape):
        """d{x} = d{out} / n, copied along {axes}"""
        n = _count(x_shape, axes)
        return Expand(kept(g * (1.0 / max(n, 1)), axes, keepdim, x_shape), shape=x_shape)


class Amax(Op):
    """{out} = max {x} over {axes}; equal maxima share the gradient evenly"""

    def forward(x, *, axes, keepdim=False):
        return x.max(axis=axes, keepdims=keepdim)

    def dx(g, x, out, axes, keepdim, x_shape):
        """d{x} = d{out} / (number of maxima) where {x} = {out}, else 0"""
        top = Cast(x == kept(out, axes, keepdim, x_shape), dtype=x.dtype)
        return top * (kept(g, axes, keepdim, x_shape) / Sum(top, axes=axes, keepdim=True))


class Max(Op):
    """values, indices = the largest of {x} along {axis} and where it stands first"""

    outputs = True
    differentiable = (True, False)

    def forward(x, *, axis, keepdim=False):
        xp = module_of(x)
        at = xp.expand_dims(x.argmax(axis=axis), axis)
        values = xp.take_along_axis(x, at, axis)
        return (values, at) if keepdim else (values.squeeze(axis), at.squeeze(axis))

    def dx(g, out, axis, keepdim, x_shape):
        """d{x} = dvalues at the indices, else 0"""
        from tinygrad_edu.ops.index import ScatterAdd

        at = kept(out[1], (axis,), keepdim, x_shape)
        return ScatterAdd(kept(g[0], (axis,), keepdim, x_shape), at, axis=axis, shape=x_shape)


class Argmax(Op):
    """{out} = where the largest of {x} stands first along {axis}; axis None: in the flattened {x}"""

    def forward(x, *, axis, keepdim=False):
        return module_of(x).asarray(x.argmax(axis=axis, keepdims=keepdim))


class LogSumExp(Op):
    """{out} = ln Σ exp {x} over {axes}, the largest taken out first"""

    def forward(x, *, axes, keepdim=False):
        xp = module_of(x)
        top = x.max(axis=axes, keepdims=True)
        top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
        with quiet(x):
            y = xp.log(xp.exp(x - top).sum(axis=axes, keepdims=True)) + top
        return y if keepdim else y.squeeze(axes)

    def dx(g, x, out, axes, keepdim, x_shape):
        """d{x} = d{out} ⊙ exp({x} − {out})"""
        return kept(g, axes, keepdim, x_shape) * Exp(x - kept(out, axes, keepdim, x_shape))


def _count(shape, axes):
    n = 1
    for i in axes:
        n *= shape[i]
    return n
