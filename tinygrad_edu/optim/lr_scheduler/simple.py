"""Schedules of one line: a function, steps, a factor, a straight line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tinygrad_edu.optim.lr_scheduler.base import LRScheduler, per_group
from tinygrad_edu.optim.optimizer import Optimizer
from tinygrad_edu.options import integer


class LambdaLR(LRScheduler):
    """The first rate times a function of the number of steps t: lr = base·lr_lambda(t).

    Args:
        optimizer: whose groups' `lr` are set.
        lr_lambda: t to a factor, one function or one for each group. It is not part of the saved state.
        last_epoch: see `LRScheduler`.

    >>> from tinygrad_edu import nn, optim
    >>> sgd = optim.SGD(nn.Linear(2, 2).parameters(), lr=1.0)
    >>> schedule = LambdaLR(sgd, lambda t: 0.5**t)
    >>> rates = []
    >>> for _ in range(3):
    ...     rates.append(schedule.get_last_lr()[0])
    ...     schedule.step()
    >>> rates
    [1.0, 0.5, 0.25]
    """

    unsaved = ("optimizer", "lr_lambdas")

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self.lr_lambdas = per_group(lr_lambda, optimizer, "LambdaLR: lr_lambda")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The formula above."""
        return [base * factor(self.last_epoch) for base, factor in zip(self.base_lrs, self.lr_lambdas)]


class StepLR(LRScheduler):
    """Times gamma at every step_size-th step: lr = base·gamma^⌊t / step_size⌋.

    Args:
        optimizer: whose groups' `lr` are set.
        step_size: steps from one fall to the next.
        gamma: the factor.
        last_epoch: see `LRScheduler`.

    >>> from tinygrad_edu import nn, optim
    >>> schedule = StepLR(optim.SGD(nn.Linear(2, 2).parameters(), lr=1.0), step_size=2, gamma=0.5)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(schedule.get_last_lr()[0])
    ...     schedule.step()
    >>> rates
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        step_size = integer(step_size, "StepLR: step_size", 1)
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """From the present rates, so that schedules can be combined."""
        falls = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return [lr * self.gamma for lr in self.rates()] if falls else self.rates()


class MultiStepLR(LRScheduler):
    """Times gamma at each milestone: lr = base·gamma^(number of milestones ≤ t).

    Args:
        optimizer: whose groups' `lr` are set.
        milestones: the steps at which it falls; one that is given n times counts n times.
        gamma: the factor.
        last_epoch: see `LRScheduler`.

    >>> from tinygrad_edu import nn, optim
    >>> schedule = MultiStepLR(optim.SGD(nn.Linear(2, 2).parameters(), lr=1.0), milestones=[1, 3], gamma=0.5)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(schedule.get_last_lr()[0])
    ...     schedule.step()
    >>> rates
    [1.0, 0.5, 0.5, 0.25, 0.25]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """From the present rates, so that schedules can be combined."""
        times = self.milestones.count(self.last_epoch)
        return [lr * self.gamma**times for lr in self.rates()] if times else self.rates()


class ExponentialLR(LRScheduler):
    """Times gamma at every step: lr = base·gammaᵗ.

    Args:
        optimizer: whose groups' `lr` are set.
        gamma: the factor.
        last_epoch: see `LRScheduler`.

    >>> from tinygrad_edu import nn, optim
    >>> schedule = ExponentialLR(optim.SGD(nn.Linear(2, 2).parameters(), lr=1.0), gamma=0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(schedule.get_last_lr()[0])
    ...     schedule.step()
    >>> rates
    [1.0, 0.5, 0.25, 0.125]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """From the present rates, so that schedules can be combined."""
        return [lr * self.gamma for lr in self.rates()] if self.last_epoch > 0 else self.rates()


class ConstantLR(LRScheduler):
    """A part of the rate at first, all of it from then on: lr = base·factor while t < total_iters.

    Args:
        optimizer: whose groups' `lr` are set.
        factor: the part, above 0 and at most 1.
        total_iters: steps with it.
        last_epoch: see `LRScheduler`.

    >>> from tinygrad_edu import nn, optim
    >>> schedule = ConstantLR(optim.SGD(nn.Linear(2, 2).parameters(), lr=1.0), factor=0.5, total_iters=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(schedule.get_last_lr()[0])
    ...     schedule.step()
    >>> rates
    [0.5, 0.5, 1.0, 1.0]
    """

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        _within("ConstantLR", factor=factor)
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """From the present rates, so that schedules can be combined."""
        if self.last_epoch == 0:
            return [lr * self.factor for lr in self.rates()]
        return [lr * (1 / self.factor) for lr in self.rates()] if self.last_epoch == self.total_iters else self.rates()


class LinearLR(LRScheduler):
    """A straight line from one part of the rate to another: with r = min(t, total_iters) / total_iters,
    lr = base·(start_factor + (end_factor − start_factor)·r).

    Args:
        optimizer: whose groups' `lr` are set.
        start_factor: the part at first, above 0 and at most 1.
        end_factor: the part from step total_iters on, 0 to 1.
        total_iters: steps from the one to the other.
        last_epoch: see `LRScheduler`.

    >>> from tinygrad_edu import nn, optim
    >>> schedule = LinearLR(optim.SGD(nn.Linear(2, 2).parameters(), lr=1.0), start_factor=0.25, total_iters=3)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(schedule.get_last_lr()[0])
    ...     schedule.step()
    >>> rates
    [0.25, 0.5, 0.75, 1.0, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        _within("LinearLR", start_factor=start_factor)
        if not 0 <= end_factor <= 1:
            raise ValueError(f"LinearLR: end_factor must lie between 0 and 1, not {end_factor}")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """From the present rates, so that schedules can be combined."""
        t, rise = self.last_epoch, self.end_factor - self.start_factor
        if t == 0:
            return [lr * self.start_factor for lr in self.rates()]
        if t > self.total_iters:
            return self.rates()
        return [lr * (1 + rise / (self.total_iters * self.start_factor + (t - 1) * rise)) for lr in self.rates()]


def _within(what: str, **factors: Any) -> None:
    for name, value in factors.items():
        if not 0 < value <= 1:
            raise ValueError(f"{what}: {name} must lie above 0 and be at most 1, not {value}")
