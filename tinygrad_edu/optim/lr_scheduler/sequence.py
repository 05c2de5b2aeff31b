"""Schedules one after another."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from tinygrad_edu.optim.lr_scheduler.base import LRScheduler
from tinygrad_edu.optim.lr_scheduler.plateau import ReduceLROnPlateau
from tinygrad_edu.optim.optimizer import Optimizer


class SequentialLR(LRScheduler):
    """Several schedules in a row: from each milestone on the next one, which starts at its own step 0.

    Args:
        optimizer: whose groups' `lr` are set.
        schedulers: the schedules, made for the same optimizer.
        milestones: the steps, in rising order, at which the second, third, ... take over.
        last_epoch: −1 to begin; to go on, load a saved state.

    Raises ValueError for schedules of another optimizer, for ReduceLROnPlateau, whose step needs a metric, and for a
    number of milestones that is not one less than that of the schedules.

    >>> from tinygrad_edu import nn, optim
    >>> from tinygrad_edu.optim.lr_scheduler import ExponentialLR, LinearLR
    >>> sgd = optim.SGD(nn.Linear(2, 2).parameters(), lr=1.0)
    >>> up, down = LinearLR(sgd, start_factor=0.5, total_iters=2), ExponentialLR(sgd, gamma=0.5)
    >>> schedule = SequentialLR(sgd, [up, down], milestones=[2])
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(schedule.get_last_lr()[0])
    ...     schedule.step()
    >>> rates
    [0.5, 0.75, 1.0, 0.5, 0.25]
    """

    unsaved = ("optimizer", "schedulers")

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"SequentialLR: {len(schedulers)} schedulers need {len(schedulers) - 1} milestones, not "
                f"{len(milestones)}: one step for each change"
            )
        if list(milestones) != sorted(milestones):
            raise ValueError(f"SequentialLR: milestones must rise, not be {list(milestones)}")
        for i, scheduler in enumerate(schedulers):
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(f"SequentialLR: scheduler {i} is a ReduceLROnPlateau, whose step needs a metric")
            if scheduler.optimizer is not optimizer:
                raise ValueError(f"SequentialLR: scheduler {i} was made for another optimizer")
        self.schedulers, self.milestones = list(schedulers), list(milestones)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of the schedule whose turn it is."""
        at = bisect_right(self.milestones, self.last_epoch)
        begins = self.last_epoch == (self.milestones[at - 1] if at else 0)
        scheduler = self.schedulers[at]
        if begins:
            scheduler.restart()
        else:
            scheduler.step()
        return scheduler.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """The position of the whole and the state of each schedule."""
        return {**super().state_dict(), "schedulers": [scheduler.state_dict() for scheduler in self.schedulers]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue a saved sequence of the same schedules. Raises ValueError where it does not fit."""
        self._check_state(state_dict)
        for scheduler, state in zip(self.schedulers, state_dict["schedulers"]):
            scheduler.load_state_dict(state)
        super().load_state_dict(state_dict)

    def _check_state(self, state_dict: Mapping[str, Any]) -> None:
        super()._check_state(state_dict)
        states = state_dict["schedulers"]
        if len(states) != len(self.schedulers):
            raise ValueError(
                f"SequentialLR.load_state_dict: the state has {len(states)} schedulers, this one {len(self.schedulers)}"
            )
        for scheduler, state in zip(self.schedulers, states):
            scheduler._check_state(state)
