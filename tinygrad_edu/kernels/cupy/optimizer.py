"""What an optimizer step does to flat arrays."""

from typing import Any

from ..folding import adamw_scalars
from .launch import blocks_for, launch, lengths, numbers


def adamw(
    param: Any,
    grad: Any,
    exp_avg: Any,
    exp_avg_sq: Any,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    step: int,
    grad_scale: float = 1.0,
) -> None:
    """One AdamW step in place, in one pass over the arrays; formula and arguments as of NumPy's kernel."""
    if not param.size:
        return
    folded = numbers(param, *adamw_scalars(lr, beta1, beta2, eps, weight_decay, step, grad_scale))
    arrays = param, grad, exp_avg, exp_avg_sq
    launch("adamw", "adamw", param, blocks_for(param.size), *arrays, *lengths(param.size), *folded)
