"""RMSprop: steps scaled by a running mean of the squared gradient."""

from __future__ import annotations

from typing import Any

from tinygrad_edu.optim.optimizer import Optimizer


class RMSprop(Optimizer):
    """Gradient descent, each element's step divided by the root mean square of its recent gradients.

        g ← gradient + weight_decay·w
        v ← alpha·v + (1 − alpha)·g²
        u = g / (√v + ε)                  with centered u = g / (√(v − a²) + ε), a ← alpha·a + (1 − alpha)·g
        w ← w − lr·u                      with momentum w ← w − lr·b, b ← momentum·b + u

    Differs from PyTorch: where rounding makes v − a² negative, it counts as 0 and gives no NaN.

    Args:
        params: parameters, named parameters or groups, see `Optimizer`.
        lr: learning rate.
        alpha: decay of the running means.
        eps: ε.
        weight_decay: factor of w in the gradient (L2 regularisation).
        momentum: what is kept of the last step's direction b.
        centered: divide by the spread around the mean gradient.
        maximize: go up the gradient, not down.
        capturable, foreach, differentiable: PyTorch's choices of implementation, without effect here.

    Source: Tieleman and Hinton, "Neural networks for machine learning", lecture 6e, 2012; centered: Graves,
    "Generating sequences with recurrent neural networks", 2013, equations 38 to 41.

    >>> import tinygrad_edu as tg
    >>> from tinygrad_edu import optim
    >>> w = tg.tensor([1.0], requires_grad=True)
    >>> rmsprop = optim.RMSprop([w], lr=0.1, alpha=0.75)
    >>> (5 * w).sum().backward()
    >>> rmsprop.step()
    >>> round(w.item(), 6)
    0.8
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        options = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(params, {**options, "centered": centered, "maximize": maximize})

    @staticmethod
    def slots(group: dict[str, Any]) -> dict[str, float]:
        """v; a, where centered; b, where there is momentum."""
        names = ["square_avg"] + ["grad_avg"] * group["centered"] + ["momentum_buffer"] * (group["momentum"] > 0)
        return dict.fromkeys(names, 0.0)

    @staticmethod
    def update(param: Any, grad: Any, state: dict[str, Any], step: int, group: dict[str, Any]) -> None:
        """The formula above."""
        alpha, square = group["alpha"], state["square_avg"]
        if group["weight_decay"]:
            grad += group["weight_decay"] * param
        square *= alpha
        square += (1 - alpha) * grad * grad
        if group["centered"]:
            mean = state["grad_avg"]
            mean *= alpha
            mean += (1 - alpha) * grad
            square = (square - mean * mean).clip(0)
        root = square**0.5
        root += group["eps"]
        grad /= root
        if group["momentum"]:
            direction = state["momentum_buffer"]
            direction *= group["momentum"]
            direction += grad
            grad[...] = direction
        grad *= group["lr"]
        param -= grad
