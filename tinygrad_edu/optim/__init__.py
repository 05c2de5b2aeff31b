"""Optimizers and learning-rate schedules."""

from tinygrad_edu.optim.adamw import AdamW
from tinygrad_edu.optim.groups import decay_groups
from tinygrad_edu.optim.schedule import WarmupCosine

__all__ = ["AdamW", "WarmupCosine", "decay_groups"]
