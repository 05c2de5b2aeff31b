"""Values and derivatives of every elementwise op, the softmax family and the losses, to 8 units in the last place.

The reference is mpmath's, wherever the right result is a normal number of the dtype. With `--whole` (`make accuracy`)
all points are taken, and a table shows the largest errors here and, where it is installed, of PyTorch.
"""

from __future__ import annotations

import importlib.util
import inspect
import math
from collections.abc import Iterator
from typing import Any

import pytest
from mpmath import mp

import tests.properties as p
import tinygrad_edu as tg
from tests.accuracy.measure import DTYPES, ORDERS, Line, Worst, computed, rounded, truth, units, worst
from tests.accuracy.table import LINES
from tinygrad_edu.engine.modes import setting
from tinygrad_edu.methods.curves import Curves
from tinygrad_edu.nn.functional import activations, losses

SAMPLE = 31  # of so many points one; odd, so that the signs, which alternate, both come up
# Ops that move, pick, count, sum or multiply sums: no function of single numbers; those of integers and booleans.
ELSEWHERE = {
    "alias", "clone", "detach", "transfer", "cast", "expand", "sum_to", "reshape", "permute", "transpose", "flip",
    "roll", "pad", "crop", "cat", "split", "unbind", "narrow", "widen", "get_item", "put_add", "set_item", "gather",
    "scatter_add", "scatter_extreme", "diagonal", "put_diagonal", "sort", "topk", "max", "min", "argmax", "argmin",
    "amax", "amin", "cummax", "cummin", "sum", "mean", "cumsum", "any", "all", "matmul",
    "einsum", "linear", "embedding", "layer_norm", "rms_norm", "dropout", "scaled_dot_product_attention", "nonzero",
    "count_nonzero", "windows", "unique", "bincount", "searchsorted", "isin", "multinomial", "bitwise_and",
    "bitwise_or", "bitwise_xor", "bitwise_not", "left_shift", "right_shift", "equal", "not_equal", "less",
    "less_equal", "logical_and", "logical_or", "logical_not", "centred_squares", "masked_fill",
    "where", "rnn", "gru", "lstm",
}  # fmt: skip
# Second names, draws, and what is said of a number and not computed from it.
NO_LINE = {
    "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "fix", "gumbel_softmax", "reduction_of",
}  # fmt: skip


@pytest.fixture(scope="module")
def table(whole: bool, request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Rows to be printed at the end of a whole run."""
    rows: list[str] = []
    yield rows
    if whole:
        capture = request.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            heads = "".join(f"{order:>10}" for order in ORDERS)
            print(f"\nLargest errors in units in the last place\n{'':46}{heads}   PyTorch:{heads}")
            print("\n".join(rows))


def libraries(whole: bool) -> list[Any]:
    """What is measured: PyTorch, too, for the table."""
    if not whole or importlib.util.find_spec("torch") is None:
        return [tg]
    import torch

    return [tg, torch]


def shown(found: dict[str, Worst]) -> str:
    return "".join(f"{found[order].units:10.3g}" if found[order].count else f"{'-':>10}" for order in ORDERS)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("line", LINES, ids=[line.name for line in LINES])
def test_to_the_last_places(line: Line, dtype: str, whole: bool, table: list[str]) -> None:
    found = worst(line, dtype, 1 if whole else SAMPLE, libraries(whole))
    table.append(f"{line.name:38}{dtype:8}{'   '.join(map(shown, found))}")
    for order, w in found[0].items():
        assert w.units <= line.bound(dtype, order), f"{order} at {w.point}: {w.units:.3g} units in the last place"
    assert found[0]["value"].count


def test_every_op_has_a_line() -> None:
    """A new op is to be run by a line, or to be named among those that compute no function of single numbers."""
    listener = p.Noting()
    with setting(trace=listener):
        for line in LINES:
            computed(line, rounded(line, "float32")[:3], "float32")
            with tg.definitions():
                computed(line, rounded(line, "float32")[:3], "float32")
    assert p.all_ops() - listener.seen - ELSEWHERE == set()
    assert p.all_ops() >= ELSEWHERE


def test_every_function_has_a_line() -> None:
    names = {name for name, value in vars(Curves).items() if inspect.isfunction(value) and name[0] != "_"}
    for module in (activations, losses):
        names |= {
            name
            for name, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__ and name[0] != "_"
        }
    assert names - {line.name.split(",")[0] for line in LINES} == NO_LINE


def test_the_reference_is_right() -> None:
    line = Line("tanh", lambda t, x: t.tanh(x), mp.tanh, [(20.0,)])
    slope = 4 * math.exp(-40) / (1 + math.exp(-40)) ** 2
    assert units(slope, truth(line, (20.0,), (0,)), "float64") == pytest.approx(0, abs=1)
    assert units(slope * (1 + 2.0**-48), truth(line, (20.0,), (0,)), "float64") == pytest.approx(16, abs=8)
    assert truth(line, (0.0,), (0, 0)) == 0
    assert units(0.0, truth(line, (0.0,), (0, 0)), "float64") == 0
    assert units(1e-300, 0, "float32") == 0
    assert units(1.0, 0, "float32") == float("inf")
    assert units(float("nan"), truth(line, (20.0,), (0,)), "float64") == float("inf")
