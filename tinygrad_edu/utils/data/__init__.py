"""Data sets and a loader that cuts them into batches, under PyTorch's names."""

from typing import Any

from tinygrad_edu.absent import missing
from tinygrad_edu.utils.data.dataloader import DataLoader, RandomSampler, default_collate
from tinygrad_edu.utils.data.dataset import Dataset, Subset, TensorDataset, random_split

__all__ = ["DataLoader", "Dataset", "RandomSampler", "Subset", "TensorDataset", "default_collate", "random_split"]

_INSTEAD = {
    "IterableDataset": "write a Dataset with __getitem__ and __len__",
    "DistributedSampler": "there are no processes to share the samples",
    "distributed": "there are no processes to share the samples",
}


def __getattr__(name: str) -> Any:
    raise missing("utils.data", name, __all__, _INSTEAD)
