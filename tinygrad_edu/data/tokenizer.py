"""What every tokenizer does: text to ids and back, in pieces too, with control tokens that no text can forge."""

import codecs
import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from tinygrad_edu.files import write_atomically

FORMAT = 1
END_OF_TEXT = "<|endoftext|>"
MASKING = ("[PAD]", "[CLS]", "[SEP]", "[MASK]")  # what a masked language model needs besides the text's own tokens

_ENDS = (END_OF_TEXT, "</s>", "<eos>", "<|end_of_text|>", "[SEP]")
_BEGINS = ("<s>", "<bos>", "<|begin_of_text|>", "[CLS]")


def id_dtype(vocab_size: int) -> np.dtype:
    """The smallest type that ids 0 .. vocab_size-1 are kept in: uint16 up to 65536 entries, uint32 above.

    >>> id_dtype(65536), id_dtype(65537)
    (dtype('uint16'), dtype('uint32'))
    """
    return np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.uint32)


def ends_among(specials: Mapping[str, int]) -> tuple[int | None, int | None]:
    """(begin, end): the ids of the control tokens that stand before and behind a document, by their usual spellings.

    One token for the end alone serves as both. Without an end there is neither.

    >>> ends_among({"[PAD]": 7, "[CLS]": 8, "[SEP]": 9}), ends_among({"<|endoftext|>": 4}), ends_among({"[MASK]": 1})
    ((8, 9), (4, 4), (None, None))
    """
    end = next((specials[name] for name in _ENDS if name in specials), None)
    if end is None:
        return None, None
    return next((specials[name] for name in _BEGINS if name in specials), end), end


def check_kind(text: str, doing: str) -> str:
    """The text itself. Raises TypeError for what is none."""
    if not isinstance(text, str):
        raise TypeError(f"{doing}: a text is a str, not {type(text).__name__}")
    return text


def check_text(text: str, doing: str) -> str:
    """The text itself. Raises ValueError for one half of a surrogate pair, which no UTF-8 file can hold, TypeError for
    what is no text."""
    try:
        check_kind(text, doing).encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{doing}: U+{ord(text[error.start]):04X} at position {error.start} is half of a surrogate pair and no "
            f"character; repair the text"
        ) from None
    return text


