"""Which cluster each card stands in: one for every module call that ran more than one step."""

from __future__ import annotations

from tinygrad_edu.graph.picture import Card, Cluster
from tinygrad_edu.graph.record import Call


def arrange(calls: list[Call], cards: list[tuple[Card, int | None, bool]]) -> list[Card | Cluster]:
    """Cards with the call they belong to and whether they are steps, put into nested clusters.

    A call that ran one step needs no cluster: the step's card is given its path. One that ran none is left out.
    """
    steps = [0] * len(calls)
    for _, call, is_step in cards:
        while is_step and call is not None:
            steps[call] += 1
            call = calls[call].parent
    top: list[Card | Cluster] = []
    clusters: dict[int, Cluster] = {}

    def content(call: int | None) -> list[Card | Cluster]:
        chain = []
        while call is not None and call not in clusters:
            if steps[call] > 1:
                chain.append(call)
            call = calls[call].parent
        inside = top if call is None else clusters[call].content
        for number in reversed(chain):
            cluster = clusters[number] = Cluster(f"cluster_{number}", title(calls[number]))
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
