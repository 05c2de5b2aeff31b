"""GPT: a decoder-only Transformer that predicts each next token from the ones before it."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import tinygrad_edu as tg
from models.initial import check_shape, draw_weights
from models.language import LanguageModel
from models.layouts import GPT2
from models.positions import rotation, sinusoidal
from models.pretrained import Pretrained
from models.transformer import ACTIVATIONS, NORMS, Block
from tinygrad_edu import Tensor, nn
from tinygrad_edu.generation import Cache

POSITIONS = ("learned", "sinusoidal", "rotary")


@dataclass(frozen=True)
class GPTConfig:
    """The shape of a GPT; the defaults are a small one that learns on two CPU cores within minutes.

    Raises ValueError for a shape that cannot be built.
    """

    vocab_size: int  # V, the number of different tokens: the tokenizer decides it
    block_size: int = 64  # longest T: as many positions as it is trained on
    layers: int = 4  # blocks in a row: each mixes positions once more
    heads: int = 4  # H, attention patterns side by side in a block
    width: int = 128  # D, features of a position, shared out among the heads
    dropout: float = 0.0  # part of the activations dropped in training; more than 0 where the text is read many times
    bias: bool = False  # whether Linear and LayerNorm add one: costs time and hardly changes the loss
    tied: bool = True  # whether the head reuses the token table: fewer weights, and both learn from both uses
    hidden: int = 0  # F, features inside the feed-forward; 0: 4·D, or 8/3·D with swiglu, which has a matrix more
    activation: str = "gelu-tanh"  # gelu, gelu-tanh, relu, silu, or swiglu: a gate beside the features, lower loss
    norm: str = "layer"  # layer, or rms: subtracts no mean, as good and cheaper
    norm_first: bool = True  # norms before the branches, so that deep ones train; GPT-1 had them behind
    eps: float = 1e-5  # under the root of each norm; a published model has its own
    positions: str = "learned"  # learned: a table; sinusoidal: waves, with tokens times √D; rotary: in attention
    rotary_base: float = 10_000.0  # with rotary, about the longest distance told apart: smaller for short blocks
    key_heads: int = 0  # heads of keys and values, each shared by several of queries: a smaller cache; 0: as many
    normalised: bool = False  # queries and keys of length 1 times a learned scale: bears a higher learning rate
    zero_init: bool = False  # what adds to the stream, and an untied head, start at 0: the first steps go further

    def __post_init__(self) -> None:
        check_shape(self)
        for name, known in (("activation", ACTIVATIONS), ("norm", NORMS), ("positions", POSITIONS)):
            if getattr(self, name) not in known:
                raise ValueError(f"GPTConfig: {name} is one of {', '.join(known)}, not {getattr(self, name)!r}")
        if self.hidden < 0 or self.key_heads < 0 or self.heads % (self.key_heads or self.heads):
            raise ValueError(
                f"GPTConfig: hidden {self.hidden} and key_heads {self.key_heads} must be 0 or more, and heads "
                f"{self.heads} a multiple of key_heads"
            )
        paired = {"sinusoidal": self.width, "rotary": self.width // self.heads}.get(self.positions, 2)
        if paired % 2:
            raise ValueError(
                f"GPTConfig: {self.positions} positions take features in pairs, and width {self.width} with heads "
                f"{self.heads} leaves {paired} of them; take an even number"
            )
        if not (0 < self.eps < math.inf and 0 < self.rotary_base < math.inf):
            raise ValueError(
                f"GPTConfig: eps {self.eps} and rotary_base {self.rotary_base} must be above 0, and finite"
            )

    @property
    def features(self) -> int:
        """F: `hidden`, or what stands for 0."""
        return self.hidden or (8 * self.width // 3 if self.activation == "swiglu" else 4 * self.width)


class GPT(Pretrained, LanguageModel):
    """Logits of the next token at every position, from token ids.

    `model(ids)`: ids [B, T], integers in [0, V) as an array, a list or a Tensor, T <= block_size; logits [B, T, V],
    position t's from the ids up to t. `model(ids, positions, segments)`, for rows that hold several documents, or
    padding: where the ids stand, integers [T] or [B, T], 0 … T − 1 where None; which of them belong together, integers
    [B, T], as a position reads those of its own number only. `model(ids, ..., cache=model.new_cache())` reads the ids
    as those that follow what the cache holds, and keeps them in it: for generation, under no_grad().
    Raises ValueError for a T over block_size, IndexError for an id outside [0, V).
    Source: Radford et al., "Language models are unsupervised multitask learners", 2019, section 2.3.

    >>> import tinygrad_edu as tg
    >>> _ = tg.manual_seed(0)
    >>> model = GPT(GPTConfig(vocab_size=11, block_size=8, layers=1, heads=2, width=16))
    >>> model([[3, 1, 4, 1, 5]]).shape
    (1, 5, 11)
    """

    Config = GPTConfig
    layout = GPT2
    axes: ClassVar = {
        "ids": "B T",
        "labels": "B T",
        "token.weight": "V D",
        "head.weight": "V D",
        "position.weight": "P D",
        "*.up.weight": "F D",
        "*.gate.weight": "F D",
    }
    visibility, scaled = "causal", True  # what its attention is, for pictures to check

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        c = self.config = config
        self.token = nn.Embedding(c.vocab_size, c.width)
        self.position = nn.Embedding(c.block_size, c.width) if c.positions == "learned" else None
        self.dropout = nn.Dropout(c.dropout)
        options: dict[str, Any] = {"hidden": c.features, "activation": c.activation, "normalised": c.normalised}
        options |= {"norm": c.norm, "eps": c.eps, "norm_first": c.norm_first, "key_heads": c.key_heads or None}
        self.blocks = nn.ModuleList(Block(c.width, c.heads, c.dropout, c.bias, **options) for _ in range(c.layers))
        # behind the last block of norms at the end nothing is left to normalise
        self.norm = NORMS[c.norm](c.width, eps=c.eps, bias=c.bias) if c.norm_first else nn.Identity()
        self.head = nn.Linear(c.width, c.vocab_size, bias=False)
        if c.tied:
            self.head.weight = self.token.weight
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights as GPT-2 did; with zero_init what is added to the stream, and an untied head, are 0."""
        draw_weights(self, lambda name: 2 * self.config.layers, last=0.0 if self.config.zero_init else 0.02)

    def new_cache(self) -> Cache:
        """An empty cache for `block_size` positions."""
        return Cache(self.config.layers, self.config.block_size)

    def forward(self, ids: Any, positions: Any = None, segments: Any = None, cache: Cache | None = None) -> Tensor:
        c, ids = self.config, self.ids(ids)  # [B, T]
        before = 0 if cache is None else cache.length
        T = ids.shape[1]
        if c.block_size < before + T:
            raise ValueError(
                f"GPT: {before + T} ids in a row, but the model is built for block_size {c.block_size} positions; give "
                f"the last {c.block_size} ids, or build the model with a larger block_size"
            )
        places = tg.arange(before, before + T, device=ids.device)
        positions = places if positions is None else self.here(positions)  # [T] or [B, T]
        visible = turn = None
        if segments is not None:
            s = self.ids(segments)  # [B, T]
            k = s if cache is None else cache.join(s)  # [B, k]
            visible = (s[:, :, None] == k[:, None, :])[:, None]  # [B, 1, T, k]
        if self.position is not None:
            x = self.token(ids) + self.position(positions)  # [B, T, D]
        elif c.positions == "sinusoidal":
            waves = sinusoidal(positions, c.width).to(self.token.weight.dtype)  # [T, D] or [B, T, D]
            x = self.token(ids) * math.sqrt(c.width) + waves  # [B, T, D]
        else:
            x = self.token(ids)  # [B, T, D]
            d, dtype = c.width // c.heads, self.token.weight.dtype
            turn = rotation(positions, d, c.rotary_base, dtype)  # [T, d/2] or [B, 1, T, d/2], twice
        x = self.dropout(x)  # [B, T, D]
        for block, kept in zip(self.blocks, cache or [None] * c.layers):
            x = block(x, visible, causal=True, turn=turn, kept=kept)  # [B, T, D]
        return self.head(self.norm(x))  # [B, T, V]
