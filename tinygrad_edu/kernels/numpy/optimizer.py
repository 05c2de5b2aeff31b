"""What an optimizer step does to flat arrays."""

import numpy as np

from ...arrays.buffers import empty
from .. import crew
from ..folding import adamw_scalars
from .common import chunks, packed, scalars

_SAFE = (1e-24, 1e24)  # a sum of squares of a chunk outside it is taken again in float64


def adamw(
    param: np.ndarray,
    grad: np.ndarray,
    exp_avg: np.ndarray,
    exp_avg_sq: np.ndarray,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    step: int,
    grad_scale: float = 1.0,
) -> None:
    """One AdamW step in place, with g = grad·grad_scale and t = step, counted from 1:

    θ ← θ − lr·λ·θ;  m ← β₁m + (1 − β₁)g;  v ← β₂v + (1 − β₂)g²;  θ ← θ − lr·m̂/(√v̂ + eps),
    m̂ = m/(1 − β₁ᵗ), v̂ = v/(1 − β₂ᵗ).

    param θ, grad, exp_avg m and exp_avg_sq v: contiguous, one axis, one length, one floating dtype. param and both
    moments are written; grad is not.
    Source: Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.

    >>> p, m, v = np.ones(1), np.zeros(1), np.zeros(1)
    >>> adamw(p, np.full(1, 5.0), m, v, lr=0.1, beta1=0.9, beta2=0.99, eps=0.0, weight_decay=0.1, step=1)
    >>> p.round(6)
    array([0.89])
    """
    folded = adamw_scalars(lr, beta1, beta2, eps, weight_decay, step, grad_scale)
    b1, b2, g1, g2, floor, size, decay = scalars(param.dtype, *folded)

    def update(start, stop):
        parts = chunks(start, stop)
        scratch = empty((parts[0].stop - start if parts else 0,), param.dtype)
        for part in parts:
            p, g, m, v = param[part], grad[part], exp_avg[part], exp_avg_sq[part]
            x = scratch[: p.size]
            np.multiply(g, g1, out=x)
            m *= b1
            m += x
            np.multiply(g, g2, out=x)
            x *= x
            v *= b2
            v += x
            np.sqrt(v, out=x)
            x += floor
            np.divide(m, x, out=x)
            x *= size
            if weight_decay:
                p *= decay
            p -= x

    crew.shared(update, param.size)


def sum_of_squares(x: np.ndarray) -> float:
    """Σ x² of all elements: chunks in the array's precision, their sum in float64.

    x, any shape; the square root of such sums is the gradient norm that clipping looks at. A float32 chunk whose sum
    would overflow or vanish is taken in float64.

    >>> sum_of_squares(np.array([3.0, 4.0], np.float32))
    25.0
    """
    flat = packed(x).reshape(-1)
    total, (low, high) = 0.0, _SAFE
    with np.errstate(over="ignore", invalid="ignore"):
        for at in chunks(0, flat.size):
            part = flat[at]
            square = float(np.dot(part, part))
            if not low < square < high:
                wide = part.astype(np.float64)
                square = float(np.dot(wide, wide))
            total += square
    return total
