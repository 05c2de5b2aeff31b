"""Sequences of unequal length in one tensor, under the names of torch.nn.utils.rnn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tinygrad_edu.absent import missing
from tinygrad_edu.functional import stack
from tinygrad_edu.nn.functional.layers import pad
from tinygrad_edu.ops import index
from tinygrad_edu.tensor import Tensor

__all__ = [
    "PackedSequence",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


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


class PackedSequence(NamedTuple):
    """Sequences without their padding: position 0 of all, then position 1 of those that have one, and so on.

    data: [Σ lengths, ...], the longest sequence first at every position. batch_sizes: how many sequences reach each
    position. sorted_indices: which sequence stands where, longest first; unsorted_indices: where each one stands; None
    where they came in that order.
    """

    data: Any
    batch_sizes: Any
    sorted_indices: Any = None
    unsorted_indices: Any = None

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """With the data in another dtype or on another device."""
        return self._replace(data=self.data.to(*args, **kwargs))


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """The sequences in `input`, [T, B, ...] or, if `batch_first`, [B, T, ...], without what is behind their `lengths`.

    Raises ValueError for a length that is not from 1 to T, and, if `enforce_sorted`, for a longer one behind a shorter.

    >>> packed = pack_padded_sequence(Tensor([[1, 2], [3, 0]]), [2, 1], batch_first=True)
    >>> packed.data.tolist(), packed.batch_sizes.tolist()
    ([1, 3, 2], [2, 1])
    """
    x = input.transpose(0, 1) if batch_first else input
    n = np.asarray(lengths).astype(int)
    if n.shape != x.shape[1:2] or (n < 1).any() or (n > x.shape[0]).any():
        raise ValueError(
            f"pack_padded_sequence: {x.shape[1]} sequences of {x.shape[0]} positions need a length from 1 to that "
            f"each, got {n.tolist()}"
        )
    order = back = None
    if enforce_sorted:
        if (np.diff(n) > 0).any():
            raise ValueError(
                f"pack_padded_sequence: lengths {n.tolist()} do not fall; sort the batch, or enforce_sorted=False"
            )
    else:
        place = np.argsort(-n, kind="stable")
        n, order, back = n[place], Tensor(place), Tensor(np.argsort(place))
        x = x.index_select(1, order)
    sizes = (n[None, :] > np.arange(n.max())[:, None]).sum(1)
    return PackedSequence(x[_places(sizes)], Tensor(sizes), order, back)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """(padded, lengths): packed sequences as [T, B, ...], or [B, T, ...] if `batch_first`, in their first order.

    T is the longest length, or `total_length`. The inverse of `pack_padded_sequence`.
    """
    x, n = unpacked(sequence)
    longest = x.shape[0]
    if total_length is not None:
        if total_length < longest:
            raise ValueError(f"pad_packed_sequence: total_length {total_length} is less than the longest, {longest}")
        x = pad(x, ((0, 0) * (x.ndim - 1) + (0, total_length - longest)))
    if padding_value:
        behind = Tensor(np.arange(x.shape[0])[:, None] >= n)
        x = x.masked_fill(behind.reshape(*behind.shape, *(1,) * (x.ndim - 2)), padding_value)
    lengths = Tensor(n)
    if sequence.unsorted_indices is not None:
        x, lengths = x.index_select(1, sequence.unsorted_indices), lengths[sequence.unsorted_indices]
    return x.transpose(0, 1) if batch_first else x, lengths


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences [Tᵢ, ...], packed."""
    return pack_padded_sequence(pad_sequence(sequences), [len(s) for s in sequences], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences [Tᵢ, ...] that were packed."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences))


def unpacked(sequence: PackedSequence) -> tuple[Tensor, np.ndarray]:
    """(sequences as [T, B, ...], the longest first, 0 behind their ends; their lengths, an array)."""
    sizes = np.asarray(sequence.batch_sizes)
    shape = (len(sizes), int(sizes[0]), *sequence.data.shape[1:])
    x = index.PutAdd(sequence.data, index=_places(sizes), shape=shape)
    return x, (sizes[:, None] > np.arange(sizes[0])).sum(0)


def packed_like(x: Tensor, sequence: PackedSequence) -> PackedSequence:
    """[T, B, ...], the longest first, without what lies behind the ends of the sequences that `sequence` packs."""
    return sequence._replace(data=x[_places(np.asarray(sequence.batch_sizes))])


def _places(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The position and the sequence of each packed element."""
    return np.repeat(np.arange(len(sizes)), sizes), np.concatenate([np.arange(n) for n in sizes])


def __getattr__(name: str) -> Any:
    raise missing("nn.utils.rnn", name, __all__, {})
