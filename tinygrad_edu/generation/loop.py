"""Autoregressive generation: predict the next token, append it, read it back in."""

import math
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np

from tinygrad_edu.generation.measuring import Model, measuring
from tinygrad_edu.generation.sampling import check_sampling, probabilities, sample
from tinygrad_edu.parallel.blas import BlasThreads

SMALL = 1e8  # floating-point operations of a product, about a millisecond of one core


def generate(
    model: Model,
    ids: Any,
    tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | np.random.Generator = 0,
    vocab_size: int | None = None,
    stop: int | None = None,
    pad: int = 0,
) -> np.ndarray:
    """The prompt with `tokens` more behind it, each drawn from the distribution that the model gives after all before.

    model: `model(ids)` gives logits [B, T, V]; `model.config.block_size` is the number of positions it can read, and
        of a longer text it reads the last ones, as positions 0 .. block_size-1. Dropout is off while it generates.
    ids: the prompt, [T] or a batch [B, T] of prompts of one length, T of 1 or more.
    tokens: how many to append; 0 gives the prompt back without asking the model.
    temperature, top_k, top_p, vocab_size: as in `probabilities`. seed: an integer, or a generator to draw from.
    stop: a row ends behind this token, and `pad` fills it up; generation ends when all rows have ended.
    Returns int64 ids [T + up to tokens] or [B, T + up to tokens].

    Raises ValueError for an empty prompt (start from `tokenizer.boundary`) and what `probabilities` raises, both
    before the model runs.
    """
    prompt = _prompt(ids)
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "vocab_size": vocab_size}
    columns = list(_columns(model, np.atleast_2d(prompt), tokens, options, seed, stop, pad))
    drawn = np.stack(columns, axis=1) if columns else np.zeros((len(np.atleast_2d(prompt)), 0), np.int64)
    return np.concatenate([prompt, drawn if prompt.ndim == 2 else drawn[0]], axis=-1)


def stream(
    model: Model,
    ids: Any,
    tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | np.random.Generator = 0,
    vocab_size: int | None = None,
    stop: int | None = None,
) -> Iterator[int]:
    """The tokens that `generate` appends to one prompt [T], each as soon as it is drawn; `stop` itself is the last.

    Wrong arguments raise here, not at the first token. `tokenizer.stream` turns the ids into pieces of text.
    """
    prompt = _prompt(ids)
    if prompt.ndim != 1:
        raise ValueError(
            f"stream: the prompt has shape {prompt.shape}; give one prompt [T], or use generate for a batch"
        )
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "vocab_size": vocab_size}
    return (int(column[0]) for column in _columns(model, prompt[None], tokens, options, seed, stop, pad=0))


def _prompt(ids: Any) -> np.ndarray:
    prompt = np.asarray(ids)
    if prompt.size == 0:
        raise ValueError("the prompt is empty: there is no token to predict from; start from tokenizer.boundary")
    if prompt.ndim not in (1, 2) or prompt.dtype.kind not in "iu":
        raise ValueError(f"a prompt is token ids [T] or [B, T], got shape {prompt.shape} of {prompt.dtype}")
    return prompt.astype(np.int64)


def _columns(
    model: Model, ids: np.ndarray, tokens: int, options: dict[str, Any], seed: Any, stop: int | None, pad: int
) -> Iterator[np.ndarray]:
    if tokens < 0:
        raise ValueError(f"tokens is {tokens}; it must be 0 or more")
    if isinstance(seed, int) and seed < 0:
        raise ValueError(f"seed is {seed}; it must be 0 or more")
    check_sampling(options["temperature"], options["top_k"], options["top_p"])
    return _drawn(model, ids, tokens, options, np.random.default_rng(seed), stop, pad)


def _drawn(
    model: Model,
    ids: np.ndarray,
    tokens: int,
    options: dict[str, Any],
    rng: np.random.Generator,
    stop: int | None,
    pad: int,
) -> Iterator[np.ndarray]:
    ended = np.zeros(len(ids), dtype=bool)
    block_size = model.config.block_size
    blas = BlasThreads() if tokens and _products_are_small(model, ids, tokens) else None
    for _ in range(tokens):
        with nullcontext() if blas is None else blas.limited(1):
            logits = _next_logits(model, ids[:, -block_size:])  # [B, V]
        column = sample(probabilities(logits, **options), rng)  # [B]
        if stop is not None:
            column[ended] = pad
            ended |= column == stop
        yield column
        if ended.all():
            return
        ids = np.concatenate([ids, column[:, None]], axis=1)


def _products_are_small(model: Model, ids: np.ndarray, tokens: int) -> bool:
    """Whether every product is better made by one thread: a second one gains little there, and where the cores have
    other work as well, a product waits for it many times as long as it takes."""
    rows = len(ids) * min(model.config.block_size, ids.shape[1] + tokens)
    return 2 * rows * max((math.prod(p.shape) for p in model.parameters()), default=0) < SMALL


def _next_logits(model: Model, ids: np.ndarray) -> np.ndarray:
    """[B, T] -> [B, V]. Entered anew for each token: whoever reads the stream may train in between."""
    with measuring(model):
        return model(ids)[:, -1].numpy()
