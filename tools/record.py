"""What a run writes down as it goes: metrics.jsonl, and events for TensorBoard where it asks for them."""

import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tinygrad_edu.files import append, make_folder, remove
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

    Raises OSError where the disk takes no more.
    """

    def __init__(self, folder: Path, step: int, tensorboard: bool) -> None:
        self._metrics = MetricsFile(folder / METRICS, step)
        self._events = _Events(folder / EVENTS, step) if tensorboard else None

    def append(self, metrics: Metrics) -> None:
        """Add a line; in the events, what was not measured is left out."""
        self._metrics.append(metrics)
        if self._events is not None:
            fields = {name: getattr(metrics, field) for field, name in _NAMES.items()}
            self._events.append(metrics.step, {name: value for name, value in fields.items() if value is not None})


class _Events:
    """A file of events for TensorBoard. A record: length (8 bytes), its checksum, an Event as protocol buffer, its own.

    Only the messages and the checksum are the library's. Its own writer puts events into a queue for a thread, and
    waits for room there for ever once the disk is full.
    """

    def __init__(self, folder: Path, step: int) -> None:
        library = _library()
        self._messages, self._check = library.proto, library.record_writer.masked_crc32c
        make_folder(folder, follow=False)
        # the step tells two files of one second apart
        self._path = folder / f"events.out.tfevents.{int(time.time()):010}.{socket.gethostname()}.{step:09}"
        remove([self._path])
        self._add(file_version="brain.Event:2")
        if step:  # what another file has from here on no longer counts
            start = self._messages.event_pb2.SessionLog(status="START")
            self._add(step=step + 1, file_version="brain.Event:2")
            self._add(step=step + 1, session_log=start)

    def append(self, step: int, values: Mapping[str, float]) -> None:
        """Add values of a step, by name."""
        Summary = self._messages.summary_pb2.Summary
        each = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._add(step=step, summary=Summary(value=each))

    def _add(self, **fields: Any) -> None:
        event = self._messages.event_pb2.Event(wall_time=time.time(), **fields).SerializeToString()
        length = struct.pack("<Q", len(event))
        append(self._path, b"".join(part + struct.pack("<I", self._check(part)) for part in (length, event)))


def record_files(folder: Path) -> list[Path]:
    """The files of a run's record in its folder, there or not."""
    return [folder / METRICS, *(folder / EVENTS).glob("events.out.tfevents.*")]
