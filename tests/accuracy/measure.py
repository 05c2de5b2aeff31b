"""Values and derivatives of a function against mpmath's, in units in the last place of the dtype."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import mpmath
import numpy as np
from mpmath import mp

import tinygrad_edu as tg

Point = tuple[float, ...]
ORDERS = ("value", "first", "recorded", "second")
DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class Line:
    """One function of the table, written so that it runs on `tg` and on `torch` alike.

    function: (library, *xs) to a tensor, xs one tensor [P] for each argument. reference: the same of mpmath's numbers.
    points: where, a tuple of arguments each; they are rounded to the dtype first. kinks: whether derivatives are left
    out at a point, since there are none. bounds: units in the last place that are allowed, by (dtype, order) or order,
    where it is not 8, each with its reason at the line. linear: arguments whose second derivative is 0 anywhere.
    """

    name: str
    function: Callable[..., Any]
    reference: Callable[..., Any]
    points: Sequence[Point]
    kinks: Callable[..., bool] = lambda *xs: False
    bounds: dict[Any, float] = field(default_factory=dict)
    linear: tuple[int, ...] = ()

    def bound(self, dtype: str, order: str) -> float:
        """What is allowed for a dtype and an order."""
        return self.bounds.get((dtype, order), self.bounds.get(order, self.bounds.get(dtype, 8.0)))


def rounded(line: Line, dtype: str, every: int = 1) -> list[Point]:
    """The points in the dtype, each once, without those that overflow or vanish in it; only some for a sample."""
    kind = np.dtype(dtype).type
    with np.errstate(over="ignore"):
        found = {tuple(float(kind(v)) for v in point): point for point in line.points}
    kept = [
        point
        for point, given in found.items()
        if np.isfinite(point).all() and all(v or not w for v, w in zip(point, given, strict=True))
    ]
    return kept[:: every if len(kept) > 4 * every else 1]


def entries(count: int) -> list[tuple[str, tuple[int, ...]]]:
    """What is compared at each point: the value, each derivative, and each second one, of `count` arguments."""
    first = [(order, (i,)) for order in ("first", "recorded") for i in range(count)]
    second = [("second", pair) for pair in itertools.combinations_with_replacement(range(count), 2)]
    return [("value", ()), *first, *second]


# The truth


def truth(line: Line, point: Point, places: tuple[int, ...]) -> Any:
    """The value, or the derivative by the arguments at `places`, with 20 digits; None where there is no real number.

    By differences of so many digits that a longer computation gives the same.
    """
    if len(places) == 2 and places[0] == places[1] and places[0] in line.linear:
        return mp.mpf(0)
    before = None
    least = min([abs(v) for v in point if v], default=1.0)
    for digits in (60, 120, 240, 480, 960) if least > 1e-100 else (60, 480, 1920):
        try:
            with mp.workdps(digits):
                found = _difference(line.reference, [mp.mpf(v) for v in point], places, digits)
                if not isinstance(found, mp.mpf) or not mp.isfinite(found):
                    return None
        except (ValueError, ZeroDivisionError, OverflowError, TypeError, mpmath.libmp.NoConvergence):
            return None
        if found and before is not None and abs(found - before) <= abs(found) * mp.mpf(10) ** -20:
            return found
        before = found
    return before if before == 0 else None


def _difference(f: Callable[..., Any], x: list[Any], places: tuple[int, ...], digits: int) -> Any:
    step = mp.mpf(10) ** (-digits // 5)
    h = [step * (abs(v) if v else 1) for v in x]

    def at(*moves: int) -> Any:
        """The function, each argument moved on by so many steps."""
        return f(*(v + m * d if m else v for v, m, d in zip(x, moves, h, strict=True)))

    def move(*signs: int) -> Any:
        moves = [0] * len(x)
        for i, s in zip(places, signs, strict=True):
            moves[i] += s
        return at(*moves)

    if not places:
        return at(*[0] * len(x))
    if len(places) == 1:
        return (move(1) - move(-1)) / (2 * h[places[0]])
    i, j = places
    if i == j:
        return (move(1, 0) - 2 * at(*[0] * len(x)) + move(-1, 0)) / h[i] ** 2
    return (move(1, 1) - move(1, -1) - move(-1, 1) + move(-1, -1)) / (4 * h[i] * h[j])


@functools.cache
def _limits(dtype: str) -> tuple[Any, Any, int]:
    info = np.finfo(dtype)
    return mp.mpf(float(info.tiny)), mp.mpf(float(info.max)), int(info.nmant)


def about(line: Line, point: Point, places: tuple[int, ...], right: Any) -> Any:
    """The size that an error is measured by: that of what is right, or near a change of its sign, where large terms
    have to cancel, the largest that it has a quarter of an argument away."""
    beside = [
        truth(line, (*point[:i], v * f, *point[i + 1 :]), places) for i, v in enumerate(point) for f in (0.75, 1.25)
    ]
    known = [v for v in beside if v is not None]
    return max(map(abs, known)) if any(v * right < 0 for v in known) else right


def units(found: float, right: Any, dtype: str, size: Any = None) -> float | None:
    """How far `found` is from what is right, in units in the last place of that; None where that is no normal number.

    What is 0 has to be 0, or so small that it is no normal number.
    """
    tiny, most, digits = _limits(dtype)
    size = abs(right if size is None else size)
    if size == 0:
        return 0.0 if abs(found) < tiny else float("inf")
    if not tiny <= size <= most:
        return None
    if not np.isfinite(found):
        return float("inf")
    with mp.workdps(40):
        return float(abs(mp.mpf(found) - right) / mp.ldexp(1, mp.frexp(size)[1] - 1 - digits))


# What is computed


def computed(line: Line, points: list[Point], dtype: str, library: Any = tg) -> list[np.ndarray]:
    """For every entry of the table, what the library computes at the points.

    The first derivative is that of an ordinary pass, "recorded" that of one that can be differentiated again.
    """
    columns = [np.array(c, dtype) for c in zip(*points, strict=True)]
    if library is tg:
        xs = [tg.Tensor(c, requires_grad=True) for c in columns]
        grad = tg.grad
    else:
        xs = [library.tensor(c, requires_grad=True) for c in columns]
        grad = library.autograd.grad
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = line.function(library, *xs)
        found = [_array(y)]
        zero = np.zeros(len(points))
        try:
            plain = _gradients(grad, y, xs, False)
            firsts = _gradients(grad, y, xs, True)
            found += [zero if g is None else _array(g) for g in (*plain, *firsts)]
            seconds = [_gradients(grad, g, xs, True) for g in firsts]
        except RuntimeError:  # PyTorch has no derivative of some, and no second one of more
            if library is tg:
                raise
            return found
        for i, j in itertools.combinations_with_replacement(range(len(xs)), 2):
            h = seconds[i][j]
            found.append(zero if h is None else _array(h))
    return found


def _gradients(grad: Any, y: Any, xs: list[Any], create: bool) -> list[Any]:
    if y is None or not y.requires_grad:
        return [None] * len(xs)
    return list(grad(y.sum(), xs, retain_graph=True, create_graph=create, allow_unused=True))


def _array(y: Any) -> np.ndarray:
    y = y.detach()
    if not isinstance(y, tg.Tensor):
        y = y.clone()  # PyTorch has zeros without memory, of which numpy() is a segmentation fault
    return np.asarray(y.numpy(), np.float64)


@dataclass
class Worst:
    """The largest error of one order, and where; how many were compared."""

    units: float = 0.0
    point: Point = ()
    count: int = 0


def worst(line: Line, dtype: str, every: int, libraries: Sequence[Any]) -> list[dict[str, Worst]]:
    """For each library and order, the largest error at the points."""
    points = rounded(line, dtype, every)
    results = [{order: Worst() for order in ORDERS} for _ in libraries]
    found = [computed(line, points, dtype, library) for library in libraries]
    known = {p: truth(line, point, ()) for p, point in enumerate(points)}
    most = _limits(dtype)[1]
    for p, point in enumerate(points):
        if known[p] is None or abs(known[p]) > most:  # what overflowed has no derivative
            continue
        seen: dict[tuple[int, ...], Any] = {(): known[p]}
        for e, (order, places) in enumerate(entries(len(point))):
            if order != "value" and line.kinks(*point):
                continue
            right = seen[places] if places in seen else seen.setdefault(places, truth(line, point, places))
            if right is None:
                continue
            for values, result in zip(found, results, strict=True):
                if e >= len(values):
                    continue
                error = units(float(values[e][p]), right, dtype)
                if error is None:
                    continue
                w = result[order]
                if error > line.bound(dtype, order):
                    error = units(float(values[e][p]), right, dtype, about(line, point, places, right)) or error
                w.count += 1
                if error > w.units:
                    w.units, w.point = error, point
    return results
