"""One run in a folder at a time, whatever becomes of the folder; and signals, which stop a run in good order."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tinygrad_edu.training import load_checkpoint
from tools import train
from tools.cli import UserError
from tools.lock import locked
from tools.train import stop_politely

pytest.importorskip("fcntl")
ROOT = Path(__file__).parents[1]
SMALL = ["--steps", "4", "--batch-size", "2", "--block-size", "8", "--eval-every", "1", "--threads", "1"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("The quick brown fox jumps over the lazy dog.\n" * 40)
    return path


def run(*arguments: object) -> int:
    from tools.cli import run

    return run("train", train.main, [str(a) for a in arguments])


def refused(folder: Path) -> str:
    with pytest.raises(UserError) as found, locked(folder):
        pass
    return str(found.value)


class TestLock:
    def test_it_outlives_its_file(self, tmp_path: Path) -> None:
        with locked(tmp_path) as lock:
            assert f"process {os.getpid()}" in refused(tmp_path)
            (tmp_path / ".lock").unlink()
            assert "process unknown" in refused(tmp_path)
            lock.check()
        with locked(tmp_path):
            pass
        assert os.listdir(tmp_path) == []

    def test_it_holds_under_every_name_of_the_folder(self, tmp_path: Path) -> None:
        folder, link = tmp_path / "run", tmp_path / "link"
        folder.mkdir()
        link.symlink_to(folder)
        with locked(link) as lock:
            assert "in use" in refused(folder)
            assert "in use" in refused(tmp_path / "link" / ".." / "run")
            lock.check()
        assert link.is_symlink()

    @pytest.mark.parametrize("again", [False, True])
    def test_it_goes_with_a_folder_that_is_moved(self, tmp_path: Path, again: bool) -> None:
        folder, moved = tmp_path / "run", tmp_path / "moved"
        with locked(folder) as lock:
            folder.rename(moved)
            if again:
                folder.mkdir()
                with locked(folder) as other:
                    other.check()
            assert "in use" in refused(moved)
            with pytest.raises(UserError, match="no longer the folder"):
                lock.check()
        assert os.listdir(moved) == []

    def test_a_removed_folder_is_noticed(self, tmp_path: Path) -> None:
        with locked(tmp_path / "run") as lock:
            (tmp_path / "run" / ".lock").unlink()
            (tmp_path / "run").rmdir()
            with pytest.raises(UserError, match="no longer the folder"):
                lock.check()
            with locked(tmp_path / "run"):
                pass

    @pytest.mark.parametrize("what", ["link", "pipe", "folder", "dangling"])
    def test_what_was_planted_under_its_name(self, tmp_path: Path, what: str) -> None:
        folder, outside = tmp_path / "run", tmp_path / "outside"
        folder.mkdir()
        outside.write_text("kept")
        if what == "link":
            (folder / ".lock").symlink_to(outside)
        elif what == "dangling":
            (folder / ".lock").symlink_to(tmp_path / "nowhere")
        elif what == "pipe":
            os.mkfifo(folder / ".lock")
        else:
            (folder / ".lock").mkdir()
        with locked(folder):
            assert "in use" in refused(folder)
        assert outside.read_text() == "kept"
        assert not (tmp_path / "nowhere").exists()
        if what in ("pipe", "folder"):
            assert not (folder / ".lock").is_file()
            assert (folder / ".lock").exists()

    def test_what_a_killed_run_left_blocks_nobody(self, tmp_path: Path) -> None:
        program = (
            "import sys, time; from pathlib import Path; from tools.lock import locked\n"
            "with locked(Path(sys.argv[1])): print('in', flush=True); time.sleep(600)"
        )
        with subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "in\n"
            assert f"process {holder.pid}" in refused(tmp_path)
            holder.kill()
            holder.wait(60)
        assert (tmp_path / ".lock").exists()
        with locked(tmp_path):
            pass
        assert not (tmp_path / ".lock").exists()

    def test_of_many_that_start_at_once_one_gets_it(self, tmp_path: Path) -> None:
        meet, inside = threading.Barrier(6), []

        def start(_: int) -> None:
            meet.wait(60)
            with contextlib.suppress(UserError), locked(tmp_path / "new") as lock:
                inside.append(1)
                meet.wait(60)
                lock.check()
                return
            meet.wait(60)

        for turn in range(5):
            threads = [threading.Thread(target=start, args=(i,)) for i in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(inside) == turn + 1


class TestRuns:
    def test_a_run_writes_nothing_into_a_folder_that_took_the_place_of_its_own(
        self, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        out = tmp_path / "run"

        def show(display: Any, report: Any) -> None:
            if report.step == 2:
                out.rename(tmp_path / "moved")
                out.mkdir()

        monkeypatch.setattr(train.Display, "show", show)
        assert run("bigram", "--data", text, "--out", out, *SMALL) == 2
        assert "no longer the folder" in capsys.readouterr().err
        assert load_checkpoint(tmp_path / "moved", resume=True).state["step"] == 1  # type: ignore[index]

    def test_a_run_that_was_gone_on_with_while_another_was_starting(
        self, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        out = tmp_path / "run"
        before = train.build

        def build_late(plan: Any) -> Any:
            monkeypatch.setattr(train, "build", before)
            found = before(plan)
            first = ["--resume", out, "--steps", 6] if plan.run.resume else ["--data", text, "--out", out, *SMALL]
            assert run("bigram", *first) == 0
            return found

        monkeypatch.setattr(train, "build", build_late)
        assert run("bigram", "--data", text, "--out", out, *SMALL) == 2
        assert "already holds a run" in capsys.readouterr().err
        monkeypatch.setattr(train, "build", build_late)
        assert run("bigram", "--resume", out, "--steps", 5) == 2
        assert "another run has meanwhile gone on" in capsys.readouterr().err
        assert load_checkpoint(out, resume=True).state["step"] == 6  # type: ignore[index]


class TestSignals:
    @pytest.fixture(autouse=True)
    def handlers_are_put_back(self) -> Generator[None, None, None]:
        numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
        before = [signal.getsignal(number) for number in numbers]
        yield
        assert [signal.getsignal(number) for number in numbers] == before

    @pytest.mark.parametrize(
        ("sent", "ends"),
        [
            ([signal.SIGINT], 0),
            ([signal.SIGTERM], 0),
            ([signal.SIGHUP], 0),
            ([signal.SIGHUP, signal.SIGHUP, signal.SIGTERM], 0),
            ([signal.SIGINT, signal.SIGHUP], 0),
            ([signal.SIGINT, signal.SIGINT], 2),
            ([signal.SIGTERM, signal.SIGINT], 2),
            ([signal.SIGTERM, signal.SIGHUP, signal.SIGTERM], 15),
        ],
    )
    def test_which_are_noted_and_which_interrupt(self, sent: list[signal.Signals], ends: int) -> None:
        with contextlib.ExitStack() as stack:
            if ends:
                error = stack.enter_context(pytest.raises(KeyboardInterrupt))
            with stop_politely() as asked:
                for number in sent:
                    signal.raise_signal(number)
            assert asked.signal == sent[0]
        assert not ends or error.value.args == (ends,)

    def test_hangups_that_are_ignored_stay_so(self) -> None:
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            with stop_politely() as asked:
                signal.raise_signal(signal.SIGHUP)
            assert not asked.signal
        finally:
            signal.signal(signal.SIGHUP, before)

    @pytest.mark.parametrize("count", [1, 2])
    @pytest.mark.parametrize("at", [1, 3, 8])
    def test_during_a_save(
        self,
        text: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        count: int,
        at: int,
    ) -> None:
        """One lets the save end; two end it in the middle, and what was saved before stays whole."""
        out, calls = tmp_path / "run", []

        def struck(original: Callable[[int], None]) -> Callable[[int], None]:
            def sync(handle: int) -> None:
                original(handle)
                calls.append(handle)
                if len(calls) == at:
                    for _ in range(count):
                        signal.raise_signal(signal.SIGINT)

            return sync

        def show(display: Any, report: Any) -> None:
            if report.step == 2:
                monkeypatch.setattr(os, "fsync", struck(os.fsync))

        monkeypatch.setattr(train.Display, "show", show)
        assert run("bigram", "--data", text, "--out", out, *SMALL) == 130
        monkeypatch.undo()
        shown = capsys.readouterr()
        assert ("interrupted" in shown.err) is (count == 2)
        assert not list(out.glob(".*"))
        state = load_checkpoint(out, resume=True).state
        assert state is not None
        assert state["step"] in ((2, 3) if count == 1 else (1, 2))
        assert run("bigram", "--resume", out) == 0

    @pytest.mark.parametrize("exists", [False, True])
    @pytest.mark.parametrize("where", ["prepare_folder", "make_folder", "locked", "_check_run_in", "Shards", "Display"])
    def test_before_the_first_step(
        self,
        text: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        where: str,
        exists: bool,
    ) -> None:
        """A signal just after one of the things that are done before it leaves what was there, and nothing else."""
        out, number = tmp_path / "run", signal.SIGHUP if exists else signal.SIGTERM
        if exists:
            assert run("bigram", "--data", text, "--out", out, *SMALL) == 0
        before = {path.name: path.read_bytes() for path in out.glob("*")}
        original, calls = getattr(train, where), []

        def struck(*arguments: Any, **named: Any) -> Any:
            made = original(*arguments, **named)
            calls.append(where)
            if where not in ("locked", "Shards", "Display"):
                if len(calls) == (2 if where == "_check_run_in" else 1):
                    signal.raise_signal(number)
                return made

            @contextlib.contextmanager
            def inside() -> Any:
                with made as entered:
                    signal.raise_signal(number)
                    yield entered

            return inside()

        monkeypatch.setattr(train, where, struck)
        assert run("bigram", "--data", text, "--out", out, "--overwrite", *SMALL) == 128 + number
        assert capsys.readouterr().out.splitlines()[-1].startswith("stopped before the first step")
        assert {path.name: path.read_bytes() for path in out.glob("*")} == before
        assert out.exists() == exists

    def test_any_moment_of_a_start(self, text: Path, tmp_path: Path) -> None:
        """A process struck while it starts leaves no lock, no temporary file and no traceback."""
        for turn in range(4):
            out = tmp_path / f"run{turn}"
            command = ["bigram", "--data", str(text), "--out", str(out), "--steps", "1000000"]
            with subprocess.Popen(
                [sys.executable, "-m", "tools.train", *command],
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            ) as running:
                assert running.stderr is not None
                while not out.exists():
                    assert running.poll() is None
                time.sleep(0.008 * turn)
                running.send_signal(signal.SIGTERM)
                assert running.wait(60) == 128 + signal.SIGTERM
                assert running.stderr.read() == ""
            assert not list(out.glob(".*"))
            assert not out.exists() or load_checkpoint(out, resume=True)

    def test_a_closed_terminal(self, text: Path, tmp_path: Path) -> None:
        """SIGHUP twice, and output that can no longer be written: the run is saved all the same."""
        pty = pytest.importorskip("pty")
        out = tmp_path / "run"
        command = ["bigram", "--data", str(text), "--out", str(out), "--steps", "1000000", "--log-every", "1"]
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [sys.executable, "-m", "tools.train", *command],
            cwd=ROOT,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        ) as running:
            os.close(theirs)
            try:
                reading = threading.Thread(target=drain, args=(ours,), daemon=True)
                reading.start()
                while not (out / "metrics.jsonl").exists() or not (out / "metrics.jsonl").read_bytes():
                    assert running.poll() is None
                    time.sleep(0.02)
                running.send_signal(signal.SIGHUP)
                running.send_signal(signal.SIGHUP)
                assert running.wait(60) == 128 + signal.SIGHUP
            finally:
                running.kill()
        state = load_checkpoint(out, resume=True).state
        assert state is not None
        assert state["step"] > 0


def drain(handle: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(handle, 1 << 16):
            pass
