"""Where training text comes from: a UTF-8 file or the documentation inside CPython; and how it is parted."""

import codecs
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tinygrad_edu.data.checked import DataError, opening, undecodable

_PART = 1 << 20  # bytes read at once


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a UTF-8 file, line ends as they stand in it; a byte order mark at its start is no part of the text.

    Raises DataError where the file is missing, a folder or device, unreadable, empty, compressed or in another format
    than text, or not UTF-8 (with the byte's position).
    """
    return "".join(read_parts(path))


def read_parts(path: str | os.PathLike[str]) -> Iterator[str]:
    """The text of a UTF-8 file in parts, as it is read. Raises as `read_text` does."""
    path, decode, position, empty = Path(path), codecs.getincrementaldecoder("utf-8")().decode, 0, True
    with opening(path) as file:
        while True:
            raw = file.read(_PART)
            try:
                text = decode(raw, final=not raw)
            except UnicodeDecodeError as error:  # its object begins with what was left over of the part before
                at = position + len(raw) - len(error.object) + error.start
                raise undecodable(path, error.object[error.start], at) from None
            position += len(raw)
            text = text.removeprefix("\ufeff") if empty else text
            if text:
                empty = False
                yield text
            if not raw:
                break
    if empty:
        raise DataError(f"data file {path} is empty; give a file with text in it")


def embedded_corpus() -> str:
    """The documentation text inside every CPython, topics in alphabetical order: about 465 thousand characters.

    Its wording changes a little from one Python version to the next.
    """
    from pydoc_data.topics import topics

    return "\n".join(topics[name] for name in sorted(topics))


def enclose_lines(text: str) -> str:
    r"""The text with a newline before its first line and after its last one, where none is.

    In a text whose lines are documents of their own (one name a line), the newline is the boundary token. With it on
    both sides every line has a begin and an end to learn, the first and the last one too. A line that ends in CR alone
    ends in a newline then.

    >>> enclose_lines("emma\nava")
    '\nemma\nava\n'
    """
    text = re.sub(r"\r(?!\n)", "\n", text)
    return ("" if text.startswith("\n") else "\n") + text + ("" if text.endswith("\n") else "\n")


def split(ids: np.ndarray, val_fraction: float, begin: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The first part of the ids for training and the last for validation, as two views.

    val_fraction: share of the ids in the last part, at least 0 and below 1. With 0 both are the whole, so what is
    measured is how well the training text itself was learned. begin: the id that documents begin with, if they do; the
    last part then starts with the first one behind the place that val_fraction names.

    Raises ValueError for a share out of range, DataError where a part has no next token left to predict.

    >>> [part.tolist() for part in split(np.arange(10), 0.2)]
    [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9]]
    >>> [part.tolist() for part in split(np.array([0, 1, 2, 3, 0, 4]), 0.5, begin=0)]
    [[0, 1, 2, 3], [0, 4]]
    """
    at = training_part(len(ids), val_fraction, "tokens", least=2)
    if val_fraction == 0:
        return ids, ids
    if begin is not None:
        at = next((n for n in range(at, len(ids) - 1) if ids[n] == begin), at)
    return ids[:at], ids[at:]


def training_part(count: int, val_fraction: float, what: str, least: int = 1) -> int:
    """How many of `count` tokens (or whatever `what` calls them) are for training. Raises as `split` does."""
    if not (math.isfinite(val_fraction) and 0 <= val_fraction < 1):
        raise ValueError(f"split: val_fraction is {val_fraction}; it must be at least 0 and below 1")
    at = int(count * (1 - val_fraction)) if val_fraction else count
    if at < least or (val_fraction and count - at < least):
        raise DataError(
            f"{count} {what} with val_fraction {val_fraction} leave {at} for training and {count - at} for validation; "
            f"each part needs {least} or more: give more text or another fraction (0 measures on the training text)"
        )
    return at
