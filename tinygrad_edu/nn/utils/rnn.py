"""Sequences of unequal length in one tensor, under the names of torch.nn.utils.rnn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygrad_edu.absent import missing
from tinygrad_edu.functional import stack
from tinygrad_edu.nn.functional.layers import pad
from tinygrad_edu.tensor import Tensor

__all__ = ["pad_sequence", "unpad_sequence"]


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Sequences [Tᵢ, ...], filled up to the longest, in one tensor [T, B, ...], or [B, T, ...] if `batch_first`.

    Args:
        padding_value: what fills. padding_side: "right" behind the elements, "left" before them.

    >>> pad_sequence([Tensor([1, 2]), Tensor([3])], batch_first=True).tolist()
    [[1, 2], [3, 0]]
    """
    if padding_side not in ("left", "right"):
        raise ValueError(f"pad_sequence: padding_side is 'left' or 'right', not {padding_side!r}")
    if not sequences:
        raise ValueError("pad_sequence: needs at least one sequence, got none")
    longest = max(len(s) for s in sequences)
    filled = []
    for s in sequences:
        lack = longest - len(s)
        widths = (lack, 0) if padding_side == "left" else (0, lack)
        value = padding_value if s.dtype.kind == "f" else int(padding_value)
        filled.append(pad(s, ((0, 0) * (s.ndim - 1) + widths), value=value) if lack else s)
    return stack(filled, dim=0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The sequences [Tᵢ, ...] in a tensor of `pad_sequence`, by their lengths."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[: int(n)] for row, n in zip(rows, lengths, strict=True)]


_PACKED = "sequences are not packed; pad them, and take the outputs at their true lengths"
_INSTEAD = dict.fromkeys(["pack_padded_sequence", "pad_packed_sequence", "pack_sequence", "PackedSequence"], _PACKED)


def __getattr__(name: str) -> Any:
    raise missing("nn.utils.rnn", name, __all__, _INSTEAD)
