"""The programs train and generate as a user runs them: what they write, what they refuse, how they stop and go on."""

import dataclasses
import io
import json
import math
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file
from simple_parsing.help_formatter import TEMPORARY_TOKEN

from models import MODELS
from tinygrad_edu.training import Metrics, Report, Trainer, load_checkpoint, read_metrics, save_checkpoint
from tools import cli, draw, embed, generate, prepare, read, train
from tools.lock import locked
from tools.progress import Display
from tools.record import Record

ROOT = Path(__file__).resolve().parent.parent
TEXT = "The quick brown fox jumps over the lazy dog.\n" * 30
SMALL = ["--steps", "6", "--batch-size", "4", "--block-size", "8", "--layers", "1", "--heads", "2", "--width", "16"]


def program(tool: str, *arguments: object, check: bool = False) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"tools.{tool}", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=check, text=True, encoding="utf-8", timeout=120)


def here(tool: Any, *arguments: object) -> int:
    """Run a tool in this process: faster, and monkeypatches reach it."""
    return cli.run(tool.__name__.rpartition(".")[2], tool.main, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "fox.txt"
    path.write_text(TEXT, encoding="utf-8", newline="")
    return path


@pytest.fixture(scope="module")
def trained(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of a GPT; tests copy what they change."""
    folder = tmp_path_factory.mktemp("trained") / "gpt"
    program("train", "gpt", "--data", text, "--out", folder, *SMALL, "--dropout", "0.1", "--tied", "False", check=True)
    return folder


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "copy"
    folder.mkdir()
    for path in trained.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


# a run


def test_a_run_leaves_its_files(trained: Path) -> None:
    assert sorted(os.listdir(trained)) == [
        "config.json",
        "loss.png",
        "loss.svg",
        "metrics.jsonl",
        "model.safetensors",
        "state.json",
        "state.safetensors",
        "tokenizer.json",
    ]
    metrics = read_metrics(trained / "metrics.jsonl")
    assert [m.step for m in metrics] == [6]
    assert metrics[-1].tokens == 6 * 4 * 8
    assert metrics[-1].val_loss is not None
    assert load_checkpoint(trained).config["tied"] is False
    assert "head.weight" in load_file(trained / "model.safetensors")


def test_the_last_lines_say_where_things_are_and_what_to_do(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    found = program("train", "bigram", "--preset", "tiny", "--steps", 3, "--data", text, "--out", out)
    assert found.returncode == 0
    assert found.stderr == ""
    assert f"files in {out}" in found.stdout
    last = found.stdout.splitlines()[-1]
    assert last == f"sample: python -m tools.generate {out} --prompt The"
    again = program("generate", out, "--prompt", "The", "--tokens", 5)
    assert again.returncode == 0
    assert again.stdout.startswith("The")
    assert len(again.stdout) == len("The") + 5 + 1


def test_plain_lines_where_there_is_no_terminal(text: Path, tmp_path: Path) -> None:
    found = program("train", "bigram", "--steps", 40, "--data", text, "--out", tmp_path / "run")
    lines = [line for line in found.stdout.splitlines() if line.startswith("step ")]
    assert len(lines) == 20
    assert all("tokens/s" in line and "left" in line for line in lines)
    assert "validation" in lines[-1]
    assert "\x1b" not in found.stdout


def test_equal_runs_write_equal_files(text: Path, tmp_path: Path) -> None:
    for name in "ab":
        assert here(train, "bigram", "--steps", 3, "--data", text, "--out", tmp_path / name, "--log-every", 1) == 0
    for name in ("model.safetensors", "tokenizer.json", "state.safetensors", "loss.png", "loss.svg"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_without_out_each_run_gets_a_folder_of_its_own(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert here(train, "bigram", "--steps", 1, "--data", text) == 0
    assert sorted(os.listdir("runs")) == ["bigram", "bigram-2"]


def test_a_run_is_replaced_only_on_request(copied: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path.name: path.read_bytes() for path in copied.iterdir()}
    options = ["bigram", "--steps", 1, "--data", text, "--out", copied]
    assert here(train, *options) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert before == {path.name: path.read_bytes() for path in copied.iterdir()}
    assert here(train, *options, "--overwrite") == 0
    assert load_checkpoint(copied).model == "bigram"


def test_the_best_weights_are_kept_on_request(text: Path, tmp_path: Path) -> None:
    options = ["--steps", 4, "--eval-every", 1, "--data", text, "--out", tmp_path / "run", "--keep-best"]
    assert here(train, "bigram", *options) == 0
    assert load_checkpoint(tmp_path / "run" / "best").model == "bigram"
    assert here(generate, tmp_path / "run" / "best", "--tokens", 1) == 0


# options


@pytest.mark.parametrize(
    ("words", "tied"),
    [
        ("--tied False", False),
        ("--tied 0", False),
        ("--tied no", False),
        ("--no-tied", False),
        ("--tied", True),
        ("--tied True", True),
        ("--tied=no", False),
        ("", True),
    ],
)
def test_booleans(words: str, tied: bool) -> None:
    assert train.understand(["gpt", *words.split()]).model["tied"] is tied


def test_a_preset_gives_defaults_and_options_win() -> None:
    plan = train.understand(["gpt", "--preset", "nano-cpu", "--lr", "0.5", "--layers=2"])
    assert dataclasses.asdict(plan.training) | plan.model == dataclasses.asdict(plan.training) | plan.model | {
        "lr": 0.5,
        "steps": 2000,
        "batch_size": 12,
        "block_size": 64,
        "min_lr": 1e-4,
        "warmup": 100,
        "betas": (0.9, 0.99),
        "weight_decay": 0.1,
        "clip": 1.0,
        "val_fraction": 0.1,
        "layers": 2,
        "heads": 4,
        "width": 128,
        "dropout": 0.0,
        "bias": False,
        "tied": True,
    }


@pytest.mark.parametrize("model", MODELS)
def test_help_explains_every_option(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        train.main([model, "--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert f"(default: {train.PRESETS[model][next(iter(train.PRESETS[model]))]['steps']})" in shown
    options = [line for line in shown.splitlines() if line.startswith("  --")]
    assert len(options) > 20
    for name in ("--val-fraction", "--resume", "--device", "--preset"):
        assert name in shown
    assert ("--heads" in shown) == (model != "bigram")
    assert [line.split()[0] for line in options].count("--vocab-size") == 1  # the tokenizer's; it decides the model's
    words = " ".join(shown.split())
    for option in train._parser(model, {})._actions:
        if option.option_strings and option.dest != "help":
            said = " ".join((option.help or "").replace(TEMPORARY_TOKEN, "").split())
            assert said, option.option_strings
            assert said[:40] in words


@pytest.mark.parametrize(
    ("tool", "usage"), [(prepare, "FILE [FILE ...]"), (embed, "[SENTENCE ...]"), (read, "DIR [IMAGE ...]")]
)
def test_help_says_what_may_be_given_several_times(tool: Any, usage: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        tool.main(["--help"])
    shown = capsys.readouterr().out
    assert f"{usage}\n\n" in shown
    assert "(default: None)" not in shown
    assert "(default: )" not in shown


# bad input: one line on stderr, exit code 2, nothing written

BAD_TRAINING: dict[str, tuple[list[str], str]] = {
    "missing file": (["gpt", "--data", "{tmp}/none.txt"], "does not exist"),
    "folder as file": (["gpt", "--data", "{tmp}"], "is a folder"),
    "below a file": (["gpt", "--data", "{text}/x"], "cannot be read"),
    "empty file": (["gpt", "--data", "{tmp}/empty.txt"], "is empty"),
    "not UTF-8": (["gpt", "--data", "{tmp}/latin.txt"], "byte 0xe9 at position 3"),
    "not UTF-8 but 16": (["gpt", "--data", "{tmp}/utf16.txt"], "iconv -f UTF-16"),
    "too short": (["gpt", "--data", "{tmp}/short.txt", "--val-fraction", "0"], "10 tokens, fewer than one window"),
    "too short for two parts": (["gpt", "--data", "{tmp}/short.txt"], "10 tokens"),
    "no model": ([], "name the model first"),
    "option before model": (["--steps", "3", "gpt"], "name the model first"),
    "unknown model": (["gtp"], "did you mean 'gpt'?"),
    "unknown option": (["gpt", "--stpes", "3"], "did you mean '--steps'?"),
    "option of another model": (["bigram", "--heads", "2"], "unknown option '--heads'"),
    "stray word": (["gpt", "tiny"], "unexpected argument 'tiny'"),
    "unknown preset": (["gpt", "--preset", "nano"], "did you mean 'nano-cpu'?"),
    "no integer": (["gpt", "--steps", "many"], "invalid int value: 'many'"),
    "no value": (["gpt", "--steps"], "expected one argument"),
    "out of range": (["gpt", "--steps", "0"], "steps is 0"),
    "negative": (["gpt", "--seed", "-1"], "seed is -1"),
    "no boolean": (["gpt", "--tied", "maybe"], "received 'maybe'"),
    "impossible model": (["gpt", "--width", "10", "--heads", "4"], "width 10"),
    "dropout": (["gpt", "--dropout", "1.5"], "dropout"),
    "fraction": (["gpt", "--val-fraction", "1"], "val_fraction is 1.0"),
    "out is a file": (["bigram", "--data", "{text}", "--out", "{text}"], "cannot be written"),
    "out below a file": (["bigram", "--data", "{text}", "--out", "{text}/run"], "cannot be written"),
    "no such device": (["gpt", "--device", "tpu"], "device 'tpu' is unknown"),
    "resume from nothing": (["gpt", "--resume", "{tmp}/none"], "does not exist"),
    "resume from a folder": (["gpt", "--resume", "{tmp}"], "no checkpoint"),
    "resume another model": (["bigram", "--resume", "{copied}"], "holds a 'gpt'"),
    "resume another text": (["gpt", "--resume", "{copied}", "--data", "{tmp}/other.txt"], "text differs"),
    "resume with foreign characters": (["gpt", "--resume", "{copied}", "--data", "{tmp}/ö.txt"], "U+00F6"),
    "block size before memory": (["gpt", "--data", "{text}", "--block-size", "999999999"], "fewer than one window"),
    "batch beyond memory": (["gpt", "--data", "{text}", "--batch-size", "1000000000"], "batch_size 1000000000"),
    "features beyond memory": (["gpt", "--data", "{text}", "--batch-size", "10000000"], "GiB or more"),
    "width beyond memory": (["gpt", "--data", "{text}", "--width", "100000000"], "width 100000000"),
    "layers beyond memory": (["gpt", "--data", "{text}", "--layers", "100000000"], "layers 100000000"),
    "too many threads": (["gpt", "--data", "{text}", "--threads", "100000"], "threads is 100000"),
    "nothing like it": (["gpt", "--foo"], "unknown option '--foo' ("),
    "resume to a step behind": (["gpt", "--resume", "{copied}", "--steps", "2"], "already at step 6"),
    "resume another seed": (["gpt", "--resume", "{copied}", "--seed", "3"], "seed cannot change"),
    "resume with a preset": (["gpt", "--resume", "{copied}", "--preset", "demo"], "preset cannot change"),
    "resume another shape": (["gpt", "--resume", "{copied}", "--width", "32"], "width cannot change"),
}


# one case of each kind runs as a program, the others in this process
AS_PROGRAMS = {
    *("missing file", "empty file", "not UTF-8", "too short", "no model", "unknown model", "unknown option"),
    *("out of range", "no boolean", "out is a file", "out below a file", "resume from nothing", "unknown character"),
}


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(found: subprocess.CompletedProcess[str], tool: str, message: str) -> None:
    assert found.returncode == 2, found.stderr
    assert found.stderr.count("\n") == 1, found.stderr
    assert found.stderr.startswith(f"{tool}: ")
    assert message in found.stderr
    assert found.stdout == ""


@pytest.fixture
def attempt(capsys: pytest.CaptureFixture[str]) -> Callable[..., None]:
    """Run a tool as a program (a process costs a third of a second) or here; it must refuse with `message`."""

    def run(tool: Any, arguments: list[str], message: str, process: bool) -> None:
        name = tool.__name__.rpartition(".")[2]
        if process:
            refused(program(name, *arguments), name, message)
        else:
            code = here(tool, *arguments)
            shown = capsys.readouterr()
            refused(subprocess.CompletedProcess(arguments, code, shown.out, shown.err), name, message)

    return run


@pytest.mark.parametrize("case", BAD_TRAINING)
def test_train_refuses(case: str, text: Path, copied: Path, tmp_path: Path, attempt: Callable[..., None]) -> None:
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "latin.txt").write_bytes("café".encode("latin-1"))
    (tmp_path / "utf16.txt").write_bytes("café".encode("utf-16"))
    (tmp_path / "short.txt").write_text("ten tokens")
    (tmp_path / "other.txt").write_text(TEXT[::-1])
    (tmp_path / "ö.txt").write_text(TEXT + "ö", encoding="utf-8")
    before = files(tmp_path)
    words, message = BAD_TRAINING[case]
    places = {"tmp": tmp_path, "text": text, "copied": copied}
    arguments = [word.format(**places) for word in words]
    if "--out" not in arguments and "--resume" not in arguments and arguments[:1] in (["gpt"], ["bigram"]):
        arguments += ["--out", str(tmp_path / "run")]
    attempt(train, arguments, message, process=case in AS_PROGRAMS)
    assert files(tmp_path) == before
    assert not (tmp_path / "run").exists()


def test_cuda_without_a_gpu_is_refused(
    trained: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = tmp_path / "cupy.py"  # a CuPy that cannot be imported, wherever these tests run
    hidden.write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    refused(program("train", "gpt", "--data", text, "--device", "cuda"), "train", "CuPy")
    refused(program("generate", trained, "--device", "cuda"), "generate", "CuPy")


BAD_GENERATING: dict[str, tuple[list[str], str]] = {
    "unknown character": (["--prompt", "hellö"], "U+00F6"),
    "temperature": (["--temperature", "-1"], "temperature is -1"),
    "top-k": (["--top-k", "-1"], "top_k is -1"),
    "top-k no integer": (["--top-k", "1.5"], "invalid int value: '1.5'"),
    "top-p": (["--top-p", "0"], "top_p is 0"),
    "tokens": (["--tokens", "-5"], "tokens is -5"),
    "seed": (["--seed", "-5"], "seed"),
    "unknown option": (["--promt", "x"], "did you mean '--prompt'?"),
    "device": (["--device", "gpu"], "device 'gpu' is unknown"),
}


@pytest.mark.parametrize("case", BAD_GENERATING)
def test_generate_refuses(case: str, trained: Path, attempt: Callable[..., None]) -> None:
    words, message = BAD_GENERATING[case]
    attempt(generate, [str(trained), *words], message, process=case in AS_PROGRAMS)


def truncated(folder: Path) -> None:
    raw = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(raw[: len(raw) // 2])


def of_another_model(folder: Path) -> None:
    head = json.loads((folder / "config.json").read_text())
    head["config"]["width"] = 32
    (folder / "config.json").write_text(json.dumps(head))


def of_an_unknown_model(folder: Path) -> None:
    head = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**head, "model": "llama"}))


def not_a_checkpoint(folder: Path) -> None:
    (folder / "config.json").write_text('{"a": 1}')


def another_vocabulary(folder: Path) -> None:
    content = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(content.replace("abc", "abC"))


def newer(folder: Path) -> None:
    head = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**head, "format": 2}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncated, "model.safetensors is damaged"),
        (of_another_model, "does not fit"),
        (of_an_unknown_model, "'llama'"),
        (not_a_checkpoint, "config.json is no checkpoint's"),
        (another_vocabulary, "tokenizer.json"),
        (newer, "format 2"),
    ],
)
def test_a_bad_checkpoint_is_refused(
    damage: Callable[[Path], None], message: str, copied: Path, attempt: Callable[..., None]
) -> None:
    damage(copied)
    before = files(copied)
    attempt(generate, [str(copied), "--prompt", "The"], message, process=True)
    attempt(train, ["gpt", "--resume", str(copied), "--steps", "9"], message, process=False)
    assert files(copied) == before


def test_weights_alone_generate_but_cannot_be_resumed(copied: Path) -> None:
    found = load_checkpoint(copied)
    save_checkpoint(copied, model="gpt", config=found.config, tokenizer=found.tokenizer, weights=found.weights)
    assert here(generate, copied, "--prompt", "The", "--tokens", 3) == 0
    refused(program("train", "gpt", "--resume", copied), "train", "weights only")


def test_a_folder_without_checkpoint_is_refused(tmp_path: Path, attempt: Callable[..., None]) -> None:
    attempt(generate, [str(tmp_path)], "no checkpoint", process=True)
    attempt(generate, [str(tmp_path / "none")], "does not exist", process=False)
    attempt(generate, [], "required: DIR", process=False)


def test_a_full_disk_is_one_line_and_leaves_the_last_checkpoint(
    copied: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (copied / "model.safetensors").read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert here(train, "gpt", "--resume", copied, "--steps", 8) == 2
    assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.undo()
    assert (copied / "model.safetensors").read_bytes() == before
    assert load_checkpoint(copied, resume=True).state is not None


def test_divergence_is_one_line_and_leaves_the_last_checkpoint(copied: Path) -> None:
    found = program("train", "gpt", "--resume", copied, "--steps", 50, "--lr", "1e30", "--min-lr", "1e30")
    assert found.returncode == 1
    assert "try a lower lr" in found.stderr
    assert found.stderr.count("\n") == 1, found.stderr
    weights = load_checkpoint(copied, resume=True).weights
    assert all(np.isfinite(weight).all() for weight in weights.values())


@pytest.mark.parametrize("line", [b"", b"{}", b"garbage", b"\xff"])
def test_a_damaged_record_is_refused_when_resumed(copied: Path, line: bytes, attempt: Callable[..., None]) -> None:
    (copied / "metrics.jsonl").write_bytes(line + b"\n" + (copied / "metrics.jsonl").read_bytes())
    before = files(copied)
    attempt(train, ["gpt", "--resume", str(copied), "--steps", "9"], "metrics.jsonl, line 1", process=False)
    assert files(copied) == before


def test_too_little_memory_is_one_line_and_leaves_the_old_run(
    copied: Path, text: Path, monkeypatch: pytest.MonkeyPatch, attempt: Callable[..., None]
) -> None:
    def none(*_: Any) -> Any:
        raise MemoryError

    before = files(copied)
    arguments = ["bigram", "--data", str(text), "--out", str(copied), "--overwrite"]
    monkeypatch.setattr(Trainer, "__init__", none)
    attempt(train, arguments, "not enough memory for batch_size 64, block_size 64", process=False)
    monkeypatch.undo()
    monkeypatch.setattr(Trainer, "advance", none)
    assert here(train, *arguments) == 2
    assert files(copied) == before
    assert here(train, *arguments[:3], "--out", copied / "new") == 2
    assert not (copied / "new").exists()


def test_overwriting_leaves_no_mix_of_two_runs(
    copied: Path, text: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(copied, copied / "best")
    (copied / "mine.txt").write_text("kept")

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt  # before the first save

    monkeypatch.setattr(train.Display, "show", killed)
    assert here(train, "bigram", "--data", text, "--out", copied, "--overwrite", "--steps", 3) == 130
    assert sorted(os.listdir(copied)) == ["metrics.jsonl", "mine.txt"]
    assert (copied / "metrics.jsonl").read_bytes() == b""
    monkeypatch.undo()
    assert here(train, "bigram", "--data", text, "--out", copied, "--steps", 3) == 0


def test_two_runs_do_not_share_a_folder(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("fcntl")
    with locked(copied):
        assert here(train, "gpt", "--resume", copied, "--steps", 9) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"in use by another run (process {os.getpid()})" in shown.err
    assert here(train, "gpt", "--resume", copied, "--steps", 9) == 0
    assert not (copied / ".lock").exists()


# a folder that came from elsewhere


@pytest.mark.skipif(sys.platform == "win32", reason="links of POSIX")
@pytest.mark.parametrize("kind", ["symlink_to", "hardlink_to"])
def test_a_run_writes_through_no_link_in_its_folder(kind: str, copied: Path, tmp_path: Path) -> None:
    """Every name that it writes is a link to a file outside, which stays as it is; so do the permissions of others."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (copied / "config.json").chmod(0o600)
    (copied / "model.safetensors").chmod(0o640)
    written = ["tokenizer.json", "state.json", "state.safetensors", "metrics.jsonl", "loss.png", "loss.svg"]
    for name in [*written, "model.safetensors.next", "state.json.next"]:
        content = (copied / name).read_bytes() if (copied / name).exists() else b"notes"
        (outside / name).write_bytes(content)
        (copied / name).unlink(missing_ok=True)
        getattr(copied / name, kind)(outside / name)
    before = {path.name: path.read_bytes() for path in outside.iterdir()}
    assert here(train, "gpt", "--resume", copied, "--steps", 8, "--eval-every", 1) == 0
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == before
    assert sorted(path.name for path in copied.iterdir()) == sorted([*written, "config.json", "model.safetensors"])
    assert not any(path.is_symlink() or path.stat().st_nlink > 1 for path in copied.iterdir())
    assert (copied / "config.json").stat().st_mode & 0o777 == 0o600
    assert (copied / "model.safetensors").stat().st_mode & 0o777 == 0o640
    assert load_checkpoint(copied, resume=True).state is not None
    assert read_metrics(copied / "metrics.jsonl")[-1].step == 8


@pytest.mark.skipif(sys.platform == "win32", reason="links of POSIX")
@pytest.mark.parametrize("name", ["best", "tensorboard"])
@pytest.mark.parametrize("way", ["--resume", "--overwrite"])
def test_a_folder_of_a_run_that_is_a_link_is_refused(
    name: str, way: str, copied: Path, text: Path, tmp_path: Path, attempt: Callable[..., None]
) -> None:
    """A run would write into another folder, and one that replaces it would remove what it found there."""
    (tmp_path / "outside").mkdir()
    for file in ("config.json", "loss.svg", "events.out.tfevents.1"):
        (tmp_path / "outside" / file).write_text("mine")
    (copied / name).symlink_to(tmp_path / "outside")
    options = ["--resume", copied, "--steps", 8]
    if way == "--overwrite":
        options = ["--data", text, "--out", copied, "--overwrite", "--steps", 1]
    attempt(train, ["gpt", *map(str, options)], f"{name}'", process=False)
    assert len(list((tmp_path / "outside").iterdir())) == 3


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("name", ["metrics.jsonl", "state.json", "state.json.next", "loss.svg"])
@pytest.mark.parametrize("way", ["--resume", "--overwrite"])
def test_a_pipe_in_a_run_s_folder_is_refused(
    way: str, name: str, text: Path, copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copied / name).unlink(missing_ok=True)
    os.mkfifo(copied / name)
    before = sorted(os.listdir(copied))
    options = ["--resume", copied, "--steps", 8]
    if way == "--overwrite":
        options = ["--data", text, "--out", copied, "--overwrite", "--preset", "tiny", "--steps", 1]
    assert here(train, "gpt", *options) == 2
    told = capsys.readouterr().err
    assert name in told
    assert told.count("\n") == 1
    assert (copied / name).is_fifo()
    if way == "--overwrite":  # and the old run is whole
        assert sorted(os.listdir(copied)) == before


def test_a_link_to_a_folder_that_the_user_names_is_followed(text: Path, tmp_path: Path) -> None:
    (tmp_path / "large disk").mkdir()
    (tmp_path / "run").symlink_to("large disk")
    assert here(train, "bigram", "--data", text, "--out", tmp_path / "run", "--steps", 1) == 0
    assert here(train, "bigram", "--resume", tmp_path / "run", "--steps", 2) == 0
    assert (tmp_path / "run").is_symlink()
    assert read_metrics(tmp_path / "large disk" / "metrics.jsonl")[-1].step == 2


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_full_disk_stops_the_record_of_a_run_at_once(tmp_path: Path) -> None:
    """And does not let it wait for room among the events."""
    import resource

    pytest.importorskip("tensorboardX")
    entry = Metrics(1, 1.0, 1.0, 1e-3, 10, 1.0, 1.0, 1.0, 1.0)  # longer among the events than as a line
    record = Record(tmp_path, 0, tensorboard=True)
    record.append(entry)
    (events,) = (tmp_path / "tensorboard").iterdir()
    before, content = resource.getrlimit(resource.RLIMIT_FSIZE), events.read_bytes()
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(content) + 10, before[1]))
    try:
        (tmp_path / "metrics.jsonl").write_bytes(b"")
        with pytest.raises(OSError, match="File too large") as caught:
            record.append(entry)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.filename == str(events)
    assert events.read_bytes() == content


