"""Devices by name, where an array is, and arrays made on a device or brought to it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_edu.arrays import gpu
from tinygrad_edu.arrays.dtypes import DEFAULT, dtype_of, native, number_for
from tinygrad_edu.arrays.library import Array, as_array, is_array, module_of, quiet


class Device(str):
    """The name of a device, "cpu" or "cuda:1", as a string that also tells its parts.

    >>> Device("cuda", 1), Device("cuda:1").type, Device("cuda:1").index, Device("cpu") == "cpu"
    (device(type='cuda', index=1), 'cuda', 1, True)
    """

    __slots__ = ()

    def __new__(cls, type: Any, index: int | None = None) -> Device:
        name = f"cuda:{type}" if isinstance(type, int) else str(type)
        return super().__new__(cls, name if index is None or name == "cpu" else f"{name}:{index}")

    @property
    def type(self) -> str:
        """The kind of device, "cpu" or "cuda"."""
        return str(self).partition(":")[0]

    @property
    def index(self) -> Any:
        """The number of the device, None where the name has none."""
        number = str(self).partition(":")[2]
        return int(number) if number else None

    def __repr__(self) -> str:
        return f"device(type={self.type!r}" + (")" if self.index is None else f", index={self.index})")


def check_device(device: object) -> str:
    """The full name of a device: "cpu" or "cuda:N"; raises where there is no such device, and says what is missing."""
    name = str(device)
    kind, _, number = name.partition(":")
    if name == "cpu":
        return name
    if kind != "cuda" or (number and not number.isdigit()) or name == "cuda:":
        raise ValueError(f"device {name!r} is unknown; use 'cpu', 'cuda' or 'cuda:1'")
    count = gpu.library().cuda.runtime.getDeviceCount()
    if int(number or 0) >= count:
        raise ValueError(f"device {name!r}: this machine has {count} CUDA device(s), numbered from 0")
    return f"cuda:{int(number or 0)}"


def number_of(name: str) -> int:
    """The number of the GPU that a full name tells.

    >>> number_of("cuda:1")
    1
    """
    return int(name.partition(":")[2])


def device_of(array: Array) -> str:
    """Where an array lives: "cpu", "cuda:0", ..."""
    return "cpu" if isinstance(array, np.ndarray) else f"cuda:{array.device.id}"


def to_device(array: Array, device: str) -> Array:
    """The array on `device`, itself when it is there already."""
    name = check_device(device)
    if device_of(array) == name:
        return array
    if name == "cpu":
        settle(array)
        return module_of(array).asnumpy(array)
    return gpu.upload(array, number_of(name))


def module_on(device: str | None) -> Any:
    """The array library that makes arrays on `device`, None for the CPU; a GPU becomes the one computed on."""
    name = "cpu" if device is None else check_device(device)
    if name == "cpu":
        return np
    gpu.settle(number_of(name))
    return gpu.library()


def settle(array: Array) -> None:
    """Compute on the GPU of `array` from here on, if it is on one."""
    if gpu.in_use and module_of(array) is not np:
        gpu.settle(array.device.id)


def one_device(what: str, arrays: list[Any]) -> None:
    """Compute on the device of the arrays from here on; raise ValueError where they lie on several."""
    found = list(dict.fromkeys(device_of(x) for x in arrays if is_array(x)))
    if len(found) > 1:
        there = next((name for name in found if name != "cpu"), found[0])
        raise ValueError(
            f"{what}: its inputs lie on {' and '.join(found)}; bring them together, with .to({there!r}) for example"
        )
    if found and found[0] != "cpu":
        gpu.settle(number_of(found[0]))


def new_array(data: Any, dtype: Any = None, device: str | None = None) -> Array:
    """Memory of its own with the values of `data`: arrays keep their dtype, other floats are float32, ints int64."""
    kept = is_array(data)
    if kept:
        host = data
    else:
        try:
            host = np.asarray(data)
        except ValueError as error:
            raise ValueError(f"Tensor: the data is no rectangular array of numbers ({error})") from None
    if host.dtype.kind not in DEFAULT:
        raise TypeError(f"Tensor: data of dtype {host.dtype} holds no numbers; give floats, integers or booleans")
    if dtype is not None:
        target = dtype_of(dtype)
    elif kept or isinstance(data, np.generic):
        target = native(host.dtype)
    else:
        target = DEFAULT[host.dtype.kind]
    if not kept and host.size and target.kind in "iu" and target != host.dtype:
        for extreme in (host.min(), host.max()):
            number_for(extreme, target, "Tensor")
    if device is not None and check_device(device) != device_of(host):
        return to_device(host.astype(target, copy=False), device)
    settle(host)
    if target.kind == host.dtype.kind == "f" and target.itemsize < host.dtype.itemsize:
        with quiet(host):  # beyond the dtype there is infinity
            return host.astype(target)
    return host.astype(target)


def zeros(shape: tuple[int, ...], dtype: Any = None, device: str | None = None) -> Array:
    """Zeros of a dtype, the default one where None, on a device, the CPU where None."""
    return module_on(device).zeros(shape, DEFAULT["f"] if dtype is None else dtype_of(dtype))


def arange(first: float, last: float, by: float, device: str | None) -> Array:
    """first, first + by, ... below `last`, made on `device`; known on the host, too, where they are integers."""
    host = np.arange(first, last, by)
    if device is None or check_device(device) == "cpu":
        return host
    found = module_on(device).arange(first, last, by, dtype=host.dtype)
    if host.dtype.kind == "i":
        gpu.remember(found, host)
    return found


def total(numbers: list[Any]) -> float:
    """The sum of numbers, some of them perhaps arrays of no axes, as a number: each device is waited for once."""
    sums: dict[str, Any] = {}
    for x in numbers:
        place = device_of(x) if is_array(x) else "cpu"
        settle(x)
        sums[place] = sums.get(place, 0.0) + x
    return sum(x.item() if hasattr(x, "item") else x for x in sums.values())


def on_host(ids: Any) -> Array:
    """The values of an array, or of a tensor, on the host.

    A tensor of integers that was made there and not written to since is known there still: no copy, no wait.
    """
    array, known = known_on_host(ids)
    if known is not None and array.flags.c_contiguous and known.size == array.size:
        return known.reshape(array.shape)
    return to_device(array, "cpu")


def known_on_host(ids: Any) -> tuple[Array, Array | None]:
    """The array of `ids`, and what is known on the host of the memory that it shows."""
    array = getattr(ids, "array", ids)
    if isinstance(array, np.ndarray) or array is ids or ids._version[0]:
        return array, None
    return array, gpu.uploaded_as(array)


def holds_zero(values: Any) -> bool:
    """Whether an element of an array, or of a tensor, is 0. What is known on the host is not waited for."""
    array, known = known_on_host(values)
    return not (known is not None and known.all()) and not array.all().item()


def accumulate(total: Array, more: Array, owned: bool) -> Array:
    """total + more, in place where `owned` says that nobody else can see `total`."""
    if gpu.in_use:
        settle(total)
    if owned and total.ndim:
        return module_of(total).add(total, more, out=total)
    return as_array(total + more, total)
