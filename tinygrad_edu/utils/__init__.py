"""What PyTorch keeps under `utils`: data sets and loaders, recomputed activations."""

from typing import Any

from tinygrad_edu.absent import missing
from tinygrad_edu.utils import checkpoint, data

__all__ = ["checkpoint", "data"]

_INSTEAD = {
    "tensorboard": "python -m tools.plot draws the metrics that training writes",
    "cpp_extension": "kernels are written in kernels/",
}


def __getattr__(name: str) -> Any:
    raise missing("utils", name, __all__, _INSTEAD)
