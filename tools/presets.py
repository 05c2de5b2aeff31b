"""Named sets of defaults for training, by model."""

from typing import Any

_TABLE = {
    "steps": 1000,
    "batch_size": 64,
    "block_size": 64,
    "lr": 0.1,
    "min_lr": 1e-4,
    "warmup": 10,
    "weight_decay": 0.0,
    "clip": 0.0,
    "eval_every": 500,
}
_NANO_CPU = {
    "steps": 2000,
    "batch_size": 12,
    "block_size": 64,
    "lr": 1e-3,
    "min_lr": 1e-4,
    "warmup": 100,
    "betas": (0.9, 0.99),
    "weight_decay": 0.1,
    "clip": 1.0,
    "val_fraction": 0.1,
    "eval_every": 500,
    "layers": 4,
    "heads": 4,
    "width": 128,
    "dropout": 0.0,
    "bias": False,
    "tied": True,
}

# model -> preset -> values of TrainConfig and of the model's Config; the first preset of a model is its default
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "bigram": {
        "table": _TABLE,
        "tiny": _TABLE | {"steps": 60, "batch_size": 16, "block_size": 32},
    },
    "gpt": {
        "nano-cpu": _NANO_CPU,
        "demo": _NANO_CPU | {"steps": 1000, "eval_every": 200},
        "tiny": _NANO_CPU
        | {"steps": 100, "batch_size": 8, "block_size": 32, "lr": 3e-3, "layers": 2, "heads": 2, "width": 32},
    },
}
