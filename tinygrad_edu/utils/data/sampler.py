"""Orders in which a loader goes through a data set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from tinygrad_edu import random

_DRAWS = 1024  # numbers drawn at once, so that a sampler may be asked for more than there is memory for


class Sampler:
    """Numbers of samples, one after the other. A subclass writes `__iter__`, and `__len__` where it has an end."""

    def __init__(self, data_source: Any = None) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} needs __iter__(self)")


class SequentialSampler(Sampler):
    """The numbers of all samples in order.

    >>> list(SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """The numbers of all samples in random order, or `num_samples` numbers drawn with `replacement`."""

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: random.Generator | None = None,
    ) -> None:
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self.num_samples = len(data_source) if num_samples is None else num_samples

    def __iter__(self) -> Iterator[int]:
        rng, n = (self.generator or random.current()).numpy(), len(self.data_source)
        if self.replacement:
            for start in range(0, self.num_samples, _DRAWS):
                yield from rng.integers(0, n, min(_DRAWS, self.num_samples - start)).tolist()
        else:
            yield from rng.permutation(n)[: self.num_samples].tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """The numbers of `sampler` in lists of `batch_size`, the last one shorter, or left out with `drop_last`.

    Raises ValueError for a batch size below 1.

    >>> list(BatchSampler(range(5), 2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if batch_size < 1:
            raise ValueError(f"BatchSampler: batch_size must be at least 1, got {batch_size}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        numbers = iter(self.sampler)
        while batch := list(islice(numbers, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
