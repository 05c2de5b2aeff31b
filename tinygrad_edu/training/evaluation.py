"""The loss of a model over a whole text, each token counted once."""

import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from tinygrad_edu.arrays.devices import on_host
from tinygrad_edu.data.windows import IGNORED
from tinygrad_edu.engine.modes import no_grad
from tinygrad_edu.generation import Model, measuring


class Evaluation(NamedTuple):
    """loss: mean cross-entropy over the counted labels, nats. tokens: how many labels that is."""

    loss: float
    tokens: int

    @property
    def perplexity(self) -> float:
        """exp(loss): among how many equally likely tokens the model would be as unsure."""
        return math.exp(self.loss) if self.loss < 700 else math.inf

    def bits_per_character(self, characters: int) -> float:
        """loss·tokens / (ln 2 · characters), characters being those that the counted labels spell.

        Unlike loss and perplexity it compares models whatever their tokenizers: all are asked for the same text, and
        the bits of all its tokens, ends of documents included, are shared out among its characters.
        Raises ValueError for a number of characters below 1.

        >>> Evaluation(loss=math.log(16), tokens=5).bits_per_character(10)
        2.0
        """
        if characters < 1:
            raise ValueError(f"bits_per_character: {characters} characters; what was measured must spell 1 or more")
        return self.loss * self.tokens / (math.log(2) * characters)


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


def accuracy(model: Model, batches: Iterable[Any]) -> float:
    """The share of the counted labels at which the model's likeliest token is the label.

    On masked rows this is the masked accuracy of a BERT. model: `model(ids, *more)` gives logits [B, T, V], for a batch
    (ids, labels, *more). Dropout is off, nothing is recorded.

    Raises ValueError where no label at all is counted.
    """
    right = count = 0
    with measuring(model):
        for ids, labels, *more in batches:
            best = on_host(model(ids, *more)).argmax(axis=-1)
            right += int((best == labels).sum())
            count += int((labels != IGNORED).sum())
    if count == 0:
        raise ValueError("accuracy: no label was counted; all are -100 or there is no batch")
    return right / count
