"""Adam, and Adam with the decay apart from the gradient."""

from __future__ import annotations

from typing import Any

from tinygrad_edu import kernels
from tinygrad_edu.arrays import library
from tinygrad_edu.optim.optimizer import Optimizer, leaves_grad


class AdamW(Optimizer):
    """Adam with decoupled weight decay. With g the gradient and t the parameter's own step, counted from 1:

        w ← w·(1 − lr·weight_decay)
        m ← β₁m + (1 − β₁)g,    v ← β₂v + (1 − β₂)g²
        w ← w − lr·(m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)

    Args:
        params: parameters, named parameters or groups, see `Optimizer`; `decay_groups(model, ...)` makes some.
        lr: learning rate. To change it, write `param_groups[i]["lr"]`.
        betas: β₁ and β₂, decay of the running means.
        eps: ε.
        weight_decay: decay per step and unit of lr.
        amsgrad: divide by the largest v there has been, not by the present one.
        maximize: go up the gradient, not down.
        foreach, capturable, differentiable, fused: PyTorch's choices of implementation, without effect here: a step is
            always fused.

    Source: Loshchilov and Hutter, "Decoupled weight decay regularization", 2019, algorithm 2.

    >>> import tinygrad_edu as tg
    >>> from tinygrad_edu import optim
    >>> w = tg.tensor([1.0], requires_grad=True)
    >>> adamw = optim.AdamW([w], lr=0.1, weight_decay=0.0)
    >>> (5 * w).sum().backward()
    >>> adamw.step()
    >>> round(w.item(), 6)
    0.9
    """

    takes = "vector"

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**options, "amsgrad": amsgrad, "maximize": maximize})

    @staticmethod
    def slots(group: dict[str, Any]) -> dict[str, float]:
        """The running means of g and g², and the largest of the second."""
        return dict.fromkeys(["exp_avg", "exp_avg_sq"] + ["max_exp_avg_sq"] * group["amsgrad"], 0.0)

    @staticmethod
    @leaves_grad
    def update(param: Any, grad: Any, state: dict[str, Any], step: int, group: dict[str, Any]) -> None:
        """The formula above, by a kernel where the library has one."""
        beta1, beta2 = group["betas"]
        options = {"lr": group["lr"], "eps": group["eps"], "weight_decay": group["weight_decay"]}
        options |= {"beta1": beta1, "beta2": beta2, "step": step}
        if group["amsgrad"]:
            _adamw(param, grad, **state, **options)
        else:
            kernel = kernels.of(param).adamw if kernels.take("adamw", param) else _adamw
            kernel(param, grad, state["exp_avg"], state["exp_avg_sq"], **options)


class Adam(AdamW):
    """Steps scaled by running means of the gradient and of its square. With t the parameter's own step, from 1:

        g ← gradient + weight_decay·w
        m ← β₁m + (1 − β₁)g,    v ← β₂v + (1 − β₂)g²
        w ← w − lr·(m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)

    The decay is part of the gradient and scaled with it, so it hardly depends on weight_decay's size; what is mostly
    wanted is `AdamW`.

    Args:
        params: parameters, named parameters or groups, see `Optimizer`.
        lr, betas, eps, amsgrad, maximize, foreach, capturable, differentiable, fused: as of `AdamW`.
        weight_decay: factor of w in the gradient (L2 regularisation).

    Source: Kingma and Ba, "Adam: a method for stochastic optimization", 2015, algorithm 1; amsgrad: Reddi et al., "On
    the convergence of Adam and beyond", 2018, algorithm 2.

    >>> import tinygrad_edu as tg
    >>> from tinygrad_edu import optim
    >>> w = tg.tensor([1.0], requires_grad=True)
    >>> adam = optim.Adam([w], lr=0.1, weight_decay=0.1)
    >>> (0 * w).sum().backward()
    >>> adam.step()
    >>> round(w.item(), 6)
    0.9
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)

    @staticmethod
    def update(param: Any, grad: Any, state: dict[str, Any], step: int, group: dict[str, Any]) -> None:
        """The formula above."""
        if group["weight_decay"]:
            grad += group["weight_decay"] * param
        AdamW.update(param, grad, state, step, {**group, "weight_decay": 0.0})


def _adamw(
    param: Any,
    grad: Any,
    exp_avg: Any,
    exp_avg_sq: Any,
    max_exp_avg_sq: Any = None,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    step: int,
) -> None:
    """The formula by the array's own arithmetic, for libraries without a kernel; writes all arrays but grad."""
    param *= 1 - lr * weight_decay
    exp_avg *= beta1
    exp_avg += (1 - beta1) * grad
    exp_avg_sq *= beta2
    exp_avg_sq += (1 - beta2) * grad * grad
    if max_exp_avg_sq is not None:
        exp_avg_sq = library.module_of(param).maximum(max_exp_avg_sq, exp_avg_sq, out=max_exp_avg_sq)
    root = (exp_avg_sq / (1 - beta2**step)) ** 0.5
    root += eps
    exp_avg = exp_avg * (lr / (1 - beta1**step))
    exp_avg /= root
    param -= exp_avg