needs_a_shell = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")


@needs_a_shell
@pytest.mark.parametrize(
    ("output", "errors"),
    [("| head -1", 1), (">&-", 0), ("> /dev/full", 1), ("2>&- >&-", 0)],
)
def test_output_that_cannot_be_written_stops_no_training(text: Path, tmp_path: Path, output: str, errors: int) -> None:
    out = tmp_path / "run"
    line = f"{sys.executable} -u -m tools.train bigram --data {text} --out {out} --steps 200 {output}"
    found = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], cwd=ROOT, capture_output=True, check=False, text=True, timeout=120
    )
    assert found.returncode == 0, found.stderr
    assert found.stderr.count("\n") == errors, found.stderr
    assert load_checkpoint(out, resume=True).state is not None


@needs_a_shell
def test_a_full_disk_behind_the_output_is_one_line(trained: Path) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "tools.generate", str(trained), "--tokens", "3"]
        found = subprocess.run(
            command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, check=False, text=True, timeout=120
        )
    assert found.returncode == 2
    assert found.stderr.count("\n") == 1, found.stderr


def test_characters_that_cannot_be_shown_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    (tmp_path / "ö.txt").write_text("größe " * 200, encoding="utf-8")
    found = program("train", "bigram", "--data", tmp_path / "ö.txt", "--out", tmp_path / "ö", "--steps", 2)
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines()[-1].endswith("--prompt 'gr??e'")


