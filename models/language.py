"""What the models over token ids have in common: how ids come in, the summed loss, the number of parameters."""

from typing import Any

import tinygrad_edu as tg
from tinygrad_edu import Tensor, backend, nn
from tinygrad_edu.nn import functional as F

IGNORED = -100  # the label of a position that does not count: padding, or a token that nothing should predict


class LanguageModel(nn.Module):
    """A module whose forward takes ids [B, T] and returns logits [B, T, V]; a subclass writes that forward."""

    def loss(self, batch: Any) -> tuple[Tensor, int]:
        """(sum, count): the cross-entropy in nats, summed over the labels that count, and how many those are.

        Sum and count instead of the mean, so that parts of a batch add up: Σ sums / Σ counts is the batch's mean,
        however many labels each part holds.

        Args:
            batch: (ids, labels), both integers [B, T]: the label at t is what should be predicted there, for a next
                token the id at t + 1. −100 does not count.
        """
        ids, labels = batch
        labels = self.ids(labels)  # [B, T]
        logits = self(ids)  # [B, T, V]
        total = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum")
        return total, int((backend.on_host(labels) != IGNORED).sum())

    def ids(self, ids: Any) -> Tensor:
        """Integers [B, T] - array, nested list or Tensor - as a Tensor on the model's device.

        Raises ValueError for another number of axes.
        """
        device = next(self.parameters()).device
        ids = ids.to(device) if isinstance(ids, Tensor) else tg.tensor(ids, device=device)
        if ids.ndim != 2:
            raise ValueError(
                f"{type(self).__name__}: ids have shape {ids.shape} but [B, T] is wanted, a row of T ids for each of B "
                f"sequences; for one sequence give [ids]"
            )
        return ids

    def num_parameters(self) -> int:
        """How many numbers are learned; a tied table counts once."""
        return sum(p.numel() for p in self.parameters())
