"""Masked language modelling: some tokens of a text are hidden from the model, and those are its labels."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tinygrad_edu.data.windows import IGNORED, Batch


@dataclasses.dataclass(frozen=True)
class Masking:
    """Chooses each token with probability `rate`, by itself; of those, most become [MASK], some another, some stay.

    A model that only ever had to predict at [MASK] would have nothing to say about a text without; so a chosen token
    is replaced with probability `masked` by [MASK], with probability `random` by any token that is not special, each as
    likely, and is left as it is otherwise. Special tokens are never chosen.

    Args:
        vocab_size: V.
        mask: the id of [MASK].
        special: ids of all other special tokens: padding, begin and end of a sequence, the unknown token.
        rate: share of the tokens that are predicted.
        masked: share of those that become [MASK].
        random: share of those that become a random token.

    Raises ValueError for ids outside [0, V), shares that are none, or a vocabulary without ordinary tokens.
    Source: Devlin et al., "BERT", 2019, section 3.1, task 1.

    >>> masking = Masking(vocab_size=10, mask=1, special=(0, 2))
    >>> batch = masking([[2, 5, 6, 7, 8, 9, 0, 0]], seeds=[3])
    >>> bool((batch.ids != 5).all()), batch.labels.shape
    (False, (1, 8))
    """

    vocab_size: int
    mask: int
    special: tuple[int, ...] = ()
    rate: float = 0.15
    masked: float = 0.8
    random: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "special", tuple(sorted({*self.special, self.mask})))
        if not all(0 <= token < self.vocab_size for token in self.special):
            raise ValueError(f"Masking: mask and special are ids in [0, {self.vocab_size}), not {self.special}")
        if len(self.special) == self.vocab_size:
            raise ValueError(f"Masking: all {self.vocab_size} tokens are special, so none can be chosen")
        if min(self.rate, self.masked, self.random) < 0 or self.rate > 1 or self.masked + self.random > 1:
            raise ValueError(
                f"Masking: rate {self.rate} and the sum of masked {self.masked} and random {self.random} must lie in "
                f"[0, 1]"
            )

    def __call__(self, ids: object, seeds: Sequence[int | Sequence[int]]) -> Batch:
        """The batch (ids with masks, labels): labels are the ids from before where chosen, −100 elsewhere.

        Args:
            ids: integers [B, T].
            seeds: for each sequence an integer, or several such as (run, epoch, number of the sequence). A sequence
                with the same seed is masked alike, whatever else is in its batch.

        Raises ValueError for another number of seeds, IndexError for an id outside [0, V).
        """
        tokens = np.array(ids, dtype=np.int64)
        if tokens.ndim != 2 or len(seeds) != len(tokens):
            raise ValueError(
                f"Masking: ids are [B, T] with a seed for each row, not {tokens.shape} and {len(seeds)} seeds"
            )
        if tokens.size and not (tokens.min() >= 0 and tokens.max() < self.vocab_size):
            raise IndexError(
                f"Masking: ids from {tokens.min()} to {tokens.max()} are not all in [0, {self.vocab_size})"
            )
        ordinary = np.setdiff1d(np.arange(self.vocab_size), self.special)
        labels = np.full_like(tokens, IGNORED)
        for row, answers, seed in zip(tokens, labels, seeds, strict=True):
            drawn = np.random.default_rng(seed)
            fate = drawn.random(len(row)) / self.rate if self.rate else np.full(len(row), 1.0)  # below 1: chosen
            others = ordinary[drawn.integers(0, len(ordinary), len(row))]
            chosen = (fate < 1) & ~np.isin(row, self.special)
            answers[chosen] = row[chosen]
            row[...] = np.where(chosen & (fate < self.masked + self.random), others, row)
            row[...] = np.where(chosen & (fate < self.masked), self.mask, row)
        return Batch(tokens, labels)
