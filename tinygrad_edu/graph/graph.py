"""Graph: a traced run, and every view of it as text or file."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from tinygrad_edu.files import file_path, make_folder, write_atomically
from tinygrad_edu.graph.cards import draw
from tinygrad_edu.graph.diff import Diff
from tinygrad_edu.graph.dot import dot
from tinygrad_edu.graph.engine import LayoutError, run_dot
from tinygrad_edu.graph.html.page import framed, page
from tinygrad_edu.graph.ledger import ledger
from tinygrad_edu.graph.levels import LEVELS, MAX_NODES, at_level, check_open
from tinygrad_edu.graph.mirror import VIEWS, fits, mirror, too_large
from tinygrad_edu.graph.opening import opened
from tinygrad_edu.graph.part import part
from tinygrad_edu.graph.picture import Picture
from tinygrad_edu.graph.png import png
from tinygrad_edu.graph.record import Record
from tinygrad_edu.graph.svg import finished
from tinygrad_edu.graph.words import spoken


class Graph:
    """One run, forward and backward, to be looked at. `record` has everything; each method shows it in one way.

    >>> import tinygrad_edu as tg
    >>> from tinygrad_edu.graph import trace
    >>> def square(x):
    ...     return (x * x).sum()
    >>> graph = trace(square, tg.ones(3, requires_grad=True))
    >>> print(graph)
    square: 2 ops, 3 gradient branches
    """

    def __init__(self, record: Record) -> None:
        self.record = record
        self._pictures: dict[object, Picture] = {}

    def __repr__(self) -> str:
        return f"{self.record.title}: {len(self.record.forward)} ops, {len(self.record.branches)} gradient branches"

    def picture(
        self,
        level: int = 2,
        open: str | Sequence[str] = (),
        max_nodes: int | None = MAX_NODES,
        module: str | None = None,
    ) -> Picture:
        """The cards, wires and clusters of a drawing, as data.

        level: 0 for the model between its inputs and results, 1 for its modules, 2 for its named steps, 3 for every op,
        those of a fused op being the ones of its definition. Equal modules in a row are drawn as one, with their
        number. open: paths of modules, or patterns such as "blocks.*", to be drawn in full beside their like, at level
        1 with all their steps; "*" for all. max_nodes: a level with more cards gives way to the one above it, and the
        picture says so; None for no limit. module: the path of one that is drawn alone, at level 2 or 3.

        Raises ValueError for another level, or where `open` or `module` names no module.
        """
        patterns = (open,) if isinstance(open, str) else tuple(open)
        if level not in LEVELS:
            raise ValueError(f"level: {level!r} is not one of {', '.join(map(str, LEVELS))}; 2 has the named steps")
        key = level, patterns, max_nodes, module, spoken()
        if key not in self._pictures:
            for pattern in patterns:
                check_open(pattern, self.record)
            full = self._full if module is None else lambda every: part(self._full(every), module)
            self._pictures[key] = at_level(full, level, patterns, max_nodes)
        return self._pictures[key]

    def _full(self, every: bool) -> Picture:
        """Every step, or every op, with nothing folded."""
        key = every, spoken()
        if key not in self._pictures:
            self._pictures[key] = draw(opened(self.record), every=True) if every else draw(self.record)
        return self._pictures[key]

    def dot(
        self,
        level: int = 2,
        open: str | Sequence[str] = (),
        max_nodes: int | None = MAX_NODES,
        *,
        view: str = "twin",
        module: str | None = None,
    ) -> str:
        """The drawing in Graphviz's language; needs no Graphviz.

        view: "twin", the value and its gradient on one wire; or "mirror", the backward pass as a graph beside the
        forward one, for what has few steps: name a `module`. Where there are too many the twin is drawn, and says so.
        The other arguments are those of `picture`. Raises ValueError as it does, and for another view.
        """
        return self._drawing(level, open, max_nodes, view, module)[0]

    def svg(
        self,
        level: int = 2,
        open: str | Sequence[str] = (),
        max_nodes: int | None = MAX_NODES,
        *,
        view: str = "twin",
        module: str | None = None,
    ) -> str:
        """The drawing as SVG. Arguments and errors as of `dot`; LayoutError where it cannot be laid out."""
        text, picture = self._drawing(level, open, max_nodes, view, module)
        return finished(run_dot(text), picture)

    def _drawing(
        self, level: int, open: str | Sequence[str], max_nodes: int | None, view: str, module: str | None
    ) -> tuple[str, Picture]:
        if view not in VIEWS:
            raise ValueError(f"view: {view!r} is not one of {', '.join(VIEWS)}")
        picture = self.picture(level, open, max_nodes, module)
        if view == "twin":
            return dot(picture), picture
        every = self._full(every=level == 3) if level > 1 else picture
        alone = every if module is None or level < 2 else part(every, module)
        if fits(alone):
            return mirror(alone, opened(self.record) if level == 3 else self.record), alone
        return dot(told := too_large(picture)), told

    def ledger(self) -> str:
        """The run as a Markdown table, a line for each step, with totals and the four-step check of a diagram."""
        return ledger(self.record, self._full(every=False))

    def diff(self, other: Graph) -> Diff:
        """What `other` has and this graph has not: steps added, removed and changed, in words, as a table, drawn.

        Steps are one where module, op and axes are, layer numbers left aside, and repeats count once; see `Diff`.
        """
        return Diff(*(graph.picture(max_nodes=None) for graph in (self, other)))

    def html(self, level: int = 2, open: str | Sequence[str] = (), *, view: str = "twin") -> str:
        """One page for a browser, complete in itself.

        It has the drawings of all levels, to zoom into and to search, the backward pass step by step, gradients as a
        quiz, and the ledger. level, open, view: what is seen first, as in `svg`. Raises ValueError as that does,
        LayoutError where nothing can be laid out.
        """
        return page(self, level, open, view)

    def json(self) -> str:
        """The record itself."""
        return self.record.json()

    def save(
        self,
        path: str | os.PathLike[str],
        level: int = 2,
        open: str | Sequence[str] = (),
        max_nodes: int | None = MAX_NODES,
        *,
        view: str = "twin",
        module: str | None = None,
        strict: bool = False,
    ) -> list[Path]:
        """Write a file, whole or not at all: .svg, .html, .png, .dot, .md for the ledger or .json for the record.

        The other arguments are those of `svg`, for .svg and .dot. Returns what was written. Where a drawing cannot be
        laid out that is the DOT text and the ledger beside it, and a warning says why, so that a training run goes on;
        `strict` raises LayoutError instead of warning. Raises ValueError for another ending, OSError where a file
        cannot be written.
        """
        path = file_path(path)

        def text() -> str:
            return self.dot(level, open, max_nodes, view=view, module=module)

        views: dict[str, Callable[[], str | bytes]] = {
            ".svg": lambda: self.svg(level, open, max_nodes, view=view, module=module),
            ".html": lambda: self.html(level, open, view=view),
            ".png": lambda: png(self.svg(level, open, max_nodes, view=view, module=module), text()),
            ".dot": text,
            ".md": self.ledger,
            ".json": self.json,
        }
        content = views.get(path.suffix.lower())
        if content is None:
            raise ValueError(f"{path.name}: a graph is saved as one of {', '.join(views)}; end the name in one of them")
        make_folder(path.parent)
        try:
            write_atomically(path, content())
        except LayoutError as error:
            beside = [path.with_suffix(".dot"), path.with_suffix(".md")]
            for other, told in zip(beside, (text(), self.ledger()), strict=True):
                write_atomically(other, told, follow=False)
            said = f"{error}; the graph is in {beside[0]} as DOT text and in {beside[1].name} as a table"
            if strict:
                raise LayoutError(said) from None
            warnings.warn(said, stacklevel=2)
            return beside
        return [path]

    def _repr_svg_(self) -> str | None:
        """For notebooks; None, and so the text form, where nothing can be laid out."""
        try:
            return self.svg()
        except LayoutError:
            return None

    def _repr_html_(self) -> str | None:
        """For notebooks: the page in a frame; None, as for SVG, where nothing can be laid out."""
        try:
            return framed(self.html(), self.record.title)
        except LayoutError:
            return None
