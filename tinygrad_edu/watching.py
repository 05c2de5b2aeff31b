"""Listeners that a user sets: hooks on every op, and the search for the op that made a NaN or an infinity."""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_edu.arrays import devices, library
from tinygrad_edu.engine.modes import Listener, active, setting
from tinygrad_edu.engine.tape import Record, Variable

_HERE = str(Path(__file__).parent)
_MAKES_INFINITIES = {"masked_fill", "where", "set_item", "cast", "log", "pad"}  # −∞ on purpose: masks, ln 0


@dataclass(frozen=True)
class Event:
    """One op that ran, forward, or one rule of it that ran backward.

    op: its name. phase: "forward" or "backward". module: path of the module it ran in, "" outside. inputs, outputs:
    shapes; backward, of the gradients that came and that went on. seconds: wall time of the op alone. bytes: memory
    of the outputs.
    """

    op: str
    phase: str
    module: str
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]
    seconds: float
    bytes: int


class _Modules(Listener):
    """Keeps the path of the module that is running, names counted from the first one called."""

    def __init__(self) -> None:
        self.stack: list[str] = []
        self.paths: dict[int, str] = {}
        self.homes: dict[int, str] = {}  # record number -> module path, for the backward pass

    def enter(self, module: Any) -> None:
        if not self.stack:
            kind = type(module).__name__
            self.paths = {id(m): f"{kind}.{path}" if path else kind for path, m in module.named_modules()}
        self.stack.append(self.paths.get(id(module), type(module).__name__))

    def leave(self, module: Any) -> None:
        self.stack.pop()

    @property
    def path(self) -> str:
        return self.stack[-1] if self.stack else ""


class _Watch(_Modules):
    def __init__(self, tell: Callable[[Event], Any]) -> None:
        super().__init__()
        self.tell, self.began = tell, 0.0
        self.took: dict[int, float] = {}

    def starting(self, op: Any, inputs: Any) -> None:
        self.began = time.perf_counter()

    def applied(self, op: Any, inputs: Any, arrays: Any, outputs: Any, static: Any, record: Any) -> None:
        seconds = time.perf_counter() - self.began
        if record is not None:
            self.homes[record.number] = self.path
        shapes = tuple(a.shape for a in arrays if library.is_array(a))
        size = sum(y.array.nbytes for y in outputs)
        with setting(trace=None):
            self.tell(
                Event(op.name, "forward", self.path, shapes, tuple(y.array.shape for y in outputs), seconds, size)
            )

    @contextmanager
    def branch(self, record: Record, at: int) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.took[record.number] = time.perf_counter() - began

    def arrived(self, record: Record, at: int, gradient: Any) -> None:
        if gradient is not None:
            array = gradient.array
            seconds = self.took.pop(record.number, 0.0)  # joint rules: all with the first
            home = self.homes.get(record.number, "")
            with setting(trace=None):
                self.tell(Event(record.name, "backward", home, record.shapes, (array.shape,), seconds, array.nbytes))


def watch(tell: Callable[[Event], Any]) -> AbstractContextManager[None]:
    """Call `tell(event)` for every op that runs in the block, and for every gradient of a backward pass there.

    What a profiler or a log of shapes needs; see `Event`. Ops that `tell` itself runs are not told of.

    >>> import tinygrad_edu as tg
    >>> seen = []
    >>> with watch(lambda event: seen.append((event.op, event.phase, event.outputs))):
    ...     x = tg.ones(2, requires_grad=True)
    ...     (x * x).sum().backward()
    >>> seen[0]
    ('mul', 'forward', ((2,),))
    >>> [op for op, phase, _ in seen if phase == "backward"]
    ['sum', 'mul', 'mul']
    """
    return setting(trace=_Watch(tell))


class AnomalyError(ArithmeticError):
    """A NaN or an infinity appeared; the message names the op, the module, the line of code and the shapes."""


