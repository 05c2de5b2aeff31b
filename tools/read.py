"""Let a trained model read lines of text: python -m tools.read DIR IMAGE... [--text TEXT]."""

import dataclasses
import sys
from pathlib import Path

import numpy as np

from models import MODELS
from models.ocr import OCR
from tinygrad_edu.backend import check_device
from tinygrad_edu.data import DataError, Tokenizer
from tinygrad_edu.data.rendered import PROMPT, fits, varied
from tinygrad_edu.generation import beam_search
from tinygrad_edu.training import load_checkpoint
from tools.cli import Parser, UserError, elsewhere, ending, run, users_mistakes


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """What to read, and how."""

    text: str = ""
    """A text to be rendered, with noise and a slant, and read. Beside image files or instead of them."""

    save: str = ""
    """Write the rendered text to this image file."""

    seed: int = 0
    """Start of the random numbers for slant and noise."""

    beams: int = 4
    """Follow so many readings at once and give the likeliest."""

    device: str = "cpu"
    """Where to compute: cpu, cuda or cuda:1."""


def main(arguments: list[str]) -> int:
    """Print what stands on each image."""
    with users_mistakes():
        parser = Parser("read", "Let a trained model read images of one line of text each.")
        parser.add_argument("folder", metavar="DIR", help="the folder that training wrote")
        parser.add_argument("images", metavar="IMAGE", nargs="*", help="image files, dark on light or light on dark")
        parser.add_options(ReadOptions(), "reading")
        found = parser.parse(arguments)
        options = ReadOptions(**vars(found.reading))
        if not (found.images or options.text):
            raise UserError("give an image file, or --text TEXT to have one rendered")
        if options.beams < 1 or options.seed < 0:
            raise UserError(f"beams is {options.beams} and seed {options.seed}; they must be 1 or more, and 0 or more")
        device = check_device(options.device)
        checkpoint = load_checkpoint(found.folder)
        model = checkpoint.build(MODELS).to(device)
        if model.task != "images":
            raise elsewhere(found.folder, checkpoint.model, model.task)
        pictures = [opened(name, model.config.height, model.config.length) for name in found.images]
        if options.text:
            if not fits(options.text):
                raise UserError(
                    f"the text of {len(options.text)} characters does not fit on an image; give a shorter one"
                )
            pictures.append(varied(options.text, np.random.default_rng(options.seed)))
            if options.save:
                _save(pictures[-1], options.save)
    for picture in pictures:
        print(read(model, checkpoint.tokenizer, picture, options.beams))
    return 0


def read(model: OCR, tokenizer: Tokenizer, image: np.ndarray, beams: int = 4) -> str:
    """The text on an image [h, w], brightness from 0 (ground) to about 1 (ink)."""
    prompt = tokenizer.encode(PROMPT)
    longest = model.config.block_size - len(prompt)
    found = beam_search(
        model.reading(image[None]), prompt, longest, beams, stop=ending(tokenizer), vocab_size=len(tokenizer)
    )
    return tokenizer.decode(found[0].ids)


def opened(name: str, height: int, length: int) -> np.ndarray:
    """An image file as the model reads it: [height, length] float32, scaled to the height, ink bright.

    What is transparent counts as white.

    Raises DataError for a file that is no image, or a line too long for its height.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(name) as file:
            paper = Image.new("RGBA", file.size, "white")  # what is transparent shows
            grey = Image.alpha_composite(paper, file.convert("RGBA")).convert("L")
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise DataError(f"{name} cannot be read as an image ({error})") from None
    width = max(1, round(grey.width * height / grey.height))
    if width > length:
        raise DataError(
            f"{name} is {grey.width} x {grey.height} pixels; a line may be {length / height:g} times as long as it is "
            f"high: cut it into shorter ones"
        )
    scaled = np.asarray(grey.resize((width, height), Image.Resampling.BILINEAR), np.float32) / 255
    if np.median(scaled) > 0.5:  # dark ink on light ground
        scaled = 1 - scaled
    return np.pad(scaled, ((0, 0), (0, length - width)))


def _save(image: np.ndarray, name: str) -> None:
    from PIL import Image

    pixels = (image.clip(0, 1) * 255).astype(np.uint8)
    try:
        Image.fromarray(pixels).save(Path(name))
    except (OSError, ValueError) as error:
        raise UserError(f"{name} cannot be written ({error})") from None


if __name__ == "__main__":
    sys.exit(run("read", main))
