"""Texts in parts: a file line by line, as documents, as pairs of prompt and answer, or in pieces of bounded size."""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tinygrad_edu.data.text import DataError, opening, undecodable
from tinygrad_edu.data.tokenizer import check_text

DOCUMENTS = ("lines", "paragraphs", "jsonl")
_PIECE = 1 << 16  # characters: tokenizers take more than twice the time for twice the text


def read_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    """The lines of a UTF-8 file, one at a time, each with its line end as it stands in the file.

    A byte order mark at its start is no part of the text. Raises DataError as `read_text` does.
    """
    path, offset, empty = Path(path), 0, True
    with opening(path) as file:
        for line in file:
            mark = 3 if offset == 0 and line.startswith(b"\xef\xbb\xbf") else 0
            try:
                text = line[mark:].decode()
            except UnicodeDecodeError as error:
                position = mark + error.start
                raise undecodable(path, line[position], offset + position) from None
            offset += len(line)
            if text:
                empty = False
                yield text
    if empty:
        raise DataError(f"data file {path} is empty; give a file with text in it")


def lines_of(text: str) -> Iterator[str]:
    r"""The lines of a text as `read_lines` gives those of a file: each up to and with its "\n".

    >>> list(lines_of("a\r\n\nb"))
    ['a\r\n', '\n', 'b']
    """
    start = 0
    while end := text.find("\n", start) + 1:
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def documents(lines: Iterable[str], kind: str) -> Iterator[str]:
    r"""The documents that the lines of a text hold; those without a character in them are left out.

    kind: "lines", each line is one, without its line end; "paragraphs", blank lines part them; "jsonl", each line is a
    JSON object with the document in its field `text`.

    Raises ValueError for another kind, DataError for a line that is no such object.

    >>> list(documents(["one\n", "still one\n", "\n", "two\n"], "paragraphs"))
    ['one\nstill one', 'two']
    """
    if kind == "lines":
        found: Iterator[str] = (line.rstrip("\r\n") for line in lines)
    elif kind == "paragraphs":
        found = _paragraphs(lines)
    elif kind == "jsonl":
        found = (_field(fields, "text", number) for number, fields in _objects(lines))
    else:
        raise ValueError(f"there are no documents of kind {kind!r}; known are {', '.join(DOCUMENTS)}")
    return (document for document in found if document)


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    held: list[str] = []
    for line in lines:
        if line.strip():
            held.append(line)
        elif held:
            yield "".join(held).rstrip("\r\n")
            held = []
    yield "".join(held).rstrip("\r\n")


def pairs(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    r"""(prompt, answer) of each line of a text, a JSON object with these two fields; blank lines are left out.

    Raises DataError, naming the line, for one that is no such object.

    >>> list(pairs(['{"prompt": "2+2=", "answer": "4"}\n']))
    [('2+2=', '4')]
    """
    for number, fields in _objects(lines):
        yield _field(fields, "prompt", number), _field(fields, "answer", number)


def _objects(lines: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"line {number} of the data is no JSON ({error}): {line.strip()[:60]!r}") from None
        if not isinstance(fields, dict):
            raise DataError(f"line {number} of the data is no JSON object: {line.strip()[:60]!r}")
        yield number, fields


def _field(fields: dict[str, Any], name: str, number: int) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        has = ", ".join(map(repr, fields)) or "none"
        instead = f" but {json.dumps(value)[:60]}" if name in fields else f"; its fields are {has}"
        raise DataError(f"line {number} of the data has no text in a field {name!r}{instead}")
    try:
        return check_text(value, f"line {number} of the data, field {name!r}")
    except ValueError as error:
        raise DataError(str(error)) from None


def pieces(lines: Iterable[str], size: int = _PIECE) -> Iterator[str]:
    """The lines joined to pieces of about `size` characters, cut where no token of a usual tokenizer reaches across.

    That is behind a line end with no white space beside it. Where no such place comes for 16 times the size, the cut
    is made at a line end all the same.
    """
    held: list[str] = []
    length = 0
    for line in lines:
        clean = bool(held) and bool(held[-1][-2:-1].strip()) and bool(line[:1].strip())
        if (length >= size and clean) or length >= 16 * size:
            yield "".join(held)
            held, length = [], 0
        held.append(line)
        length += len(line)
    if held:
        yield "".join(held)
