"""What an attention's queries may see, told from the numbers that its softmax read, and not from how they got there."""

from __future__ import annotations

from tinygrad_edu.graph.axes import Axes
from tinygrad_edu.graph.record import Record, Shown
from tinygrad_edu.graph.steps import Step

FAIL = "FAIL: "  # begins every line of a check that is not passed


def verdict(step: Step, record: Record, axes: Axes) -> str:
    """A sentence on a step that makes attention weights of scores, or takes some of them away; "" for all others."""
    value = record.values[step.out]
    if value.shown is None or step.out not in axes.pairs or axes.pairing(step.out) != value.shown.places:
        return ""
    read = [record.values[use.value].shown for use in step.uses if use.value in axes.pairs]
    if value.shown.what == "cut":
        queries, keys = value.shown.total
        gone = f"{value.shown.marked} of {queries * keys}"
        if any(step.out in a.inputs and _is_weights(a.outputs[0], record, axes) for a in record.forward):
            return f"{gone} hidden after the softmax, then rows are made to sum to 1 again"
        return f"{FAIL}{gone} hidden after the softmax: rows no longer sum to 1; hide scores with −∞ before it"
    if value.shown.pattern == "columns":
        return f"{FAIL}the softmax runs over the queries: columns sum to 1 and not rows; let it run over the keys"
    if value.shown.what != "weights" or any(shown and shown.what == "weights" for shown in read):
        return ""
    hidden = _hidden(step, record, axes)
    if hidden is None:
        queries, keys = value.shown.total
        return f"full: all {queries * keys} of {queries * keys} visible"
    queries, keys = hidden.total
    seen = f"{queries * keys - hidden.marked} of {queries * keys} visible"
    pattern = f"{hidden.pattern}, " if hidden.pattern else ""
    return pattern + seen + ("" if hidden.alike else " in the first of several, which differ")


def _is_weights(number: int, record: Record, axes: Axes) -> bool:
    shown = record.values[number].shown
    return number in axes.pairs and shown is not None and shown.what == "weights"


def _hidden(step: Step, record: Record, axes: Axes) -> Shown | None:
    """What is hidden in the scores that a step made weights of: looked for up to the product that scored."""
    stack = [number for use in step.uses if (number := use.value) in axes.pairs]
    seen = set(stack)
    while stack:
        value = record.values[stack.pop(0)]
        if value.shown is not None and value.shown.what in ("hidden", "cut"):
            return value.shown
        if value.made_by is not None and value.made_by not in axes.queries:
            for read in record.forward[value.made_by].inputs:
                if read is not None and read in axes.pairs and read not in seen:
                    seen.add(read)
                    stack.append(read)
    return None
