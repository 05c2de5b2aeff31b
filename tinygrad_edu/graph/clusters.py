"""Which cluster each card stands in: one for every module call, or definition, that ran more than one step."""

from __future__ import annotations

from tinygrad_edu.graph.picture import Card, Cluster
from tinygrad_edu.graph.record import Application, Call, Record
from tinygrad_edu.graph.words import say


def with_definitions(record: Record) -> list[Call]:
    """The module calls of a record, and behind them its groups, each as if it were the call of a module."""
    calls = list(record.calls)
    for group in record.groups:
        around = group.call if group.parent is None else len(record.calls) + group.parent
        path = calls[around].path if around is not None else ""
        path = f"{path}.{group.op}" if path else group.op
        calls.append(Call(len(calls), path, say("definition"), 1, around))
    return calls


def place_of(application: Application, record: Record) -> int | None:
    """Among the calls of `with_definitions`, the innermost that an op ran in."""
    return application.call if application.group is None else len(record.calls) + application.group


def innermost(several: list[int | None], calls: list[Call]) -> int | None:
    """The innermost call around all of several, None where there is none."""
    common: list[int] | None = None
    for call in several:
        around: list[int] = []
        while call is not None:
            around.insert(0, call)
            call = calls[call].parent
        common = around if common is None else [a for a, b in zip(common, around, strict=False) if a == b]
    return common[-1] if common else None


def arrange(calls: list[Call], cards: list[tuple[Card, int | None, bool]], modules: int) -> list[Card | Cluster]:
    """Cards with the call they belong to and whether they are steps, put into nested clusters.

    A call that ran one step needs no cluster: the step's card is given its path. One that ran none is left out, and so
    is a definition (those from number `modules` on) that is all that its module ran.
    """
    steps = [0] * len(calls)
    for _, call, is_step in cards:
        while is_step and call is not None:
            steps[call] += 1
            call = calls[call].parent
    empty = {
        call.id
        for call in calls
        if steps[call.id] < 2
        or (call.parent is not None and steps[call.parent] == steps[call.id] and call.id >= modules)
    }
    top: list[Card | Cluster] = []
    clusters: dict[int, Cluster] = {}

    def content(call: int | None) -> list[Card | Cluster]:
        chain = []
        while call is not None and call not in clusters:
            if call not in empty:
                chain.append(call)
            call = calls[call].parent
        inside = top if call is None else clusters[call].content
        for number in reversed(chain):
            cluster = clusters[number] = Cluster(f"cluster_{number}", title(calls[number]))
            cluster.path = calls[number].path or None
            inside.append(cluster)
            inside = cluster.content
        return inside

    for card, call, is_step in cards:
        if is_step and call is not None and steps[call] == 1:
            card.path = title(calls[call])
        content(call).append(card)
    return top


def title(call: Call) -> str:
    """blocks.0.attention · Attention"""
    text = f"{call.path} · {call.kind}" if call.path else call.kind
    return f"{text} · run {call.nth}" if call.nth > 1 else text
