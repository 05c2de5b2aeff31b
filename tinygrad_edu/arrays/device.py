"""Devices by name, and which of them are there."""

from __future__ import annotations

from typing import Any

from tinygrad_edu.arrays import gpu


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
