"""Bigram: a table that holds, for each token, the logits of the next one."""

from dataclasses import dataclass
from typing import Any, ClassVar

from models.language import LanguageModel
from tinygrad_edu import Tensor, nn


@dataclass(frozen=True)
class BigramConfig:
    """The shape of a Bigram. Raises ValueError for a vocab_size below 1."""

    vocab_size: int  # V, the number of different tokens: the tokenizer decides it
    block_size: ClassVar[int] = 1  # positions that a prediction needs: the current token tells all this model knows

    def __post_init__(self) -> None:
        if self.vocab_size < 1:
            raise ValueError(f"BigramConfig: vocab_size must be at least 1, not {self.vocab_size}")


class Bigram(LanguageModel):
    """logits = W[id]: row = the current token, column = the next one.

    The lookup equals one-hot(id)·W. The table starts at 0, where every next token is equally likely and the loss is
    ln V; trained, softmax of row a approaches how often each token follows a.

    `model(ids)`: ids [B, T], integers in [0, V) as an array, a list or a Tensor, any T; logits [B, T, V]. positions and
    segments, which rows of several documents bring along, change nothing: what follows depends on the token alone.
    Raises IndexError for an id outside [0, V).

    >>> Bigram(BigramConfig(vocab_size=3)).loss(([[0, 1]], [[1, 2]]))[1]
    2
    """

    Config = BigramConfig
    axes: ClassVar = {"ids": "B T", "labels": "B T", "table.weight": "V V"}

    def __init__(self, config: BigramConfig) -> None:
        super().__init__()
        self.config = config
        self.table = nn.Embedding(config.vocab_size, config.vocab_size)
        nn.init.zeros_(self.table.weight)

    def forward(self, ids: Any, positions: Any = None, segments: Any = None) -> Tensor:
        return self.table(self.ids(ids))  # [B, T, V]
