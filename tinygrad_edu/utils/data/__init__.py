"""Data sets and a loader that cuts them into batches, under PyTorch's names."""

from typing import Any

from tinygrad_edu.absent import missing
from tinygrad_edu.utils.data.dataloader import DataLoader, default_collate
from tinygrad_edu.utils.data.dataset import (
    ConcatDataset,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    random_split,
)
from tinygrad_edu.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = [
    "BatchSampler",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "Subset",
    "TensorDataset",
    "default_collate",
    "random_split",
]

_INSTEAD = {
    "get_worker_info": "there are no workers: every batch is made where it is used",
    "WeightedRandomSampler": "use multinomial(weights, n, replacement=True).tolist() as the sampler",
    "SubsetRandomSampler": "use DataLoader(Subset(dataset, indices), shuffle=True)",
    "DistributedSampler": "there are no processes to share the samples",
    "distributed": "there are no processes to share the samples",
}


def __getattr__(name: str) -> Any:
    raise missing("utils.data", name, __all__, _INSTEAD)
