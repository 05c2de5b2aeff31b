"""What the models over token ids have in common: how ids come in, the summed loss, what is counted."""

from typing import Any

import numpy as np

import tinygrad_edu as tg
from models.transformer import Attention
from tinygrad_edu import Tensor, nn
from tinygrad_edu.arrays import devices
from tinygrad_edu.data import Batch
from tinygrad_edu.nn import functional as F

IGNORED = -100  # the label of a position that does not count: padding, or a token that nothing should predict


def summed_loss(logits: Tensor, labels: Tensor) -> tuple[Tensor, int]:
    """(sum, count): −Σ ln softmax(logits)[label] in nats over the labels that are not −100, and how many those are.

    logits [..., V], labels [...], integers. Where no label counts, the sum is 0 and so is every gradient. The sum of
    float16 logits is float32: over a batch it is soon more than float16 holds.
    """
    logits = logits.float() if logits.dtype == tg.float16 else logits
    total = F.cross_entropy(logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORED, reduction="sum")
    return total, int((devices.on_host(labels) != IGNORED).sum())


class TokenModel(nn.Module):
    """A module whose forward takes token ids [B, T]."""

    def ids(self, ids: Any) -> Tensor:
        """Integers [B, T] - array, nested list or Tensor - as a Tensor on the model's device.

        Raises ValueError for another number of axes, or rows without ids.
        """
        ids = self.here(ids)
        if ids.ndim != 2:
            raise ValueError(
                f"{type(self).__name__}: ids have shape {ids.shape} but [B, T] is wanted, a row of T ids for each of B "
                f"sequences; for one sequence give [ids]"
            )
        if ids.shape[1] == 0:
            raise ValueError(f"{type(self).__name__}: the rows hold no ids, {ids.shape}; give one or more in each")
        return ids

    def here(self, given: Any) -> Any:
        """An array, list or Tensor as a Tensor on the model's device; None stays None."""
        device = next(self.parameters()).device
        if given is None:
            return None
        return given.to(device) if isinstance(given, Tensor) else tg.tensor(given, device=device)

    def num_parameters(self) -> int:
        """How many numbers are learned; a tied table counts once."""
        return sum(p.numel() for p in self.parameters())

    def flops_per_token(self, keys: int, training: bool = False) -> int:
        """Additions and multiplications in the matrix products of one pass, for each token.

        Forward 2 for each weight of each Linear, and for each Attention 4·keys·D: scores and P·V. A lookup in a table
        is none, and what is computed `once` for a sequence is left out. Hidden pairs count like others; a causal mask
        needs half of them at best. Training takes three times as many: the backward pass of a product is two more.

        Args:
            keys: how many positions each token reads, T in training.
            training: forward and backward, instead of forward alone.

        Source: Kaplan et al., "Scaling laws for neural language models", 2020, section 2.1.
        """
        once = {id(layer) for part in self.once() for layer in part.modules()}
        layers = [layer for layer in self.modules() if id(layer) not in once]
        weights = sum(layer.weight.numel() for layer in layers if isinstance(layer, nn.Linear))
        read = sum(2 * keys * layer.width for layer in layers if isinstance(layer, Attention))
        return (6 if training else 2) * (weights + read)

    def once(self) -> list[nn.Module]:
        """The parts that run once for a sequence, not for each token of it."""
        return []


class LanguageModel(TokenModel):
    """A module whose forward takes ids [B, T] and returns logits [B, T, V]; a subclass writes that forward.

    task: what it is trained on: "text", the next token of texts; "masked", masked tokens of texts; "pairs", an answer
    to each text; "images", the text on images.
    """

    task = "text"
    config: Any

    def example(self, rows: int, length: int, drawn: np.random.Generator) -> Any:
        """A batch for `loss` of random ids [rows, length], to try or to draw the model."""
        ids = drawn.integers(0, self.config.vocab_size, (rows, length + 1))
        return Batch(ids[:, :-1].copy(), ids[:, 1:].copy())

    def flops(self, batch: Any, training: bool = False) -> int:
        """Additions and multiplications in the matrix products of one pass over a batch for `loss`, padding included.

        training: forward and backward, instead of forward alone. See `flops_per_token`.
        """
        rows, T = batch[0].shape
        return rows * T * self.flops_per_token(T, training)

    def loss(self, batch: Any) -> tuple[Tensor, int]:
        """(sum, count): the cross-entropy in nats, summed over the labels that count, and how many those are.

        Sum and count instead of the mean, so that parts of a batch add up: Σ sums / Σ counts is the batch's mean,
        however many labels each part holds.

        Args:
            batch: (ids, labels, ...), both integers [B, T]: the label at t is what should be predicted there, for a
                next token the id at t + 1. −100 does not count. What follows are the further arguments of the call.
        """
        ids, labels, *more = batch
        return summed_loss(self(ids, *more), self.ids(labels))
