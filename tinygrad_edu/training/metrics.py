"""The record of a run: one JSON object a line, and the best validation so far."""

import dataclasses
import json
import math
import os
import warnings
from pathlib import Path
from typing import Any, ClassVar

from tinygrad_edu.data.checked import DataError, check_fields, check_options, check_packed, file_bytes, parse_json
from tinygrad_edu.files import append, write_atomically

_LARGEST = {"step": 1 << 63, "tokens": 1 << 63, "seconds": 1e18}
_LARGEST |= {"train_loss": 3.5e38, "val_loss": 3.5e38, "smoothed_loss": 3.5e38}  # of float32
_START = b'{"step": '  # of a line


@dataclasses.dataclass(frozen=True)
class Metrics:
    """One line of metrics.jsonl.

    step: updates done. train_loss: mean over the tokens since the line before, nats. val_loss: mean over the whole
    validation part, nats, None where it was not measured. lr: rate of the step. tokens: labels counted so far.
    seconds: time spent training and measuring so far. smoothed_loss: `Smoothed` over the steps, nats.
    tokens_per_second: labels a second of training since the line before. flops_per_second: operations of the matrix
    products a second, likewise; None where the model does not say how many they are. A number that is not finite is
    written as null.
    """

    step: int
    train_loss: float
    val_loss: float | None
    lr: float
    tokens: int
    seconds: float
    smoothed_loss: float | None = None
    tokens_per_second: float | None = None
    flops_per_second: float | None = None


class MetricsFile:
    """Appends to a metrics.jsonl; opened at step s it first drops what a run, stopped later, wrote after step s."""

    def __init__(self, path: str | os.PathLike[str], step: int = 0) -> None:
        self.path = Path(path)
        kept = [m for m in read_metrics(path) if m.step <= step] if step and self.path.exists() else []
        write_atomically(self.path, "".join(map(_line, kept)), follow=False)

    def append(self, metrics: Metrics) -> None:
        """Add a line; raises OSError where the disk takes no more."""
        append(self.path, _line(metrics))


def read_metrics(path: str | os.PathLike[str]) -> list[Metrics]:
    """The lines of a metrics.jsonl; null losses come back as NaN. A last one that a crash cut short is left out, with a
    warning.

    Raises DataError, naming file and line, for anything else that is no line of metrics, or a step that does not come
    after that of the line before.
    """
    found: list[Metrics] = []
    content = file_bytes(Path(path), "record")
    check_packed(content, path, "record")
    lines = content.splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        try:
            metrics = _metrics(parse_json(line, "it", "is no JSON"))
            if found and metrics.step <= found[-1].step:
                raise DataError(f"step {metrics.step} comes after step {found[-1].step}")
        except DataError as error:
            shown = line.decode(errors="replace").strip()[:60]
            if number == len(lines) and not line.endswith(b"\n") and line[: len(_START)] == _START[: len(line)]:
                # of this place, so that a second reading does not say it again
                warnings.warn(f"{path}, line {number}: cut short in a crash, and left out: {shown!r}", stacklevel=1)
                break
            raise DataError(
                f"{path}, line {number}: no line of metrics ({error}): {shown!r}; repair or delete it"
            ) from None
        found.append(metrics)
    return found


def _metrics(fields: Any) -> Metrics:
    fields = check_fields(fields, {"train_loss": float | None}, "it")
    if fields["train_loss"] is None:
        return dataclasses.replace(_metrics({**fields, "train_loss": 0}), train_loss=math.nan)
    check_options(Metrics, fields, "it")
    for name, most in _LARGEST.items():
        value = fields.get(name)
        if value is not None and not (-most if name.endswith("loss") else 0) <= value <= most:
            raise DataError(f"it: {name} is out of range")
    return Metrics(**fields)


def _line(metrics: Metrics) -> str:
    fields = dataclasses.asdict(metrics)
    for name, value in fields.items():
        if isinstance(value, float) and not math.isfinite(value):
            fields[name] = None
    return json.dumps(fields) + "\n"


@dataclasses.dataclass
class Best:
    """The lowest finite validation loss, the step where it was measured, and how many came after without beating it.

    >>> best = Best()
    >>> [best.improves(step, loss) for step, loss in enumerate([2.0, math.nan, 1.5, math.inf, 1.5, 1.4])]
    [True, False, True, False, False, True]
    >>> best
    Best(loss=1.4, step=5, since=0)
    """

    loss: float | None = None
    step: int | None = None
    since: int = 0

    def improves(self, step: int, loss: float) -> bool:
        """Take note of a loss: True where it is finite and strictly below all before. NaN is no improvement."""
        if math.isfinite(loss) and (self.loss is None or loss < self.loss):
            self.loss, self.step, self.since = loss, step, 0
            return True
        self.since += 1
        return False


@dataclasses.dataclass
class Smoothed:
    """Exponential moving average of the losses of steps: s ← β·s + (1 − β)·loss, w ← β·w + (1 − β); value s / w.

    Dividing by the weight w takes the zero out that s begins with. With β = 0.98 a step counts half as much after 34
    more of them.

    >>> smoothed = Smoothed()
    >>> smoothed.add(3.0), round(smoothed.add(2.0), 3)
    (3.0, 2.495)
    """

    total: float = 0.0
    weight: float = 0.0
    decay: ClassVar[float] = 0.98

    def add(self, loss: float) -> float:
        """Take a loss in; the average with it."""
        self.total = self.decay * self.total + (1 - self.decay) * loss
        self.weight = self.decay * self.weight + (1 - self.decay)
        return self.value

    @property
    def value(self) -> float:
        """The average, NaN where nothing has been taken in."""
        return self.total / self.weight if self.weight else math.nan


@dataclasses.dataclass
class Pace:
    """Labels, operations and seconds of the steps since a moment; not part of a checkpoint, as time is not repeated."""

    tokens: int = 0
    flops: int | None = 0
    seconds: float = 0.0

    def add(self, tokens: int, flops: int | None, seconds: float) -> None:
        """Take a step in."""
        self.tokens += tokens
        self.flops = None if flops is None or self.flops is None else self.flops + flops
        self.seconds += seconds

    @property
    def tokens_per_second(self) -> float:
        """Labels a second."""
        return self.tokens / max(self.seconds, 1e-9)

    @property
    def flops_per_second(self) -> float | None:
        """Operations a second, None where they are not known."""
        return None if self.flops is None else self.flops / max(self.seconds, 1e-9)
