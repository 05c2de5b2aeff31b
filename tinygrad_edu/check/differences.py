"""Derivatives by differences along a line, with an estimate of their error, and what the two sides say of a kink."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinygrad_edu.arrays import library
from tinygrad_edu.check.subject import Subject

UNIT = 2.0**-53  # half the distance from 1 to the next float64
RATIO = 4  # steps are about 2⁴ apart
INNER = 79 / 128  # the shorter of the two steps that are extrapolated from
# The steps' mantissas: were they all powers of 2, a coarse result such as (x + 1e12) − 1e12, itself a multiple of a
# power of 2, would give the same wrong slope at several steps. Few bits, so that steps stay exact.
MANTISSAS = tuple(n / 256 for n in (251, 211, 173, 139, 229, 191, 157, 137, 239, 199, 167, 131))


class Line:
    """The outputs of a subject, weighted and summed, along x + t·direction in one of its inputs.

    Changes are summed element by element, y(x + t·v) − y(x) first, so that summing adds no noise of its own.
    """

    def __init__(self, subject: Subject, at: int, direction: Any, weights: Sequence[Any]) -> None:
        self.subject, self.at, self.direction, self.weights = subject, at, direction, weights

    def changes(self, t: float) -> list[Any]:
        """y(x + t·v) − y(x), every counted output; 0 where it has no weight."""
        points = list(self.subject.points)
        points[self.at] = points[self.at] + self.direction * t
        found = []
        for y, base, w in zip(self.subject.evaluate(points), self.subject.values, self.weights, strict=True):
            with np.errstate(invalid="ignore"):
                found.append(library.module_of(y).where(w == 0, 0.0, y - base))
        return found

    def change(self, t: float) -> float:
        """Σ weights ⊙ changes, NaN where one is not finite."""
        total = 0.0
        for change, w in zip(self.changes(t), self.weights, strict=True):
            total += (change * w).sum().item()
        return total if math.isfinite(total) else math.nan

    def central(self, h: float) -> float:
        """(f(x + h·v) − f(x − h·v)) / 2h, with an error of h²."""
        return (self.change(h) - self.change(-h)) / (2 * h)

    def rounding(self) -> float:
        """What rounding the outputs alone does to a change."""
        square = 0.0
        for y, w in zip(self.subject.values, self.weights, strict=True):
            xp = library.module_of(y)
            square += (xp.where(w == 0, 0.0, y * w) ** 2).sum().item()
        return 2 * UNIT * math.sqrt(square)


@dataclass(frozen=True)
class Step:
    """What four evaluations, at ±h and nearer, say of a slope."""

    h: float
    right: float  # f(x + h) − f(x)
    left: float  # f(x − h) − f(x)
    slope: float  # from all four, with an error of h⁴
    spread: float  # its distance from the slope of the inner two
    bend: float  # half of what the slopes of the two sides differ by: h·f″/2 where f is smooth

    @property
    def known(self) -> bool:
        """Whether the function is defined on both sides."""
        return math.isfinite(self.slope)


def measure(line: Line, h: float) -> Step:
    """The central differences at h and at INNER · h, extrapolated to h = 0 as errors of h² are."""
    right, left = line.change(h), line.change(-h)
    inner = line.central(INNER * h)
    slope = inner + (inner - (right - left) / (2 * h)) * INNER**2 / (1 - INNER**2)
    return Step(h, right, left, slope, abs(slope - inner), (right + left) / (2 * h))


@dataclass(frozen=True)
class Slope:
    """A derivative by differences: its value, how far that may be off, and the step that was best.

    kink: half of what the slope from above exceeds the one from below by, where they stay apart as the step shrinks,
    infinite for a jump of the function itself, else 0.
    still: whether nothing changed at any step but by rounding. edge: whether the function is undefined on one side.
    """

    value: float
    error: float
    h: float
    kink: float = 0.0
    still: bool = False
    edge: bool = False

    def per(self, unit: float) -> Slope:
        """The slope along the direction divided by `unit`."""
        return replace(self, value=self.value / unit, error=self.error / unit, kink=self.kink / unit)


def estimate(line: Line, eps: float) -> Slope:
    """The derivative along a line, from steps between about 60 000 · eps and eps / 4 000 (fewer where undefined).

    The error is the distance to the slopes at the neighbouring steps: too large a step bends away, too small a one
    drowns in rounding, and between them there is a plateau. The smallest steps say nothing where they change the
    outputs by no more than rounding, and a larger one changes them by more.
    """
    start = round(math.log2(eps))
    sizes = [m * 2.0 ** (start + RATIO * k) for m, k in zip(MANTISSAS, range(4, -8, -1), strict=True)]
    steps = [measure(line, h) for h in sizes[:8]]
    known = [s for s in steps if s.known]
    if len(known) < 3:
        steps += [measure(line, h) for h in sizes[8:]]
        known = [s for s in steps if s.known]
    if not known:
        side = next((s for s in reversed(steps) if math.isfinite(s.right) or math.isfinite(s.left)), None)
        value = math.nan if side is None else side.right / side.h if math.isfinite(side.right) else -side.left / side.h
        return Slope(value, math.inf, steps[-1].h, edge=True)
    floor = line.rounding()
    moving = [i for i, s in enumerate(known) if max(abs(s.right), abs(s.left)) > 4 * floor]
    if not moving:
        return Slope(0.0, 4 * floor / known[0].h, known[0].h, still=True)
    telling = known[: moving[-1] + 1]
    best = Slope(math.nan, math.inf, telling[0].h)
    for i, s in enumerate(telling):
        around = [abs(s.slope - n.slope) for n in telling[max(i - 1, 0) : i + 2] if n is not s]
        error = max(s.spread, *around) if around else 10 * s.spread
        if (error := error + floor / s.h) < best.error:
            best = Slope(s.slope, error, s.h)
    return Slope(best.value, best.error, best.h, kink=_kink(telling, floor, 2.0**start))


def _kink(telling: list[Step], floor: float, eps: float) -> float:
    """What of the bend is left at small steps, where that of a smooth function is gone; infinite for a jump."""
    small = [s for s in telling if s.h <= eps * 2.0**RATIO]
    for side in ("right", "left"):
        last = [getattr(s, side) for s in small[-3:]]
        if len(last) == 3 and abs(last[2]) > 1000 * floor and max(last) - min(last) < 0.01 * abs(last[2]):
            return math.inf
    for larger, smaller in itertools.pairwise(small):
        noise = smaller.spread + floor / smaller.h
        if abs(smaller.bend) > 10 * noise and abs(smaller.bend) > 0.5 * abs(larger.bend):
            return smaller.bend
    return 0.0
