"""A file of token ids, for corpora larger than memory: written piece by piece, read where it lies on the disk."""

import contextlib
import hashlib
import json
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from tinygrad_edu.data.checked import DataError, check_fields, parse_json
from tinygrad_edu.data.tokenizer import Tokenizer, id_dtype
from tinygrad_edu.data.vocabulary import tokenizer_from_json
from tinygrad_edu.files import replacing

MAGIC = b"tgtokens"
_FORMAT = 1
_ALIGNMENT = 64
_BLOCK = 1 << 20  # bytes read at once, a multiple of an id's
_HEAD = {
    "format": int,
    "dtype": str,
    "tokens": int,
    "largest": int,
    "sha256": str,
    "tokenizer_sha256": str,
    "tokenizer": str,
}


@dataclass(frozen=True)
class TokenFile:
    """The ids [N] of a corpus, mapped from its file and read only where they are used, and their tokenizer.

    fingerprint: SHA-256 of the ids. largest: the highest id among them.
    """

    ids: np.ndarray
    tokenizer: Tokenizer
    fingerprint: str
    largest: int


def write_tokens(path: str | os.PathLike[str], tokenizer: Tokenizer, parts: Iterable[np.ndarray]) -> int:
    """Write ids, part after part, to a file at `path`; only one part is in memory at a time. Returns how many.

    The file: 8 bytes `tgtokens`; the length of the head, 8 bytes, little-endian; the head, JSON in UTF-8, filled up
    with spaces (format, dtype, tokens, largest id, SHA-256 of the ids, and the tokenizer.json with its fingerprint);
    then the ids as they are, uint16 or uint32, little-endian. It gets its name when it is whole.

    Raises OSError where it cannot be written, DataError where there are no ids; no file remains then.
    """
    dtype = id_dtype(len(tokenizer)).newbyteorder("<")
    count, largest, digest = 0, 0, hashlib.sha256()
    # as long as the final one can get
    room = _padded(_head(tokenizer, dtype, 1 << 63, len(tokenizer), "0" * 64))
    with replacing(path) as file:
        file.write(MAGIC + struct.pack("<Q", room) + b" " * room)
        for part in parts:
            raw = part.astype(dtype).tobytes()
            file.write(raw)
            digest.update(raw)
            count += len(part)
            largest = max(largest, int(part.max(initial=0)))
        if count == 0:
            raise DataError("there is no text in the data, so there are no tokens to write")
        file.seek(len(MAGIC) + 8)
        file.write(_head(tokenizer, dtype, count, largest, digest.hexdigest()))
    return count


def _head(tokenizer: Tokenizer, dtype: np.dtype, count: int, largest: int, digest: str) -> bytes:
    head = {
        "format": _FORMAT,
        "dtype": dtype.str,
        "tokens": count,
        "largest": largest,
        "sha256": digest,
        "tokenizer_sha256": tokenizer.fingerprint,
        "tokenizer": tokenizer.to_json(),
    }
    return json.dumps(head, ensure_ascii=False).encode()


def _padded(head: bytes) -> int:
    start = len(MAGIC) + 8
    return -(-(start + len(head)) // _ALIGNMENT) * _ALIGNMENT - start


def is_token_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as `write_tokens` begins one; a pipe, which can be read once only, is left alone."""
    if not Path(path).is_file():
        return False
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC
    return False


def read_tokens(path: str | os.PathLike[str]) -> TokenFile:
    """The corpus in a file of `write_tokens`. Its ids are read once, block by block, to be checked; then they are
    mapped and take no memory.

    Raises DataError, naming the file, where it is missing, cut short, changed, newer, or no such file.
    """
    path = Path(path)
    name = f"token file {path}"
    foreign = f"{name} is damaged or no token file; make it with python -m tools.prepare"
    try:
        with open(path, "rb") as file:
            start = file.read(len(MAGIC) + 8)
            size = file.seek(0, os.SEEK_END)
            room = struct.unpack("<Q", start[len(MAGIC) :])[0] if len(start) == len(MAGIC) + 8 else size + 1
            if start[: len(MAGIC)] != MAGIC or len(start) + room > size:
                raise DataError(foreign)
            file.seek(len(start))
            head = parse_json(file.read(room), name)
            if isinstance(head, dict) and head.get("format") != _FORMAT:
                raise DataError(f"{name} has format {head.get('format')!r}; this version reads format {_FORMAT}")
            check_fields(head, _HEAD, f"{name} is damaged")
            tokenizer = tokenizer_from_json(head["tokenizer"], path)
            if tokenizer.fingerprint != head["tokenizer_sha256"]:
                raise DataError(f"{name} was changed: its tokenizer has another fingerprint than it states")
            dtype, count = id_dtype(len(tokenizer)).newbyteorder("<"), head["tokens"]
            if head["dtype"] != dtype.str or count < 1:
                raise DataError(
                    f"{name} is damaged: it states {count} tokens of type {head['dtype']!r}; a file for "
                    f"{len(tokenizer)} kinds of tokens holds 1 or more of type {dtype.str!r}"
                )
            whole = len(start) + room + count * dtype.itemsize
            if whole != size:
                raise DataError(f"{name} is cut short or damaged: {size} bytes instead of {whole}; make it anew")
            _check_ids(file, dtype, head, len(tokenizer), name)
    except OSError as error:
        raise DataError(f"{name} cannot be read ({error.strerror}); check its path") from None
    ids = np.memmap(path, dtype=dtype, mode="r", offset=len(start) + room, shape=(count,))
    return TokenFile(ids, tokenizer, head["sha256"], head["largest"])


def _check_ids(file: IO[bytes], dtype: np.dtype, head: dict[str, Any], size: int, name: str) -> None:
    """Raise DataError where the ids that follow in the file are not those that its head speaks of, or a tokenizer of
    `size` tokens has none of that number."""
    digest, largest = hashlib.sha256(), 0
    while block := file.read(_BLOCK):
        digest.update(block)
        largest = max(largest, int(np.frombuffer(block, dtype).max()))
    if largest >= size:
        raise DataError(f"{name} holds token id {largest}, but its tokenizer has {size} tokens; make it anew")
    if digest.hexdigest() != head["sha256"] or largest != head["largest"]:
        raise DataError(f"{name} is damaged: its ids are not those it was written with (SHA-256); make it anew")
