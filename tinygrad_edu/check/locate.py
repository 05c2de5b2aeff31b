"""Which op is to blame: the ops that a function runs, each of them examined by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tinygrad_edu.arrays import devices, dtypes, library, memory
from tinygrad_edu.check.errors import Finding, Verdict
from tinygrad_edu.check.examine import Options, examine, examine_second
from tinygrad_edu.check.subject import Subject
from tinygrad_edu.engine.modes import Listener, setting
from tinygrad_edu.engine.tape import Op, Variable
from tinygrad_edu.tensor import tensor

_SECOND = "the rule is right, its own derivative is not: a rule can be differentiated where it computes with ops alone"


class Application(NamedTuple):
    """One op that ran: its inputs as given and as arrays of one dtype, and which of them a gradient goes back to."""

    op: type[Op]
    inputs: tuple[Any, ...]
    arrays: list[Any]
    outputs: tuple[Any, ...]
    static: dict[str, Any]
    at: list[int]


class Ran(Listener):
    """Notes the ops that run."""

    def __init__(self) -> None:
        self.applications: list[Application] = []

    def applied(
        self, op: type[Op], inputs: Any, arrays: list[Any], outputs: Any, static: dict[str, Any], record: Any
    ) -> None:
        at = [] if record is None else [i for i, entry in enumerate(record.inputs) if entry is not None]
        copies = [memory.own_copy(a) if library.is_array(a) else a for a in arrays]  # fn may write into them later
        self.applications.append(Application(op, tuple(inputs), copies, tuple(outputs), dict(static), at))


def ops_of(subject: Subject) -> list[Application]:
    """The ops that one call of the function runs, in order; of a gradient, also those of the rules."""
    listener = Ran()
    with setting(trace=listener), np.errstate(all="ignore"):
        subject.call(subject.points)
    return listener.applications


def op_to_blame(applications: list[Application], options: Options, order: int) -> Finding | None:
    """The first op that is wrong by itself; without one, the first at a point where it has no derivative.

    For `order` 2, the ops that the rules ran are among the applications, and after the first derivatives of all of
    them the second derivatives are looked at.
    """
    doubt: Finding | None = None
    for look in range(1, order + 1):
        for application in applications:
            if not application.at or any(application.arrays[i].dtype != dtypes.float64 for i in application.at):
                continue
            found = _of(application, options, look)
            if found is not None and found.verdict not in (Verdict.KINK, Verdict.NOISE, Verdict.RANDOM):
                return found
            if doubt is None and found is not None and found.verdict is Verdict.KINK:
                doubt = found
    return doubt


def _of(application: Application, options: Options, order: int) -> Finding | None:
    op = application.op

    def apply(*arrays: Any) -> Any:
        return op(*arrays, **application.static)

    arguments = [
        tensor(a) if isinstance(x, Variable) else x for x, a in zip(application.inputs, application.arrays, strict=True)
    ]
    subject = Subject(apply, arguments, application.at, f"op {op.name}")
    subject.inputs = [_name(op, i) for i in application.at]
    subject.names = list(subject.inputs)
    subject.outputs = [] if op.outputs else ["out"]
    try:
        subject.prepare()
    except (TypeError, ValueError):  # nothing finite, or nothing in float64: nothing to be said
        return None
    try:
        if order == 1:
            found = examine(subject, options)
        else:
            found = examine_second(subject, subject.random_weights(np.random.default_rng(options.seed)), options)
            if found is not None and not found.note:
                found = replace(found, note=_SECOND)
    except Exception as error:
        found = Finding(Verdict.RAISED, note=f"{type(error).__name__}: {error}")
    return None if found is None else replace(found, op=op.name)


def _name(op: type[Op], i: int) -> str:
    if op.variadic is not None and i >= len(op.inputs) - 1:
        return f"{op.variadic}[{i - len(op.inputs) + 1}]"
    return op.inputs[i]


def first_random_op(subject: Subject) -> str | None:
    """The first op that gives two results where everything before it was the same."""
    for one, other in zip(ops_of(subject), ops_of(subject), strict=False):
        for x, y in zip(one.outputs, other.outputs, strict=False):
            if x.array.shape != y.array.shape or not np.array_equal(_host(x), _host(y), equal_nan=True):
                return one.op.name
    return None


def _host(x: Any) -> Any:
    array = devices.to_device(x.array, "cpu")
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def clue(applications: list[Application], verdict: Verdict) -> str:
    """What in the run may explain a finding that no single op explains."""
    if verdict is Verdict.NOISE:
        narrow = [
            a for a in applications if any(y.array.dtype.itemsize < 8 and y.array.dtype.kind == "f" for y in a.outputs)
        ]
        if narrow:
            return f"op {narrow[0].op.name} computes in {narrow[0].outputs[0].array.dtype}; use float64 throughout"
        sizes = [(max((_largest(y) for y in a.outputs), default=0.0), a.op.name) for a in applications]
        top, name = max(sizes, default=(0.0, ""))
        return (
            f"op {name} gives values up to {top:.3g}, beside which small changes lose their digits" if top > 1e6 else ""
        )
    if verdict is Verdict.KINK:
        return ""
    cut = [a.op.name for a in applications if not a.at and a.op.name == "detach"]
    ran = sum(bool(a.at) for a in applications)
    where = "fn calls detach()" if cut else "look for detach(), .data, .array or NumPy inside fn"
    return f"by itself each of the {ran} recorded ops is right, so something breaks the way between them: {where}"


def _largest(y: Any) -> float:
    array = _host(y)
    array = np.abs(array[np.isfinite(array)])
    return array.max().item() if array.size else 0.0
