"""Masked stretches of a text to train a BERT on: drawn at random to train on, one after another to measure on."""

import hashlib
from collections.abc import Iterator

import numpy as np

from tinygrad_edu.data.masking import Masking
from tinygrad_edu.data.text import split
from tinygrad_edu.data.tokenizer import Tokenizer
from tinygrad_edu.data.windows import Batch, Windows
from tinygrad_edu.random import Generator

MASK = "[MASK]"


class MaskedSource:
    """Rows [CLS] stretch [SEP] of T ids, some of them masked; the labels are what stood there, -100 elsewhere.

    ids [N]: the text, without control tokens around it. tokenizer: with a token [MASK], a begin and an end.
    block_size: T. val_fraction: the share at the end of the text that is measured on, masked alike each time.

    Raises ValueError for a tokenizer without these tokens or a T without room, DataError for a text that is too short.
    """

    def __init__(self, ids: np.ndarray, tokenizer: Tokenizer, block_size: int, val_fraction: float) -> None:
        if MASK not in tokenizer.specials or tokenizer.begin is None or tokenizer.end is None:
            has = ", ".join(tokenizer.specials) or "none"
            raise ValueError(
                f"a masked language model needs a tokenizer with [MASK], a begin and an end; this one's control tokens "
                f"are: {has}"
            )
        if block_size < 3:
            raise ValueError(f"block_size is {block_size}; begin, end and a token between them take 3 or more")
        mask = tokenizer.specials[MASK]
        self.masking = Masking(len(tokenizer), mask, tuple(i for i in tokenizer.specials.values() if i != mask))
        self.begin, self.end = tokenizer.begin, tokenizer.end
        self.block_size, self.inner = block_size, block_size - 2
        training, self.validation = split(ids, val_fraction)
        self.windows = Windows(training, self.inner)
        self.tokens, self.largest = len(training), len(tokenizer) - 1
        self.fingerprint = hashlib.sha256(ids.tobytes()).hexdigest()

    def draw(self, rows: int, order: Generator) -> Batch:
        """The next batch to train on, [rows, T]."""
        rng = order.numpy()
        stretches = self.windows.draw(rows, rng).ids
        return self._masked(stretches, rng.integers(0, 1 << 62, rows).tolist())

    def held_out(self, rows: int) -> Iterator[Batch]:
        """All of the last part, in batches of up to `rows` rows and a shorter row at the end."""
        whole = len(self.validation) // self.inner
        for row in range(0, whole, rows):
            count = min(rows, whole - row)
            part = self.validation[row * self.inner : (row + count) * self.inner]
            yield self._masked(part.reshape(count, self.inner), list(range(row, row + count)))
        if len(rest := self.validation[whole * self.inner :]):
            yield self._masked(rest[None], [whole])

    def _masked(self, stretches: np.ndarray, seeds: list[int]) -> Batch:
        begin, end = (np.full((len(stretches), 1), token) for token in (self.begin, self.end))
        return self.masking(np.concatenate([begin, stretches, end], axis=1), seeds)

    def first(self, count: int) -> np.ndarray:
        """The first ids to train on, up to `count`."""
        return self.windows.ids[:count]

    def state(self) -> dict[str, int]:
        """Nothing: a batch comes from `order` alone."""
        return {}

    def load_state(self, state: dict[str, int]) -> None:
        """Go on from there. Raises ValueError for a state that another source gave."""
        if state:
            raise ValueError("a text has no position to go on from")
