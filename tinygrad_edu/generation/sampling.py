"""From one row of logits to the next token's id: temperature, top-k, top-p and the draw."""

import math
import operator
from typing import Any

import numpy as np


def probabilities(
    logits: Any,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    vocab_size: int | None = None,
    min_p: float | None = None,
) -> np.ndarray:
    """p = softmax(logits / temperature), then only the top_k likeliest ids, of these the fewest that together hold
    top_p, and of these only those with min_p times the probability of the likeliest, or more.

    logits [..., V], array-like: unnormalised log-probabilities, not probabilities. -inf rules an id out.
    temperature: below 1 sharpens, above 1 flattens; 0 puts everything on the largest logit (the lowest id among
        equals), inf spreads evenly over the ids not ruled out.
    top_k: how many ids stay, ties cut in favour of the lower id; None or 0 keeps all, as does any number above V.
    top_p: above 0, at most 1; at least the likeliest id stays; None or 1 keeps all.
    min_p: from 0 to 1; None or 0 keeps all, 1 the likeliest only, with its equals.
    vocab_size: ids from here on are padding of the table and get probability 0; None where V is the true size.
    Returns float64 [..., V], each row sums to 1.

    Raises ValueError for a value out of range, for logits that hold NaN or +inf, and for a row with every id ruled out;
    TypeError for a top_k that is no integer.
    Source: top-p is nucleus sampling, Holtzman et al., "The curious case of neural text degeneration", 2020; min-p is
    from Nguyen et al., "Turning up the heat: min-p sampling for creative and coherent LLM outputs", 2024.

    >>> probabilities([1.0, 3.0, 2.0]).round(4).tolist()
    [0.09, 0.6652, 0.2447]
    >>> probabilities([1.0, 3.0, 2.0], top_k=2).round(4).tolist()
    [0.0, 0.7311, 0.2689]
    """
    k, p = check_sampling(temperature, top_k, top_p, min_p)
    z = np.array(logits, dtype=np.float64)
    if z.ndim == 0 or z.shape[-1] == 0:
        raise ValueError(f"probabilities: logits of shape {z.shape} hold no vocabulary; their last axis is V")
    size = z.shape[-1]
    if vocab_size is not None:
        if not 1 <= vocab_size <= size:
            raise ValueError(f"probabilities: vocab_size is {vocab_size}, but the logits have V = {size} entries")
        z[..., vocab_size:] = -np.inf
    best = z.max(axis=-1, keepdims=True)
    if not np.isfinite(best).all():
        raise ValueError(
            "probabilities: a row of logits holds NaN or +inf, or rules out every id; the model has diverged"
        )
    if temperature == 0:
        return (np.arange(size) == z.argmax(axis=-1)[..., None]).astype(np.float64)

    ruled_out = np.isneginf(z)
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # a tiny temperature sends losers to -inf, an infinite one -inf to NaN
        weights = np.exp((z - best) / temperature)
    weights[ruled_out] = 0.0
    if 0 < k < size or p < 1:
        order = np.argsort(-weights, axis=-1, kind="stable")
        ranked = np.take_along_axis(weights, order, axis=-1)
        ranked[..., k or size :] = 0.0
        # an id stays while the ones before it hold less than p
        before = np.cumsum(ranked, axis=-1) - ranked
        ranked[before >= p * ranked.sum(axis=-1, keepdims=True)] = 0.0
        np.put_along_axis(weights, order, ranked, axis=-1)
    if min_p:
        weights[weights < min_p * weights.max(axis=-1, keepdims=True)] = 0.0
    return weights / weights.sum(axis=-1, keepdims=True)


def penalised(logits: Any, ids: Any, penalty: float, counted: Any = None) -> np.ndarray:
    """The logits, those of tokens in the text made smaller: above 0 divided by `penalty`, below multiplied by it.

    logits [..., V]. ids [..., T]: the text so far. penalty: above 0; 1 changes nothing, below 1 favours repetition.
    counted [..., T], boolean: which of the ids belong to the text, all where None.
    Returns float64 [..., V]. Raises ValueError for a penalty that is not above 0, or not finite.
    Source: Keskar et al., "CTRL: a conditional Transformer language model for controllable generation", 2019.

    >>> penalised([2.0, -1.0, 3.0], [0, 1], 2.0).tolist()
    [1.0, -2.0, 3.0]
    """
    check_sampling(1.0, None, None, repetition_penalty=penalty)
    z, ids = np.array(logits, dtype=np.float64), np.asarray(ids)
    largest = np.finfo(np.float64).max
    with np.errstate(over="ignore"):
        weaker = np.where(z > 0, z / penalty, z * penalty)
    weaker = np.where(np.isfinite(z), weaker.clip(-largest, largest), z)  # what overflows rules nothing in or out
    seen = np.zeros(z.shape, dtype=bool)
    at = np.nonzero(np.ones(ids.shape, bool) if counted is None else counted)
    seen[(*at[:-1], ids[at])] = True
    return np.where(seen, weaker, z)


def check_sampling(
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    min_p: float | None = None,
    repetition_penalty: float = 1.0,
) -> tuple[int, float]:
    """top_k and top_p with "off" as 0 and 1; raises what `probabilities` raises for a value out of range."""
    if not temperature >= 0:
        raise ValueError(f"temperature is {temperature}; it must be 0 (always the likeliest token) or more")
    if isinstance(top_k, bool):
        raise TypeError(f"top_k is {top_k}; it is a number of tokens, or None for all")
    try:
        k = operator.index(top_k or 0)
    except TypeError:
        raise TypeError(f"top_k is {top_k!r}; it is a whole number of tokens, or None for all") from None
    if k < 0:
        raise ValueError(f"top_k is {k}; it must be 1 or more, or 0 for all tokens")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p is {top_p}; it must be above 0 and at most 1 (1 keeps all tokens)")
    if min_p is not None and not 0 <= min_p <= 1:
        raise ValueError(f"min_p is {min_p}; it must lie from 0 (keeps all tokens) to 1")
    if not 0 < repetition_penalty < math.inf:
        raise ValueError(
            f"repetition_penalty is {repetition_penalty}; it must be above 0, and finite (1 changes nothing)"
        )
    return k, 1.0 if top_p is None else top_p


def sample(probability: Any, rng: np.random.Generator) -> np.ndarray:
    """One id drawn from each row of probabilities; an id with probability 0 is never drawn.

    probability [..., V], rows that sum to 1 (not logits); rng: one uniform number a row is taken from it.
    Returns ids [...], int64.

    Raises ValueError where a row is negative, NaN, or does not sum to 1, as logits would not.

    >>> sample([[0.0, 1.0], [1.0, 0.0]], np.random.default_rng(0)).tolist()
    [1, 0]
    """
    rows = np.asarray(probability, dtype=np.float64)
    upto = rows.cumsum(axis=-1)
    if not (rows.min(initial=0) >= 0 and np.allclose(upto[..., -1], 1, atol=1e-6)):
        raise ValueError("sample: rows must be probabilities that sum to 1; turn logits into them with probabilities()")
    # scaled to the row's own sum, so that rounding cannot lead behind the last possible id
    drawn = rng.random(rows.shape[:-1]) * upto[..., -1]
    return (upto <= np.minimum(drawn, np.nextafter(upto[..., -1], 0))[..., None]).sum(axis=-1, dtype=np.int64)
