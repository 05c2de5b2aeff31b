"""Seeded random streams whose state is two numbers: every draw has a key of its own, (seed, how many came before)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_edu.engine.modes import active

_COUNTER_WORDS = 4  # Philox gives four 64-bit words per count


class Generator:
    """A stream of random draws. Equal seeds and equal counts give equal numbers, on every machine and device.

    Draw number n of seed s uses the counter-based Philox generator under the key (s, n) (Salmon et al., "Parallel
    random numbers: as easy as 1, 2, 3", 2011), so the whole state is these two integers and any part of a draw can be
    made alone.

    >>> g = Generator(7)
    >>> first = g.numpy().random(2)
    >>> g.set_state({"seed": 7, "count": 0})
    >>> bool((g.numpy().random(2) == first).all())
    True
    """

    def __init__(self, seed: int | str = 0, device: Any = None) -> None:
        if isinstance(seed, str):  # Generator("cpu"), as PyTorch takes it: draws are the same on every device
            seed = 0
        self.manual_seed(seed)

    def manual_seed(self, seed: int) -> Generator:
        """Start again from `seed`, an integer from 0 up to 2⁶⁴ − 1; returns itself."""
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise TypeError(f"seed must be an integer, got {seed!r}")
        if not 0 <= seed < 2**64:
            raise ValueError(f"seed must lie in 0 to 2**64 - 1, got {seed}")
        self.seed, self.count = int(seed), 0
        return self

    def initial_seed(self) -> int:
        """The seed that the stream began with."""
        return self.seed

    def key(self) -> tuple[int, int]:
        """The key of the next draw, which counts as made."""
        self.count += 1
        return self.seed, self.count - 1

    def numpy(self) -> np.random.Generator:
        """NumPy's generator for one draw (of any size), independent of all other draws."""
        return _philox(self.key())

    def get_state(self) -> dict[str, int]:
        """{"seed", "count"}: all there is to know."""
        return {"seed": self.seed, "count": self.count}

    def set_state(self, state: dict[str, int]) -> None:
        """Go on from what `get_state` returned."""
        self.manual_seed(state["seed"])
        self.count = int(state["count"])


default_generator = Generator(0)


def manual_seed(seed: int) -> Generator:
    """Start the default stream again from `seed`; returns it."""
    return default_generator.manual_seed(seed)


def initial_seed() -> int:
    """The seed that the default stream began with."""
    return default_generator.initial_seed()


def get_rng_state() -> dict[str, int]:
    """The state of the default stream; unlike PyTorch's it is two numbers, {"seed", "count"}, and no tensor."""
    return default_generator.get_state()


def set_rng_state(new_state: dict[str, int]) -> None:
    """Let the default stream go on from what `get_rng_state` returned."""
    default_generator.set_state(new_state)


def current() -> Generator:
    """The stream that draws without a generator of their own come from in this thread."""
    return active().generator or default_generator


def _philox(key: tuple[int, int]) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=np.array(key, dtype=np.uint64)))


def below(values: np.ndarray, low: float, high: float, dtype: Any) -> np.ndarray:
    """Draws from [low, high) in another dtype, where those nearest to `high` would be rounded to it."""
    found = values.astype(dtype, copy=False)
    if low < high:
        np.minimum(found, max(np.nextafter(dtype.type(high), dtype.type(low)), dtype.type(low)), out=found)
    return found


def indices(weights: np.ndarray, count: int, replacement: bool, key: tuple[int, int]) -> np.ndarray:
    """`count` indices for each row of `weights` [..., V], drawn in proportion to them: [..., count]."""
    rows, r = weights.astype(np.float64).reshape(-1, weights.shape[-1]), _philox(key)
    if replacement:
        edges = rows.cumsum(axis=1)
        points = r.random((len(rows), count)) * edges[:, -1:]
        found = np.stack([np.searchsorted(e, p, side="right") for e, p in zip(edges, points)])
        found = np.minimum(found, (rows > 0).cumsum(axis=1).argmax(axis=1)[:, None])  # rounding at the very end
    else:  # the largest of weight-scaled exponential races come first: draws one after the other, all at once
        with np.errstate(divide="ignore"):
            race = np.log(rows) - np.log(r.standard_exponential(rows.shape))
        found = np.argsort(-race, axis=1, kind="stable")[:, :count]
    return found.reshape(*weights.shape[:-1], count)


def keep_mask(like: Any, p: float, key: tuple[int, int], first_sample: int) -> Any:
    """An array like `like`, on the CPU: 0 with probability `p`, else 1 / (1 − p).

    The numbers of sample i (axis 0, counted from `first_sample`) depend on the key and i alone, so a batch that is cut
    into shards drops the same elements as the whole.
    """
    shape = like.shape
    samples, each = (shape[0], like.size // max(shape[0], 1)) if shape else (1, 1)
    counts = -(-each // (2 * _COUNTER_WORDS))  # 32 random bits for an element
    philox = np.random.Philox(key=np.array(key, dtype=np.uint64)).advance(counts * first_sample)
    words = philox.random_raw(samples * counts * _COUNTER_WORDS).view(np.uint32)
    bits = words.reshape(samples, counts * 2 * _COUNTER_WORDS)[:, :each].reshape(shape)
    kept = bits >= np.uint32(min(round(p * 2**32), 2**32 - 1))
    return kept * like.dtype.type(1.0 / (1.0 - p) if p < 1 else 0.0)
