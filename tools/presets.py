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

# As many weights and tokens as nano-cpu, and what was found since GPT-2 to learn more from them.
_NANO_MODERN = {
    "steps": 2000,
    "batch_size": 12,
    "block_size": 64,
    # A matrix learns all its directions alike fast with Muon; tables, head and norms, which are no maps between
    # features, stay with AdamW. Its rate is high, as a table's rows are each seen seldom.
    "optimizer": "muon",
    "muon_lr": 0.02,
    "momentum": (0.85, 0.95),  # the first gradients are soon outdated
    "lr": 5e-3,
    "betas": (0.9, 0.99),
    "weight_decay": 0.0,  # each character is read once or twice: there is nothing to be kept from learning by heart
    "clip": 0.0,  # a step's length hardly depends on the gradients' with either optimizer
    "warmup": 50,  # both means of the gradients are noise in the first steps
    "schedule": "linear",  # high for long, and down to nothing, where noise of the last steps would stay in the weights
    "decay": 0.7,
    "min_lr": 0.0,
    "val_fraction": 0.1,
    "eval_every": 500,
    "layers": 4,
    "heads": 4,
    "width": 128,
    "dropout": 0.0,  # as with weight_decay
    "bias": False,
    "positions": "rotary",  # how far apart two characters are matters more than where they stand in the window
    "rotary_base": 1000.0,  # the slowest clock turns by a tenth of a radian or so over a window of 64
    "norm": "rms",  # the mean that layer norm subtracts is hardly different from 0
    "normalised": True,  # keeps the scores in bounds at these learning rates
    "activation": "swiglu",  # a gate switches features that a bend could only bend
    "hidden": 344,  # 8/3 of 128 as a multiple of 8: three matrices with as many weights as two of 4 times the width
    "tied": False,  # reading and writing a character are different tasks, and 65 of them cost few weights
    "zero_init": True,  # blocks begin as nothing and the head without an opinion: no step is spent on forgetting noise
}

_BERT = {
    "steps": 2000,
    "batch_size": 32,  # only every seventh token is a label
    "block_size": 64,
    # With AdamW alone a small one learned how frequent each token is and then, for 300 steps, nothing; with Muon its
    # attention found the neighbours of a mask within 100.
    "optimizer": "muon",
    "muon_lr": 0.02,
    "momentum": (0.85, 0.95),
    "lr": 5e-3,
    "betas": (0.9, 0.99),
    "weight_decay": 0.0,
    "clip": 1.0,
    "warmup": 100,  # norms behind the branches need a slow start
    "schedule": "linear",
    "decay": 0.7,
    "min_lr": 0.0,
    "eval_every": 500,
    "layers": 4,
    "heads": 4,
    "width": 128,
}

# Attention has to find out where to look: a matrix that learns all its directions alike finds it within 200 steps.
_PAIRED = {
    "steps": 2000,
    "batch_size": 64,
    "optimizer": "muon",
    "muon_lr": 0.02,
    "momentum": (0.85, 0.95),
    "lr": 5e-3,
    "betas": (0.9, 0.99),
    "weight_decay": 0.0,  # examples are many, and none comes often
    "clip": 1.0,
    "warmup": 100,
    "schedule": "linear",
    "decay": 0.7,
    "min_lr": 0.0,
    "eval_every": 500,
    "heads": 4,
    "width": 128,
}
_SEQ2SEQ = _PAIRED | {"block_size": 80, "layers": 2}
_OCR = _PAIRED | {"block_size": 32, "layers": 3}

# model -> preset -> values of TrainConfig and of the model's Config; the first preset of a model is its default
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "bigram": {
        "table": _TABLE,
        "tiny": _TABLE | {"steps": 60, "batch_size": 16, "block_size": 32},
    },
    "gpt": {
        "nano-cpu": _NANO_CPU,
        "nano-modern": _NANO_MODERN,
        "demo": _NANO_CPU | {"steps": 1000, "eval_every": 200},
        "tiny": _NANO_CPU
        | {"steps": 100, "batch_size": 8, "block_size": 32, "lr": 3e-3, "layers": 2, "heads": 2, "width": 32},
    },
    "seq2seq": {
        "small": _SEQ2SEQ,
        "tiny": _SEQ2SEQ | {"steps": 60, "batch_size": 8, "layers": 1, "heads": 2, "width": 32},
    },
    "ocr": {
        "small": _OCR,
        "tiny": _OCR | {"steps": 60, "batch_size": 8, "layers": 1, "heads": 2, "width": 32},
    },
    "bert": {
        "small": _BERT,
        "tiny": _BERT | {"steps": 100, "batch_size": 8, "block_size": 32, "layers": 2, "heads": 2, "width": 32},
    },
}
