"""Optimizers and learning-rate schedules."""

from typing import Any

from tinygrad_edu.optim import lr_scheduler
from tinygrad_edu.optim.adagrad import Adagrad
from tinygrad_edu.optim.adamw import Adam, AdamW
from tinygrad_edu.optim.groups import decay_groups, muon_groups
from tinygrad_edu.optim.lr_scheduler import WarmupCosine, WarmupLinear
from tinygrad_edu.optim.muon import Muon, MuonAdamW
from tinygrad_edu.optim.optimizer import Optimizer
from tinygrad_edu.optim.rmsprop import RMSprop
from tinygrad_edu.optim.sgd import SGD

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "Muon",
    "MuonAdamW",
    "Optimizer",
    "RMSprop",
    "WarmupCosine",
    "WarmupLinear",
    "decay_groups",
    "lr_scheduler",
    "muon_groups",
]

_NEAREST = {"Adadelta": "RMSprop", "Adafactor": "AdamW", "Adamax": "Adam", "NAdam": "AdamW", "RAdam": "AdamW"}
_NEAREST |= {"ASGD": "SGD", "Rprop": "RMSprop", "SparseAdam": "Adam", "LBFGS": "SGD with momentum"}


def __getattr__(name: str) -> Any:
    if name in _NEAREST:
        raise AttributeError(
            f"optim.{name} is not here; {_NEAREST[name]} comes nearest, or write it: optim.Optimizer shows how"
        )
    raise AttributeError(f"module 'tinygrad_edu.optim' has no attribute {name!r}; it has {', '.join(__all__)}")
