"""Graph: a traced run, and every view of it as text or file."""

from __future__ import annotations

import os
from pathlib import Path

from tinygrad_edu.data.files import write_atomically
from tinygrad_edu.graph.cards import draw
from tinygrad_edu.graph.dot import dot
from tinygrad_edu.graph.engine import LayoutError, run_dot
from tinygrad_edu.graph.ledger import ledger
from tinygrad_edu.graph.picture import Picture
from tinygrad_edu.graph.record import Record
from tinygrad_edu.graph.svg import finished


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
        self._picture: Picture | None = None

    def __repr__(self) -> str:
        return f"{self.record.title}: {len(self.record.forward)} ops, {len(self.record.branches)} gradient branches"

    def picture(self) -> Picture:
        """The cards, wires and clusters of the drawing, as data."""
        if self._picture is None:
            self._picture = draw(self.record)
        return self._picture

    def dot(self) -> str:
        """The drawing in Graphviz's language; needs no Graphviz."""
        return dot(self.picture())

    def svg(self) -> str:
        """The drawing as SVG. Raises LayoutError where it cannot be laid out."""
        return finished(run_dot(self.dot()), self.picture())

    def ledger(self) -> str:
        """The run as a Markdown table, a line for each step, with totals and the four-step check of a diagram."""
        return ledger(self.record, self.picture())

    def json(self) -> str:
        """The record itself."""
        return self.record.json()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file, whole or not at all: .svg, .dot, .md for the ledger or .json for the record.

        Raises ValueError for another ending, OSError where the file cannot be written, LayoutError where an SVG cannot
        be laid out; then the DOT text is written beside it.
        """
        path = Path(path)
        views = {".svg": self.svg, ".dot": self.dot, ".md": self.ledger, ".json": self.json}
        view = views.get(path.suffix.lower())
        if view is None:
            raise ValueError(f"{path.name}: a graph is saved as one of {', '.join(views)}; end the name in one of them")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            content = view()
        except LayoutError as error:
            beside = path.with_suffix(".dot")
            write_atomically(beside, self.dot())
            raise LayoutError(f"{error}; the graph is in {beside}, as DOT text") from None
        write_atomically(path, content)

    def _repr_svg_(self) -> str | None:
        """For notebooks; None, and so the text form, where nothing can be laid out."""
        try:
            return self.svg()
        except LayoutError:
            return None
