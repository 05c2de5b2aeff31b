"""The listener that the engine tells of every op, module and gradient branch, and that writes them into a Record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tinygrad_edu import backend, tape
from tinygrad_edu.graph.describe import (
    address_of,
    arguments_of,
    dtype_of,
    formula_of,
    names_of,
    plain,
    reads_of,
    same_integers,
)
from tinygrad_edu.graph.grids import cut, shown
from tinygrad_edu.graph.record import Application, Branch, Call, Group, Line, Name, Record, Saved, Sum, Value
from tinygrad_edu.modes import Listener
from tinygrad_edu.nn.module import Module
from tinygrad_edu.nn.parameter import Buffer, Parameter
from tinygrad_edu.tape import Op, Variable

Key = int | tuple[int, int]  # id of an array, or (number of a tape record, output)
_COPIES = {"clone", "cast", "transfer"}  # ops that arrange nothing anew but are no views either


class Recorder(Listener):
    """Set as `trace` of the thread's mode, it fills `record`. It holds all arrays, so that ids stay theirs."""

    lifts = True

    def __init__(self, record: Record, root: Module | None) -> None:
        self.record = record
        self.line: Callable[[], Line | None] = lambda: None
        self.backward = False
        self.values: dict[int, int] = {}  # id of an array -> Value
        self.made: dict[tuple[int, int], int] = {}  # (number of a tape record, output) -> Value
        self.versions: dict[int, int] = {}  # id of an array -> its version when its Value was written down
        self.held: list[Any] = []
        self.names: dict[Key, list[Name]] = {}
        self.functions: dict[int, int] = {0: 0}  # number of a frame -> number among those that bound a name
        self.axes: dict[Key, list[str | None]] = {}
        self.owners: dict[int, tuple[str, str]] = {}  # id of an array -> kind and path of the module's tensor
        self.wanted: dict[str, int] = {}  # path of a parameter that wants a gradient -> id of its array
        self.paths: dict[int, str] = {}  # id of a module -> path
        self.applications: dict[int, int] = {}  # number of a tape record -> Application
        self.records: list[tape.Record] = []
        self.kept: set[tuple[int, int]] = set()
        self.calls: list[tuple[Module, int]] = []
        self.groups: list[int] = []
        self.running: list[list[int]] = []  # where backward ops are noted down
        self.pending: dict[tuple[int, int], list[int]] = {}  # by (tape record, input): ops of a branch on its way
        self.given: list[Any] = []  # arrays that the traced function was called with
        self.arrivals: list[Branch] = []  # of the op whose rules ran last
        if root is not None:
            self._adopt(root, "")

    # Modules

    def _adopt(self, module: Module, prefix: str) -> None:
        """Learn the paths of a module and of all it holds."""
        for path, inner in module.named_modules(prefix):
            self.paths.setdefault(id(inner), path)
            self.held.append(inner)
        for kind, pairs in (
            ("parameter", module.named_parameters(prefix, remove_duplicate=False)),
            ("buffer", module.named_buffers(prefix, remove_duplicate=False)),
        ):
            for path, tensor in pairs:
                self.owners.setdefault(id(tensor.array), (kind, path))
                self.held.append(tensor.array)
                if tensor.requires_grad:
                    self.wanted.setdefault(path, id(tensor.array))

    def enter(self, module: Module) -> None:
        if id(module) not in self.paths:
            outer = self.paths[id(self.calls[-1][0])] if self.calls else ""
            name = type(module).__name__.lower()
            taken = set(self.paths.values())
            path = f"{outer}.{name}" if outer else name
            while path in taken:
                path += "_"
            self._adopt(module, path)
        path = self.paths[id(module)]
        nth = 1 + sum(call.path == path for call in self.record.calls)
        parent = self.calls[-1][1] if self.calls else None
        self.record.calls.append(Call(len(self.record.calls), path, type(module).__name__, nth, parent))
        self.calls.append((module, len(self.record.calls) - 1))

    def leave(self, module: Module) -> None:
        self.calls.pop()

    def _scope(self) -> int | None:
        return self.calls[-1][1] if self.calls else None

    # Names

    def bound(self, x: Any, name: str, how: str, depth: int = 0, frame: int = 0) -> None:
        """A local variable of the user's came to hold a Variable or an array."""
        function = self.functions.setdefault(frame, len(self.functions))
        self._name(x, Name(name, how, depth, (self._scope(), function)))

    def unpacked(self, x: Any, names: list[str | None]) -> None:
        """The code took the shape of a Variable or an array apart into names."""
        key = self._key(x)
        known = self.axes.setdefault(key, [None] * len(names))
        self.axes[key] = [old or new for old, new in zip(known, names, strict=False)]

    def returned(self, module: Any, result: Any) -> None:
        """A module's forward came back with a result: it is called by the module's attribute name."""
        if self.calls and self.calls[-1][0] is module and isinstance(result, Variable):
            attribute = self.paths[id(module)].rpartition(".")[2]
            if attribute and not attribute.isdigit():
                outer = self.calls[-2][1] if len(self.calls) > 1 else None
                self._name(result, Name(attribute, "module", 0, (outer, 0)))

    def _name(self, x: Any, name: Name) -> None:
        known = self.names.setdefault(self._key(x), [])
        if name not in known:
            known.append(name)

    def _key(self, x: Any) -> Key:
        """What tells a value from all others: which output it is, or else its array."""
        if isinstance(x, Variable):
            if x.record is not None and x.record.number in self.applications:
                return x.record.number, x.index
            x = x.array
        if id(x) not in self.values:
            self.held.append(x)
        return id(x)

    def finish(self) -> None:
        """Put down with the values what they and their axes were called."""
        places: dict[Any, int] = {**self.values, **self.made}
        for key, names in self.names.items():
            if key in places:
                self.record.values[places[key]].names += names
        for key, axes in self.axes.items():
            if key in places:
                self.record.values[places[key]].axes = tuple(axes)
        self.record.unread = [path for path, array in self.wanted.items() if array not in self.values]

    # Values

    def value(self, x: Any) -> int | None:
        """The number of the Value that an op's input is, a new one where it was not seen before."""
        if x is None:
            return None
        array = x.array if isinstance(x, Variable) else x
        if not backend.is_array(array):
            return self._new(Value(0, (), type(array).__name__, "number", number=float(array)))
        if isinstance(x, Variable):
            made = self.made.get((x.record.number, x.index)) if x.record is not None else None
            if made is not None:
                return made
            if self.versions.setdefault(id(array), x._version[0]) != x._version[0]:
                self.versions[id(array)] = x._version[0]
                return self.leaf(x, "tensor")  # changed in place off the tape: another value in the same memory
        known = self.values.get(id(array))
        return known if known is not None else self.leaf(x, "tensor")

    def leaf(self, x: Any, kind: str) -> int:
        """A Value for an array that no recorded op made."""
        array = x.array if isinstance(x, Variable) else x
        kind, path = self.owners.get(id(array), (kind, None))
        if kind == "tensor" and array.dtype.kind in "iub" and any(same_integers(array, given) for given in self.given):
            kind = "input"  # a copy, as a model makes of ids that come as plain arrays
            source = next(given for given in self.given if same_integers(array, given))
            if id(source) in self.axes:
                self.unpacked(array, self.axes[id(source)])
        if isinstance(x, Parameter | Buffer) and path is None:
            kind = "parameter" if isinstance(x, Parameter) else "buffer"
        wanted = isinstance(x, Variable) and x.requires_grad
        if kind == "tensor" and isinstance(x, Variable) and x.record is not None:
            kind = "earlier"
        value = Value(0, tuple(array.shape), dtype_of(array.dtype), kind, gradient=wanted, path=path)
        value.shown = None if self.backward else shown(array, made=False)
        return self._new(value, array)

    def _new(self, value: Value, array: Any = None) -> int:
        value.id = len(self.record.values)
        self.record.values.append(value)
        if array is not None:
            self.values[id(array)] = value.id
            self.held.append(array)
        return value.id

    # Ops

    def applied(
        self, op: type[Op], inputs: Any, arrays: list[Any], outputs: Any, static: dict[str, Any], record: Any
    ) -> None:
        if not self.backward and all(id(y.array) in self.values for y in outputs):
            return  # an op that had nothing to do and gave its input back
        target = self.record.backward if self.backward else self.record.forward
        read = tuple(self.value(x) for x in inputs)
        for number, array in zip(read, arrays, strict=True):  # an operand that was brought to another dtype
            if number is not None and backend.is_array(array) and id(array) not in self.values:
                self.values[id(array)] = number
                self.held.append(array)
        size = arrays[0].size if arrays and backend.is_array(arrays[0]) else -1
        kind: Any = op  # type checkers hold classes of ops to be unhashable
        application = Application(
            id=len(target),
            op=op.name,
            arguments=arguments_of(kind, len(inputs)),
            inputs=read,
            outputs=(),
            static={name: plain(value) for name, value in static.items()},
            formula=formula_of(kind),
            fused=op.definition is not None,
            arranges=(op.views or op.name in _COPIES) and sum(y.array.size for y in outputs) == size,
            call=self._scope(),
            group=self.groups[-1] if self.groups else None,
        )
        target.append(application)
        application.outputs = tuple(self._output(y, i, application) for i, y in enumerate(outputs))
        if self.backward:
            if self.running:
                self.running[-1].append(application.id)
            else:
                self._fitted(application)
            return
        self._cut(arrays, outputs, application)
        application.line = self.line()
        if record is not None:
            self.applications[record.number] = application.id
            self.made.update(((record.number, i), number) for i, number in enumerate(application.outputs))
            self.records.append(record)
            application.saved = self._saved(record, application)

    def _output(self, y: Any, index: int, application: Application) -> int:
        known = self.values.get(id(y.array))
        if known is not None:  # a rule that hands its gradient on as it is
            return known
        value = Value(0, tuple(y.array.shape), dtype_of(y.array.dtype), "op", application.id, index, y.requires_grad)
        if not self.backward:
            value.shown = shown(y.array, made=True)
        return self._new(value, y.array)

    def _cut(self, arrays: list[Any], outputs: Any, application: Application) -> None:
        """Note where the op made weights 0 that rows summing to 1 had."""
        made = self.record.values[application.outputs[0]]
        for number, array in zip(application.inputs, arrays, strict=True):
            known = self.record.values[number].shown if number is not None else None
            if made.shown is None and known is not None and known.what == "weights":
                made.shown = cut(array, outputs[0].array)

    def _saved(self, record: tape.Record, application: Application) -> list[Saved]:
        """What the op kept, each memory counted where it is first kept, parameters never."""
        names = names_of(record.op, application)
        found = []
        for place, kept in zip(record.plan.keep, record.kept or [], strict=False):
            for array in kept if isinstance(kept, tuple) else (kept,):
                if not backend.is_array(array):
                    continue
                number = self.values.get(id(array))
                if number is None:
                    number = self._new(Value(0, tuple(array.shape), dtype_of(array.dtype), "saved"), array)
                memory = address_of(array), array.nbytes
                counted = memory not in self.kept and not self.record.values[number].learned
                self.kept.add(memory)
                found.append(Saved(names[place], number, int(array.nbytes), counted))
        return found

    @contextmanager
    def opened(self, op: type[Op], inputs: Any, static: dict[str, Any]) -> Iterator[None]:
        """A fused op runs as its definition."""
        if self.backward:
            yield
            return
        parent = self.groups[-1] if self.groups else None
        told = {name: plain(value) for name, value in static.items()}
        self.record.groups.append(Group(len(self.record.groups), op.name, self._scope(), parent, told))
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
            raise ValueError(
                "trace: the function runs backward itself; let it return the loss, and the trace goes back from there"
            )
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
            applications=ran,
        )
        self.record.branches.append(branch)
        self.arrivals.append(branch)
        for number in ran:
            self.record.backward[number].branch = branch.id

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
