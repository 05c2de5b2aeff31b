"""What all schedules share: the count of steps, the groups' first rates, saved state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from tinygrad_edu.optim.optimizer import Optimizer


class LRScheduler:
    """Base of the schedules; a subclass says in `get_lr` what the rates are after `last_epoch` steps.

    Making one sets the rates of the first step; call `step()` once after each `optimizer.step()`, or once after each
    epoch: its unit is whatever it is stepped by. Several may change one optimizer, each multiplying what it finds.

    Args:
        optimizer: its groups' `lr` are the first rates, kept as `base_lrs` and as each group's "initial_lr".
        last_epoch: −1 to begin. To go on after n steps, n − 1, with groups that hold "initial_lr" as a saved
            optimizer's do; their present rates are kept.

    Raises TypeError for what is no Optimizer, ValueError for a last_epoch without "initial_lr".

    >>> from tinygrad_edu import nn, optim
    >>> class Halving(LRScheduler):
    ...     def get_lr(self):
    ...         return [base / 2**self.last_epoch for base in self.base_lrs]
    >>> halving = Halving(optim.SGD(nn.Linear(2, 2).parameters(), lr=1.0))
    >>> halving.step()
    >>> halving.get_last_lr()
    [0.5]
    """

    unsaved: ClassVar[tuple[str, ...]] = ("optimizer",)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        name = type(self).__name__
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{name}: optimizer is a {type(optimizer).__name__}; give one from tinygrad_edu.optim")
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise ValueError(
                    f"{name}: last_epoch {last_epoch} goes on with a schedule, and the groups have no 'initial_lr' to "
                    f"go on from; load the optimizer's saved state first, or leave last_epoch away"
                )
        self.optimizer = optimizer
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch + 1
        self._last_lr = self.rates()
        if last_epoch == -1:
            self._set(self.get_lr())

    def get_lr(self) -> list[float]:
        """The rate of every group after `last_epoch` steps, from `base_lrs` or from the present `rates()`."""
        raise NotImplementedError("a schedule needs a get_lr()")

    def step(self) -> None:
        """One more step of the optimizer is done: set the rates of the next."""
        self.last_epoch += 1
        self._set(self.get_lr())

    def restart(self) -> None:
        """Begin again, from the first rates."""
        self.last_epoch = 0
        self._set(self.base_lrs)
        self._set(self.get_lr())

    def rates(self) -> list[float]:
        """The learning rate that each group has now."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def get_last_lr(self) -> list[float]:
        """The rates that this schedule set last, one per group."""
        return list(self._last_lr)

    def state_dict(self) -> dict[str, Any]:
        """The schedule and its position, as plain numbers and lists; the present rates are the optimizer's state."""
        return {
            key: list(value) if isinstance(value, list) else value
            for key, value in vars(self).items()
            if key not in self.unsaved
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue a saved schedule: its shape and position. The optimizer's rates come with the optimizer's own state.

        Raises ValueError where something is missing or too much, or the number of groups differs; nothing is changed
        then.
        """
        self._check_state(state_dict)
        for key, value in state_dict.items():
            if key not in self.unsaved:
                setattr(self, key, list(value) if isinstance(value, list) else value)

    def _check_state(self, state_dict: Mapping[str, Any]) -> None:
        where = f"{type(self).__name__}.load_state_dict"
        own = self.state_dict()
        wrong = [f"lacks {key}" for key in own if key not in state_dict]
        wrong += [f"has {key}, which is of another schedule" for key in state_dict if key not in own]
        if wrong:
            raise ValueError(f"{where}: the state {', '.join(wrong)}")
        saved, here = len(state_dict["_last_lr"]), len(self.optimizer.param_groups)
        if saved != here:
            raise ValueError(f"{where}: the state has {saved} groups, the optimizer {here}")

    def _set(self, rates: list[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates):
            group["lr"] = rate
        self._last_lr = self.rates()


def per_group(value: Any, optimizer: Optimizer, what: str) -> list[Any]:
    """One value for each group: the same for all, or a list of as many; ValueError for a list of another length."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [value] * groups
    if len(value) != groups:
        raise ValueError(f"{what}: {len(value)} values for {groups} groups; give one for all, or one for each")
    return list(value)
