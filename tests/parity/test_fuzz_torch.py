"""5,000 random graphs in PyTorch and in the engine: every value and first derivative in float64, of 500 the second.

FUZZ_SEED and FUZZ_GRAPHS in the environment choose others.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from tests.parity import fuzz
from tests.parity.fuzz_lines import LINES, drawn
from tinygrad_edu import Tensor

SEED = int(os.environ.get("FUZZ_SEED", "20261129"))
GRAPHS = int(os.environ.get("FUZZ_GRAPHS", "5000"))


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(var|std).*degrees of freedom")
        yield
    torch.set_num_threads(before)


def test_no_graph_differs() -> None:
    print(f"{GRAPHS} graphs of seed {SEED}")
    used: Counter[str] = Counter()
    reports: list[str] = []
    for number in range(GRAPHS):
        program = drawn(SEED, number)
        used.update(program.ops)
        if fuzz.difference(program):
            reports.append(fuzz.report(program, f"graph {number} of seed {SEED}"))
            if len(reports) == 3:
                break
    assert not reports, "\n\n".join(reports)
    rare = {name: used[name] for name in LINES if used[name] < GRAPHS / 100}
    assert not rare, f"ops that are hardly ever drawn: {rare}"


def test_no_second_derivative_differs() -> None:
    reports: list[str] = []
    for number in range(GRAPHS // 10):
        program = drawn(SEED + 1, number)
        try:
            differs = fuzz.difference(program, order=2)
        except RuntimeError:  # PyTorch has none: of attention, for one
            continue
        if differs:
            reports.append(fuzz.report(program, f"graph {number} of seed {SEED + 1}, second order", order=2))
            if len(reports) == 3:
                break
    assert not reports, "\n\n".join(reports)


@pytest.mark.parametrize("number", range(20))
def test_a_graph_is_drawn_again_from_its_number(number: int) -> None:
    one, other = drawn(SEED, number), drawn(SEED, number)
    assert one.text() == other.text()
    assert one.fixed == other.fixed
    for name, value in one.inputs.items():
        np.testing.assert_array_equal(value, other.inputs[name])
    assert 5 <= len(one.lines) <= 60


@pytest.mark.parametrize("number", range(20))
def test_the_printed_code_runs_in_both(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    code = fuzz.code(drawn(SEED, number))
    exec(code, {})
    swapped = code.replace("import torch ", "import tinygrad_edu as torch ", 1)
    exec(swapped.replace("from torch.nn import", "from tinygrad_edu.nn import", 1), {})
    assert capsys.readouterr().out.count("tensor(") >= 2


def wrong_value(real: Any) -> Any:
    return lambda x, *args, **options: real(x, *args, **options) + 1e-6


def wrong_gradient(real: Any) -> Any:
    return lambda x, *args, **options: real(x.detach(), *args, **options) + 0 * real(x, *args, **options)


def missing_gradient(real: Any) -> Any:
    return lambda x, *args, **options: real(x.detach(), *args, **options)


def raising(real: Any) -> Any:
    def method(x: Any, *args: Any, **options: Any) -> Any:
        if x.ndim == 2:
            raise NotImplementedError("two axes")
        return real(x, *args, **options)

    return method


@pytest.mark.parametrize("fault", [wrong_value, wrong_gradient, missing_gradient, raising])
@pytest.mark.parametrize("name", ["tanh", "cumsum"])
def test_a_planted_fault_is_found_and_shrunk(name: str, fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tensor, name, fault(getattr(Tensor, name)))
    program = next(p for p in (drawn(SEED, i) for i in range(400)) if name in p.ops and fuzz.difference(p))
    small = fuzz.shrunk(program)
    assert fuzz.difference(small)
    assert len(small.lines) == 1
    assert name in small.lines[0][1]
    assert sum(a.size for a in small.inputs.values()) <= 4
    assert len(fuzz.report(small, "").splitlines()) < 16
