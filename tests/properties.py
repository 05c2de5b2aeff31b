"""The properties that every op is held to, each a function of a case: what it computes, and on which inputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import tinygrad_edu as tg
from tinygrad_edu.engine.modes import Listener, setting
from tinygrad_edu.engine.tape import registry

STEP = 1e-6


@dataclass(frozen=True)
class Case:
    """A function of Tensors, the same function of arrays, and inputs: shapes, or arrays where values matter."""

    name: str
    function: Callable[..., Any]
    reference: Callable[..., Any] | None
    inputs: tuple[Any, ...]
    low: float = -2.0
    high: float = 2.0
    smooth: bool = True  # whether derivatives exist and are checked

    def arrays(self, dtype: Any = np.float64) -> list[np.ndarray]:
        rng = np.random.default_rng(sum(map(ord, self.name)))
        return [
            (rng.uniform(self.low, self.high, x) if isinstance(x, tuple) else np.asarray(x)).astype(dtype)
            for x in self.inputs
        ]


def tensors(arrays: list[np.ndarray]) -> list[tg.Tensor]:
    return [tg.Tensor(a, requires_grad=True) for a in arrays]


def weighted(function: Callable[..., Any], weights: list[np.ndarray]) -> Callable[..., tg.Tensor]:
    """The sum of the function's outputs times fixed random numbers, so that no derivative hides in a symmetry."""

    def total(*xs: tg.Tensor) -> tg.Tensor:
        ys = function(*xs)
        ys = [y for y in (ys if isinstance(ys, tuple) else (ys,)) if y.dtype.kind == "f"]
        return sum((y * w).sum() for y, w in zip(ys, weights, strict=True))

    return total


