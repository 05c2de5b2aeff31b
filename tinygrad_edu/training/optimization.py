"""From a run's options to the optimizer, its learning rates and Muon's momentum over the run."""

from tinygrad_edu.nn import Module
from tinygrad_edu.optim import AdamW, MuonAdamW, Optimizer, WarmupCosine, WarmupLinear, decay_groups, muon_groups
from tinygrad_edu.training.config import TrainConfig

_RISE = 300  # steps in which Muon's momentum rises: long enough to forget the gradients of the first weights


def optimizer_of(model: Module, config: TrainConfig) -> Optimizer:
    """AdamW for all parameters, or Muon for the hidden matrices beside AdamW for the rest, as `config.optimizer` says.

    Raises ValueError for a Muon without a hidden matrix.
    """
    if config.optimizer == "adamw":
        return AdamW(decay_groups(model, config.weight_decay), lr=config.lr, betas=config.betas)
    groups = muon_groups(model, config.weight_decay)
    if not any(group["use_muon"] for group in groups):
        raise ValueError(f"optimizer is 'muon', but a {type(model).__name__} has no hidden matrix; take adamw")
    for group in groups:
        group["lr"] = config.muon_lr if group["use_muon"] else config.lr
    return MuonAdamW(groups, betas=config.betas, adjust_lr_fn="original")


def schedule_of(optimizer: Optimizer, config: TrainConfig) -> WarmupCosine | WarmupLinear:
    """The learning rates of the run, each group's from its own peak."""
    peaks = [group["lr"] for group in optimizer.param_groups]
    warmup, low = min(config.warmup, config.steps // 2), min(config.min_lr, *peaks)
    if config.schedule == "cosine":
        return WarmupCosine(optimizer, warmup, config.steps, low)
    return WarmupLinear(
        optimizer, warmup, config.steps, low, min(round(config.decay * config.steps), config.steps - warmup)
    )


def set_momentum(optimizer: Optimizer, config: TrainConfig, step: int) -> None:
    """Give Muon's groups the momentum for the step after `step` steps: in a line from the first to the last one."""
    first, last = config.momentum
    for group in optimizer.param_groups:
        if group.get("use_muon"):
            group["momentum"] = first + (last - first) * min(step / _RISE, 1.0)
