"""Which drawings a page has: one for each level, and one for each folded part that is opened there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from tinygrad_edu.graph.engine import LayoutError
from tinygrad_edu.graph.html.chinese import said
from tinygrad_edu.graph.levels import MAX_NODES
from tinygrad_edu.graph.mirror import VIEWS, fits
from tinygrad_edu.graph.opening import opened
from tinygrad_edu.graph.part import part
from tinygrad_edu.graph.picture import Card, Cluster, Picture
from tinygrad_edu.graph.record import Record

if TYPE_CHECKING:
    from tinygrad_edu.graph.graph import Graph

LEVELS, MIRROR = ("Model", "Modules", "Steps", "Ops"), "Mirror"
_STEPS = 2  # the level of the ledger
_MOST = 24  # parts that can be opened, each on a drawing of its own
_LARGEST = 5_000  # ops of a graph that is drawn op by op


@dataclass(slots=True)
class Sheet:
    """One drawing. tab: the sheet under whose tab it is seen. opens: by id of a part that can be opened or closed, the
    sheet where it is and its id there; closes: those of them that are open here. mirrored: gradients have cards of
    their own, beside those of the steps."""

    picture: Picture
    record: Record
    svg: str
    tab: int
    opens: dict[str, tuple[int, str]] = field(default_factory=dict)
    closes: set[str] = field(default_factory=set)
    mirrored: bool = False


@dataclass(slots=True)
class Sheets:
    """All drawings of a page. tabs: by name, the sheet of each; first: the one to begin with; listed: the one that
    shows the most steps of the ledger; steps: the cards of all of them, drawn or not."""

    drawings: list[Sheet] = field(default_factory=list)
    tabs: dict[str, int] = field(default_factory=dict)
    first: int = 0
    listed: int = 0
    steps: list[str] = field(default_factory=list)

    def add(self, picture: Picture, record: Record, draw: Callable[[], str], tab: int | None = None) -> int | None:
        """The number of a new drawing, of a tab of its own where none is named; None where it cannot be laid out."""
        number = len(self.drawings)
        try:
            self.drawings.append(Sheet(picture, record, draw(), number if tab is None else tab))
        except LayoutError:
            return None
        return number


def sheets_of(graph: Graph, level: int = _STEPS, open: str | Sequence[str] = (), view: str = "twin") -> Sheets:
    """The drawings of a graph; a level that shows nothing else than the next one has none.

    The first to be seen is that of a level, drawn with the modules `open` where such are named, or the mirror. Raises
    ValueError where the graph has no such level or view or no such modules, LayoutError where not even the named steps
    can be laid out; of all else, what cannot be is left out.
    """
    wanted = graph.picture(level, open)
    if view not in VIEWS:
        raise ValueError(f"view: {view!r} is not one of {', '.join(VIEWS)}")
    sheets = Sheets()
    pictures = {n: graph.picture(n) for n in range(len(LEVELS)) if n < 3 or _is_small(graph)}
    shown = {n: [(card.id, card.header) for card in picture.cards()] for n, picture in pictures.items()}
    places: dict[int, int] = {}
    for n, picture in pictures.items():
        if n != _STEPS and any(shown[n] == shown[other] for other in pictures if other in (n + 1, _STEPS)):
            continue
        record = opened(graph.record) if n > _STEPS else graph.record
        number = sheets.add(picture, record, partial(graph.svg, n))
        if number is not None:
            places[n] = sheets.tabs[said(LEVELS[n])] = number
        elif n == _STEPS:
            graph.svg(n)
    sheets.first = sheets.listed = steps = places[_STEPS]
    _unfold(graph, sheets)
    if 0 in places and len(places) > 1:
        for card in pictures[0].cards():
            if card.role == "module":
                sheets.drawings[places[0]].opens[card.id] = places[min(n for n in places if n)], ""
    if 1 in places:
        _open_modules(graph, sheets, places[1])
    sheets.first = places.get(level, steps)
    if open:
        base = sheets.drawings[sheets.first]
        number = sheets.add(wanted, base.record, partial(graph.svg, level, open), base.tab)
        sheets.first = sheets.first if number is None else number
    _mirror(graph, sheets)
    if view == "mirror":
        sheets.first = sheets.tabs.get(said(MIRROR), sheets.first)
    return sheets


def _is_small(graph: Graph) -> bool:
    return len(graph.record.forward) <= _LARGEST


def _unfold(graph: Graph, sheets: Sheets) -> None:
    """All repeats drawn one by one, where the named steps are few enough for that."""
    base = sheets.drawings[sheets.first]
    picture = graph.picture(_STEPS, "*", None)
    cards = picture.cards()
    sheets.steps = [card.id for card in cards if card.role == "step"]
    repeats = [item for item in _clusters(base.picture) if item.count > 1]
    if not repeats or len(cards) > MAX_NODES:
        return
    number = sheets.add(picture, graph.record, partial(graph.svg, _STEPS, "*", None), sheets.first)
    if number is None:
        return
    sheets.listed = number
    full = sheets.drawings[number]
    there = {item.id for item in _clusters(picture)}
    for item in repeats:
        base.opens[item.id] = sheets.listed, item.id if item.id in there else ""
        if item.id in there:
            full.opens[item.id] = sheets.first, item.id
            full.closes.add(item.id)


def _open_modules(graph: Graph, sheets: Sheets, place: int) -> None:
    """Every module that the level of modules shows closed, open on a sheet of its own."""
    base = sheets.drawings[place]
    made: dict[str, tuple[int, str]] = {}
    for path, closed in _closed(base.picture):
        if len(made) == _MOST:
            break
        picture = graph.picture(1, path)
        target = next((item.id for item in _clusters(picture) if item.path == path), "")
        number = sheets.add(picture, graph.record, partial(graph.svg, 1, path), place)
        if number is None:
            continue
        if target:
            sheets.drawings[number].opens[target] = place, closed
            sheets.drawings[number].closes.add(target)
        made[path] = number, target
    for sheet in [base, *(sheets.drawings[number] for number, _ in made.values())]:
        for path, closed in _closed(sheet.picture):
            if path in made:
                sheet.opens.setdefault(closed, made[path])
            elif sheets.listed != sheets.first:
                sheet.opens.setdefault(closed, (sheets.listed, ""))


def _mirror(graph: Graph, sheets: Sheets) -> None:
    """Forward and backward side by side: of everything, or of the first module that has few enough steps for that."""
    whole = graph.picture(_STEPS, "*", None)
    paths = [None, *(item.path for item in _clusters(whole) if item.path)]
    for path in paths:
        picture = whole if path is None else part(whole, path)
        if fits(picture):
            number = sheets.add(picture, graph.record, partial(graph.svg, _STEPS, view="mirror", module=path))
            if number is not None:
                sheets.drawings[number].mirrored = True
                sheets.tabs[said(MIRROR)] = number
            return


def _closed(picture: Picture) -> Iterator[tuple[str, str]]:
    """(path, id) of every module drawn as one card, and of every block that stands for several."""
    for card in picture.cards():
        if card.role == "module" and card.path:
            yield path_of(card), card.id
    for item in _clusters(picture):
        if item.count > 1 and item.path:
            yield item.path, item.id


def path_of(card: Card) -> str:
    """The path of the module that a card stands for.

    >>> path_of(Card("n1", "plain", "", "", "", "module", "blocks.0.attention · Attention"))
    'blocks.0.attention'
    """
    return card.path.partition(" · ")[0]


def _clusters(picture: Picture) -> Iterator[Cluster]:
    stack = list(reversed(picture.content))
    while stack:
        item = stack.pop()
        if isinstance(item, Cluster):
            yield item
            stack += reversed(item.content)
