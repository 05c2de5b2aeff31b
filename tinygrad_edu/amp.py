"""Mixed precision as programs ask for it, without effect: everything is computed in the dtypes that tensors have."""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import Any

__all__ = ["GradScaler", "autocast"]


class autocast(ContextDecorator):
    """Nothing, as a `with` block or a decorator: products of float32 stay in float32, which is more exact.

    Args:
        args, options: PyTorch's (device_type, dtype, enabled, cache_enabled), without effect.

    >>> with autocast("cuda", enabled=False):
    ...     pass
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class GradScaler:
    """PyTorch's scaler of losses as it is where it is disabled: nothing is scaled, every step is taken.

    Args:
        args, options: PyTorch's (device, init_scale, enabled, ...), without effect.

    >>> scaler = GradScaler()
    >>> scaler.scale(2.0), scaler.get_scale(), scaler.is_enabled()
    (2.0, 1.0, False)
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        pass

    def scale(self, outputs: Any) -> Any:
        """The loss or losses as they are."""
        return outputs

    def unscale_(self, optimizer: Any) -> None:
        """Nothing: gradients are not scaled."""

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """optimizer.step(*args, **kwargs)"""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """Nothing: the scale is always 1."""

    def get_scale(self) -> float:
        """1."""
        return 1.0

    def is_enabled(self) -> bool:
        """False."""
        return False

    def state_dict(self) -> dict[str, Any]:
        """Empty: there is no state."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Nothing: there is no state."""
