"""The strict stand-in for CuPy as modules: what `import cupy` gives inside `installed()`."""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.strict import twins
from tests.strict.device_array import (
    NAMES,
    Device,
    Refused,
    called,
    checked,
    fits,
    made,
    ndarray,
    operand,
    scatter_extreme,
    uploaded,
    waited,
)
from tinygrad_edu import kernels
from tinygrad_edu.arrays import gpu
from tinygrad_edu.kernels import numpy as numpy_kernels


class Library(types.ModuleType):
    """A module that has what the pinned CuPy has under that name: what is written below, else NumPy's function of the
    same name behind CuPy's signature."""

    def __init__(self, name: str, **own: Any) -> None:
        super().__init__(name)
        self.__dict__.update(own)

    def __getattr__(self, name: str) -> Any:
        known = NAMES["functions"].get(self.__name__, {})
        if name.startswith("__") or name not in known:
            raise AttributeError(f"CuPy {NAMES['version']} has no {self.__name__}.{name}")
        numpy_module = np.linalg if self.__name__ == "cupy.linalg" else np
        if not self.__name__.startswith("cupyx") and hasattr(numpy_module, name):
            found = getattr(numpy_module, name)
            if name in NAMES["ufuncs"] and self.__name__ == "cupy":
                found = Ufunc(name)
            elif known[name] is not None and not isinstance(found, type):
                found = _function(f"{self.__name__}.{name}", known[name], found)
            setattr(self, name, found)
            return found
        raise NotImplementedError(f"the stand-in lacks {self.__name__}.{name}, which CuPy has; write it")


