"""Encoder-decoder: one Transformer reads a sequence, another writes an answer and reads the first one's features."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import tinygrad_edu as tg
from models.initial import check_shape, draw_weights
from models.language import LanguageModel
from models.transformer import Block
from tinygrad_edu import Tensor, nn
from tinygrad_edu.data.sides import Sides, sides
from tinygrad_edu.generation import Cache


@dataclass(frozen=True)
class Seq2SeqConfig:
    """The shape of an encoder-decoder; the defaults are a small one. Raises ValueError for one that cannot be built."""

    vocab_size: int  # V, the number of different tokens, of both sides: the tokenizer decides it
    block_size: int = 80  # longest S that is read, and longest T that is written, its begin included
    layers: int = 2  # blocks of the encoder, and as many of the decoder
    heads: int = 4  # H, attention patterns side by side in a block
    width: int = 128  # D, features of a position, shared out among the heads
    dropout: float = 0.0  # part of the activations dropped in training; more than 0 where pairs are few
    bias: bool = False  # whether Linear and LayerNorm add one: costs time and hardly changes the loss

    def __post_init__(self) -> None:
        check_shape(self)


class Seq2Seq(LanguageModel):
    """Logits of the next token of an answer at each position, from the answer so far and a whole other sequence.

    Two stacks of GPT's blocks: the encoder's see all of the source, the decoder's see what is before them in the answer
    and, by a cross-attention between their attention and their feed-forward, all features that the encoder made. The
    source's padding is hidden from both.

    `model(ids, source, mask)`: ids [B, T], the answer so far, begin first; source [B, S], what is read; integers in
    [0, V); mask [B, S], True or 1 at the source's tokens and False or 0 at padding, no padding where None; logits
    [B, T, V], position t's from the ids up to t and the whole source.
    Raises ValueError for a T or S over block_size, IndexError for an id outside [0, V).
    Source: Vaswani et al., "Attention is all you need", 2017.

    >>> model = Seq2Seq(Seq2SeqConfig(vocab_size=11, layers=1, heads=2, width=16))
    >>> model([[1, 5]], source=[[3, 1, 4, 0]], mask=[[1, 1, 1, 0]]).shape
    (1, 2, 11)
    """

    Config = Seq2SeqConfig
    task = "pairs"
    axes: ClassVar = {
        "ids": "B T",
        "labels": "B T",
        "source": "B S",
        "mask": "B S",
        "token.weight": "V D",
        "head.weight": "V D",
        "position.weight": "P D",
        "source_position.weight": "P D",
        "*.up.weight": "F D",
        "*.cross.qkv.weight": "E D",
    }
    scaled = True  # its attention, for pictures to check

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        c = self.config = config
        self.token = nn.Embedding(c.vocab_size, c.width)  # of both sides, and of the head
        self.source_position = nn.Embedding(c.block_size, c.width)
        self.position = nn.Embedding(c.block_size, c.width)
        self.dropout = nn.Dropout(c.dropout)
        self.encoder = nn.ModuleList(Block(c.width, c.heads, c.dropout, c.bias) for _ in range(c.layers))
        self.encoder_norm = nn.LayerNorm(c.width, bias=c.bias)
        self.decoder = nn.ModuleList(Block(c.width, c.heads, c.dropout, c.bias, cross=True) for _ in range(c.layers))
        self.norm = nn.LayerNorm(c.width, bias=c.bias)
        self.head = nn.Linear(c.width, c.vocab_size, bias=False)
        self.head.weight = self.token.weight
        draw_weights(self, lambda name: (3 if name.startswith("decoder") else 2) * c.layers)

    def forward(self, ids: Any, source: Any, mask: Any = None) -> Tensor:
        memory, visible = self.encode(source, mask)  # [B, S, D], [B, 1, 1, S] or None
        return self.decode(ids, memory, visible)  # [B, T, V]

    def example(self, rows: int, length: int, drawn: np.random.Generator) -> Sides:
        """A batch for `loss` of random ids, each source 1 longer than its answer, the first one padded by 1 more."""
        V = self.config.vocab_size
        pairs = [
            (drawn.integers(1, V, length + 1 - (row == 0)), drawn.integers(1, V, length - 1)) for row in range(rows)
        ]
        return sides(pairs, begin=0, end=0)

    def flops(self, batch: Any, training: bool = False) -> int:
        """As in the base class: of the encoder for each token of the source, of the decoder for each of the answer, but
        the keys and values that it reads of the source for each token there."""
        (rows, T), S, D = batch.ids.shape, batch.source.shape[1], self.config.width
        encoder, decoder, head = map(_weights, (self.encoder, self.decoder, self.head))
        read = 2 * D * D * self.config.layers  # weights of W_K and W_V of the cross-attention
        weights = S * (encoder + read) + T * (decoder - read + head)
        pairs = self.config.layers * (S * S + T * T + T * S)  # a query and a key each
        return (6 if training else 2) * rows * (weights + 2 * D * pairs)

    def encode(self, source: Any, mask: Any = None) -> tuple[Tensor, Tensor | None]:
        """(features of every position [B, S, D], which of them may be read [B, 1, 1, S], None for all)."""
        source = self.ids(source)  # [B, S]
        visible = None if mask is None else (self.ids(mask) != 0)[:, None, None, :]  # [B, 1, 1, S]
        if visible is not None and visible.shape[-1] != source.shape[1]:
            raise ValueError(f"Seq2Seq: the mask has {visible.shape[-1]} positions, the source {source.shape[1]}")
        x = self.token(source) + self.source_position(
            self._places(source.shape[1], "tokens of the source")
        )  # [B, S, D]
        x = self.dropout(x)  # [B, S, D]
        for block in self.encoder:
            x = block(x, visible)  # [B, S, D]
        return self.encoder_norm(x), visible

    def decode(self, ids: Any, memory: Tensor, visible: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        """Logits [B, T, V] of what follows ids [B, T], with what `encode` gave of the source."""
        ids = self.ids(ids)  # [B, T]
        before = 0 if cache is None else cache.length
        places = self._places(before + ids.shape[1], "ids")[before:]  # [T]
        x = self.dropout(self.token(ids) + self.position(places))  # [B, T, D]
        for i, block in enumerate(self.decoder):
            kept = {} if cache is None else {"kept": cache[i], "memory_kept": cache.memory[i]}
            x = block(x, causal=True, memory=memory, memory_visible=visible, **kept)  # [B, T, D]
        return self.head(self.norm(x))  # [B, T, V]

    def answering(self, source: Any, mask: Any = None) -> "Answer":
        """The model as one that reads the answer alone, for `generate` and `beam_search`; source as in the call."""
        return Answer(self, source, mask)

    def _places(self, count: int, what: str) -> Tensor:
        if count > self.config.block_size:
            raise ValueError(
                f"Seq2Seq: {count} {what} in a row, but the model is built for block_size {self.config.block_size} "
                f"positions; cut the sequence, or build the model with a larger block_size"
            )
        return tg.arange(count, device=self.token.weight.device)


class Answer(nn.Module):
    """A Seq2Seq with a source that stays: `answer(ids)` gives the logits [B, T, V] of what comes behind ids [B, T].

    One source serves several answers.
    """

    def __init__(self, model: Seq2Seq, source: Any, mask: Any = None) -> None:
        super().__init__()
        self.model, self.config = model, model.config
        self.source, self.mask = model.ids(source), mask
        model._places(self.source.shape[1], "tokens of the source")  # too long a source is told of at once
        self._read: tuple[Tensor, Tensor | None] | None = None

    def new_cache(self) -> Cache:
        """An empty cache for an answer, and for the keys and values of the source."""
        self._read = None
        return Cache(self.config.layers, self.config.block_size, memory=self.source.shape[1])

    def forward(self, ids: Any, cache: Cache | None = None) -> Tensor:
        if cache is None or self._read is None:
            self._read = self.model.encode(self.source, self.mask)
        memory, visible = self._read
        if memory.shape[0] == 1:
            memory = memory.expand(len(ids), *memory.shape[1:])
        return self.model.decode(ids, memory, visible, cache)


def _weights(part: nn.Module) -> int:
    """How many weights the Linear layers of a part have."""
    return sum(layer.weight.numel() for layer in part.modules() if isinstance(layer, nn.Linear))
