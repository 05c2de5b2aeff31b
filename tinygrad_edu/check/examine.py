"""One subject examined: its rules along random lines, and, where they disagree with differences, at which element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_edu.arrays import devices, library
from tinygrad_edu.check.differences import Line, Slope, estimate, measure
from tinygrad_edu.check.errors import Finding, Verdict
from tinygrad_edu.check.subject import Subject, random_signs, second

SURE = 1e-3  # differences that are further off than this part of the gradient decide nothing
KINKS = 4  # so many elements at kinks are set aside, to see whether anything else is wrong


@dataclass(frozen=True)
class Options:
    """How closely to look."""

    eps: float
    atol: float
    rtol: float
    directions: int
    seed: int


def examine(subject: Subject, options: Options) -> Finding | None:
    """What cannot be confirmed of the subject, None where everything can be; a wrong rule comes first."""
    if not subject.counted:
        subject.prepare()
    if (found := _two_evaluations(subject)) is not None:
        return found
    rng = np.random.default_rng(options.seed)
    doubts = []
    for _ in range(options.directions):
        weights = subject.random_weights(rng)
        gradients = subject.gradients(weights)
        for at, g in enumerate(gradients):
            direction = _direction(subject.points[at], rng)
            found = _Comparison(subject, at, g, weights, options, rng).along(direction)
            if found is not None:
                if found.verdict not in (Verdict.KINK, Verdict.NOISE):
                    return found
                doubts.append(found)
    return min(doubts, key=lambda f: f.verdict is Verdict.NOISE, default=None)


def examine_second(subject: Subject, weights: list[Any], options: Options) -> Finding | None:
    """The same of the subject's gradients, for `weights` as gradients of its outputs."""
    plain = subject.gradients(weights)
    recorded = second(subject, weights)
    recorded.prepare()
    values = dict(zip(recorded.counted, recorded.values, strict=True))  # without gradients that are constants
    there = [(at, g) for at, g in enumerate(plain) if g is not None]
    for i, (at, g) in enumerate(there):
        if i not in values:
            continue
        h = values[i]
        off = library.module_of(g).abs(g - h)
        allowed = options.atol + options.rtol * library.module_of(g).abs(g).max().item() if g.size else 0.0
        if (off > allowed).any().item():
            index = _unravel(int(off.argmax()), g.shape)
            unit = library.module_of(g).zeros_like(g)
            unit[index] = 1.0
            slope = estimate(Line(subject, at, unit, weights), options.eps)
            return Finding(
                Verdict.WRONG,
                subject.names[at],
                index,
                by_rule=h[index].item(),
                by_differences=slope.value,
                error=slope.error,
                what=f"d Σ w ⊙ outputs / d {subject.inputs[at]}{_said(index)}",
                note=f"the pass under create_graph=True gives another first derivative than the plain one, "
                f"{g[index].item():.10g}",
            )
    return examine(recorded, options)


def _two_evaluations(subject: Subject) -> Finding | None:
    """Whether the function gives at one point two results that differ by more than rounding could."""
    for i, one, other in zip(subject.counted, subject.values, subject.evaluate(), strict=True):
        xp = library.module_of(one)
        size = xp.abs(xp.where(xp.isfinite(one), one, 0.0)).max().item() if one.size else 0.0
        same = (one == other) | (xp.isnan(one) & xp.isnan(other)) | (xp.abs(one - other) <= 1e-11 * size)
        if not same.all().item():
            at = _unravel(int((~same).argmax()), one.shape)
            return Finding(
                Verdict.RANDOM,
                output=i,
                output_index=at,
                note=f"{subject.outputs[i]}{_said(at)} was {one[at].item()!r} first, then {other[at].item()!r}",
            )
    return None


def _unravel(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(flat, shape))


def _said(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]" if index else ""


def _direction(point: Any, rng: np.random.Generator) -> Any:
    """Random signs, elements above 1 moved in proportion to their size; powers of 2 keep the steps exact."""
    return library.as_array(random_signs(point, rng) * _unit(point), point)


