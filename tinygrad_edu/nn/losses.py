"""Losses as modules: each calls the function of nn.functional that its docstring names."""

from __future__ import annotations

from typing import Any

from tinygrad_edu.nn import functional as F
from tinygrad_edu.nn.functional.losses import reduction_of
from tinygrad_edu.nn.module import Module
from tinygrad_edu.nn.parameter import Buffer
from tinygrad_edu.options import flag, integer, number
from tinygrad_edu.tensor import Tensor


class _Loss(Module):
    """A loss of (input, target): a number, or with reduction "none" one for each target.

    `size_average` and `reduce` are the older form of `reduction`; None leaves it to that. `weight` and `pos_weight` are
    buffers: they move with the module, and state_dict has them.
    """

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        batchmean = reduction == "batchmean" and size_average is reduce is None and isinstance(self, KLDivLoss)
        self.reduction = reduction if batchmean else reduction_of(size_average, reduce, reduction, type(self).__name__)

    def extra_repr(self) -> str:
        """reduction='mean'"""
        return f"reduction={self.reduction!r}"


class NLLLoss(_Loss):
    """−w_t · log-probability of the target t; see nn.functional.nll_loss."""

    def __init__(
        self,
        weight: Any = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.weight, self.ignore_index = _buffer(weight), integer(ignore_index, "NLLLoss: ignore_index")

    def forward(self, input: Any, target: Any) -> Tensor:
        """(input, target) -> the loss."""
        return F.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class CrossEntropyLoss(_Loss):
    """−ln softmax(logits) at the target; see nn.functional.cross_entropy."""

    def __init__(
        self,
        weight: Any = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.weight, self.ignore_index = _buffer(weight), integer(ignore_index, "CrossEntropyLoss: ignore_index")
        self.label_smoothing = number(label_smoothing, "CrossEntropyLoss: label_smoothing", 0.0, 1.0)

    def forward(self, input: Any, target: Any) -> Tensor:
        """(input, target) -> the loss."""
        return F.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class BCEWithLogitsLoss(_Loss):
    """−w (p y ln σ(z) + (1 − y) ln(1 − σ(z))) of logits z; see nn.functional.binary_cross_entropy_with_logits."""

    def __init__(
        self,
        weight: Any = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Any = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.weight, self.pos_weight = _buffer(weight), _buffer(pos_weight)

    def forward(self, input: Any, target: Any) -> Tensor:
        """(input, target) -> the loss."""
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class BCELoss(_Loss):
    """−w (y ln p + (1 − y) ln(1 − p)) of probabilities p; see nn.functional.binary_cross_entropy."""

    def __init__(
        self,
        weight: Any = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.weight = _buffer(weight)

    def forward(self, input: Any, target: Any) -> Tensor:
        """(input, target) -> the loss."""
        return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class MSELoss(_Loss):
    """(x − y)²."""

    def forward(self, input: Any, target: Any) -> Tensor:
        """(input, target) -> the loss."""
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """|x − y|."""

    def forward(self, input: Any, target: Any) -> Tensor:
        """(input, target) -> the loss."""
        return F.l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """(x − y)² / 2·beta where |x − y| < beta, else |x − y| − beta/2."""

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = number(beta, "SmoothL1Loss: beta", 0.0)

    def forward(self, input: Any, target: Any) -> Tensor:
        """(input, target) -> the loss."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """(x − y)² / 2 where |x − y| < delta, else delta·(|x − y| − delta/2)."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = number(delta, "HuberLoss: delta", above=0.0)

    def forward(self, input: Any, target: Any) -> Tensor:
        """(input, target) -> the loss."""
        return F.huber_loss(input, target, self.reduction, self.delta)


class KLDivLoss(_Loss):
    """y (ln y − x) of log-probabilities x and probabilities y; see nn.functional.kl_div."""

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = flag(log_target, "KLDivLoss: log_target")

    def forward(self, input: Any, target: Any) -> Tensor:
        """(input, target) -> the loss."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


def _buffer(weight: Any) -> Buffer | None:
    return None if weight is None else Buffer(weight)
