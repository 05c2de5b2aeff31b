"""How well a model that answers whole texts does: its answers beside the right ones, letter by letter."""

from collections.abc import Sequence

import numpy as np


def edits(one: str, other: str) -> int:
    """How many characters must be put in, left out or exchanged to make one text of another.

    Source: Levenshtein, "Binary codes capable of correcting deletions, insertions and reversals", 1966.

    >>> edits("kitten", "sitting")
    3
    """
    letters = np.array([*other])
    before = np.arange(len(other) + 1)
    steps = np.arange(len(other) + 1)
    for i, letter in enumerate(one, 1):
        row = np.empty_like(before)
        row[0] = i
        row[1:] = np.minimum(before[1:] + 1, before[:-1] + (letters != letter))
        before = np.minimum.accumulate(row - steps) + steps  # what is put in costs 1 a character from the left
    return int(before[-1])


def exact_match(right: Sequence[str], found: Sequence[str]) -> float:
    """Share of the answers that are right from the first to the last character."""
    return sum(a == b for a, b in zip(right, found, strict=True)) / len(right)


def character_error_rate(right: Sequence[str], found: Sequence[str]) -> float:
    """Σ edits / Σ characters of the right answers: 0 where all are right, above 1 where more is wrong than there is.

    >>> character_error_rate(["abcd", "ef"], ["abxd", "ef"])
    0.16666666666666666
    """
    return sum(map(edits, right, found)) / sum(map(len, right))
