"""Which axes a product of two values sums over, and where the others go: alike for matmul, linear and einsum."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tinygrad_edu.graph.record import Application, Record


@dataclass(slots=True)
class Product:
    """Two values that are multiplied and summed, axes by their places.

    x, y: the values. i, j: the axes of each that are summed over, in pairs. left, right: which axis of the result every
    other axis of x and of y is.
    """

    x: int
    i: list[int]
    y: int
    j: list[int]
    left: dict[int, int]
    right: dict[int, int]

    @property
    def rows(self) -> list[int]:
        """The axes of x that the result has of x alone."""
        return [a for a, o in self.left.items() if o not in self.right.values()]

    @property
    def columns(self) -> list[int]:
        """The axes of y that the result has of y alone."""
        return [b for b, o in self.right.items() if o not in self.left.values()]


def product_of(application: Application, record: Record) -> Product | None:
    """How an op multiplies and sums two values; None where it does not."""
    x, y = (*application.inputs, None, None)[:2]
    if x is None or y is None or application.op not in ("matmul", "linear", "einsum"):
        return None
    n, m, r = (len(record.values[number].shape) for number in (x, y, application.outputs[0]))
    if application.op == "linear":
        return Product(x, [n - 1], y, [1], {a: a for a in range(n - 1)}, {0: r - 1})
    if application.op == "matmul":
        left = {a: a + r - n if m > 1 else a for a in range(n - 1)}
        right = {b: b + r - m if n > 1 or b < m - 2 else b - 1 for b in range(m) if b != m - 2} if m > 1 else {}
        return Product(x, [n - 1], y, [max(m - 2, 0)], left, right)
    terms, result = letters_of(application)
    if len(terms) != 2:
        return None
    first, second = terms
    shared = [c for c in first if c in second and c not in result]
    if not shared:
        return None
    return Product(
        x,
        [first.index(c) for c in shared],
        y,
        [second.index(c) for c in shared],
        {a: result.index(c) for a, c in enumerate(first) if c in result},
        {b: result.index(c) for b, c in enumerate(second) if c in result},
    )


def letters_of(application: Application) -> tuple[list[str], str]:
    """The letters of every input and of the result of an einsum."""
    terms, _, result = str(application.static["equation"]).partition("->")
    return terms.split(","), result


def multiply_adds_of(application: Application, record: Record) -> int:
    """How many products of two numbers an op adds up."""
    found = product_of(application, record)
    if found is None:
        return 0
    shape = record.values[found.x].shape
    return prod(record.values[application.outputs[0]].shape) * prod(shape[a] for a in found.i)
