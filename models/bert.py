"""BERT: an encoder whose every position reads all others, to fill in masked tokens and to tell sequences apart."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

import tinygrad_edu as tg
from models.initial import check_shape, draw_weights
from models.language import IGNORED, LanguageModel, TokenModel, summed_loss
from models.layouts import BERT_CLASSIFIER, BERT_ENCODER, BERT_MASKED
from models.pretrained import Pretrained
from models.transformer import ACTIVATIONS, Block
from tinygrad_edu import Tensor, nn


@dataclass(frozen=True)
class BERTConfig:
    """The shape of a BERT; the defaults are a small one. Raises ValueError for a shape that cannot be built."""

    vocab_size: int  # V, the number of different tokens: the tokenizer decides it
    block_size: int = 64  # longest T: as many positions as the position table has rows
    layers: int = 4  # blocks in a row: each mixes positions once more
    heads: int = 4  # H, attention patterns side by side in a block
    width: int = 128  # D, features of a position, shared out among the heads
    hidden: int = 0  # F, features inside the feed-forward; 0: 4·D
    segments: int = 2  # kinds of stretches in a sequence, such as a question and its answer
    dropout: float = 0.0  # part of the activations dropped in training; 0.1 where a text is read many times
    activation: str = "gelu"  # gelu, gelu-tanh, relu, silu or swiglu; BERT came with the exact GELU
    eps: float = 1e-12  # under the root of each norm, as BERT has it
    padding: int = -1  # id of the padding token, whose row of the table then stays as it is; -1: none has this part
    pooler: bool = False  # a layer on the first token that stands for the sequence; only a classifier reads it
    classes: int = 2  # C, what BERTClassifier tells apart; BERT itself has no use for it

    def __post_init__(self) -> None:
        check_shape(self, "segments", "classes")
        if self.hidden < 0 or not 0 <= self.eps < math.inf:
            raise ValueError(
                f"BERTConfig: hidden and eps must be 0 or more, and finite, not {self.hidden} and {self.eps}"
            )
        if not -1 <= self.padding < self.vocab_size:
            raise ValueError(f"BERTConfig: padding is an id in [0, {self.vocab_size}) or -1, not {self.padding}")
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"BERTConfig: activation is one of {', '.join(ACTIVATIONS)}, not {self.activation!r}")


class Segmented(NamedTuple):
    """A batch of sequences that are made of segments, padded at the end to the longest.

    ids, labels [B, T], int64: what is read, and what stood there where that is asked for, else −100. segments [B, T],
    int64: of which kind the stretch is that a token belongs to. mask [B, T], boolean: True at tokens, False at padding.
    """

    ids: np.ndarray
    labels: np.ndarray
    segments: np.ndarray
    mask: np.ndarray


class BERTEncoder(Pretrained, TokenModel):
    """Features of every position [B, T, D], each from the whole sequence.

    GPT's blocks with three differences: no causal mask, norms behind the branches, and a third table that says which
    segment a token belongs to.

    `encoder(ids, segments, mask)`: ids [B, T], integers in [0, V); segments [B, T], integers in [0, segments), all 0
    where None; mask [B, T], True or 1 at tokens and False or 0 at padding, which nobody reads, no padding where None.
    Raises ValueError for a T over block_size, IndexError for an id outside its table.
    Source: Devlin et al., "BERT: pre-training of deep bidirectional Transformers for language understanding", 2019.

    >>> BERTEncoder(BERTConfig(vocab_size=11, layers=1, heads=2, width=16))([[3, 1, 4]]).shape
    (1, 3, 16)
    """

    Config = BERTConfig
    layout = BERT_ENCODER

    def __init__(self, config: BERTConfig) -> None:
        super().__init__()
        c = self.config = config
        self.token = nn.Embedding(c.vocab_size, c.width, padding_idx=c.padding if c.padding >= 0 else None)
        self.position = nn.Embedding(c.block_size, c.width)
        self.segment = nn.Embedding(c.segments, c.width)
        self.norm = nn.LayerNorm(c.width, eps=c.eps)
        self.dropout = nn.Dropout(c.dropout)
        options: dict[str, Any] = {"hidden": c.hidden or 4 * c.width, "activation": c.activation, "eps": c.eps}
        self.blocks = nn.ModuleList(
            Block(c.width, c.heads, c.dropout, norm_first=False, **options) for _ in range(c.layers)
        )
        self.pooler = nn.Linear(c.width, c.width) if c.pooler else None
        draw_weights(self)

    def forward(self, ids: Any, segments: Any = None, mask: Any = None) -> Tensor:
        ids, c = self.ids(ids), self.config  # [B, T]
        T = ids.shape[1]
        if c.block_size < T:
            raise ValueError(
                f"{type(self).__name__}: {T} ids in a row, but the position table has block_size {c.block_size} rows; "
                f"cut the sequences, or build the model with a larger block_size"
            )
        places = tg.arange(T, device=ids.device)  # [T]
        kinds = tg.zeros_like(ids) if segments is None else self.ids(segments)  # [B, T]
        x = self.token(ids) + self.position(places) + self.segment(kinds)  # [B, T, D]
        x = self.dropout(self.norm(x))  # [B, T, D]
        visible = None if mask is None else self.visible(mask, ids.shape)  # [B, 1, 1, T]
        for block in self.blocks:
            x = block(x, visible)  # [B, T, D]
        return x

    def visible(self, mask: Any, shape: tuple[int, ...]) -> Tensor:
        """Which keys every query may read, [B, 1, 1, T], from the padding mask [B, T]."""
        mask = self.here(mask)
        if mask.shape != shape:
            raise ValueError(
                f"{type(self).__name__}: mask has shape {mask.shape}, the ids {shape}; give one for each id"
            )
        return (mask != 0)[:, None, None, :]

    def pool(self, x: Tensor) -> Tensor:
        """tanh(W·x₀ + b): the first position's features [B, T, D] -> [B, D], for the whole sequence."""
        if self.pooler is None:
            raise ValueError(f"{type(self).__name__}.pool: the model was built without; build it with pooler=True")
        return tg.tanh(self.pooler(x[:, 0]))

    def once(self) -> list[nn.Module]:
        """The pooler."""
        return [] if self.pooler is None else [self.pooler]


