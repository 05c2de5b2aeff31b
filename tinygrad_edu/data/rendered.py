"""Lines of text as images of them, each a little different: a task for models that read."""

import functools
import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tinygrad_edu.data.checked import DataError
from tinygrad_edu.data.epochs import Epochs, EpochSource
from tinygrad_edu.data.tokenizer import Tokenizer
from tinygrad_edu.data.windows import IGNORED
from tinygrad_edu.random import Generator

HEIGHT, LENGTH = 16, 128  # of an image, in pixels
SIZE = 12  # of the font, in pixels
PROMPT = "text: "  # what the model is asked, between the image and the text


class Rendered(NamedTuple):
    """A batch of images with the text on them.

    ids [B, T], int64: prompt and text, as the model reads them.
    labels [B, T], int64: the ids moved by one, with an end; -100 inside the prompt and at padding.
    images [B, h, w], float32: brightness, from 0 (ground) to about 1 (ink).
    """

    ids: np.ndarray
    labels: np.ndarray
    images: np.ndarray


def lines(text: str, count: int, measured: bool = False, seed: int = 0) -> Iterator[str]:
    """`count` lines that fit on an image, of words of `text` and of numbers, all different.

    measured: lines that are held out, instead of lines that are not: a line is one or the other, whatever the seed.

    >>> list(lines("the quick brown fox", 3))
    ['quick brown 165', 'the quick', '2773 the']
    """
    drawn = np.random.default_rng((seed, int(measured)))
    known = sorted(set(re.findall(r"[A-Za-z]+", text)))
    seen: set[str] = set()
    while count:
        parts = [
            known[drawn.integers(len(known))] if known and drawn.random() < 0.8 else str(drawn.integers(10**4))
            for _ in range(drawn.integers(1, 4))
        ]
        line = " ".join(parts)
        if line in seen or held_out(line) != measured or not fits(line):
            continue
        seen.add(line)
        count -= 1
        yield line


def fits(line: str) -> bool:
    """Whether the image of a line is long enough for it.

    >>> fits("the quick"), fits("the quick brown fox jumps over the dog")
    (True, False)
    """
    return _font().getlength(line) <= LENGTH - 16


def held_out(line: str) -> bool:
    """Whether a line is kept for measuring: one in ten, in no order."""
    return hashlib.sha256(line.encode()).digest()[0] % 10 == 0


def render(line: str, slant: float = 0.0, x: int = 8, y: int = 0) -> np.ndarray:
    """The image of a line, [16, 128] uint8, 255 where there is ink.

    slant: how far a stroke leans to the right over its height, 0 upright. x, y: where the line begins.
    """
    from PIL import Image, ImageDraw

    image = Image.new("L", (LENGTH, HEIGHT))
    ImageDraw.Draw(image).text((x, y), line, fill=255, font=_font())
    lean = (1, slant, -slant * HEIGHT / 2, 0, 1, 0)
    return np.asarray(image.transform(image.size, Image.Transform.AFFINE, lean, Image.Resampling.BILINEAR))


@functools.cache
def _font() -> Any:
    try:
        from PIL import ImageFont
    except ImportError as error:
        raise DataError(f"images of text need Pillow ({error}); pip install 'tinygrad-edu[tools]'") from None
    return ImageFont.load_default(SIZE)


class RenderedSource(EpochSource):
    """Lines to train on, each once an epoch, in another order in each and every time rendered differently; and others
    to measure on.

    A line is moved by up to 6 pixels along it and 1 across, leans by up to 0.25, is lighter or darker, and has noise
    on it. training, validation: lines. tokenizer: with an end. block_size: the longest prompt and text, in tokens.

    Raises DataError where there is no line or one is too long, ValueError for a tokenizer without an end.
    """

    def __init__(
        self, training: Sequence[str], validation: Sequence[str], tokenizer: Tokenizer, block_size: int
    ) -> None:
        if tokenizer.end is None:
            raise ValueError("the text on an image needs a tokenizer with an end; make it with `bounded(True)`")
        if not training or not validation:
            raise DataError(f"{len(training)} lines to train on and {len(validation)} to measure on; give more")
        self.training, self.validation = list(training), list(validation)
        self.tokenizer, self.end, self.prompt = tokenizer, tokenizer.end, tokenizer.encode(PROMPT)
        encoded = [tokenizer.encode(line) for line in [*training, *validation]]
        longest = len(self.prompt) + max(map(len, encoded))
        if longest > block_size:
            raise DataError(f"prompt and text are up to {longest} tokens long; give block_size {longest} or more")
        self.tokens = sum(len(ids) + 1 for ids in encoded[: len(training)])
        self.largest = max(self.end, int(self.prompt.max()), *(int(ids.max(initial=0)) for ids in encoded))
        self.fingerprint = hashlib.sha256("\n".join([*training, "", *validation]).encode()).hexdigest()
        self.block_size, self.epochs = block_size, Epochs(len(self.training))

    def draw(self, rows: int, order: Generator) -> Rendered:
        seed, first = order.initial_seed(), self.epochs.drawn
        chosen = [self.training[i] for i in self.epochs.next(rows, seed)]
        return self.batch([(line, np.random.default_rng((seed, first + n, 1))) for n, line in enumerate(chosen)])

    def held_out(self, rows: int) -> Iterator[Rendered]:
        for start in range(0, len(self.validation), rows):
            part = self.validation[start : start + rows]
            yield self.batch([(line, np.random.default_rng((start + i, 2))) for i, line in enumerate(part)])

    def batch(self, chosen: Sequence[tuple[str, np.random.Generator]]) -> Rendered:
        """The batch of lines, each rendered as the numbers of its generator say."""
        texts = [self.tokenizer.encode(line) for line, _ in chosen]
        first = len(self.prompt)
        T = first + max(map(len, texts))
        ids, labels = np.zeros((len(chosen), T), np.int64), np.full((len(chosen), T), IGNORED, np.int64)
        for row, text in enumerate(texts):
            ids[row, : first + len(text)] = [*self.prompt, *text]
            labels[row, first - 1 : first + len(text)] = [*text, self.end]
        return Rendered(ids, labels, np.stack([varied(line, drawn) for line, drawn in chosen]))

    def first(self, count: int) -> np.ndarray:
        return self.prompt[:count]


def varied(line: str, drawn: np.random.Generator) -> np.ndarray:
    """An image of a line, [16, 128] float32, its place, slant, contrast and noise drawn at random."""
    image = render(line, drawn.uniform(-0.25, 0.25), int(drawn.integers(2, 9)), int(drawn.integers(-1, 2)))
    noise = drawn.standard_normal(image.shape, np.float32) * drawn.uniform(0.0, 0.15)
    return image.astype(np.float32) * (drawn.uniform(0.6, 1.0) / 255) + noise.astype(np.float32)
