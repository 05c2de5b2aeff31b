"""Examples drawn each once an epoch, in another order in each, and where the next one stands."""

from collections.abc import Iterator

import numpy as np


class Epochs:
    """Numbers of `count` examples, in an order that a seed decides. drawn: how many, over all epochs.

    >>> epochs = Epochs(3)
    >>> first = list(epochs.next(3, seed=1))
    >>> sorted(first), epochs.state(), first == list(epochs.next(3, seed=1))
    ([0, 1, 2], {'epoch': 1, 'position': 0}, False)
    """

    def __init__(self, count: int) -> None:
        self.count, self.drawn = count, 0
        self._order: tuple[tuple[int, int], np.ndarray] | None = None

    def next(self, count: int, seed: int) -> Iterator[int]:
        """The next `count` of them; each is drawn as it is asked for."""
        for _ in range(count):
            epoch, position = divmod(self.drawn, self.count)
            if self._order is None or self._order[0] != (seed, epoch):
                self._order = (seed, epoch), np.random.default_rng((seed, epoch)).permutation(self.count)
            self.drawn += 1
            yield int(self._order[1][position])

    def state(self) -> dict[str, int]:
        """Where the next one stands: epoch and position."""
        epoch, position = divmod(self.drawn, self.count)
        return {"epoch": epoch, "position": position}

    def load_state(self, state: dict[str, int]) -> None:
        """Go on from there. Raises KeyError, TypeError or ValueError for what no `state` gives."""
        epoch, position = int(state["epoch"]), int(state["position"])
        if epoch < 0 or not 0 <= position < self.count:
            raise ValueError(f"epoch {epoch}, position {position} among {self.count} examples")
        self.drawn = epoch * self.count + position


class EpochSource:
    """The part of a source of batches that says where it is: in the order of its `epochs`."""

    epochs: Epochs

    def state(self) -> dict[str, int]:
        """Where the next example stands: epoch and position."""
        return self.epochs.state()

    def load_state(self, state: dict[str, int]) -> None:
        """Go on from there. Raises KeyError, TypeError or ValueError for what no `state` gives."""
        self.epochs.load_state(state)
