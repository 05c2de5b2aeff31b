"""The loss of a model over a whole text, each token counted once."""

import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from tinygrad_edu.generation import Model, measuring
from tinygrad_edu.modes import no_grad


class Evaluation(NamedTuple):
    """loss: mean cross-entropy over the counted labels, nats. tokens: how many labels that is."""

    loss: float
    tokens: int

    @property
    def perplexity(self) -> float:
        """exp(loss): among how many equally likely tokens the model would be as unsure."""
        return math.exp(self.loss) if self.loss < 700 else math.inf


def evaluate(model: Model, batches: Iterable[Any], threads: int = 1) -> Evaluation:
    """loss = Σ_batches sum / Σ_batches count: weighted by tokens, so that a short last batch counts as what it is.

    model: `model.loss(batch)` gives (summed cross-entropy, count of labels). Dropout is off, nothing is recorded.
    threads: how many batches are measured at a time, to the same result; where it is more than 1, each should have one
        BLAS thread, as within `parallel.Shards`.

    Raises ValueError where no label at all is counted.
    """

    def measure(batch: Any) -> tuple[float, int]:
        with no_grad():  # a mode of the thread
            loss, count = model.loss(batch)
            return loss.item(), count

    total, count = 0.0, 0
    with measuring(model), ThreadPoolExecutor(threads) as pool:
        for loss, counted in pool.map(measure, batches) if threads > 1 else map(measure, batches):
            total += loss
            count += counted
    if count == 0:
        raise ValueError("evaluate: no label was counted, so there is no mean loss; all are -100 or there is no batch")
    return Evaluation(total / count, count)
