"""Training on every kind of data and tokenizer as a user does it: what is learned, written, resumed and refused."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models import GPT, GPTConfig
from tinygrad_edu import random
from tinygrad_edu.data import (
    END_OF_TEXT,
    MASKING,
    ByteTokenizer,
    MaskedSource,
    PairSource,
    SubwordTokenizer,
    encode_pair,
    load_tokenizer,
    make_tokenizer,
    train_bpe,
    train_wordpiece,
)
from tinygrad_edu.parallel import Shards
from tinygrad_edu.training import CheckpointError, TrainConfig, Trainer, load_checkpoint, save_checkpoint
from tools import cli, corpus, generate, train

TEXT = "The quick brown fox jumps over the lazy dog. 你好 🙂\r\n" * 30
SMALL = ["--steps", "6", "--batch-size", "4", "--block-size", "8", "--layers", "1", "--heads", "2", "--width", "16"]
PAIRS = [{"prompt": f"{n}+{n}=", "answer": f"{2 * n}!"} for n in range(9)]


def here(tool: Any, *arguments: object) -> int:
    return cli.run(tool.__name__.rpartition(".")[2], tool.main, [str(a) for a in arguments])


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8", newline="")
    return path


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(pair) + "\n" for pair in PAIRS), encoding="utf-8")
    return path


# tokenizers


@pytest.mark.parametrize("model", ["gpt", "bigram"])
@pytest.mark.parametrize("tokenizer", ["char", "byte", "bpe", "wordpiece"])
def test_a_run_with_any_tokenizer_trains_writes_and_goes_on(
    model: str, tokenizer: str, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    options = [*SMALL[: None if model == "gpt" else 6], "--tokenizer", tokenizer, "--vocab-size", "300"]
    assert here(train, model, "--data", text, "--out", run, *options) == 0
    found = load_checkpoint(run)
    assert found.config["vocab_size"] == len(found.tokenizer)
    assert load_tokenizer(run / "tokenizer.json") == found.tokenizer == make_tokenizer(tokenizer, [TEXT], 300)
    assert here(train, model, "--resume", run, "--steps", "8") == 0
    capsys.readouterr()
    assert here(generate, run, "--prompt", "The quick", "--tokens", "30") == 0
    written = capsys.readouterr().out
    assert written.startswith("The quick")
    assert here(generate, run, "--prompt", "The quick", "--tokens", "0") == 0
    assert capsys.readouterr().out == "The quick\n"
    assert here(generate, run, "--tokens", "5") == 0


def test_a_tokenizer_from_a_file(text: Path, tmp_path: Path) -> None:
    """Also one that puts [CLS] and [SEP] around texts: one stretch of text has nothing around it."""
    path = tmp_path / "given.json"
    given = train_wordpiece([TEXT], 200, MASKING)
    given.save(path)
    assert here(train, "bigram", "--data", text, "--out", tmp_path / "run", "--tokenizer", path, *SMALL[:6]) == 0
    found = load_checkpoint(tmp_path / "run").tokenizer
    assert found.encode(TEXT).tolist() == given.encode(TEXT).tolist()
    assert (found.begin, found.end) == (None, None)
    options = ["--documents", "lines", "--tokenizer", path]
    assert here(train, "bigram", "--data", text, "--out", tmp_path / "other", *options, *SMALL[:6]) == 0
    found = load_checkpoint(tmp_path / "other").tokenizer
    assert (found.begin, found.end) == (given.begin, given.end)


def test_a_checkpoint_refuses_the_tokenizer_of_another(tmp_path: Path) -> None:
    """Two of one size, and one of another, also where the SHA-256 of the file is right."""
    ours = train_bpe(["the cat sat on the mat"] * 3, 262)
    same, longer = train_bpe(["a dog dug a dot dog"] * 3, 262), train_bpe(["the cat sat on the mat"] * 3, 270)
    assert len(ours) == len(same) == 262 < len(longer)
    weights = {"w": np.zeros(300)}
    save_checkpoint(tmp_path, model="gpt", config={"vocab_size": 262}, tokenizer=ours, weights=weights)
    for other, message in ((same, "another tokenizer"), (longer, "another tokenizer"), (ByteTokenizer(), "another")):
        other.save(tmp_path / "tokenizer.json")
        config = json.loads((tmp_path / "config.json").read_text())
        config["sha256"].pop("tokenizer.json", None)
        (tmp_path / "config.json").write_text(json.dumps(config))
        with pytest.raises(CheckpointError, match=message):
            load_checkpoint(tmp_path)
    save_checkpoint(tmp_path, model="gpt", config={"vocab_size": 262}, tokenizer=longer, weights=weights)
    with pytest.raises(CheckpointError, match=f"{len(longer)} entries, the model's vocab_size is 262"):
        load_checkpoint(tmp_path)


def test_ids_beyond_the_vocabulary_are_refused_before_the_first_step() -> None:
    model = GPT(GPTConfig(vocab_size=200, block_size=8, layers=1, heads=1, width=8))
    pairs = [encode_pair(ByteTokenizer([END_OF_TEXT]), "a", "b")] * 4
    with pytest.raises(ValueError, match="token id 256, but the model's vocab_size is 200"):
        Trainer(model, PairSource(pairs, 8, 0), TrainConfig(block_size=8))


# documents and pairs


@pytest.mark.parametrize("documents", ["lines", "paragraphs"])
def test_a_model_of_documents_begins_and_ends_them(
    documents: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["emma", "olivia", "ava", "mia"]
    (tmp_path / "names.txt").write_text(("\n" if documents == "lines" else "\n\n").join(names))
    options = ["--documents", documents, "--steps", "300", "--batch-size", "16", "--block-size", "8", "--lr", "0.3"]
    options += ["--data", str(tmp_path / "names.txt"), "--val-fraction", "0", "--out", str(tmp_path / "run")]
    assert here(train, "bigram", *options) == 0
    capsys.readouterr()
    for seed in range(5):
        assert here(generate, tmp_path / "run", "--seed", seed, "--tokens", "1000") == 0
        written = capsys.readouterr().out.removesuffix("\n")
        assert written[:1] in {"e", "o", "a", "m"}
        assert written.endswith("a")
        assert END_OF_TEXT not in written


def test_answers_are_learned_and_given(asked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--documents", "pairs", "--steps", "250", "--batch-size", "6", "--block-size", "24", "--lr", "0.01"]
    options += ["--data", str(asked), "--val-fraction", "0", "--out", str(tmp_path / "run"), "--threads", "1"]
    assert here(train, "gpt", *options, *SMALL[6:-1], "32") == 0
    capsys.readouterr()
    for pair in PAIRS:
        assert here(generate, tmp_path / "run", "--prompt", pair["prompt"], "--temperature", "0") == 0
        assert capsys.readouterr().out == f"{pair['prompt']}{pair['answer']}\n"


@pytest.mark.parametrize(("model", "kind"), [("gpt", "pairs"), ("gpt", "lines"), ("bert", "")])
def test_resuming_is_as_if_it_had_never_stopped(model: str, kind: str, asked: Path, tmp_path: Path) -> None:
    """In the middle of an epoch, with dropout, for each kind of data: weights and optimizer to the bit."""
    options = ["--data", asked, "--documents", kind, "--dropout", "0.1", "--threads", "1", "--tokenizer", "byte"]
    options += ["--batch-size", "2", "--block-size", "16", "--val-fraction", "0.2"]
    options += ["--layers", "1", "--heads", "2", "--width", "16", "--eval-every", "0"]
    assert here(train, model, "--out", tmp_path / "whole", *options, "--steps", "13") == 0
    # a run that stopped at step 7, on the way to 13
    plan = train.understand([model, "--out", str(tmp_path / "cut"), *map(str, options), "--steps", "13"])
    trainer, tokenizer = train.build(plan)
    with Shards(1) as shards:
        trainer.backward = shards.backward
        for _ in range(7):
            trainer.advance()
    (tmp_path / "cut").mkdir()
    trainer.save(tmp_path / "cut", model, tokenizer)
    random.manual_seed(99)
    assert here(train, model, "--resume", tmp_path / "cut") == 0
    for name in ("model.safetensors", "state.safetensors"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    one, other = (load_checkpoint(tmp_path / name, resume=True).state or {} for name in ("cut", "whole"))
    assert one["data"] == other["data"]
    assert (one["data"] != {}) == (kind == "pairs")


@pytest.mark.parametrize("answer_only", [True, False])
def test_what_of_pairs_is_counted(answer_only: bool, asked: Path) -> None:
    config = TrainConfig(data=str(asked), documents="pairs", answer_only=answer_only, val_fraction=0, block_size=32)
    source, tokenizer = corpus.load(config)
    labels = np.concatenate([batch.labels.ravel() for batch in source.held_out(4)])
    wanted = [pair["answer"] if answer_only else pair["prompt"] + pair["answer"] for pair in PAIRS]
    assert tokenizer.decode(labels[labels >= 0]) == "".join(text + END_OF_TEXT for text in wanted)


def test_a_control_token_spelled_in_the_data_is_text(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text(f"one {END_OF_TEXT} line\nanother\n" * 20)
    source, tokenizer = corpus.load(TrainConfig(data=str(path), documents="lines", val_fraction=0, block_size=8))
    ids = source.first(10_000)
    assert (ids == tokenizer.end).sum() == 41
    assert tokenizer.decode(ids[ids != tokenizer.end]) == f"one {END_OF_TEXT} lineanother" * 20


def test_documents_of_the_built_in_text() -> None:
    source, tokenizer = corpus.load(TrainConfig(documents="paragraphs"))
    assert (source.first(100_000) == tokenizer.begin).sum() > 100


def test_masked_rows_of_a_text(text: Path) -> None:
    config = TrainConfig(data=str(text), tokenizer="wordpiece", vocab_size=200, block_size=16)
    source, tokenizer = corpus.load(config, task="masked")
    assert isinstance(source, MaskedSource)
    assert isinstance(tokenizer, SubwordTokenizer)
    assert set(MASKING) <= set(tokenizer.specials)
    with pytest.raises(ValueError, match="not pairs or prepared tokens"):
        corpus.load(dataclasses.replace(config, documents="pairs"), task="masked")


@pytest.mark.parametrize("task", ["masked", "pairs", "images"])
def test_documents_are_refused_where_they_would_have_no_part(task: str) -> None:
    with pytest.raises(ValueError, match="leave documents"):
        corpus.load(TrainConfig(documents="lines"), task=task)


# what is refused

BAD: dict[str, tuple[list[str], str]] = {
    "unknown tokenizer": (["--tokenizer", "bqe"], "did you mean 'bpe'?; or give a tokenizer.json"),
    "tokenizer file missing": (["--tokenizer", "{tmp}/none.json"], "cannot be read"),
    "tokenizer file damaged": (["--tokenizer", "{text}"], "damaged or no tokenizer file"),
    "too few for all bytes": (["--tokenizer", "bpe", "--vocab-size", "255"], "give 256 or more"),
    "no vocabulary": (["--vocab-size", "0"], "vocab_size is 0"),
    "unknown documents": (["--documents", "verses"], "documents is verses; it must be one of lines, paragraphs"),
    "documents and lines": (["--documents", "lines", "--lines"], "does not go together with lines"),
    "no JSON": (["--documents", "jsonl"], "line 1 of the data is no JSON"),
    "no pairs": (["--documents", "pairs"], "line 1 of the data is no JSON"),
    "other fields": (["--data", "{asked}", "--documents", "jsonl"], "no text in a field 'text'"),
    "pairs too long": (["--data", "{asked}", "--documents", "pairs", "--block-size", "5"], "give a block_size of"),
    "no documents": (["--data", "{tmp}/blank", "--documents", "lines"], "holds no document of kind lines"),
    "an empty list of pairs": (["--data", "{tmp}/blank", "--documents", "pairs"], "holds no pair"),
}


@pytest.mark.parametrize("case", BAD)
def test_train_refuses(case: str, text: Path, asked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "blank").write_text("\n\n\n")
    words, message = BAD[case]
    places = {"tmp": tmp_path, "text": text, "asked": asked}
    arguments = ["--data", str(text), *(word.format(**places) for word in words), "--out", str(tmp_path / "run")]
    assert here(train, "gpt", *arguments) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert (shown.err.count("\n"), shown.out) == (1, "")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "change", [["--tokenizer", "byte"], ["--vocab-size", "9"], ["--documents", "lines"], ["--answer-only", "no"]]
)
def test_a_resumed_run_keeps_its_data(
    change: list[str], text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here(train, "bigram", "--data", text, "--out", tmp_path / "run", *SMALL[:6]) == 0
    capsys.readouterr()
    assert here(train, "bigram", "--resume", tmp_path / "run", *change) == 2
    assert "cannot change when a run is resumed" in capsys.readouterr().err


def test_without_the_library_a_run_says_what_to_install(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert here(train, "gpt", "--data", text, "--tokenizer", "bpe", "--out", tmp_path / "run") == 2
    assert "pip install 'tinygrad-edu[text]'" in capsys.readouterr().err
