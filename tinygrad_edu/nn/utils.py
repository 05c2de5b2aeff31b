"""What is done to a model's gradients between backward and the optimizer's step."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from tinygrad_edu import backend, kernels
from tinygrad_edu.tensor import Tensor


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Scale all gradients, in place, by one factor so that their common norm is at most `max_norm`.

    norm = √(Σ g²) over every element of every gradient, as if they were one vector; where norm > max_norm, each g
    becomes g·max_norm/(norm + 1e-6). Parameters without a gradient are passed over.

    Differs from PyTorch: where the norm is infinite or NaN the gradients stay as they are, so that what is wrong with
    them can still be seen; look at the result and skip the step.

    Args:
        parameters: Tensors with gradients, or one; a generator is read once.
        max_norm: bound of the norm, at least 0; infinity only measures.
        norm_type: 2.0, or infinity for the largest |g|.
        error_if_nonfinite: raise RuntimeError for a norm that is infinite or NaN.

    Returns the norm before clipping, a Tensor without axes; 0 where there is no gradient.
    Raises ValueError for another norm_type or a negative max_norm.
    Source: Pascanu et al., "On the difficulty of training recurrent neural networks", 2013, algorithm 1.

    >>> import tinygrad_edu as tg
    >>> w = tg.zeros(2, requires_grad=True)
    >>> w.grad = tg.tensor([3.0, 4.0])
    >>> clip_grad_norm_([w], max_norm=1.0).item(), w.grad.numpy().round(3).tolist()
    (5.0, [0.6000000238418579, 0.800000011920929])
    """
    if not max_norm >= 0:
        raise ValueError(f"clip_grad_norm_: max_norm must be at least 0, not {max_norm}")
    if norm_type not in (2, math.inf):
        raise ValueError(f"clip_grad_norm_: norm_type must be 2.0 or infinity, not {norm_type}")
    listed = {id(p): p for p in ([parameters] if isinstance(parameters, Tensor) else parameters)}
    gradients = [p.grad for p in listed.values() if p.grad is not None]
    if not gradients:
        return Tensor(0.0)
    if norm_type == 2:
        norm = math.sqrt(sum(_sum_of_squares(g.array) for g in gradients))
    else:
        largest = [float(abs(g.array).max()) for g in gradients if g.array.size]
        norm = math.nan if any(map(math.isnan, largest)) else max(largest, default=0.0)
    if math.isfinite(norm):
        if norm > max_norm:
            factor = max_norm / (norm + 1e-6)
            for g in {id(g): g for g in gradients}.values():
                backend.module_of(g.array).multiply(g.array, factor, out=g.array)
                g.bump_version()
    elif error_if_nonfinite:
        raise RuntimeError(f"clip_grad_norm_: the norm of the gradients is {norm}; some gradient is infinite or NaN")
    return Tensor(norm, dtype=gradients[0].dtype, device=gradients[0].device)


def _sum_of_squares(array: Any) -> float:
    kernel = getattr(kernels.of(array), "sum_of_squares", None)
    return kernel(array) if kernel else float((array.astype(backend.float64) ** 2).sum())
