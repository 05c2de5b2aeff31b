"""A loader that cuts a data set into batches, and the orders it goes through it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from tinygrad_edu import random
from tinygrad_edu.functional import stack
from tinygrad_edu.tensor import Tensor

_DRAWS = 1024  # numbers drawn at once, so that a sampler may be asked for more than there is memory for


class DataLoader:
    """Goes through a data set in batches; each `iter` is one pass.

    Args:
        dataset: anything with `len` and [number].
        batch_size: samples in a batch; None gives the samples themselves.
        shuffle: draw a new order for every pass.
        sampler: the numbers of the samples in the order wanted, instead of `shuffle`.
        num_workers, pin_memory, persistent_workers: PyTorch's, without effect: batches are made where they are used.
        collate_fn: makes a batch of a list of samples; `default_collate` where None.
        drop_last: leave out a last batch that is not full.
        generator: where the order is drawn from; the default stream where None.

    Raises ValueError for a batch size below 1.

    >>> [batch.tolist() for batch in DataLoader([1, 2, 3], batch_size=2)]
    [[1, 2], [3]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool = False,
        sampler: Iterable[int] | None = None,
        *,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        generator: random.Generator | None = None,
        persistent_workers: bool = False,
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"DataLoader: batch_size must be at least 1, got {batch_size}")
        if sampler is not None and shuffle:
            raise ValueError("DataLoader: a sampler gives the order already; leave shuffle out")
        self.dataset, self.batch_size, self.shuffle, self.sampler = dataset, batch_size, shuffle, sampler
        self.collate_fn, self.drop_last, self.generator = collate_fn or default_collate, drop_last, generator

    def __iter__(self) -> Iterator[Any]:
        order: Iterable[int]
        if self.sampler is not None:
            order = self.sampler
        elif self.shuffle:
            order = (self.generator or random.current()).numpy().permutation(len(self.dataset)).tolist()
        else:
            order = range(len(self.dataset))
        if self.batch_size is None:
            yield from (self.dataset[i] for i in order)
            return
        numbers = iter(order)
        while batch := list(islice(numbers, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.collate_fn([self.dataset[i] for i in batch])

    def __len__(self) -> int:
        n = len(self.dataset if self.sampler is None else self.sampler)  # type: ignore[arg-type]
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


class RandomSampler:
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


def default_collate(batch: list[Any]) -> Any:
    """One batch of samples: tensors, arrays and numbers stacked along a new first axis, inside tuples and dicts.

    >>> default_collate([(1, 0.5), (2, 1.5)])
    [tensor([1, 2]), tensor([0.5, 1.5])]
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(batch)
    if isinstance(first, np.ndarray | np.generic):
        return Tensor(np.stack(batch))
    if isinstance(first, bool | int | float):
        return Tensor(batch)
    if isinstance(first, dict):
        return {key: default_collate([sample[key] for sample in batch]) for key in first}
    if isinstance(first, tuple | list):
        return [default_collate(list(column)) for column in zip(*batch, strict=True)]
    return batch
