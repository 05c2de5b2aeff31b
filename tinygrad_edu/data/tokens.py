"""A file of token ids, for corpora larger than memory: written piece by piece, read where it lies on the disk."""

import contextlib
import hashlib
import json
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tinygrad_edu.data.files import naming, replacing
from tinygrad_edu.data.text import DataError
from tinygrad_edu.data.tokenizer import Tokenizer, id_dtype
from tinygrad_edu.data.vocabulary import tokenizer_from_json

MAGIC = b"tgtokens"
_FORMAT = 1
_ALIGNMENT = 64


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
    with replacing(Path(path)) as temporary, naming(temporary), open(temporary, "wb") as file:
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
        file.flush()
        os.fsync(file.fileno())
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
    """The corpus in a file of `write_tokens`. Its ids are mapped, not read: that takes no time and no memory.

    Raises DataError, naming the file, where it is missing, cut short, newer, or no such file.
    """
    path = Path(path)
    damaged = f"token file {path} is damaged or no token file"
    try:
        with open(path, "rb") as file:
            start = file.read(len(MAGIC) + 8)
            size = file.seek(0, os.SEEK_END)
            room = struct.unpack("<Q", start[len(MAGIC) :])[0] if len(start) == len(MAGIC) + 8 else size + 1
            if start[: len(MAGIC)] != MAGIC or len(start) + room > size:
                raise DataError(f"{damaged}; make it with python -m tools.prepare")
            file.seek(len(start))
            head = json.loads(file.read(room))
        if head["format"] != _FORMAT:
            raise DataError(f"token file {path} has format {head['format']}; this version reads format {_FORMAT}")
        dtype, count = np.dtype(head["dtype"]), int(head["tokens"])
        whole = len(start) + room + count * dtype.itemsize
        if dtype.str not in ("<u2", "<u4") or count < 1:
            raise DataError(damaged)
        tokenizer = tokenizer_from_json(head["tokenizer"], path)
        if tokenizer.fingerprint != head["tokenizer_sha256"]:
            raise DataError(f"token file {path} was changed: its tokenizer has another fingerprint than it states")
        if whole != size:
            raise DataError(f"token file {path} is cut short or damaged: {size} bytes instead of {whole}; make it anew")
        ids = np.memmap(path, dtype=dtype, mode="r", offset=len(start) + room, shape=(count,))
        return TokenFile(ids, tokenizer, str(head["sha256"]), int(head["largest"]))
    except OSError as error:
        raise DataError(f"token file {path} cannot be read ({error.strerror}); check its path") from None
    except DataError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{damaged} ({type(error).__name__})") from None
