"""Ops that pick elements by index, each beside its adjoint, which adds elements at an index."""

from tinygrad_edu.backend import add_along, add_at, is_array, module_of
from tinygrad_edu.tape import Op


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
        return module_of(x).take_along_axis(x, index, axis)

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
