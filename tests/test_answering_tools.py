"""Models that answer and read, from the command line: what tools.generate and tools.read do, and what they refuse."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tinygrad_edu.data import DataError
from tools import cli, fill, generate, read, train


def run(tool: Any, *arguments: Any) -> int:
    return cli.run(tool.__name__.rpartition(".")[2], tool.main, [str(a) for a in arguments])


def trained(model: str, folder: Path, *options: Any) -> Path:
    assert run(train, model, "--preset", "tiny", "--threads", 1, "--out", folder / model, *options) == 0
    return folder / model


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    (folder / "pairs.jsonl").write_text('{"prompt": "abc", "answer": "xyyy"}\n' * 20)
    return trained(
        "seq2seq",
        folder,
        "--data",
        folder / "pairs.jsonl",
        "--val-fraction",
        0,
        "--steps",
        60,
        "--warmup",
        5,
        "--lr",
        0.01,
    )


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained("ocr", tmp_path_factory.mktemp("images"), "--steps", 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--prompt", "a" * 999], "999 tokens of the source in a row"),
        (["--prompt", "a" * 999, "--beams", 2], "999 tokens of the source in a row"),
        ([], "the prompt is empty"),
        (["--prompt", "a", "--beams", -1], "must be 1 or more"),
        (["--prompt", "a", "--repetition-penalty", 0], "repetition_penalty is 0"),
    ],
)
def test_an_answer_that_cannot_be_given(
    options: list[Any], said: str, pairs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(generate, pairs, *options) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_every_option_counts_for_an_answer(pairs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def answer(*options: Any) -> str:
        assert run(generate, pairs, "--prompt", "abc", *options) == 0
        return capsys.readouterr().out.removesuffix("\n")

    for way in (["--temperature", 0], ["--beams", 2]):
        assert answer(*way) == "xyyy"
        assert answer(*way, "--stop", "yy") == "x"
    assert answer("--repetition-penalty", 1e9) != answer()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--text", "hi", "--beams", 0], "beams is 0"),
        (["--text", "hi", "--seed", -1], "seed -1"),
        (["--text", "long " * 30], "150 characters does not fit"),
        ([], "give an image file"),
    ],
)
def test_what_cannot_be_read(options: list[Any], said: str, reader: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(read, reader, *options) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_a_transparent_ground_is_paper(tmp_path: Path) -> None:
    ink = np.zeros((16, 40), np.uint8)
    ink[4:12, 5:9] = 255
    Image.fromarray(255 - ink).save(tmp_path / "paper.png")
    Image.fromarray(np.stack([0 * ink, 0 * ink, 0 * ink, ink], axis=-1)).save(tmp_path / "glass.png")
    paper, glass = (read.opened(str(tmp_path / name), 16, 128) for name in ("paper.png", "glass.png"))
    assert paper.max() == 1
    np.testing.assert_array_equal(glass, paper)


def test_an_image_too_large_to_open_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("L", (64, 16)).save(tmp_path / "large.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(DataError, match=r"large\.png cannot be read as an image"):
        read.opened(str(tmp_path / "large.png"), 16, 128)


def test_each_tool_names_the_one_for_the_model(pairs: Path, reader: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for tool, folder, words, named in (
        (fill, reader, ["[MASK]"], "read"),
        (fill, pairs, ["[MASK]"], "generate"),
        (generate, reader, [], "read"),
        (read, pairs, ["--text", "x"], "generate"),
    ):
        assert run(tool, folder, *words) == 2
        assert f"let tools.{named} run it" in capsys.readouterr().err
