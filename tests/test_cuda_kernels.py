"""The CUDA kernels without a GPU: their NumPy twins against definitions, their sources on the CPU, and as cubins."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.arrays import numbers
from tests.cuda_on_cpu import COMPILER, SOURCES, Compiled, declared
from tests.strict import twins
from tests.strict.library import installed
from tinygrad_edu import kernels, random

DTYPES = [np.float32, np.float64]
NEAR = {np.float32: 1e-6, np.float64: 1e-14}
ROWS = [(1, 1), (3, 5), (5, 64), (4, 100), (2, 700)]
THREADS = 32  # few, so that a row takes several rounds and the CPU can start them all
ADAMW = {"keep1": 0.9, "keep2": 0.99, "take1": 0.1, "take2": 0.1, "floor": 1e-8, "size": 0.01, "decay": 0.999}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Compiled]:
    if COMPILER is None:
        pytest.skip("needs a C++ compiler")
    folder = tmp_path_factory.mktemp("cuda")
    return {family: Compiled(family, folder) for family in SOURCES}


def rows(shape: tuple[int, int], dtype: Any, seed: int = 0) -> np.ndarray:
    """Scores, some hidden, one row of them entirely."""
    x = numbers(shape, dtype, seed, 3.0).copy()
    x[x < -4] = -np.inf
    if shape[0] > 2:
        x[1] = -np.inf
    return x


def softmax_of(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    e = np.exp(wide - np.where(np.isneginf(wide.max(1)), 0, wide.max(1))[:, None])
    total = e.sum(1, keepdims=True)
    return e / np.where(total == 0, 1, total)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", ROWS)
def test_twin_of_softmax_is_its_definition(shape: tuple[int, int], dtype: Any) -> None:
    x, g = rows(shape, dtype), numbers(shape, dtype, 1)
    y, dx = np.empty_like(x), np.empty_like(x)
    twins.softmax(shape[0], THREADS, x, y, shape[1])
    twins.softmax_backward(shape[0], THREADS, g, y, dx, shape[1])
    expected = softmax_of(x)
    np.testing.assert_allclose(y, expected, rtol=0, atol=NEAR[dtype])
    slope = expected * (g - (expected * g).sum(1, keepdims=True))
    np.testing.assert_allclose(dx, slope, rtol=0, atol=4 * NEAR[dtype])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_twin_of_softmax_hides_no_nan(bad: float) -> None:
    for row in ([bad, 1.0], [1.0, bad], [-np.inf, bad]):
        x = np.array([row])
        y = np.empty_like(x)
        with np.errstate(invalid="ignore"):
            twins.softmax(1, THREADS, x, y, 2)
        assert np.isnan(y).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_twin_of_adamw_is_numpys_kernel(dtype: Any) -> None:
    """To the last bit: the same operations in the same order."""
    start = [np.abs(numbers((1000,), dtype, seed)) for seed in range(4)]
    one, other = [a.copy() for a in start], [a.copy() for a in start]
    options = {"lr": 0.01, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.1}
    for step in (1, 2, 3):
        kernels.of(one[0]).adamw(*one, **options, step=step)
        with installed():
            import cupy

            there = [cupy.asarray(a) for a in other]
            kernels.of(there[0]).adamw(*there, **options, step=step)
            other = [a.get() for a in there]
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5), (2, 4, 33), ()])
@pytest.mark.parametrize("first", [0, 5])
def test_twin_of_the_mask_draws_numpys_bits(shape: tuple[int, ...], first: int) -> None:
    like = np.zeros(shape, np.float32)
    for p, key in ((0.3, (7, 0)), (1.0, (0, 2**40)), (0.0, (2**64 - 1, 3))):
        with installed():
            import cupy

            there = kernels.of(cupy.asarray(like)).keep_mask(cupy.asarray(like), p, key, first).get()
        np.testing.assert_array_equal(there, random.keep_mask(like, p, key, first))


def test_twin_of_philox_is_numpys() -> None:
    words = twins.philox([np.array([1, 2], np.uint64), *[np.zeros(2, np.uint64)] * 3], np.uint64(5), np.uint64(6))
    expected = np.random.Philox(key=np.array([5, 6], np.uint64)).random_raw(8).reshape(2, 4)
    np.testing.assert_array_equal(np.stack(words, axis=1), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", ROWS)
def test_source_of_softmax_is_its_twin(compiled: dict[str, Compiled], shape: tuple[int, int], dtype: Any) -> None:
    x, g = rows(shape, dtype), numbers(shape, dtype, 1).copy()
    name, sizes = np.dtype(dtype).name, (shape[0], THREADS)
    y, expected = np.empty_like(x), np.empty_like(x)
    compiled["softmax"].run(f"softmax_{name}", *sizes, x, y, shape[1])
    twins.softmax(*sizes, x, expected, shape[1])
    np.testing.assert_allclose(y, expected, rtol=0, atol=NEAR[dtype])  # exp differs in the last bit
    dx, slope = np.empty_like(x), np.empty_like(x)
    compiled["softmax"].run(f"softmax_backward_{name}", *sizes, g, expected, dx, shape[1])
    twins.softmax_backward(*sizes, g, expected, slope, shape[1])
    np.testing.assert_array_equal(dx, slope)


def test_source_of_softmax_hides_no_nan(compiled: dict[str, Compiled]) -> None:
    for row in ([np.nan, 1.0], [1.0, np.nan], [-np.inf, np.nan], [np.inf, 1.0]):
        x = np.array([row])
        y = np.empty_like(x)
        compiled["softmax"].run("softmax_float64", 1, THREADS, x, y, 2)
        assert np.isnan(y).any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("blocks", [1, 3])
def test_source_of_adamw_is_its_twin(compiled: dict[str, Compiled], blocks: int, dtype: Any) -> None:
    one = [np.abs(numbers((200,), dtype, seed)) for seed in range(4)]
    other = [a.copy() for a in one]
    scalars = [np.dtype(dtype).type(v) for v in ADAMW.values()]
    compiled["adamw"].run(f"adamw_{np.dtype(dtype).name}", blocks, THREADS, *one, 200, *scalars)
    twins.adamw(blocks, THREADS, *other, 200, *scalars)  # type: ignore[call-arg]
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_source_of_the_mask_draws_numpys_bits(compiled: dict[str, Compiled], dtype: Any) -> None:
    like = np.zeros((5, 19), dtype)
    mask = np.empty_like(like)
    drawn = 11, 4, round(0.3 * 2**32), 1 / 0.7
    compiled["dropout"].run(f"keep_mask_{like.dtype.name}", 2, THREADS, mask, 5, 19, 3, 2, *drawn)
    np.testing.assert_array_equal(mask, random.keep_mask(like, 0.3, (11, 4), 2))


def test_every_kernel_has_a_twin_and_both_dtypes() -> None:
    names = {name for source in SOURCES.values() for name in declared(source)}
    families = {name.rpartition("_")[0] for name in names}
    assert names == {f"{family}_{dtype}" for family in families for dtype in ("float32", "float64")}
    assert all(hasattr(twins, family) for family in families)


def test_both_tables_have_the_same_signatures() -> None:
    here = kernels.of(np.zeros(1))
    with installed():
        import cupy

        there = kernels.of(cupy.zeros(1))
        assert {"adamw", "erf", "keep_mask", "softmax", "softmax_backward"} <= set(there.__all__) <= set(here.__all__)
        for name in there.__all__:
            one, other = (inspect.signature(getattr(table, name)) for table in (here, there))
            assert list(one.parameters) == list(other.parameters), name
            defaults = [[p.default for p in each.parameters.values()] for each in (one, other)]
            assert defaults[0] == defaults[1], name


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("family", SOURCES)
def test_source_compiles_to_a_cubin(family: str, architecture: str, tmp_path: Path) -> None:
    """By NVIDIA's own compiler, which needs no GPU: `make cubins` installs it."""
    nvrtc = pytest.importorskip("cupy", reason="needs CuPy").cuda.nvrtc
    try:
        nvrtc.getVersion()
    except Exception as error:
        pytest.skip(f"needs the wheel nvidia-cuda-nvrtc-cu12: {error}")
    from tinygrad_edu.kernels.cupy.launch import OPTIONS

    program = nvrtc.createProgram(SOURCES[family], f"{family}.cu", (), ())
    try:
        nvrtc.compileProgram(program, (*OPTIONS, f"--gpu-architecture={architecture}"))
    except nvrtc.NVRTCError:
        pytest.fail(nvrtc.getProgramLog(program))
    cubin = nvrtc.getCUBIN(program)
    assert cubin[:4] == b"\x7fELF"
    assert all(name.encode() in cubin for name in declared(SOURCES[family]))
    print(f"{family}.cu: a cubin of {len(cubin)} bytes for {architecture}")
