"""Documents and pairs: how files part into them, and that in a batch none sees or predicts anything of another."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models import GPT, Bigram, BigramConfig, GPTConfig
from tinygrad_edu import no_grad, random
from tinygrad_edu.data import (
    END_OF_TEXT,
    MASKING,
    Batch,
    ByteTokenizer,
    CharTokenizer,
    DataError,
    MaskedSource,
    Packed,
    PairSource,
    TextSource,
    Windows,
    consecutive,
    documents,
    encode_documents,
    encode_pair,
    isolated,
    pack,
    pairs,
    pieces,
    read_lines,
)
from tinygrad_edu.parallel import Shards
from tinygrad_edu.random import Generator

BYTES = ByteTokenizer([END_OF_TEXT])
E = BYTES.specials[END_OF_TEXT]


# files in parts


def lines_of(text: str, folder: Path) -> list[str]:
    path = folder / "text.txt"
    path.write_text(text, encoding="utf-8", newline="")
    return list(read_lines(path))


def test_lines_keep_their_ends_and_drop_a_byte_order_mark(tmp_path: Path) -> None:
    assert lines_of("\ufeffa\r\n\nb\x85c\ufeff", tmp_path) == ["a\r\n", "\n", "b\x85c\ufeff"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"ab\ncaf\xe9", "byte 0xe9 at position 6"),
        (b"\xef\xbb\xbfab\n\xff", "byte 0xff at position 6"),
        (b"\xef\xbb\xbfab\xff", "byte 0xff at position 5"),
        (None, "does not exist"),
    ],
)
def test_lines_that_cannot_be_read(content: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(read_lines(path))


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        ("lines", "a b\r\n\nc\n d ", ["a b", "c", " d "]),
        ("paragraphs", "\n\na\nb\n \n\t\r\nc\r\n", ["a\nb", "c"]),
        ("paragraphs", "a\r\nb\r\n\r\nc", ["a\r\nb", "c"]),
        ("jsonl", '{"text": "a\\nb", "id": 3}\n\n{"text": ""}\n{"text": "你"}', ["a\nb", "你"]),
    ],
)
def test_documents_of_a_text(kind: str, text: str, found: list[str], tmp_path: Path) -> None:
    assert list(documents(lines_of(text, tmp_path), kind)) == found


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{text: 3}", "line 2 of the data is no JSON"),
        ("[1]", "line 2 of the data is no JSON object"),
        ('{"body": "x"}', r"line 2 .* no text in a field 'text'; its fields are 'body'"),
        ('{"text": null}', "line 2 .* no text in a field 'text' but null"),
        ("[" * 100_000, "line 2 of the data is no JSON"),
        ('{"text": "\\ud83d"}', r"line 2 .*U\+D83D at position 0 is half of a surrogate pair"),
    ],
)
def test_a_line_that_is_no_document_is_named(line: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(documents(['{"text": "x"}\n', line + "\n"], "jsonl"))


def test_a_line_that_is_no_pair_is_named() -> None:
    with pytest.raises(DataError, match=r"line 1 .* no text in a field 'answer'; its fields are 'prompt'"):
        list(pairs(['{"prompt": "x"}\n']))


def test_an_unknown_kind_of_documents() -> None:
    with pytest.raises(ValueError, match="known are lines, paragraphs, jsonl"):
        documents([], "verses")


def test_pieces_are_cut_where_no_token_reaches_across() -> None:
    lines = ["one\n", "two\n", "\n", "  three\n", "four\n", "five"]
    found = list(pieces(lines, 4))
    assert "".join(found) == "".join(lines)
    assert found == ["one\n", "two\n\n  three\n", "four\n", "five"]
    assert max(map(len, pieces([" \n"] * 1000, 4))) == 64


# ids of documents


def test_one_token_between_documents_that_is_begin_and_end() -> None:
    parts = list(encode_documents(BYTES, ["ab", "c"]))
    assert np.concatenate(parts).tolist() == [E, 97, 98, E, 99, E]


def test_begin_and_end_of_their_own() -> None:
    tokenizer = CharTokenizer.of("abc", MASKING)
    cls, sep = tokenizer.specials["[CLS]"], tokenizer.specials["[SEP]"]
    assert np.concatenate(list(encode_documents(tokenizer, ["ab", "c"]))).tolist() == [cls, 0, 1, sep, cls, 2, sep]


def test_a_text_without_documents_has_nothing_around_it() -> None:
    assert np.concatenate(list(encode_documents(ByteTokenizer(), ["ab", "c"]))).tolist() == [97, 98, 99]


def test_a_control_token_s_spelling_in_a_document_ends_nothing() -> None:
    ids = np.concatenate(list(encode_documents(BYTES, [f"a{END_OF_TEXT}b"])))
    assert np.flatnonzero(ids == E).tolist() == [0, len(ids) - 1]


# documents in a batch


def test_a_begin_of_its_own_is_never_predicted() -> None:
    """7 8 are begin and end: the end of a document predicts nothing."""
    packed = isolated(Batch(np.array([[1, 8, 7, 2, 3, 8]]), np.array([[8, 7, 2, 3, 8, 7]])), begin=7, end=8)
    assert isinstance(packed, Packed)
    assert packed.labels.tolist() == [[8, -100, 2, 3, 8, -100]]
    assert packed.segments.tolist() == [[0, 0, 1, 1, 1, 1]]
    assert packed.positions.tolist() == [[0, 1, 0, 1, 2, 3]]


def test_every_label_lies_in_its_position_s_document() -> None:
    """Begins are numbered so that a token says which document it is of."""
    docs = ["a" * 5, "b", "c" * 9, "d" * 2, "e" * 4]
    ids = np.concatenate(list(encode_documents(BYTES, docs)))
    windows = Windows(ids, 6, BYTES.begin, BYTES.end)
    batch = windows.draw(200, np.random.default_rng(0))
    assert isinstance(batch, Packed)
    for row in zip(*batch):
        for number in set(row[3].tolist()):
            inside = row[3] == number
            letters = {*row[0][inside].tolist(), *row[1][inside].tolist()} - {E, -100}
            assert len(letters) <= 1
            assert row[2][inside].tolist() == list(range(inside.sum()))


def gpt(**options: Any) -> GPT:
    random.manual_seed(3)
    return GPT(GPTConfig(**{"vocab_size": 257, "block_size": 16, "layers": 2, "heads": 2, "width": 16, **options}))


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary"])
def test_a_packed_document_is_read_as_if_alone(positions: str) -> None:
    model = gpt(positions=positions)
    alone = [encode_pair(BYTES, "ab", "cde"), encode_pair(BYTES, "x", "yz"), encode_pair(BYTES, "", "q")]
    batch, taken = pack(iter(alone), 1, 16)
    assert taken == 3
    with no_grad():
        logits = model(batch.ids, batch.positions, batch.segments).numpy()[0]
        start = 0
        for ids, _ in alone:
            np.testing.assert_allclose(logits[start : start + len(ids)], model(ids[None]).numpy()[0], atol=2e-6)
            start += len(ids)
        plain = model(batch.ids).numpy()[0]
    assert np.abs(plain[len(alone[0][0]) :] - logits[len(alone[0][0]) :]).max() > 1e-4


def test_the_loss_of_packed_documents_is_the_sum_of_theirs() -> None:
    model = gpt()
    examples = [encode_pair(BYTES, "ab", "cde"), encode_pair(BYTES, "x", "yz")]
    packed, _ = pack(iter(examples), 1, 16)
    total, count = model.loss(packed)
    parts = [model.loss(Batch(ids[None], labels[None])) for ids, labels in examples]
    assert count == sum(n for _, n in parts) == 7
    assert total.item() == pytest.approx(sum(loss.item() for loss, _ in parts), rel=1e-5)


def test_packed_rows_are_shared_among_threads() -> None:
    examples = [encode_pair(BYTES, "ab", "cde"), encode_pair(BYTES, "x", "yz")] * 8
    packed, _ = pack(iter(examples), 4, 16)
    whole, shared = gpt(), gpt()
    total, count = whole.loss(packed)
    (total / count).backward()
    with Shards(2) as shards:
        loss, counted = shards.backward(shared, packed)
    assert counted == count
    assert loss == pytest.approx(total.item(), rel=1e-5)
    for one, other in zip(whole.parameters(), shared.parameters()):
        assert one.grad is not None
        assert other.grad is not None
        np.testing.assert_allclose(one.grad.numpy(), other.grad.numpy(), atol=1e-6)


def test_a_bigram_reads_packed_rows() -> None:
    packed, _ = pack(iter([encode_pair(BYTES, "ab", "c")]), 2, 8)
    total, count = Bigram(BigramConfig(vocab_size=257)).loss(packed)
    assert total.item() == pytest.approx(count * np.log(257))


def test_measuring_documents_counts_every_token_of_theirs_once() -> None:
    tokenizer = CharTokenizer.of("abc", MASKING)
    begin, end = tokenizer.begin, tokenizer.end
    ids = np.concatenate(list(encode_documents(tokenizer, ["abc", "c", "bb"])))
    batches = list(consecutive(ids, 4, 2, begin, end))
    labels = np.concatenate([batch.labels.ravel() for batch in batches])
    assert labels.tolist() == [i if i != begin else -100 for i in ids[1:].tolist()]


# pairs


@pytest.mark.parametrize(("answer_only", "counted"), [(True, "cd"), (False, "abcd")])
def test_what_of_a_pair_is_learned(answer_only: bool, counted: str) -> None:
    ids, labels = encode_pair(BYTES, "ab", "cd", answer_only)
    assert ids.tolist() == [E, *b"abcd"]
    assert labels[labels >= 0].tolist() == [*counted.encode(), E]
    assert labels[-3:].tolist() == [*b"cd", E]


def test_a_pair_needs_ends() -> None:
    with pytest.raises(ValueError, match="begin and an end"):
        encode_pair(ByteTokenizer(), "a", "b")


def test_padding_that_is_also_the_end_hides_no_end() -> None:
    """Counted is by place, not by id: the end token is learned although padding has an id as well."""
    batch, _ = pack(iter([encode_pair(BYTES, "", "ab")]), 1, 6)
    assert batch.labels.tolist() == [[97, 98, E, -100, -100, -100]]


EXAMPLES = [encode_pair(BYTES, "ab"[: n % 3], "xyzuv"[: n % 5] + chr(65 + n)) for n in range(23)]


def drawn(source: PairSource, order: Generator, batches: int, rows: int) -> list[bytes]:
    """The examples in the next batches, in their order."""
    found = []
    for _ in range(batches):
        batch = source.draw(rows, order)
        assert isinstance(batch, Packed)
        for ids, labels, _, segments in zip(*batch):
            for number in range(segments[-1] + 1):
                inside = segments == number
                if (labels[inside] != -100).any():
                    found.append(ids[inside].tobytes() + labels[inside].tobytes())
    return found


def test_each_pair_is_drawn_once_an_epoch_in_another_order() -> None:
    source = PairSource(EXAMPLES, 12, 0)
    texts = sorted(ids.tobytes() + labels.tobytes() for ids, labels in EXAMPLES)
    found = drawn(source, Generator(5), 40, 2)
    first, second = found[: len(texts)], found[len(texts) : 2 * len(texts)]
    assert sorted(first) == sorted(second) == texts
    assert first != second
    assert source.state()["epoch"] * len(texts) + source.state()["position"] == len(found)
    assert found != drawn(PairSource(EXAMPLES, 12, 0), Generator(6), 40, 2)


@pytest.mark.parametrize("stop", [1, 7, 20])
def test_pairs_go_on_where_they_stopped(stop: int) -> None:
    whole, order = PairSource(EXAMPLES, 12, 0), Generator(5)
    drawn(whole, order, stop, 2)
    other = PairSource(EXAMPLES, 12, 0)
    other.load_state(json.loads(json.dumps(whole.state())))
    assert drawn(other, Generator(5), 9, 2) == drawn(whole, order, 9, 2)


@pytest.mark.parametrize("state", [{"epoch": 0, "position": 23}, {"epoch": -1, "position": 0}])
def test_a_position_outside_the_data_is_refused(state: dict[str, int]) -> None:
    source = PairSource(EXAMPLES, 12, 0)
    with pytest.raises(ValueError, match="among 23 examples"):
        source.load_state(state)
    assert source.state() == {"epoch": 0, "position": 0}


def test_pairs_that_are_held_out_are_measured_once_and_never_drawn() -> None:
    source = PairSource(EXAMPLES, 12, 0.3)
    held = [ids.tobytes() + labels.tobytes() for ids, labels in EXAMPLES[16:]]
    batches = list(source.held_out(2))
    assert sum(int((batch.labels != -100).sum()) for batch in batches) == sum(
        int((labels != -100).sum()) for _, labels in EXAMPLES[16:]
    )
    assert not set(drawn(source, Generator(5), 40, 2)) & set(held)


def test_a_pair_longer_than_a_row_is_named_with_the_size_it_needs() -> None:
    with pytest.raises(DataError, match=r"pair 3 .* has 4 tokens, more than block_size 3; give a block_size of 5"):
        PairSource([encode_pair(BYTES, "", "a" * n) for n in (1, 2, 3, 4)], 3, 0)
    with pytest.raises(DataError, match=r"1 pairs with val_fraction 0\.5"):
        PairSource(EXAMPLES[:1], 12, 0.5)
    with pytest.raises(DataError, match="0 pairs"):
        PairSource([], 12, 0)


# texts as sources


def test_the_held_out_part_starts_with_a_document() -> None:
    ids = np.concatenate(list(encode_documents(BYTES, ["abcd", "efgh", "ijkl"])))
    source = TextSource(ids, 4, 0.5, BYTES.begin, BYTES.end)
    assert source.validation.tolist() == [E, *b"ijkl", E]
    assert source.first(3).tolist() == [E, *b"ab"]


def test_masked_rows() -> None:
    tokenizer = ByteTokenizer(MASKING)
    ids = tokenizer.encode("the quick brown fox " * 10)
    source = MaskedSource(ids, tokenizer, 12, 0.2)
    batch = source.draw(64, Generator(0))
    assert batch.ids.shape == batch.labels.shape == (64, 12)
    assert (batch.ids[:, 0] == tokenizer.begin).all()
    assert (batch.ids[:, -1] == tokenizer.end).all()
    chosen = batch.labels != -100
    assert 0.1 < chosen.mean() < 0.2
    assert 0.7 < (batch.ids[chosen] == tokenizer.specials["[MASK]"]).mean() < 0.9
    first, again = ([b.ids.tolist() for b in source.held_out(2)] for _ in range(2))
    assert first == again
    restored = [np.where(b.labels != -100, b.labels, b.ids)[:, 1:-1].ravel() for b in source.held_out(2)]
    assert np.concatenate(restored).tolist() == ids[160:].tolist()
    with pytest.raises(ValueError, match=r"tokenizer with \[MASK\]"):
        MaskedSource(ids, BYTES, 12, 0.2)
    with pytest.raises(ValueError, match="block_size is 2"):
        MaskedSource(ids, tokenizer, 2, 0.2)
