"""Activations that are not kept: `checkpoint` runs a function again when its gradients are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tinygrad_edu import random
from tinygrad_edu.autograd.functional import outputs_of
from tinygrad_edu.engine.hooks import key_of
from tinygrad_edu.engine.modes import Listener, active, is_grad_enabled, setting
from tinygrad_edu.engine.reverse import differentiate
from tinygrad_edu.engine.tape import Op, Variable, wrap
from tinygrad_edu.tensor import Tensor


class _Captured(Listener):
    """Notes the tensors that a function reads from outside and that need a gradient."""

    def __init__(self, given: list[Any]) -> None:
        self.known = {id(x) for x in given}
        self.found: list[Variable] = []

    def applied(self, op: Any, inputs: Any, arrays: Any, outputs: Any, static: Any, record: Any) -> None:
        for x in inputs:
            if isinstance(x, Variable) and x.requires_grad and id(x) not in self.known:
                self.known.add(id(x))
                self.found.append(x)


class Checkpoint(Op):
    """outputs = a function of {xs}, run again when its gradients are asked for"""

    outputs = True
    formulas: ClassVar[dict[str, str]] = {"xs": "d of each input, by running the function again"}

    def forward(*xs, rerun):
        return rerun.pop_outputs()

    def gradients(g, need, xs, rerun):
        return rerun(g, need, xs)


class _Rerun:
    """What a checkpoint keeps of a call: the function, the random stream as it was, the tensors read from outside."""

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.fn, self.args, self.kwargs = fn, args, kwargs
        self.given = [i for i, x in enumerate(args) if isinstance(x, Variable)]
        self.stream, self.first_sample = random.current().get_state(), active().first_sample
        self.captured: list[Variable] = []
        self.outputs: tuple[Any, ...] | None = None

    def pop_outputs(self) -> tuple[Any, ...]:
        outputs, self.outputs = self.outputs, None
        return outputs  # type: ignore[return-value]

    def __call__(self, g: list[Any], need: tuple[bool, ...], xs: list[Any]) -> list[Any]:
        if any(isinstance(x, Variable) for x in (*xs, *g)):
            if active().grad:
                raise RuntimeError(
                    "checkpoint: a recorded backward pass (create_graph=True) cannot go through a recomputed part; "
                    "call the function without checkpoint"
                )
            xs, g = ([x.array if isinstance(x, Variable) else x for x in part] for part in (xs, g))
        args = list(self.args)
        for i, array, wanted in zip(self.given, xs, need):
            args[i] = wrap(Tensor, array)
            args[i].needs = wanted
        stream = random.Generator()
        stream.set_state(self.stream)
        with setting(grad=True, generator=stream, first_sample=self.first_sample):
            outs, _ = outputs_of(self.fn(*args, **self.kwargs), "checkpoint")
        pairs = [(y, d) for y, d in zip(outs, g) if d is not None and y.requires_grad]
        targets = [args[i] for i in self.given] + self.captured
        wanted_targets = [t for t, n in zip(targets, need) if n]
        found = differentiate([y for y, _ in pairs], [d for _, d in pairs], wanted_targets) if pairs else {}
        arrived = [found.get(key_of(t)) if n else None for t, n in zip(targets, need)]
        return [None if a is None else a.gradient for a in arrived]


def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """function(*args, **kwargs) without keeping what its ops save: the backward pass runs it again.

    Memory falls to the inputs and outputs, for one more forward. Dropout drops the same elements again. Tensors that
    the function reads from outside, such as parameters, get their gradients, too. PyTorch's `use_reentrant` and the
    like are accepted and change nothing.

    Args:
        function: gives a Tensor or a tuple of them; must give the same when it is run again.
        args: tensors and other values for it.

    Raises:
        RuntimeError: in a backward pass with create_graph=True, or where a value it read was changed in place since.

    Source: Chen et al., "Training deep nets with sublinear memory cost", 2016.

    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> checkpoint(lambda x: (x * x).tanh(), x).sum().backward()
    >>> [round(slope, 3) for slope in x.grad.tolist()]
    [0.84, 0.005]
    """
    for name in ("use_reentrant", "preserve_rng_state", "determinism_check", "debug", "context_fn"):
        kwargs.pop(name, None)
    if not is_grad_enabled() or active().trace is not None:
        return function(*args, **kwargs)
    rerun = _Rerun(function, args, kwargs)
    given = [args[i] for i in rerun.given]
    captured = _Captured(given)
    with setting(grad=False, trace=captured):
        outs, several = outputs_of(function(*args, **kwargs), "checkpoint")
    rerun.captured = captured.found
    rerun.outputs = tuple(y.array for y in outs)
    inputs = [*given, *captured.found]
    if not any(x.requires_grad for x in inputs):
        return tuple(outs) if several else outs[0]
    results = Checkpoint(*inputs, rerun=rerun)
    return results if several else results[0]
