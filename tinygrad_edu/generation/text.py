"""From a prompt to the text that a model writes behind it, piece by piece as it becomes known."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tinygrad_edu.generation.loop import stream
from tinygrad_edu.generation.measuring import Model


def write(
    model: Model, tokenizer: Any, prompt: str, tokens: int, *, stop: Sequence[str] = (), **options: Any
) -> Iterator[str]:
    """The text behind `prompt`, in pieces; joined they are all of it.

    It ends after `tokens` tokens, with the tokenizer's end token where it has one, or before the first of the texts in
    `stop`, none of which is given out.

    model, options: as in `stream`. tokenizer: what the model was trained with. prompt: may be empty; then the text
    starts from `tokenizer.boundary`.
    Raises ValueError for an empty text in `stop`, and what `stream` and `tokenizer.encode` raise; all at the call.
    """
    if any(not text for text in stop):
        raise ValueError("stop: an empty text is found everywhere; leave it out")
    prompted = tokenizer.encode(prompt).tolist()
    start = [] if tokenizer.begin is None else [tokenizer.begin]
    ids = [*start, *prompted] or [tokenizer.boundary]
    drawn = stream(model, ids, tokens, **{"vocab_size": len(tokenizer), "stop": tokenizer.end, **options})
    new = itertools.takewhile(lambda i: i != tokenizer.end, drawn)
    pieces = itertools.islice(tokenizer.stream(itertools.chain(prompted, new)), len(prompted), None)
    return until(pieces, stop)


def until(pieces: Iterable[str], stop: Sequence[str]) -> Iterator[str]:
    """The pieces up to the first of the texts in `stop`; what may be the beginning of one waits for the piece after it.

    >>> list(until(["one. ", "T", "wo", ". Three"], ["Two", "Three"]))
    ['one. ']
    """
    held = ""
    for piece in pieces:
        held += piece
        ends = [at for at in map(held.find, stop) if at >= 0]
        if ends:
            if held[: min(ends)]:
                yield held[: min(ends)]
            return
        waiting = max((n for text in stop for n in range(1, len(text)) if held.endswith(text[:n])), default=0)
        if ready := held[: len(held) - waiting]:
            yield ready
        held = held[len(held) - waiting :]
    if held:
        yield held
