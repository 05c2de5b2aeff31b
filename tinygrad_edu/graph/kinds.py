"""What a step does with tokens, worked out from its axes and values: a word for its colour and a few for its card."""

from __future__ import annotations

from tinygrad_edu.graph.axes import Axes
from tinygrad_edu.graph.record import Record
from tinygrad_edu.graph.steps import Step


def kind_of(step: Step, record: Record, axes: Axes) -> tuple[str, str]:
    """(kind, words) of a step.

    A product of two streams over features scores pairs of tokens; one over the keys of such pairs moves content between
    tokens. What hides scores is told from the values: −∞ where there was none.
    """
    main = step.main
    out = step.out
    roles = [axes.roles.get((out, i)) for i in range(len(axes.of[out]))]
    if introduces(step, record, "hidden"):
        return "visibility", "visibility"
    if main.id in axes.moving:
        return "mixes", "MOVES CONTENT BETWEEN TOKENS"
    if main.id in axes.contractions:
        if "q" in roles and "k" in roles:
            return "pairs", "scores token pairs"
        return "plain", "token-wise" if axes.roles else "row by row"
    if introduces(step, record, "weights") and "k" in roles:
        return "pairs", f"row by row, over {axes.names(out)[-1]}"
    if "q" in roles and "k" in roles:
        return "pairs", "on token pairs"
    if main.arranges or main.op in ("get_item", "expand", "narrow"):
        return "arranges", "shape only"
    lost = [i for i in step.uses if i.op == main.id and len(axes.of[i.value]) > len(axes.of[out])]
    if lost and "keepdim" in main.static:
        kept = axes.of[out]
        gone = [n for a, n in zip(axes.of[lost[0].value], axes.names(lost[0].value), strict=True) if a not in kept]
        return "plain", "over " + " ".join(gone)
    return "plain", "token-wise" if axes.roles and len(axes.of[out]) > 1 else main.op.replace("_", " ")


def introduces(step: Step, record: Record, what: str) -> bool:
    """Whether a step's result shows something to draw that nothing it read shows."""
    made = record.values[step.out].shown
    if made is None or made.what != what:
        return False
    read = [record.values[use.value].shown for use in step.uses]
    return not any(shown and shown.what == what for shown in read)
