"""Character tokenizer: one id for each distinct character of a text, in the order of code points."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from tinygrad_edu.data.tokenizer import OwnTokenizer, check_kind, id_dtype


class CharTokenizer(OwnTokenizer):
    r"""Maps a text to the ids of its characters and back.

    vocabulary: distinct characters in the order of their code points; the id of a character is its place in it.
    specials: spellings of control tokens, whose ids follow. `CharTokenizer.of(text)` makes it from a text.

    Raises ValueError for an empty, unsorted or repeating vocabulary, and for one half of a surrogate pair, which no
    UTF-8 file can hold.

    >>> tokenizer = CharTokenizer.of("hello world")
    >>> tokenizer.vocabulary, tokenizer.encode("hold").tolist()
    (' dehlorw', [3, 5, 4, 1])
    >>> tokenizer.decode([3, 5, 4, 1])
    'hold'
    """

    kind = "character"

    def __init__(self, vocabulary: str, specials: Iterable[str] = ()) -> None:
        if not vocabulary:
            raise ValueError("CharTokenizer: the vocabulary is empty; make it from a text with at least one character")
        super().__init__(len(vocabulary), specials)
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
    def of(cls, text: str, specials: Iterable[str] = ()) -> "CharTokenizer":
        """The tokenizer with the characters of `text`."""
        return cls("".join(sorted(set(text))), specials)

    def _content(self) -> dict[str, Any]:
        return {"vocabulary": self.vocabulary}

    @property
    def boundary(self) -> int:
        """The id that a text starts from when nothing is given: `begin`, else the newline's, else the first one's."""
        return self.begin if self.begin is not None else max(self.vocabulary.find("\n"), 0)

    def _plain(self, text: str) -> np.ndarray:
        codes = _codes(text)
        places = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        unknown = np.unique(codes[self._codes[places] != codes])
        if unknown.size:
            more = f" and {unknown.size - 5} more" if unknown.size > 5 else ""
            raise ValueError(
                f"{_points(unknown[:5])}{more} not among the {len(self._codes)} characters that this vocabulary "
                f"knows; use only characters of the training text"
            )
        return places.astype(id_dtype(len(self)))

    def decode(self, ids: Any) -> str:
        array = self._checked(ids)
        if not self.specials or array.max(initial=0) < len(self._codes):
            return self._codes[array].tobytes().decode("utf-32-le")
        tokens = [*self.vocabulary, *self.specials]
        return "".join(tokens[i] for i in array)

    def stream(self, ids: Iterable[int]) -> Iterator[str]:
        return (self.decode([i]) for i in ids)

    def bounded(self, ends: bool) -> "CharTokenizer":
        return CharTokenizer(self.vocabulary, self._bounded(ends))


def _codes(text: str) -> np.ndarray:
    return np.frombuffer(check_kind(text, "encode").encode("utf-32-le", "surrogatepass"), "<u4")


def _points(codes: np.ndarray) -> str:
    return ", ".join(f"{chr(code)!r} (U+{code:04X})" for code in codes.tolist())
