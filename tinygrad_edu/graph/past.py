"""What an existing tensor came from, read from the tape alone: the records of its ops, taken for a trace of them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from tinygrad_edu.arrays import library
from tinygrad_edu.engine import tape
from tinygrad_edu.engine.modes import setting
from tinygrad_edu.engine.reverse import differentiate
from tinygrad_edu.engine.tape import Variable, wrap
from tinygrad_edu.graph.describe import is_copy, is_optional, kept_inputs, kept_outputs, picked_names
from tinygrad_edu.graph.graph import Graph
from tinygrad_edu.graph.record import Note, Output, Record
from tinygrad_edu.graph.recorder import UNKNOWN, Recorder
from tinygrad_edu.graph.watch import Watch
from tinygrad_edu.nn.module import Module
from tinygrad_edu.nn.parameter import Parameter

_OPENED = ("scaled_dot_product_attention",)
_ALONE = Note(
    "drawn from the tape alone, which keeps no lines of code, no modules and no values that backward does not read: "
    "trace(function, *inputs) shows them"
)
_FREED = Note(
    "no gradients drawn: an earlier backward pass freed what the ops had saved; draw before it, or pass "
    "retain_graph=True to it"
)


def graph_of(root: Variable, inputs: tuple[Any, ...], local: Mapping[str, Any]) -> Graph:
    """The graph of what `root` came from. inputs: tensors that are no parameters, and modules; local: names of values.

    The records are copied, so the tape itself stays as it is: its saved arrays, hooks and `.grad`s.
    """
    called = next((name for name, x in local.items() if x is root and _is_name(name)), None)
    record = Record(called or (root.record.name if root.record is not None else "tensor"))
    recorder = Recorder(record, None)
    for x in inputs:
        if isinstance(x, Module):
            recorder.adopt(x, "")
    records = _records(root)
    past = _Past(recorder, records, root, local)
    for name, x in _variables(local):
        if any(x is given for given in inputs):
            recorder.bound(x, name, "argument")
    for x in inputs:
        if isinstance(x, Variable):
            record.inputs.append(recorder.leaf(x, "input"))
    modules = any(isinstance(x, Module) for x in inputs)
    if modules or any(isinstance(x, Parameter) for x in past.leaves):
        recorder.learning = {id(x) for x in past.leaves if isinstance(x, Parameter)} | {
            id(p) for m in inputs if isinstance(m, Module) for p in m.parameters()
        }
    known = [x for x in (*inputs, *(x for _, x in _variables(local))) if isinstance(x, Variable)]
    for array in (array for entry in records for array in picked_names(entry.static).values()):
        source = next((x for x in known if is_copy(array, x.array)), None)
        if source is not None:  # an index is kept as a copy
            recorder.copied(source, array)
    with setting(grad=True):
        for entry in records:
            past.play(entry)
    for name, x in _variables(local):
        recorder.bound(past.now(x), name, "assigned")
    _finish(past, root)
    return Graph(record)


def _finish(past: _Past, root: Variable) -> None:
    """The result, and the backward pass from it where what the ops saved is still there."""
    recorder, record = past.recorder, past.recorder.record
    end = past.now(root)
    record.loss = root.array.size == 1 and root.requires_grad
    flows = end.record is not None
    number: Any = recorder.value(end)
    record.outputs.append(Output("", number, None))
    if flows:
        record.notes.append(_ALONE)
    lost = sum(value.kind == "unknown" for value in record.values)
    if lost:
        record.notes.append(
            Note("? stands for a value that needs no gradient and was not kept ({n} of them)", {"n": lost})
        )
    if flows and any(entry.kept is None for entry in past.records):
        record.notes.append(_FREED)
    elif flows:
        record.outputs[0].seed = "1" if record.loss else "ones"
        recorder.backward = True
        try:
            with setting(trace=recorder):
                differentiate([end], [library.module_of(root.array).ones_like(root.array)], retain=True)
        except RuntimeError as error:  # a saved value was changed in place since
            record.outputs[0].seed = None
            record.branches.clear()
            record.backward.clear()
            record.sums.clear()
            record.notes.append(Note("no gradients drawn: {error}", {"error": str(error)}))
    recorder.finish()


def _records(root: Variable) -> list[tape.Record]:
    """All records that lead to a value, in the order they were made."""
    found: dict[int, tape.Record] = {}
    stack: list[Any] = [root.record]
    while stack:
        entry = stack.pop()
        if isinstance(entry, tape.Record) and entry.number not in found:
            found[entry.number] = entry
            stack += [source[0] for source in entry.inputs if source]
    return [found[number] for number in sorted(found)]


def _is_name(name: str) -> bool:
    return name.strip("_") == name and name != ""


def _variables(local: Mapping[str, Any]) -> list[tuple[str, Variable]]:
    return [(name, x) for name, x in local.items() if isinstance(x, Variable) and _is_name(name)]


class _Past:
    """The records being told to a recorder once more, as if their ops ran now."""

    def __init__(
        self, recorder: Recorder, records: list[tape.Record], root: Variable, local: Mapping[str, Any]
    ) -> None:
        self.recorder, self.records, self.kind = recorder, records, root.result
        self.leaves = [e[0] for r in records for e in r.inputs if e and isinstance(e[0], Variable)]
        self.twins: dict[int, Variable] = {}
        self.made: dict[tuple[int, int], Variable] = {}  # (number of a record, output) -> the value as told
        self.known: dict[tuple[int, int], Any] = {}  # the same -> its array, where some rule still has it
        for entry in records:
            for at, array in kept_inputs(entry).items():
                source = entry.inputs[at]
                if source and isinstance(source[0], tape.Record) and library.is_array(array):
                    self.known[source[0].number, source[1]] = array
            self.known |= {(entry.number, i): array for i, array in kept_outputs(entry).items()}
        for x in (root, *(x for _, x in _variables(local))):
            if x.record is not None:
                self.known[x.record.number, x.index] = x.array

    def now(self, x: Variable) -> Variable:
        """A value of the tape as it was told."""
        return self.made.get((x.record.number, x.index), x) if x.record is not None else x

    def play(self, entry: tape.Record) -> None:
        """Tell of one op; attention as its definition where all that it read was kept."""
        kept = kept_inputs(entry)
        inputs = [self._input(entry, at, kept) for at in range(len(entry.inputs))]
        if entry.op.name in _OPENED and kept and all(x is not UNKNOWN for x in inputs):
            watch = Watch(self.recorder.bound, self.recorder.returned, self.recorder.unpacked)
            with setting(trace=self.recorder), self.recorder.opened(entry.op, inputs, entry.static), watch:
                out = entry.op.definition(*inputs, **entry.static)  # type: ignore[misc]
            self.made[entry.number, 0] = out
            return
        told = copy.copy(entry)
        told.number = tape.number()
        told.inputs = [
            None if source is None else (x.record or x, x.index) for source, x in zip(entry.inputs, inputs, strict=True)
        ]
        outputs = tuple(self._output(entry, told, i) for i in range(len(entry.shapes)))
        arrays = [x.array if isinstance(x, Variable) else x for x in inputs]
        self.recorder.applied(entry.op, inputs, arrays, outputs, entry.static, told)

    def _input(self, entry: tape.Record, at: int, kept: dict[int, Any]) -> Any:
        source = entry.inputs[at]
        if source is not None:
            before, index = source
            return self.made[before.number, index] if isinstance(before, tape.Record) else self._leaf(before)
        if at in kept:
            return wrap(self.kind, kept[at]) if library.is_array(kept[at]) else kept[at]
        return None if is_optional(entry.op, at) else UNKNOWN

    def _leaf(self, leaf: Variable) -> Variable:
        """A twin of a leaf, which has none of its hooks."""
        if id(leaf) not in self.twins:
            self.recorder.value(leaf)
            twin = self.twins[id(leaf)] = wrap(self.kind, leaf.array, version=leaf._version)
            twin.needs = leaf.needs
        return self.twins[id(leaf)]

    def _output(self, entry: tape.Record, told: tape.Record, i: int) -> Variable:
        shape, dtype = entry.shapes[i], entry.dtypes[i]
        array = self.known.get((entry.number, i))
        if array is None or array.shape != shape:
            array = self.recorder.unseen(shape, dtype)
        made: Variable = wrap(self.kind, array, told, i)
        self.made[entry.number, i] = made
        return made
