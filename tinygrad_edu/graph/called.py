"""What the code calls its modules, values and axes, noted down while it runs."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tinygrad_edu.engine.modes import Listener
from tinygrad_edu.engine.tape import Variable
from tinygrad_edu.graph.describe import axis_words
from tinygrad_edu.graph.record import Call, Name, Record
from tinygrad_edu.nn.module import Module

Key = int | tuple[int, int]  # id of an array, or (number of a tape record, output)


class Called(Listener):
    """The half of a recorder that knows names. It holds all arrays and modules, so that ids stay theirs."""

    def __init__(self, record: Record, root: Module | None) -> None:
        self.record = record
        self.values: dict[int, int] = {}  # id of an array -> Value
        self.applications: dict[int, int] = {}  # number of a tape record -> Application
        self.held: list[Any] = []
        self.names: dict[Key, list[Name]] = {}
        self.functions: dict[int, int] = {0: 0}  # number of a frame -> number among those that bound a name
        self.axes: dict[Key, list[str | None]] = {}
        self.exact: set[Key] = set()  # values whose axes were named by `named`
        self.owners: dict[int, tuple[str, str]] = {}  # id of an array -> kind and path of the module's tensor
        self.owned: dict[str, Any] = {}  # path of a module's tensor -> its array
        self.wanted: dict[str, int] = {}  # path of a parameter that wants a gradient -> id of its array
        self.paths: dict[int, str] = {}  # id of a module -> path
        self.met: dict[int, str] = {}  # id of a module -> the variable that held it first
        self.calls: list[tuple[Module, int]] = []
        self.runs: Counter[str] = Counter()  # of the modules, by path
        if root is not None:
            self.adopt(root, "")

    # Modules

    def adopt(self, module: Module, prefix: str) -> None:
        """Learn the paths of a module and of all it holds."""
        for path, inner in module.named_modules(prefix=prefix):
            self.paths.setdefault(id(inner), path)
            self.held.append(inner)
        for kind, pairs in (
            ("parameter", module.named_parameters(prefix, remove_duplicate=False)),
            ("buffer", module.named_buffers(prefix, remove_duplicate=False)),
        ):
            for path, tensor in pairs:
                self.owners.setdefault(id(tensor.array), (kind, path))
                self.owned[path] = tensor.array
                self.held.append(tensor.array)
                if tensor.requires_grad:
                    self.wanted.setdefault(path, id(tensor.array))

    def enter(self, module: Module) -> None:
        if id(module) not in self.paths:
            outer = self.paths[id(self.calls[-1][0])] if self.calls else ""
            name = self.met.get(id(module), type(module).__name__.lower())
            taken = set(self.paths.values())
            path = f"{outer}.{name}" if outer else name
            while path in taken:
                path += "_"
            self.adopt(module, path)
        path = self.paths[id(module)]
        self.runs[path] += 1
        parent = self.calls[-1][1] if self.calls else None
        self.record.calls.append(Call(len(self.record.calls), path, type(module).__name__, self.runs[path], parent))
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

    def named(self, x: Any, name: str, axes: str | None) -> None:
        """The code calls a value and its axes by names."""
        self._name(x, Name(name, "given", 0, (None, 0)))
        if axes is not None:
            words = axis_words(axes, x.array.shape, f"named({name!r})")
            self.axes[self._key(x)] = words
            self.exact.add(self._key(x))

    def returned(self, module: Any, result: Any) -> None:
        """A module's forward came back with a result: it is called by the module's attribute name."""
        if self.calls and self.calls[-1][0] is module and isinstance(result, Variable):
            attribute = self.paths[id(module)].rpartition(".")[2]
            if attribute and not attribute.isdigit():
                outer = self.calls[-2][1] if len(self.calls) > 1 else None
                self._name(result, Name(attribute, "module", 0, (outer, 0)))

    def variables(self) -> list[tuple[int, str]]:
        """The leaves that want a gradient and belong to no module: the Value, and what a variable calls it."""
        found = []
        for key, names in self.names.items():
            number = self.values.get(key) if isinstance(key, int) else None
            value = self.record.values[number] if number is not None else None
            if value is not None and value.made_by is None and value.gradient and value.path is None:
                found += [(value.id, name.text) for name in names if value.kind != "input"]
        return found

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

    def put_down(self, places: dict[Any, int]) -> None:
        """Put down with the values what they and their axes were called."""
        for key, names in self.names.items():
            if key in places:
                self.record.values[places[key]].names += names
        for key, axes in self.axes.items():
            if key in places:
                self.record.values[places[key]].axes = tuple(axes)
                self.record.values[places[key]].given = key in self.exact
