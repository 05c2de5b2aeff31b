"""GPT: a decoder-only Transformer that predicts each next token from the ones before it."""

import math
from dataclasses import dataclass
from typing import Any

import tinygrad_edu as tg
from models.language import LanguageModel
from models.transformer import Block
from tinygrad_edu import Tensor, nn


@dataclass(frozen=True)
class GPTConfig:
    """The shape of a GPT; the defaults are a small one that learns on two CPU cores within minutes.

    Raises ValueError for a shape that cannot be built.
    """

    vocab_size: int  # V, the number of different tokens: the tokenizer decides it
    block_size: int = 64  # longest T: as many positions as the position table has rows
    layers: int = 4  # blocks in a row: each mixes positions once more
    heads: int = 4  # H, attention patterns side by side in a block
    width: int = 128  # D, features of a position, shared out among the heads
    dropout: float = 0.0  # part of the activations dropped in training; more than 0 where the text is read many times
    bias: bool = False  # whether Linear and LayerNorm add one: costs time and hardly changes the loss
    tied: bool = True  # whether the head reuses the token table: fewer weights, and both learn from both uses

    def __post_init__(self) -> None:
        for name in ("vocab_size", "block_size", "layers", "heads", "width"):
            if getattr(self, name) < 1:
                raise ValueError(f"GPTConfig: {name} must be at least 1, not {getattr(self, name)}")
        if self.width % self.heads:
            raise ValueError(
                f"GPTConfig: width {self.width} is not a multiple of heads {self.heads}, so the heads cannot share it "
                f"evenly; take width {self.width // self.heads * self.heads or self.heads} or other heads"
            )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"GPTConfig: dropout must lie in [0, 1), not {self.dropout}")


class GPT(LanguageModel):
    """Logits of the next token at every position, from token ids.

    `model(ids)`: ids [B, T], integers in [0, V) as an array, a list or a Tensor, T <= block_size; logits [B, T, V],
    position t's from the ids up to t.
    Raises ValueError for a T over block_size, IndexError for an id outside [0, V).
    Source: Radford et al., "Language models are unsupervised multitask learners", 2019, section 2.3.

    >>> import tinygrad_edu as tg
    >>> _ = tg.manual_seed(0)
    >>> model = GPT(GPTConfig(vocab_size=11, block_size=8, layers=1, heads=2, width=16))
    >>> model([[3, 1, 4, 1, 5]]).shape
    (1, 5, 11)
    """

    Config = GPTConfig

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        c = self.config = config
        self.token = nn.Embedding(c.vocab_size, c.width)
        self.position = nn.Embedding(c.block_size, c.width)
        self.dropout = nn.Dropout(c.dropout)
        self.blocks = nn.ModuleList(Block(c.width, c.heads, c.dropout, c.bias) for _ in range(c.layers))
        self.norm = nn.LayerNorm(c.width, bias=c.bias)
        self.head = nn.Linear(c.width, c.vocab_size, bias=False)
        if c.tied:
            self.head.weight = self.token.weight
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights as GPT-2 did: normal, standard deviation 0.02, biases 0.

        What is added to the stream, twice a layer, is drawn smaller by √(2·layers), so that the stream's spread at the
        end does not grow with the number of layers.
        """
        for name, p in self.named_parameters():
            if name.endswith(("output.weight", "down.weight")):
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * self.config.layers))
            elif p.ndim == 2:
                nn.init.normal_(p, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, ids: Any) -> Tensor:
        ids = self.ids(ids)  # [B, T]
        T = ids.shape[1]
        if self.config.block_size < T:
            raise ValueError(
                f"GPT: {T} ids in a row, but the position table has block_size {self.config.block_size} rows; give the "
                f"last {self.config.block_size} ids, or build the model with a larger block_size"
            )
        x = self.token(ids) + self.position(tg.arange(T, device=ids.device))  # [B, T, D]
        x = self.dropout(x)  # [B, T, D]
        for block in self.blocks:
            x = block(x, causal=True)  # [B, T, D]
        return self.head(self.norm(x))  # [B, T, V]
