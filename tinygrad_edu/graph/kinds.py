"""What a step does with tokens, worked out from its axes and values: a word for its colour and a few for its card."""

from __future__ import annotations

from tinygrad_edu.graph.axes import Axes
from tinygrad_edu.graph.record import Record
from tinygrad_edu.graph.steps import Step
from tinygrad_edu.graph.words import say


def kind_of(step: Step, record: Record, axes: Axes) -> tuple[str, str]:
    """(kind, words) of a step.

    A product of two streams over features scores pairs of tokens; one over the keys of such pairs moves content between
    tokens. What hides scores is told from the values: −∞ where there was none.
    """
    main = step.main
    out = step.out
    roles = [axes.roles.get((out, i)) for i in range(len(axes.of[out]))]
    masks = main.id not in axes.contractions  # a product whose scores lie far apart hides keys, too, but is no mask
    if masks and introduces(step, record, axes, "hidden") and (out in axes.pairs or not axes.pairs):
        return "visibility", say("visibility")
    if introduces(step, record, axes, "cut") and out in axes.pairs:
        return "visibility", say("hides after the softmax")
    if main.id in axes.moving:
        return "mixes", say("MOVES CONTENT BETWEEN TOKENS")
    if main.id in axes.contractions:
        if "q" in roles and "k" in roles:
            return "pairs", say("scores token pairs")
        return "plain", say("token-wise" if axes.roles else "row by row")
    if introduces(step, record, axes, "weights") and "k" in roles:
        rows, columns = record.values[out].shown.places  # type: ignore[union-attr]
        over = rows if record.values[out].shown.pattern == "columns" else columns  # type: ignore[union-attr]
        return "pairs", say("row by row, over {axes}", axes=axes.names(out)[over])
    if "q" in roles and "k" in roles:
        return ("pairs", say("on token pairs")) if out in axes.pairs else ("plain", say("for token pairs"))
    if main.op == "get_item" and len(main.inputs) > 1:
        return "plain", say("picked by index")
    word = main.op.removesuffix("_number")
    if main.arranges or main.op in ("get_item", "expand", "narrow"):
        if not step.tail:
            return "arranges", say("shape only")
        word = step.tail[0].op
    lost = [i for i in step.uses if i.op == main.id and len(axes.of[i.value]) > len(axes.of[out])]
    if lost and "keepdim" in main.static:
        kept = axes.of[out]
        gone = [n for a, n in zip(axes.of[lost[0].value], axes.names(lost[0].value), strict=True) if a not in kept]
        return "plain", say("over {axes}", axes=" ".join(gone))
    return "plain", say("token-wise") if axes.roles and len(axes.of[out]) > 1 else word.replace("_", " ")


def introduces(step: Step, record: Record, axes: Axes, what: str) -> bool:
    """Whether a step's result shows something to draw that nothing it read shows, masks of scores left aside."""
    made = record.values[step.out].shown
    if made is None or made.what != what:
        return False
    uses = [use for use in step.uses if use.value in axes.pairs or step.out not in axes.pairs]
    read = [record.values[use.value].shown for use in uses]
    return not any(shown and (shown.what, shown.marked) == (what, made.marked) for shown in read)