def random_weights(function: Callable[..., Any], arrays: list[np.ndarray], seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    ys = function(*tensors(arrays))
    ys = ys if isinstance(ys, tuple) else (ys,)
    return [rng.standard_normal(y.shape) for y in ys if y.dtype.kind == "f"]


def forward_is_numpy(case: Case) -> None:
    assert case.reference is not None
    arrays = case.arrays()
    expected = case.reference(*arrays)
    found = case.function(*tensors(arrays))
    for y, e in zip(
        found if isinstance(found, tuple) else (found,),
        expected if isinstance(expected, tuple) else (expected,),
        strict=True,
    ):
        assert y.shape == np.shape(e)
        np.testing.assert_allclose(y.array, e, rtol=1e-12, atol=1e-13)


def first_derivative(case: Case) -> None:
    arrays = case.arrays()
    scalar = weighted(case.function, random_weights(case.function, arrays, 1))
    xs = tensors(arrays)
    gradients = tg.grad(scalar(*xs), xs)
    rng = np.random.default_rng(2)
    for i, (a, g) in enumerate(zip(arrays, gradients, strict=True)):
        assert g.shape == a.shape
        assert g.dtype == a.dtype
        v = rng.standard_normal(a.shape)
        ends = [scalar(*tensors([*arrays[:i], a + s * STEP * v, *arrays[i + 1 :]])).item() for s in (1, -1)]
        difference = (ends[0] - ends[1]) / (2 * STEP)
        assert (g.array * v).sum() == np.float64(difference) or abs((g.array * v).sum() - difference) < 1e-6 * (
            1 + abs(difference)
        ), f"input {i}: by rule {(g.array * v).sum()}, by differences {difference}"


def second_derivative(case: Case) -> None:
    arrays = case.arrays()
    scalar = weighted(case.function, random_weights(case.function, arrays, 1))
    rng = np.random.default_rng(3)
    directions = [rng.standard_normal(a.shape) for a in arrays]

    def slope(values: list[np.ndarray], create: bool) -> tuple[Any, list[tg.Tensor]]:
        xs = tensors(values)
        gradients = tg.grad(scalar(*xs), xs, create_graph=create)
        return sum((g * d).sum() for g, d in zip(gradients, directions, strict=True)), xs

    value, xs = slope(arrays, create=True)
    if not value.requires_grad:  # the function is linear: its slope is the same everywhere
        found: list[Any] = [None] * len(xs)
    else:
        found = list(tg.grad(value, xs, allow_unused=True))
    for i, (a, g) in enumerate(zip(arrays, found, strict=True)):
        v = rng.standard_normal(a.shape)
        ends = [slope([*arrays[:i], a + s * STEP * v, *arrays[i + 1 :]], create=False)[0].item() for s in (1, -1)]
        difference = (ends[0] - ends[1]) / (2 * STEP)
        rule = 0.0 if g is None else float((g.array * v).sum())
        assert abs(rule - difference) < 2e-6 * (1 + abs(difference)), (
            f"input {i}: by rules {rule}, by differences {difference}"
        )


def keeps_float32(case: Case) -> None:
    arrays = case.arrays(np.float32)
    xs = tensors(arrays)
    ys = case.function(*xs)
    floats = [y for y in (ys if isinstance(ys, tuple) else (ys,)) if y.dtype.kind == "f"]
    assert all(y.dtype == np.float32 for y in floats)
    if case.smooth:
        total = floats[0].sum()
        for y in floats[1:]:
            total = total + y.sum()
        assert all(g.dtype == np.float32 for g in tg.grad(total, xs))
    wide = case.function(*tensors([a.astype(np.float64) for a in arrays]))
    for y, w in zip(ys if isinstance(ys, tuple) else (ys,), wide if isinstance(wide, tuple) else (wide,), strict=True):
        np.testing.assert_allclose(y.array, w.array, rtol=2e-4, atol=2e-5)


def takes_lengths_0_and_1(case: Case) -> None:
    """Every length in turn as 0 and as 1, in all inputs at once, wherever NumPy's own function takes that."""
    assert case.reference is not None
    tried = 0
    for old in sorted({n for shape in case.inputs for n in shape}):
        for new in (0, 1):
            inputs = tuple(tuple(new if n == old else n for n in shape) for shape in case.inputs)
            changed = replace(case, inputs=inputs)
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    expected = case.reference(*changed.arrays())
                except (ValueError, IndexError):
                    continue
                forward_is_numpy(changed)
                tried += 1
                outputs = expected if isinstance(expected, tuple) else (expected,)
                if outputs and all(np.isfinite(y).all() for y in outputs):
                    first_derivative(changed)
                    second_derivative(changed)
    assert tried


def takes_strided_input(case: Case) -> None:
    arrays = case.arrays()
    plain = tensors(arrays)
    strided = [tg.Tensor(a) for a in arrays]
    scalar = weighted(case.function, random_weights(case.function, arrays, 4))
    for lay in (np.asfortranarray, spread_out, back_to_front):
        for s, a in zip(strided, arrays, strict=True):
            s.array = lay(a)
            s.requires_grad_()
        one, other = scalar(*plain), scalar(*strided)
        np.testing.assert_allclose(one.item(), other.item(), rtol=1e-12)
        if case.smooth:
            for g, h in zip(tg.grad(one, plain), tg.grad(other, strided), strict=True):
                np.testing.assert_allclose(g.array, h.array, rtol=1e-10, atol=1e-12)


def spread_out(a: np.ndarray) -> np.ndarray:
    """The same values with gaps between them in memory."""
    backing = np.full((*a.shape, 2), np.nan)
    backing[..., 0] = a
    return backing[..., 0]


def back_to_front(a: np.ndarray) -> np.ndarray:
    """The same values, every axis with a negative stride."""
    turned = (slice(None, None, -1),) * a.ndim
    return np.ascontiguousarray(a[turned])[turned] if a.ndim else a


def writes_to_no_input(case: Case) -> None:
    arrays = case.arrays()
    before = [a.copy() for a in arrays]
    xs = tensors(arrays)
    for x in xs:
        x.array.flags.writeable = False
    scalar = weighted(case.function, random_weights(case.function, arrays, 5))
    y = scalar(*xs)
    if case.smooth:
        tg.grad(y, xs, create_graph=True)
    for x, b in zip(xs, before, strict=True):
        np.testing.assert_array_equal(x.array, b)


def kernel_is_definition(case: Case) -> None:
    """Value, gradient and second derivative of the fused op and of its definition."""
    arrays = case.arrays()
    weights = random_weights(case.function, arrays, 6)
    rng = np.random.default_rng(7)
    directions = [rng.standard_normal(a.shape) for a in arrays]

    def run(context: Any) -> list[np.ndarray]:
        scalar = weighted(case.function, weights)
        with context:
            xs = tensors(arrays)
            y = scalar(*xs)
            plain = tg.grad(y, xs, retain_graph=True)
            gradients = tg.grad(y, xs, create_graph=True)
            slope: Any = sum((g * d).sum() for g, d in zip(gradients, directions, strict=True))
            second = tg.grad(slope, xs, allow_unused=True) if slope.requires_grad else []
        return [y.array, *(g.array for g in (*plain, *gradients)), *(s.array for s in second if s is not None)]

    fused, defined = run(nullcontext()), run(tg.definitions())
    assert len(fused) == len(defined)
    for f, d in zip(fused, defined, strict=True):
        np.testing.assert_allclose(f, d, rtol=1e-9, atol=1e-10)


class Noting(Listener):
    """Notes which ops ran, also those that rules apply."""

    lifts = True

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def applied(self, op: Any, *_: Any) -> None:
        self.seen.add(op.name)


def ops_run_by(cases: list[Case]) -> set[str]:
    listener = Noting()
    with setting(trace=listener):
        for case in cases:
            xs = tensors(case.arrays())
            ys = case.function(*xs)
            for y in ys if isinstance(ys, tuple) else (ys,):
                if y.requires_grad:
                    y.backward(tg.ones_like(y), retain_graph=True)
    return listener.seen


def all_ops() -> set[str]:
    """The engine's own ops; tests and examples define more."""
    return {name for name, op in registry.items() if op.__module__.startswith("tinygrad_edu.ops")}
