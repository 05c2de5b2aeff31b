"""The listener that the engine tells of every op, module and gradient branch, and that writes them into a Record."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tinygrad_edu.arrays import library, memory
from tinygrad_edu.engine import tape
from tinygrad_edu.engine.modes import active
from tinygrad_edu.engine.tape import Op, Variable
from tinygrad_edu.graph.axes import Axes, axes_of
from tinygrad_edu.graph.called import Called
from tinygrad_edu.graph.describe import (
    arguments_of,
    dtype_of,
    formula_of,
    is_copy,
    names_of,
    picked_names,
    plain_arguments,
    reads_of,
)
from tinygrad_edu.graph.grids import (
    LARGEST,
    Look,
    Scores,
    beside,
    cut,
    hidden,
    in_slices,
    integers,
    look,
    masked,
    scores,
)
from tinygrad_edu.graph.record import Application, Branch, Group, Line, Name, Record, Saved, Sum, Value
from tinygrad_edu.nn.module import Module
from tinygrad_edu.nn.parameter import Buffer, Parameter

_COPIES = {"clone", "cast", "transfer"}  # ops that arrange nothing anew but are no views either

_WEIGHING = {"softmax": math.e, "log_softmax": math.e, "exp": math.e, "exp2": 2.0}  # ops that raise this to the scores
_FILLED = {0.0: "zeros", 1.0: "ones"}
UNKNOWN: Any = object()  # stands for an input of an op of which the tape kept nothing


class Recorder(Called):
    """Set as `trace` of the thread's mode, it fills `record`."""

    lifts = True

    def __init__(self, record: Record, root: Module | None) -> None:
        super().__init__(record, root)
        self.line: Callable[[], Line | None] = lambda: None
        self.backward = False
        self.made: dict[tuple[int, int], int] = {}  # (number of a tape record, output) -> Value
        self.versions: dict[int, int] = {}  # id of an array -> its version when its Value was written down
        self.records: list[tape.Record] = []
        self.kept: set[tuple[int, int]] = set()
        self.groups: list[int] = []
        self.running: list[list[int]] = []  # where backward ops are noted down
        self.pending: dict[tuple[int, int], list[int]] = {}  # by (tape record, input): ops of a branch on its way
        self.given: list[Any] = []  # arrays that the traced function was called with
        self.arrivals: list[Branch] = []  # of the op whose rules ran last
        self.fused: list[tuple[Application, type[Op], Any, dict[str, Any]]] = []  # with inputs and static arguments
        self.looks: dict[int, Look] = {}  # by Value: what there is to see in it
        self.masks: dict[int, Any] = {}  # by Value: where the op that made it lowered scores as a mask does
        self.biases: dict[int, Any] = {}  # by Value: where the op that made it lowered scores with distance
        self.scores: dict[int, Scores] = {}  # by Value: what a softmax or exp makes of it
        self.arrays: dict[int, Any] = {}  # by Value
        self.reading: dict[int, int] = {}  # id of an array -> the last Application whose first input it was
        self.orders: dict[int, int] = {}  # by Value: how often what it holds has been differentiated, where not 0
        self.order = 0  # of what runs now
        self.hollow: set[int] = set()  # ids of arrays that stand for values whose numbers are not known
        self.learning: set[int] | None = None  # ids of the leaves that are parameters, None where all may be

    def finish(self) -> None:
        """Put down what only the whole of the run tells."""
        self.put_down({**self.values, **self.made})
        self._look_again()
        self.record.unread = [path for path, array in self.wanted.items() if array not in self.values]

    def _look_again(self) -> None:
        """Queries become the rows of grids and keys their columns, wherever these axes stand."""
        if not self.looks and not self.scores:
            return
        axes = axes_of(self.record)
        for number, seen in self.looks.items():
            value = self.record.values[number]
            places = axes.pairing(number)
            if places is not None:
                value.shown = seen.grid(places)
                if seen.what == "weights" and seen.axis == places[0]:
                    value.shown.pattern = "columns"
            elif seen.what != "hidden" and seen.axis != len(value.shape) - 1:
                value.shown = None
        for number, read in self.scores.items():
            if number in axes.pairs or not axes.pairs:
                self._hidden(number, read, axes)

    def _hidden(self, number: int, read: Scores, axes: Axes) -> None:
        """What is hidden of scores, told from the weights that they became, and of what these scores were made from."""
        last = len(self.record.values[number].shape) - 1
        places = axes.pairing(number) or beside(last if read.axis is None else read.axis)
        weights = read.weights(places)
        marks: dict[int, Any] = {}
        biases: dict[int, Any] = {}

        def all_of(own: list[Any], known: dict[int, Any], read_from: list[int], at: tuple[int, int]) -> Any:
            found = np.zeros(weights.shape, bool)
            for slices in (*(in_slices(cells, at) for cells in own if cells is not None), *map(known.get, read_from)):
                if slices is not None and slices.shape[1:] == found.shape[1:] and len(slices) in (1, len(found)):
                    found = found | slices
            return found

        for made, read_from in self._scored(number, axes).items():
            at = axes.pairing(made) or places
            seen = self.looks.get(made)
            own = [self.masks.get(made), seen.marks if seen and seen.what == "hidden" else None]
            found = marks[made] = all_of(own, marks, read_from, at)
            falls = biases[made] = all_of([self.biases.get(made)], biases, read_from, at)
            if made in axes.pairs or not axes.pairs:
                known = weights if made == number else np.where(found | falls, weights, 1.0)
                shown = hidden(found, known, at, falls)
                self.record.values[made].shown = shown or self.record.values[made].shown

    def _scored(self, number: int, axes: Axes) -> dict[int, list[int]]:
        """Scores and the values that they were made from one by one, masks included, the first made first; by each,
        what it was made from."""
        size = self.arrays[number].size
        found: dict[int, list[int]] = {}
        stack = [number]
        while stack:
            value = stack.pop()
            if value in found:
                continue
            made_by = self.record.values[value].made_by
            inputs = [] if made_by is None or made_by in axes.queries else self.record.forward[made_by].inputs
            found[value] = [
                read
                for read in inputs
                if read in self.arrays
                and (axes.pairing(read) is not None if axes.pairs else self.arrays[read].size == size)
            ]
            stack += found[value]
        return dict(sorted(found.items()))

    # Values

    def value(self, x: Any) -> int | None:
        """The number of the Value that an op's input is, a new one where it was not seen before."""
        if x is None:
            return None
        if x is UNKNOWN:
            return self._new(Value(0, (), "", "unknown"))
        array = x.array if isinstance(x, Variable) else x
        if not library.is_array(array):
            return self._new(Value(0, (), type(array).__name__, "number", number=float(array)))
        if isinstance(x, Variable):
            made = self.made.get((x.record.number, x.index)) if x.record is not None else None
            if made is not None:
                return made
            if self.versions.setdefault(id(array), x._version[0]) != x._version[0]:
                self.versions[id(array)] = x._version[0]
                return self._changed(x)
        known = self.values.get(id(array))
        return known if known is not None else self.leaf(x, "tensor")

    def copied(self, source: Any, array: Any) -> None:
        """An index is the value that it was copied from."""
        number = self.value(source)
        if number is not None:
            self.values[id(array)] = number
            self.held.append(array)

    def _changed(self, x: Variable) -> int:
        """The Value that memory holds which was changed in place off the tape: what the op made that did it, if any."""
        last = self.reading.get(id(x.array))
        for made in () if last is None else self.record.forward[last].outputs:
            array = self.arrays[made]
            if array.shape == x.array.shape and (array == x.array).all():
                self.values[id(x.array)] = made
                return made
        return self.leaf(x, "tensor")

    def leaf(self, x: Any, kind: str) -> int:
        """A Value for an array that no recorded op made."""
        array = x.array if isinstance(x, Variable) else x
        kind, path = self.owners.get(id(array), (kind, None))
        wanted = isinstance(x, Variable) and x.requires_grad
        source = None
        if kind == "tensor" and not wanted:
            source = next((given for given in self.given if is_copy(array, given)), None)
        if source is not None:
            kind = "input"  # a copy, as a model makes of ids that come as plain arrays
            if id(source) in self.axes:
                self.unpacked(array, self.axes[id(source)])
            self.names.setdefault(id(array), []).extend(self.names.get(id(source), []))
        if isinstance(x, Parameter | Buffer) and path is None:
            kind = "parameter" if isinstance(x, Parameter) else "buffer"
        if kind == "tensor" and isinstance(x, Variable) and x.record is not None:
            kind = "earlier"
        if kind == "tensor" and wanted and self.learning is not None and id(x) not in self.learning:
            kind = "input"
        value = Value(0, tuple(array.shape), dtype_of(array.dtype), kind, gradient=wanted, path=path)
        if not self.backward:
            value.shown = integers(array)
            if kind == "tensor" and not wanted and array.size == 1:
                value.only = float(array.item())
            elif kind == "tensor" and not wanted and array.size and array.dtype.kind == "f":
                first = float(array.flat[0])
                if first in _FILLED and array.size <= LARGEST and (array == first).all():
                    self.names.setdefault(id(array), []).append(Name(_FILLED[first], "element", 0, (None, 0)))
        return self._new(value, array)

    def unseen(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An array that stands for a value of which shape and dtype are known; it takes no memory."""
        array = np.broadcast_to(np.zeros((), dtype), shape)
        self.hollow.add(id(array))
        return array

    def _new(self, value: Value, array: Any = None) -> int:
        value.id = len(self.record.values)
        self.record.values.append(value)
        if array is not None:
            self.values[id(array)] = value.id
            self.arrays[value.id] = array
            self.held.append(array)
        return value.id

    # Ops

    def applied(
        self, op: type[Op], inputs: Any, arrays: list[Any], outputs: Any, static: dict[str, Any], record: Any
    ) -> None:
        if not self.backward and all(id(y.array) in self.values for y in outputs):
            return  # an op that had nothing to do and gave its input back
        target = self.record.backward if self.backward else self.record.forward
        picked = picked_names(static)
        read = tuple(self.value(x) for x in (*inputs, *picked.values()))
        for number, array in zip(read, arrays, strict=False):  # an operand that was brought to another dtype
            if number is not None and library.is_array(array) and id(array) not in self.values:
                self.values[id(array)] = number
                self.held.append(array)
        size = arrays[0].size if arrays and library.is_array(arrays[0]) else -1
        kind: Any = op  # type checkers hold classes of ops to be unhashable
        application = Application(
            id=len(target),
            op=op.name,
            arguments=(*arguments_of(kind, len(inputs)), *picked),
            inputs=read,
            outputs=(),
            static=plain_arguments(static),
            formula=formula_of(kind),
            fused=op.definition is not None,
            arranges=(op.views or op.name in _COPIES) and not picked and sum(y.array.size for y in outputs) == size,
            call=self._scope(),
            group=self.groups[-1] if self.groups else None,
        )
        target.append(application)
        application.outputs = tuple(self._output(y, i, application) for i, y in enumerate(outputs))
        application.order = max([self.order, *(self.orders.get(i, 0) for i in read if i is not None)])
        if application.order:
            self.orders.update((number, application.order) for number in application.outputs)
        self.versions.update((id(y.array), y._version[0]) for y in outputs)
        if self.backward:
            if self.running:
                self.running[-1].append(application.id)
            else:
                self._fitted(application)
            return
        self._cut(arrays, outputs, application)
        self._mask(arrays, outputs, application)
        self._constant(outputs, application)
        if arrays and library.is_array(arrays[0]):
            self.reading[id(arrays[0])] = application.id
        application.line = self.line()
        if record is not None:
            self.applications[record.number] = application.id
            self.made.update(((record.number, i), number) for i, number in enumerate(application.outputs))
            self.records.append(record)
            application.saved = self._saved(record, application)
        if application.fused:
            self.fused.append((application, op, inputs, static))

    def _output(self, y: Any, index: int, application: Application) -> int:
        known = self.values.get(id(y.array))
        if known is not None:  # a rule that hands its gradient on as it is
            return known
        value = Value(0, tuple(y.array.shape), dtype_of(y.array.dtype), "op", application.id, index, y.requires_grad)
        number = self._new(value, y.array)
        if not self.backward and id(y.array) not in self.hollow:
            self._look(number, look(y.array))
        return number

    def _look(self, number: int, seen: Look | None) -> None:
        if seen is not None:
            self.looks[number] = seen
            self.record.values[number].shown = seen.grid(beside(seen.axis))

    def _constant(self, outputs: Any, application: Application) -> None:
        """Keep the one element of what an op made of constants of one element, such as √4."""
        read = [self.record.values[i] for i in application.inputs if i is not None]
        known = all(value.number is not None or value.only is not None for value in read)
        if known and outputs[0].array.size == 1 and not outputs[0].requires_grad:
            self.record.values[application.outputs[0]].only = float(outputs[0].array.item())

    def _cut(self, arrays: list[Any], outputs: Any, application: Application) -> None:
        """Note where the op made weights 0 that rows summing to 1 had."""
        made = self.record.values[application.outputs[0]]
        for number, array in zip(application.inputs, arrays, strict=False):
            known = self.looks.get(number) if number is not None else None
            if made.shown is None and known is not None and known.what == "weights":
                self._look(made.id, cut(array, outputs[0].array, known.axis))

    def _mask(self, arrays: list[Any], outputs: Any, application: Application) -> None:
        """Note where the op lowered scores as a mask does, and what one that makes weights of scores makes of them."""
        made, number = application.outputs[0], application.inputs[0]
        if application.op in _WEIGHING and number is not None and number not in self.scores:
            read = scores(arrays[0], application.static.get("axis"), _WEIGHING[application.op])
            if read is not None and (self.masks or not read.exps.all()):
                self.scores[number] = read
        for array in arrays:
            if made in self.masks or made in self.biases or not library.is_array(array) or array.dtype.kind != "f":
                continue
            for found, kept in zip(masked(array, outputs[0].array), (self.masks, self.biases), strict=True):
                if found is not None:
                    kept[made] = found

    def _saved(self, record: tape.Record, application: Application) -> list[Saved]:
        """What the op kept, each memory counted where it is first kept, parameters never."""
        names = names_of(record.op, application)
        found = []
        for place, kept in zip(record.plan.keep, record.kept or [], strict=False):
            for array in kept if isinstance(kept, tuple) else (kept,):
                if not library.is_array(array):
                    continue
                number = self.values.get(id(array))
                if number is None:
                    number = self._new(Value(0, tuple(array.shape), dtype_of(array.dtype), "saved"), array)
                at = memory.address_of(array), array.nbytes
                counted = at not in self.kept and not self.record.values[number].learned
                self.kept.add(at)
                found.append(Saved(names[place], number, int(array.nbytes), counted))
        return found

    @contextmanager
    def opened(self, op: type[Op], inputs: Any, static: dict[str, Any]) -> Iterator[None]:
        """A fused op runs as its definition."""
        if self.backward:
            yield
            return
        parent = self.groups[-1] if self.groups else None
        number = len(self.record.groups)
        self.record.groups.append(Group(number, op.name, self._scope(), parent, plain_arguments(static)))
        self.groups.append(len(self.record.groups) - 1)
        try:
            yield
        finally:
            self.groups.pop()

    # Backward

    @contextmanager
    def branch(self, record: tape.Record, at: int) -> Iterator[None]:
        """The rule of a gradient branch runs."""
        if not self.backward:
            if not active().grad:
                raise ValueError(
                    "trace: the function runs backward itself; let it return the loss, and the trace goes back from "
                    "there, or record the pass with create_graph=True"
                )
            yield
            return
        self.arrivals = []
        self.running.append(self.pending.setdefault((record.number, at), []))
        try:
            yield
        finally:
            self.running.pop()

    def arrived(self, record: tape.Record, at: int, gradient: Any) -> None:
        """A gradient branch has its result, or none."""
        if gradient is None:
            return
        if not self.backward:
            self._derived(record, at, gradient)
            return
        application = self.record.forward[self.applications[record.number]]
        ran = self.pending.pop((record.number, at), [])
        plan = next((b for b in record.plan.branches if b.at == at), record.plan.branches[0])
        argument = application.arguments[at]
        branch = Branch(
            id=len(self.record.branches),
            application=application.id,
            at=at,
            value=application.inputs[at],  # type: ignore[arg-type]
            gradient=self.value(gradient),  # type: ignore[arg-type]
            formula=record.op.formulas.get(argument, plan.formula),
            reads=reads_of(record, plan, application),
            shape=tuple(gradient.array.shape),
            order=1 + application.order,
            applications=ran,
        )
        self.record.branches.append(branch)
        self.arrivals.append(branch)
        for number in ran:
            self.record.backward[number].branch = branch.id

    def _derived(self, record: tape.Record, at: int, gradient: Any) -> None:
        """A gradient arrived in a reverse pass that is itself on the tape."""
        if record.number in self.applications:
            number = self.value(gradient)
            value = self.record.values[number]  # type: ignore[index]
            if value.gradient_of is None:
                value.gradient_of = self.record.forward[self.applications[record.number]].inputs[at]
            self.orders[value.id] = max(self.order, self.orders.get(value.id, 0))

    @contextmanager
    def passing(self, roots: Any) -> Iterator[None]:
        """A reverse pass runs; one inside another, as a fused op's rules run it, is part of that one."""
        outer = self.order
        if not outer and not self.backward:
            self.order = 1 + max(self.orders.get(self.value(root) or 0, 0) for root in roots)
        try:
            yield
        finally:
            self.order = outer

    def _fitted(self, application: Application) -> None:
        """An op that no rule ran: it brings what has just arrived to the shape or the dtype of its input."""
        values = self.record.values
        out = values[application.outputs[0]]
        for branch in self.arrivals:
            source, now = values[branch.value], values[branch.gradient]
            unfit = (now.shape, now.dtype) != (source.shape, source.dtype)
            if unfit and branch.gradient == application.inputs[0] and out.shape == source.shape:
                branch.gradient, branch.shape = out.id, out.shape
                branch.applications.append(application.id)
                branch.fitted = True
                application.branch = branch.id
                return

    @contextmanager
    def summing(self, source: Any, index: int) -> Iterator[None]:
        """A further contribution is added to the gradient of a value."""
        if not self.backward:
            yield
            return
        if isinstance(source, tape.Record):
            value = self.record.forward[self.applications[source.number]].outputs[index]
        else:
            value = self.values[id(source.array)]
        self.record.sums.append(Sum(len(self.record.sums), value, len(self.record.branches) - 1))
        self.running.append(self.record.sums[-1].applications)
        try:
            yield
        finally:
            for number in self.running.pop():
                self.record.backward[number].sum = self.record.sums[-1].id
