"""What is on a picture: cards, wires and clusters, as plain data that knows neither the tape nor Graphviz."""

from __future__ import annotations

from dataclasses import dataclass, field

from tinygrad_edu.graph.record import Shown


@dataclass(slots=True)
class Row:
    """A gradient: of a branch ("branch"), the sum of several ("sum"), or where it starts ("start").

    after: the branch with which it is known, by its place in the order in which they ran; -1 before the first.
    """

    kind: str
    formula: str
    note: str
    after: int = -1


@dataclass(slots=True)
class Cell:
    """A leaf that only one card reads, drawn inside it: a parameter or a constant."""

    kind: str
    name: str
    shape: str


@dataclass(slots=True)
class Card:
    """A box for a step, a leaf or a result, as `role` says.

    kind: its colour; words: the same in words; lines: small print; path: the module it stands for.

    einsum: how a product pairs axes, as (text, tone) runs, tone "contract", "q", "k" or "". contracts, keeps: the same
    in names of axes. source: where an attention's queries, keys and values come from. visible: what its
    queries see. heads: what the rows and the
    columns of the grid are called. shape: of the result; reads: what the gradient rules read of what was saved.
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
    source: str = ""
    visible: str = ""
    shape: str = ""
    reads: list[str] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    grid: Shown | None = None
    heads: tuple[str, str] = ("", "")
    rows: list[Row] = field(default_factory=list)


@dataclass(slots=True)
class Wire:
    """A value on its way from one card to another. gradient: the name of what comes back, None where nothing does.

    shapes: as it leaves, and as it comes in where it is arranged on the way.
    """

    id: str
    tail: str
    head: str
    name: str
    gradient: str | None
    shapes: list[str]
    spine: bool = False


@dataclass(slots=True)
class Cluster:
    """A module and what ran in it, in order."""

    id: str
    label: str
    content: list[Card | Cluster] = field(default_factory=list)


@dataclass(slots=True)
class Picture:
    """All of it. backward: whether any gradient flows; remarks: what the reader should know about the whole."""

    title: str
    backward: bool
    remarks: list[str] = field(default_factory=list)
    content: list[Card | Cluster] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)

    def cards(self) -> list[Card]:
        """All cards, in the order of their ids."""
        found, stack = [], list(self.content)
        while stack:
            item = stack.pop()
            if isinstance(item, Card):
                found.append(item)
            else:
                stack += item.content
        return sorted(found, key=lambda card: int(card.id[1:]))
