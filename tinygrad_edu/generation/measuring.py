"""A model as it is used, not trained: no dropout, no tape."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tinygrad_edu.arrays.locks import lock_of_process
from tinygrad_edu.data.checked import InputError
from tinygrad_edu.engine.modes import no_grad


class DivergedError(InputError):
    """A model whose weights let it compute nothing: what comes out is NaN or infinite."""


def check_logits(logits: np.ndarray) -> np.ndarray:
    """The logits [..., V] themselves. Raises DivergedError where a row has no largest finite one."""
    if not np.isfinite(logits.max(axis=-1)).all():
        raise DivergedError(
            "the model's logits hold NaN or +inf, or rule out every token: it has diverged, or its weights are "
            "damaged; take an earlier checkpoint"
        )
    return logits


# A Module with a `config` and, where it is trained or measured, `loss(batch)`: more than a type of ours can say.
Model = Any


class _Measured:
    """How many blocks measure a module at present, and whether it was in training before the first."""

    def __init__(self, training: bool) -> None:
        self.blocks, self.training = 0, training


_measured: WeakKeyDictionary[Any, _Measured] = WeakKeyDictionary()
_lock = lock_of_process()


@contextmanager
def measuring(model: Model) -> Iterator[None]:
    """Evaluation mode and no gradients for a `with` block; afterwards every module has the mode that it had before.

    Of several blocks at once, of threads or interleaved generators, the last to end brings that mode back.
    """
    entered = []
    try:
        with _lock:
            for module in model.modules():
                held = _measured.setdefault(module, _Measured(module.training))
                held.blocks += 1
                entered.append(module)
            model.eval()
        with no_grad():
            yield
    finally:
        with _lock:
            for module in entered:
                held = _measured[module]
                held.blocks -= 1
                if not held.blocks:
                    module.training = held.training
                    del _measured[module]
