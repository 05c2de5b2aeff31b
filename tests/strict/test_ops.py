"""Every op of the registry on the stand-in: value, gradients and second derivatives equal to NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tests.properties as p
import tinygrad_edu as tg
from tests.strict.ran import note, same_on_both
from tests.test_ops import EVERY, FUSED, TIES
from tinygrad_edu.engine.modes import Listener, setting
from tinygrad_edu.nn import functional as F


class _Ran(Listener):
    """Notes every op that ran on the device."""

    def applied(self, op: Any, inputs: Any, arrays: Any, outputs: Any, static: Any, record: Any) -> None:
        if outputs and outputs[0].array.__class__.__module__ == "cupy":
            note("ops", op.name)

    def opened(self, op: Any, inputs: Any, static: Any) -> Any:
        note("ops", op.name)
        return super().opened(op, inputs, static)


def values(case: p.Case, device: str) -> list[Any]:
    """Outputs, gradients and second derivatives of a case, weighted with fixed numbers."""
    xs = [tg.Tensor(a, requires_grad=case.smooth, device=device) for a in case.arrays()]
    with setting(trace=_Ran()):
        ys = case.function(*xs)
    found = list(ys) if isinstance(ys, tuple) else [ys]
    if not case.smooth:
        return found
    rng = np.random.default_rng(1)
    gradients = tg.grad(weighted([y for y in found if y.dtype.kind == "f"], rng, device), xs, create_graph=True)
    slope = weighted(gradients, rng, device)
    second = tg.grad(slope, xs, allow_unused=True) if slope.requires_grad else []
    return [*found, *gradients, *second]


def weighted(ys: Any, rng: np.random.Generator, device: str) -> tg.Tensor:
    terms = [(y * tg.Tensor(rng.standard_normal(y.shape), device=device)).sum() for y in ys]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


@pytest.mark.parametrize("case", EVERY, ids=lambda c: c.name)
def test_op_is_numpy(case: p.Case) -> None:
    same_on_both(lambda device: values(case, device))
    note("cases of ops", case.name)


@pytest.mark.parametrize("case", FUSED, ids=lambda c: c.name)
def test_definition_is_numpy(case: p.Case) -> None:
    with tg.definitions():
        same_on_both(lambda device: values(case, device))


def test_plain_backward_is_the_recorded_one() -> None:
    """Rules on bare arrays, as training runs them."""
    for case in EVERY:
        if case.smooth:

            def run(device: str, case: p.Case = case) -> list[Any]:
                xs = [tg.Tensor(a, requires_grad=True, device=device) for a in case.arrays(np.float32)]
                ys = case.function(*xs)
                floats = [y for y in (ys if isinstance(ys, tuple) else (ys,)) if y.dtype.kind == "f"]
                weighted(floats, np.random.default_rng(1), device).backward()
                return [x.grad for x in xs]

            same_on_both(run, rtol=2e-4, atol=2e-5)


def test_dropout_drops_the_same() -> None:
    def run(device: str) -> list[Any]:
        tg.manual_seed(4)
        x = tg.ones(5, 7, device=device, requires_grad=True)
        y = F.dropout(x, 0.3)
        y.sum().backward()
        note("ops", "dropout")
        return [y, x.grad]

    same_on_both(run)


def test_gradients_at_ties_and_bounds_are_numpys() -> None:
    bounds = [lambda x: x.clamp(0, 1), lambda x: x.clamp(x.detach(), 1), F.relu, F.relu6, F.hardtanh, lambda x: x.abs()]

    def run(device: str) -> list[Any]:
        found = []
        for values, functions in (([7.0, 7.0, 2.0, 7.0], [*TIES.values()]), ([-1.0, 0.0, 1.0, 6.0], bounds)):
            for function in functions:
                x = tg.tensor(values, device=device, requires_grad=True)
                function(x).sum().backward()
                found.append(x.grad)
        return found

    same_on_both(run)


def test_transfer_is_its_own_adjoint() -> None:
    x = tg.Tensor(np.arange(3.0), requires_grad=True)
    y = x.to("cuda") * tg.tensor([1.0, 2.0, 3.0], dtype=x.dtype, device="cuda")
    (g,) = tg.grad(y.sum(), x)
    assert (y.device, g.device, g.tolist()) == ("cuda:0", "cpu", [1.0, 2.0, 3.0])
    note("ops", "transfer")
