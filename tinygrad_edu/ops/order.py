"""Ops that compare elements along an axis and say where they stand: max, argmax, sort, topk."""

from tinygrad_edu.arrays.library import module_of
from tinygrad_edu.engine.tape import Op
from tinygrad_edu.ops.index import ScatterAdd
from tinygrad_edu.ops.reduction import kept


def picked(x, at, axis, keepdim=True):
    """(The elements of `x` at indices that keep the axis, those indices), and a copy of the indices for the rule."""
    values = module_of(x).take_along_axis(x, at, axis)
    return ((values, at) if keepdim else (values.squeeze(axis), at.squeeze(axis))), at.copy()


class Max(Op):
    """values, indices = the largest of {x} along {axis} and where it stands first"""

    outputs = True
    differentiable = (True, False)
    saves = ("at",)

    def forward(x, *, axis, keepdim=False):
        return picked(x, x.argmax(axis=axis, keepdims=True), axis, keepdim)

    def dx(g, at, axis, keepdim, x_shape):
        """d{x} = dvalues at the indices, else 0"""
        return ScatterAdd(kept(g[0], (axis,), keepdim, x_shape), at, axis=axis, shape=x_shape)


class Min(Op):
    """values, indices = the smallest of {x} along {axis} and where it stands first"""

    outputs = True
    differentiable = (True, False)
    saves = ("at",)

    def forward(x, *, axis, keepdim=False):
        return picked(x, x.argmin(axis=axis, keepdims=True), axis, keepdim)

    def dx(g, at, axis, keepdim, x_shape):
        """d{x} = dvalues at the indices, else 0"""
        return ScatterAdd(kept(g[0], (axis,), keepdim, x_shape), at, axis=axis, shape=x_shape)


class Argmax(Op):
    """{out} = where the largest of {x} stands first along {axis}; axis None: in the flattened {x}"""

    def forward(x, *, axis, keepdim=False):
        return module_of(x).asarray(x.argmax(axis=axis, keepdims=keepdim))


class Argmin(Op):
    """{out} = where the smallest of {x} stands first along {axis}; axis None: in the flattened {x}"""

    def forward(x, *, axis, keepdim=False):
        return module_of(x).asarray(x.argmin(axis=axis, keepdims=keepdim))


class Sort(Op):
    """values, indices = {x} in order along {axis}, equal ones as they stood; NaN counts as largest"""

    outputs = True
    differentiable = (True, False)
    saves = ("at",)

    def forward(x, *, axis, descending=False):
        at = _order(x, axis, descending)
        return picked(x, at, axis)

    def dx(g, at, axis, x_shape):
        """d{x} = dvalues at the indices"""
        return ScatterAdd(g[0], at, axis=axis, shape=x_shape)


class Topk(Op):
    """values, indices = the {k} largest of {x} along {axis}, in order, or the {k} smallest"""

    outputs = True
    differentiable = (True, False)
    saves = ("at",)

    def forward(x, *, k, axis, largest=True):
        at = _order(x, axis, largest)[(*(slice(None),) * axis, slice(0, k))]
        return picked(x, at, axis)

    def dx(g, at, axis, x_shape):
        """d{x} = dvalues at the indices, else 0"""
        return ScatterAdd(g[0], at, axis=axis, shape=x_shape)


def _order(x, axis, descending):
    """Indices along `axis` that put `x` in order, equal elements as they stood."""
    if not descending:
        return x.argsort(axis=axis, kind="stable")
    xp = module_of(x)
    back = xp.flip(xp.flip(x, axis).argsort(axis=axis, kind="stable"), axis)
    return x.shape[axis] - 1 - back
