"""Every op: formula, forward and derivative side by side, a family a file."""

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
    "reduction",
    "running",
    "search",
    "shape",
]
