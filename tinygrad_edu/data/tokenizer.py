"""Character tokenizer: one id for each distinct character of a text, in the order of code points."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_edu.data.files import write_atomically
from tinygrad_edu.data.text import DataError

_FORMAT = 1


def id_dtype(vocab_size: int) -> np.dtype:
    """The smallest type that ids 0 .. vocab_size-1 are kept in: uint16 up to 65536 entries, uint32 above.

    >>> id_dtype(65536), id_dtype(65537)
    (dtype('uint16'), dtype('uint32'))
    """
    return np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.uint32)


class CharTokenizer:
    r"""Maps a text to the ids of its characters and back.

    vocabulary: distinct characters in the order of their code points; the id of a character is its place in it.
    `CharTokenizer.of(text)` makes it from a text. Two tokenizers are equal when their vocabularies are.

    Raises ValueError for an empty, unsorted or repeating vocabulary, and for one half of a surrogate pair, which no
    UTF-8 file can hold.

    >>> tokenizer = CharTokenizer.of("hello world")
    >>> tokenizer.vocabulary, tokenizer.encode("hold").tolist()
    (' dehlorw', [3, 5, 4, 1])
    >>> tokenizer.decode([3, 5, 4, 1])
    'hold'
    """

    def __init__(self, vocabulary: str) -> None:
        if not vocabulary:
            raise ValueError("CharTokenizer: the vocabulary is empty; make it from a text with at least one character")
        self.vocabulary = vocabulary
        self._codes = _codes(vocabulary)
        if (np.diff(self._codes.astype(np.int64)) <= 0).any():
            raise ValueError(
                "CharTokenizer: a vocabulary is distinct characters sorted by code point; use CharTokenizer.of(text)"
            )
        halves = self._codes[(self._codes >= 0xD800) & (self._codes <= 0xDFFF)]
        if halves.size:
            raise ValueError(
                f"CharTokenizer: {_points(halves)} is half of a surrogate pair and no character; repair the text"
            )

    @classmethod
    def of(cls, text: str) -> "CharTokenizer":
        """The tokenizer with the characters of `text`."""
        return cls("".join(sorted(set(text))))

    def __len__(self) -> int:
        return len(self.vocabulary)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CharTokenizer) and self.vocabulary == other.vocabulary

    def __hash__(self) -> int:
        return hash(self.vocabulary)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of what decides the ids, in hexadecimal: it tells whether two tokenizers are the same."""
        return hashlib.sha256(json.dumps(["character", self.vocabulary]).encode()).hexdigest()

    @property
    def boundary(self) -> int:
        """The id that a text starts from when nothing is given: the newline's, else the first of the vocabulary."""
        return max(self.vocabulary.find("\n"), 0)

    def encode(self, text: str) -> np.ndarray:
        """The ids of the characters of `text`, a 1-D array of `id_dtype(len(self))`, as long as the text.

        Raises ValueError that names each character (up to five) that the vocabulary lacks, with its code point.
        """
        codes = _codes(text)
        places = np.minimum(np.searchsorted(self._codes, codes), len(self) - 1)
        unknown = np.unique(codes[self._codes[places] != codes])
        if unknown.size:
            more = f" and {unknown.size - 5} more" if unknown.size > 5 else ""
            raise ValueError(
                f"{_points(unknown[:5])}{more} not among the {len(self)} characters that this vocabulary knows; "
                f"use only characters of the training text"
            )
        return places.astype(id_dtype(len(self)))

    def decode(self, ids: Any) -> str:
        """The text of ids (a sequence or a 1-D array).

        Raises IndexError for an id outside 0 .. len(self)-1, TypeError for one that is no integer.
        """
        array = np.asarray(ids)
        if array.size == 0:
            return ""
        if array.dtype.kind not in "iu":
            raise TypeError(f"decode: ids are integers, got {array.dtype}")
        if array.min() < 0 or array.max() >= len(self):
            wrong = array[(array < 0) | (array >= len(self))].flat[0]
            raise IndexError(
                f"decode: id {wrong} is outside 0 to {len(self) - 1}; these ids come from another tokenizer"
            )
        return self._codes[array.ravel()].tobytes().decode("utf-32-le")

    def stream(self, ids: Iterable[int]) -> Iterator[str]:
        """The text of ids as it becomes known, one piece an id; the pieces joined are `decode` of all of them."""
        return (self.decode([i]) for i in ids)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the vocabulary with its fingerprint as JSON, atomically; raises OSError where that fails."""
        write_atomically(path, self.to_json())

    def to_json(self) -> str:
        """The text of tokenizer.json."""
        content = {
            "format": _FORMAT,
            "type": "character",
            "vocabulary": self.vocabulary,
            "sha256": self.fingerprint,
        }
        return json.dumps(content, indent=1) + "\n"

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "CharTokenizer":
        """The tokenizer that `save` wrote. Raises DataError, naming the file, where it is missing, damaged or newer."""
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise DataError(f"tokenizer file {path} cannot be read ({error.strerror})") from None
        return cls.from_json(content, path)

    @classmethod
    def from_json(cls, content: bytes | str, path: str | os.PathLike[str]) -> "CharTokenizer":
        """The tokenizer in the text of a tokenizer.json; `path` is what errors call it. Raises as `load` does."""
        try:
            fields = json.loads(content)
            if fields["format"] > _FORMAT:
                raise DataError(
                    f"tokenizer file {path} has format {fields['format']}, newer than {_FORMAT}, the newest known "
                    f"here; update tinygrad_edu"
                )
            if fields["type"] != "character":
                raise DataError(
                    f"tokenizer file {path} holds a {fields['type']!r} tokenizer; only 'character' is known"
                )
            tokenizer = cls(fields["vocabulary"])
        except DataError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"tokenizer file {path} is damaged or no tokenizer file ({type(error).__name__})") from None
        if fields.get("sha256") != tokenizer.fingerprint:
            raise DataError(f"tokenizer file {path} was changed: its vocabulary has another fingerprint than it states")
        return tokenizer


def _codes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


def _points(codes: np.ndarray) -> str:
    return ", ".join(f"{chr(code)!r} (U+{code:04X})" for code in codes.tolist())
