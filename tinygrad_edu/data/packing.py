"""From texts to ids with a begin and an end: documents in a row, and pairs of prompt and answer packed into rows."""

from collections.abc import Iterable, Iterator

import numpy as np

from tinygrad_edu.data.tokenizer import Tokenizer, id_dtype
from tinygrad_edu.data.windows import IGNORED, Packed

Example = tuple[np.ndarray, np.ndarray]  # ids [n] and labels [n] of a pair


def encode_documents(tokenizer: Tokenizer, texts: Iterable[str]) -> Iterator[np.ndarray]:
    """The ids of a text in parts, or of documents, each between its begin and end where the tokenizer has them.

    Where begin and end are one token it stands between two documents once, and once at the very end.

    >>> from tinygrad_edu.data.tokenizer import END_OF_TEXT, ByteTokenizer
    >>> [part.tolist() for part in encode_documents(ByteTokenizer([END_OF_TEXT]), ["a", "b"])]
    [[256, 97], [256, 98], [256]]
    """
    begin, end = tokenizer.begin, tokenizer.end
    dtype = id_dtype(len(tokenizer))
    before = [] if begin is None else [np.array([begin], dtype)]
    behind = [] if end is None or end == begin else [np.array([end], dtype)]
    some = False
    for text in texts:
        some = True
        yield np.concatenate([*before, tokenizer.encode(text), *behind])
    if some and end is not None and not behind:
        yield np.array([end], dtype)


def encode_pair(tokenizer: Tokenizer, prompt: str, answer: str, answer_only: bool = True) -> Example:
    """(ids, labels) of a pair: begin, prompt, answer, end, without the last id and, as labels, without the first.

    answer_only: labels of the prompt's own tokens are -100, so that only the answer and its end are learned.
    Raises ValueError for a tokenizer without begin and end.

    >>> from tinygrad_edu.data.tokenizer import END_OF_TEXT, ByteTokenizer
    >>> [part.tolist() for part in encode_pair(ByteTokenizer([END_OF_TEXT]), "ab", "c")]
    [[256, 97, 98, 99], [-100, -100, 99, 256]]
    """
    if tokenizer.begin is None or tokenizer.end is None:
        raise ValueError("a pair needs a tokenizer with a begin and an end; make it with `bounded(True)`")
    asked = tokenizer.encode(prompt)
    ids = np.concatenate([[tokenizer.begin], asked, tokenizer.encode(answer), [tokenizer.end]]).astype(np.int64)
    labels = ids[1:].copy()
    if answer_only:
        labels[: len(asked)] = IGNORED
    return ids[:-1], labels


def pack(examples: Iterator[Example], rows: int, block_size: int) -> tuple[Packed, int]:
    """A batch of the next examples, each whole and apart from the others, and how many they are.

    A row takes the next example as long as it fits; the one that fits into no row any more ends the batch. What is left
    of a row is padding, id 0 and label -100, a segment of its own. examples: each of 1 to block_size tokens.
    Returns arrays [up to rows, block_size].

    >>> two = [(np.array([5, 6]), np.array([6, 7])), (np.array([8]), np.array([9]))]
    >>> batch, taken = pack(iter(two), rows=1, block_size=4)
    >>> batch.ids.tolist(), batch.labels.tolist(), batch.positions.tolist(), batch.segments.tolist(), taken
    ([[5, 6, 8, 0]], [[6, 7, 9, -100]], [[0, 1, 0, 0]], [[0, 0, 1, 2]], 2)
    """
    filled: list[list[Example]] = []
    left = taken = 0
    for example in examples:
        if len(example[0]) > left:
            if len(filled) == rows:
                break
            filled.append([])
            left = block_size
        filled[-1].append(example)
        left -= len(example[0])
        taken += 1
    shape = (len(filled), block_size)
    ids, positions, segments = (np.zeros(shape, np.int64) for _ in range(3))
    labels = np.full(shape, IGNORED, np.int64)
    for row, members in enumerate(filled):
        start = 0
        for number, (read, wanted) in enumerate(members):
            part = (row, slice(start, start + len(read)))
            ids[part], labels[part], positions[part], segments[part] = read, wanted, np.arange(len(read)), number
            start += len(read)
        positions[row, start:], segments[row, start:] = np.arange(block_size - start), len(members)
    return Packed(ids, labels, positions, segments), taken
