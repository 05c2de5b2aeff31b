"""Run a function or a module once, forward and backward, and write down everything that happened."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from tinygrad_edu.arrays import library
from tinygrad_edu.engine.modes import setting
from tinygrad_edu.engine.reverse import Arrived, differentiate
from tinygrad_edu.engine.tape import Variable, wrap
from tinygrad_edu.graph.declared import declarations, declared_axes
from tinygrad_edu.graph.definitions import define
from tinygrad_edu.graph.describe import axis_words
from tinygrad_edu.graph.graph import Graph
from tinygrad_edu.graph.record import Output, Record
from tinygrad_edu.graph.recorder import Recorder
from tinygrad_edu.graph.watch import Watch
from tinygrad_edu.nn.module import Module

_OPENED = frozenset({"scaled_dot_product_attention"})


def trace(
    function: Callable[..., Any],
    *inputs: Any,
    title: str | None = None,
    axes: Mapping[str, str] | None = None,
    visibility: str | Mapping[str, str] | None = None,
    scaled: bool | Mapping[str, bool] | None = None,
) -> Graph:
    """A Graph of one run of `function(*inputs)` and of the backward pass from its result.

    The run is the ordinary one, on the ordinary tape, except that attention runs as its definition, so that scores,
    mask and weights are there to be seen. The backward pass starts with 1 where there is a loss among the results: one
    tensor of one element that needs a gradient, and no other; else with ones for every tensor that needs one. It
    writes to no `.grad`, and the tape of the result stays usable. The result may be of any build: tensors in tuples,
    lists, dicts and dataclasses are found, all else is passed over.

    A function may differentiate by itself where the pass is recorded, as `grad(y, x, create_graph=True)` does: then
    the gradients of gradients are drawn, too.

    Args:
        function: a Module or any function of tensors; a bound method of a Module, such as `model.loss`, brings the
            module's paths along.
        inputs: what it is called with.
        title: the heading of the picture; without one, the name of the function or of the module's class.
        axes: names for the axes of inputs and parameters, such as {"x": "B T D", "blocks.*.up.weight": "F D"}, by the
            name of the input or variable or by the parameter's path, `*` for any part of it, `_` for an axis without a
            name. They spread to every value. Where code takes a shape apart, as in `B, T, D = x.shape`, or gives one to
            `view`, its names are known as well.
        visibility: what attention is meant to see, for the ledger to check: "causal", "padding", "documents" (those of
            a row that holds several), "causal padding", "causal documents" or "full", for all or by the path of a
            module, such as {"encoder.*": "padding", "decoder.*": "causal"}. "causal" allows for documents, too.
        scaled: whether scores are meant to be divided by √d, for all or by the path of a module.

    A module says the same once and for all by attributes of these names: `axes` for its own parameters (and, of the
    module that is traced, its inputs), `visibility` and `scaled` for the attention in it. Arguments go before them.

    Raises ValueError where `axes` names another number of axes than there are, or something that is not there is
    declared, and whatever the function raises.

    >>> import tinygrad_edu as tg
    >>> from tinygrad_edu import nn
    >>> graph = trace(nn.Linear(3, 2), tg.ones(4, 3))
    >>> [branch.formula for branch in graph.record.branches]
    ['d{weight} = d{out}ᵀ·{x}', 'd{bias} = Σ d{out}']
    """
    return Graph(run(function, inputs, title, axes, visibility, scaled)[0])


def run(
    function: Callable[..., Any],
    inputs: tuple[Any, ...],
    title: str | None = None,
    axes: Mapping[str, str] | None = None,
    visibility: str | Mapping[str, str] | None = None,
    scaled: bool | Mapping[str, bool] | None = None,
) -> tuple[Record, list[Arrived], Any]:
    """The record, the gradients that arrived at the leaves, and the result of the run."""
    root = function if isinstance(function, Module) else getattr(function, "__self__", None)
    root = root if isinstance(root, Module) else None
    record = Record(title or _title(function, root))
    recorder = Recorder(record, root)
    named = [axes or {}, *declared_axes(root)]
    watch = Watch(recorder.bound, recorder.returned, recorder.unpacked, recorder.met)
    recorder.line = watch.line
    for name, x in _arguments(function, inputs):
        if isinstance(x, Variable) or library.is_array(x):
            array = x.array if isinstance(x, Variable) else x
            if id(array) not in recorder.values:
                record.inputs.append(recorder.leaf(x, "input"))
                recorder.given.append(array)
            recorder.bound(array, name, "argument")
            _call_axes(recorder, array, name, named)
    for path, array in recorder.owned.items():
        _call_axes(recorder, array, path, named)
    with setting(trace=recorder, definitions=_OPENED), watch:
        result = function(*inputs)
    for leaf, name in recorder.variables():
        _call_axes(recorder, recorder.arrays[leaf], name, named, fitting=True)
    found = [(label, x) for label, x in _flat(result) if isinstance(x, Variable)]
    losses = [x for _, x in found if x.array.size == 1 and x.requires_grad]
    record.loss = len(losses) == 1
    roots = []
    for label, x in found:
        number = recorder.value(x)
        seed = None
        if x.record is not None and x.record.number in recorder.applications:
            seed = ("1" if x is losses[0] else "0") if record.loss else "ones"
        record.outputs.append(Output(label, number, seed))  # type: ignore[arg-type]
        if seed in ("1", "ones"):
            roots.append(x)
    gradients = _backward(recorder, roots) if roots else []
    record.declared = declarations(root, [call.path for call in record.calls], visibility, scaled)
    recorder.finish()
    define(recorder)
    return record, gradients, result


def _call_axes(
    recorder: Recorder, array: Any, name: str, named: list[Mapping[str, str]], fitting: bool = False
) -> None:
    """Take over the names given for the axes of an input or a parameter, the first given before the others; `fitting`:
    only those that are one for each axis, as a variable elsewhere may have the same name."""
    for pattern, text in (pair for axes in named for pair in axes.items()):
        if fnmatchcase(name, pattern) and not (fitting and len(text.split()) != array.ndim):
            recorder.unpacked(array, axis_words(text, array.shape, name))


def _backward(recorder: Recorder, roots: list[Variable]) -> list[Arrived]:
    """The backward pass over what was traced, and no further; what the tape has behind it counts as leaves."""
    replaced = []
    for traced in recorder.records:
        for i, entry in enumerate(traced.inputs):
            if entry and not isinstance(entry[0], Variable) and entry[0].number not in recorder.applications:
                replaced.append((traced, i, entry))
                traced.inputs[i] = _twin(recorder, traced, i, roots[0].result), 0
    recorder.backward = True
    seeds = [library.module_of(x.array).ones_like(x.array) for x in roots]
    try:
        with setting(trace=recorder):
            return list(differentiate(roots, seeds, retain=True).values())
    finally:
        for traced, i, entry in replaced:
            traced.inputs[i] = entry


def _twin(recorder: Recorder, traced: Any, i: int, kind: type[Variable]) -> Variable:
    """A leaf in place of an input that was made before the trace began."""
    number = recorder.record.forward[recorder.applications[traced.number]].inputs[i]
    twin: Variable = wrap(kind, recorder.arrays[number])  # type: ignore[index]
    twin.requires_grad = True
    return twin


def _title(function: Any, root: Module | None) -> str:
    if root is not None:
        return type(root).__name__
    while isinstance(function, functools.partial):
        function = function.func
    name = str(getattr(function, "__name__", type(function).__name__))
    return f"lambda {', '.join(inspect.signature(function).parameters)}".strip() if name == "<lambda>" else name


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
    """(label, leaf) of a result of any build: tuples, lists, dicts, named tuples, dataclasses."""
    stack = [(label, x)]
    while stack:
        label, x = stack.pop()
        if isinstance(x, dict):
            pairs = [(f"{label}[{key!r}]" if label else str(key), item) for key, item in x.items()]
        elif isinstance(x, tuple | list):
            fields = getattr(x, "_fields", None)
            pairs = [(fields[i] if fields else f"{label}[{i}]", item) for i, item in enumerate(x)]
        elif dataclasses.is_dataclass(x) and not isinstance(x, type):
            pairs = [
                (f.name if not label else f"{label}.{f.name}", getattr(x, f.name, None)) for f in dataclasses.fields(x)
            ]
        else:
            yield label, x
            continue
        stack += reversed(pairs)