def _function(what: str, signature: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        fits(what, signature, args, kwargs)
        if (
            args
            and isinstance(args[0], list | tuple)
            and signature.split(",")[0].strip() in ("a", "x", "ary", "ar", "m")
        ):
            _only_arrays(what, args[0])
        if what.rpartition(".")[2] in _WAITING:
            waited(what)
        result = called(function, args, kwargs)
        return made(result) if isinstance(result, bool) else result

    call.__name__ = what
    return call


_WAITING = {"nonzero", "argwhere", "flatnonzero", "unique", "bincount", "extract", "compress"}


def _only_arrays(what: str, values: Any) -> None:
    if not all(isinstance(v, ndarray) for v in values):
        raise Refused(f"{what}: a Python list is no operand; it would have to be copied to the device first")


class Ufunc:
    """A function of elements: no where=, no lists, no arrays on the host."""

    def __init__(self, name: str) -> None:
        self.name, self.function = name, getattr(np, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        fits(f"cupy.{self.name}", NAMES["functions"]["cupy"][self.name], args, kwargs)
        for x in args:
            operand(x)
        return called(self.function, args, kwargs)

    def at(self, a: ndarray, indices: Any, b: Any = None) -> None:
        if self.name != "add":
            raise NotImplementedError(f"the stand-in lacks {self.name}.at")
        a.scatter_add(indices, b)

    def __getattr__(self, name: str) -> Any:
        if name not in NAMES["ufunc"]:
            raise AttributeError(f"CuPy {NAMES['version']} has no {self.name}.{name}")
        return lambda *args, **kwargs: called(getattr(self.function, name), args, kwargs)


def asarray(a: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, blocking: bool = False) -> ndarray:
    """On the current device; from the host by way of pinned memory, one copy. Numbers need none, they fill."""
    if isinstance(a, ndarray):
        if a._device == Device.current:
            return made(a._host.astype(dtype or a.dtype, copy=bool(copy)), a)
        return made(a._host.astype(dtype or a.dtype))
    if isinstance(a, list | tuple) and _holds(a, ndarray):
        return made(np.asarray([_unwrapped(x) for x in a], dtype))
    host = np.array(a, dtype=dtype, order=order)
    checked(host.dtype)
    if host.ndim:
        uploaded(host.nbytes)
    return made(host)


def array(obj: Any, dtype: Any = None, copy: bool = True, order: Any = "K", **options: Any) -> ndarray:
    fits("cupy.array", NAMES["functions"]["cupy"]["array"], (obj, dtype, copy, order), options)
    found = asarray(obj, dtype)
    return made(found._host.copy()) if copy else found


def _holds(values: Any, kind: type) -> bool:
    return any(isinstance(v, kind) or (isinstance(v, list | tuple) and _holds(v, kind)) for v in values)


def _unwrapped(x: Any) -> Any:
    return x._host if isinstance(x, ndarray) else x


def asnumpy(a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True) -> np.ndarray:
    return a.get(stream, order, out, blocking) if isinstance(a, ndarray) else np.asarray(a)


def einsum(*operands: Any, **kwargs: Any) -> Any:
    if unknown := set(kwargs) - {"dtype", "optimize"}:
        raise Refused(f"Did not understand the following kwargs: {sorted(unknown)}")
    return called(np.einsum, operands, kwargs)


def take_along_axis(a: ndarray, indices: ndarray, axis: int) -> ndarray:
    """Places out of range wrap around."""
    host, at = operand(a), operand(indices)
    return made(np.take_along_axis(host, at % max(host.shape[axis], 1), axis))


def special_function(name: str, twin: Callable[..., Any]) -> Callable[..., ndarray]:
    """A function of cupyx.scipy.special, computed by its twin for NumPy; float16 is widened."""

    def function(*args: Any, **kwargs: Any) -> ndarray:
        fits(name, NAMES["functions"]["cupyx.scipy.special"][name], args, kwargs)
        x = operand(args[0])
        return made(twin(x if x.dtype.itemsize > 2 else x.astype(np.float32)))

    return function


SPECIAL = {"erf": numpy_kernels.erf, "erfc": numpy_kernels.erfc, "ndtr": numpy_kernels.normal_cdf}


class RawModule:
    """CUDA sources; a function of it is checked against what it declares, then its NumPy twin runs."""

    def __init__(self, code: str | None = None, **options: Any) -> None:
        fits("cupy.RawModule", NAMES["functions"]["cupy"]["RawModule"], (code,), options)
        found = re.findall(r'extern "C" __global__ void (\w+)\((.*?)\)', code or "", re.DOTALL)
        self.declared = {name: [" ".join(p.split()) for p in parameters.split(",")] for name, parameters in found}

    def get_function(self, name: str) -> Callable[..., None]:
        return functools.partial(self._run, name)

    def _run(self, name: str, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...]) -> None:
        if not (0 < grid[0] < 2**31 and 0 < block[0] <= 1024):
            raise Refused(f"{name}: no GPU has {grid} blocks of {block} threads")
        if len(args) != len(self.declared[name]):
            raise Refused(f"{name}: takes {len(self.declared[name])} arguments, got {len(args)}")
        for declared, value in zip(self.declared[name], args, strict=True):
            kind = CTYPES[re.sub(r"const | ?\*?\w+$", "", declared)]
            if declared.count("*") != isinstance(value, ndarray) or value.dtype != kind:
                raise Refused(f"{name}: {declared} is not {type(value).__name__} of {value.dtype}")
            if isinstance(value, ndarray) and not value._host.flags.c_contiguous:
                raise Refused(f"{name}: {declared} is read as contiguous memory, and the array has gaps")
        getattr(twins, name.rpartition("_")[0])(grid[0], block[0], *[operand(a) for a in args])


CTYPES = {
    "float": np.float32, "double": np.float64, "long long": np.int64, "unsigned long long": np.uint64,
    "unsigned int": np.uint32,
}  # fmt: skip


def get_array_module(*args: Any) -> Any:
    return sys.modules["cupy"] if any(isinstance(a, ndarray) for a in args) else np


class OutOfMemoryError(MemoryError):
    """CuPy's, with its words."""


class MemoryPool:
    """Of each GPU it knows the limit and the bytes in use, which a test sets; arrays take nothing from it."""

    def __init__(self) -> None:
        self.limit: dict[int, int] = {}
        self.used: dict[int, int] = {}
        self.freed: list[int] = []

    def malloc(self, size: int) -> object:
        if self.used_bytes() + size > (self.get_limit() or MEMORY):
            raise OutOfMemoryError(f"Out of memory allocating {size:,} bytes (allocated so far: {self.used_bytes()}).")
        return object()

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        self.limit[Device.current] = int(size if size is not None else (fraction or 0) * MEMORY)

    def get_limit(self) -> int:
        return self.limit.get(Device.current, 0)

    def used_bytes(self) -> int:
        return self.used.get(Device.current, 0)

    def total_bytes(self) -> int:
        return self.used_bytes() + self.free_bytes()

    def free_bytes(self) -> int:
        return 1 << 30

    def free_all_blocks(self, stream: Any = None) -> None:
        self.freed.append(Device.current)


MEMORY = 64 << 30  # of each GPU


def _cuda() -> Library:
    pool = MemoryPool()

    runtime = Library(
        "cupy.cuda.runtime",
        getDeviceCount=lambda: Device.count,
        getDevice=lambda: Device.current,
        getDeviceProperties=lambda n: {"name": b"stand-in"},
        deviceSynchronize=lambda: waited("deviceSynchronize"),
        memGetInfo=lambda: (MEMORY - pool.total_bytes(), MEMORY),
    )
    memory = Library("cupy.cuda.memory", OutOfMemoryError=OutOfMemoryError)
    cuda = Library("cupy.cuda", Device=Device, runtime=runtime, memory=memory, is_available=lambda: True)
    cuda.get_default_memory_pool = lambda: pool  # type: ignore[attr-defined]
    cuda.allocator = pool.malloc  # type: ignore[attr-defined]
    cuda.get_allocator = lambda: cuda.allocator  # type: ignore[attr-defined]
    cuda.set_allocator = lambda allocator: setattr(cuda, "allocator", allocator)  # type: ignore[attr-defined]
    return cuda


def modules() -> dict[str, types.ModuleType]:
    """Every module of the stand-in by name, fresh."""
    cuda = _cuda()
    linalg = Library("cupy.linalg")
    own: dict[str, Any] = {
        f.__name__: f for f in (asarray, array, asnumpy, einsum, take_along_axis, get_array_module, RawModule)
    }
    cupy = Library("cupy", ndarray=ndarray, cuda=cuda, linalg=linalg, __version__=NAMES["version"], **own)
    cupy.get_default_memory_pool = cuda.get_default_memory_pool  # type: ignore[attr-defined]
    functions: dict[str, Any] = {name: special_function(name, twin) for name, twin in SPECIAL.items()}
    special = Library("cupyx.scipy.special", **functions)
    scipy = Library("cupyx.scipy", special=special)

    def scatter_add(a: ndarray, slices: Any, value: Any) -> None:
        a.scatter_add(slices, value)

    def scatter_max(a: ndarray, slices: Any, value: Any) -> None:
        scatter_extreme(a, slices, value, np.maximum)

    def scatter_min(a: ndarray, slices: Any, value: Any) -> None:
        scatter_extreme(a, slices, value, np.minimum)

    scatters = {"scatter_add": scatter_add, "scatter_max": scatter_max, "scatter_min": scatter_min}
    cupyx = Library("cupyx", scipy=scipy, **scatters)
    for package in (cupy, cupyx, scipy):
        package.__path__ = []
    found = [cupy, cuda, cuda.runtime, cuda.memory, linalg, cupyx, scipy, special]
    return {m.__name__: m for m in found}


@contextlib.contextmanager
def installed() -> Iterator[types.ModuleType]:
    """Within the block `import cupy` gives the stand-in, with two GPUs; whatever was loaded before comes back after."""
    kept = {n: m for n, m in sys.modules.items() if _ours(n)}
    for name in kept:
        del sys.modules[name]
    sys.modules.update(modules())
    Device.current = 0
    used, gpu.in_use = gpu.in_use, False
    kernels._load.cache_clear()
    try:
        yield sys.modules["cupy"]
    finally:
        for name in [n for n in sys.modules if _ours(n)]:
            del sys.modules[name]
        sys.modules.update(kept)
        gpu.in_use = used
        kernels._load.cache_clear()


def _ours(name: str) -> bool:
    """The modules that change with the library: its own, and the kernels that bind its functions."""
    return name.partition(".")[0] in ("cupy", "cupyx") or name.startswith("tinygrad_edu.kernels.cupy")
