"""Products that sum over axes: matmul and einsum."""

import math

from tinygrad_edu.arrays.contraction import contracted
from tinygrad_edu.arrays.sums import product
from tinygrad_edu.engine.tape import Op
from tinygrad_edu.ops.shape import Expand, Reshape, Transpose


class Matmul(Op):
    """{out} = {x}·{y}; over the last axis of {x} and the last but one of {y}, leading axes broadcast"""

    promotes = True

    def forward(x, y):
        return product(x, y)

    def dx(g, y):
        """d{x} = d{out}·{y}ᵀ"""
        return Matmul(g, Transpose(y))

    def dy(g, x, y_shape):
        """d{y} = {x}ᵀ·d{out}"""
        if len(y_shape) == 2 and len(x.shape) > 2:  # one product over all rows, not one per leading axis and a sum
            rows = math.prod(x.shape[:-1])
            x, g = Reshape(x, shape=(rows, x.shape[-1])), Reshape(g, shape=(rows, g.shape[-1]))
        return Matmul(Transpose(x), g)


class Einsum(Op):
    """{out} = Σ over the letters that {equation} has left of its arrow only; an input has each of its letters once"""

    promotes = True

    def forward(*xs, equation):
        return contracted(equation, xs)

    def dxs(g, position, xs, equation):
        """d of an input = d{out} with the other inputs, by the same letters"""
        terms, result = equation.split("->")
        letters = terms.split(",")
        own, shape = letters[position], xs[position].shape
        others = [i for i in range(len(letters)) if i != position]
        left = ",".join([result, *(letters[i] for i in others)])
        shared = "".join(c for c in own if c in left)
        d = Einsum(g, *(xs[i] for i in others), equation=left + "->" + shared)
        if shared == own:
            return d
        d = Reshape(d, shape=tuple(n if c in shared else 1 for c, n in zip(own, shape, strict=True)))
        return Expand(d, shape=shape)  # a letter that this input alone has was summed: the same all along it
