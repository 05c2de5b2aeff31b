"""What ran on the stand-in, by kind, for the line at the end of the log; and how the two devices are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tinygrad_edu as tg
from tinygrad_edu.arrays import devices

counts: dict[str, set[str]] = {}


def note(kind: str, *names: str) -> None:
    """Count these names, each once."""
    counts.setdefault(kind, set()).update(names)


def host(value: Any) -> np.ndarray:
    """The elements of a tensor, on the host."""
    return devices.to_device(value.array if isinstance(value, tg.Tensor) else value, "cpu")


def same_on_both(run: Callable[[str], list[Any]], rtol: float = 1e-9, atol: float = 1e-11) -> None:
    """What `run(device)` gives is on that device, and equal on both."""
    here, there = run("cpu"), run("cuda")
    for x, y in zip(here, there, strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            assert (x.device, y.device) == ("cpu", "cuda:0")
            assert (x.shape, x.dtype) == (y.shape, y.dtype)
            np.testing.assert_allclose(host(y), host(x), rtol=rtol, atol=atol)
