"""Beam search: the likeliest continuations that are found when a few of them are followed at once."""

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from tinygrad_edu.arrays.dtypes import float64
from tinygrad_edu.generation.measuring import Model
from tinygrad_edu.generation.reader import Reader
from tinygrad_edu.nn.functional import log_softmax
from tinygrad_edu.tensor import Tensor


class Found(NamedTuple):
    """A continuation. ids [n]: its tokens, without the one it stopped at. log_probability: ln of its own probability,
    the stop included. score: what the search ranks by."""

    ids: np.ndarray
    log_probability: float
    score: float


def beam_search(
    model: Model,
    ids: Any,
    tokens: int,
    beams: int,
    *,
    stop: int | Collection[int],
    length_penalty: float = 0.6,
    vocab_size: int | None = None,
) -> list[Found]:
    """Up to `beams` continuations of one prompt, best first.

    In every step each of the `beams` texts is continued by every token. Of these the `beams` likeliest that end with
    none of `stop` are followed on, and what is among the `beams` likeliest of all and does end is set aside. Of those,
    and at last of the texts that have not ended, the ones with the highest score

        score = ln p / ((5 + n) / 6)^length_penalty

    are given, n counting all tokens: without a penalty a longer text would never be likelier than its own beginning.

    model: as in `generate`. ids: a prompt [T]. tokens: the longest continuation. beams: 1 follows the
    greedy text, and goes on where it ends if a longer one could still score higher. stop: a token, or
    several, that ends a text. length_penalty: 0 ranks by probability alone. vocab_size: ids from here on are padding.
    Raises ValueError for an empty prompt, and numbers below 1.
    Source: Wu et al., "Google's neural machine translation system", 2016, section 7.
    """
    if min(tokens, beams) < 1:
        raise ValueError(f"beam_search: tokens {tokens} and beams {beams} must be 1 or more")
    prompt = np.asarray(ids)
    if prompt.ndim != 1 or prompt.size == 0 or prompt.dtype.kind not in "iu":
        raise ValueError(f"beam_search: a prompt is token ids [T], got shape {prompt.shape} of {prompt.dtype}")
    stops = np.atleast_1d(np.asarray(list(stop) if isinstance(stop, Collection) else stop))
    reader = Reader(model, [prompt.astype(np.int64)], pad=0)
    so_far = np.zeros(1)  # ln p of each text
    ended: list[Found] = []

    def found(row: int, ln_p: float, n: int) -> Found:
        own = reader.ids[row, prompt.size :]
        return Found(own, float(ln_p), float(ln_p) / ((5 + n) / 6) ** length_penalty)

    for n in range(1, tokens + 1):
        logits = Tensor(reader.logits()[:, :vocab_size], dtype=float64)
        total = so_far[:, None] + log_softmax(logits, dim=-1).numpy()  # [rows, V]
        order = np.argsort(-total, axis=None, kind="stable")
        order = order[np.isfinite(total.ravel()[order])]
        ends = np.isin(order % total.shape[1], stops)
        likely = order[:beams][ends[:beams]]
        ended += [found(i // total.shape[1], total.ravel()[i], n) for i in likely]
        ended = sorted(ended, key=lambda f: -f.score)[:beams]
        best = order[~ends][:beams]
        rows, column = np.divmod(best, total.shape[1])
        so_far = total.ravel()[best]
        # a text only becomes less likely, and the longest possible is judged most mildly
        if not best.size or (
            len(ended) == beams and so_far[0] / ((5 + tokens) / 6) ** length_penalty <= ended[-1].score
        ):
            return ended
        reader.choose(rows)
        reader.append(column)
    unfinished = [found(row, ln_p, tokens) for row, ln_p in enumerate(so_far)]
    return sorted([*ended, *unfinished], key=lambda f: -f.score)[:beams]
