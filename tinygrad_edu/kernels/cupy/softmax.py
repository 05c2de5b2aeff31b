"""Softmax and its derivative, a block of threads for each row."""

from typing import Any

import cupy

from .launch import launch, lengths


def _rows(x: Any, axis: int) -> Any:
    """x in memory of its own or as it is, with `axis` last and rows in order."""
    return cupy.ascontiguousarray(cupy.moveaxis(x, axis, -1))


def softmax(x: Any, axis: int) -> Any:
    """y = exp(x − max x) / Σ exp(x − max x) along `axis`; 0 where every entry along it is −∞.

    x, any shape, float32 or float64; result of the same shape.
    """
    rows = _rows(x, axis)
    y = cupy.empty(rows.shape, dtype=x.dtype)
    if rows.size:
        launch("softmax", "softmax", x, rows.size // rows.shape[-1], rows, y, *lengths(rows.shape[-1]))
    return cupy.moveaxis(y, -1, axis)


def softmax_backward(g: Any, y: Any, axis: int) -> Any:
    """dx = y ⊙ (dy − Σ dy ⊙ y) along `axis`; 0 where y is 0.

    g, the gradient of y, and y, the result of `softmax`: the same shape as the result here.
    """
    gradients, rows = _rows(g, axis), _rows(y, axis)
    dx = cupy.empty(rows.shape, dtype=y.dtype)
    if rows.size:
        n = rows.shape[-1]
        launch("softmax", "softmax_backward", y, rows.size // n, gradients, rows, dx, *lengths(n))
    return cupy.moveaxis(dx, -1, axis)
