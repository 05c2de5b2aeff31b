"""A BERT from the command line: trained, resumed, measured, and filling in what is masked."""

from pathlib import Path
from typing import Any

import pytest

from tools import cli, evaluate, fill, generate, train

TEXT = "abcdefghij" * 270


def run(tool: Any, *arguments: Any) -> int:
    return cli.run(tool.__name__.rpartition(".")[2], tool.main, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    (folder / "text.txt").write_text(TEXT)
    options = ["--data", folder / "text.txt", "--preset", "tiny", "--out", folder / "run", "--threads", 1]
    assert run(train, "bert", *options, "--steps", 250, "--warmup", 20, "--batch-size", 16) == 0
    return folder / "run"


def test_it_fills_in(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(fill, folder, "abcdefghijab[MASK]defghija[MASK]cde") == 0
    text, first, second = capsys.readouterr().out.splitlines()
    assert text == "abcdefghijabcdefghijabcde"
    assert first.startswith("1: 'c' ")
    assert second.startswith("2: 'b' ")
    assert first.count("%") == 3


def test_it_is_measured(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(evaluate, folder) == 0
    shown = capsys.readouterr().out
    assert float(shown.rpartition("masked accuracy")[2].split()[0]) > 0.7  # of ten letters, all as frequent


def test_it_goes_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(train, "bert", "--resume", folder, "--steps", 252) == 0
    assert (
        capsys.readouterr().out.splitlines()[-1].startswith(f"try it: python -m tools.fill {folder} 'a[MASK]cdefghij")
    )


def test_mistakes_are_one_line(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(fill, folder, "abc") == 2
    assert "has no [MASK]" in capsys.readouterr().err
    assert run(fill, tmp_path, "[MASK]") == 2
    assert "no checkpoint" in capsys.readouterr().err
    assert run(fill, folder, "Ω[MASK]") == 2
    assert "U+03A9" in capsys.readouterr().err
    assert run(generate, folder, "--prompt", "a") == 2
    assert "let tools.fill run it" in capsys.readouterr().err
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    assert run(train, "bigram", "--data", text, "--preset", "tiny", "--steps", 1, "--out", tmp_path / "bigram") == 0
    capsys.readouterr()
    assert run(fill, tmp_path / "bigram", "[MASK]") == 2
    assert "the model 'bigram', which writes texts; let tools.generate run it" in capsys.readouterr().err
