"""Named sets of defaults for training, by model."""

from typing import Any

# model -> preset -> values of TrainConfig and of the model's Config; the first preset of a model is its default
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "bigram": {
        "table": {
            "steps": 1000,
            "batch_size": 64,
            "block_size": 64,
            "lr": 0.1,
            "min_lr": 1e-4,
            "warmup": 10,
            "weight_decay": 0.0,
            "clip": 0.0,
            "eval_every": 500,
        },
        "tiny": {"steps": 60, "batch_size": 16, "block_size": 32, "lr": 0.1, "warmup": 5, "weight_decay": 0.0},
    },
    "gpt": {
        "nano-cpu": {
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
        },
        "tiny": {
            "steps": 60,
            "batch_size": 8,
            "block_size": 32,
            "lr": 3e-3,
            "warmup": 10,
            "layers": 2,
            "heads": 2,
            "width": 32,
        },
    },
}
