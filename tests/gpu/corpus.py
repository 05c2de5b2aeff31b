"""A small corpus that every machine makes anew: sentences of who does what, and where."""

import itertools

_WHO = ("the old tape", "a small matrix", "the last gradient", "one quiet thread", "every token")
_DOES = ("waits for", "adds up", "forgets", "follows", "writes to")
_WHAT = ("the sum", "its twin", "a row of numbers", "the next step")
_WHERE = ("in the dark", "on the way back", "before the loss", "without a word")


def corpus() -> str:
    """About 18,000 characters, the order of the sentences mixed but always the same."""
    every = list(itertools.product(_WHO, _DOES, _WHAT, _WHERE))
    mixed = [every[i * 151 % len(every)] for i in range(len(every))]  # 151 and their number have no divisor in common
    return "".join(f"{who} {does} {what} {where}.\n" for who, does, what, where in mixed)
