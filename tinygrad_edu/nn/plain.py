"""Layers that only arrange: Identity, Flatten, Unflatten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygrad_edu.nn.module import Module
from tinygrad_edu.options import axes_lengths, integer
from tinygrad_edu.tensor import Tensor


class Identity(Module):
    """y = x. Takes and ignores any arguments, so that it stands in for another layer.

    >>> Identity(54, unused=True)(3)
    3
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        """x -> x."""
        return input


class Flatten(Module):
    """The axes from `start_dim` to `end_dim` as one; by default all behind the batch axis.

    >>> import tinygrad_edu as tg
    >>> Flatten()(tg.zeros(2, 3, 4)).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Any) -> Tensor:
        """x [B, a, b, ...] -> [B, a·b·...]."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """start_dim=1, end_dim=-1"""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Axis `dim` as several of the lengths `unflattened_size`, one of which may be −1.

    >>> import tinygrad_edu as tg
    >>> Unflatten(1, (3, -1))(tg.zeros(2, 12)).shape
    (2, 3, 4)
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim = integer(dim, "Unflatten: dim")
        if not isinstance(unflattened_size, tuple | list):
            raise TypeError(f"Unflatten: unflattened_size is a sequence of lengths, not {unflattened_size!r}")
        self.unflattened_size = axes_lengths(unflattened_size, "Unflatten: unflattened_size")

    def forward(self, input: Any) -> Tensor:
        """x [B, a·b] -> [B, a, b]."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """dim=1, unflattened_size=(3, -1)"""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
