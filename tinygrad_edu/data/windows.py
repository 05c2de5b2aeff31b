"""Next-token windows over a text's ids: drawn at random to train on, one after another to measure on."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tinygrad_edu.data.checked import DataError

IGNORED = -100  # the label of a position that does not count


class Batch(NamedTuple):
    """What a model's `loss` takes: the label at a position is what the model shall predict there.

    ids [B, T], int64: token ids that the model reads.
    labels [B, T], int64: target ids, already shifted by the loader, so a model never shifts; -100 is not counted.
    """

    ids: np.ndarray
    labels: np.ndarray


class Packed(NamedTuple):
    """A batch whose rows hold several documents, each to be read as if it stood alone.

    ids, labels [B, T], int64: as in `Batch`; no label lies in another document than its position.
    positions [B, T], int64: the place of a token within its document, from 0.
    segments [B, T], int64: the document's number within the row; a position may read those of its own number only.
    """

    ids: np.ndarray
    labels: np.ndarray
    positions: np.ndarray
    segments: np.ndarray


AnyBatch = Batch | Packed


class Windows:
    """Every stretch of block_size + 1 tokens in a text: block_size ids, and as labels the same shifted by one.

    ids [N], integers; block_size: T, positions of one window. begin, end: the tokens before and behind each document,
    where the text is made of documents; then `draw` gives what `isolated` makes of a window. `len` is the number of
    windows, N - block_size.

    Raises DataError, naming both lengths, where the text is shorter than one window.

    >>> windows = Windows(np.arange(6), 4)
    >>> len(windows), windows[1]
    (2, (array([1, 2, 3, 4]), array([2, 3, 4, 5])))
    """

    def __init__(self, ids: np.ndarray, block_size: int, begin: int | None = None, end: int | None = None) -> None:
        if block_size < 1:
            raise ValueError(f"Windows: block_size is {block_size}; a window has 1 or more positions")
        if len(ids) < block_size + 1:
            raise DataError(
                f"the training text has {len(ids)} tokens, fewer than one window of block_size + 1 = {block_size + 1}; "
                f"give a longer text or a block_size of at most {max(len(ids) - 1, 0)}"
            )
        self.ids = ids
        self.block_size = block_size
        self.begin, self.end = begin, end

    def __len__(self) -> int:
        return len(self.ids) - self.block_size

    def __getitem__(self, start: int) -> tuple[np.ndarray, np.ndarray]:
        if not 0 <= start < len(self):
            raise IndexError(f"window {start} is outside 0 to {len(self) - 1}")
        window = self.ids[start : start + self.block_size + 1].astype(np.int64)
        return window[:-1], window[1:]

    def draw(self, batch_size: int, rng: np.random.Generator) -> AnyBatch:
        """A batch of windows [batch_size, block_size], each start as likely as any other, the last one included."""
        starts = rng.integers(0, len(self), size=batch_size)
        positions = starts[:, None] + np.arange(self.block_size)
        batch = Batch(self.ids[positions].astype(np.int64), self.ids[positions + 1].astype(np.int64))
        return isolated(batch, self.begin, self.end)


def isolated(batch: Batch, begin: int | None, end: int | None) -> AnyBatch:
    """The batch with its documents kept apart: `Packed`, or the batch itself where begin is None.

    A document starts at each `begin`; what stands before a row's first one is the rest of an earlier document. Nothing
    predicts a `begin`, except where it is also the `end`: as a label it then ends the document of its position.

    >>> packed = isolated(Batch(np.array([[7, 0, 5, 6]]), np.array([[0, 5, 6, 0]])), begin=0, end=0)
    >>> packed.segments.tolist(), packed.positions.tolist(), packed.labels.tolist()
    ([[0, 1, 1, 1]], [[0, 0, 1, 2]], [[0, 5, 6, 0]])
    """
    if begin is None:
        return batch
    starts = batch.ids == begin
    places = np.broadcast_to(np.arange(batch.ids.shape[1]), batch.ids.shape)
    first = np.maximum.accumulate(np.where(starts, places, 0), axis=1)
    labels = batch.labels if begin == end else np.where(batch.labels == begin, IGNORED, batch.labels)
    return Packed(batch.ids, labels, places - first, np.cumsum(starts, axis=1))


def consecutive(
    ids: np.ndarray, block_size: int, batch_size: int, begin: int | None = None, end: int | None = None
) -> Iterator[AnyBatch]:
    """The whole text in windows one behind the other, so that each next token is a label exactly once.

    ids [N], N of 2 or more. Full windows come in batches [up to batch_size, block_size]; what is left over behind
    them follows as one shorter window, a batch of its own [1, less than block_size]. begin, end: as in `Windows`.

    >>> [batch.labels.tolist() for batch in consecutive(np.arange(6), block_size=2, batch_size=8)]
    [[[1, 2], [3, 4]], [[5]]]
    """
    targets = len(ids) - 1
    if targets < 1:
        raise DataError(f"a text of {len(ids)} tokens has no next token to measure; give 2 or more")
    rows = targets // block_size
    for row in range(0, rows, batch_size):
        start, count = row * block_size, min(batch_size, rows - row)
        stretch = ids[start : start + count * block_size + 1].astype(np.int64)
        batch = Batch(stretch[:-1].reshape(count, block_size), stretch[1:].reshape(count, block_size))
        yield isolated(batch, begin, end)
    if targets % block_size:
        rest = ids[rows * block_size :].astype(np.int64)[None]
        yield isolated(Batch(rest[:, :-1], rest[:, 1:]), begin, end)
