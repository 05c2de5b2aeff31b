"""What fused ops are made of: the definition of each, run once by itself and recorded, forward and backward."""

from __future__ import annotations

from typing import Any

from tinygrad_edu.arrays import library
from tinygrad_edu.engine.modes import setting
from tinygrad_edu.engine.reverse import differentiate
from tinygrad_edu.engine.tape import Variable, wrap
from tinygrad_edu.graph.record import Application, Output, Record
from tinygrad_edu.graph.recorder import Recorder
from tinygrad_edu.graph.watch import Watch


def define(recorder: Recorder) -> None:
    """Add to a record the records of its fused ops' definitions, one for all runs that are alike.

    A definition runs on what the op read and goes back from ones, so what is recorded are its ops, axes and shapes; no
    numbers of it are kept to be drawn. Everything fused in it runs as its definition, too.
    """
    record = recorder.record
    known: dict[Any, int] = {}
    for application, op, inputs, static in recorder.fused:
        flows = application.id in recorder.applications.values()
        key = application.op, str(sorted(application.static.items())), flows, *map(_form, inputs)
        if key not in known:
            known[key] = len(record.definitions)
            record.definitions.append(_definition(application, op, inputs, static, flows))
        application.definition = known[key]


def _form(x: Any) -> Any:
    """What of an input decides which ops a definition runs."""
    array = x.array if isinstance(x, Variable) else x
    if not library.is_array(array):
        return array
    return array.shape, str(array.dtype), isinstance(x, Variable) and x.needs


def _definition(application: Application, op: Any, inputs: Any, static: dict[str, Any], flows: bool) -> Record:
    record = Record(application.op)
    recorder = Recorder(record, None)
    given = [_leaf(x) for x in inputs]
    for name, x in zip(application.arguments, given, strict=True):
        if isinstance(x, Variable) or library.is_array(x):
            record.inputs.append(recorder.leaf(x, "input"))
            recorder.bound(x, name, "argument")
    with (
        setting(trace=recorder, definitions=True, grad=flows),
        Watch(recorder.bound, recorder.returned, recorder.unpacked),
    ):
        result = op.definition(*given, **static)
    found = result if isinstance(result, tuple) else (result,)
    record.outputs = [Output("", recorder.value(x), None) for x in found]  # type: ignore[arg-type]
    roots = [x for x in found if x.record is not None]
    if roots:
        recorder.backward = True
        with setting(trace=recorder):
            differentiate(roots, [library.module_of(x.array).ones_like(x.array) for x in roots], retain=True)
    recorder.finish()
    for value in record.values:
        value.shown = None
    return record


def _leaf(x: Any) -> Any:
    """An input of a definition: a value of its own, so that one that is read twice is told apart."""
    if isinstance(x, Variable):
        leaf: Variable = wrap(type(x).result, x.array.copy())
        leaf.needs = x.needs
        return leaf
    return x
