"""What is read is checked: files are what they are taken for, JSON is JSON, and settings have the type they need."""

import contextlib
import dataclasses
import functools
import json
import math
import os
import shlex
import stat
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np


class InputError(ValueError):
    """Something given from outside that cannot be used; its message names it and what is wrong in one line.

    Every tool answers one of these with that line and exit code 2, wherever it is raised.
    """


class DataError(InputError):
    """A file that cannot be read as what it is taken for: missing, no text, damaged, or too short."""


_LARGEST = 1.8e19  # the root of the largest float32
_HEAD = 512  # bytes that tell a format

# what a file begins with, what it then is, and what unpacks it
_PACKED = (
    (b"\x1f\x8b", "gzip", "gunzip"),
    (b"\x1f\x9d", "compress", "uncompress"),
    *(
        (b"BZh%d" % level + block, "bzip2", "bunzip2")
        for level in range(1, 10)
        for block in (b"1AY&SY", b"\x17rE8P\x90")
    ),
    (b"\xfd7zXZ\x00", "xz", "unxz"),
    (b"\x5d\x00\x00", "lzma", "unlzma"),
    (b"LZIP\x01", "lzip", "lzip -d"),
    (b"\x28\xb5\x2f\xfd", "zstd", "unzstd"),
    *((b"%c\x2a\x4d\x18" % first, "zstd or lz4", "unzstd") for first in range(0x50, 0x60)),  # a skippable frame
    (b"\x04\x22\x4d\x18", "lz4", "unlz4"),
    (b"\x02\x21\x4c\x18", "lz4", "unlz4"),
    (b"\x89LZO\x00", "lzop", "lzop -d"),
    (b"\x78\x9c", "zlib", "pigz -d -z"),
    (b"\x78\xda", "zlib", "pigz -d -z"),
    (b"MSCF\x00\x00\x00\x00", "cab", "cabextract"),
    (b"\xff\x06\x00\x00sNaPpY", "snappy", "snzip -d"),
    (b"PK\x03\x04", "zip", "unzip"),
    (b"PK\x05\x06", "zip", "unzip"),
    (b"7z\xbc\xaf\x27\x1c", "7z", "7z x"),
    (b"Rar!\x1a\x07", "rar", "unrar x"),
)
# formats that hold no plain text and are no archive either
_OTHERS = (
    (b"%PDF-", "a PDF document"),
    (b"PAR1\x15", "a Parquet table"),
    (b"ARROW1\x00\x00", "an Arrow table"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x89HDF\r\n", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"\x7fELF", "a program"),
    (b"GGUF\x02\x00", "a GGUF model"),
    (b"GGUF\x03\x00", "a GGUF model"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1", "an Office document"),
    (b"{\\rtf", "an RTF document"),
    (b"!<arch>\n", "an ar archive"),
    *((b"\x80" + bytes([version]), "a pickle") for version in (2, 3, 4, 5)),
)
_MARKS = {b"\xff\xfe\x00\x00": "UTF-32", b"\x00\x00\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


def check_packed(head: bytes, path: str | os.PathLike[str], what: str) -> None:
    """Raise DataError where the first bytes of a file are those of compressed data or of an archive.

    >>> check_packed(b"BZh91AY&SY", "a", "file")
    Traceback (most recent call last):
    tinygrad_edu.data.checked.DataError: file a is compressed (bzip2); decompress it first, for example with `bunzip2 a`
    """
    shown, named = f"{what} {path}", shlex.quote(os.fspath(path))
    is_tar = head[257:262] == b"ustar" or str(path).endswith((".tgz", ".tbz2", ".txz"))
    for start, name, command in _PACKED:
        if head.startswith(start):
            if is_tar or ".tar." in Path(path).name:
                name, command = f"{name}, a tar archive", "tar -xf"
            raise DataError(
                f"{shown} is compressed ({name}); decompress it first, for example with `{command} {named}`"
            )
    if is_tar:
        raise DataError(f"{shown} is a tar archive; unpack it first, for example with `tar -xf {named}`")
    if head.startswith(b"version https://git-lfs"):
        raise DataError(f"{shown} is only a pointer of Git LFS; fetch what it points to with `git lfs pull`")


def check_plain(head: bytes, path: str | os.PathLike[str], what: str) -> None:
    """Raise DataError where the first bytes of a file are those of compressed data or of another format than text."""
    check_packed(head, path, what)
    shown = f"{what} {path}"
    for start, name in _OTHERS:
        if head.startswith(start):
            raise DataError(f"{shown} is {name}, no text; write what it holds as UTF-8 text or JSON lines first")
    for mark, name in _MARKS.items():
        if head.startswith(mark):
            raise DataError(
                f"{shown} is not UTF-8: byte 0x{head[0]:02x} at position 0, the mark of {name}; convert it, for "
                f"example with `iconv -f {name} -t UTF-8`"
            )
    for first, name in ((0, "UTF-16BE"), (1, "UTF-16LE")):
        high, low = head[first::2], head[1 - first :: 2]
        if len(head) >= 4 and high.count(0) > 0.9 * len(high) and low.count(0) < 0.1 * len(low):
            raise DataError(
                f"{shown} is not UTF-8: every other byte is 0, as in {name}; convert it, for example with "
                f"`iconv -f {name} -t UTF-8`"
            )


@contextlib.contextmanager
def opening(path: Path, what: str = "data file") -> Iterator[IO[bytes]]:
    """A file's bytes within the block, a pipe's or a terminal's too. what: it is called so in errors.

    Raises DataError where it is missing, a folder, a device, unreadable, compressed, or in a format that is no text.
    """
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not file.isatty()):
                raise DataError(f"{what} {path} is a device; name a file")
            check_plain(file.peek(_HEAD)[:_HEAD], path, what)
            yield file
    except FileNotFoundError:
        raise DataError(f"{what} {path} does not exist; check the path") from None
    except IsADirectoryError:
        raise DataError(f"{what} {path} is a folder; name one file in it") from None
    except OSError as error:
        raise DataError(f"{what} {path} cannot be read ({error.strerror}); check its path and permissions") from None


def file_bytes(path: Path, what: str) -> bytes:
    """All bytes of a regular file. Raises DataError, naming it, where it is none or cannot be read."""
    try:
        mode = os.stat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise DataError(f"{what} {path} cannot be read (it is a pipe or a device); name a file")
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{what} {path} cannot be read ({error.strerror})") from None


def undecodable(path: Path, byte: int, position: int, what: str = "data file") -> DataError:
    """The error for a byte of a text file that is no part of a character."""
    return DataError(
        f"{what} {path} is not UTF-8: byte 0x{byte:02x} at position {position}; "
        f"convert it, for example with `iconv -f LATIN1 -t UTF-8`"
    )


# JSON


def read_json(path: Path, what: str = "file") -> Any:
    """The value in a JSON file. Raises DataError as `opening` and `parse_json` do."""
    content = file_bytes(path, what)
    check_plain(content[:_HEAD], path, what)
    return parse_json(content, str(path))


def parse_json(content: bytes | str, name: str, fault: str = "is damaged or no JSON") -> Any:
    """The value of a JSON text, where it is JSON by the letter; `name` is what errors call it, and
    `fault` what they say of one that is none.

    Raises DataError for an empty text, one that is not UTF-8, damaged, or nested too deeply; and, naming the key, for
    NaN, Infinity and numbers beyond them, and for a key that an object has twice.

    >>> parse_json('{"width": 128, "eps": [1e-5, Infinity]}', "config.json")
    Traceback (most recent call last):
    tinygrad_edu.data.checked.DataError: config.json: eps[1] is Infinity, which is no JSON; give a finite number
    """
    if isinstance(content, bytes):
        try:
            content = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            byte = f"byte 0x{content[error.start]:02x} at position {error.start}"
            raise DataError(f"{name} {fault}: it is not UTF-8, {byte}") from None
    if not content.strip():
        raise DataError(f"{name} is empty, so it is no JSON; restore it from a copy")
    all_finite = True

    def number(text: str) -> float:
        nonlocal all_finite
        value = float(text)
        all_finite = all_finite and math.isfinite(value)
        return value

    try:
        value = json.loads(
            content.removeprefix("\ufeff"), object_pairs_hook=_object, parse_float=number, parse_constant=number
        )
    except _RepeatedKey as error:
        raise DataError(f"{name}: the key {error.args[0]!r} is there twice; remove one") from None
    except RecursionError:
        raise DataError(f"{name} {fault} (nested too deeply)") from None
    except ValueError as error:  # an integer of thousands of digits raises a bare one
        raise DataError(f"{name} {fault} ({error})") from None
    if not all_finite:
        key, wrong = next(_not_finite(value))
        at = f"{key} is " if key else ""
        raise DataError(f"{name}: {at}{_shown(wrong)}, which is no JSON; give a finite number")
    return value


class _RepeatedKey(ValueError):
    pass


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        raise _RepeatedKey(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return found


def _not_finite(value: Any) -> Iterator[tuple[str, float]]:
    """(path, number) of every number in a JSON value that is not finite."""
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        path, part = waiting.pop()
        if isinstance(part, float) and not math.isfinite(part):
            yield path, part
        elif isinstance(part, dict):
            waiting += [(f"{path}.{key}" if path else key, inner) for key, inner in part.items()]
        elif isinstance(part, list):
            waiting += [(f"{path}[{i}]", inner) for i, inner in enumerate(part)]


def _shown(value: Any) -> str:
    """A value as JSON writes it, cut where it is long."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return "an integer of hundreds of digits"
    text = json.dumps(value, default=repr)
    return text if len(text) <= 60 else text[:57] + "..."


# settings


def check_fields(value: Any, kinds: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The value itself, an object whose `kinds` are all there and of their type. Others may be there, too.

    kinds: key to type, which is int, float, bool, str, dict, list, Any, tuple[...] or a union of these. An integer does
    for a float, a list for a tuple; a boolean is no integer, and a float must be finite.
    Raises DataError that names `name` and the key.

    >>> check_fields({"step": "3"}, {"step": int}, "state.json")
    Traceback (most recent call last):
    tinygrad_edu.data.checked.DataError: state.json: step is "3"; it must be an integer
    """
    if not isinstance(value, dict):
        raise DataError(f"{name} holds {_shown(value)}; it must hold a JSON object")
    for key, kind in kinds.items():
        if key not in value:
            raise DataError(f"{name}: {key} is missing; restore it from a copy")
        if not _is(value[key], kind):
            raise DataError(f"{name}: {key} is {_shown(value[key])}; it must be {_called(kind)}")
    return value


def check_options(kind: type, values: Mapping[str, Any], name: str) -> None:
    """Raise DataError, naming `name` and the field, where `values` are not what the dataclass `kind` can be made of:
    a field it does not have, one of another type, one without a default that is missing."""
    hints, known = _hints(kind), {field.name: field for field in dataclasses.fields(kind)}
    for key in values:
        if key not in known:
            raise DataError(f"{name}: {key} is unknown to this version; known are {', '.join(known)}")
    needed = [
        key for key, f in known.items() if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    check_fields(values, {key: hints[key] for key in known if key in values or key in needed}, name)


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def unusable(weights: Mapping[str, np.ndarray]) -> str:
    """What makes weights unfit to compute with, and in which of them, in words; "" where nothing does.

    >>> unusable({"a": np.ones(3), "b": np.array([1.0, np.nan])})
    'weights that are not finite (NaN or infinity), in b'
    """
    for name in sorted(weights):
        weight = weights[name]
        if not weight.size or weight.dtype.kind != "f":
            continue
        low, high = float(weight.min()), float(weight.max())  # NaN where one is
        if not (math.isfinite(low) and math.isfinite(high)):
            return f"weights that are not finite (NaN or infinity), in {name}"
        if max(-low, high) > _LARGEST:
            return f"weights as large as {max(-low, high):.0e}, whose squares are infinite in float32, in {name}"
    return ""


def size_beyond(config: Mapping[str, Any], held: int) -> str:
    """The first size in a model's configuration that weights of `held` numbers cannot have, "" where there is none: a
    damaged one could ask for more memory or time than there is.

    >>> size_beyond({"layers": 10**9, "width": 2}, 1000), size_beyond({"layers": 99, "width": 4}, 1000)
    ('layers', 'layers')
    """
    sizes = {name: size for name, size in config.items() if type(size) is int}
    if over := [name for name, size in sizes.items() if size > max(held, 2)]:
        return over[0]
    width = sizes.get("width", 1)
    # a layer has a matrix [D, D] at the least, a table D numbers for each row
    least = {"layers": width * width, "vocab_size": width, "hidden": width, "segments": width}
    return next((name for name, numbers in least.items() if sizes.get(name, 0) * numbers > max(held, 2)), "")


def _is(value: Any, kind: Any) -> bool:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(_is(value, one) for one in inner)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            return False
        each = inner[:1] * len(value) if inner[-1] is ... else inner
        return len(value) == len(each) and all(map(_is, value, each))
    if origin is dict:
        return isinstance(value, dict) and all(_is(part, inner[1]) for part in value.values())
    if kind is float:
        return type(value) in (int, float) and abs(value) <= sys.float_info.max  # False for NaN
    return type(value) is kind


def _called(kind: Any) -> str:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(_called, inner))
    if origin is tuple:
        each = " and ".join(map(_called, inner)) if inner[-1] is not ... else f"any number, each {_called(inner[0])}"
        return f"a list of {each}"
    if origin is dict:
        return f"an object whose values are each {_called(inner[1])}"
    names = {int: "an integer", float: "a finite number", bool: "true or false", str: "a text", dict: "an object"}
    return {**names, list: "a list", type(None): "null"}.get(kind, str(kind))
