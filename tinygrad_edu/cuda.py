"""What programs ask of GPUs before and while they use one, under the names of torch.cuda."""

from __future__ import annotations

from typing import Any

from tinygrad_edu import amp, random
from tinygrad_edu.absent import missing
from tinygrad_edu.arrays import devices, gpu
from tinygrad_edu.arrays.devices import number_of
from tinygrad_edu.arrays.gpu import OutOfMemoryError

__all__ = [
    "OutOfMemoryError",
    "amp",
    "current_device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "is_available",
    "is_bf16_supported",
    "manual_seed",
    "manual_seed_all",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "set_per_process_memory_fraction",
    "synchronize",
]


def is_available() -> bool:
    """Whether device "cuda" can be used: CuPy is installed and finds a GPU."""
    try:
        gpu.library()
    except ValueError:
        return False
    return True


def is_bf16_supported() -> bool:
    """False: the array libraries have no bfloat16."""
    return False


def device_count() -> int:
    """The number of GPUs."""
    return gpu.library().cuda.runtime.getDeviceCount() if is_available() else 0


def current_device() -> int:
    """The number of the GPU that "cuda" names. Raises ValueError where there is none."""
    devices.check_device("cuda")
    return 0


def get_device_name(device: Any = None) -> str:
    """What the GPU calls itself. Raises ValueError where there is none."""
    number = _number(device)
    return gpu.library().cuda.runtime.getDeviceProperties(number)["name"].decode()


def synchronize(device: Any = None) -> None:
    """Wait until the GPU has done what it was given; nothing to wait for without one."""
    if is_available():
        with gpu.library().cuda.Device(_number(device)):
            gpu.library().cuda.runtime.deviceSynchronize()


def empty_cache() -> None:
    """Give memory that no array uses back to the GPUs."""
    for number in range(device_count()):
        with gpu.library().cuda.Device(number):
            gpu.library().get_default_memory_pool().free_all_blocks()


def memory_allocated(device: Any = None) -> int:
    """Bytes that arrays use on a GPU; 0 without one."""
    return _of_pool("used_bytes", device)


def memory_reserved(device: Any = None) -> int:
    """Bytes that are kept for arrays on a GPU, in use or not; 0 without one."""
    return _of_pool("total_bytes", device)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, all) bytes of a GPU, by its driver. Raises ValueError where there is none."""
    with gpu.library().cuda.Device(_number(device)):
        return gpu.library().cuda.runtime.memGetInfo()


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Let arrays use at most this share of a GPU's memory; beyond it `OutOfMemoryError` is raised.

    Raises ValueError for a share outside 0 to 1, and where there is no GPU.
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"set_per_process_memory_fraction: fraction is a share from 0 to 1, not {fraction}")
    with gpu.library().cuda.Device(_number(device)):
        gpu.library().get_default_memory_pool().set_limit(fraction=fraction)


def manual_seed(seed: int) -> None:
    """Nothing but a check of the seed: draws on every device come from the stream of `tinygrad_edu.manual_seed`."""
    random.Generator(seed)


manual_seed_all = manual_seed


def _number(device: Any) -> int:
    return number_of(devices.check_device("cuda" if device is None else devices.Device(device)))


def _of_pool(what: str, device: Any) -> int:
    """What CuPy's memory pool tells of one GPU."""
    if not is_available():
        return 0
    with gpu.library().cuda.Device(_number(device)):
        return getattr(gpu.library().get_default_memory_pool(), what)()


_INSTEAD = {
    "Stream": "the array library's own stream is used",
    "max_memory_allocated": "memory_allocated() tells the present use",
}


def __getattr__(name: str) -> Any:
    raise missing("cuda", name, __all__, _INSTEAD)
