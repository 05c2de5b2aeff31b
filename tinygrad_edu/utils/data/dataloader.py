"""A loader that cuts a data set into batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from tinygrad_edu import random
from tinygrad_edu.functional import stack
from tinygrad_edu.tensor import Tensor
from tinygrad_edu.utils.data.dataset import IterableDataset
from tinygrad_edu.utils.data.sampler import BatchSampler


class DataLoader:
    """Goes through a data set in batches; each `iter` is one pass.

    Args:
        dataset: anything with `len` and [number], or an IterableDataset, which gives its own order.
        batch_size: samples in a batch; None gives the samples themselves.
        shuffle: draw a new order for every pass.
        sampler: the numbers of the samples in the order wanted, instead of `shuffle`.
        batch_sampler: lists of numbers, one a batch, instead of `batch_size`, `shuffle`, `sampler` and `drop_last`.
        num_workers, pin_memory, persistent_workers, prefetch_factor, worker_init_fn: PyTorch's, without effect: batches
            are made where they are used.
        collate_fn: makes a batch of a list of samples; `default_collate` where None.
        drop_last: leave out a last batch that is not full.
        generator: where the order is drawn from; the default stream where None.

    Raises ValueError for a batch size below 1, and for two arguments that both give the order.

    >>> [batch.tolist() for batch in DataLoader([1, 2, 3], batch_size=2)]
    [[1, 2], [3]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool = False,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[list[int]] | None = None,
        *,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        generator: random.Generator | None = None,
        persistent_workers: bool = False,
        prefetch_factor: int | None = None,
        worker_init_fn: Any = None,
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"DataLoader: batch_size must be at least 1, got {batch_size}")
        if sampler is not None and shuffle:
            raise ValueError("DataLoader: a sampler gives the order already; leave shuffle out")
        if isinstance(dataset, IterableDataset) and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError("DataLoader: an IterableDataset gives the order already; leave shuffle and samplers out")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError(
                "DataLoader: a batch_sampler makes the batches; leave batch_size, shuffle, sampler and drop_last out"
            )
        self.dataset, self.batch_size, self.shuffle, self.sampler = dataset, batch_size, shuffle, sampler
        self.batch_sampler, self.drop_last, self.generator = batch_sampler, drop_last, generator
        self.collate_fn = collate_fn or default_collate

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.dataset, IterableDataset):
            batches: Any = iter(self.dataset) if self.batch_size is None else self._cut(self.dataset)
            yield from batches if self.batch_size is None else map(self.collate_fn, batches)
            return
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
        for batch in self._cut(order) if self.batch_sampler is None else self.batch_sampler:
            yield self.collate_fn([self.dataset[i] for i in batch])

    def __len__(self) -> int:
        if self.batch_sampler is not None:
            return len(self.batch_sampler)  # type: ignore[arg-type]
        of = self.dataset if self.sampler is None else self.sampler
        return len(of) if self.batch_size is None else len(self._cut(of))  # type: ignore[arg-type]

    def _cut(self, samples: Iterable[Any]) -> BatchSampler:
        return BatchSampler(samples, self.batch_size or 1, self.drop_last)


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
