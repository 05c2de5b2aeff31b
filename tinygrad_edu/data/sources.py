"""What training draws its batches from: the windows of one long text, or pairs of prompt and answer epoch by epoch."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from tinygrad_edu.data.checked import DataError
from tinygrad_edu.data.epochs import Epochs, EpochSource
from tinygrad_edu.data.packing import Example, pack
from tinygrad_edu.data.text import split, training_part
from tinygrad_edu.data.windows import IGNORED, AnyBatch, Windows, consecutive
from tinygrad_edu.random import Generator


class Source(Protocol):
    """Where a trainer's batches come from.

    block_size: T. tokens: how many there are to train on. largest: the highest id. fingerprint: SHA-256 of it all, in
    hexadecimal.
    """

    block_size: int
    tokens: int
    largest: int
    fingerprint: str

    def draw(self, rows: int, order: Generator) -> Any:
        """The next batch to train on, as the model's `loss` takes it; all that is random comes from `order`."""

    def held_out(self, rows: int) -> Iterator[Any]:
        """What is measured on, in batches of up to `rows` rows; each label once."""

    def first(self, count: int) -> np.ndarray:
        """The first ids to train on, up to `count`."""

    def state(self) -> dict[str, int]:
        """Where in the data the next batch starts, beside the state of `order`: epoch and position."""

    def load_state(self, state: dict[str, int]) -> None:
        """Go on from there. Raises KeyError, TypeError or ValueError for what no `state` gives."""


class TextSource:
    """Windows at random places of a text, each as likely as any other; measured is its last part, one after another.

    ids [N]: the text, an array or a mapped file. block_size: T. val_fraction: the share at the end that is measured
    on. begin, end: the tokens around each document, where the text is made of documents, or None; then no position
    sees or predicts anything of another document (see `isolated`), and the last part starts with a document.
    fingerprint, largest: where they are known; else all ids are read for them.

    Raises DataError for a text that is too short, ValueError for a share out of range.
    """

    def __init__(
        self,
        ids: np.ndarray,
        block_size: int,
        val_fraction: float,
        begin: int | None = None,
        end: int | None = None,
        fingerprint: str | None = None,
        largest: int | None = None,
    ) -> None:
        training, self.validation = split(ids, val_fraction, begin)
        self.windows = Windows(training, block_size, begin, end)
        self.block_size, self.begin, self.end = block_size, begin, end
        self.fingerprint = fingerprint or hashlib.sha256(ids.tobytes()).hexdigest()
        self.largest = int(ids.max()) if largest is None else largest
        self.tokens = len(training)

    def draw(self, rows: int, order: Generator) -> AnyBatch:
        return self.windows.draw(rows, order.numpy())

    def held_out(self, rows: int) -> Iterator[AnyBatch]:
        return consecutive(self.validation, self.block_size, rows, self.begin, self.end)

    def first(self, count: int) -> np.ndarray:
        return self.windows.ids[:count]

    def state(self) -> dict[str, int]:
        return {}  # each window's place comes from `order` alone

    def load_state(self, state: dict[str, int]) -> None:
        if state:
            raise ValueError("a text has no position to go on from")


class PairSource(EpochSource):
    """Pairs, each once an epoch, in another order in each, packed into rows as `pack` does.

    examples: from `encode_pair`, in the order of the data; the last val_fraction of them is measured on. block_size: T
    of a row.

    Raises DataError where a pair is longer than a row or a part is left without one, ValueError for a share out of
    range.
    """

    def __init__(self, examples: Sequence[Example], block_size: int, val_fraction: float) -> None:
        longest = max((len(ids) for ids, _ in examples), default=0)
        if longest > block_size:
            number = 1 + next(i for i, (ids, _) in enumerate(examples) if len(ids) > block_size)
            raise DataError(
                f"pair {number} of the data has {len(examples[number - 1][0])} tokens, more than block_size "
                f"{block_size}; give a block_size of {longest}, the longest pair's, or shorter pairs"
            )
        at = training_part(len(examples), val_fraction, "pairs")
        self.examples, self.validation = (examples[:at], examples[at:]) if val_fraction else (examples, examples)
        self.block_size, self.epochs = block_size, Epochs(len(self.examples))
        self.tokens = sum(len(ids) for ids, _ in self.examples)
        self.largest = max(int(max(ids.max(), labels.max())) for ids, labels in examples)
        self.fingerprint = hashlib.sha256(b"".join(part.tobytes() for pair in examples for part in pair)).hexdigest()

    def draw(self, rows: int, order: Generator) -> AnyBatch:
        before, upcoming = self.epochs.drawn, self.epochs.next(rows * self.block_size, order.initial_seed())
        batch, taken = pack((self.examples[i] for i in upcoming), rows, self.block_size)
        self.epochs.drawn = before + taken  # the one that did not fit comes again
        return batch

    def held_out(self, rows: int) -> Iterator[AnyBatch]:
        done = 0
        while done < len(self.validation):
            batch, taken = pack(iter(self.validation[done:]), rows, self.block_size)
            yield batch
            done += taken

    def first(self, count: int) -> np.ndarray:
        ids, labels = self.examples[0]
        return ids[: min(count, 1 + int((labels == IGNORED).sum()))]  # what comes before the answer
