"""`checkpoint` where PyTorch programs look for it; `tinygrad_edu.autograd` has it."""

from typing import Any

from tinygrad_edu.autograd import checkpoint

__all__ = ["checkpoint", "checkpoint_sequential"]


def checkpoint_sequential(functions: Any, segments: int, input: Any, **kwargs: Any) -> Any:
    """fₙ(… f₁(input)), kept only at the borders of `segments` parts of the functions; see `checkpoint`.

    Args:
        functions: a Sequential, or any sequence of functions of one tensor.
        segments: parts of nearly equal length, at least 1.
        input: what the first takes.

    Raises ValueError for fewer segments than 1.

    >>> import tinygrad_edu as tg
    >>> checkpoint_sequential([tg.square, tg.relu, tg.neg], 2, tg.ones(2))
    tensor([-1., -1.])
    """
    if segments < 1:
        raise ValueError(f"checkpoint_sequential: segments must be at least 1, got {segments}")
    steps = list(functions)
    length = max(-(-len(steps) // segments), 1)
    for start in range(0, len(steps), length):
        input = checkpoint(_chain(steps[start : start + length]), input, **kwargs)
    return input


def _chain(steps: list[Any]) -> Any:
    def run(x: Any) -> Any:
        for step in steps:
            x = step(x)
        return x

    return run
