"""Texts, the character tokenizer and next-token windows."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tinygrad_edu.data import (
    CharTokenizer,
    DataError,
    Windows,
    consecutive,
    embedded_corpus,
    enclose_lines,
    id_dtype,
    load_tokenizer,
    read_text,
    split,
)


def test_embedded_corpus_is_long_english_text_and_always_the_same() -> None:
    text = embedded_corpus()
    assert 300_000 < len(text) < 1_000_000
    assert 80 < len(set(text)) < 200
    assert text.count(" the ") > 3000
    assert text == embedded_corpus()


def test_read_text_keeps_line_ends_and_drops_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(b"\xef\xbb\xbfa\r\nb\xef\xbb\xbf\n")
    assert read_text(path) == "a\r\nb\ufeff\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"caf\xe9", "byte 0xe9 at position 3"),
        (b"\xef\xbb\xbfab\xff", "byte 0xff at position 5"),
        ("text".encode("utf-16"), "byte 0xff at position 0"),
        (b"ok\xed\xa0\x80", "byte 0xed at position 2"),  # half of a surrogate pair
    ],
)
def test_read_text_refuses(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_text(path)


def test_read_text_names_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        read_text(tmp_path / "none.txt")
    with pytest.raises(DataError, match="is a folder"):
        read_text(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="cannot be read"):
        read_text(tmp_path / "file" / "below")


@pytest.mark.parametrize("text", ["a\nb", "\na\nb", "a\nb\n", "\na\nb\n"])
def test_every_line_gets_a_begin_and_an_end(text: str) -> None:
    assert enclose_lines(text) == "\na\nb\n"


@pytest.mark.parametrize(
    ("length", "fraction", "sizes"), [(10, 0.1, None), (100, 0.1, (90, 10)), (7, 0.5, (3, 4)), (7, 0, (7, 7))]
)
def test_split(length: int, fraction: float, sizes: tuple[int, int] | None) -> None:
    ids = np.arange(length)
    if sizes is None:
        with pytest.raises(DataError, match="10 tokens"):
            split(ids, fraction)
    else:
        training, validation = split(ids, fraction)
        assert (len(training), len(validation)) == sizes
        if fraction:
            assert np.concatenate([training, validation]).tolist() == ids.tolist()


@pytest.mark.parametrize("fraction", [-0.1, 1.0, 2.0, float("nan")])
def test_split_refuses_a_share_out_of_range(fraction: float) -> None:
    with pytest.raises(ValueError, match="val_fraction"):
        split(np.arange(100), fraction)


# tokenizer


def test_tokenizer_round_trip() -> None:
    tokenizer = CharTokenizer.of("hello world")
    assert len(tokenizer) == 8
    assert tokenizer.decode(tokenizer.encode("hello")) == "hello"
    assert tokenizer.encode("").tolist() == []
    assert tokenizer.decode([]) == ""
    assert "".join(tokenizer.stream(iter(tokenizer.encode("low")))) == "low"


@pytest.mark.parametrize(
    ("text", "point"), [("hellö", r"U\+00F6"), ("A", r"U\+0041"), ("🙂", r"U\+1F642"), ("\udcff", r"U\+DCFF")]
)
def test_an_unknown_character_is_named_with_its_code_point(text: str, point: str) -> None:
    with pytest.raises(ValueError, match=point):
        CharTokenizer.of("hello world").encode(text)


def test_many_unknown_characters_are_cut_short() -> None:
    with pytest.raises(ValueError, match="and 3 more"):
        CharTokenizer.of("x").encode("abcdefgh")


def test_decode_refuses_foreign_ids() -> None:
    tokenizer = CharTokenizer.of("hello world")
    for ids in ([8], [-1], np.array([0, 70000])):
        with pytest.raises(IndexError, match="outside 0 to 7"):
            tokenizer.decode(ids)
    with pytest.raises(TypeError, match="float64"):
        tokenizer.decode([0.5])


def test_any_text_round_trips() -> None:
    text = "\r\n\tnaïve 你好 🙂 \ufeff\0"
    tokenizer = CharTokenizer.of(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_vocabulary_follows_code_points_whatever_the_hash_seed() -> None:
    program = (
        "from tinygrad_edu.data import CharTokenizer as C; t = 'the quick brown fox jumps'; c = C.of(t);"
        "print(ascii(c.vocabulary), c.encode(t).tolist(), c.fingerprint)"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in "12"
    ]
    assert runs[0] == runs[1]
    assert CharTokenizer.of("the quick brown fox jumps").vocabulary[0] == " "


@pytest.mark.parametrize(
    ("vocabulary", "message"), [("", "empty"), ("ba", "sorted"), ("aab", "sorted"), ("a\ud800", r"U\+D800")]
)
def test_tokenizer_refuses_a_vocabulary(vocabulary: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CharTokenizer(vocabulary)


def test_fingerprint_tells_vocabularies_apart() -> None:
    first, same, other, longer = (CharTokenizer.of(text) for text in ("abc\n", "\ncba", "xyz\n", "abcdef\n"))
    assert first == same
    assert first.fingerprint == same.fingerprint
    assert len({first.fingerprint, other.fingerprint, longer.fingerprint}) == 3


def test_tokenizer_file(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tokenizer = CharTokenizer.of("naïve 你好 🙂\n")
    tokenizer.save(path)
    assert load_tokenizer(path) == tokenizer
    assert os.listdir(tmp_path) == ["tokenizer.json"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocabulary": "xyz"}, "was changed"),
        ({"format": 2}, "newer"),
        ({"type": "bpe"}, "'bpe'"),
        ({"vocabulary": 3}, "damaged"),
        ({"vocabulary": "cba"}, "damaged"),
        (None, "damaged"),
    ],
)
def test_tokenizer_file_refused(tmp_path: Path, change: dict[str, object] | None, message: str) -> None:
    path = tmp_path / "tokenizer.json"
    content = json.loads(CharTokenizer.of("abc").to_json())
    path.write_text(json.dumps({**content, **change}) if change else '{"format": 1, "type')
    with pytest.raises(DataError, match=message) as caught:
        load_tokenizer(path)
    assert str(path) in str(caught.value)


def test_ids_keep_their_value_at_the_edges_of_16_bits() -> None:
    ids = np.array([65535, 65536, 70000])
    assert id_dtype(65536) == np.uint16
    assert id_dtype(65537) == np.uint32
    assert ids.astype(id_dtype(70001)).tolist() == ids.tolist()
    many = CharTokenizer("".join(map(chr, [*range(0xD800), *range(0xE000, 0x12000)])))
    text = many.vocabulary[65535:65537]
    assert many.encode(text).dtype == np.uint32
    assert many.encode(text).tolist() == [65535, 65536]
    assert many.decode(many.encode(text)) == text


# windows


@pytest.mark.parametrize("length", [10, 16, 0])
def test_a_text_shorter_than_one_window_names_both_lengths(length: int) -> None:
    with pytest.raises(DataError, match=rf"has {length} tokens.*= 17"):
        Windows(np.zeros(length, np.uint16), 16)


def test_a_text_of_exactly_one_window() -> None:
    windows = Windows(np.arange(17, dtype=np.uint16), 16)
    batch = windows.draw(50, np.random.default_rng(0))
    assert len(windows) == 1
    assert (batch.ids == np.arange(16)).all()


def test_every_window_is_drawn_the_last_one_included() -> None:
    windows = Windows(np.arange(6, dtype=np.uint16), 4)
    batch = windows.draw(400, np.random.default_rng(1))
    assert set(batch.ids[:, 0].tolist()) == {0, 1}
    assert 150 < (batch.ids[:, 0] == 1).sum() < 250
    assert (batch.labels == batch.ids + 1).all()
    assert batch.ids.dtype == batch.labels.dtype == np.int64
    assert [part.tolist() for part in windows[1]] == [[1, 2, 3, 4], [2, 3, 4, 5]]
    with pytest.raises(IndexError):
        windows[2]


def test_block_size_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="block_size is 0"):
        Windows(np.arange(5), 0)


@pytest.mark.parametrize(
    ("length", "block_size", "batch_size"), [(2, 8, 4), (9, 8, 4), (10, 8, 4), (100, 8, 4), (97, 8, 4), (64, 1, 7)]
)
def test_measuring_counts_every_next_token_once(length: int, block_size: int, batch_size: int) -> None:
    ids = np.arange(length, dtype=np.uint16)
    batches = list(consecutive(ids, block_size, batch_size))
    read = np.concatenate([batch.ids.ravel() for batch in batches])
    labels = np.concatenate([batch.labels.ravel() for batch in batches])
    assert read.tolist() == list(range(length - 1))
    assert labels.tolist() == list(range(1, length))
    assert all(batch.ids.shape[0] <= batch_size and batch.ids.shape[1] <= block_size for batch in batches)


def test_measuring_needs_a_next_token() -> None:
    with pytest.raises(DataError, match="no next token"):
        list(consecutive(np.arange(1), 4, 4))