@needs_a_shell
def test_a_text_that_can_be_read_once_only(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tools.train", "bigram", "--data", "/dev/stdin", "--steps", "2"]
    found = subprocess.run(
        [*command, "--out", str(tmp_path / "run")],
        cwd=ROOT, input=TEXT, capture_output=True, check=False, text=True, timeout=120,
    )  # fmt: skip
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.endswith("--prompt The\n")


@needs_a_shell
def test_ctrl_c_before_the_tool_has_begun_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "simple_parsing.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)")
    command = [sys.executable, "-m", "tools.train", "bigram"]
    places = {**os.environ, "PYTHONPATH": str(tmp_path)}
    found = subprocess.run(
        command,
        cwd=ROOT,
        env=places,
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored where tests run in the background
    )
    assert (found.returncode, found.stderr) == (130, "train: stopped before it began\n")


# generating


def test_equal_seeds_write_equal_text(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*options: object) -> str:
        assert here(generate, trained, "--prompt", "The", "--tokens", 30, *options) == 0
        return capsys.readouterr().out

    assert said("--seed", 1) == said("--seed", 1) != said("--seed", 2)
    assert said("--temperature", 0, "--seed", 1) == said("--top-k", 1) == said("--top-p", 1e-9)


def test_an_empty_prompt_starts_from_a_newline(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert here(generate, trained, "--tokens", 10, "--seed", 3) == 0
    tokens = capsys.readouterr().out
    assert here(generate, trained, "--prompt", "\n", "--tokens", 10, "--seed", 3) == 0
    assert capsys.readouterr().out == "\n" + tokens


def test_no_tokens_gives_the_prompt(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert here(generate, trained, "--prompt", "The", "--tokens", 0) == 0
    assert capsys.readouterr().out == "The\n"


# stopping and going on


def test_resume_continues_as_if_never_stopped(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--data", text, *SMALL, "--dropout", "0.2", "--eval-every", "4", "--log-every", "2"]
    assert here(train, "gpt", *options, "--out", tmp_path / "whole") == 0

    def show_and_stop(display: Any, report: Any) -> None:
        if report.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    folder = tmp_path / "parts"
    with monkeypatch.context() as patch:
        patch.setattr(train.Display, "show", show_and_stop)
        assert here(train, "gpt", *options, "--out", folder) == 130
    assert "stopped at step 3 of 6" in capsys.readouterr().out
    with open(folder / "metrics.jsonl", "a") as file:  # as if the run had gone on and crashed before it saved
        file.write(
            json.dumps({"step": 4, "train_loss": 9, "val_loss": None, "lr": 0, "tokens": 0, "seconds": 0}) + "\n"
        )
    assert here(train, "gpt", "--resume", folder) == 0

    for name in ("model.safetensors", "state.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (folder / name).read_bytes()
    times: dict[str, Any] = {"seconds": 0, "tokens_per_second": 0, "flops_per_second": 0}
    whole, parts = (
        [dataclasses.replace(m, **times) for m in read_metrics(path / "metrics.jsonl")]
        for path in (tmp_path / "whole", folder)
    )
    assert whole == parts


def test_resuming_into_another_folder_leaves_the_old_one(copied: Path, tmp_path: Path) -> None:
    before = files(copied)
    assert here(train, "gpt", "--resume", copied, "--out", tmp_path / "new", "--steps", 8) == 0
    assert files(copied) == before
    assert [m.step for m in read_metrics(tmp_path / "new" / "metrics.jsonl")] == [6, 8]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows knows no SIGINT for one process")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGINT)])
def test_ctrl_c_saves_and_says_how_to_go_on(text: Path, tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "run"
    command = ["bigram", "--data", str(text), "--out", str(out), "--steps", "100000", "--log-every", "1"]
    running = subprocess.Popen(
        [sys.executable, "-m", "tools.train", *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 60
        while not (out / "metrics.jsonl").exists() or not (out / "metrics.jsonl").read_bytes():
            assert running.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        running.send_signal(number)
        shown, errors = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 128 + number
    assert errors == ""
    assert shown.splitlines()[-1].endswith(f"go on with: python -m tools.train bigram --resume {out}")
    state = load_checkpoint(out, resume=True).state
    assert state is not None
    assert read_metrics(out / "metrics.jsonl")[-1].step == state["step"]
    assert (out / "loss.png").exists()
    steps = str(state["step"] + 2)
    assert program("train", "bigram", "--resume", out, "--steps", steps, check=True).returncode == 0
    assert read_metrics(out / "metrics.jsonl")[-1].step == int(steps)


# what a run shows and writes down


def events(folder: Path) -> list[tuple[str, int, float]]:
    """(name, step, value) of every scalar that TensorBoard would show: what a later file starts over is dropped."""
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")
    found: list[tuple[str, int, float]] = []
    for path in sorted((folder / "tensorboard").iterdir(), key=lambda path: (path.stat().st_mtime_ns, path.name)):
        content, at = path.read_bytes(), 0
        while at < len(content):
            (size,) = struct.unpack("<Q", content[at : at + 8])
            event = event_pb2.Event.FromString(content[at + 12 : at + 12 + size])
            at += size + 16  # a length and a check before, a check behind
            if event.session_log.status == 1:  # a start
                found = [entry for entry in found if entry[1] < event.step]
            found += [(value.tag, event.step, value.simple_value) for value in event.summary.value]
    return found


def test_tensorboard_gets_what_metrics_hold_also_after_a_stop(text: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    out = tmp_path / "run"
    options = ["--data", text, "--log-every", 1, "--eval-every", 2, "--tensorboard"]
    assert here(train, "bigram", "--preset", "tiny", *options, "--steps", 3, "--out", out) == 0
    assert here(train, "bigram", "--resume", out, "--steps", 5) == 0  # goes on writing them, asked once
    found = events(out)
    metrics = read_metrics(out / "metrics.jsonl")
    names = {"loss/train": "train_loss", "loss/validation": "val_loss", "loss/smoothed": "smoothed_loss", "lr": "lr"}
    for name, field in names.items():
        expected = {m.step: getattr(m, field) for m in metrics if getattr(m, field) is not None}
        assert {step: value for tag, step, value in found if tag == name} == pytest.approx(expected)
        assert [tag for tag, _, _ in found].count(name) == len(expected)
    assert here(train, "bigram", "--preset", "tiny", "--data", text, "--steps", 2, "--out", out, "--overwrite") == 0
    assert not (out / "tensorboard").exists()


def test_tensorboard_without_its_library_is_refused_before_anything_is_written(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempt: Callable[..., None]
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    arguments = ["bigram", "--data", str(text), "--out", str(tmp_path / "run"), "--steps", "1"]
    attempt(train, [*arguments, "--tensorboard"], "pip install 'tinygrad-edu[tensorboard]'", process=False)
    assert not (tmp_path / "run").exists()
    assert here(train, *arguments) == 0


def test_tensorboard_is_imported_only_when_it_is_asked_for(text: Path, tmp_path: Path) -> None:
    arguments = ["bigram", "--data", str(text), "--out", str(tmp_path / "run"), "--steps", "1"]
    code = f"import sys; from tools import train; train.main({arguments}); print('tensorboardX' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True, text=True)
    assert found.stdout.splitlines()[-1] == "False"


def test_the_display_and_the_plot_show_the_smoothed_loss_and_the_speed(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert here(train, "gpt", "--data", text, "--out", out, *SMALL, "--log-every", 1) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("step ")]
    metrics = read_metrics(out / "metrics.jsonl")
    for line, entry in zip(lines, metrics, strict=True):
        assert f"loss {entry.train_loss:.3f}  smoothed {entry.smoothed_loss:.3f}" in line
        assert re.search(r"  [\d,]+ tokens/s  [\d.]+ [kMGT]?FLOP/s  \d+:\d\d left$", line)
    assert "training, smoothed" in (out / "loss.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [80, 150])
def test_a_terminal_sees_a_bar(width: int) -> None:
    screen = io.StringIO()
    display = Display(0, 10, Console(file=screen, force_terminal=True, width=width))
    with display:
        display.show(Report(3, 2.5, 1.0, 96, 0.001, 2.75, 10**9, None, False))
        display.bar.refresh()
    shown = re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", screen.getvalue())
    assert "━" in shown
    assert "3/10" in shown
    assert "smoothed loss 2.750" in shown
    assert "left" in shown
    assert "96,000 tokens/s  1.0 TFLOP/s" in shown


def test_divergence_names_the_op_its_module_and_its_line(copied: Path) -> None:
    found = program("train", "gpt", "--resume", copied, "--steps", 50, "--lr", "1e30", "--min-lr", "1e30")
    assert found.returncode == 1
    assert re.search(r"first .*models/\w+\.py\", line \d+, in module GPT", found.stderr), found.stderr


@pytest.mark.parametrize("rate", ["1e20", "1e35", "3e38"])
def test_weights_that_explode_leave_the_last_good_checkpoint(
    text: Path, copied: Path, rate: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where a new run was about to take the place of the old one, and where it would be the best one yet."""
    options = ["--lr", rate, "--min-lr", rate, "--eval-every", 1, "--keep-best"]
    started = load_checkpoint(copied, resume=True)
    written = ("loss.png", "loss.svg", "metrics.jsonl")  # these tell of the steps that were made
    before = {name: content for name, content in files(copied).items() if Path(name).name not in written}
    assert here(train, "gpt", "--resume", copied, "--steps", 50, *options) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
    after = load_checkpoint(copied, resume=True)
    assert after.state == started.state
    assert {name: content for name, content in files(copied).items() if name in before} == before
    assert here(train, "gpt", "--data", text, "--out", copied, "--overwrite", *SMALL, *options) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert {name: content for name, content in files(copied).items() if name in before} == before
    assert not (copied / "best").exists()


PATHS = {
    "draw": (draw, ["bigram", "--out"], "svg"),
    "ledger": (draw, ["bigram", "--view", "ledger", "--out"], "md"),
    "diff": (draw, ["diff", "bigram", "bigram", "--out"], "svg"),
    "prepare": (prepare, ["{text}", "--out"], "npz"),
}


@pytest.mark.parametrize("tool", PATHS)
@pytest.mark.parametrize(
    "name", ["new.{}/", "new.{}/.", "there/", "there", "", "a\0b.{}", "x" * 300 + ".{}", "old.{}/", "."]
)
def test_a_path_that_no_file_can_have(
    tool: str,
    name: str,
    text: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module, words, ending = PATHS[tool]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    (tmp_path / f"old.{ending}").write_text("old")
    before = sorted(tmp_path.rglob("*"))
    arguments = [word.format(text=text) for word in words]
    for given in ([*arguments, name.format(ending)], [*arguments[:-1], f"--out={name.format(ending)}"]):
        assert here(module, *given) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / f"old.{ending}").read_text() == "old"


@pytest.mark.parametrize("option", ["--out", "--resume", "--init-from", "--data"])
def test_an_empty_path_is_no_default(option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for given in ([option, ""], [f"{option}="]):
        assert here(train, "bigram", "--steps", 1, *given) == 2
    assert not list(tmp_path.iterdir())


# best, and what a model can be started from


def test_a_best_one_is_kept_on_after_a_stop_and_never_holds_what_is_no_number(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    losses = iter([math.nan, 2.0, math.nan, 1.5, math.inf, 1.75])
    monkeypatch.setattr(Trainer, "measure", lambda _: next(losses))
    out = tmp_path / "run"
    options = ["--data", text, "--eval-every", 1, "--keep-best", "--out", out]
    assert here(train, "bigram", *options, "--steps", 1) == 0
    assert not (out / "best").exists()
    said = capsys.readouterr().out
    assert "validation nan" in said
    assert "no validation loss was finite" in said
    for steps, best in ((2, 2), (3, 2), (4, 4), (6, 4)):
        assert here(train, "bigram", "--resume", out, "--steps", steps) == 0
        kept, state = load_checkpoint(out / "best").weights, load_checkpoint(out, resume=True).state
        assert state is not None
        assert state["best"]["step"] == best
        if steps == best:
            at_best = kept
        assert all(np.array_equal(kept[name], at_best[name]) for name in kept)


def test_a_new_run_starts_from_the_weights_of_another(
    copied: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = load_checkpoint(copied)
    save_checkpoint(copied, model="gpt", config=found.config, tokenizer=found.tokenizer, weights=found.weights)
    began: list[dict[str, np.ndarray]] = []
    advance = Trainer.advance

    def noting(trainer: Trainer) -> Report:
        began.append({name: weight.copy() for name, weight in trainer.weights().items()})
        assert trainer.step == len(began) - 1
        return advance(trainer)

    monkeypatch.setattr(Trainer, "advance", noting)
    (tmp_path / "other.txt").write_text(TEXT[::-1], encoding="utf-8", newline="")
    out = tmp_path / "new"
    options = ["--init-from", copied, "--data", tmp_path / "other.txt", "--preset", "tiny", "--steps", 2]
    assert here(train, "gpt", *options, "--out", out) == 0
    assert began[0].keys() == found.weights.keys()
    assert all(np.array_equal(began[0][name], found.weights[name]) for name in found.weights)
    new = load_checkpoint(out, resume=True)
    assert new.config == found.config
    assert new.state is not None
    assert new.state["step"] == 2
    assert {*new.state["optimizer_steps"].values()} == {2}
    assert here(train, "gpt", "--resume", out, "--steps", 3) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--width", "32"], "width cannot change with --init-from"),
        (["--block-size", "16"], "block_size cannot change with --init-from"),
        (["--tokenizer", "byte"], "tokenizer cannot change with --init-from"),
        (["--resume", "{copied}"], "give one of them"),
        (["--data", "{copied}/config.json"], "vocabulary knows"),
    ],
)
def test_what_the_weights_of_another_run_do_not_allow(
    options: list[str], message: str, copied: Path, attempt: Callable[..., None]
) -> None:
    options = [option.format(copied=copied) for option in options]
    attempt(train, ["gpt", "--init-from", str(copied), *options], message, process=False)


def test_a_new_run_from_weights_of_another_kind(copied: Path, attempt: Callable[..., None]) -> None:
    attempt(train, ["bigram", "--init-from", str(copied)], "anew without --init-from", process=False)
