"""What a trace writes down: plain data, no arrays and no Tensors, from which every view is drawn."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Name:
    """What the code calls a value. how: "given" by `named`, "assigned", "module", "element", "argument" or "array", a
    bare one.

    depth: how many of the user's functions run around it. scope: the module call and the run of a function, by number,
    in which the name was bound.
    """

    text: str
    how: str
    depth: int
    scope: tuple[int | None, int]


@dataclass(slots=True)
class Value:
    """An array that an op made or read.

    made_by: the Application, None for a leaf. kind: "op", "input", "parameter", "buffer", "tensor", "earlier" (an op
    made it before the trace began), "saved" (an op kept it for its rules), "number" (a Python number, in `number`) or
    "unknown" (the tape kept nothing of it). gradient: one is wanted for it. path: of a parameter or buffer in its
    module. axes: names that were given to its axes, None where none was; given: they hold for this value alone before
    all others. shown: what of its numbers is kept to be drawn. only: the element of a constant that has one.
    gradient_of: the value whose gradient it is, of a pass that is itself on the tape.
    """

    id: int
    shape: tuple[int, ...]
    dtype: str
    kind: str
    made_by: int | None = None
    output: int = 0
    gradient: bool = False
    names: list[Name] = field(default_factory=list)
    path: str | None = None
    number: float | None = None
    axes: tuple[str | None, ...] | None = None
    given: bool = False
    shown: Shown | None = None
    only: float | None = None
    gradient_of: int | None = None

    @property
    def learned(self) -> bool:
        """Whether it is a parameter: of a module, or a leaf that wants a gradient without being an input."""
        return self.kind == "parameter" or (self.kind == "tensor" and self.gradient)


@dataclass(slots=True)
class Shown:
    """Numbers of a value, small enough to draw: two of its axes at the first index of all others.

    what: "hidden" (1 where a key has the weight 0 after the softmax, computed in float64; ½ where a mask left it a
    weight above 0, which is almost hidden), "weights" (rows that sum to 1), "cut" (1 where one of those was made 0)
    or "numbers". rows, columns: which of them, where not all fit. total: how many rows and columns there are.
    marked: how many cells are hidden, almost hidden or cut. almost, most: how many are almost hidden, and the
    largest weight that any of them has. far: how many, at most, are not hidden and have the weight 0 for their
    distance. alike: whether all leading indices hold the same. pattern: what all of them have in common. places:
    which axes of the value are the rows and the columns.
    """

    what: str
    numbers: list[list[float]]
    rows: list[int]
    columns: list[int]
    total: tuple[int, int]
    marked: int
    alike: bool
    pattern: str
    places: tuple[int, int]
    almost: int = 0
    most: float = 0.0
    far: int = 0


@dataclass(slots=True)
class Saved:
    """An array that an op kept for its rules: under which name, which value, how many bytes, and whether these count:
    memory counts once, that of parameters not at all."""

    name: str
    value: int
    bytes: int
    counted: bool


@dataclass(slots=True)
class Line:
    """Where in the user's code something happened. lengths: what it calls those that it gives to a reshape, for each
    such call the names and how many of them count from the front."""

    file: str
    number: int
    function: str
    text: str
    lengths: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class Application:
    """One run of one op.

    arguments: the op's names of its inputs, in order. call: the module call it ran in. group: the fused op whose
    definition it belongs to. branch or sum: of a backward op, the gradient branch or the sum that ran it.
    formula: the op's docstring, with names of inputs in braces. fused: the op has a definition. arranges: it computes
    nothing, its outputs together hold the elements of its input. definition: which of the record's definitions has the
    primitive ops that a fused op is made of.
    """

    id: int
    op: str
    arguments: tuple[str, ...]
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    static: dict[str, Any]
    formula: str
    fused: bool
    arranges: bool
    order: int = 0
    call: int | None = None
    group: int | None = None
    branch: int | None = None
    sum: int | None = None
    saved: list[Saved] = field(default_factory=list)
    line: Line | None = None
    definition: int | None = None


@dataclass(slots=True)
class Branch:
    """One gradient branch, as it ran: the gradient of input `at` of `application`, in that input's shape.

    value: the forward value it is the gradient of. gradient: the value that arrived. reads: what the rule read of what
    was saved. applications: the backward ops that it ran. fitted: the last of them brought it to the input's shape, by
    a sum over what was broadcast, or to its dtype. order: one more than its application's. Branches stand in the order
    in which they arrived.
    """

    id: int
    application: int
    at: int
    value: int
    gradient: int
    formula: str
    reads: tuple[str, ...]
    shape: tuple[int, ...]
    order: int = 1
    applications: list[int] = field(default_factory=list)
    fitted: bool = False


@dataclass(slots=True)
class Sum:
    """A further contribution added to the gradient of `value`: that of the branch `after`."""

    id: int
    value: int
    after: int
    applications: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Call:
    """One run of a module's forward. path: "" for the root; nth: which run of it; parent: the call around it."""

    id: int
    path: str
    kind: str
    nth: int
    parent: int | None


@dataclass(slots=True)
class Group:
    """A fused op that ran as its definition: the applications inside name its number."""

    id: int
    op: str
    call: int | None
    parent: int | None
    static: dict[str, Any]


@dataclass(slots=True)
class Output:
    """A result of what was traced. label: where it stands in the result, "" for the only one. seed: its gradient, "1",
    "ones", or "0" where the pass starts at another one; None where no gradient can come back from it."""

    label: str
    value: int
    seed: str | None


@dataclass(slots=True)
class Note:
    """A sentence with its values apart, so that it can be said in any language."""

    text: str
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Declared:
    """What a model says of the attention in a module of it; None where it says nothing."""

    visibility: str | None = None
    scaled: bool | None = None


@dataclass(slots=True)
class Record:
    """Everything that happened in one trace, forward and backward, in the order it happened.

    The `id` of an entry is its place in its list. unread: paths of parameters that want a gradient and that no op read.
    definitions: records of fused ops run as their definitions, whose inputs and outputs are those of the application.
    """

    title: str
    loss: bool = False
    values: list[Value] = field(default_factory=list)
    forward: list[Application] = field(default_factory=list)
    backward: list[Application] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)
    sums: list[Sum] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    declared: dict[str, Declared] = field(default_factory=dict)
    inputs: list[int] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    definitions: list[Record] = field(default_factory=list)

    def json(self) -> str:
        """The record as JSON, the same bytes for the same record."""
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False, indent=1, default=str) + "\n"
