"""The learning rate over a run: up in a line, down along half a cosine or a line."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_edu.optim.optimizer import Optimizer


class Warmup:
    """Base of schedules over a whole run: a linear warm-up, then what a subclass says in `after`.

    With i the number of steps done, and peak the group's rate when the schedule was made:
        i < warmup_steps                   peak·(i + 1) / (warmup_steps + 1)
        warmup_steps <= i < total_steps    after(i, peak)
        i >= total_steps                   min_lr

    Making it sets the rate of the first step; call `step()` once after each `optimizer.step()`.
    """

    def __init__(self, optimizer: Optimizer, warmup_steps: int, total_steps: int, min_lr: float) -> None:
        name = type(self).__name__
        if not 0 <= warmup_steps <= total_steps:
            raise ValueError(
                f"{name}: warmup_steps {warmup_steps} must be 0 or more and at most total_steps {total_steps}"
            )
        peaks = [group["lr"] for group in optimizer.param_groups]
        if not 0 <= min_lr <= min(peaks):
            raise ValueError(f"{name}: min_lr {min_lr} must lie between 0 and the lowest group's lr {min(peaks)}")
        self.optimizer = optimizer
        self.warmup_steps, self.total_steps, self.min_lr = warmup_steps, total_steps, min_lr
        self.base_lrs = peaks
        self.last_step = 0
        self._apply()

    def after(self, step: int, peak: float) -> float:
        """The learning rate between the warm-up and the end."""
        raise NotImplementedError("a schedule needs an after(step, peak)")

    def lr_at(self, step: int, peak: float) -> float:
        """The learning rate after `step` steps, in a group with this peak."""
        if step < self.warmup_steps:
            return peak * (step + 1) / (self.warmup_steps + 1)
        return self.min_lr if step >= self.total_steps else self.after(step, peak)

    def step(self) -> None:
        """One optimizer step is done: set the rate of the next."""
        self.last_step += 1
        self._apply()

    def get_last_lr(self) -> list[float]:
        """The rate that is set now, one per group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """The schedule and its position, as numbers that JSON can hold."""
        return {name: value for name, value in vars(self).items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue a saved schedule: its shape, its position, and the groups' rates that follow.

        Raises ValueError where something is missing or the number of groups differs; nothing is changed then.
        """
        names = self.state_dict().keys()
        if missing := [name for name in names if name not in state_dict]:
            raise ValueError(f"{type(self).__name__}.load_state_dict: missing {', '.join(missing)}")
        if len(state_dict["base_lrs"]) != len(self.optimizer.param_groups):
            raise ValueError(
                f"{type(self).__name__}.load_state_dict: the state has {len(state_dict['base_lrs'])} groups, the "
                f"optimizer {len(self.optimizer.param_groups)}"
            )
        for name in names:
            value = state_dict[name]
            setattr(self, name, list(value) if name == "base_lrs" else value)
        self._apply()

    def _apply(self) -> None:
        for group, peak in zip(self.optimizer.param_groups, self.base_lrs):
            group["lr"] = self.lr_at(self.last_step, peak)


class WarmupCosine(Warmup):
    """Sets the learning rate of every group before each step: linear warm-up, then a cosine down to `min_lr`.

    With i the number of steps done, and peak the group's rate when the schedule was made:
        i < warmup_steps                   peak·(i + 1) / (warmup_steps + 1)
        warmup_steps <= i < total_steps    min_lr + ½(1 + cos π·r)·(peak − min_lr)
        i >= total_steps                   min_lr
    and r = (i − warmup_steps) / (total_steps − warmup_steps).

    Making it sets the rate of the first step; call `step()` once after each `optimizer.step()`.

    Args:
        optimizer: its groups' `lr` are the peaks; they are overwritten from now on.
        warmup_steps: steps of the rise, 0 for none.
        total_steps: steps until `min_lr` is reached, at least `warmup_steps`.
        min_lr: the rate at the end, at most every group's peak.

    Raises ValueError for numbers that are not so.
    Source: Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017, equation 5.

    >>> from tinygrad_edu import nn, optim
    >>> adamw = optim.AdamW(nn.Linear(2, 2).parameters(), lr=1.0)
    >>> schedule = optim.WarmupCosine(adamw, warmup_steps=1, total_steps=5, min_lr=0.0)
    >>> rates = []
    >>> for _ in range(6):
    ...     rates.append(round(schedule.get_last_lr()[0], 3))
    ...     schedule.step()
    >>> rates
    [0.5, 1.0, 0.854, 0.5, 0.146, 0.0]
    """

    def after(self, step: int, peak: float) -> float:
        """A cosine from the peak to min_lr."""
        done = (step - self.warmup_steps) / (self.total_steps - self.warmup_steps)
        return self.min_lr + 0.5 * (1 + math.cos(math.pi * done)) * (peak - self.min_lr)


class WarmupLinear(Warmup):
    """Sets the learning rate of every group before each step: linear warm-up, the peak, then a line down to `min_lr`.

    With i the number of steps done, and peak the group's rate when the schedule was made:
        i < warmup_steps                  peak·(i + 1) / (warmup_steps + 1)
        i < total_steps − decay_steps     peak
        i < total_steps                   min_lr + (peak − min_lr)·(total_steps − i) / decay_steps
        i >= total_steps                  min_lr

    Making it sets the rate of the first step; call `step()` once after each `optimizer.step()`.

    Args:
        optimizer: its groups' `lr` are the peaks; they are overwritten from now on.
        warmup_steps: steps of the rise, 0 for none.
        total_steps: steps until `min_lr` is reached.
        min_lr: the rate at the end, at most every group's peak.
        decay_steps: steps of the fall; with the warm-up's at most `total_steps`.

    Raises ValueError for numbers that are not so.
    Source: Hägele et al., "Scaling laws and compute-optimal training beyond fixed training durations", 2024.

    >>> from tinygrad_edu import nn, optim
    >>> adamw = optim.AdamW(nn.Linear(2, 2).parameters(), lr=1.0)
    >>> schedule = optim.WarmupLinear(adamw, warmup_steps=1, total_steps=6, min_lr=0.0, decay_steps=4)
    >>> rates = []
    >>> for _ in range(7):
    ...     rates.append(schedule.get_last_lr()[0])
    ...     schedule.step()
    >>> rates
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]
    """

    def __init__(
        self, optimizer: Optimizer, warmup_steps: int, total_steps: int, min_lr: float, decay_steps: int
    ) -> None:
        if not 0 <= decay_steps <= total_steps - warmup_steps:
            raise ValueError(
                f"WarmupLinear: decay_steps {decay_steps} must be 0 or more, and with warmup_steps {warmup_steps} at "
                f"most total_steps {total_steps}"
            )
        self.decay_steps = decay_steps
        super().__init__(optimizer, warmup_steps, total_steps, min_lr)

    def after(self, step: int, peak: float) -> float:
        """The peak, then a line from it to min_lr."""
        left = min(1.0, (self.total_steps - step) / self.decay_steps) if self.decay_steps else 1.0
        return self.min_lr + left * (peak - self.min_lr)
