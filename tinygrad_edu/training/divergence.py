"""Where a loss that is no longer finite comes from: the step once more, with an eye on every op."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tinygrad_edu import random
from tinygrad_edu.arrays.devices import on_host
from tinygrad_edu.generation import Model
from tinygrad_edu.watching import AnomalyError, detect_anomaly


def first_fault(
    model: Model, batches: Iterable[Any], state: dict[str, int], backward: Callable[[Model, Any], Any]
) -> str:
    """What made the first NaN or infinity of a step: an op with its module and line of code, or a weight; in words.

    The forward and backward pass are run again; the weights are only read, the gradients are cleared at the end.
    batches: those of the step. state: of the random stream before it, for the same dropout. backward: runs both passes
    of a batch in this thread.
    """
    for name, p in model.named_parameters():
        if not np.isfinite(on_host(p)).all():
            return f"the weights {name} held one before the step"
    stream = random.current()
    after = stream.get_state()
    stream.set_state(state)
    try:
        with detect_anomaly():
            for batch in batches:
                backward(model, batch)
    except AnomalyError as error:
        return str(error)
    finally:
        stream.set_state(after)
        model.zero_grad()
    return "no op made one when its batch was run again, so it is a sum of finite numbers that is too large"
