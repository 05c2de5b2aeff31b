"""Muon: momentum made orthogonal, for the matrices of a network; beside AdamW for all else."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_edu.arrays.library import module_of
from tinygrad_edu.optim.adamw import AdamW
from tinygrad_edu.optim.optimizer import Optimizer

Coefficients = tuple[float, float, float]
COEFFICIENTS: Coefficients = (3.4445, -4.7750, 2.0315)


class Muon(Optimizer):
    """Momentum whose singular values are all brought near 1, so that a step moves every direction alike.

        b ← momentum·b + (1 − momentum)·g
        u = b                             with nesterov u = momentum·b + (1 − momentum)·g
        w ← w·(1 − lr·weight_decay) − lr·s·orthogonal(u)

    where s = √max(1, rows/columns), or 0.2·√max(rows, columns) with adjust_lr_fn "match_rms_adamw": then the step's
    root mean square is about AdamW's and the same lr fits. orthogonal(u) is close to UVᵀ, where UΣVᵀ = u. It starts
    from X = u / max(|u|, ε) and repeats ns_steps times, with A = XXᵀ and (a, b, c) = ns_coefficients,

        X ← a·X + (b·A + c·A²)·X

    Differs from PyTorch: it computes in the parameter's dtype, not in bfloat16.

    Args:
        params: hidden matrices of shape [rows, columns], see `Optimizer`; for the other parameters of a model take
            another optimizer, or `MuonAdamW` for all of them.
        lr: learning rate.
        weight_decay: decay per step and unit of lr.
        momentum: decay of the running mean b of the gradient.
        nesterov: look one momentum step ahead.
        ns_coefficients: a, b and c; the default brings small singular values up fast and leaves them in 0.7 to 1.2.
        eps: ε.
        ns_steps: repetitions.
        adjust_lr_fn: "original" (which None means too) or "match_rms_adamw".

    Raises ValueError for a parameter that is no matrix.
    Source: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024; Liu et al., "Muon is
    scalable for LLM training", 2025, section 2.2.

    >>> import tinygrad_edu as tg
    >>> from tinygrad_edu import optim
    >>> w = tg.zeros(2, 2, requires_grad=True)
    >>> muon = optim.Muon([w], lr=1.0, ns_coefficients=(2.0, -1.5, 0.5), ns_steps=10)
    >>> (w * tg.tensor([[0.0, 7.0], [-2.0, 0.0]])).sum().backward()
    >>> muon.step()
    >>> w.detach().numpy().round(3).tolist()
    [[0.0, -1.0], [1.0, 0.0]]
    """

    takes = "parameter"

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: Coefficients = COEFFICIENTS,
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        options: dict[str, Any] = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov}
        options |= {"ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps}
        super().__init__(params, {**options, "adjust_lr_fn": adjust_lr_fn})

    def check(self, group: dict[str, Any]) -> None:
        """Raise ValueError for an option out of its range, or a parameter that is no matrix."""
        super().check(group)
        _check(group)

    @staticmethod
    def slots(group: dict[str, Any]) -> dict[str, float]:
        """The running mean b."""
        return {"momentum_buffer": 0.0}

    @staticmethod
    def update(param: Any, grad: Any, state: dict[str, Any], step: int, group: dict[str, Any]) -> None:
        """The formula above, for one matrix."""
        momentum, mean = group["momentum"], state["momentum_buffer"]
        mean *= momentum
        grad *= 1 - momentum
        mean += grad
        if group["nesterov"]:
            grad += momentum * mean
        else:
            grad[...] = mean
        rows, columns = param.shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            scale = 0.2 * math.sqrt(max(rows, columns))
        else:
            scale = math.sqrt(max(1.0, rows / max(1, columns)))
        param *= 1 - group["lr"] * group["weight_decay"]
        step_ = orthogonal(grad, group["ns_coefficients"], group["ns_steps"], group["eps"])
        step_ *= group["lr"] * scale
        param -= step_


def orthogonal(matrix: Any, coefficients: Coefficients = COEFFICIENTS, steps: int = 5, eps: float = 1e-7) -> Any:
    """UVᵀ of the matrix UΣVᵀ, roughly: the Newton-Schulz iteration of `Muon`.

    matrix: an array [rows, columns], not written to. Returns a new one of its shape.

    >>> import numpy as np
    >>> orthogonal(np.diag([9.0, 0.5]), coefficients=(2.0, -1.5, 0.5), steps=12).round(3).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    a, b, c = coefficients
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / module_of(x).maximum((matrix * matrix).sum() ** 0.5, eps)
    for _ in range(steps):
        square = x @ x.T
        factor = square @ square
        factor *= c
        square *= b
        factor += square
        change = factor @ x
        x *= a
        x += change
    return x.T if tall else x


