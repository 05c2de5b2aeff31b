"""What training shows while it runs: a live bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections import deque
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tinygrad_edu.training import Report

_PLAIN_LINES = 20  # about so many in a whole run


class Display:
    """A context in which `show(report)` keeps the reader informed about steps `done` to `total`.

    On a terminal: a bar with loss, tokens per second and time left. Elsewhere: a line at every measurement and every
    twentieth of the run, with the same facts.
    """

    def __init__(self, done: int, total: int) -> None:
        self.first, self.total = done, total
        self.every = max(1, (total - done) // _PLAIN_LINES)
        self.live = sys.stdout.isatty()
        self.recent: deque[tuple[int, float]] = deque(maxlen=50)  # (tokens, seconds) of the last steps
        self.started = time.perf_counter()
        self.console = Console()
        self.bar = Progress(
            TextColumn("step"),
            MofNCompleteColumn(),
            BarColumn(),
            TextColumn("loss {task.fields[loss]:.3f}"),
            TextColumn("{task.fields[speed]:,.0f} tokens/s"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=self.console,
            disable=not self.live,
        )
        self.task = self.bar.add_task("", total=total, completed=done, loss=float("nan"), speed=0.0)

    def __enter__(self) -> "Display":
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def show(self, report: Report) -> None:
        """Take note of a step."""
        self.recent.append((report.tokens, report.seconds))
        measured = report.metrics is not None and report.metrics.val_loss is not None
        speed = sum(tokens for tokens, _ in self.recent) / max(sum(seconds for _, seconds in self.recent), 1e-9)
        if self.live:
            self.bar.update(self.task, completed=report.step, loss=report.loss, speed=speed)
            if measured:
                self.note(self._line(report))
        elif measured or report.step % self.every == 0:
            left = (time.perf_counter() - self.started) / (report.step - self.first) * (self.total - report.step)
            minutes, seconds = divmod(round(left), 60)
            self.note(f"{self._line(report)}  {speed:,.0f} tokens/s  {minutes}:{seconds:02} left")

    def note(self, text: Any) -> None:
        """Print a line, above the bar where there is one."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _line(self, report: Report) -> str:
        line = f"step {report.step}/{self.total}  loss {report.loss:.3f}"
        if report.metrics is not None and report.metrics.val_loss is not None:
            line += f"  validation {report.metrics.val_loss:.4f}"
        return line
