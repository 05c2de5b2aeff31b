"""Token files: what is written is read, whatever the vocabulary's size; what is damaged is refused."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygrad_edu.data import (
    END_OF_TEXT,
    ByteTokenizer,
    CharTokenizer,
    DataError,
    encode_documents,
    is_token_file,
    make_tokenizer,
    read_tokens,
    write_tokens,
)
from tools import cli, prepare, train

ROOT = Path(__file__).resolve().parent.parent
TEXT = "The quick brown fox jumps.\n\nOver the lazy dog.\n\n" * 30
SMALL = ["--steps", "6", "--batch-size", "4", "--block-size", "8"]


def here(tool: Any, *arguments: object) -> int:
    return cli.run(tool.__name__.rpartition(".")[2], tool.main, [str(a) for a in arguments])


# the file


MANY = CharTokenizer("".join(map(chr, [*range(0xD800), *range(0xE000, 0x12000)])))


@pytest.mark.parametrize(
    ("tokenizer", "dtype", "ids"),
    [
        (ByteTokenizer(), "<u2", [0, 255, 7]),
        (CharTokenizer(MANY.vocabulary[:65536]), "<u2", [65535, 0, 32768]),
        (CharTokenizer(MANY.vocabulary[:65537]), "<u4", [65535, 65536, 0]),
        (MANY, "<u4", [65535, 65536, 70000]),
    ],
    ids=["bytes", "65536", "65537", "more"],
)
def test_ids_keep_their_value_and_their_type_stands_in_the_file(
    tokenizer: Any, dtype: str, ids: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "x.tokens"
    assert write_tokens(path, tokenizer, [np.array(ids[:1]), np.array([], np.int64), np.array(ids[1:])]) == 3
    found = read_tokens(path)
    assert found.ids.tolist() == ids
    assert found.ids.dtype == np.dtype(dtype)
    assert isinstance(found.ids, np.memmap)
    assert found.ids.offset % 64 == 0
    assert found.largest == max(ids)
    assert found.tokenizer == tokenizer
    assert os.listdir(tmp_path) == ["x.tokens"]


def test_nothing_is_left_of_a_file_that_could_not_be_written(tmp_path: Path) -> None:
    path = tmp_path / "x.tokens"
    write_tokens(path, ByteTokenizer(), [np.array([1, 2])])
    before = path.read_bytes()

    def parts() -> Any:
        yield np.array([3])
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_tokens(path, ByteTokenizer(), parts())
    with pytest.raises(DataError, match="no text in the data"):
        write_tokens(path, ByteTokenizer(), [])
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["x.tokens"]


def head_of(content: bytes) -> tuple[int, dict[str, Any]]:
    (room,) = struct.unpack("<Q", content[8:16])
    return room, json.loads(content[16 : 16 + room])


def with_head(content: bytes, **changes: Any) -> bytes:
    room, head = head_of(content)
    return (
        content[:16] + json.dumps({**head, **changes}, ensure_ascii=False).encode().ljust(room) + content[16 + room :]
    )


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda c: c[:-1], "cut short"),
        (lambda c: c + b"x", "cut short"),
        (lambda c: c[:100], "no token file"),
        (lambda c: c[:8], "no token file"),
        (lambda c: b"x" + c[1:], "no token file"),
        (lambda c: c[:16] + b"}" + c[17:], "damaged"),
        (lambda c: c[:8] + struct.pack("<Q", 1 << 62) + c[16:], "no token file"),
        (lambda c: with_head(c, format=2), "format 2"),
        (lambda c: with_head(c, tokens=10**12), "cut short"),
        (lambda c: with_head(c, tokens=-1), "damaged"),
        (lambda c: with_head(c, dtype="<f4"), "damaged"),
        (lambda c: with_head(c, dtype="nonsense"), "damaged"),
        (lambda c: with_head(c, tokenizer_sha256="0"), "another fingerprint"),
        (lambda c: with_head(c, tokenizer="{}"), "damaged"),
        (lambda c: c[:-40] + bytes([c[-40] ^ 1]) + c[-39:], "damaged: its ids are not those"),
        (lambda c: with_head(c, sha256="0" * 64), "damaged: its ids are not those"),
        (lambda c: with_head(c, largest=48), "damaged: its ids are not those"),
        (lambda c: c[:-2] + b"\x00\x01", "token id 256, but its tokenizer has 256 tokens"),
        (lambda c: with_head(c, dtype="<u4"), "damaged: it states 50 tokens of type '<u4'"),
        (lambda c: with_head(c, dtype=">u2"), "damaged: it states 50 tokens of type '>u2'"),
        (lambda c: with_head(c, tokens="50"), 'tokens is "50"; it must be an integer'),
        (lambda c: with_head(c, tokens=True), "tokens is true; it must be an integer"),
        (lambda c: with_head(c, tokens=50.0), "tokens is 50.0; it must be an integer"),
        (lambda c: with_head(c, tokens=float("inf")), "tokens is Infinity, which is no JSON"),
        (lambda c: with_head(c, largest=float("nan")), "largest is NaN, which is no JSON"),
        (lambda c: with_head(c, largest=None), "largest is null; it must be an integer"),
        (lambda c: with_head(c, sha256=3), "sha256 is 3; it must be a text"),
        (lambda c: with_head(c, tokenizer={}), "tokenizer is {}; it must be a text"),
        (lambda c: with_head(c, format="1"), "format '1'"),
        (lambda c: c[:16] + b"[1]".ljust(head_of(c)[0]) + c[16 + head_of(c)[0] :], "holds a list|must hold a JSON"),
        (lambda c: c[:16] + b"[" * head_of(c)[0] + c[16 + head_of(c)[0] :], "damaged or no JSON"),
        (lambda c: c[:16] + b"\xff" * head_of(c)[0] + c[16 + head_of(c)[0] :], "not UTF-8"),
    ],
)
def test_a_damaged_token_file_is_named(damage: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.tokens"
    write_tokens(path, ByteTokenizer(), [np.arange(50)])
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=message) as caught:
        read_tokens(path)
    assert str(path) in str(caught.value)


def test_a_missing_token_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_tokens(tmp_path / "none")
    assert not is_token_file(tmp_path / "none")
    assert not is_token_file(tmp_path)


# the program


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize("tokenizer", ["char", "byte", "bpe"])
@pytest.mark.parametrize("documents", ["", "lines", "paragraphs"])
def test_it_trains_as_the_text_itself_does(tokenizer: str, documents: str, text: Path, tmp_path: Path) -> None:
    tokens, one, other = tmp_path / "x.tokens", tmp_path / "one", tmp_path / "other"
    options = ["--tokenizer", tokenizer, "--vocab-size", "300", "--documents", documents]
    assert here(prepare, text, "--out", tokens, *options) == 0
    assert here(train, "bigram", "--data", tokens, "--out", one, *SMALL) == 0
    assert here(train, "bigram", "--data", text, "--out", other, *SMALL, *options) == 0
    for name in ("model.safetensors", "tokenizer.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes()


def test_several_files_and_files_as_documents(text: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("More.")
    tokens = tmp_path / "x.tokens"
    assert here(prepare, text, other, "--out", tokens, "--tokenizer", "byte") == 0
    assert read_tokens(tokens).ids.tobytes() == np.frombuffer((TEXT + "More.").encode(), "u1").astype("<u2").tobytes()
    assert here(prepare, text, other, "--out", tokens, "--tokenizer", "byte", "--documents", "files") == 0
    expected = encode_documents(ByteTokenizer([END_OF_TEXT]), [TEXT, "More."])
    assert read_tokens(tokens).ids.tolist() == np.concatenate(list(expected)).tolist()


def test_a_run_goes_on_with_its_token_file_only(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokens, run = tmp_path / "x.tokens", tmp_path / "run"
    here(prepare, text, "--out", tokens, "--tokenizer", "bpe", "--vocab-size", "300")
    assert here(train, "bigram", "--data", tokens, "--out", run, *SMALL) == 0
    assert here(train, "bigram", "--resume", run, "--steps", "8") == 0
    here(prepare, text, "--out", tokens, "--tokenizer", "bpe", "--vocab-size", "270")
    capsys.readouterr()
    assert here(train, "bigram", "--resume", run, "--steps", "9") == 2
    assert "another tokenizer" in capsys.readouterr().err
    assert here(train, "bigram", "--data", tokens, "--tokenizer", "byte", "--out", tmp_path / "new", *SMALL) == 2
    assert "is prepared already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{text}"], "--out FILE"),
        (["--out", "{tmp}/x"], "FILE"),
        (["{tmp}/none", "--out", "{tmp}/x"], "does not exist"),
        (["{tmp}/empty", "--out", "{tmp}/x"], "is empty"),
        (["{tmp}/latin", "--out", "{tmp}/x"], "byte 0xe9 at position 3"),
        (["{text}", "--out", "{text}"], "a text to read"),
        (["{text}", "--out", "{tmp}/none/x"], "No such file"),
        (["{text}", "--out", "{tmp}/x", "--tokenizer", "bqe"], "did you mean 'bpe'?"),
        (["{text}", "--out", "{tmp}/x", "--tokenizer", "{tmp}/none.json"], "cannot be read"),
        (["{text}", "--out", "{tmp}/x", "--tokenizer", "bpe", "--vocab-size", "255"], "256"),
        (["{text}", "--out", "{tmp}/x", "--documents", "verses"], "lines, paragraphs, jsonl, files"),
        (["{text}", "--out", "{tmp}/x", "--documents", "jsonl"], "line 1 of the data is no JSON"),
    ],
)
def test_prepare_refuses(
    arguments: list[str], message: str, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "latin").write_bytes("café".encode("latin-1"))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert here(prepare, *(word.format(text=text, tmp=tmp_path) for word in arguments)) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("prepare: ")
    assert message in shown.err
    assert (shown.err.count("\n"), shown.out) == (1, "")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_memory_does_not_grow_with_the_text(tmp_path: Path) -> None:
    """Peak memory of the process for a text of 1 MB and of 30 MB, in bytes."""
    program = (
        "import re, sys; from tools import cli, prepare\n"
        "assert cli.run('prepare', prepare.main, sys.argv[1:]) == 0\n"
        "print(re.search(r'VmHWM:\\s*(\\d+) kB', open('/proc/self/status').read())[1])"
    )
    if not Path("/proc/self/status").exists():
        pytest.skip("the system does not say how much memory a process has had")
    peaks = []
    for copies in (20_000, 600_000):
        path = tmp_path / "text.txt"
        path.write_text("The quick brown fox jumps over the lazy dog, and so on.\n" * copies)
        ran = subprocess.run(
            [sys.executable, "-c", program, str(path), "--out", str(tmp_path / "x.tokens"), "--tokenizer", "byte"],
            cwd=ROOT,
            capture_output=True,
            check=True,
            text=True,
        )
        peaks.append(int(ran.stdout.split()[-1]) * 1024)
    assert peaks[1] - peaks[0] < 10_000_000


def test_a_tokenizer_of_a_run_prepares_other_texts(text: Path, tmp_path: Path) -> None:
    tokenizer = make_tokenizer("bpe", [TEXT], 300)
    tokenizer.save(tmp_path / "tokenizer.json")
    assert here(prepare, text, "--out", tmp_path / "x", "--tokenizer", tmp_path / "tokenizer.json") == 0
    found = read_tokens(tmp_path / "x")
    assert found.tokenizer == tokenizer
    assert found.tokenizer.decode(found.ids) == TEXT


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="links and pipes of POSIX")
def test_where_the_tokens_go(text: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A link remains one, a pipe is written to or refused, and standard output gets the tokens alone."""
    (tmp_path / "tokens").write_text("old")
    (tmp_path / "tokens").chmod(0o600)
    (tmp_path / "link").symlink_to("tokens")
    assert here(prepare, text, "--out", tmp_path / "link") == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "tokens").stat().st_mode & 0o777 == 0o600
    expected = (tmp_path / "tokens").read_bytes()
    command = [sys.executable, "-m", "tools.prepare", str(text), "--out", "/dev/stdout"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    assert done.stdout == expected
    assert done.stderr.count(b"\n") == 1
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    capfd.readouterr()
    for name, said in (
        ("pipe", "is a pipe that nobody reads"),
        ("loop", "symbolic links"),
        ("", "Is a directory"),
        ("none/tokens", "No such file or directory"),
        ("n" * 300, "File name too long"),
    ):
        assert here(prepare, text, "--out", tmp_path / name) == 2
        told = capfd.readouterr().err
        assert said in told
        assert name[:20] in told
        assert told.count("\n") == 1
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "tokens").read_bytes() == expected
