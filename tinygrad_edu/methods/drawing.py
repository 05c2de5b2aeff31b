"""Methods of Tensor for pictures: what a value and its axes are called, and what it came from."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from tinygrad_edu.engine.modes import active
from tinygrad_edu.engine.tape import Variable

if TYPE_CHECKING:
    from tinygrad_edu.tensor import Tensor


class Drawn(Variable, result=False):
    """Methods of Tensor that compute nothing: they tell pictures of a computation something, or draw one."""

    __slots__ = ()

    def named(self, name: str, axes: str | None = None) -> Tensor:
        """This tensor itself, which pictures call `name`, and its axes by the words of `axes`, such as "B q d".

        `_` leaves an axis without a name. Outside a trace it costs nothing and does nothing.

        Raises ValueError in a trace where `axes` names another number of axes than there are.

        >>> import tinygrad_edu as tg
        >>> from tinygrad_edu.graph import trace
        >>> graph = trace(lambda x: (x * 2).named("twice", "B D").exp(), tg.ones(2, 3))
        >>> print(graph.record.forward[0].op, graph.record.values[2].axes)
        mul ('B', 'D')
        """
        if (listener := active().trace) is not None:
            listener.named(self, name, axes)
        return self  # type: ignore[return-value]

    def graph(self, *inputs: Any) -> Any:
        """A `Graph` of what this tensor came from and of the backward pass from it, drawn from the tape alone.

        The recorded pass is run for the picture, with 1 at this tensor, or ones where it has several elements; it
        writes no `.grad`, runs no hooks, and the tape stays as it was. Of ops that ran outside of a trace the tape
        does not know everything: the picture says what it cannot know, and `tinygrad_edu.graph.trace` shows it.

        inputs: tensors that count as inputs, where parameters are to be told from them, and modules whose parameters
        are then called by their paths. Local variables where this is called name what they hold.

        >>> import tinygrad_edu as tg
        >>> x, W = tg.ones(4, 3), tg.ones(3, 2, requires_grad=True)
        >>> loss = (x @ W).exp().sum()
        >>> loss.graph(x)
        loss: 3 ops, 3 gradient branches
        """
        # found by name, since pictures stand above tensors: they need them, not the other way round
        past = importlib.import_module("tinygrad_edu.graph.past")
        return past.graph_of(self, inputs, sys._getframe(1).f_locals)
