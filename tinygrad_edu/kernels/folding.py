"""What of an optimizer step is the same for every element, folded into few numbers."""

import math


def adamw_scalars(
    lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, step: int, grad_scale: float
) -> tuple[float, ...]:
    """(β₁, β₂, (1 − β₁)s, √(1 − β₂)s, eps·r, lr·r/(1 − β₁ᵗ), 1 − lr·λ), r = √(1 − β₂ᵗ), s = grad_scale, t = step.

    With them m ← β₁m + c₃g;  v ← β₂v + (c₄g)²;  θ ← c₇θ − c₆·m/(√v + c₅) is the step of `adamw`: both corrections of
    the means stand in the last factors, as m̂/(√v̂ + eps) = r/(1 − β₁ᵗ)·m/(√v + eps·r).
    """
    root = math.sqrt(1 - beta2**step)
    return (
        beta1,
        beta2,
        (1 - beta1) * grad_scale,
        math.sqrt(1 - beta2) * grad_scale,
        eps * root,
        lr * root / (1 - beta1**step),
        1 - lr * weight_decay,
    )
