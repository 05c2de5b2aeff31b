"""The loss of a model over a whole text, each token counted once."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from tinygrad_edu.data import Batch
from tinygrad_edu.generation import Model, measuring


class Evaluation(NamedTuple):
    """loss: mean cross-entropy over the counted labels, nats. tokens: how many labels that is."""

    loss: float
    tokens: int

    @property
    def perplexity(self) -> float:
        """exp(loss): among how many equally likely tokens the model would be as unsure."""
        return math.exp(self.loss) if self.loss < 700 else math.inf


def evaluate(model: Model, batches: Iterable[Batch]) -> Evaluation:
    """loss = Σ_batches sum / Σ_batches count: weighted by tokens, so that a short last batch counts as what it is.

    model: `model.loss(batch)` gives (summed cross-entropy, count of labels). Dropout is off, nothing is recorded.

    Raises ValueError where no label at all is counted.
    """
    total, count = 0.0, 0
    with measuring(model):
        for batch in batches:
            loss, counted = model.loss(batch)
            total += loss.item()
            count += counted
    if count == 0:
        raise ValueError("evaluate: no label was counted, so there is no mean loss; all are -100 or there is no batch")
    return Evaluation(total / count, count)
