"""A schedule that looks at a measurement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinygrad_edu.optim.lr_scheduler.base import LRScheduler, per_group
from tinygrad_edu.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """Times factor, whenever a metric has not become better for more than `patience` steps.

    Better than the best so far is, in mode "min", metric < best·(1 − threshold), or metric < best − threshold with
    threshold_mode "abs"; in mode "max", > and +.

    Args:
        optimizer: whose groups' `lr` are set.
        mode: "min" for a loss, "max" for an accuracy.
        factor: what the rates are multiplied by, below 1.
        patience: steps without improvement that change nothing.
        threshold, threshold_mode: see above.
        cooldown: steps after a reduction that are not counted.
        min_lr: the lowest rate, one or one for each group.
        eps: a change that is not larger is left out.

    Call `step(metric)` after each measurement.

    >>> from tinygrad_edu import nn, optim
    >>> sgd = optim.SGD(nn.Linear(2, 2).parameters(), lr=1.0)
    >>> schedule = ReduceLROnPlateau(sgd, factor=0.5, patience=1)
    >>> rates = []
    >>> for loss in (3.0, 2.0, 2.1, 2.2, 2.3):
    ...     schedule.step(loss)
    ...     rates.append(schedule.get_last_lr()[0])
    >>> rates
    [1.0, 1.0, 1.0, 0.5, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(
                f"ReduceLROnPlateau: mode is 'min' or 'max' and threshold_mode 'rel' or 'abs', not {mode!r} and "
                f"{threshold_mode!r}"
            )
        if not factor < 1:
            raise ValueError(f"ReduceLROnPlateau: factor must be below 1, not {factor}")
        self.mode, self.factor, self.patience, self.cooldown, self.eps = mode, factor, patience, cooldown, eps
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.min_lrs = per_group(min_lr, optimizer, "ReduceLROnPlateau: min_lr")
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = 0
        super().__init__(optimizer)

    def get_lr(self) -> list[float]:
        """The rates as they are."""
        return self.rates()

    def step(self, metrics: Any) -> None:  # type: ignore[override]
        """Take in a measurement, a number or a Tensor of one element, and reduce the rates if it is time."""
        self.last_epoch += 1
        metric = float(metrics)
        if self._is_better(metric):
            self.best, self.num_bad_epochs = metric, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        rates = self.rates()
        if self.num_bad_epochs > self.patience:
            lower = [max(lr * self.factor, low) for lr, low in zip(rates, self.min_lrs)]
            rates = [new if lr - new > self.eps else lr for lr, new in zip(rates, lower)]
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._set(rates)

    def _is_better(self, metric: float) -> bool:
        sign = 1 if self.mode == "max" else -1
        if self.threshold_mode == "rel":
            bound = self.best * (1 + sign * self.threshold)
        else:
            bound = self.best + sign * self.threshold
        return metric > bound if self.mode == "max" else metric < bound