class _Anomaly(_Modules):
    def __init__(self) -> None:
        super().__init__()
        self.sites: dict[int, str] = {}
        self.sums: dict[int, list[int | None]] = {}  # record number -> a checksum of each array that it saved

    def applied(self, op: Any, inputs: Any, arrays: Any, outputs: Any, static: Any, record: Any) -> None:
        site = self._site()
        if record is not None:
            self.sites[record.number] = site
            self.sums[record.number] = [_checksum(kept) for kept in record.kept]
        bad = _worst(y.array for y in outputs)
        if bad and not _worst(arrays, bad == "NaN") and not (bad == "infinity" and op.name in _MAKES_INFINITIES):
            shapes = ", ".join(str(a.shape) for a in arrays if library.is_array(a))
            raise AnomalyError(f"{op.name} made the first {bad}, from inputs of shape {shapes} without one; {site}")

    def arrived(self, record: Record, at: int, gradient: Any) -> None:
        if gradient is None:
            return
        bad = _worst([gradient.array])
        if bad:
            article = "an" if bad == "infinity" else "a"
            name = record.op.inputs[min(at, len(record.op.inputs) - 1)]
            site = self.sites.get(record.number, "before detect_anomaly began")
            raise AnomalyError(
                f"{record.name}: the gradient of its input {name} {gradient.array.shape} is the first with {article} "
                f"{bad} in this backward pass; the op was applied {site}"
            )

    def saving(self, op: str, what: str, array: Any) -> Callable[[], None]:
        site, before = self._site(), _checksum(array)

        def unchanged() -> None:
            if _checksum(array) != before:
                raise _changed(op, what, array, site)

        return unchanged

    def verify(self, record: Record) -> None:
        sums = self.sums.get(record.number)
        if sums is None:  # from before detect_anomaly began
            return
        for j, (kept, before) in enumerate(zip(record.kept or (), sums)):
            if _checksum(kept) != before:
                raise _changed(record.name, _what(record, j), kept, self.sites[record.number])

    def _site(self) -> str:
        frame: Any = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename.startswith(_HERE):
            frame = frame.f_back
        line = f'at "{frame.f_code.co_filename}", line {frame.f_lineno}' if frame is not None else "at an unknown line"
        return f"{line}, in module {self.path}" if self.path else line


def _checksum(kept: Any) -> int | None:
    """A number that tells of a change in an array, or in one of a tuple; None for anything else.

    Of an axis along which elements are repeated in place, one counts.
    """
    if isinstance(kept, tuple):
        return hash(tuple(map(_checksum, kept)))
    if not library.is_array(kept):
        return None
    xp = library.module_of(kept)
    once = kept[tuple(slice(None) if step else slice(1) for step in kept.strides)]
    if xp is np:
        rows: Any = once.T if once.flags.f_contiguous else np.ascontiguousarray(once)
        return zlib.crc32(rows)
    devices.settle(kept)
    bits = xp.ascontiguousarray(once).reshape(-1).view(f"uint{8 * kept.dtype.itemsize}").astype("uint64")
    places = xp.arange(1, bits.size + 1, dtype="uint64")  # an exchange of two elements is a change as well
    return int((bits * (2 * places + 1)).sum().item())


def _what(record: Record, j: int) -> str:
    """What a record calls the array number `j` that it saved."""
    place = record.plan.keep[j]
    names = ["output", *record.op.saves]
    if place < len(names):
        return "its output" if not place else names[place]
    at = place - len(names)
    last = len(record.op.inputs) - 1
    return record.op.inputs[at] if at < last or record.op.variadic is None else f"{record.op.variadic}[{at - last}]"


def _changed(op: str, what: str, array: Any, site: str) -> RuntimeError:
    shape = f" of shape {array.shape}" if library.is_array(array) else ""
    return RuntimeError(
        f"{op}: the array{shape} that it saved for backward, {what}, was changed in place since, past the tape: by way "
        f"of an array that shares its memory (from .array, .numpy() or np.asarray, or given to from_numpy), which no "
        f"version counter sees; so the derivative would be wrong; change a copy instead; the op was applied {site}"
    )


def _worst(arrays: Any, only_nan: bool = False) -> str:
    """ "NaN" where one of the arrays has one, else "infinity" where one has that, else ""."""
    found = ""
    for a in arrays:
        if isinstance(a, Variable):
            a = a.array
        if library.is_array(a) and a.dtype.kind == "f" and a.size:
            xp = library.module_of(a)
            if not xp.isfinite(a).all().item():
                if xp.isnan(a).any().item():
                    return "NaN"
                found = "" if only_nan else "infinity"
    return found


class detect_anomaly(setting):
    """Find the first op that makes a NaN or an infinity, forward or backward, in the block.

    Raises AnomalyError there, naming the op, the module, the line of code and the shapes. Infinities that code makes on
    purpose (masks of −∞, ln 0) are let through until a NaN comes of them.

    RuntimeError where an array that an op saved for the backward pass was changed past the tape, through another array
    on its memory (from `.array`, `.numpy()` or `np.asarray`, a view, or the one given to `from_numpy`): a checksum
    tells when the pass reads it; the message names the op, what it saved, and the line that applied it.

    Slower: for the search only.

    >>> import tinygrad_edu as tg
    >>> x = tg.tensor([0.0], requires_grad=True)
    >>> with detect_anomaly():
    ...     y = x.sqrt()
    ...     y.backward()  # the slope of √x at 0  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    tinygrad_edu.watching.AnomalyError: sqrt: the gradient of its input x (1,) is the first with an infinity in ...
    """

    def __init__(self) -> None:
        super().__init__()

    def begin(self) -> dict[str, Any]:
        """A listener for this block alone; within another such block that one's."""
        if isinstance(active().trace, _Anomaly):
            return {}
        if active().trace is not None:
            raise RuntimeError("detect_anomaly: another listener is at work in this thread; leave its block first")
        return {"trace": _Anomaly()}
