"""Learning-rate schedules: what becomes of `lr` in an optimizer's groups from step to step."""

from typing import Any

from tinygrad_edu.optim.lr_scheduler.base import LRScheduler
from tinygrad_edu.optim.lr_scheduler.cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts, OneCycleLR
from tinygrad_edu.optim.lr_scheduler.plateau import ReduceLROnPlateau
from tinygrad_edu.optim.lr_scheduler.sequence import SequentialLR
from tinygrad_edu.optim.lr_scheduler.simple import ConstantLR, ExponentialLR, LambdaLR, LinearLR, MultiStepLR, StepLR
from tinygrad_edu.optim.lr_scheduler.warmup import WarmupCosine, WarmupLinear

__all__ = [
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "OneCycleLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
    "WarmupCosine",
    "WarmupLinear",
]


def __getattr__(name: str) -> Any:
    if name in ("MultiplicativeLR", "PolynomialLR", "CyclicLR", "ChainedScheduler"):
        instead = "step each scheduler in turn" if name == "ChainedScheduler" else "LambdaLR takes any formula"
        raise AttributeError(f"lr_scheduler.{name} is not here; {instead}")
    raise AttributeError(f"module 'lr_scheduler' has no attribute {name!r}; it has {', '.join(__all__)}")
