"""What would be asked of the machine, refused before anything is built where it cannot be had."""

import os
from typing import Any

_BYTES = 4  # of a float32
_COPIES = 4  # of a parameter: itself, its gradient, and two means of the optimizer
_KEPT = 12  # arrays [B, T, D] of a block at the least; measured are 25


def check_threads(threads: int) -> None:
    """Raises ValueError for more than four threads a core: they would only wait for each other."""
    cores = os.cpu_count() or 1
    if threads > 4 * cores:
        raise ValueError(f"threads is {threads}; this machine has {cores} cores: take {cores}, or 0 for one a core")


def check_memory(model: dict[str, Any], vocab_size: int, batch_size: int, block_size: int, accumulation: int) -> None:
    """Raises ValueError for a model or a batch that alone would take more memory than the machine has.

    model: options of a GPT, or none for a table [V, V]. The figures are lower bounds: a run that passes may still not
    fit, one that is refused cannot.

    >>> check_memory({"layers": 4, "width": 128}, vocab_size=90, batch_size=12, block_size=64, accumulation=1)
    """
    have = _memory()
    layers, width = model.get("layers", 0), model.get("width", vocab_size)
    block = 4 * width**2 + 2 * width * (model.get("hidden", 0) or 4 * width)  # attention, and feed-forward
    tables = vocab_size + model.get("segments", 0) + (block_size if model else 0)
    parameters = layers * block + tables * width
    if parameters * _BYTES * _COPIES > have:
        sizes = {k: model[k] for k in ("layers", "width", "hidden", "segments") if model.get(k)} | {
            "vocab_size": vocab_size
        }
        raise ValueError(
            f"a model of {_listed(sizes)} has about {parameters:,} parameters, and training it takes "
            f"{_gib(parameters * _BYTES * _COPIES)}; this machine has {_gib(have)}: choose a smaller model"
        )
    positions = batch_size * block_size
    # ids, labels and places of all windows as int64; what the backward pass needs of each layer, and the logits
    batch = positions * accumulation * 3 * 8 + positions * _BYTES * (_KEPT * layers * width + vocab_size)
    if batch > have:
        sizes = {"batch_size": batch_size, "block_size": block_size, "accumulation": accumulation}
        raise ValueError(
            f"a step with {_listed(sizes)} takes {_gib(batch)} or more; this machine has {_gib(have)}: choose smaller "
            f"ones"
        )


def check_room(name: str, count: int, what: str) -> None:
    """Raises ValueError for an option `name` that asks for more numbers than fit into memory; what: they are."""
    if count * 8 > (have := _memory()):
        raise ValueError(f"{name} is {count}; {what} alone take {_gib(count * 8)}, this machine has {_gib(have)}")


def check_beams(beams: int, tokens: int, vocab_size: int) -> None:
    """Raises ValueError for more beams than their probabilities alone would fit into memory."""
    rows = beams if vocab_size > 1 and tokens >= beams.bit_length() else min(beams, vocab_size ** max(tokens, 0))
    if rows * vocab_size * 8 > (have := _memory()):
        raise ValueError(
            f"beams is {beams}; the probabilities of their next tokens alone take {_gib(rows * vocab_size * 8)}, this "
            f"machine has {_gib(have)}"
        )


def _memory() -> float:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return float("inf")  # a system that does not say: let it show


def _listed(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name} {size}" for name, size in sizes.items())


def _gib(size: float) -> str:
    return f"{size // 2**30:,} GiB" if size >= 2**40 else f"{size / 2**30:,.1f} GiB"
