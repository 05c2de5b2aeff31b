"""Adagrad: steps scaled by the sum of all squared gradients so far."""

from __future__ import annotations

from typing import Any

from tinygrad_edu.optim.optimizer import Optimizer


class Adagrad(Optimizer):
    """Gradient descent, each element's step divided by the root of the sum of its squared gradients so far.

        g ← gradient + weight_decay·w,    s ← s + g²
        w ← w − lr / (1 + (t − 1)·lr_decay) · g / (√s + ε)

    with t the parameter's own step, counted from 1, and s = initial_accumulator_value before it.

    Args:
        params: parameters, named parameters or groups, see `Optimizer`.
        lr: learning rate.
        lr_decay: how fast it falls with the steps.
        weight_decay: factor of w in the gradient (L2 regularisation).
        initial_accumulator_value: the first s.
        eps: ε.
        maximize: go up the gradient, not down.
        foreach, fused, differentiable: PyTorch's choices of implementation, without effect here.

    Source: Duchi et al., "Adaptive subgradient methods for online learning and stochastic optimization", 2011.

    >>> import tinygrad_edu as tg
    >>> from tinygrad_edu import optim
    >>> w = tg.tensor([1.0], requires_grad=True)
    >>> adagrad = optim.Adagrad([w], lr=0.1)
    >>> for _ in range(2):
    ...     adagrad.zero_grad()
    ...     (5 * w).sum().backward()
    ...     adagrad.step()
    >>> round(w.item(), 4)  # 1 − 0.1 − 0.1/√2
    0.8293
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        differentiable: bool = False,
        *,
        maximize: bool = False,
        fused: bool | None = None,
    ) -> None:
        options = {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay}
        options["initial_accumulator_value"] = initial_accumulator_value
        super().__init__(params, {**options, "maximize": maximize})

    @staticmethod
    def slots(group: dict[str, Any]) -> dict[str, float]:
        """The sum s."""
        return {"sum": group["initial_accumulator_value"]}

    @staticmethod
    def update(param: Any, grad: Any, state: dict[str, Any], step: int, group: dict[str, Any]) -> None:
        """The formula above."""
        if group["weight_decay"]:
            grad += group["weight_decay"] * param
        state["sum"] += grad * grad
        root = state["sum"] ** 0.5
        root += group["eps"]
        grad /= root
        grad *= group["lr"] / (1 + (step - 1) * group["lr_decay"])
        param -= grad
