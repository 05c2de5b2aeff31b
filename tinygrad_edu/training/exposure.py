"""Exposure bias: how much worse a model writes after its own words than after true ones."""

import math
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tinygrad_edu.generation import Model, generate


class Exposure(NamedTuple):
    """true, own: quality, from 0 to 1, of what the model wrote after true prefixes and after prefixes of its own.

    error: standard error of `ratio`, as far as the choice of the samples goes.
    """

    true: float
    own: float
    error: float

    @property
    def ratio(self) -> float:
        """true / own: 1 is no exposure bias, more means that the model loses its way in its own text."""
        return self.true / self.own if self.own else math.inf


def exposure_bias(
    model: Model,
    ids: np.ndarray,
    *,
    prefix: int = 32,
    length: int = 32,
    samples: int = 64,
    order: int = 4,
    temperature: float = 1.0,
    seed: int = 0,
    vocab_size: int | None = None,
) -> Exposure:
    """Quality of continuations of true text against quality of continuations of the model's own text.

    In training a model reads true text only; when it writes it reads itself, and an error may lead it to where it has
    never been. From `samples` places in the first half of a text the model continues twice by `length` tokens: behind
    `prefix` true tokens, and behind as many of which only the first is true and the others are its own. For the sets
    of continuations, C_true and C_own,

        exposure bias = q(C_true) / q(C_own),    q(C) = mean over n = 1 … order of
                                                 (n-grams of C in the text's second half) / (n-grams of C)

    Both kinds are equally long and drawn alike, so that only what stands before them differs; and n-grams are looked up
    where no prefix is from, so that a prefix helps by being well written, not by telling what is talked about.

    Args:
        model: as in `generate`.
        ids: a text [N] that the model was not trained on.
        prefix, length, order: numbers of tokens, 1 or more; order at most length.
        samples: 2 or more.
        temperature, vocab_size: as in `probabilities`. seed: start of all random choices.

    Raises ValueError for a number out of range or a text with halves shorter than prefix or order.
    Source: He et al., "Exposure bias versus self-recovery: are distortions really incremental for autoregressive text
    generation?", 2021, whose EB-M it is. There q is BLEU; its geometric mean is 0 where no n-gram of one order is
    found, which is usual with few samples, so the mean here is arithmetic.
    """
    if min(prefix, length, order) < 1 or order > length or samples < 2:
        raise ValueError(
            f"exposure_bias: prefix {prefix}, length {length} and order {order} must be 1 or more, order at most "
            f"length, and samples {samples} 2 or more"
        )
    half = len(ids) // 2
    if half < max(prefix, order):
        raise ValueError(
            f"exposure_bias: a half of the text has {half} tokens, fewer than prefix {prefix} or order {order}"
        )
    rng = np.random.default_rng(seed)
    starts = rng.integers(0, half - prefix + 1, samples)
    true = ids[starts[:, None] + np.arange(prefix)].astype(np.int64)  # [samples, prefix]
    written = {}
    for name, given, tokens in (("true", true, length), ("own", true[:, :1], prefix - 1 + length)):
        text = generate(model, given, tokens, temperature=temperature, seed=rng, vocab_size=vocab_size)
        written[name] = _quality(text[:, prefix:], np.asarray(ids[half:]), order)
    means = {name: float(q.mean()) for name, q in written.items()}
    spread = sum(float(q.var(ddof=1)) / samples / max(means[name], 1e-9) ** 2 for name, q in written.items())
    ratio = means["true"] / max(means["own"], 1e-9)
    return Exposure(means["true"], means["own"], ratio * math.sqrt(spread))


def _quality(rows: np.ndarray, text: np.ndarray, order: int) -> np.ndarray:
    """q of each row [B]: the mean over n of the share of its n-grams that the text holds."""
    return np.mean([np.isin(_grams(rows, n), _grams(text, n)).mean(axis=1) for n in range(1, order + 1)], axis=0)


def _grams(ids: np.ndarray, n: int) -> np.ndarray:
    """[..., C] -> [..., C − n + 1]: each n-gram as one value."""
    windows = np.ascontiguousarray(sliding_window_view(ids.astype(np.int64), n, axis=-1))
    return windows.view(np.dtype((np.void, 8 * n)))[..., 0]
