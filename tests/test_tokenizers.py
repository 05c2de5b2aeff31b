"""Tokenizers of every kind: texts come back as they were, control tokens cannot be forged, files fit their models."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygrad_edu.data import (
    END_OF_TEXT,
    KINDS,
    MASKING,
    ByteTokenizer,
    CharTokenizer,
    DataError,
    SubwordTokenizer,
    Tokenizer,
    load_tokenizer,
    make_tokenizer,
    train_bpe,
    train_wordpiece,
)

pytest.importorskip("tokenizers")

TEXT = "the quick brown fox jumps over the lazy dog\r\n\tnaïve 你好 🙂 \ufeff\0 <|endoftext|> [SEP] [MASK]\n" * 20
LOSSLESS = ("char", "byte", "bpe")


def made(kind: str, specials: tuple[str, ...] = ()) -> Tokenizer:
    return make_tokenizer(kind, [TEXT], 400, specials)


# what all of them do


@pytest.mark.parametrize("specials", [(), (END_OF_TEXT,), MASKING], ids=["plain", "documents", "masking"])
@pytest.mark.parametrize("kind", LOSSLESS)
def test_a_text_comes_back_as_it_was(kind: str, specials: tuple[str, ...]) -> None:
    tokenizer = made(kind, specials)
    ids = tokenizer.encode(TEXT)
    assert tokenizer.decode(ids) == TEXT
    assert "".join(tokenizer.stream(ids.tolist())) == TEXT
    assert ids.max() < len(tokenizer)
    assert (tokenizer.encode("").tolist(), tokenizer.decode([])) == ([], "")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", [b"the", None, ["the"]])
def test_what_is_no_text_is_refused(kind: str, text: Any) -> None:
    with pytest.raises(TypeError, match=f"encode: a text is a str, not {type(text).__name__}"):
        made(kind).encode(text)


@pytest.mark.parametrize("kind", KINDS)
def test_half_of_a_surrogate_pair_is_named(kind: str) -> None:
    with pytest.raises(ValueError, match=r"U\+D83D"):
        made(kind).encode("the \ud83d fox")
    with pytest.raises(ValueError, match=r"U\+D83D"):
        make_tokenizer(kind, ["the \ud83d fox"], 400).encode("the \ud83d fox")


@pytest.mark.parametrize("kind", KINDS)
def test_the_spelling_of_a_control_token_in_a_text_is_text(kind: str) -> None:
    tokenizer = made(kind, (END_OF_TEXT, "[MASK]"))
    control = set(tokenizer.specials.values())
    ids = tokenizer.encode("the<|endoftext|>fox [MASK]")
    assert not control & set(ids.tolist())
    asked = tokenizer.encode("the<|endoftext|>fox [MASK]", special=True).tolist()
    assert [i for i in asked if i in control] == [tokenizer.specials[END_OF_TEXT], tokenizer.specials["[MASK]"]]
    assert [*tokenizer.encode("the"), tokenizer.specials[END_OF_TEXT], *tokenizer.encode("fox")] == [
        i for i in asked if i != tokenizer.specials["[MASK]"]
    ][: len(tokenizer.encode("the")) + 1 + len(tokenizer.encode("fox"))]
    if kind in LOSSLESS:
        assert tokenizer.decode(ids) == tokenizer.decode(asked) == "the<|endoftext|>fox [MASK]"


def test_a_byte_tokenizer_has_fifteen_ids_for_a_forged_token() -> None:
    tokenizer = ByteTokenizer([END_OF_TEXT])
    assert len(tokenizer.encode("A<|endoftext|>B")) == 15
    assert tokenizer.encode("A<|endoftext|>B", special=True).tolist() == [65, 256, 66]


@pytest.mark.parametrize("kind", KINDS)
def test_ends_of_a_document(kind: str) -> None:
    plain, documents, masking = made(kind), made(kind, (END_OF_TEXT,)), made(kind, MASKING)
    assert (plain.begin, plain.end) == (None, None)
    assert documents.begin == documents.end == documents.specials[END_OF_TEXT] == documents.boundary
    assert (masking.begin, masking.end) == (masking.specials["[CLS]"], masking.specials["[SEP]"])
    for tokenizer in (plain, documents, masking):
        bare, bounded = tokenizer.bounded(False), tokenizer.bounded(True) if kind in ("char", "byte") else documents
        assert (bare.begin, bare.end) == (None, None)
        assert bounded.begin is not None
        assert bare.encode("the fox").tolist() == plain.encode("the fox").tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_foreign_ids_are_refused(kind: str) -> None:
    tokenizer = made(kind)
    for ids in ([len(tokenizer)], [-1], np.array([0, 70000])):
        with pytest.raises(IndexError, match=f"outside 0 to {len(tokenizer) - 1}"):
            tokenizer.decode(ids)
    with pytest.raises(TypeError, match="float64"):
        tokenizer.decode([0.5])


@pytest.mark.parametrize("specials", [(), (END_OF_TEXT,)], ids=["plain", "documents"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_file_holds_all_of_it(kind: str, specials: tuple[str, ...], tmp_path: Path) -> None:
    tokenizer, path = made(kind, specials), tmp_path / "tokenizer.json"
    tokenizer.save(path)
    found = load_tokenizer(path)
    assert found == tokenizer
    assert (len(found), found.specials, found.begin, found.end) == (
        (len(tokenizer), tokenizer.specials, tokenizer.begin, tokenizer.end)
    )
    assert found.encode(TEXT).tolist() == tokenizer.encode(TEXT).tolist()
    assert os.listdir(tmp_path) == ["tokenizer.json"]


def test_fingerprints_tell_tokenizers_apart() -> None:
    all_of_them = [made(kind, specials) for kind in KINDS for specials in ((), (END_OF_TEXT,), MASKING)]
    assert len({tokenizer.fingerprint for tokenizer in all_of_them}) == len(all_of_them)
    assert len(set(all_of_them)) == len(all_of_them)


@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
def test_learning_gives_equal_tokenizers_in_every_process(kind: str) -> None:
    program = (
        f"from tinygrad_edu.data import make_tokenizer as m; t = {TEXT!r};"
        f"print(m({kind!r}, [t], 400, ('[SEP]',)).fingerprint)"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in "123"
    }
    assert len(runs) == 1


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="known are char, byte, bpe, wordpiece"):
        make_tokenizer("words", [TEXT])


# pieces of text


def byte_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """One id a byte, also of a BPE without merges."""
    ids = tokenizer.encode(text).tolist()
    assert len(ids) == len(text.encode())
    return ids


@pytest.mark.parametrize("tokenizer", [ByteTokenizer(), train_bpe([], 256)], ids=["byte", "bpe"])
def test_a_character_is_shown_with_its_last_byte(tokenizer: Tokenizer) -> None:
    ids = byte_ids(tokenizer, "é🙂")
    assert list(tokenizer.stream(ids)) == ["", "é", "", "", "", "🙂"]
    cut = "".join(tokenizer.stream(ids[:4]))
    assert cut == tokenizer.decode(ids[:4]) == "é\ufffd"
    assert "".join(tokenizer.stream(byte_ids(tokenizer, "你好"))) == "你好"


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_of_any_ids_join_to_their_text(kind: str) -> None:
    """Also where the ids spell no UTF-8, as those of an untrained model."""
    tokenizer = made(kind, (END_OF_TEXT,))
    draw = random.Random(0)
    for _ in range(50):
        ids = [draw.randrange(len(tokenizer)) for _ in range(draw.randrange(12))]
        assert "".join(tokenizer.stream(ids)) == tokenizer.decode(ids)


# characters and bytes


def test_control_tokens_of_characters_come_behind_them() -> None:
    tokenizer = CharTokenizer.of("ba", MASKING)
    assert tokenizer.specials == {"[PAD]": 2, "[CLS]": 3, "[SEP]": 4, "[MASK]": 5}
    assert tokenizer.decode([0, 5, 1]) == "a[MASK]b"
    with pytest.raises(ValueError, match="not distinct"):
        CharTokenizer.of("ba", ["x", "x"])


def test_a_tokenizer_written_before_there_were_control_tokens_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    digest = "8d7c67a51d1de1fce1c7a90ebcf2f1fa56a6b4e31b62aa2d2ed1a1b0fd2ba0f5"
    path.write_text(json.dumps({"format": 1, "type": "character", "vocabulary": "\nabc", "sha256": digest}))
    with pytest.raises(DataError, match="was changed"):
        load_tokenizer(path)
    text = CharTokenizer.of("abc\n").to_json()
    assert list(json.loads(text)) == ["format", "type", "vocabulary", "sha256"]


# BPE and WordPiece


@pytest.mark.parametrize(
    ("text", "size", "least", "most"),
    [("", 300, 256, 256), ("z", 300, 256, 256), ("ab", 300, 256, 257), ("abab", 256, 256, 256)],
)
def test_bpe_that_runs_out_of_pairs_says_its_real_size(text: str, size: int, least: int, most: int) -> None:
    tokenizer = train_bpe([text], size)
    assert least <= len(tokenizer) <= most
    assert tokenizer.decode(tokenizer.encode("abz 你")) == "abz 你"


@pytest.mark.parametrize(("size", "specials"), [(255, ()), (256, (END_OF_TEXT,))])
def test_bpe_needs_all_bytes(size: int, specials: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=f"give {256 + len(specials)} or more"):
        train_bpe(["abc"], size, specials)


def test_bpe_merges_what_is_frequent() -> None:
    tokenizer = train_bpe(["the cat the dog the end"] * 3, 300)
    assert len(tokenizer.encode(" the")) == 1
    assert len(tokenizer.encode("xyz")) == 3
    assert 256 < len(tokenizer) < 300


def test_wordpiece_spells_words_by_pieces_and_knows_what_it_does_not_know() -> None:
    tokenizer = train_wordpiece(["the cats the cat a cat"] * 5, 60, MASKING)
    assert tokenizer.decode(tokenizer.encode("the cats")) == "the cats"
    assert tokenizer.decode(tokenizer.encode("the  Ω\n")) == "the [UNK]"
    assert tokenizer.encode("The").tolist() == [tokenizer.specials["[UNK]"]]
    assert len(tokenizer) <= 60


# any tokenizer.json


def hugging_face(**changes: Any) -> dict[str, Any]:
    """A file as other programs write it: WordPiece between [CLS] and [SEP], cut at 2 tokens and padded to 8."""
    fields = json.loads(train_wordpiece(["the cat sat"] * 5, 60, MASKING).to_json())
    fields["truncation"] = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    fields["padding"] = {
        "strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
        "pad_token": "[PAD]",
    }  # fmt: skip
    return {**fields, **changes}


def test_a_file_s_own_limit_and_padding_are_left_out() -> None:
    tokenizer = SubwordTokenizer(hugging_face())
    assert tokenizer.decode(tokenizer.encode("the cat sat the cat sat")) == "the cat sat the cat sat"
    assert json.loads(tokenizer.to_json())["truncation"] is None
    assert (tokenizer.begin, tokenizer.end) == (tokenizer.specials["[CLS]"], tokenizer.specials["[SEP]"])


def test_ends_beyond_the_entries_are_refused() -> None:
    fields = json.loads(SubwordTokenizer(hugging_face()).to_json())
    special = fields["post_processor"]["special_tokens"]
    special["[CLS]"]["ids"] = [10**9]
    with pytest.raises(DataError, match="its post_processor adds the id 1000000000"):
        SubwordTokenizer(fields)


def test_the_ends_of_a_file_can_be_put_on_and_off() -> None:
    bare = SubwordTokenizer(hugging_face(post_processor=None))
    assert (bare.begin, bare.end) == (None, None)
    assert bare.bounded(False) is bare
    bounded = bare.bounded(True)
    assert (bounded.begin, bounded.end) == (bare.specials["[CLS]"], bare.specials["[SEP]"])
    assert bounded.bounded(True) is bounded
    with pytest.raises(ValueError, match="no token for the end of a document"):
        train_bpe(["abc"], 300).bounded(True)


def test_a_vocabulary_that_spells_a_control_token_asks_for_permission() -> None:
    """A Unigram vocabulary holds </s> as a piece like any other, so the library makes it from text."""
    pieces = [["<unk>", 0.0], ["</s>", -1.0], *([c, -9.0] for c in "AB</s>"[:3] + "s>")]
    fields = {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "pre_tokenizer": None,
        "post_processor": None, "decoder": None,
        "added_tokens": [
            {"id": 1, "content": "</s>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": True}
        ],
        "model": {"type": "Unigram", "unk_id": 0, "vocab": pieces, "byte_fallback": False},
    }  # fmt: skip
    tokenizer = SubwordTokenizer(fields)
    assert tokenizer.encode("AB").tolist() == [2, 3]
    with pytest.raises(ValueError, match="spells the control token '</s>'"):
        tokenizer.encode("A</s>B")
    assert tokenizer.encode("A</s>B", special=True).tolist() == [2, 1, 3]


@pytest.mark.parametrize("content", ["", "[]", "{}", "nonsense", '{"model": {"type": "Morse"}}'])
def test_content_that_is_no_tokenizer(content: str) -> None:
    with pytest.raises(DataError, match="cannot read this tokenizer"):
        SubwordTokenizer(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"model": {"type": "BPE"}}, "cannot read"),
        ({"model": 3}, "damaged"),
        ({"format": 2, "type": "byte"}, "newer"),
        ({"format": 1, "type": "morse"}, "'morse'"),
        ({"format": 1, "type": "byte", "specials": ["x", "x"], "sha256": ""}, "damaged"),
        ({"format": 1, "type": "byte", "specials": 3, "sha256": ""}, "damaged"),
        ({"format": 1, "type": "byte", "sha256": "0"}, "was changed"),
        ([], "damaged"),
        (3, "damaged"),
    ],
)
def test_a_file_that_is_no_tokenizer_is_named(content: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=message) as caught:
        load_tokenizer(path)
    assert str(path) in str(caught.value)


def test_without_its_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    for kind in ("bpe", "wordpiece"):
        with pytest.raises(DataError, match=r"pip install 'tinygrad-edu\[text\]'"):
            make_tokenizer(kind, [TEXT])
    assert len(make_tokenizer("byte", [TEXT])) == 256


def test_the_library_is_loaded_only_when_it_is_used() -> None:
    program = (
        "import sys; from tinygrad_edu import data, training; data.make_tokenizer('char', ['abc']);"
        "print('tokenizers' in sys.modules); data.train_bpe(['abc'], 300); print('tokenizers' in sys.modules)"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
    ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, check=True, text=True)
    assert ran.stdout.split() == ["False", "True"]
