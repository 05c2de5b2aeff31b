"""What is on a picture: cards, wires and clusters, as plain data that knows neither the tape nor Graphviz."""

from __future__ import annotations

from dataclasses import dataclass, field

from tinygrad_edu.graph.record import Shown


@dataclass(slots=True)
class Row:
    """A gradient: of a branch ("branch"), the sum of several ("sum"), where it starts ("start") or goes out ("end").

    after: the branch with which it is known, by its place in the order in which they ran; -1 before the first. order:
    2 for the gradient of a gradient. ran: the ops of the backward pass that made it, each in one row only.
    """

    kind: str
    formula: str
    note: str
    after: int = -1
    order: int = 1
    ran: tuple[int, ...] = ()


@dataclass(slots=True)
class Cell:
    """A leaf that only one card reads, drawn inside it: a parameter or a constant. size: how many numbers it has."""

    kind: str
    name: str
    shape: str
    size: int = 0


@dataclass(slots=True)
class Card:
    """A box for a step, a leaf or a result, as `role` says, or for all that ran in a "module".

    kind: its colour; words: the same in words; lines: small print; path: the module it stands for. identity: what it
    is apart from all names, equal for two that do the same; op: what a step runs. origin: of a leaf, the kind of
    value; size: how many numbers it holds. thin: a single line is enough for it. streams: which of the picture's it
    reads.

    einsum: how a product pairs axes, as (text, tone) runs, tone "contract", "q", "k" or "". contracts, keeps: the same
    in names of axes. data: what it reads beside parameters and constants, by name; of scores the sources of queries and
    keys. source: where an attention's queries, keys and values come from. visible: what its queries see. heads: what
    the rows and the columns of the grid are called. shape: of the result; reads: what the gradient rules read of what
    was saved.
    """

    id: str
    kind: str
    header: str
    words: str
    title: str
    role: str
    path: str = ""
    lines: list[str] = field(default_factory=list)
    einsum: list[tuple[str, str]] = field(default_factory=list)
    contracts: str = ""
    keeps: str = ""
    data: str = ""
    source: str = ""
    visible: str = ""
    shape: str = ""
    reads: list[str] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    grid: Shown | None = None
    heads: tuple[str, str] = ("", "")
    rows: list[Row] = field(default_factory=list)
    identity: str = ""
    op: str = ""
    origin: str = ""
    size: int = 0
    thin: bool = False
    streams: tuple[int, ...] = ()

    @property
    def drawn(self) -> list[int]:
        """Which rows the card shows: all, or of a thin one the sums."""
        return [i for i, row in enumerate(self.rows) if row.kind == "sum" or not self.thin]


@dataclass(slots=True)
class Wire:
    """A value on its way from one card to another. gradient: the name of what comes back, None where nothing does.

    shapes: as it leaves, and as it comes in where it is arranged on the way. times: for how many equal ones it stands.
    spine: it comes in on the longest way from the start. long: it passes other cards by. kind: "added" or "removed" in
    a comparison.
    """

    id: str
    tail: str
    head: str
    name: str
    gradient: str | None
    shapes: list[str]
    order: int = 1
    spine: bool = False
    long: bool = False
    kind: str = ""
    times: int = 1


@dataclass(slots=True)
class Cluster:
    """A module and what ran in it, in order. notes: small print below its label; count: of how many equal ones it is
    the first; path: by which it can be opened, None for the whole model and for what is no module."""

    id: str
    label: str
    content: list[Card | Cluster] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    count: int = 1
    path: str | None = None


@dataclass(slots=True)
class Check:
    """A line of the four-step check. step: which of the four; line: the row of the ledger that it is about, None for
    the whole."""

    step: int
    line: int | None
    text: str
    passed: bool = True


@dataclass(slots=True)
class Picture:
    """All of it. backward: whether any gradient flows; remarks: what the reader should know about the whole; streams:
    the names of the inputs that what is read comes from; reads: how to read it, where not as usual."""

    title: str
    backward: bool
    remarks: list[str] = field(default_factory=list)
    content: list[Card | Cluster] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)
    streams: list[str] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    reads: str = ""

    def cards(self) -> list[Card]:
        """All cards, in the order of their ids."""
        return sorted(cards_of(self.content), key=lambda card: int(card.id[1:]))


def cards_of(content: list[Card | Cluster]) -> list[Card]:
    """The cards among items and inside of them, in the order in which they stand there."""
    found, stack = [], list(reversed(content))
    while stack:
        item = stack.pop()
        if isinstance(item, Card):
            found.append(item)
        else:
            stack += reversed(item.content)
    return found


def mark_ways(wires: list[Wire]) -> None:
    """Mark for every card the wire that comes in on the longest way from the start, and all that pass cards by."""
    depth: dict[str, int] = {}
    first: dict[str, Wire] = {}
    for wire in wires:
        below = depth.get(wire.tail, 0) + 1
        if below > depth.get(wire.head, 0):
            depth[wire.head] = below
            first[wire.head] = wire
    start: dict[str, int] = {}  # what nothing leads to stands right above the first that reads it
    for wire in wires:
        if wire.tail not in depth:
            start[wire.tail] = min(start.get(wire.tail, depth[wire.head]), depth[wire.head] - 1)
    for wire in wires:
        wire.spine = first[wire.head] is wire
        wire.long = depth[wire.head] - depth.get(wire.tail, start.get(wire.tail, 0)) > 1
