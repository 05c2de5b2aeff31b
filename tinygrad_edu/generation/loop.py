"""Autoregressive generation: predict the next token, append it, read it back in."""

import operator
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_edu.generation.measuring import Model
from tinygrad_edu.generation.reader import Reader
from tinygrad_edu.generation.sampling import check_sampling, penalised, probabilities, sample


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn; every field as in `probabilities` and `penalised`.

    Raises what `probabilities` raises for a value out of range.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    vocab_size: int | None = None

    def __post_init__(self) -> None:
        check_sampling(self.temperature, self.top_k, self.top_p, self.min_p, self.repetition_penalty)

    def draw(self, logits: np.ndarray, ids: np.ndarray, real: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Ids [B] from logits [B, V] behind texts `ids` [B, T], of which `real`, a mask, counts."""
        if self.repetition_penalty != 1:
            logits = penalised(logits, ids, self.repetition_penalty, real)
        chosen = probabilities(
            logits, self.temperature, self.top_k, self.top_p, vocab_size=self.vocab_size, min_p=self.min_p
        )
        return sample(chosen, rng)


def generate(
    model: Model,
    ids: Any,
    tokens: int,
    *,
    seed: int | np.random.Generator = 0,
    stop: int | Collection[int] | None = None,
    pad: int = 0,
    **sampling: Any,
) -> Any:
    """The prompt with `tokens` more behind it, each drawn from the distribution that the model gives after all before.

    model: `model(ids)` gives logits [B, T, V]; `model.config.block_size` is the number of positions it can read, and
        of a longer text it reads the last ones, as positions 0 .. block_size-1. One that has `new_cache()` reads each
        id once, until the text is longer than block_size. Dropout is off while it generates.
    ids: the prompt, [T] or a batch [B, T], T of 1 or more; or a list of prompts of different lengths, for a model that
        takes `positions` and `segments`. Each is continued as it would be alone.
    tokens: how many to append; 0 gives the prompt back without asking the model.
    seed: an integer, or a generator to draw from. stop: a row ends behind this token, or one of these, and `pad` fills
        it up; generation ends when all rows have ended.
    sampling: temperature, top_k, top_p, min_p, repetition_penalty, vocab_size, as in `probabilities`, `penalised`.
    Returns int64 ids [T + up to tokens] or [B, T + up to tokens], for prompts of different lengths a list of them.

    Raises ValueError for an empty prompt (start from `tokenizer.boundary`) and what `probabilities` raises, both
    before the model runs.
    """
    prompts = _prompts(ids)
    columns = list(_columns(model, prompts, tokens, Sampling(**sampling), seed, _stops(stop), pad))
    drawn = np.stack(columns, axis=1) if columns else np.zeros((len(prompts), 0), np.int64)
    rows = [np.concatenate([prompt, row]) for prompt, row in zip(prompts, drawn, strict=True)]
    if isinstance(ids, list | tuple) and len({len(prompt) for prompt in prompts}) > 1:
        return rows
    return rows[0] if np.ndim(ids) == 1 else np.stack(rows)


def stream(
    model: Model,
    ids: Any,
    tokens: int,
    *,
    seed: int | np.random.Generator = 0,
    stop: int | Collection[int] | None = None,
    **sampling: Any,
) -> Iterator[int]:
    """The tokens that `generate` appends to one prompt [T], each as soon as it is drawn, the one to stop at included.

    Wrong arguments raise here, not at the first token. `tokenizer.stream` turns the ids into pieces of text.
    """
    prompts = _prompts(ids)
    if np.ndim(ids) != 1:
        raise ValueError(
            f"stream: the prompt has shape {np.shape(ids)}; give one prompt [T], or use generate for a batch"
        )
    columns = _columns(model, prompts, tokens, Sampling(**sampling), seed, _stops(stop), pad=0)
    return (int(column[0]) for column in columns)


def _prompts(ids: Any) -> list[np.ndarray]:
    ragged = isinstance(ids, list | tuple) and len({np.size(row) for row in ids}) > 1
    rows = [np.asarray(row) for row in ids] if ragged else list(np.atleast_2d(np.asarray(ids)))
    for row in rows:
        if row.size == 0:
            raise ValueError("the prompt is empty: there is no token to predict from; start from tokenizer.boundary")
        if row.ndim != 1 or row.dtype.kind not in "iu":
            raise ValueError(f"a prompt is token ids [T] or [B, T], got shape {np.shape(ids)} of {row.dtype}")
    return [row.astype(np.int64) for row in rows]


def _stops(stop: int | Collection[int] | None) -> list[int]:
    return [] if stop is None else [int(stop)] if np.ndim(stop) == 0 else sorted(stop)  # type: ignore[arg-type]


def _columns(
    model: Model,
    prompts: Sequence[np.ndarray],
    tokens: int,
    sampling: Sampling,
    seed: Any,
    stops: list[int],
    pad: int,
) -> Iterator[np.ndarray]:
    try:
        tokens = operator.index(tokens)
    except TypeError:
        raise TypeError(f"tokens is {tokens!r}; it is a whole number of tokens to append") from None
    if tokens < 0:
        raise ValueError(f"tokens is {tokens}; it must be 0 or more")
    if isinstance(seed, int) and seed < 0:
        raise ValueError(f"seed is {seed}; it must be 0 or more")
    return _drawn(Reader(model, prompts, pad), tokens, sampling, np.random.default_rng(seed), stops, pad)


def _drawn(
    reader: Reader, tokens: int, sampling: Sampling, rng: np.random.Generator, stops: list[int], pad: int
) -> Iterator[np.ndarray]:
    ended = np.zeros(len(reader.ids), dtype=bool)
    for _ in range(tokens):
        column = sampling.draw(reader.logits(), reader.ids, reader.real, rng)  # [B]
        column[ended] = pad
        if stops:
            ended |= np.isin(column, stops)
        yield column
        if ended.all():
            return
        reader.append(column)
