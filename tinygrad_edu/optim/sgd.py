"""SGD: down the gradient, with momentum if wanted."""

from __future__ import annotations

from typing import Any

from tinygrad_edu.optim.optimizer import Optimizer


class SGD(Optimizer):
    """Stochastic gradient descent.

        g ← gradient + weight_decay·w
        b ← momentum·b + (1 − dampening)·g        at a parameter's first step b ← g
        w ← w − lr·b                              with nesterov w ← w − lr·(g + momentum·b), without momentum − lr·g

    Args:
        params: parameters, named parameters or groups, see `Optimizer`.
        lr: learning rate.
        momentum: what is kept of the last step's direction b.
        dampening: by how much the new gradient counts less.
        weight_decay: factor of w in the gradient (L2 regularisation).
        nesterov: look one momentum step ahead.
        maximize: go up the gradient, not down.
        foreach, fused, differentiable: PyTorch's choices of implementation, without effect here.

    Raises ValueError for nesterov without momentum or with dampening.
    Source: Sutskever et al., "On the importance of initialization and momentum in deep learning", 2013, section 2, in
    PyTorch's variant: lr multiplies the sum, not each new gradient.

    >>> import tinygrad_edu as tg
    >>> from tinygrad_edu import optim
    >>> w = tg.tensor(2.0, requires_grad=True)
    >>> sgd = optim.SGD([w], lr=0.1)
    >>> (w * (w * 3)).backward()
    >>> sgd.step()
    >>> round(w.item(), 6)
    0.8
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        options = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        super().__init__(params, {**options, "nesterov": nesterov, "maximize": maximize})

    def check(self, group: dict[str, Any]) -> None:
        """Raise ValueError for an option out of its range."""
        super().check(group)
        if group["nesterov"] and not (group["momentum"] > 0 and group["dampening"] == 0):
            raise ValueError(
                f"SGD: nesterov needs a momentum above 0 and no dampening, not momentum {group['momentum']} and "
                f"dampening {group['dampening']}"
            )

    @staticmethod
    def slots(group: dict[str, Any]) -> dict[str, float]:
        """The direction b, where there is momentum."""
        return {"momentum_buffer": 0.0} if group["momentum"] else {}

    @staticmethod
    def update(param: Any, grad: Any, state: dict[str, Any], step: int, group: dict[str, Any]) -> None:
        """The formula above."""
        momentum = group["momentum"]
        if group["weight_decay"]:
            grad += group["weight_decay"] * param
        if momentum:
            direction = state["momentum_buffer"]
            direction *= momentum
            direction += grad if step == 1 else (1 - group["dampening"]) * grad
            if group["nesterov"]:
                grad += momentum * direction
            else:
                grad[...] = direction
        grad *= group["lr"]
        param -= grad
