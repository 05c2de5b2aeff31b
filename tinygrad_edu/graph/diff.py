"""Two graphs compared: what was added, removed and changed, in words, as a table and as a drawing."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from tinygrad_edu.files import file_path, make_folder, write_atomically
from tinygrad_edu.graph.alignment import Node, aligned, nodes_of, without_numbers
from tinygrad_edu.graph.dot import dot
from tinygrad_edu.graph.engine import run_dot
from tinygrad_edu.graph.ledger import line
from tinygrad_edu.graph.picture import Card, Cluster, Picture, Wire, mark_ways
from tinygrad_edu.graph.svg import finished
from tinygrad_edu.graph.words import say

_HEAD = ("what", "module", "step before", "step after", "difference")


@dataclass(slots=True)
class Change:
    """A step in both graphs, or in one of them. kind: "same", "changed", "added" or "removed"; details: what differs,
    as (what, before, after)."""

    kind: str
    before: Node | None
    after: Node | None
    details: list[tuple[str, str, str]]

    @property
    def node(self) -> Node:
        """The node after, or where there is none, before."""
        found = self.after or self.before
        assert found is not None
        return found

    def text(self) -> str:
        """The difference in words."""
        return "; ".join(f"{what}: {old or '-'} → {new or '-'}" for what, old, new in self.details)


class Diff:
    """What one graph has and another has not. `changes` has every step of both, in the order of the second graph.

    >>> import tinygrad_edu as tg
    >>> from tinygrad_edu.graph import trace
    >>> x = tg.ones(2, 3)
    >>> diff = trace(lambda x: (x * 2).exp(), x).diff(trace(lambda x: (x * 2).tanh(), x))
    >>> print(diff)
    added: tanh = tanh mul
    removed: exp = exp mul
    2 equal
    """

    def __init__(self, before: Picture, after: Picture) -> None:
        self.before, self.after = before, after
        self.changes = [_change(old, new) for old, new in aligned(nodes_of(before), nodes_of(after))]
        self.blocks = _blocks(before, after)

    def __str__(self) -> str:
        lines = [say("repeats of {path}: {old} → {new}", path=path, old=old, new=new) for path, old, new in self.blocks]
        for change in self.changes:
            if change.kind != "same":
                lines.append(f"{say(change.kind)}: {change.node.card.header}" + _after_colon(change.text()))
        return "\n".join([*lines, say("{n} equal", n=sum(change.kind == "same" for change in self.changes))])

    def markdown(self) -> str:
        """A table of all that differs, and how much is equal."""
        rows: list[tuple[str, ...]] = [
            (say("changed"), path, f"× {old}", f"× {new}", f"{say('repeats')}: {old} → {new}")
            for path, old, new in self.blocks
        ]
        for change in self.changes:
            if change.kind != "same":
                steps = [node.card.header if node else "" for node in (change.before, change.after)]
                rows.append((say(change.kind), change.node.module, *steps, change.text()))
        title = f"# {self.before.title} → {self.after.title}"
        head = [line(tuple(map(say, _HEAD))), "|" + "---|" * len(_HEAD)]
        same = say("{n} steps and inputs are equal", n=sum(change.kind == "same" for change in self.changes))
        return "\n".join([title, "", *head, *map(line, rows), "", f"- {same}"]) + "\n"

    def picture(self) -> Picture:
        """The second graph with what was added and changed in colour, and what was removed beside it."""
        return _Drawing(self).picture()

    def dot(self) -> str:
        """The drawing in Graphviz's language."""
        return dot(self.picture())

    def svg(self) -> str:
        """The drawing as SVG. Raises LayoutError where it cannot be laid out."""
        picture = self.picture()
        return finished(run_dot(dot(picture)), picture)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write .svg, .dot or .md, whole or not at all. Raises ValueError for another ending, and as `svg` does."""
        path = file_path(path)
        views = {".svg": self.svg, ".dot": self.dot, ".md": self.markdown}
        view = views.get(path.suffix.lower())
        if view is None:
            raise ValueError(f"{path.name}: a diff is saved as one of {', '.join(views)}; end the name in one of them")
        make_folder(path.parent)
        write_atomically(path, view())

    def _repr_markdown_(self) -> str:
        return self.markdown()


def _after_colon(text: str) -> str:
    return f": {text}" if text else ""


def _change(before: Node | None, after: Node | None) -> Change:
    if before is None or after is None:
        return Change("added" if before is None else "removed", before, after, [])
    old, new = _facts(before), _facts(after)
    details = [(what, old[what], new[what]) for what in old if old[what] != new[what]]
    return Change("changed" if details else "same", before, after, details)


def _facts(node: Node) -> dict[str, str]:
    """What is compared of two nodes that are one: all that a reader of the card would call another thing."""
    card = node.card
    found = {
        say("op"): card.op,
        say("axes"): node.axes,
        say("shape"): (card.shape or next(iter(card.lines), "")).partition("] ")[2],
        say("mask"): card.grid.pattern if card.grid and card.grid.what in ("hidden", "cut") else "",
        say("visible"): card.visible,
        say("source"): card.source.rpartition(": ")[2],
        say("parameters"): ", ".join(cell.shape for cell in card.cells if cell.kind == "parameter"),
        say("tokens"): card.words if card.role == "step" else "",
    }
    return found


def _blocks(before: Picture, after: Picture) -> list[tuple[str, int, int]]:
    """(path, repeats before, repeats after) of modules that repeat another number of times."""
    old, new = _counts(before), _counts(after)
    return [(path, old[path], new[path]) for path in old if path in new and old[path] != new[path]]


def _counts(picture: Picture) -> dict[str, int]:
    found: dict[str, int] = {}
    stack = list(picture.content)
    while stack:
        item = stack.pop()
        if isinstance(item, Cluster):
            stack += item.content
            if item.path and without_numbers(item.path) != item.path:
                path = without_numbers(item.path)
                found[path] = found.get(path, 0) + item.count
    return found


class _Drawing:
    def __init__(self, diff: Diff) -> None:
        self.diff = diff
        self.of = {change.after.card.id: change for change in diff.changes if change.after}
        self.gone = [change for change in diff.changes if change.kind == "removed"]
        self.names: dict[str, str] = {}  # a card before -> what stands for it
        for change in diff.changes:
            if change.before:
                stands = change.after.card.id if change.after else f"r{change.before.card.id[1:]}"
                self.names[change.before.card.id] = stands

    def picture(self) -> Picture:
        before, after = self.diff.before, self.diff.after
        made = Picture(f"{before.title} → {after.title}", False, reads=say("what is added, removed and changed"))
        made.content = [self._item(item) for item in after.content]
        for change in self.gone:
            assert change.before is not None
            card = self._card(change.before.card, change)
            card.id = self.names[change.before.card.id]
            _home(made.content, change.before.module).append(card)
        new = {change.node.card.id for change in self.diff.changes if change.kind == "added"}
        for wire in after.wires:
            kind = "added" if {wire.tail, wire.head} & new else ""
            made.wires.append(replace(wire, gradient=None, kind=kind))
        removed = {self.names[change.node.card.id] for change in self.gone}
        for wire in before.wires:
            tail, head = self.names.get(wire.tail), self.names.get(wire.head)
            if tail and head and (tail in removed or head in removed):
                number = f"e{len(made.wires) + 10_000}"
                made.wires.append(
                    replace(wire, id=number, tail=tail, head=head, gradient=None, kind="removed", times=1)
                )
        mark_ways(_in_order(made.wires))
        return made

    def _item(self, item: Card | Cluster) -> Card | Cluster:
        if isinstance(item, Cluster):
            return replace(item, content=[self._item(inner) for inner in item.content])
        change = self.of.get(item.id)
        return self._card(item, change) if change else replace(item, rows=[], streams=())

    @staticmethod
    def _card(card: Card, change: Change) -> Card:
        details = [part for what, *ends in change.details for part in _in_lines(what, *(end or "-" for end in ends))]
        shape = [] if card.role == "step" else card.lines[:1]
        words = say("equal" if change.kind == "same" else change.kind)
        return replace(
            card,
            kind=change.kind,
            words=words,
            lines=[*shape, *details],
            rows=[],
            einsum=[],
            grid=None,
            streams=(),
            source="",
        )


def _in_lines(what: str, old: str, new: str) -> list[str]:
    """A difference on one line, or on two where it is long."""
    first = f"{what}: {old}"
    return [f"{first} → {new}"] if len(first) + len(new) < 52 else [first, f"  → {new}"]


def _home(content: list[Card | Cluster], module: str) -> list[Card | Cluster]:
    """Where a removed card is put: into the innermost module that is still there."""
    stack, found, longest = list(content), content, -1
    while stack:
        item = stack.pop()
        if isinstance(item, Cluster):
            path = without_numbers(item.path or "")
            if (module == path or module.startswith(f"{path}.") or not path) and len(path) > longest:
                found, longest = item.content, len(path)
            stack += item.content
    return found


def _in_order(wires: list[Wire]) -> list[Wire]:
    """Wires so that those into a card stand before those out of it."""
    coming: dict[str, list[Wire]] = {}
    waiting: dict[str, int] = {}
    for wire in wires:
        coming.setdefault(wire.tail, []).append(wire)
        waiting[wire.head] = waiting.get(wire.head, 0) + 1
    ready = [tail for tail in coming if tail not in waiting]
    found: list[Wire] = []
    while ready:
        for wire in coming.get(ready.pop(0), []):
            found.append(wire)
            waiting[wire.head] -= 1
            if not waiting[wire.head]:
                ready.append(wire.head)
    return found
