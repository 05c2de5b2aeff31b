"""Schedules along cosines: once and back, with restarts, up and down in one cycle."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinygrad_edu.optim.lr_scheduler.base import LRScheduler, per_group
from tinygrad_edu.optim.optimizer import Optimizer
from tinygrad_edu.options import integer, number


class CosineAnnealingLR(LRScheduler):
    """Down along half a cosine, and up again after it: lr = eta_min + ½(base − eta_min)·(1 + cos(π·t / T_max)).

    Args:
        optimizer: whose groups' `lr` are set.
        T_max: steps of the way down; go on to 2·T_max and the rate is back at base.
        eta_min: the lowest rate.
        last_epoch: see `LRScheduler`.

    Source: Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017, equation 5.

    >>> from tinygrad_edu import nn, optim
    >>> schedule = CosineAnnealingLR(optim.SGD(nn.Linear(2, 2).parameters(), lr=1.0), T_max=2)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(schedule.get_last_lr()[0], 3))
    ...     schedule.step()
    >>> rates
    [1.0, 0.5, 0.0, 0.5, 1.0]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """From the present rates, so that schedules can be combined: lr − eta_min grows as 1 + cos does."""
        t, low = self.last_epoch, self.eta_min
        if t == 0:
            return self.rates()
        before, now = (1 + math.cos(math.pi * at / self.T_max) for at in (t - 1, t))
        if (t - 1 - self.T_max) % (2 * self.T_max) == 0:  # it stood at the bottom, where there is nothing to multiply
            first = 1 - math.cos(math.pi / self.T_max)
            return [lr + (base - low) * first / 2 for lr, base in zip(self.rates(), self.base_lrs)]
        return [now / before * (lr - low) + low for lr in self.rates()]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Down along half a cosine, then back to the first rate at once, and again:
    lr = eta_min + ½(base − eta_min)·(1 + cos(π·T_cur / T_i)), where T_cur counts from the last restart.

    Args:
        optimizer: whose groups' `lr` are set.
        T_0: steps to the first restart.
        T_mult: by how much each way down, T_i, is longer than the one before.
        eta_min: the lowest rate.
        last_epoch: see `LRScheduler`.

    Source: Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017.

    >>> from tinygrad_edu import nn, optim
    >>> schedule = CosineAnnealingWarmRestarts(optim.SGD(nn.Linear(2, 2).parameters(), lr=1.0), T_0=2)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(schedule.get_last_lr()[0], 3))
    ...     schedule.step()
    >>> rates
    [1.0, 0.5, 1.0, 0.5, 1.0]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        for name, value in (("T_0", T_0), ("T_mult", T_mult)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"CosineAnnealingWarmRestarts: {name} is an integer of at least 1, not {value!r}")
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        self._place(last_epoch + 1)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The formula above."""
        now = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * now / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """One more step is done; or, with `epoch`, go to that time, which may lie between two steps."""
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"CosineAnnealingWarmRestarts.step: epoch must be at least 0, not {epoch}")
        else:
            self._place(epoch)
        self.last_epoch = math.floor(epoch)
        self._set(self.get_lr())

    def restart(self) -> None:
        """Begin again, from the first rates."""
        self._place(0)
        super().restart()

    def _place(self, epoch: float) -> None:
        """Find the way down that a time lies on."""
        self.T_cur, self.T_i = epoch, self.T_0
        while self.T_cur >= self.T_i:
            if self.T_mult == 1:
                self.T_cur %= self.T_i
            else:
                self.T_cur, self.T_i = self.T_cur - self.T_i, self.T_i * self.T_mult


class OneCycleLR(LRScheduler):
    """Up from max_lr / div_factor to max_lr, then down to max_lr / (div_factor·final_div_factor), once.

    Between two rates a and b it goes along half a cosine, b + ½(a − b)·(1 + cos(π·r)), or along a line, a + (b − a)·r,
    with r from 0 to 1. Momentum, or AdamW's β₁, runs against it: from max_momentum down to base_momentum and back.

    Args:
        optimizer: whose groups' `lr` are set, and whose `momentum` or `betas` where cycle_momentum.
        max_lr: the highest rate, one or one for each group. The groups' own rates are overwritten.
        total_steps: steps of the whole; or, in its place, epochs and steps_per_epoch, whose product it is.
        pct_start: the part of them for the way up.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: whether momentum changes too.
        base_momentum, max_momentum: its lowest and highest, one or one for each group.
        div_factor, final_div_factor: see above.
        three_phase: come down to the first rate in as many steps as the way up took, and only then to the last one.
        last_epoch: see `LRScheduler`.

    Raises ValueError for options that do not fit, and when stepped beyond total_steps.
    Source: Smith and Topin, "Super-convergence: very fast training of neural networks using large learning rates",
    2017.

    >>> from tinygrad_edu import nn, optim
    >>> sgd = optim.SGD(nn.Linear(2, 2).parameters(), lr=1.0, momentum=0.9)
    >>> schedule = OneCycleLR(sgd, max_lr=1.0, total_steps=5, pct_start=0.4, div_factor=2, anneal_strategy="linear")
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(schedule.get_last_lr()[0], 3))
    ...     schedule.step()
    >>> rates
    [0.5, 1.0, 0.667, 0.333, 0.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("OneCycleLR: give total_steps, or both epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        total_steps = integer(total_steps, "OneCycleLR: total_steps", 1)
        pct_start = number(pct_start, "OneCycleLR: pct_start", 0.0, 1.0)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"OneCycleLR: anneal_strategy is 'cos' or 'linear', not {anneal_strategy!r}")
        self.total_steps, self.pct_start, self.three_phase = total_steps, pct_start, three_phase
        self.anneal_strategy, self.cycle_momentum = anneal_strategy, cycle_momentum
        self.max_lrs = per_group(max_lr, optimizer, "OneCycleLR: max_lr")
        self.base_momentums = per_group(base_momentum, optimizer, "OneCycleLR: base_momentum")
        self.max_momentums = per_group(max_momentum, optimizer, "OneCycleLR: max_momentum")
        for group, top in zip(optimizer.param_groups, self.max_lrs):
            if cycle_momentum and not ("momentum" in group or "betas" in group):
                raise ValueError(
                    f"OneCycleLR: {type(optimizer).__name__} has neither momentum nor betas; give cycle_momentum=False"
                )
            if last_epoch == -1:
                group["initial_lr"] = top / div_factor
        self.min_lrs = [top / div_factor / final_div_factor for top in self.max_lrs]
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The formula above; the groups' momentum is set on the way."""
        if self.last_epoch > self.total_steps:
            raise ValueError(f"OneCycleLR: step {self.last_epoch} of {self.total_steps}; the cycle is over")
        phase, part = self._phase()
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
                momentum = self._between(*[(high, low), (low, high), (high, high)][phase], part)
                if "betas" in group:
                    group["betas"] = (momentum, *group["betas"][1:])
                else:
                    group["momentum"] = momentum
        lrs = []
        for first, top, last in zip(self.base_lrs, self.max_lrs, self.min_lrs):
            ends = [first, top, first, last] if self.three_phase else [first, top, last]
            lrs.append(self._between(ends[phase], ends[phase + 1], part))
        return lrs

    def _phase(self) -> tuple[int, float]:
        """Which phase the present step is in, and how much of it is done."""
        up = self.pct_start * self.total_steps - 1
        ends = [up, 2 * up, self.total_steps - 1] if self.three_phase else [up, self.total_steps - 1]
        phase = next((i for i, end in enumerate(ends) if self.last_epoch <= end), len(ends) - 1)
        start, end = ends[phase - 1] if phase else 0.0, ends[phase]
        return phase, (self.last_epoch - start) / (end - start) if end != start else 1.0

    def _between(self, a: float, b: float, part: float) -> float:
        if self.anneal_strategy == "linear":
            return a + (b - a) * part
        return b + (a - b) / 2 * (1 + math.cos(math.pi * part))
