"""The matrix product."""

from tinygrad_edu.ops.shape import Reshape, Transpose
from tinygrad_edu.tape import Op


class Matmul(Op):
    """{out} = {x}·{y}; over the last axis of {x} and the last but one of {y}, leading axes broadcast"""

    promotes = True

    def forward(x, y):
        return x @ y

    def dx(g, y):
        """d{x} = d{out}·{y}ᵀ"""
        return g @ Transpose(y)

    def dy(g, x, y_shape):
        """d{y} = {x}ᵀ·d{out}"""
        if len(y_shape) == 2 and len(x.shape) > 2:  # one product over all rows, not one per leading axis and a sum
            x, g = Reshape(x, shape=(-1, x.shape[-1])), Reshape(g, shape=(-1, g.shape[-1]))
        return Transpose(x) @ g