class MuonAdamW(Optimizer):
    """One optimizer for a whole model: `Muon` for the groups with use_muon True, `AdamW` for the others.

    With the default adjust_lr_fn both take steps of the same size, so one lr, one weight_decay and one schedule fit
    all; a group may give its own.

    Args:
        params: groups with a `use_muon` each, as from `muon_groups(model, ...)`; where it is missing, False.
        lr: learning rate of both.
        weight_decay: decay per step and unit of lr, of both.
        betas: AdamW's β₁ and β₂.
        eps: AdamW's ε.
        momentum, nesterov, ns_coefficients, ns_steps, adjust_lr_fn: Muon's.

    Raises ValueError for a group with use_muon and a parameter that is no matrix.
    Source: as of `Muon` and `AdamW`.

    >>> from tinygrad_edu import nn, optim
    >>> model = nn.Sequential(nn.Embedding(5, 2), nn.Linear(2, 3))
    >>> optimizer = optim.MuonAdamW(optim.muon_groups(model, weight_decay=0.1), lr=1e-3)
    >>> [(group["param_names"], group["use_muon"], group["lr"]) for group in optimizer.param_groups]
    [(['1.weight'], True, 0.001), (['0.weight'], False, 0.001), (['1.bias'], False, 0.001)]
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        *,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: Coefficients = COEFFICIENTS,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = "match_rms_adamw",
    ) -> None:
        shared = {"lr": lr, "weight_decay": weight_decay}
        muon = {"momentum": momentum, "nesterov": nesterov, "ns_coefficients": ns_coefficients, "eps": 1e-7}
        self._defaults = {
            True: {"use_muon": True, **shared, **muon, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn},
            False: {"use_muon": False, **shared, "betas": betas, "eps": eps, "amsgrad": False},
        }
        super().__init__(params, self._defaults[False])

    def defaults_of(self, group: dict[str, Any]) -> dict[str, Any]:
        """The options of Muon or those of AdamW."""
        return self._defaults[bool(group.get("use_muon", False))]

    def rule(self, group: dict[str, Any]) -> type[Optimizer]:
        """Muon or AdamW."""
        return Muon if group["use_muon"] else AdamW

    def check(self, group: dict[str, Any]) -> None:
        """Raise ValueError for an option out of its range, or a parameter for Muon that is no matrix."""
        super().check(group)
        if group["use_muon"]:
            _check(group)


def _check(group: dict[str, Any]) -> None:
    if group["adjust_lr_fn"] not in (None, "original", "match_rms_adamw"):
        raise ValueError(f"Muon: adjust_lr_fn is 'original' or 'match_rms_adamw', not {group['adjust_lr_fn']!r}")
    for i, p in enumerate(group["params"]):
        if p.ndim != 2:
            shown = repr(group["param_names"][i]) if "param_names" in group else i
            raise ValueError(
                f"Muon: parameter {shown} has shape {p.shape}, and only matrices, of two axes, can be made orthogonal; "
                f"give the others to AdamW, as MuonAdamW(muon_groups(model, ...)) does"
            )
