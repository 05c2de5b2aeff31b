"""What a Transformer keeps of the text it is writing: the keys and values of every layer, so that each is made once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tinygrad_edu.creation import empty
from tinygrad_edu.functional import cat
from tinygrad_edu.tensor import Tensor


class Layer:
    """The keys and values of one attention, in memory for `capacity` positions that is filled from the front."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.length = capacity, 0
        self._keys: Any = None
        self._values: Any = None

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """All keys [B, H, k, d] and values [B, H, k, e] so far; those of the new positions, [B, H, T, d], come last.

        Raises ValueError where they do not fit in, RuntimeError where they need a gradient: the memory is written over
        later, so that nothing can be differentiated through it.
        """
        if keys.requires_grad or values.requires_grad:
            raise RuntimeError("Cache: keys and values that need a gradient are not kept; generate under no_grad()")
        start, stop = self.length, self.length + keys.shape[-2]
        if stop > self.capacity:
            raise ValueError(
                f"Cache: it keeps {start} positions and {keys.shape[-2]} more came, but there is room for "
                f"{self.capacity}; start a new cache with the last {self.capacity} ids"
            )
        if self._keys is None:
            self._keys, self._values = self._room(keys), self._room(values)
        elif self._keys.shape[0] != keys.shape[0]:
            raise ValueError(f"Cache: it keeps {self._keys.shape[0]} sequences, and keys of {keys.shape[0]} came")
        self._keys[..., start:stop, :], self._values[..., start:stop, :] = keys, values
        self.length = stop
        return self.all()

    def all(self) -> tuple[Tensor, Tensor]:
        """The keys and values kept."""
        return self._keys[..., : self.length, :], self._values[..., : self.length, :]

    def choose(self, rows: Any) -> None:
        """Go on with those of the sequences whose numbers are `rows`, in that order, one perhaps several times."""
        if self._keys is not None:
            self._keys, self._values = self._keys[rows], self._values[rows]

    def _room(self, x: Tensor) -> Tensor:
        return empty(*x.shape[:-2], self.capacity, x.shape[-1], dtype=x.dtype, device=x.device)


class Cache:
    """A `Layer` for each of a model's attentions, and which of the positions kept belong together.

    layers: how many attentions. capacity: for how many positions there is room, the model's block_size. memory: how
    many positions a cross-attention reads, where there is one in each layer: `cache.memory` keeps its keys and values.

    A model takes it as `model(ids, cache=cache)`, reads `ids` as the positions that follow the ones kept, and returns
    the logits of the new ones. Equal to reading the whole text again, at the cost of the new ids alone.

    >>> from tinygrad_edu import ones
    >>> cache = Cache(layers=1, capacity=8)
    >>> keys, values = cache[0].extend(ones(1, 2, 3, 4), ones(1, 2, 3, 4))
    >>> keys, values = cache[0].extend(ones(1, 2, 1, 4), ones(1, 2, 1, 4))
    >>> cache.length, keys.shape
    (4, (1, 2, 4, 4))
    """

    def __init__(self, layers: int, capacity: int, memory: int = 0) -> None:
        self.layers = [Layer(capacity) for _ in range(layers)]
        self.memory = [Layer(memory) for _ in range(layers if memory else 0)]
        self.segments: Tensor | None = None

    @property
    def length(self) -> int:
        """How many positions are kept."""
        return self.layers[0].length

    def __getitem__(self, i: int) -> Layer:
        return self.layers[i]

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers)

    def join(self, segments: Tensor) -> Tensor:
        """The segments of all positions [B, k], those of the new ones [B, T] last. ValueError where earlier lack."""
        if self.segments is None and self.length:
            raise ValueError(
                "Cache: the positions kept have no segments; give segments from the first call on, or never"
            )
        self.segments = segments if self.segments is None else cat([self.segments, segments], dim=1)
        return self.segments

    def choose(self, rows: Any) -> None:
        """Go on with those of the sequences whose numbers are `rows`, as beam search does."""
        for layer in [*self.layers, *self.memory]:
            layer.choose(rows)
        if self.segments is not None:
            self.segments = self.segments[rows]
