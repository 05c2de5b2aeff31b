"""Ops that pick elements by index, each beside its adjoint, which adds elements at an index."""

from tinygrad_edu.arrays.indexing import add_along, add_at, change_along
from tinygrad_edu.arrays.library import is_array, module_of
from tinygrad_edu.arrays.memory import unlocked, windows
from tinygrad_edu.arrays.sums import counting
from tinygrad_edu.engine.tape import Op
from tinygrad_edu.ops.arithmetic import Maximum
from tinygrad_edu.ops.choice import Cast
from tinygrad_edu.ops.shape import Permute


class GetItem(Op):
    """{out} = {x}[{index}]; adjoint of put_add. An element picked twice gets both gradients"""

    views = True

    def forward(x, *, index):
        y = x[index]
        if is_array(y):
            return y
        return x[(*index, ...) if isinstance(index, tuple) else (index, ...)]  # a view of the one element, no number

    def dx(g, index, x_shape):
        """d{x} = d{out} added at {index}, 0 elsewhere"""
        return PutAdd(g, index=index, shape=x_shape)


class Windows(Op):
    """{out} = windows of {size} elements of {x} along {axis}, one every {step}, as a new last axis; an element that
    several show gets all their gradients"""

    views = True

    def forward(x, *, axis, size, step):
        return windows(x, axis, size, step)

    def dx(g, axis, size, step, x_shape):
        """d{x} = d{out} added where the elements stand, 0 elsewhere"""
        xp, last = module_of(g if is_array(g) else g.array), len(g.shape) - 1
        at = xp.arange(g.shape[axis])[:, None] * step + xp.arange(size)
        beside = Permute(g, axes=(*range(axis + 1), last, *range(axis + 1, last)))
        return PutAdd(beside, index=(*(slice(None),) * axis, at), shape=x_shape)


class PutAdd(Op):
    """{out} = zeros of {shape} with {x} added at {index}; adjoint of get_item"""

    def forward(x, *, index, shape):
        y = module_of(x).zeros(shape, dtype=x.dtype)
        add_at(y, index, x)
        return y

    def dx(g, index):
        """d{x} = d{out}[{index}]"""
        return GetItem(g, index=index)


class Gather(Op):
    """{out}[..., i, ...] = {x}[..., {index}[..., i, ...], ...] along {axis}; adjoint of scatter_add"""

    def forward(x, index, *, axis):
        part = tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(index.shape))
        return module_of(x).take_along_axis(x[part], index, axis)  # index may be shorter than x elsewhere

    def dx(g, index, axis, x_shape):
        """d{x} = d{out} added at {index}, 0 elsewhere"""
        return ScatterAdd(g, index, axis=axis, shape=x_shape)


class ScatterAdd(Op):
    """{out} = zeros of {shape} with {x} added at {index} along {axis}; adjoint of gather"""

    def forward(x, index, *, axis, shape):
        y = module_of(x).zeros(shape, dtype=x.dtype)
        add_along(y, index, x, axis)
        return y

    def dx(g, index, axis):
        """d{x} = d{out} picked at {index}"""
        return Gather(g, index, axis=axis)


class SetItem(Op):
    """{out} = {x} with {value} at {index}"""

    def forward(x, value, *, index):
        y = x.copy()
        y[index] = value
        return y

    def dx(g, index):
        """d{x} = d{out}, 0 at {index}"""
        return SetItem(g, 0.0, index=index)

    def dvalue(g, index):
        """d{value} = d{out}[{index}]"""
        return GetItem(g, index=index)


class Diagonal(Op):
    """{out} = the elements [i, i + {offset}] of axes {first} and {second} of {x}; adjoint of put_diagonal"""

    views = True

    def forward(x, *, offset, first, second):
        return unlocked(x.diagonal(offset, first, second), x)

    def dx(g, offset, first, second, x_shape):
        """d{x} = d{out} on that diagonal, 0 elsewhere"""
        return PutDiagonal(g, shape=x_shape, offset=offset, first=first, second=second)


class PutDiagonal(Op):
    """{out} = zeros of {shape} with {x} on the diagonal {offset} of axes {first} and {second}; adjoint of diagonal"""

    def forward(x, *, shape, offset, first, second):
        xp = module_of(x)
        y = xp.zeros(shape, dtype=x.dtype)
        along = xp.arange(x.shape[-1])
        rows, columns = along + max(-offset, 0), along + max(offset, 0)
        xp.moveaxis(y, (first, second), (-2, -1))[..., rows, columns] = x
        return y

    def dx(g, offset, first, second):
        """d{x} = that diagonal of d{out}"""
        return Diagonal(g, offset=offset, first=first, second=second)


class ScatterExtreme(Op):
    """{out} = the larger, or smaller, of {x} and every {src} that {index} puts there; equal ones share the gradient"""

    def forward(x, src, index, *, axis, largest=True):
        y = x.copy()
        change_along(y, index, src, axis, "maximum" if largest else "minimum")
        return y

    def dx(g, x, src, index, out, axis):
        """d{x} = d{out} / (number of extremes) where {x} = {out}, else 0"""
        return g * (_won(x, out) / _winners(x, src, index, out, axis))

    def dsrc(g, x, src, index, out, axis):
        """d{src} = (d{out} / (number of extremes)) picked at {index} where {src} = {out} there, else 0"""
        shared = Gather(g / _winners(x, src, index, out, axis), index, axis=axis)
        return shared * _won(src, Gather(out, index, axis=axis))


def _won(x, out):
    return Cast(x == out, dtype=counting(x.dtype))


def _winners(x, src, index, out, axis):
    """How many of `x` and `src` have the extreme value of each place, at least 1."""
    among = ScatterAdd(_won(src, Gather(out, index, axis=axis)), index, axis=axis, shape=x.shape)
    return Maximum(_won(x, out) + among, 1.0)
