"""Image to text: a GPT that has an image in front of what it reads, cut into patches that take the place of tokens."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import tinygrad_edu as tg
from models.initial import check_shape, draw_weights
from models.language import LanguageModel
from models.transformer import Block
from tinygrad_edu import Tensor, nn
from tinygrad_edu.data.rendered import Rendered
from tinygrad_edu.generation import Cache


@dataclass(frozen=True)
class OCRConfig:
    """The shape of an image-to-text model; the defaults read a short line. Raises ValueError for a shape that fails."""

    vocab_size: int  # V, the number of different tokens: the tokenizer decides it
    block_size: int = 32  # longest T, prompt and text
    height: int = 16  # h, pixels of an image from top to bottom
    length: int = 128  # w, pixels of an image from left to right
    patch: int = 4  # pixels from left to right that make one patch, about half a letter
    layers: int = 3  # blocks in a row: each mixes positions once more
    heads: int = 4  # H, attention patterns side by side in a block
    width: int = 128  # D, features of a position, shared out among the heads
    dropout: float = 0.0  # part of the activations dropped in training
    bias: bool = False  # whether Linear and LayerNorm add one: costs time and hardly changes the loss

    def __post_init__(self) -> None:
        check_shape(self, "height", "length", "patch")
        if self.length % self.patch:
            raise ValueError(f"OCRConfig: length {self.length} is not a multiple of patch {self.patch}")

    @property
    def patches(self) -> int:
        """N, the patches of an image."""
        return self.length // self.patch


class OCR(LanguageModel):
    """Logits of the next token at every position of a text, from an image and the tokens before it.

    A GPT whose first N positions are patches of the image instead of tokens: columns of `patch` pixels, each brought to
    D features by one matrix. Patches read each other in both directions; tokens read all patches and what is before
    them. What is to be predicted is moved by one as in GPT, and only tokens predict.

    `model(ids, images)`: ids [B, T], prompt and text so far, integers in [0, V); images [B, h, w], brightness; logits
    [B, T, V], position t's from the image and the ids up to t. `model(ids, cache=cache)` goes on where the cache ends.
    Raises ValueError for a T over block_size or images of another size, IndexError for an id outside [0, V).
    Source: Dosovitskiy et al., "An image is worth 16x16 words", 2021; Li et al., "TrOCR", 2021.

    >>> model = OCR(OCRConfig(vocab_size=11, layers=1, heads=2, width=16))
    >>> model([[3, 1, 4]], tg.zeros(1, 16, 128)).shape
    (1, 3, 11)
    """

    Config = OCRConfig
    task = "images"
    axes: ClassVar = {
        "ids": "B T",
        "labels": "B T",
        "images": "B h w",
        "token.weight": "V D",
        "head.weight": "V D",
        "position.weight": "P D",
        "patch_position.weight": "N D",
        "*.up.weight": "F D",
    }
    scaled = True  # its attention, for pictures to check

    def __init__(self, config: OCRConfig) -> None:
        super().__init__()
        c = self.config = config
        self.patch = nn.Linear(c.height * c.patch, c.width)
        self.patch_position = nn.Embedding(c.patches, c.width)
        self.token = nn.Embedding(c.vocab_size, c.width)
        self.position = nn.Embedding(c.block_size, c.width)
        self.dropout = nn.Dropout(c.dropout)
        self.blocks = nn.ModuleList(Block(c.width, c.heads, c.dropout, c.bias) for _ in range(c.layers))
        self.norm = nn.LayerNorm(c.width, bias=c.bias)
        self.head = nn.Linear(c.width, c.vocab_size, bias=False)
        self.head.weight = self.token.weight
        draw_weights(self, lambda name: 2 * c.layers)

    def example(self, rows: int, length: int, drawn: np.random.Generator) -> Rendered:
        """A batch for `loss` of random ids and images."""
        images = drawn.random((rows, self.config.height, self.config.length), np.float32)
        ids, labels = super().example(rows, length, drawn)
        return Rendered(ids, labels, images)

    def flops(self, batch: Any, training: bool = False) -> int:
        """As in the base class: of the blocks for patches and tokens, each reading all of both, of the rest for one or
        the other alone."""
        c, (rows, T) = self.config, batch.ids.shape
        patch, head = self.patch.weight.numel(), self.head.weight.numel()
        blocks = sum(layer.weight.numel() for layer in self.blocks.modules() if isinstance(layer, nn.Linear))
        both = c.patches + T
        read = 2 * c.layers * both * both * c.width
        return (6 if training else 2) * rows * (c.patches * patch + both * blocks + T * head + read)

    def new_cache(self) -> Cache:
        """An empty cache for an image and `block_size` tokens."""
        return Cache(self.config.layers, self.config.patches + self.config.block_size)

    def forward(self, ids: Any, images: Any = None, cache: Cache | None = None) -> Tensor:
        c, ids = self.config, self.ids(ids)  # [B, T]
        T, N = ids.shape[1], c.patches
        before = cache.length - N if cache is not None and cache.length else 0
        if c.block_size < before + T:
            raise ValueError(
                f"OCR: {before + T} ids in a row, but the model is built for block_size {c.block_size} positions; give "
                f"fewer, or build the model with a larger block_size"
            )
        x = self.token(ids) + self.position(tg.arange(before, before + T, device=ids.device))  # [B, T, D]
        visible = None
        if cache is None or not cache.length:
            x = tg.cat([self.see(images, len(ids)), x], dim=1)  # [B, N + T, D]
            at = tg.arange(N + T, device=ids.device)
            visible = (at[None, :] < N) | (at[None, :] <= at[:, None])  # [N + T, N + T]: patches, and what is before
        x = self.dropout(x)
        for i, block in enumerate(self.blocks):
            x = block(x, visible, causal=visible is None, kept=None if cache is None else cache[i])
        return self.head(self.norm(x[:, -T:]))  # [B, T, V]

    def see(self, images: Any, count: int) -> Tensor:
        """The patches of images [B, h, w] as features [B, N, D]."""
        c, images = self.config, self.here(images)
        shape, wanted = None if images is None else images.shape, (count, c.height, c.length)
        if shape != wanted:
            raise ValueError(f"OCR: images have shape {shape}, but {wanted} is wanted, one for each row of ids")
        cut = images.to(self.patch.weight.dtype).unflatten(2, (c.patches, c.patch)).named("cut", "B h N p")
        x = self.patch(cut.transpose(1, 2).flatten(2))  # [B, N, D]
        return x + self.patch_position(tg.arange(c.patches, device=x.device))

    def reading(self, images: Any) -> "Reading":
        """The model as one that reads the text alone, for `generate` and `beam_search`; images as in the call."""
        return Reading(self, images)


class Reading(nn.Module):
    """An OCR model in front of images that stay: `reading(ids)` gives the logits [B, T, V] behind ids [B, T]."""

    def __init__(self, model: OCR, images: Any) -> None:
        super().__init__()
        self.model, self.config, self.images = model, model.config, model.here(images)
        self.new_cache = model.new_cache

    def forward(self, ids: Any, cache: Cache | None = None) -> Tensor:
        images = self.images
        if len(images) == 1:
            images = images.expand(len(ids), *images.shape[1:])
        return self.model(ids, images, cache)
