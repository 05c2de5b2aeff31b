"""Run a function or a module once, forward and backward, and write down everything that happened."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from tinygrad_edu import backend
from tinygrad_edu.graph.definitions import define
from tinygrad_edu.graph.graph import Graph
from tinygrad_edu.graph.record import Output, Record
from tinygrad_edu.graph.recorder import Recorder
from tinygrad_edu.graph.watch import Watch
from tinygrad_edu.modes import setting
from tinygrad_edu.nn.module import Module
from tinygrad_edu.reverse import Arrived, differentiate
from tinygrad_edu.tape import Variable, wrap

_OPENED = frozenset({"scaled_dot_product_attention"})


def trace(
    function: Callable[..., Any], *inputs: Any, title: str | None = None, axes: Mapping[str, str] | None = None
) -> Graph:
    """A Graph of one run of `function(*inputs)` and of the backward pass from its result.

    The run is the ordinary one, on the ordinary tape, except that attention runs as its definition, so that scores,
    mask and weights are there to be seen. The backward pass starts with 1 where the result is a loss: a tensor of one
    element, alone or as (sum, count); else with ones for every tensor among the results that needs a gradient. It
    writes to no `.grad`, and the tape of the result stays usable.

    Args:
        function: a Module or any function of tensors; a bound method of a Module, such as `model.loss`, brings the
            module's paths along.
        inputs: what it is called with.
        title: the heading of the picture; without one, the name of the function or of the module's class.
        axes: names for the axes of inputs and parameters, such as {"x": "B T D", "blocks.*.up.weight": "F D"}, by the
            input's name or the parameter's path, `*` for any part of it, `_` for an axis without a name. They spread
            to every value. Where code takes a shape apart, as in `B, T, D = x.shape`, its names are known as well.

    Raises ValueError where `axes` names another number of axes than there are, and whatever the function raises.

    >>> import tinygrad_edu as tg
    >>> from tinygrad_edu import nn
    >>> graph = trace(nn.Linear(3, 2), tg.ones(4, 3))
    >>> [branch.formula for branch in graph.record.branches]
    ['d{weight} = d{out}ᵀ·{x}', 'd{bias} = Σ d{out}']
    """
    return Graph(run(function, inputs, title, axes)[0])


def run(
    function: Callable[..., Any],
    inputs: tuple[Any, ...],
    title: str | None = None,
    axes: Mapping[str, str] | None = None,
) -> tuple[Record, list[Arrived], Any]:
    """The record, the gradients that arrived at the leaves, and the result of the run."""
    root = function if isinstance(function, Module) else getattr(function, "__self__", None)
    root = root if isinstance(root, Module) else None
    record = Record(title or _title(function, root))
    recorder = Recorder(record, root)
    watch = Watch(recorder.bound, recorder.returned, recorder.unpacked)
    recorder.line = watch.line
    for name, x in _arguments(function, inputs):
        if isinstance(x, Variable) or backend.is_array(x):
            array = x.array if isinstance(x, Variable) else x
            if id(array) not in recorder.values:
                record.inputs.append(recorder.leaf(x, "input"))
                recorder.given.append(array)
            recorder.bound(array, name, "argument")
            _call_axes(recorder, array, name, axes or {})
    for key, (_, path) in list(recorder.owners.items()):
        _call_axes(recorder, next(a for a in recorder.held if id(a) == key), path, axes or {})
    with setting(trace=recorder, definitions=_OPENED), watch:
        result = function(*inputs)
    found = [(label, x) for label, x in _flat(result) if isinstance(x, Variable)]
    record.loss = len(found) == 1 and found[0][1].array.size == 1 and found[0][1].requires_grad
    roots = []
    for label, x in found:
        number = recorder.value(x)
        flows = x.record is not None and x.record.number in recorder.applications
        seed = ("1" if record.loss else "ones") if flows else None
        record.outputs.append(Output(label, number, seed))  # type: ignore[arg-type]
        if flows:
            roots.append(x)
    gradients = _backward(recorder, roots) if roots else []
    recorder.finish()
    define(recorder)
    return record, gradients, result


def _call_axes(recorder: Recorder, array: Any, name: str, axes: Mapping[str, str]) -> None:
    """Take over the names given for the axes of an input or a parameter."""
    for pattern, text in axes.items():
        if fnmatchcase(name, pattern):
            words: list[str | None] = [None if word == "_" else word for word in text.split()]
            if len(words) != array.ndim:
                raise ValueError(
                    f"trace: axes name {len(words)} axes of {name} ({text!r}), but its shape is {array.shape}"
                )
            recorder.unpacked(array, words)


def _backward(recorder: Recorder, roots: list[Variable]) -> list[Arrived]:
    """The backward pass over what was traced, and no further; what the tape has behind it counts as leaves."""
    for traced in recorder.records:
        for i, entry in enumerate(traced.inputs):
            if entry and not isinstance(entry[0], Variable) and entry[0].number not in recorder.applications:
                traced.inputs[i] = _twin(recorder, traced, i), 0
    recorder.backward = True
    seeds = [backend.module_of(x.array).ones_like(x.array) for x in roots]
    with setting(trace=recorder):
        return list(differentiate(roots, seeds, retain=True).values())


def _twin(recorder: Recorder, traced: Any, i: int) -> Variable:
    """A leaf in place of an input that was made before the trace began."""
    number = recorder.record.forward[recorder.applications[traced.number]].inputs[i]
    array = next(a for a in recorder.held if recorder.values.get(id(a)) == number)
    twin: Variable = wrap(Variable, array)
    twin.requires_grad = True
    return twin


def _title(function: Any, root: Module | None) -> str:
    if root is not None:
        return type(root).__name__
    return str(getattr(function, "__name__", type(function).__name__))


def _arguments(function: Any, inputs: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """(name, value) of everything in the inputs, called as the function calls it."""
    forward = function.forward if isinstance(function, Module) else function
    try:
        bound = inspect.signature(forward).bind(*inputs).arguments
    except (TypeError, ValueError):
        bound = {}
    for name, x in bound.items():
        yield from _flat(x, name)
    if not bound:
        yield from _flat(inputs, "input")


def _flat(x: Any, label: str = "") -> Iterator[tuple[str, Any]]:
    """(label, leaf) of a result of any build: tuples, lists, dicts, named tuples."""
    stack = [(label, x)]
    while stack:
        label, x = stack.pop()
        if isinstance(x, dict):
            pairs = [(f"{label}[{key!r}]" if label else str(key), item) for key, item in x.items()]
        elif isinstance(x, tuple | list):
            fields = getattr(x, "_fields", None)
            pairs = [(fields[i] if fields else f"{label}[{i}]", item) for i, item in enumerate(x)]
        else:
            yield label, x
            continue
        stack += reversed(pairs)
