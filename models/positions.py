"""Where a token stands, as sines and cosines: added to its features, or turning its queries and keys."""

from typing import Any

import tinygrad_edu as tg
from tinygrad_edu import Tensor

Rotation = tuple[Tensor, Tensor]


def angles(positions: Any, width: int, base: float = 10_000.0) -> Tensor:
    """θ[..., i] = position·base^(−2i/width) for i = 0 … width/2 − 1: the hands of clocks, each slower than the last.

    The first turns by 1 radian from a position to the next, the last by nearly 1/base. In float64, so that a far
    position has an exact angle.

    Args:
        positions: integers [...], an array or a Tensor.
        width: an even number of features, two for each clock.
        base: how much slower the slowest clock is; about the longest distance that is still told apart.

    Returns [..., width/2], in radians. Raises ValueError for an odd width.
    Source: Vaswani et al., "Attention is all you need", 2017, section 3.5.

    >>> angles([0, 3], 4, base=100.0).tolist()
    [[0.0, 0.0], [3.0, 0.30000000000000004]]
    """
    if width % 2:
        raise ValueError(f"angles: width {width} is odd, but each clock takes two features, a sine and a cosine")
    places = positions if isinstance(positions, Tensor) else tg.tensor(positions)
    even = tg.arange(0, width, 2, dtype=tg.float64, device=places.device)  # [D/2]
    return places.to(tg.float64).unsqueeze(-1) * base ** (-even / width)  # [..., D/2]


def sinusoidal(positions: Any, width: int, base: float = 10_000.0) -> Tensor:
    """The features (sin θ₀, cos θ₀, sin θ₁, cos θ₁, …) of each position, with θ from `angles`.

    A shift by n positions turns every pair (sin, cos) by the same angle wherever it starts, so that distances look
    alike all along the sequence. positions: integers [...]; returns [..., width], float64.

    >>> sinusoidal([0, 1], 2).numpy().round(3).tolist()
    [[0.0, 1.0], [0.841, 0.54]]
    """
    θ = angles(positions, width, base)  # [..., D/2]
    return tg.stack([tg.sin(θ), tg.cos(θ)], dim=-1).flatten(-2)  # [..., D]


def rotation(positions: Any, width: int, base: float = 10_000.0, dtype: Any = None) -> Rotation:
    """(cos θ, sin θ) for `rotate`: how far each position turns the features of a head.

    Args:
        positions: integers, [T] the same in every sequence, or [B, T].
        width: d, the features of a head; an even number.
        base: see `angles`.
        dtype: that of the queries and keys; float64 unless given.

    Returns both [T, d/2], or [B, 1, T, d/2], 1 for the heads.
    """
    θ = angles(positions, width, base)  # [T, d/2] or [B, T, d/2]
    if θ.ndim == 3:
        θ = θ.unsqueeze(1)  # [B, 1, T, d/2]
    cos, sin = tg.cos(θ), tg.sin(θ)
    return (cos, sin) if dtype is None else (cos.to(dtype), sin.to(dtype))


def rotate(x: Tensor, turn: Rotation) -> Tensor:
    """Each pair of features (a, b) = (xᵢ, xᵢ₊d/₂) turned by its angle: (a·cos − b·sin, a·sin + b·cos).

    The product of a query turned by its position and a key turned by its own depends on the distance of the two alone:
    turning keeps lengths, and of two turns only their difference is left in the angle between them.

    Args:
        x: queries or keys [B, H, T, d].
        turn: from `rotation`, in x's dtype.

    Returns [B, H, T, d]. Source: Su et al., "RoFormer: enhanced Transformer with rotary position embedding", 2021.

    >>> q = tg.tensor([[[[1.0, 0.0], [1.0, 0.0]]]], dtype=tg.float64)
    >>> rotate(q, rotation([0, 1], 2)).numpy().round(3).tolist()
    [[[[1.0, 0.0], [0.54, 0.841]]]]
    """
    cos, sin = turn  # [T, d/2] or [B, 1, T, d/2]
    a, b = x.chunk(2, dim=-1)  # [B, H, T, d/2]
    return tg.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)  # [B, H, T, d]
