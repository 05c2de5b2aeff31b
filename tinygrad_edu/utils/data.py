"""Data sets and a loader that cuts them into batches, under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tinygrad_edu import random
from tinygrad_edu.functional import stack
from tinygrad_edu.tensor import Tensor


class Dataset:
    """Samples by number. A subclass writes `__getitem__` and `__len__`."""

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} needs __getitem__(self, index)")

    def __len__(self) -> int:
        raise TypeError(f"{type(self).__name__} needs __len__(self)")


class TensorDataset(Dataset):
    """Sample i is the i-th row of every tensor.

    Raises ValueError for tensors of unequal length.

    >>> TensorDataset(Tensor([1, 2]), Tensor([3, 4]))[1]
    (tensor(2), tensor(4))
    """

    def __init__(self, *tensors: Tensor) -> None:
        if len({len(t) for t in tensors}) > 1:
            raise ValueError(f"TensorDataset: tensors of unequal length: {[len(t) for t in tensors]}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0]) if self.tensors else 0


class Subset(Dataset):
    """The samples `indices` of a data set."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: int) -> Any:
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[float], generator: random.Generator | None = None) -> list[Subset]:
    """Subsets of the lengths given, or of fractions that add up to 1, drawn at random without overlap.

    Raises ValueError for lengths that do not add up to the data set's.

    >>> [len(part) for part in random_split(range(10), [0.7, 0.3])]
    [7, 3]
    """
    n = len(dataset)
    sizes = [int(length) for length in lengths]
    if abs(sum(lengths) - 1) < 1e-9 and any(0 < length < 1 for length in lengths):
        sizes = [int(n * length) for length in lengths]
        for i in range(n - sum(sizes)):
            sizes[i % len(sizes)] += 1
    if sum(sizes) != n:
        raise ValueError(f"random_split: lengths {list(lengths)} do not add up to the {n} samples")
    order = (generator or random.current()).numpy().permutation(n).tolist()
    ends = np.cumsum(sizes).tolist()
    return [Subset(dataset, order[end - size : end]) for size, end in zip(sizes, ends)]


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
        if self.sampler is not None:
            order = [int(i) for i in self.sampler]
        elif self.shuffle:
            order = (self.generator or random.current()).numpy().permutation(len(self.dataset)).tolist()
        else:
            order = list(range(len(self.dataset)))
        if self.batch_size is None:
            yield from (self.dataset[i] for i in order)
            return
        for start in range(0, len(order), self.batch_size):
            numbers = order[start : start + self.batch_size]
            if len(numbers) == self.batch_size or not self.drop_last:
                yield self.collate_fn([self.dataset[i] for i in numbers])

    def __len__(self) -> int:
        n = len(self.dataset)
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
            yield from rng.integers(0, n, self.num_samples).tolist()
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
