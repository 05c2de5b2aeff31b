"""A run that is killed at random moments and gone on with ends in the same bits as one that was left alone."""

import dataclasses
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tinygrad_edu.training import Metrics, load_checkpoint, read_metrics

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ROOT.parent / "shared" / "data"
KILLS = 5

# Dropout, batches in parts, two optimizers and schedules, windows at random and epochs of pairs: all that has a state.
WINDOWS = [
    *("gpt", "--preset", "tiny", "--steps", "240", "--dropout", "0.1", "--accumulation", "2", "--save-every", "7"),
    *("--optimizer", "muon", "--schedule", "linear", "--eval-every", "50", "--log-every", "1", "--keep-best"),
]
PAIRS = [
    *("gpt", "--preset", "tiny", "--steps", "400", "--dropout", "0.1", "--save-every", "11", "--documents", "pairs"),
    *("--eval-every", "50", "--log-every", "1", "--batch-size", "4"),
]
WHOLE = ["gpt", "--preset", "nano-modern", "--save-every", "100", "--log-every", "1"]


def start(*arguments: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tools.train", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finished(*arguments: object) -> None:
    """Let a run come to its end."""
    running = start(*arguments)
    _, errors = running.communicate()
    assert running.returncode == 0, errors.decode()


def killed(folder: Path, after: float, *arguments: object) -> None:
    """Begin a run and kill it, as no program can notice, so many seconds after its first step."""
    record = folder / "metrics.jsonl"

    def begun() -> tuple[int, int] | None:
        """Which record there is, if any: it is begun anew when a step is done, and the old one may go before."""
        try:
            found = record.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    before = begun()
    running = start(*arguments)
    try:
        while begun() in (None, before):
            assert running.poll() is None, running.communicate()[1].decode()
            time.sleep(0.001)
        time.sleep(after)
    finally:
        running.kill()
    assert running.wait() == -signal.SIGKILL


def timeless(metrics: Metrics) -> Metrics:
    times: dict[str, Any] = {"seconds": 0, "tokens_per_second": 0, "flops_per_second": 0}
    return dataclasses.replace(metrics, **times)


def state_of(folder: Path) -> dict[str, Any]:
    return {**json.loads((folder / "state.json").read_text()), "seconds": 0}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows knows no SIGKILL")
@pytest.mark.parametrize("run", ["windows", "pairs", "nano-modern"])
def test_a_killed_run_ends_as_if_nothing_had_happened(
    run: str, whole: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Five kills, each at a moment drawn anew from a tenth of the whole run, whatever the run does then."""
    options: list[object] = [*{"windows": WINDOWS, "pairs": PAIRS, "nano-modern": WHOLE}[run]]
    if run == "nano-modern":
        if not whole:
            pytest.skip("takes minutes; run it with --whole (make proof)")
        text = TEXTS / "tinyshakespeare.txt"
        if not text.exists():
            pytest.skip("needs the text tinyshakespeare.txt, which is not part of the repository")
        options += ["--data", text]
    if run == "pairs":
        data = tmp_path / "sums.jsonl"
        sums = [{"prompt": f"{a}+{b}=", "answer": str(a + b)} for a in range(30) for b in range(30)]
        data.write_text("\n".join(map(json.dumps, sums)), encoding="utf-8")
        options += ["--data", data]
    alone, folder = tmp_path / "alone", tmp_path / "killed"
    finished(*options, "--out", alone)
    record = read_metrics(alone / "metrics.jsonl")
    drawn = random.Random()  # seeded by the system: other moments each time
    told = []
    for _ in range(KILLS):
        after = drawn.uniform(0, record[-1].seconds / 10)
        goes_on = (folder / "config.json").exists()
        killed(folder, after, options[0], *(["--resume", folder] if goes_on else [*options[1:], "--out", folder]))
        saved = (load_checkpoint(folder, resume=True).state or {})["step"] if (folder / "config.json").exists() else 0
        at = read_metrics(folder / "metrics.jsonl")
        told.append(f"{at[-1].step if at else saved} ({saved})")
    finished(options[0], *(["--resume", folder] if saved else [*options[1:], "--out", folder]))
    with capsys.disabled():
        print(f"\n{run}: {record[-1].step} steps, killed at step (saved at): {', '.join(told)}")
    for name in ("model.safetensors", "state.safetensors", "tokenizer.json", "best/model.safetensors"):
        if (alone / name).exists():
            assert (alone / name).read_bytes() == (folder / name).read_bytes(), name
    assert state_of(alone) == state_of(folder)
    assert list(map(timeless, read_metrics(folder / "metrics.jsonl"))) == list(map(timeless, record))
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in alone.iterdir())
