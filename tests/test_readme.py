"""What the README says is so: its code runs, its picture is what the code draws, its commands and folders exist."""

import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tinygrad_edu.graph import engine
from tools import cli, draw

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PICTURES = ROOT / "tools" / "pictures"
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, flags=re.DOTALL)
CODE = next(text for language, text in BLOCKS if language == "python")


def test_the_first_screen_shows_both_commands_the_code_and_the_picture() -> None:
    first = README[: README.index("\n## ")]
    assert "\n```\nmake demo\nmake test\n```\n" in first
    assert CODE in first
    assert 'src="tools/pictures/bigram.svg"' in first


def test_the_code_has_ten_lines() -> None:
    assert len([line for line in CODE.splitlines() if line]) == 10


@pytest.fixture
def pinned() -> None:
    if Path(engine.find_dot()).stem != "graphviz-pure":
        pytest.skip("another dot than the pinned one lays it out another way")


def same_picture(drawn: Path) -> None:
    """After a wanted change of a drawing run this with UPDATE_GOLDEN=1 in the environment and look at the picture."""
    kept = PICTURES / drawn.name
    if os.environ.get("UPDATE_GOLDEN"):
        shutil.copy(drawn, kept)
    assert drawn.read_bytes() == kept.read_bytes()
    assert f'<img src="{kept.relative_to(ROOT).as_posix()}" width="' in README


@pytest.mark.usefixtures("pinned")
@pytest.mark.parametrize("name", ["bigram", "head"])
def test_the_code_draws_the_picture(name: str, tmp_path: Path) -> None:
    (code,) = [text for language, text in BLOCKS if language == "python" and f'"{name}.svg")' in text]
    (tmp_path / "drawing.py").write_text(code, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "drawing.py"], cwd=tmp_path, check=True, env=environment)
    same_picture(tmp_path / f"{name}.svg")


@pytest.mark.usefixtures("pinned")
@pytest.mark.parametrize("name", ["gpt", "cross", "mirror"])
def test_the_command_draws_the_picture(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = README.partition("\n## Pictures\n")[2].partition("\n## ")[0]
    (arguments,) = re.findall(rf"(?m)^python -m tools\.draw (.*--out {name}\.svg)", section)
    monkeypatch.chdir(ROOT)
    options = [*shlex.split(arguments)[:-1], str(tmp_path / f"{name}.svg")]
    assert cli.run("draw", draw.main, options) == 0
    same_picture(tmp_path / f"{name}.svg")


def test_every_picture_is_drawn_by_one_of_these() -> None:
    assert {path.stem for path in PICTURES.iterdir()} == {"bigram", "head", "gpt", "cross", "mirror"}


def test_the_op_is_quoted_as_it_is() -> None:
    op = [text for language, text in BLOCKS if language == "python"][1]
    assert any(op in path.read_text(encoding="utf-8") for path in (ROOT / "tinygrad_edu" / "ops").glob("*.py"))


def test_the_op_of_ones_own_runs() -> None:
    code = [text for language, text in BLOCKS if language == "python"][2]
    ran = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert ran.stdout == "(tensor([2., 4.], dtype=float64),)\n"


def test_the_published_model_goes_there_and_back(tmp_path: Path) -> None:
    code = next(text for language, text in BLOCKS if language == "python" and "save_pretrained" in text)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True, env=env
    )
    assert ran.stdout == "808192 parameters, 1631232 operations for a token\n"


@pytest.mark.parametrize("name", sorted(set(re.findall(r"(?m)(?:^|`)make ([a-z]+)\b", README))))
def test_target_exists(name: str) -> None:
    assert re.search(rf"^{name}:", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"\btools\.([a-z]+)\b", README))))
def test_tool_exists(name: str) -> None:
    assert (ROOT / "tools" / f"{name}.py").is_file()


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:tools|models|tinygrad_edu|\.ci)/[\w./]*)`", README))))
def test_path_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_the_commands_on_texts_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One after another, each with a few steps of a small model, on files as the README describes them."""
    section = README.partition("### Texts and tokenizers\n")[2]
    commands = [
        line.partition("#")[0] for line in re.findall(r"```\n(.*?)```", section, flags=re.DOTALL)[0].splitlines()
    ]
    assert len(commands) == 6
    monkeypatch.chdir(tmp_path)
    sentence = "The quick brown fox jumps over the lazy dog."
    for name, content in {
        "names.txt": "emma\nolivia\nava\n" * 40,
        "sums.jsonl": '{"prompt": "2+2=", "answer": "4"}\n' * 20,
        "big.txt": f"{sentence}\n\n" * 40,
        "more.txt": sentence,
    }.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    for command in commands:
        tool, *arguments = shlex.split(command.removeprefix("python -m tools."))
        if tool == "train":
            arguments += ["--preset", "tiny", "--steps", "2", "--block-size", "16"]
        assert cli.run(tool, importlib.import_module(f"tools.{tool}").main, arguments) == 0, capsys.readouterr().err
    assert "bits per character" in capsys.readouterr().out


def test_the_commands_on_training_runs_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tensorboardX")
    section = README.partition("### Training runs\n")[2]
    commands = re.findall(r"```\n(.*?)```", section, flags=re.DOTALL)[0].splitlines()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fox.txt").write_text("The quick brown fox jumps over the lazy dog.\n" * 30, encoding="utf-8")
    for number, command in enumerate(commands):
        tool, *arguments = shlex.split(command.partition("#")[0].removeprefix("python -m tools."))
        arguments += ["--steps", str(number + 2), "--data", "fox.txt"]
        if number != 1:  # a run that goes on keeps its preset
            arguments += ["--preset", "tiny"]
        assert cli.run(tool, importlib.import_module(f"tools.{tool}").main, arguments) == 0, capsys.readouterr().err
    assert {path.name for path in (tmp_path / "runs" / "tall").iterdir()} >= {"best", "tensorboard", "metrics.jsonl"}
    keys = json.loads((tmp_path / "runs" / "tall" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert all(f"`{key}`" in section for key in keys)
