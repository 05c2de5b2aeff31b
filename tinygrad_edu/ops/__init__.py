"""Every op: formula, forward and derivative side by side, a family a file."""

from tinygrad_edu.ops import activation, attention, elementwise, index, layer, loss, matrix, reduction, shape

__all__ = ["activation", "attention", "elementwise", "index", "layer", "loss", "matrix", "reduction", "shape"]
