"""One module cut out of a picture: what ran in it, between what it read and what it gave."""

from __future__ import annotations

from dataclasses import replace

from tinygrad_edu.graph.folding import joined
from tinygrad_edu.graph.picture import Card, Cluster, Picture, Row, Wire, cards_of, mark_ways
from tinygrad_edu.graph.words import say

Item = Card | Cluster


def part(picture: Picture, path: str) -> Picture:
    """The picture of one module alone; of the first run, where it ran several times.

    What came in and what went out stand as cards of their own, with the gradients that passed there. Raises ValueError
    where the picture has no module of this path.
    """
    found = _find(picture, path)
    if found is None:
        raise ValueError(f"module: no module {path!r} is on the picture; take a path such as {_some(picture)}")
    inside = {card.id for card in cards_of([found])}
    coming = [wire for wire in picture.wires if wire.head in inside and wire.tail not in inside]
    leaving = [wire for wire in picture.wires if wire.tail in inside and wire.head not in inside]
    cards = {card.id: card for card in picture.cards()}
    starts = _ends([(wire.tail, wire.name) for wire in coming], "s")
    ends = _ends([(wire.tail, wire.name) for wire in leaving], "t")
    made = replace(picture, title=found.label if isinstance(found, Cluster) else found.path, remarks=[], wires=[])
    for wire in picture.wires:
        if wire.head in inside:
            made.wires.append(replace(wire, tail=starts.get((wire.tail, wire.name), wire.tail)))
    for (tail, name), number in ends.items():
        several = [wire for wire in leaving if (wire.tail, wire.name) == (tail, name)]
        gradient = joined([wire.gradient for wire in several])
        made.wires.append(replace(several[0], head=number, shapes=several[0].shapes[:1], gradient=gradient))
    sources = [_start(n, [w for w in coming if (w.tail, w.name) == key], cards[key[0]]) for key, n in starts.items()]
    results = [_end(n, made.wires[-len(ends) + at]) for at, n in enumerate(ends.values())]
    made.content = [*sources, found, *results]
    mark_ways(made.wires)
    return made


def _find(picture: Picture, path: str) -> Item | None:
    """The cluster or the card of a module, the first that there is."""
    stack: list[Item] = list(reversed(picture.content))
    while stack:
        item = stack.pop()
        if item.path is not None and (item.path == path or item.path.startswith(f"{path} · ")):
            return item
        if isinstance(item, Cluster):
            stack += reversed(item.content)
    return None


def _some(picture: Picture) -> str:
    paths = [card.path.partition(" · ")[0] for card in picture.cards() if card.path]
    parents = [path.rpartition(".")[0] for path in paths if "." in path]
    return ", ".join(list(dict.fromkeys([*parents, *paths]))[:4]) or "none, since the model has no modules"


def _ends(keys: list[tuple[str, str]], letter: str) -> dict[tuple[str, str], str]:
    return {key: f"{letter}{at}" for at, key in enumerate(dict.fromkeys(keys))}


def _start(number: str, wires: list[Wire], tail: Card) -> Card:
    """A value that comes in."""
    kind = "parameter" if tail.origin == "parameter" else "input"
    card = Card(number, kind, wires[0].name, tail.words if tail.role == "leaf" else "", tail.title, "leaf")
    card.lines, card.streams = wires[0].shapes[:1], tail.streams
    card.origin, card.size = tail.origin or "input", tail.size
    parts = [wire.gradient for wire in wires if wire.gradient is not None]
    after = max((row.after for row in tail.rows), default=-1)
    if len(parts) > 1:
        formula = f"d{wires[0].name} = {' + '.join(parts)}"
        same = next((row for row in tail.rows if row.formula == formula), None)
        card.rows = [same or Row("sum", formula, say("sum of the branches"), after)]
    elif parts:
        card.rows = [Row("end", parts[0], say("goes back from here"), after)]
    return card


def _end(number: str, wire: Wire) -> Card:
    """A value that goes out."""
    card = Card(number, "output", wire.name, say("result"), wire.name, "result", lines=wire.shapes[:1])
    if wire.gradient is not None:
        card.rows = [Row("start", wire.gradient, say("gradient enters here"))]
    return card