class MaskedHead(nn.Module):
    """Logits of the token at each position: decode(norm(GELU(W·x + b))), decoding by the table of tokens.

    The call takes x [B, T, D] and returns [B, T, V].
    """

    def __init__(self, config: BERTConfig, table: nn.Parameter) -> None:
        super().__init__()
        c = config
        self.dense = nn.Linear(c.width, c.width)
        self.activation = ACTIVATIONS[c.activation]()
        self.norm = nn.LayerNorm(c.width, eps=c.eps)
        self.decoder = nn.Linear(c.width, c.vocab_size)
        self.decoder.weight = table

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.activation(self.dense(x)))  # [B, T, D]
        return self.decoder(h)  # [B, T, V]


class BERT(Pretrained, LanguageModel):
    """Logits of the token that stands at each position, from what is around it: for text with masked tokens.

    `model(ids, segments, mask)`, arguments as of BERTEncoder; logits [B, T, V]. `model.loss((ids, labels, segments,
    mask))` counts the positions whose label is not −100, those that `data.Masking` chose; with none the loss is 0.

    >>> model = BERT(BERTConfig(vocab_size=11, layers=1, heads=2, width=16))
    >>> model([[3, 1, 4, 0]], mask=[[1, 1, 1, 0]]).shape
    (1, 4, 11)
    """

    Config = BERTConfig
    layout = BERT_MASKED
    task = "masked"
    axes: ClassVar = {
        "ids": "B T",
        "labels": "B T",
        "*.token.weight": "V D",
        "*.position.weight": "P D",
        "*.segment.weight": "G D",
        "*.up.weight": "F D",
    }
    scaled = True  # its attention, for pictures to check

    def __init__(self, config: BERTConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = BERTEncoder(config)
        self.head = MaskedHead(config, self.encoder.token.weight)
        draw_weights(self.head)

    def example(self, rows: int, length: int, drawn: np.random.Generator) -> Segmented:
        """A batch for `loss` of random ids in two segments; in the first row the last position is padding."""
        ids, labels = super().example(rows, length, drawn)
        segments = np.repeat([np.arange(length) >= length // 2], rows, 0) % self.config.segments
        mask = np.arange(length) < length - (np.arange(rows) == 0)[:, None]
        return Segmented(ids, np.where(mask, labels, IGNORED), segments, mask)

    def forward(self, ids: Any, segments: Any = None, mask: Any = None) -> Tensor:
        x = self.encoder(ids, segments, mask)  # [B, T, D]
        return self.head(x)  # [B, T, V]

    def once(self) -> list[nn.Module]:
        """The pooler."""
        return self.encoder.once()


class BERTClassifier(Pretrained, TokenModel):
    """Logits of the classes of whole sequences: W·dropout(pool(x)) + b.

    `model(ids, segments, mask)`, arguments as of BERTEncoder; logits [B, C]. `model.loss((ids, labels, segments,
    mask))`, labels [B], −100 not counted, gives (sum, count) as of LanguageModel.

    >>> BERTClassifier(BERTConfig(vocab_size=11, layers=1, heads=2, width=16, classes=3))([[3, 1, 4]]).shape
    (1, 3)
    """

    Config = BERTConfig
    layout = BERT_CLASSIFIER

    def __init__(self, config: BERTConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = BERTEncoder(config)
        self.encoder.pooler = nn.Linear(config.width, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.width, config.classes)
        draw_weights(self)

    def forward(self, ids: Any, segments: Any = None, mask: Any = None) -> Tensor:
        x = self.encoder(ids, segments, mask)  # [B, T, D]
        return self.classifier(self.dropout(self.encoder.pool(x)))  # [B, C]

    def loss(self, batch: Any) -> tuple[Tensor, int]:
        """(sum, count) over the sequences whose label counts."""
        ids, labels, *more = batch
        return summed_loss(self(ids, *more), self.here(labels))

    def once(self) -> list[nn.Module]:
        """The pooler and the classifier."""
        return [*self.encoder.once(), self.classifier]
