"""What an attention's queries may see, told from the numbers that its softmax read, and not from how they got there."""

from __future__ import annotations

from tinygrad_edu.graph.axes import Axes
from tinygrad_edu.graph.declared import declared_of
from tinygrad_edu.graph.record import Record, Shown
from tinygrad_edu.graph.steps import Step
from tinygrad_edu.graph.words import say

_SAID = {
    "causal": "causal",
    "padding": "padding",
    "causal padding": "causal and padding",
    "documents": "documents",
    "causal documents": "causal in documents",
    "full": "full",
}


def verdict(step: Step, record: Record, axes: Axes) -> str:
    """A sentence on a step that makes attention weights of scores, or takes some of them away; "" for all others."""
    value = record.values[step.out]
    if value.shown is None or step.out not in axes.pairs or axes.pairing(step.out) != value.shown.places:
        return ""
    read = [record.values[use.value].shown for use in step.uses if use.value in axes.pairs]
    queries, keys = value.shown.total
    if value.shown.what == "cut":
        counted = {"gone": value.shown.marked, "all": queries * keys}
        if any(step.out in a.inputs and _is_weights(a.outputs[0], record, axes) for a in record.forward):
            return say("{gone} of {all} hidden after the softmax, then rows are made to sum to 1 again", **counted)
        return failed(
            "{gone} of {all} hidden after the softmax: rows no longer sum to 1; hide scores with −∞ before it",
            **counted,
        )
    if value.shown.what != "weights" or any(shown and shown.what == "weights" for shown in read):
        return ""
    if value.shown.pattern == "columns":
        return failed("the softmax runs over the queries: columns sum to 1 and not rows; let it run over the keys")
    hidden = _hidden(step, record, axes)
    said = declared_of(step.main, record).visibility
    if hidden is None:
        text = say("full: all {all} of {all} visible", all=queries * keys)
        if said in (None, "full") or (said == "causal" and queries == 1):
            return text
        if said == "causal":
            return failed("declared causal, but {found}: the mask is missing", found=text)
        return failed("declared {said}, but {found}: no key is hidden in this batch", said=say(_SAID[said]), found=text)
    text = _seen(hidden)
    seen = hidden.pattern.partition(":")[0]
    if said is None:
        return text
    if seen == _SAID[said] or (said == "causal" and seen == _SAID["causal documents"]):
        return failed("declared {said}, but {found}", said=say(_SAID[said]), found=text) if hidden.almost else text
    if hidden.pattern.startswith("transposed") and said == "causal":
        return failed("declared causal, but {found}: the mask is transposed", found=text)
    return failed("declared {said}, but {found}", said=say(_SAID[said]), found=text)


def pattern_text(pattern: str) -> str:
    """What all of a mask has in common, such as "causal: k ≤ q", in the language that is spoken."""
    name, _, rules = pattern.partition(": ")
    return say("{name}: {rules}", name=say(name), rules=", ".join(say(rule) for rule in rules.split(", ")))


def almost_text(hidden: Shown) -> str:
    """How many keys a finite mask leaves a weight above 0, and how much."""
    text = "{almost} almost hidden with weights up to {most}: the mask is finite, and training can outgrow it"
    return say(text, almost=hidden.almost, most=f"{hidden.most:.1e}")


def far_text(hidden: Shown) -> str:
    """How many of the visible keys are so far away that a bias leaves them no weight."""
    return say("up to {far} of them with the weight 0: a bias lowers scores with distance", far=hidden.far)


def failed(text: str, /, **values: object) -> str:
    """A line of a check that is not passed."""
    return say("FAIL: {text}", text=say(text, **values))


def _seen(hidden: Shown) -> str:
    """What a mask leaves to be seen."""
    queries, keys = hidden.total
    seen = say("{seen} of {all} visible", seen=queries * keys - hidden.marked, all=queries * keys)
    if hidden.almost:
        seen = ", ".join((seen, almost_text(hidden)))
    if hidden.far:
        seen = ", ".join((seen, far_text(hidden)))
    text = f"{pattern_text(hidden.pattern)}, {seen}" if hidden.pattern else seen
    return text if hidden.alike else say("{text} in the first of several, which differ", text=text)


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