def _unit(point: Any) -> Any:
    xp = library.module_of(point)
    return 2.0 ** xp.ceil(xp.log2(xp.maximum(xp.abs(xp.where(xp.isfinite(point), point, 1.0)), 1.0)))


class _Comparison:
    """The gradient of one input, for one weighting of the outputs, against differences."""

    def __init__(
        self, subject: Subject, at: int, gradient: Any, weights: list[Any], options: Options, rng: np.random.Generator
    ) -> None:
        self.subject, self.at, self.weights, self.options, self.rng = subject, at, weights, options, rng
        self.missing = gradient is None
        self.point = subject.points[at]
        self.gradient = library.module_of(self.point).zeros_like(self.point) if gradient is None else gradient
        self.name = subject.names[at]

    def along(self, direction: Any) -> Finding | None:
        xp = library.module_of(self.point)
        finite = xp.isfinite(self.gradient)
        if not finite.all().item():
            return self._at_element(_unravel(int((~finite).argmax()), self.point.shape))
        kink: Finding | None = None
        for _ in range(KINKS):
            rule = (self.gradient * direction).sum().item()
            scale = math.sqrt(((self.gradient * direction) ** 2).sum().item())
            line = Line(self.subject, self.at, direction, self.weights)
            quick = line.central(2.0 ** round(math.log2(self.options.eps)))
            if abs(rule - quick) <= self._allowed(scale, quick):
                return kink
            slope = estimate(line, self.options.eps)
            off, allowed = abs(rule - slope.value), self._allowed(scale, slope.value)
            if off <= allowed + 4 * slope.error and not math.isinf(slope.kink):
                sure = max(SURE * max(scale, abs(slope.value)), self.options.atol)
                if 2 * scale <= line.rounding():  # 0, as far as the outputs' own digits go
                    sure = max(sure, 1e5 * line.rounding())
                return kink if slope.error <= sure else self._finding(Verdict.NOISE, rule, slope)
            found = self._locate(direction, slope, rule)
            if found.verdict is not Verdict.KINK or found.index is None:
                return found
            kink = kink or found
            direction = direction.copy()
            direction[found.index] = 0.0
        return kink

    def _allowed(self, scale: float, slope: float) -> float:
        return self.options.atol + self.options.rtol * max(scale, abs(slope))

    def _finding(self, verdict: Verdict, rule: float, slope: Slope, **more: Any) -> Finding:
        what = more.pop("what", f"along one random direction of {self.subject.inputs[self.at]}")
        return Finding(
            verdict,
            self.name,
            by_rule=rule,
            by_differences=slope.value,
            error=slope.error,
            kinked=slope.kink != 0.0,
            what=what,
            **more,
        )

    def _locate(self, direction: Any, slope: Slope, rule: float) -> Finding:
        """Halves the elements again and again, and keeps the half that holds more of the disagreement."""
        if slope.edge:
            return self._finding(Verdict.KINK, rule, slope, note="the function is defined on one side only")
        if slope.still and not self._moves():
            return self._finding(Verdict.UNNEEDED, rule, slope)
        xp = library.module_of(self.point)
        moved = xp.flatnonzero(direction)
        off = rule - slope.value
        while len(moved) > 1:
            half = moved[: len(moved) // 2]
            part = xp.zeros_like(direction)
            part.reshape(-1)[half] = direction.reshape(-1)[half]
            line = Line(self.subject, self.at, part, self.weights)
            part_off = (self.gradient * part).sum().item() - measure(line, slope.h).slope
            if abs(part_off) >= abs(off) / 2:
                moved, off = half, part_off
            else:
                moved, off = moved[len(moved) // 2 :], off - part_off
        found = self._at_element(_unravel(int(moved[0]), self.point.shape))
        if found is not None:
            return found
        verdict = Verdict.KINK if slope.kink else Verdict.MISSING if self.missing else Verdict.WRONG
        return self._finding(verdict, rule, slope)

    def _moves(self) -> bool:
        """Whether anything at all changes when the whole input does."""
        direction = _direction(self.point, self.rng)
        return not estimate(Line(self.subject, self.at, direction, self.weights), self.options.eps).still

    def _at_element(self, index: tuple[int, ...]) -> Finding | None:
        """The finding for one element of the input and the element of the outputs where it is most wrong."""
        xp = library.module_of(self.point)
        direction = xp.zeros_like(self.point)
        unit = _unit(self.point)[index].item()
        direction[index] = unit
        which, place = self._worst_output(index, direction / unit)
        weights = _only(self.weights, which, place)
        gradient = self.subject.gradients(weights)[self.at]
        rule = 0.0 if gradient is None else gradient[index].item()
        slope = estimate(Line(self.subject, self.at, direction, weights), self.options.eps).per(unit)
        off = abs(rule - slope.value) if math.isfinite(rule) else math.inf
        allowed = 4 * slope.error
        verdict, note = Verdict.MISSING if self.missing else Verdict.WRONG, ""
        if slope.edge:
            verdict, note = Verdict.KINK, "the function is defined on one side only"
        elif math.isinf(slope.kink):
            verdict, note = Verdict.KINK, "the function jumps here"
        elif math.isfinite(off) and off <= self._allowed(abs(rule), slope.value) + allowed:
            return None
        elif slope.kink and (math.isinf(off) or off <= abs(slope.kink) * (1 + SURE) + allowed):
            verdict = Verdict.KINK
            note = f"its slope is {slope.value - slope.kink:.6g} from below, {slope.value + slope.kink:.6g} from above"
        output = self.subject.counted[which]
        what = f"d {self.subject.outputs[output]}{_said(place)} / d {self.subject.inputs[self.at]}{_said(index)}"
        return self._finding(verdict, rule, slope, index=index, output=output, output_index=place, what=what, note=note)

    def _worst_output(self, index: tuple[int, ...], direction: Any) -> tuple[int, tuple[int, ...]]:
        """Halves the elements of the outputs likewise; each half costs one reverse pass."""
        shapes = [w.shape for w in self.weights]
        ends = np.cumsum([w.size for w in self.weights])
        chosen = np.arange(ends[-1])
        if len(chosen) > 1:
            line = Line(self.subject, self.at, direction, self.weights)
            h = 2.0 ** (round(math.log2(self.options.eps)) + 4)
            right, left = _flat(line.changes(h)), _flat(line.changes(-h))
            if not math.isfinite(self.gradient[index].item()):  # every reverse pass may give NaN: 0 times infinity
                moves = np.maximum(np.abs(right), np.abs(left))
                chosen = chosen[[int(np.argmax(np.where(np.isfinite(moves), moves, np.inf)))]]
            slopes = (right - left) / (2 * h)
            slopes = np.where(np.isfinite(slopes), slopes, 0.0)
            weights = _flat(self.weights)
        while len(chosen) > 1:
            halves = np.array_split(chosen, 2)
            off = []
            for half in halves:
                kept = np.zeros(len(weights))
                kept[half] = weights[half]
                parts = [p.reshape(s) for p, s in zip(np.split(kept, ends[:-1]), shapes, strict=True)]
                g = self.subject.gradients(
                    [devices.to_device(p, devices.device_of(w)) for p, w in zip(parts, self.weights, strict=True)]
                )[self.at]
                off.append(abs((0.0 if g is None else g[index].item()) - (kept * slopes).sum().item()))
            chosen = halves[off[1] > off[0]]
        which = int(np.searchsorted(ends, chosen[0], side="right"))
        return which, _unravel(int(chosen[0] - ends[which]) + self.weights[which].size, shapes[which])


def _flat(arrays: Sequence[Any]) -> Any:
    return np.concatenate([_host(library.as_array(a)).reshape(-1) for a in arrays])


def _host(array: Any) -> Any:
    return devices.to_device(array, "cpu")


def _only(weights: Sequence[Any], which: int, place: tuple[int, ...]) -> list[Any]:
    """Weight 1 for one element of one output, 0 for all others."""
    found = [library.module_of(w).zeros_like(w) for w in weights]
    found[which][place] = 1.0
    return found
