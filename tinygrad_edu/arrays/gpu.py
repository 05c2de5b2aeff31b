"""The one door to CuPy: loading it, its devices, what goes over the bus, and where it differs from NumPy."""

from __future__ import annotations

import weakref
from types import ModuleType
from typing import Any

import numpy as np

Array = Any  # a cupy.ndarray
in_use = False  # whether CuPy has been loaded here; until then no array can lie anywhere but in the host's memory

_ADDS = "efdilLIQ"  # dtypes that a GPU adds to where two may meet, but for int64; and those of which it takes extremes
_COMPARES = "fdilLIQ"
_twins: dict[int, tuple[weakref.ref[Any], np.ndarray]] = {}  # id of a device array of integers -> what was uploaded


class OutOfMemoryError(MemoryError):
    """The GPU has too little memory left; the message says how much was asked for, is in use and is free."""


def library() -> ModuleType:
    """CuPy. Raises ValueError where it is not installed, cannot be loaded, or finds no GPU, and says what to do."""
    global in_use  # noqa: PLW0603  every op looks at it: a plain name is the fastest
    try:
        import cupy
    except ModuleNotFoundError as error:
        if error.name != "cupy":
            raise ValueError(f"device 'cuda' needs CuPy, which is installed but cannot be loaded: {error}") from None
        raise ValueError(
            "device 'cuda' needs CuPy, which is not installed: in the checkout, pip install -e '.[cuda12]' "
            "(or '.[cuda13]', by your driver's CUDA version, which nvidia-smi shows)"
        ) from None
    except ImportError as error:
        raise ValueError(f"device 'cuda' needs CuPy, which is installed but cannot be loaded: {error}") from None
    if not in_use:
        try:
            found, why = cupy.cuda.runtime.getDeviceCount(), "it counts 0 of them"
        except Exception as error:
            found, why = 0, str(error)
        if not found:
            raise ValueError(
                f"device 'cuda' needs an NVIDIA GPU with its driver, and CuPy {cupy.__version__} finds none here "
                f"({why}): install the driver, which nvidia-smi tells of, or use device 'cpu'"
            )
        if cupy.cuda.get_allocator() == cupy.get_default_memory_pool().malloc:
            cupy.cuda.set_allocator(_allocate)
        in_use = True
    return cupy


def _allocate(size: int) -> Any:
    """Memory from CuPy's pool."""
    import cupy

    pool = cupy.get_default_memory_pool()
    try:
        return pool.malloc(size)
    except cupy.cuda.memory.OutOfMemoryError:
        free, total = cupy.cuda.runtime.memGetInfo()
        limit = pool.get_limit()
        raise OutOfMemoryError(
            f"cuda:{cupy.cuda.runtime.getDevice()} has too little memory: {_size(size)} asked for, "
            f"{_size(pool.used_bytes())} in use by arrays, {_size(free + pool.free_bytes())} free of {_size(total)}"
            + (f", limited to {_size(limit)}" if limit else "")
            + "; choose a smaller batch or model, or drop tensors and call cuda.empty_cache()"
        ) from None


def _size(count: int) -> str:
    """A count of bytes for people.

    >>> _size(3 << 20), _size(1000)
    ('3.0 MiB', '1000 bytes')
    """
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} bytes"


def settle(number: int) -> None:
    """Make GPU `number` the one that this thread computes on, which is where CuPy puts its results."""
    import cupy

    if cupy.cuda.runtime.getDevice() != number:
        cupy.cuda.Device(number).use()


def upload(array: Any, number: int) -> Array:
    """A copy on GPU `number`, from the host by way of CuPy's pinned memory, so that nobody waits for it.

    Integers are also remembered on the host, see `uploaded_as`.
    """
    cupy = library()
    settle(number)
    found = cupy.asarray(array)
    if isinstance(array, np.ndarray) and array.dtype.kind in "iu":
        remember(found, array.copy())
    return found


def remember(array: Array, host: np.ndarray) -> None:
    """Note that a device array holds what `host` does, which nobody else may write to."""
    key = id(array)
    _twins[key] = weakref.ref(array, lambda _: _twins.pop(key, None)), host


def uploaded_as(array: Array) -> np.ndarray | None:
    """What was uploaded, or made on the device by a rule known here, to the memory that an array of integers shows.

    It may show but a part of it. None where that is not known. Who wrote to the memory since must not ask.
    """
    root = array if array.base is None else array.base
    found = _twins.get(id(root))
    return found[1] if found is not None and found[0]() is root else None


def add_at(target: Array, index: Any, values: Any) -> None:
    """target[index] += values, where an element that `index` names twice gets both; integers modulo 2⁶⁴ as ever."""
    import cupy
    import cupyx

    if target.dtype.char in _ADDS and target.dtype != np.int64:
        cupyx.scatter_add(target, index, values)
        return
    wide = np.dtype("uint64")  # what a GPU can add to; sums modulo 2⁶⁴ are right in every narrower integer, too
    sums = cupy.zeros(target.shape, dtype=wide)
    cupyx.scatter_add(sums, index, cupy.asarray(values).astype(wide))
    target += sums.astype(target.dtype)


def change_at(target: Array, index: Any, values: Array, by: str) -> None:
    """target[index] becomes the "maximum" or "minimum" of itself and of all values that go there."""
    import cupyx

    change = cupyx.scatter_max if by == "maximum" else cupyx.scatter_min
    if target.dtype.char in _COMPARES and target.dtype != np.int64:
        change(target, index, values)
        return
    if target.dtype.kind == "f":
        wide = target.astype("float32")
        change(wide, index, values.astype("float32"))
        target[...] = wide.astype(target.dtype)
        return
    sign = np.uint64(1 << 63)  # with the other sign bit, the bits of integers are in the order of the integers
    sorted_bits = target.astype("int64").view("uint64") ^ sign
    change(sorted_bits, index, values.astype("int64").view("uint64") ^ sign)
    target[...] = (sorted_bits ^ sign).view("int64").astype(target.dtype)
