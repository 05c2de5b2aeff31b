"""What a run writes down as it goes: metrics.jsonl, and events for TensorBoard where it asks for them."""

from pathlib import Path
from types import TracebackType
from typing import Any

from tinygrad_edu.training import Metrics, MetricsFile, TrainConfig
from tools.cli import UserError

METRICS = "metrics.jsonl"
EVENTS = "tensorboard"  # the folder of the events
_NAMES = {  # as TensorBoard shows them: what is of one kind under one heading
    "train_loss": "loss/train",
    "smoothed_loss": "loss/smoothed",
    "val_loss": "loss/validation",
    "lr": "lr",
    "tokens_per_second": "speed/tokens_per_second",
    "flops_per_second": "speed/flops_per_second",
}


def check_tensorboard(config: TrainConfig) -> None:
    """Raises UserError where events for TensorBoard are asked for and the library that writes them is missing."""
    if config.tensorboard:
        _library()


def _library() -> Any:
    try:
        import tensorboardX
    except ImportError as error:
        raise UserError(
            f"--tensorboard needs the library tensorboardX ({error}); pip install 'tinygrad-edu[tensorboard]', or "
            f"leave the option out: {METRICS} and loss.svg hold the same numbers"
        ) from None
    return tensorboardX


class Record:
    """Appends to the record in a folder; begun at step s it drops what a run, stopped later, wrote after step s.

    A context, which closes the files. Raises OSError where the disk takes no more.
    """

    def __init__(self, folder: Path, step: int, tensorboard: bool) -> None:
        self._metrics = MetricsFile(folder / METRICS, step)
        self._events = None
        if tensorboard:
            after = step + 1 if step else None
            suffix = f".{step:09}"  # two files of one second would otherwise be one
            self._events = _library().SummaryWriter(str(folder / EVENTS), purge_step=after, filename_suffix=suffix)

    def __enter__(self) -> "Record":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._events is not None:
            self._events.close()

    def append(self, metrics: Metrics) -> None:
        """Add a line; in the events, what was not measured is left out."""
        self._metrics.append(metrics)
        if self._events is not None:
            for field, name in _NAMES.items():
                if (value := getattr(metrics, field)) is not None:
                    self._events.add_scalar(name, value, metrics.step)
            self._events.flush()


def remove_record(folder: Path) -> None:
    """Remove the record of an earlier run."""
    (folder / METRICS).unlink(missing_ok=True)
    for path in (folder / EVENTS).glob("events.out.tfevents.*"):
        path.unlink()
    if (folder / EVENTS).is_dir() and not any((folder / EVENTS).iterdir()):
        (folder / EVENTS).rmdir()
