"""Every op: formula, forward and derivative side by side, a family a file."""

from tinygrad_edu.engine.tape import primitives
from tinygrad_edu.ops import (
    activation,
    angle,
    arithmetic,
    attention,
    bits,
    choice,
    curve,
    index,
    layer,
    loss,
    matrix,
    order,
    recurrent,
    reduction,
    running,
    search,
    shape,
)

__all__ = [
    "activation",
    "angle",
    "arithmetic",
    "attention",
    "bits",
    "choice",
    "curve",
    "index",
    "layer",
    "loss",
    "matrix",
    "order",
    "recurrent",
    "reduction",
    "running",
    "search",
    "shape",
]

primitives.sum_to, primitives.cast, primitives.alias = shape.SumTo, choice.Cast, shape.Alias
