"""From a picture of steps to one of modules, and to one of the whole model: what runs inside becomes one card."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from difflib import get_close_matches

from tinygrad_edu.graph.folding import folded, is_open, joined, parameters
from tinygrad_edu.graph.picture import Card, Cell, Cluster, Picture, Row, Wire, cards_of, mark_ways
from tinygrad_edu.graph.record import Record
from tinygrad_edu.graph.words import say

LEVELS = range(4)
MAX_NODES = 400  # cards of a picture that can still be read
_CELLS = 6  # parameters that a card lists; more of them are counted
Item = Card | Cluster


def at_level(
    full: Callable[[bool], Picture], level: int, opened: Collection[str], most: int | None = MAX_NODES
) -> Picture:
    """The picture at a level, repeats drawn once; at the one above it where it has more than `most` cards, and so on.

    full: makes the picture of every op, or of every named step, with nothing folded.
    """
    for found in range(level, -1, -1):
        picture = folded(full(found == 3), opened) if found else full(False)
        if found == 1:
            picture = modules(picture, opened)
        elif found == 0:
            picture = whole(picture)
        count = len(picture.cards())
        if found == level:
            first = count
        if most is None or count <= most or not found:
            break
    if found < level:
        said = "level {level} has {n} cards, more than {most}: this is level {found}; a module can be opened by name"
        picture.remarks.append(say(said, level=level, n=f"{first:,}", most=most, found=found))
    return picture


def check_open(pattern: str, record: Record) -> None:
    """Raises ValueError where no module has a path like this."""
    paths = list(dict.fromkeys(call.path for call in record.calls if call.path))
    if pattern != "*" and not any(is_open(path, [pattern]) for path in paths):
        near = get_close_matches(pattern, paths, 1)
        raise ValueError(
            f"open: no module is called {pattern!r}"
            + (f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(paths[:8]) or 'none'}")
        )


def modules(picture: Picture, opened: Collection[str] = ()) -> Picture:
    """Every module that holds no other as one card, all other cards in brief; those in `opened` stay as they are."""
    sheet = _Closing(picture)
    top = Cluster("", "", picture.content)
    order: list[tuple[Cluster, bool]] = []
    stack = [(top, False)]
    while stack:
        cluster, shown = stack.pop()
        order.append((cluster, shown))
        stack += [(item, shown or is_open(item.path, opened)) for item in cluster.content if isinstance(item, Cluster)]
    done: dict[int, Cluster] = {}
    for cluster, shown in reversed(order):
        content: list[Item] = []
        for item in cluster.content:
            if isinstance(item, Card):
                content.append(item if shown else _brief(item))
            elif is_open(item.path, opened) or shown or item.path is None or _holds(item):
                content.append(done[id(item)])
            else:
                content.append(sheet.module(item))
        done[id(cluster)] = replace(cluster, content=content)
    return sheet.picture(done[id(top)].content)


def whole(picture: Picture) -> Picture:
    """The model as one card between its inputs and its results."""
    sheet = _Closing(picture)
    cards = picture.cards()
    ends = [card for card in cards if card.role == "result" or card.origin == "input"]
    outside = {card.id for card in ends}
    if all(card.role == "leaf" for card in cards if card.id not in outside):
        return picture
    one = Cluster("", picture.title, [item for item in picture.content if item.id not in outside])
    model = sheet.module(one)
    starts = [card for card in ends if card.role != "result"]
    return sheet.picture([*starts, model, *(card for card in ends if card.role == "result")])


def _holds(cluster: Cluster) -> bool:
    """Whether there is a module in a module."""
    stack = list(cluster.content)
    while stack:
        item = stack.pop()
        if isinstance(item, Cluster):
            if item.path is not None:
                return True
            stack += item.content
    return False


def _brief(card: Card) -> Card:
    """A card without the inner life of its op."""
    if card.role != "step":
        return card
    rows = [row for row in card.rows if row.kind != "branch"]
    branches = [row for row in card.rows if row.kind == "branch"]
    if card.path and branches:
        names = ", ".join(row.formula.partition(" = ")[0] for row in branches)
        rows.insert(0, Row("branch", names, "", max(row.after for row in branches)))
    else:
        rows = branches + rows
    return replace(card, lines=[], einsum=[], grid=None, rows=rows)


class _Closing:
    """Modules being closed, and the cards that went into each."""

    def __init__(self, given: Picture) -> None:
        self.given = given
        self.into: dict[str, str] = {}
        self.coming: dict[str, list[Wire]] = {}
        self.leaving: dict[str, list[Wire]] = {}
        for wire in given.wires:
            self.coming.setdefault(wire.head, []).append(wire)
            self.leaving.setdefault(wire.tail, []).append(wire)

    def module(self, cluster: Cluster) -> Card:
        """The card that stands for a cluster."""
        cards = cards_of(cluster.content)
        steps = [card for card in cards if card.role == "step"]
        inside = {card.id for card in cards}
        one = steps[0].id
        self.into |= dict.fromkeys(inside, one)
        read = [w for card in cards for w in self.coming.get(card.id, []) if w.tail not in inside]
        made = [w for card in cards for w in self.leaving.get(card.id, []) if w.head not in inside]
        gives = list(dict.fromkeys(wire.name for wire in made))
        takes = list(dict.fromkeys(wire.name for wire in read))
        kind = cluster.label.partition(" · ")[2] or cluster.label
        called = f"{kind.partition(' · ')[0]}({', '.join(takes)})"
        colour, words = _kind(steps)
        header = f"{', '.join(gives)} = {called}" if gives else called
        title = "\n".join([cluster.label, *(step.header for step in steps)])
        card = Card(one, colour, header, words, title, "module", path=cluster.label if cluster.path else "")
        card.source = "; ".join(dict.fromkeys(step.source for step in steps if step.source))
        card.lines = [*cluster.notes, *dict.fromkeys(step.visible for step in steps if step.visible)]
        card.cells = self._learned(cards)
        if len(card.cells) > _CELLS:
            total = parameters(list(cluster.content))
            text = say("{n} parameters in {k} tensors", n=f"{total:,}", k=len(card.cells))
            card.cells = [Cell("parameter", text, "", total)]
        card.rows = self._rows(cards, read, set(gives), len(steps))
        card.streams = tuple(sorted({stream for step in steps for stream in step.streams}))
        card.identity = " ".join(step.identity for step in steps)
        return card

    @staticmethod
    def _learned(cards: list[Card]) -> list[Cell]:
        """The parameters that only these cards read."""
        return [
            cell
            for card in cards
            for cell in [*card.cells, Cell(card.origin, card.header, card.lines[0] if card.lines else "", card.size)]
            if cell.kind == "parameter"
        ]

    def _rows(self, cards: list[Card], read: list[Wire], gives: set[str], steps: int) -> list[Row]:
        """What the card sends back: to its parameters, to what it reads, and the sums at what it makes."""
        after = max((row.after for card in cards for row in card.rows), default=-1)
        names = {row.formula.partition(" = ")[0] for card in cards for row in card.rows}
        learned = [f"d{cell.name}" for cell in self._learned(cards)]
        learned = [name for name in learned if name in names]
        found = []
        if learned:
            text = ", ".join(learned) if len(learned) <= _CELLS else f"{learned[0]}, …, {learned[-1]}"
            found.append(Row("branch", text, say("for {n} parameter tensors", n=len(learned)), after))
        back = list(dict.fromkeys(wire.gradient for wire in read if wire.gradient is not None))
        if back:
            found.append(Row("branch", ", ".join(back), say("back through {n} steps", n=steps), after))
        sums = [row for card in cards for row in card.rows if row.kind == "sum"]
        return found + [row for row in sums if row.formula.partition(" = ")[0][1:] in gives]

    def picture(self, content: list[Item]) -> Picture:
        """The picture with the cards that were closed, wires of one value between the same two cards drawn as one."""
        found: dict[tuple[object, ...], Wire] = {}
        for wire in self.given.wires:
            tail, head = self.into.get(wire.tail, wire.tail), self.into.get(wire.head, wire.head)
            if tail == head and wire.tail in self.into:
                continue
            closed = wire.head in self.into
            key = (tail, head, wire.name, *wire.shapes[:1]) if closed else (wire.id,)
            if key in found:
                found[key].gradient = joined([found[key].gradient, wire.gradient])
            else:
                found[key] = replace(wire, tail=tail, head=head, shapes=wire.shapes[:1] if closed else wire.shapes)
        wires = list(found.values())
        mark_ways(wires)
        return replace(self.given, content=content, wires=wires, remarks=list(self.given.remarks))


def _kind(steps: list[Card]) -> tuple[str, str]:
    """Colour of a card for several steps."""
    for kind in ("mixes", "pairs", "visibility"):
        if any(step.kind == kind for step in steps):
            return kind, next(step.words for step in steps if step.kind == kind)
    words = {step.words for step in steps if step.kind == "plain"}
    return "plain", words.pop() if len(words) == 1 else ""
