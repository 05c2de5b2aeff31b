"""Pairs of texts for a model that reads one side and writes the other: padded batches, epoch by epoch."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tinygrad_edu.data.checked import DataError
from tinygrad_edu.data.epochs import Epochs, EpochSource
from tinygrad_edu.data.tokenizer import Tokenizer
from tinygrad_edu.data.windows import IGNORED
from tinygrad_edu.random import Generator

Side = tuple[np.ndarray, np.ndarray]  # ids [S] that are read, ids [T] to be written


class Sides(NamedTuple):
    """A batch of pairs, each side padded at the end to its longest.

    ids [B, T], int64: what is written, behind a begin: the model reads the ids before each one it predicts.
    labels [B, T], int64: the same moved by one, with an end; -100 at padding.
    source [B, S], int64: what is read. mask [B, S], boolean: True at its tokens, False at padding, which is id 0.
    """

    ids: np.ndarray
    labels: np.ndarray
    source: np.ndarray
    mask: np.ndarray


def sides(examples: Sequence[Side], begin: int, end: int) -> Sides:
    """A batch of the pairs.

    >>> batch = sides([(np.array([5, 6]), np.array([7])), (np.array([5]), np.array([8, 9]))], begin=1, end=2)
    >>> batch.ids.tolist(), batch.labels.tolist(), batch.source.tolist(), batch.mask.tolist()
    ([[1, 7, 0], [1, 8, 9]], [[7, 2, -100], [8, 9, 2]], [[5, 6], [5, 0]], [[True, True], [True, False]])
    """
    S, T = (max(len(example[side]) for example in examples) for side in (0, 1))
    batch = Sides(
        np.zeros((len(examples), T + 1), np.int64),
        np.full((len(examples), T + 1), IGNORED, np.int64),
        np.zeros((len(examples), S), np.int64),
        np.zeros((len(examples), S), bool),
    )
    for row, (source, target) in enumerate(examples):
        batch.ids[row, : len(target) + 1] = [begin, *target]
        batch.labels[row, : len(target) + 1] = [*target, end]
        batch.source[row, : len(source)] = source
        batch.mask[row, : len(source)] = True
    return batch


class SidesSource(EpochSource):
    """Pairs of texts to train on, each once an epoch, in another order in each; and others to measure on.

    training, validation: (what is read, what is to be written). tokenizer: with a begin and an end. block_size: the
    longest side, in tokens, a target with its begin.

    Raises DataError where there is no pair or one is too long, ValueError for a tokenizer without begin and end.
    """

    def __init__(
        self,
        training: Sequence[tuple[str, str]],
        validation: Sequence[tuple[str, str]],
        tokenizer: Tokenizer,
        block_size: int,
    ) -> None:
        if tokenizer.begin is None or tokenizer.end is None:
            raise ValueError("pairs need a tokenizer with a begin and an end; make it with `bounded(True)`")
        if not training or not validation:
            raise DataError(f"{len(training)} pairs to train on and {len(validation)} to measure on; give more pairs")
        self.begin, self.end = tokenizer.begin, tokenizer.end
        self.training, self.validation = (
            [(tokenizer.encode(one), tokenizer.encode(other)) for one, other in part] for part in (training, validation)
        )
        longest = max(max(len(s), len(t) + 1) for s, t in [*self.training, *self.validation])
        if longest > block_size:
            raise DataError(
                f"a pair has a side of {longest} tokens, more than block_size {block_size}; give block_size {longest} "
                f"or shorter pairs"
            )
        self.tokens = sum(len(target) + 1 for _, target in self.training)
        everything = [part for pair in [*self.training, *self.validation] for part in pair]
        self.largest = max(self.begin, self.end, *(int(part.max(initial=0)) for part in everything))
        self.fingerprint = hashlib.sha256(b"".join(len(p).to_bytes(8) + p.tobytes() for p in everything)).hexdigest()
        self.block_size, self.epochs = block_size, Epochs(len(self.training))

    def draw(self, rows: int, order: Generator) -> Sides:
        chosen = [self.training[i] for i in self.epochs.next(rows, order.initial_seed())]
        return sides(chosen, self.begin, self.end)

    def held_out(self, rows: int) -> Iterator[Sides]:
        for start in range(0, len(self.validation), rows):
            yield sides(self.validation[start : start + rows], self.begin, self.end)

    def first(self, count: int) -> np.ndarray:
        return self.training[0][0][:count]
