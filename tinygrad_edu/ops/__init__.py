"""Every op: formula, forward and derivative side by side, a family a file."""

from tinygrad_edu.ops import (
    activation,
    arithmetic,
    attention,
    choice,
    curve,
    index,
    layer,
    loss,
    matrix,
    order,
    reduction,
    shape,
)

__all__ = [
    "activation",
    "arithmetic",
    "attention",
    "choice",
    "curve",
    "index",
    "layer",
    "loss",
    "matrix",
    "order",
    "reduction",
    "shape",
]