class Tokenizer(ABC):
    """Maps a text to token ids 0 .. len-1 and back.

    specials: the control tokens, spelling to id. begin, end: the ids that stand before and behind a document, both None
    where the text is one stretch without documents. Two tokenizers are equal when their fingerprints are.

    A control token comes into a text's ids on request only: in `encode(text)` its spelling is text like any other.
    """

    specials: dict[str, int]
    begin: int | None
    end: int | None

    @abstractmethod
    def __len__(self) -> int:
        """V, the number of ids."""

    @abstractmethod
    def encode(self, text: str, special: bool = False) -> np.ndarray:
        """The ids of a text, 1-D, of `id_dtype(len(self))`; with `special` the spellings of control tokens are they.

        Raises ValueError for what the tokenizer has no id for, and for one half of a surrogate pair.
        """

    @abstractmethod
    def decode(self, ids: Any) -> str:
        """The text of ids, a sequence or a 1-D array; bytes that are no UTF-8 become U+FFFD.

        Raises IndexError for an id outside 0 .. len(self)-1, TypeError for one that is no integer.
        """

    @abstractmethod
    def stream(self, ids: Iterable[int]) -> Iterator[str]:
        """The text of ids as it becomes known, a piece for each id and maybe one at the end, together `decode` of all.

        A piece is empty as long as a character's last byte is missing.
        """

    @abstractmethod
    def bounded(self, ends: bool) -> "Tokenizer":
        """This tokenizer with a begin and an end for documents, or without both.

        Raises ValueError where it is given ready and has no token for the end.
        """

    @abstractmethod
    def to_json(self) -> str:
        """The text of tokenizer.json."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """SHA-256 of what decides the ids, in hexadecimal: it tells whether two tokenizers are the same."""

    @property
    def boundary(self) -> int:
        """The id that a text starts from when nothing is given: `begin`, else the newline's, else 0."""
        if self.begin is not None:
            return self.begin
        newline = self.encode("\n")
        return int(newline[0]) if len(newline) == 1 else 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write tokenizer.json, atomically; raises OSError where that fails."""
        write_atomically(path, self.to_json())

    def _checked(self, ids: Any) -> np.ndarray:
        array = np.asarray(ids)
        if array.size == 0:
            return np.zeros(0, np.int64)
        if array.dtype.kind not in "iu":
            raise TypeError(f"decode: ids are integers, got {array.dtype}")
        if array.min() < 0 or array.max() >= len(self):
            wrong = array[(array < 0) | (array >= len(self))].flat[0]
            raise IndexError(
                f"decode: id {wrong} is outside 0 to {len(self) - 1}; these ids come from another tokenizer"
            )
        return array.ravel()


class OwnTokenizer(Tokenizer):
    """A tokenizer whose control tokens come behind all others, in the order of `specials`, and whose file is ours."""

    kind: str  # how the file calls it

    def __init__(self, ordinary: int, specials: Iterable[str]) -> None:
        names = tuple(specials)
        if len(set(names)) < len(names) or "" in names:
            raise ValueError(f"{type(self).__name__}: control tokens {names} are not distinct spellings")
        self.specials = {name: ordinary + i for i, name in enumerate(names)}
        self.begin, self.end = ends_among(self.specials)
        self._ordinary = ordinary

    def __len__(self) -> int:
        return self._ordinary + len(self.specials)

    @abstractmethod
    def _plain(self, text: str) -> np.ndarray: ...

    def encode(self, text: str, special: bool = False) -> np.ndarray:
        if not (special and self.specials):
            return self._plain(text)
        import re

        spellings = sorted(self.specials, key=len, reverse=True)
        parts = re.split("(" + "|".join(map(re.escape, spellings)) + ")", text)
        dtype = id_dtype(len(self))
        return np.concatenate(
            [np.array([self.specials[p]], dtype) if i % 2 else self._plain(p) for i, p in enumerate(parts)]
        )

    def _content(self) -> dict[str, Any]:
        return {}

    @property
    def fingerprint(self) -> str:
        deciding = [self.kind, *self._content().values(), *([list(self.specials)] if self.specials else [])]
        return hashlib.sha256(json.dumps(deciding).encode()).hexdigest()

    def to_json(self) -> str:
        content = {"format": FORMAT, "type": self.kind, **self._content()}
        if self.specials:
            content["specials"] = list(self.specials)
        return json.dumps({**content, "sha256": self.fingerprint}, indent=1) + "\n"

    def _bounded(self, ends: bool) -> tuple[str, ...]:
        """The control tokens of `bounded(ends)`."""
        if ends:
            return (*self.specials, *(() if self.end is not None else (END_OF_TEXT,)))
        return tuple(name for name in self.specials if name not in (*_BEGINS, *_ENDS))


class ByteTokenizer(OwnTokenizer):
    r"""An id for each byte of the text's UTF-8: it knows every text, at 3 ids for a Chinese character.

    specials: spellings of control tokens, ids 256 and up.

    >>> tokenizer = ByteTokenizer()
    >>> len(tokenizer), tokenizer.encode("é").tolist(), list(tokenizer.stream([0xC3, 0xA9]))
    (256, [195, 169], ['', 'é'])
    """

    kind = "byte"

    def __init__(self, specials: Iterable[str] = ()) -> None:
        super().__init__(256, specials)
        self._bytes = [bytes([i]) for i in range(256)] + [name.encode() for name in self.specials]

    def _plain(self, text: str) -> np.ndarray:
        raw = check_text(text, "encode").encode()
        return np.frombuffer(raw, np.uint8).astype(id_dtype(len(self)))

    def decode(self, ids: Any) -> str:
        array = self._checked(ids)
        bare = array.max(initial=0) < 256
        raw = array.astype(np.uint8).tobytes() if bare else b"".join(self._bytes[i] for i in array)
        return raw.decode("utf-8", "replace")

    def stream(self, ids: Iterable[int]) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for i in ids:
            yield decoder.decode(self._bytes[self._checked([i])[0]])
        if rest := decoder.decode(b"", True):
            yield rest

    def bounded(self, ends: bool) -> "ByteTokenizer":
        return ByteTokenizer(self._bounded(ends))
