"""What training shows while it runs: a live bar on a terminal, plain lines elsewhere."""

import math
import sys
import time
from collections import deque
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tinygrad_edu.training import Report
from tinygrad_edu.training.metrics import Pace

_PREFIXES = ("", "k", "M", "G", "T", "P")
_PLAIN_LINES = 20  # about so many in a whole run


class Display:
    """A context in which `show(report)` keeps the reader informed about steps `done` to `total`.

    On a terminal: a bar with the moving average of the loss, tokens and operations a second, and the time left.
    Elsewhere: a line at every measurement and every twentieth of the run, with the same facts and the loss of the step.
    console: where to; stdout unless given.
    """

    def __init__(self, done: int, total: int, console: Console | None = None) -> None:
        self.first, self.total = done, total
        self.every = max(1, (total - done) // _PLAIN_LINES)
        self.live = sys.stdout.isatty() if console is None else console.is_terminal
        self.recent: deque[tuple[int, int | None, float]] = deque(maxlen=50)  # tokens, operations, seconds of a step
        self.started = time.perf_counter()
        self.console = console or Console()
        self.bar = Progress(
            MofNCompleteColumn(),
            BarColumn(bar_width=None),
            TextColumn("smoothed loss {task.fields[loss]:.3f}"),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=self.console,
            disable=not self.live,
            expand=True,
        )
        self.task = self.bar.add_task("", total=total, completed=done, loss=math.nan, speed="")

    def __enter__(self) -> "Display":
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def show(self, report: Report) -> None:
        """Take note of a step."""
        self.recent.append((report.tokens, report.flops, report.seconds))
        measured = report.metrics is not None and report.metrics.val_loss is not None
        if self.live:
            self.bar.update(self.task, completed=report.step, loss=report.smoothed, speed=self._speed())
            if measured:
                self.note(self._line(report))
        elif measured or report.step % self.every == 0:
            left = (time.perf_counter() - self.started) / (report.step - self.first) * (self.total - report.step)
            minutes, seconds = divmod(round(left), 60)
            self.note(f"{self._line(report)}  {self._speed()}  {minutes}:{seconds:02} left")

    def _speed(self) -> str:
        pace = Pace()
        for step in self.recent:
            pace.add(*step)
        speed = f"{pace.tokens_per_second:,.0f} tokens/s"
        return speed if not pace.flops_per_second else f"{speed}  {in_units(pace.flops_per_second)}FLOP/s"

    def note(self, text: Any) -> None:
        """Print a line, above the bar where there is one."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _line(self, report: Report) -> str:
        line = f"step {report.step}/{self.total}  loss {report.loss:.3f}  smoothed {report.smoothed:.3f}"
        if report.metrics is not None and report.metrics.val_loss is not None:
            line += f"  validation {report.metrics.val_loss:.4f}"
        return line


def in_units(number: float) -> str:
    """A number of 0 or more with the prefix of its thousands.

    >>> in_units(3.21e10), in_units(500.0), in_units(0.0)
    ('32.1 G', '500.0 ', '0.0 ')
    """
    thousands = max(0, min(int(math.log10(max(number, 1.0)) // 3), len(_PREFIXES) - 1))
    return f"{number / 1000**thousands:.1f} {_PREFIXES[thousands]}"
