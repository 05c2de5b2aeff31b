"""Texts in parts: a file line by line, as documents, as pairs of prompt and answer, or in pieces of bounded size."""

import io
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

from tinygrad_edu.data.checked import DataError, parse_json
from tinygrad_edu.data.text import read_parts
from tinygrad_edu.data.tokenizer import check_text

DOCUMENTS = ("lines", "paragraphs", "jsonl")
_PART = 1 << 20  # characters looked through at once
_PIECE = 1 << 16  # characters: tokenizers take more than twice the time for twice the text


def read_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    """The lines of a UTF-8 file, one at a time, each with its line end as it stands in the file.

    A line ends in LF, CR LF, or CR alone, nowhere else. A byte order mark at the start of the file is no part of the
    text. Raises DataError as `read_text` does.
    """
    return _lines(read_parts(path))


def lines_of(text: str) -> Iterator[str]:
    r"""The lines of a text as `read_lines` gives those of a file: each with its line end.

    >>> list(lines_of("a\r\n\nb\rc\u2028d"))
    ['a\r\n', '\n', 'b\r', 'c\u2028d']
    """
    return _lines(text[i : i + _PART] for i in range(0, len(text), _PART))


def _lines(parts: Iterable[str]) -> Iterator[str]:
    held: list[str] = []  # the beginning of a line
    for part in filter(None, parts):
        if held and held[-1].endswith("\r"):  # only now it is known whether an LF follows
            end = int(part.startswith("\n"))
            yield "".join(held) + part[:end]
            held, part = [], part[end:]
        lines = [*io.StringIO(part, newline="")]  # knows LF, CR LF and CR, and leaves them as they are
        rest = [lines.pop()] if lines and not lines[-1].endswith("\n") else []
        if held and lines:
            lines[0], held = "".join(held) + lines[0], []
        yield from lines
        held += rest
    if held:
        yield "".join(held)


def documents(lines: Iterable[str], kind: str, name: str = "") -> Iterator[str]:
    r"""The documents that the lines of a text hold; those without a character in them are left out.

    kind: "lines", each line is one, without its line end; "paragraphs", blank lines part them; "jsonl", each line is a
    JSON object with the document in its field `text`. name: where the lines are from, for errors.

    Raises ValueError for another kind, DataError for a line that is no such object.

    >>> list(documents(["one\n", "still one\n", "\n", "two\n"], "paragraphs"))
    ['one\nstill one', 'two']
    """
    if kind == "lines":
        found: Iterator[str] = (line.rstrip("\r\n") for line in lines)
    elif kind == "paragraphs":
        found = _paragraphs(lines)
    elif kind == "jsonl":
        found = (_field(fields, "text", at) for at, fields in _objects(lines, name))
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


def pairs(lines: Iterable[str], name: str = "") -> Iterator[tuple[str, str]]:
    r"""(prompt, answer) of each line of a text, a JSON object with these two fields; blank lines are left out.

    name: where the lines are from. Raises DataError, naming it and the line, for a line that is no such object.

    >>> list(pairs(['{"prompt": "2+2=", "answer": "4"}\n']))
    [('2+2=', '4')]
    """
    for at, fields in _objects(lines, name):
        yield _field(fields, "prompt", at), _field(fields, "answer", at)


def _objects(lines: Iterable[str], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        at = f"{name}{': ' * bool(name)}line {number} of the data"
        fields = parse_json(line, at, "is no JSON")
        if not isinstance(fields, dict):
            raise DataError(f"{at} is no JSON object: {line.strip()[:60]!r}")
        yield at, fields


def _field(fields: dict[str, Any], name: str, at: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        has = ", ".join(map(repr, fields)) or "none"
        instead = f" but {json.dumps(value)[:60]}" if name in fields else f"; its fields are {has}"
        raise DataError(f"{at} has no text in a field {name!r}{instead}")
    try:
        return check_text(value, f"{at}, field {name!r}")
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
