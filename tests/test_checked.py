"""Everything read is checked: formats, JSON by the letter, types of settings, ends of lines."""

import bz2
import dataclasses
import gzip
import io
import json
import lzma
import os
import pickle
import sqlite3
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygrad_edu.data import DataError, documents, lines_of, load_tokenizer, pairs, read_lines, read_text
from tinygrad_edu.data import checked as checks
from tinygrad_edu.data.documents import _lines
from tinygrad_edu.data.text import enclose_lines

TEXT = b"the quick brown fox\n" * 50


def tar() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as file:
        entry = tarfile.TarInfo("fox.txt")
        entry.size = len(TEXT)
        file.addfile(entry, io.BytesIO(TEXT))
    return made.getvalue()


def zipped(stored: bool = False) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED) as file:
        file.writestr("fox.txt", TEXT)
    return made.getvalue()


def array() -> bytes:
    made = io.BytesIO()
    np.save(made, np.arange(3))
    return made.getvalue()


def arrays() -> bytes:
    made = io.BytesIO()
    np.savez(made, np.arange(3))
    return made.getvalue()


# name of the file, its content, what is said of it
FORMATS: dict[str, tuple[str, bytes, str]] = {
    "gzip": ("a.gz", gzip.compress(TEXT), "compressed (gzip); decompress it first, for example with `gunzip "),
    "gzip by another name": ("a.txt", gzip.compress(TEXT), "compressed (gzip); decompress it first"),
    "bzip2": ("a.bz2", bz2.compress(TEXT), "compressed (bzip2); decompress it first, for example with `bunzip2 "),
    "bzip2 of nothing": ("a.bz2", bz2.compress(b""), "compressed (bzip2)"),
    "xz": ("a.xz", lzma.compress(TEXT), "compressed (xz); decompress it first, for example with `unxz "),
    "lzma": ("a.lzma", lzma.compress(TEXT, lzma.FORMAT_ALONE), "compressed (lzma); decompress it first"),
    "zstd": ("a.zst", b"\x28\xb5\x2f\xfd\x04\x00\x01\x00", "compressed (zstd); decompress it first"),
    "lz4": ("a.lz4", b"\x04\x22\x4d\x18\x64@\xa7", "compressed (lz4); decompress it first"),
    "lz4, old": ("a.lz4", b"\x02\x21\x4c\x18\x64@\xa7", "compressed (lz4)"),
    "zstd, a skippable frame": ("a.zst", b"\x5e\x2a\x4d\x18\x04", "compressed (zstd or lz4)"),
    "lzop": ("a.lzo", b"\x89LZO\x00\r\n\x1a\n", "compressed (lzop)"),
    "zlib": ("a.zz", zlib.compress(TEXT), "compressed (zlib)"),
    "cab": ("a.cab", b"MSCF\x00\x00\x00\x00\x2c", "compressed (cab)"),
    "compress": ("a.Z", b"\x1f\x9d\x90\x31", "compressed (compress); decompress it first"),
    "lzip": ("a.lz", b"LZIP\x01\x0c", "compressed (lzip); decompress it first"),
    "snappy": ("a.sz", b"\xff\x06\x00\x00sNaPpY\x01", "compressed (snappy); decompress it first"),
    "zip": ("a.zip", zipped(), "compressed (zip); decompress it first, for example with `unzip "),
    "zip, stored": ("a.zip", zipped(stored=True), "compressed (zip); decompress it first"),
    "npz": ("a.npz", arrays(), "compressed (zip)"),
    "7z": ("a.7z", b"7z\xbc\xaf\x27\x1c\x00\x04", "compressed (7z); decompress it first, for example with `7z x "),
    "rar": ("a.rar", b"Rar!\x1a\x07\x01\x00", "compressed (rar); decompress it first"),
    "tar": ("a.tar", tar(), "is a tar archive; unpack it first, for example with `tar -xf "),
    "tar.gz": ("a.tar.gz", gzip.compress(tar()), "decompress it first, for example with `tar -xf "),
    "tgz": ("a.tgz", gzip.compress(tar()), "decompress it first, for example with `tar -xf "),
    "tar.xz": ("a.tar.xz", lzma.compress(tar()), "decompress it first, for example with `tar -xf "),
    "npy": ("a.npy", array(), "is a NumPy array, no text"),
    "pickle": ("a.pkl", pickle.dumps(["fox"]), "is a pickle, no text"),
    "parquet": ("a.parquet", b"PAR1\x15\x04\x15", "is a Parquet table, no text"),
    "arrow": ("a.arrow", b"ARROW1\x00\x00\xff\xff", "is an Arrow table, no text"),
    "pdf": ("a.pdf", b"%PDF-1.7\n1 0 obj", "is a PDF document, no text"),
    "sqlite": ("a.db", b"SQLite format 3\x00\x10\x00", "is an SQLite database, no text"),
    "png": ("a.png", b"\x89PNG\r\n\x1a\n", "is a PNG image, no text"),
    "office": ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is an Office document, no text"),
    "hdf5": ("a.h5", b"\x89HDF\r\n\x1a\n", "is an HDF5 file, no text"),
    "git lfs": ("a.txt", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "git lfs pull"),
    "UTF-16": ("a.txt", "fox".encode("utf-16"), "iconv -f UTF-16 "),
    "UTF-16, big": ("a.txt", b"\xfe\xff\x00f", "iconv -f UTF-16 "),
    "UTF-32": ("a.txt", "fox".encode("utf-32"), "iconv -f UTF-32 "),
    "UTF-16LE without mark": ("a.txt", "fox jumps".encode("utf-16-le"), "iconv -f UTF-16LE"),
    "UTF-16BE without mark": ("a.txt", "fox jumps".encode("utf-16-be"), "iconv -f UTF-16BE"),
}
READERS: dict[str, Callable[[Path], Any]] = {
    "text": read_text,
    "lines": lambda path: list(read_lines(path)),
    "tokenizer": load_tokenizer,
    "JSON": checks.read_json,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("case", FORMATS)
def test_what_is_compressed_or_no_text_is_said_to_be(case: str, reader: str, tmp_path: Path) -> None:
    name, content, message = FORMATS[case]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        READERS[reader](path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "LATIN1" not in str(caught.value)
    assert "\n" not in str(caught.value)


STARTS = ["BZhang", "BZh9", "PK is a name", "Rar", "]", "]\n", "GIF", "7zip", "PAR1 and PAR2", "a\0b\0c d", "\0\0\0\0"]


@pytest.mark.parametrize("text", STARTS)
def test_texts_that_begin_like_a_format_are_texts(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(text, newline="")
    assert read_text(tmp_path / "a.txt") == text


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs devices and pipes")
def test_devices_and_pipes(tmp_path: Path) -> None:
    for device in ("/dev/zero", "/dev/urandom", "/dev/null"):
        for reader in READERS.values():
            with pytest.raises(DataError, match="device"):
                reader(Path(device))
    os.mkfifo(tmp_path / "pipe")
    for name in ("tokenizer", "JSON"):
        with pytest.raises(DataError, match="is a pipe or a device"):
            READERS[name](tmp_path / "pipe")


@pytest.mark.parametrize("reader", READERS)
def test_missing_files_folders_and_those_not_to_be_read(reader: str, tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(DataError, match=str(path)):
            READERS[reader](path)
    (tmp_path / "a").write_text("x")
    with pytest.raises(DataError, match="cannot be read"):
        READERS[reader](tmp_path / "a" / "b")


# lines

ENDS = [
    ("a\rb\rc", ["a\r", "b\r", "c"]),
    ("a\r\nb\r\n", ["a\r\n", "b\r\n"]),
    ("a\nb\r\rc\n\r", ["a\n", "b\r", "\r", "c\n", "\r"]),
    ("\r\r\n\n", ["\r", "\r\n", "\n"]),
    ("a\u2028b\x85c\x0bd\x0ce\x1cf\n", ["a\u2028b\x85c\x0bd\x0ce\x1cf\n"]),
    ("", []),
    ("\r", ["\r"]),
]


@pytest.mark.parametrize(("text", "lines"), ENDS)
def test_lines_end_in_lf_cr_or_both_wherever_the_file_is_parted(text: str, lines: list[str], tmp_path: Path) -> None:
    assert list(lines_of(text)) == lines
    for size in range(1, 5):
        assert list(_lines(text[i : i + size] for i in range(0, len(text), size))) == lines
    assert list(_lines(["", *text, ""])) == lines


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_file_read_in_small_parts(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tinygrad_edu.data.text._PART", size)
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffé\r\n你好\r🙂\n\ufeff".encode())
    assert list(read_lines(path)) == ["é\r\n", "你好\r", "🙂\n", "\ufeff"]
    assert read_text(path) == "é\r\n你好\r🙂\n\ufeff"
    for content, message in ((b"caf\xe9", "0xe9 at position 3"), ("é你".encode() + b"\xe4\xbd", "0xe4 at position 5")):
        path.write_bytes(content)
        with pytest.raises(DataError, match=message):
            read_text(path)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_documents_are_the_same_with_every_end_of_line(end: str) -> None:
    def of(*lines: str) -> list[str]:
        return list(lines_of(end.join(lines) + end))

    assert list(documents(of("a", "", "b"), "lines")) == ["a", "b"]
    assert list(documents(of("a", "b", "", "", "c"), "paragraphs")) == [f"a{end}b", "c"]
    assert list(documents(of('{"text": "a"}', '{"text": "b\u2028"}'), "jsonl")) == ["a", "b\u2028"]
    assert list(pairs(of('{"prompt": "a", "answer": "b"}', '{"prompt": "c", "answer": ""}'))) == [("a", "b"), ("c", "")]


def test_a_cr_alone_bounds_a_line_as_a_newline_does() -> None:
    assert enclose_lines("emma\rava\r") == "\nemma\nava\n"
    assert enclose_lines("emma\r\nava") == "\nemma\r\nava\n"


# JSON

NO_JSON: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "is empty"),
    "blanks": (b" \n", "is empty"),
    "a word": (b"nonsense", "damaged or no JSON"),
    "cut short": (b'{"a": [1, 2', "damaged or no JSON"),
    "more after it": (b'{"a": 1} x', "damaged or no JSON"),
    "NaN": (b'{"a": {"b": [0, NaN]}}', "a.b[1] is NaN, which is no JSON"),
    "Infinity": (b'{"a": Infinity}', "a is Infinity"),
    "-Infinity": (b"[-Infinity]", "[0] is -Infinity"),
    "nothing but NaN": (b"NaN", "NaN, which is no JSON"),
    "beyond all numbers": (b'{"lr": 1e999}', "lr is Infinity"),
    "an integer of 5000 digits": (b'{"a": ' + b"9" * 5000 + b"}", "damaged or no JSON"),
    "a key twice": (b'{"a": {"b": 1, "c": 2, "b": 3}}', "the key 'b' is there twice"),
    "nested too deeply": (b"[" * 100_000, "nested too deeply"),
    "objects nested too deeply": (b'{"a":' * 100_000, "nested too deeply"),
    "Latin-1": ('{"a": "é"}'.encode("latin-1"), "not UTF-8, byte 0xe9 at position 7"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
    "a single quote": (b"{'a': 1}", "damaged or no JSON"),
    "a comma too many": (b'{"a": 1,}', "damaged or no JSON"),
    "a NUL": (b'{"a": 1}\0', "damaged or no JSON"),
}


@pytest.mark.parametrize("case", NO_JSON)
def test_what_is_no_json_is_one_line(case: str, tmp_path: Path) -> None:
    content, message = NO_JSON[case]
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        checks.read_json(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_json_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'\xef\xbb\xbf{"a": 1e3, "b": [-0.0, 1]}')
    assert checks.read_json(tmp_path / "a.json") == {"a": 1000.0, "b": [0, 1]}


@dataclasses.dataclass(frozen=True)
class Settings:
    width: int
    eps: float = 1e-5
    tied: bool = True
    name: str = ""
    betas: tuple[float, float] = (0.9, 0.99)
    best: float | None = None
    stop: tuple[str, ...] = ()


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "width is missing"),
    ({"width": "3"}, 'width is "3"; it must be an integer'),
    ({"width": 3.0}, "width is 3.0; it must be an integer"),
    ({"width": True}, "width is true; it must be an integer"),
    ({"width": None}, "width is null; it must be an integer"),
    ({"width": [3]}, "width is [3]; it must be an integer"),
    ({"width": 3, "eps": "x"}, 'eps is "x"; it must be a finite number'),
    ({"width": 3, "eps": False}, "eps is false; it must be a finite number"),
    ({"width": 3, "eps": float("nan")}, "eps is NaN; it must be a finite number"),
    ({"width": 3, "eps": float("inf")}, "eps is Infinity; it must be a finite number"),
    ({"width": 3, "eps": 10**400}, "eps is an integer of hundreds of digits; it must be a finite number"),
    ({"width": 3, "tied": 1}, "tied is 1; it must be true or false"),
    ({"width": 3, "name": 1}, "name is 1; it must be a text"),
    ({"width": 3, "betas": 0.9}, "betas is 0.9; it must be a list of a finite number and a finite number"),
    ({"width": 3, "betas": [0.9]}, "betas is [0.9]"),
    ({"width": 3, "betas": [0.9, "x"]}, "betas is [0.9"),
    ({"width": 3, "best": "x"}, "it must be a finite number or null"),
    ({"width": 3, "stop": [1]}, "stop is [1]"),
    ({"width": 3, "wdith": 3}, "wdith is unknown"),
]


@pytest.mark.parametrize(("values", "message"), WRONG)
def test_a_setting_of_another_type_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        checks.check_options(Settings, values, "config.json")
    assert str(caught.value).startswith("config.json: ")
    assert message in str(caught.value)


def test_settings_of_the_right_type() -> None:
    checks.check_options(Settings, {"width": 10**30, "eps": 1, "best": None, "betas": [0, 1.0], "stop": ["a"]}, "")
    checks.check_options(Settings, json.loads(json.dumps(dataclasses.asdict(Settings(3)))), "")
    with pytest.raises(DataError, match="must hold a JSON object"):
        checks.check_fields([1], {}, "config.json")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a", "score": NaN}', "score is NaN"),
        ('{"text": "a", "text": "b"}', "'text' is there twice"),
        ('{"text": "a"} {"text": "b"}', "no JSON"),
        ('{"text": ["a"]}', "no text in a field 'text' but"),
        ('"a"', "no JSON object"),
    ],
)
def test_a_line_that_is_no_document_names_its_file(line: str, message: str) -> None:
    for read in (lambda lines: documents(lines, "jsonl", "a.jsonl"), lambda lines: pairs(lines, "a.jsonl")):
        with pytest.raises(DataError) as caught:
            list(read(["\n", line]))
        assert str(caught.value).startswith("a.jsonl: line 2 of the data")
    assert message in str(caught.value).replace("'prompt'", "'text'").replace("; its fields are 'text'", " but")


def test_the_example_of_a_damaged_database(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as made:
        made.execute("create table t (x text)")
    with pytest.raises(DataError, match="SQLite database"):
        read_text(path)


def test_an_unreadable_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    for reader in READERS.values():
        with pytest.raises(DataError, match="cannot be read"):
            reader(path)
