"""The programs on the stand-in, as they are typed with --device cuda: train, go on on another GPU, generate."""

from pathlib import Path

import pytest

from tests.strict.ran import note
from tools import generate, train


@pytest.fixture
def text(tmp_path: Path) -> str:
    file = tmp_path / "text.txt"
    file.write_text("a rose is a rose is a rose; is a rose a rose? " * 20, encoding="utf-8")
    return str(file)


def test_train_resume_generate(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(tmp_path / "run")
    small = ["--layers", "1", "--heads", "2", "--width", "16", "--block-size", "8", "--batch-size", "4"]
    begin = ["gpt", "--data", text, "--out", run, "--steps", "4", "--device", "cuda", *small]
    assert train.main(begin) == 0
    assert train.main(["gpt", "--resume", run, "--steps", "6", "--device", "cuda:1"]) == 0
    assert "done: 6 steps" in capsys.readouterr().out
    assert generate.main([run, "--prompt", "a rose", "--tokens", "5", "--device", "cuda"]) == 0
    assert capsys.readouterr().out.startswith("a rose")
    note("tools", "tools.train", "tools.generate")
