"""Data sets: samples by number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tinygrad_edu import random
from tinygrad_edu.tensor import Tensor


class Dataset:
    """Samples by number. A subclass writes `__getitem__` and `__len__`."""

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} needs __getitem__(self, index)")

    def __len__(self) -> int:
        raise TypeError(f"{type(self).__name__} needs __len__(self)")


class IterableDataset(Dataset):
    """Samples one after the other. A subclass writes `__iter__`."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} needs __iter__(self)")


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


class ConcatDataset(Dataset):
    """The samples of several data sets, one behind the other.

    >>> ConcatDataset(["ab", "cde"])[-1]
    'e'
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)

    def __getitem__(self, index: int) -> Any:
        at = index + len(self) if index < 0 else index
        for dataset in self.datasets if at >= 0 else ():
            if at < len(dataset):
                return dataset[at]
            at -= len(dataset)
        raise IndexError(f"ConcatDataset: sample {index} of {len(self)}")

    def __len__(self) -> int:
        return sum(map(len, self.datasets))


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
