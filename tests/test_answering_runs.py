"""The models that answer, from the command line: trained, gone on with, measured and asked, on what is built in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tools import evaluate, generate, read, train


@pytest.fixture
def tool(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a tool, which must succeed, and gives what it printed."""

    def run(main: Callable[[list[str]], int], *words: object) -> str:
        assert main([str(word) for word in words]) == 0
        return capsys.readouterr().out

    return run


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, count in (("PAIRS_MADE", 300), ("LINES_MADE", 200), ("MEASURED", 30)):
        monkeypatch.setattr(f"tools.corpus.{name}", count)


def test_dates_and_numbers(tool: Callable[..., str], tmp_path: Path) -> None:
    run = tmp_path / "dates"
    said = tool(train.main, "seq2seq", "--preset", "tiny", "--steps", 3, "--out", run)
    assert f"python -m tools.generate {run} --prompt" in said
    assert "4 steps" in tool(train.main, "seq2seq", "--resume", run, "--steps", 4)
    asked = ("--prompt", "the third of May nineteen ninety-four")
    greedy = tool(generate.main, run, *asked, "--beams", 1)
    assert greedy == tool(generate.main, run, *asked, "--temperature", 0)
    assert tool(generate.main, run, *asked, "--beams", 4).endswith("\n")
    assert "of 30 answers" in tool(evaluate.main, run)


def test_lines_of_text(tool: Callable[..., str], tmp_path: Path) -> None:
    run, image = tmp_path / "ocr", tmp_path / "line.png"
    said = tool(train.main, "ocr", "--preset", "tiny", "--steps", 3, "--out", run)
    assert f"python -m tools.read {run} --text" in said
    assert "4 steps" in tool(train.main, "ocr", "--resume", run, "--steps", 4)
    tool(read.main, run, "--text", "any words", "--save", image)
    assert image.stat().st_size > 100
    assert tool(read.main, run, image).count("\n") == 1
    assert "character errors" in tool(evaluate.main, run)
