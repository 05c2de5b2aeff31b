"""The texts that are being written, and the logits of what comes next; each id is read once where possible."""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from tinygrad_edu.generation.measuring import Model, check_logits, measuring
from tinygrad_edu.parallel.blas import BlasThreads

SMALL = 1e8  # floating-point operations of a product, about a millisecond of one core


class Reader:
    """Texts of different lengths, padded on the left so that all end together.

    Of a model with `new_cache()` the keys and values are kept, until a text is longer than block_size: then every
    position moves with each further token, and the last block_size ids are read anew. They are read anew, too, after
    a change of the weights, which would have made other keys.
    """

    def __init__(self, model: Model, prompts: Sequence[np.ndarray], pad: int) -> None:
        longest = max(map(len, prompts))
        self.ids = np.stack([np.pad(p, (longest - len(p), 0), constant_values=pad) for p in prompts])  # [B, T]
        self.real = np.stack([np.arange(longest) >= longest - len(p) for p in prompts])  # [B, T], not padding
        self._model, self._block_size = model, model.config.block_size
        self._cache: Any = None
        self._read = 0  # how many columns the cache keeps
        self._weights = list(model.parameters())
        self._largest = max((math.prod(p.shape) for p in self._weights), default=0)
        self._seen: list[Any] = []
        self._blas: BlasThreads | None = None

    def append(self, column: np.ndarray) -> None:
        """A further token for each text, [B]."""
        self.ids = np.concatenate([self.ids, column[:, None]], axis=1)
        self.real = np.concatenate([self.real, np.ones((len(column), 1), bool)], axis=1)

    def choose(self, rows: np.ndarray) -> None:
        """Go on with the texts number `rows`, in that order, one perhaps several times."""
        self.ids, self.real = self.ids[rows], self.real[rows]
        if self._cache is not None:
            self._cache.choose(rows)

    def logits(self) -> np.ndarray:
        """[B, V] after the texts. Modes are entered anew each time: the caller may train in between.

        Raises DivergedError where a row has no largest finite one.
        """
        first = max(self.ids.shape[1] - self._block_size, 0)  # the column that stands at position 0
        start = self._begin(first)
        options: dict[str, Any] = {} if self._cache is None else {"cache": self._cache}
        if not self.real.all():
            places = np.maximum(self.real[:, first:].cumsum(axis=1) - 1, 0)  # [B, up to block_size]
            options |= {"positions": places[:, start - first :], "segments": self.real[:, start:].astype(np.int64)}
        new = self.ids[:, start:]
        with measuring(self._model), self._threads(new.size):
            found = self._model(new, **options)[:, -1].numpy()
        self._read = self.ids.shape[1]
        return check_logits(found)

    def _begin(self, first: int) -> int:
        """The first column that has to be read, with a cache of those before it, if any."""
        now = [(id(p.array), p._version[0]) for p in self._weights]
        if first or now != self._seen or not hasattr(self._model, "new_cache"):
            self._seen, self._cache = now, None
        if first or not hasattr(self._model, "new_cache"):
            return first
        if self._cache is None:
            self._cache, self._read = self._model.new_cache(), 0
        return self._read

    def _threads(self, rows: int) -> Any:
        """Small products are made by one thread: a second one gains little there, and where the cores have other work
        as well, a product waits for it many times as long as it takes. A GPU's products need no threads."""
        if any(p.is_cuda for p in self._weights) or 2 * rows * self._largest >= SMALL:
            return nullcontext()
        self._blas = self._blas or BlasThreads()
        return self._blas.limited(1)
