"""What the gradients on a picture are called: dx where one arrives at x, dx_q + dx_k + dx_v where several do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tinygrad_edu.graph.steps import Steps, Use

PIECES = -1  # stands for an application where the gradient of a whole is put together from those of its pieces


@dataclass(slots=True)
class Gradients:
    """names: by (value, op, input) of a use, or (value, PIECES, 0). parts: what adds up at a value, in order."""

    names: dict[tuple[int, int | None, int], str]
    parts: dict[int, list[str]]

    def of(self, use: Use) -> str | None:
        """The name of the gradient that comes back from a use, None where none does."""
        return self.names.get((use.source, use.op, use.at))


def gradients(steps: Steps, labels: dict[int, str]) -> Gradients:
    """A name for the gradient on every wire; where several arrive at one value, each bears its step's name as well."""
    uses, pieces = steps.uses_of(), steps.pieces_of()
    found = Gradients({}, {})
    for source in [*uses, *(number for number in pieces if number not in uses)]:
        places = [
            (use.op, use.at, "out" if use.step is None else labels[steps.steps[use.step].out])
            for use in uses.get(source, [])
            if use.flows
        ]
        if any(piece.flows for piece in pieces.get(source, [])):
            places.append((PIECES, 0, "pieces"))
        count, seen = Counter(suffix for *_, suffix in places), Counter[str]()
        for op, at, suffix in places:
            name = f"d{labels[source]}"
            if len(places) > 1:
                seen[suffix] += 1
                name += f"_{suffix}" + (f"({seen[suffix]})" if count[suffix] > 1 else "")
            found.names[source, op, at] = name
            found.parts.setdefault(source, []).append(name)
    return found
