"""Repeats drawn once: equal blocks in a row become one, with their number, their weights and how they hang together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from tinygrad_edu.graph.picture import Card, Cluster, Picture, Wire, cards_of, mark_ways
from tinygrad_edu.graph.words import say

_LONGEST = 12  # items that repeat together where no module holds them
_FLAT = 4  # repeats from which on a chain of bare steps is folded
Item = Card | Cluster


def is_open(path: str | None, patterns: Collection[str]) -> bool:
    """Whether a module is to be drawn with all that is in it: it, one around it, or a pattern of it is named.

    >>> is_open("blocks.3.attention", ["blocks.3"]), is_open("blocks.3", ["*.3"]), is_open("blocks.30", ["blocks.3"])
    (True, True, False)
    """
    if path is None:
        return "*" in patterns
    return any(path == p or path.startswith(p + ".") or fnmatchcase(path, p) for p in patterns)


def folded(picture: Picture, opened: Collection[str] = ()) -> Picture:
    """The picture with every run of equal blocks drawn as its first one.

    Two are equal where their ops, axes, shapes and wires are, whatever they and their values are called. A run is one
    of modules side by side or behind one another, or a chain of bare steps; those in `opened` stay as they are.
    """
    if "*" in opened:
        return picture
    return _Folding(picture, opened).picture()


@dataclass(slots=True)
class _Run:
    """Groups of items that are alike, and the cards of each in order."""

    groups: list[list[Item]]
    cards: list[list[Card]] = field(default_factory=list)


class _Folding:
    def __init__(self, given: Picture, opened: Collection[str]) -> None:
        self.given, self.opened = given, opened
        self.learned = {card.id for card in given.cards() if card.origin == "parameter"}
        self.into: dict[str, str] = {}  # a card -> the one that stands for it
        self.coming: dict[str, list[Wire]] = {}  # by head
        for wire in given.wires:
            self.coming.setdefault(wire.head, []).append(wire)
        self.leaving: dict[str, list[Wire]] = {}  # by tail
        for wire in given.wires:
            self.leaving.setdefault(wire.tail, []).append(wire)
        self.gone: set[str] = set()  # wires that another stands for
        self.more: dict[str, list[Wire]] = {}  # wire -> those that it stands for besides itself

    def picture(self) -> Picture:
        made = replace(self.given, content=self._inside_out(self.given.content), remarks=list(self.given.remarks))
        made.wires = self._wires()
        return made

    def _inside_out(self, content: list[Item]) -> list[Item]:
        """The items folded, those inside of clusters first."""
        top = Cluster("", "", content)
        order, stack = [], [top]
        while stack:
            cluster = stack.pop()
            order.append(cluster)
            stack += [item for item in cluster.content if isinstance(item, Cluster)]
        done: dict[int, Cluster] = {}
        for cluster in reversed(order):
            items = [done[id(item)] if isinstance(item, Cluster) else item for item in cluster.content]
            done[id(cluster)] = replace(cluster, content=self._folded(items))
        return done[id(top)].content

    # Runs

    def _folded(self, items: list[Item]) -> list[Item]:
        items = self._shared_first(items)
        tokens = [self._token(item) for item in items]
        found: list[Item] = []
        i = 0
        while i < len(items):
            run = self._run(items, tokens, i)
            if run is None:
                found.append(items[i])
                i += 1
            else:
                found += self._one(run)
                i += sum(map(len, run.groups))
        return found

    def _shared_first(self, items: list[Item]) -> list[Item]:
        """The items with those leaves in front that several of them read, which else would stand between equal ones."""
        places = {card.id: at for at, item in enumerate(items) for card in cards_of([item])}
        shared = set()
        for item in items:
            if isinstance(item, Card) and item.role == "leaf":
                heads = {places.get(self.into.get(w.head, w.head)) for w in self.leaving.get(item.id, [])}
                if len(heads) > 1:
                    shared.add(item.id)
        return [i for i in items if i.id in shared] + [i for i in items if i.id not in shared]

    def _token(self, item: Item) -> str:
        """What an item is, wires and names left aside."""
        if isinstance(item, Card):
            return f"{item.role} {item.identity}"
        if is_open(item.path, self.opened) or any("open" in token for token in self._held(item)):
            return f"open {item.id}"
        return f"{item.count} [{', '.join(self._held(item))}]"

    def _held(self, cluster: Cluster) -> list[str]:
        return [self._token(item) for item in cluster.content]

    def _run(self, items: list[Item], tokens: list[str], start: int) -> _Run | None:
        """The run that begins at an item, of the shortest period there is."""
        for period in range(1, min(_LONGEST, (len(items) - start) // 2) + 1):
            first = tokens[start : start + period]
            end = start + period
            while tokens[end : end + period] == first:
                end += period
            if end - start < 2 * period:
                continue
            groups = [items[at : at + period] for at in range(start, end, period)]
            held = any(isinstance(item, Cluster) for item in groups[0])
            run = self._alike(groups)
            if len(run.groups) >= (2 if held else _FLAT) and (self._chained(run) or (period == 1 and held)):
                return run
        return None

    def _alike(self, groups: list[list[Item]]) -> _Run:
        """As many of the groups as are wired in the same way."""
        run = _Run(groups[:1], [cards_of(groups[0])])
        places = {card.id: (0, at) for at, card in enumerate(run.cards[0])}
        first = [self._ends(card, places, 0) for card in run.cards[0]]
        second: list[list[tuple[object, ...]]] = []
        links: dict[object, object] = {}  # outside end of a wire into the first -> what stands there for the second
        for n, group in enumerate(groups[1:], 1):
            cards = cards_of(group)
            places |= {card.id: (n, at) for at, card in enumerate(cards)}
            ends = [self._ends(card, places, n) for card in cards]
            if n == 1:
                second = ends
                if not _fits(first, second, links):
                    break
            elif ends != second:
                break
            run.groups.append(group)
            run.cards.append(cards)
        return run

    def _ends(self, card: Card, places: dict[str, tuple[int, int]], n: int) -> list[tuple[object, ...]]:
        """Where the wires into a card come from, seen from group number n, and what they carry."""
        found: list[tuple[object, ...]] = []
        for wire in self.coming.get(card.id, []):
            tail = self.into.get(wire.tail, wire.tail)
            group, at = places.get(tail, (-1, -1))
            where: object = ("in", at) if group == n else ("before", at) if 0 <= group == n - 1 else tail
            found.append((where, tuple(wire.shapes), wire.gradient is None))
        return found

    def _chained(self, run: _Run) -> bool:
        """Whether each group reads what the one before made."""
        return bool(self._links(run)) and len(run.groups) > 1

    def _links(self, run: _Run) -> list[tuple[Wire, Wire, int]]:
        """(wire into the first from outside, its like in the second, place in the first of the card it starts at)"""
        places = {card.id: at for at, card in enumerate(run.cards[0])}
        found = []
        for one, two in zip(*run.cards[:2], strict=True):
            for first, second in zip(self.coming.get(one.id, []), self.coming.get(two.id, []), strict=True):
                tail = self.into.get(second.tail, second.tail)
                if tail in places:
                    found.append((first, second, places[tail]))
        return found

    # One for all

    def _one(self, run: _Run) -> list[Item]:
        """What is drawn of a run."""
        count, first, links = len(run.groups), run.cards[0], self._links(run)
        for cards in run.cards[1:]:
            self.into |= {card.id: one.id for card, one in zip(cards, first, strict=True)}
        inside = {card.id for cards in run.cards for card in cards}
        shared = set()
        for cards in run.cards[1:]:
            for card, one in zip(cards, first, strict=True):
                for wire, like in zip(self.coming.get(card.id, []), self.coming.get(one.id, []), strict=True):
                    self.gone.add(wire.id)
                    if self.into.get(wire.tail, wire.tail) not in inside:
                        self.more.setdefault(like.id, []).append(wire)
                        shared.add(wire.tail)
        notes = [self._count(run, shared), *self._passes_on(run, links, inside)]
        last = run.groups[-1]
        if len(run.groups[0]) == 1 and isinstance(one_item := run.groups[0][0], Cluster):
            label = _span(one_item, last[0])
            return [replace(one_item, label=label, notes=[*notes, *one_item.notes], count=count * one_item.count)]
        label = f"{first[0].header.partition(' = ')[0]} … {run.cards[-1][-1].header.partition(' = ')[0]}"
        return [Cluster(f"cluster_{first[0].id}", label, list(run.groups[0]), notes, count)]

    def _count(self, run: _Run, shared: set[str]) -> str:
        count = len(run.groups)
        own = parameters(run.groups[0])
        if own:
            text = "× {n}, same shapes, separate weights: {each} parameters each, {all} in all"
            return say(text, n=count, each=f"{own:,}", all=f"{own * count:,}")
        if shared & self.learned:
            return say("× {n}, same shapes, the same weights", n=count)
        return say("× {n}, same shapes", n=count)

    def _passes_on(self, run: _Run, links: list[tuple[Wire, Wire, int]], inside: set[str]) -> list[str]:
        """How one hangs on the next: which value goes over, and what the last one gives."""
        found = []
        for first, second, at in links:
            out = [wire.name for wire in self.leaving.get(run.cards[-1][at].id, []) if wire.head not in inside]
            text = "{one} of each is {other} of the next"
            text += ", the last gives {end}" if out else ""
            found.append(say(text, one=second.name, other=first.name, end=out[0] if out else ""))
        return list(dict.fromkeys(found))

    # Wires

    def _wires(self) -> list[Wire]:
        found: dict[tuple[object, ...], Wire] = {}
        several = set(self.into.values())
        for wire in self.given.wires:
            if wire.id in self.gone:
                continue
            tail, head = self.into.get(wire.tail, wire.tail), self.into.get(wire.head, wire.head)
            key = (tail, head, *wire.shapes) if tail in several and head not in several else (wire.id,)
            if key in found:
                one = found[key]
                one.times += 1
                one.gradient = joined([one.gradient, wire.gradient])
                continue
            made = found[key] = replace(wire, tail=tail, head=head)
            others = self.more.get(wire.id, [])
            made.times += len(others)
            made.gradient = joined([wire.gradient, *(other.gradient for other in others)])
        mark_ways(list(found.values()))
        return list(found.values())


def joined(gradients: list[str | None]) -> str | None:
    """What comes back on a wire that stands for several: their sum.

    >>> joined(["dx_q", "dx_k", "dx_v"]), joined(["dx_0", None, "dx_1", "dx_2", "dx_3"]), joined([None])
    ('dx_q + dx_k + dx_v', 'dx_0 + … + dx_3', None)
    """
    parts = [part for text in gradients if text is not None for part in text.split(" + ")]
    if len(parts) > 3:
        parts = [parts[0], "…", parts[-1]]
    return " + ".join(parts) or None


def parameters(items: list[Item]) -> int:
    """How many numbers the parameters drawn in items hold, repeats counted as often as they stand there."""
    total, stack = 0, [(item, 1) for item in items]
    while stack:
        item, times = stack.pop()
        if isinstance(item, Cluster):
            stack += [(inner, times * item.count) for inner in item.content]
        else:
            total += times * sum(cell.size for cell in item.cells if cell.kind == "parameter")
            total += times * (item.size if item.origin == "parameter" else 0)
    return total


def _span(first: Cluster, last: Item) -> str:
    """blocks.0 … blocks.11 · Block"""
    start, _, kind = first.label.partition(" · ")
    end = last.label.partition(" · ")[0] if isinstance(last, Cluster) else start
    return f"{start} … {end} · {kind}" if start != end else f"{start} · {kind.partition(' · ')[0]}"


def _fits(
    first: list[list[tuple[object, ...]]], second: list[list[tuple[object, ...]]], links: dict[object, object]
) -> bool:
    """Whether two groups are wired alike; what one reads from outside may be what the other reads of it."""
    for one, two in zip(first, second, strict=True):
        if len(one) != len(two):
            return False
        for a, b in zip(one, two, strict=True):
            if a[1:] != b[1:]:
                return False
            if a[0] != b[0] and (isinstance(a[0], tuple) or not isinstance(b[0], tuple) or b[0][0] != "before"):
                return False
            if a[0] != b[0] and links.setdefault(a[0], b[0]) != b[0]:
                return False
    return True
