"""What programs ask of GPUs before they use one, under the names of torch.cuda."""

from __future__ import annotations

from typing import Any

from tinygrad_edu import backend, random
from tinygrad_edu.absent import missing

__all__ = [
    "current_device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "is_available",
    "is_bf16_supported",
    "manual_seed",
    "manual_seed_all",
    "synchronize",
]


def is_available() -> bool:
    """Whether device "cuda" can be used: CuPy is installed and finds a GPU."""
    try:
        backend.check_device("cuda")
    except ValueError:
        return False
    return True


def is_bf16_supported() -> bool:
    """False: the array libraries have no bfloat16."""
    return False


def device_count() -> int:
    """The number of GPUs."""
    return _cuda().runtime.getDeviceCount() if is_available() else 0


def current_device() -> int:
    """The number of the GPU that "cuda" names. Raises ValueError where there is none."""
    backend.check_device("cuda")
    return 0


def get_device_name(device: Any = None) -> str:
    """What the GPU calls itself. Raises ValueError where there is none."""
    name = backend.check_device("cuda" if device is None else backend.Device(device))
    return _cuda().runtime.getDeviceProperties(int(name.partition(":")[2]))["name"].decode()


def synchronize(device: Any = None) -> None:
    """Wait until the GPU has done what it was given; nothing to wait for without one."""
    if is_available():
        _cuda().runtime.deviceSynchronize()


def empty_cache() -> None:
    """Give memory that no array uses back to the GPU."""
    if is_available():
        import cupy

        cupy.get_default_memory_pool().free_all_blocks()


def manual_seed(seed: int) -> None:
    """Nothing but a check of the seed: draws on every device come from the stream of `tinygrad_edu.manual_seed`."""
    random.Generator(seed)


manual_seed_all = manual_seed


def _cuda() -> Any:
    import cupy

    return cupy.cuda


_INSTEAD = {
    "amp": "there is no mixed precision; compute in float32",
    "Stream": "the array library's own stream is used",
    "max_memory_allocated": "cupy.get_default_memory_pool().used_bytes() tells the present use",
    "memory_allocated": "cupy.get_default_memory_pool().used_bytes() tells it",
}


def __getattr__(name: str) -> Any:
    raise missing("cuda", name, __all__, _INSTEAD)
