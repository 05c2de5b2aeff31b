"""The stand-in itself: it refuses what CuPy would refuse or do unseen, counts what is sent, and has CuPy's names."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tests.strict import names
from tests.strict.device_array import NAMES, Refused, traffic
from tinygrad_edu.arrays import library
from tinygrad_edu.engine.tape import Op, registry

HOST = np.arange(3.0)
PLANTED: dict[str, tuple[Callable[[Any, Any], Any], type[Exception], str]] = {
    "an array on the host as an operand": (lambda xp, x: x + HOST, Refused, "Unsupported type <class 'numpy.ndarray'>"),
    "a list as an operand": (lambda xp, x: xp.maximum(x, [1.0, 2.0, 3.0]), Refused, "Unsupported type <class 'list'>"),
    "NumPy's function": (lambda xp, x: np.exp(x), TypeError, "does not support ufuncs"),
    "NumPy's function of a sequence": (lambda xp, x: np.stack([x, x]), Refused, "__array__ of a device array"),
    "a function that CuPy lacks": (lambda xp, x: xp.vecdot(x, x), AttributeError, "has no cupy.vecdot"),
    "an argument that CuPy lacks": (lambda xp, x: x.max(initial=0.0), Refused, "unexpected keyword argument 'initial'"),
    "an argument of a ufunc": (lambda xp, x: xp.exp(x, where=x > 0), Refused, "unexpected keyword argument 'where'"),
    "a flag that CuPy lacks": (lambda xp, x: x.flags.writeable, AttributeError, "has no flag 'writeable'"),
    "a branch on a value": (lambda xp, x: 1 if (x > 0).any() else 0, Refused, "__bool__ of a device array"),
    "float of a sum": (lambda xp, x: float(x.sum()), Refused, "__float__ of a device array"),
    "int of a maximum": (lambda xp, x: int(x.max()), Refused, "__int__ of a device array"),
    "a loop over an index": (lambda xp, x: range(x.argmax()), Refused, "__index__ of a device array"),
    "an index on the host": (lambda xp, x: x[np.array([0, 2])], Refused, "in an index"),
    "out= on the host": (lambda xp, x: xp.exp(x, out=np.zeros(3)), Refused, "out= must be one device array"),
    "a dtype that CuPy lacks": (lambda xp, x: xp.zeros(3, dtype="O"), ValueError, "Unsupported dtype object"),
    "an address": (lambda xp, x: x.ctypes.data, AttributeError, "has no ndarray.ctypes"),
    "int64 added where two meet": (
        lambda xp, x: xp.add.at(xp.zeros(3, dtype="int64"), xp.array([1, 1]), 1),
        TypeError,
        "only supports int32",
    ),
    "another GPU's array": (lambda xp, x: on_the_other(xp) + x, ValueError, "different from the current device"),
}


def on_the_other(xp: Any) -> Any:
    with xp.cuda.Device(1):
        return xp.ones(3)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_refused(cupy: Any, name: str) -> None:
    violate, error, message = PLANTED[name]
    with pytest.raises(error, match=message):
        violate(cupy, cupy.asarray(HOST))


def test_a_violation_in_an_op_is_refused() -> None:
    """As it would come in: an op whose forward is lenient, written by somebody who has NumPy alone."""
    before = dict(registry)
    try:

        class Lenient(Op):
            """{out} = 2 {x}"""

            def forward(x):
                return x * np.full(x.shape, 2.0)  # type: ignore[attr-defined]

        assert Lenient(tg.ones(3)).tolist() == [2.0] * 3
        with pytest.raises(Refused, match="Unsupported type"):
            Lenient(tg.ones(3, device="cuda"))
    finally:
        registry.clear()
        registry.update(before)


def test_places_out_of_range_wrap_in_silence(cupy: Any) -> None:
    x = cupy.asarray(HOST)
    assert x[cupy.array([3, -1, 7])].tolist() == [0.0, 2.0, 1.0]
    assert cupy.take_along_axis(x, cupy.array([4]), 0).tolist() == [1.0]
    x[cupy.array([5])] = 9.0
    assert x.tolist() == [0.0, 1.0, 9.0]
    with pytest.raises(IndexError):
        x[3]


def test_reductions_stay_on_the_device(cupy: Any) -> None:
    x = cupy.asarray(HOST)
    with traffic() as seen:
        results = [x.sum(), x.max(), x.argmax(), x[1], cupy.dot(x, x), (x > 0).any(), cupy.array_equal(x, x)]
    assert {type(r) for r in results} == {cupy.ndarray}
    assert {r.shape for r in results} == {()}
    assert seen.counts == (0, 0, 0)


def test_everything_sent_is_counted(cupy: Any) -> None:
    with traffic() as seen:
        x = cupy.asarray(HOST)
        cupy.asarray(0.5)  # a number is no copy, it fills
        y = x * 2 + 1
        y.get()
        y.sum().item()
        y[y > 1]
        y.tolist()
        cupy.asnumpy(y)
    assert seen.to_device == [24]
    assert seen.to_host == [24, 8, 24, 24]
    assert seen.waits == ["boolean index"]


def test_views_know_whose_memory_they_show(cupy: Any) -> None:
    x = cupy.zeros((3, 4))
    assert x.base is None
    assert x[1:].T.base is x
    assert x[cupy.array([1])].base is None
    x[1:][0, 0] = 5.0
    assert x[1, 0].item() == 5.0
    assert copy.deepcopy(x).base is None


def test_what_is_left_out_of_the_stand_in_says_so(cupy: Any) -> None:
    with pytest.raises(NotImplementedError, match="write it"):
        cupy.ElementwiseKernel  # noqa: B018


def test_names_are_those_of_the_installed_cupy() -> None:
    """Outside the block of the stand-in, where the pinned CuPy is installed; it imports without a GPU."""
    import subprocess
    import sys

    told = subprocess.run(
        [sys.executable, "-c", "from tests.strict import names; print(names.text(names.describe()), end='')"],
        capture_output=True,
        text=True,
        check=False,
    )
    if "No module named 'cupy'" in told.stderr:
        pytest.skip("CuPy is not installed")
    assert told.returncode == 0, told.stderr
    assert told.stdout == names.FILE.read_text(encoding="utf-8"), "renew it: python -m tests.strict.names"


def test_the_pinned_cupy_is_the_one_of_the_names() -> None:
    import tomllib
    from pathlib import Path

    with open(Path(__file__).parents[2] / "pyproject.toml", "rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    assert {line.partition("==")[2] for extra in ("cuda12", "cuda13") for line in extras[extra] if "cupy" in line} == {
        NAMES["version"]
    }


def test_the_device_is_told_by_the_engine() -> None:
    x = tg.ones(2, device="cuda")
    assert (x.device, x.is_cuda, library.module_of(x.array).__name__) == ("cuda:0", True, "cupy")
