"""What the models check of a shape, and how they draw their first weights."""

import math
from collections.abc import Callable
from typing import Any

from tinygrad_edu import nn


def check_shape(config: Any, *more: str) -> None:
    """Raise ValueError for a configuration whose counts are not 1 or more, whose heads cannot share the width, or whose
    dropout is no part. `more` names counts beside vocab_size, block_size, layers, heads and width."""
    kind = type(config).__name__
    for name in ("vocab_size", "block_size", "layers", "heads", "width", *more):
        if getattr(config, name) < 1:
            raise ValueError(f"{kind}: {name} must be at least 1, not {getattr(config, name)}")
    if config.width % config.heads:
        raise ValueError(
            f"{kind}: width {config.width} is not a multiple of heads {config.heads}, so the heads cannot share it "
            f"evenly; take width {config.width // config.heads * config.heads or config.heads} or other heads"
        )
    if not 0 <= config.dropout < 1:
        raise ValueError(f"{kind}: dropout must lie in [0, 1), not {config.dropout}")


def draw_weights(model: nn.Module, added: Callable[[str], int] | None = None, last: float = 0.02) -> None:
    """Draw the weights as GPT-2 did: normal, standard deviation 0.02, biases 0, norms 1.

    What a branch adds to the stream is drawn smaller by the root of how often that stream is added to, so that its
    spread at the end does not grow with the number of layers.

    Args:
        added: of a parameter's name, how often its stream is added to; None draws all alike, as BERT did.
        last: standard deviation, before that root, of what is added, and of a head that is not tied.
    """
    for name, p in model.named_parameters():
        if added is not None and name.endswith(("output.weight", "down.weight")):
            nn.init.normal_(p, std=last / math.sqrt(added(name)))
        elif p.ndim == 2:
            nn.init.normal_(p, std=last if name == "head.weight" else 0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(p)
