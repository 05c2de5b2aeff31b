"""A model as it is used, not trained: no dropout, no tape."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tinygrad_edu.modes import no_grad

# A Module with a `config` and, where it is trained or measured, `loss(batch)`: more than a type of ours can say.
Model = Any


@contextmanager
def measuring(model: Model) -> Iterator[None]:
    """Evaluation mode and no gradients for a `with` block; afterwards every module has the mode that it had before."""
    before = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with no_grad():
            yield
    finally:
        for module, training in before:
            module.training = training
