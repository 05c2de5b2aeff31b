"""Let a trained model read lines of text: python -m tools.read DIR IMAGE... [--text TEXT]."""

import contextlib
import dataclasses
import io
import itertools
import os
import stat
import sys
import warnings
from typing import Any

import numpy as np

from models import MODELS
from models.ocr import OCR
from tinygrad_edu.arrays.devices import check_device
from tinygrad_edu.data import DataError, Tokenizer
from tinygrad_edu.data.rendered import PROMPT, fits, varied
from tinygrad_edu.files import file_path, write_atomically
from tinygrad_edu.generation import beam_search
from tinygrad_edu.training import load_checkpoint
from tools.cli import Parser, UserError, elsewhere, ending, run, say, users_mistakes
from tools.limits import check_beams

# Formats of images that are read and written, as Pillow calls them, and how the names of their files end. TIFF is not
# among them: its library prints to stderr by itself, and has a decoder for every compression there ever was.
FORMATS = {
    "PNG": (".png",),
    "JPEG": (".jpg", ".jpeg"),
    "WEBP": (".webp",),
    "BMP": (".bmp",),
    "GIF": (".gif",),
}
MOST_PIXELS = 25_000_000  # takes up to about 300 MB while it is read
_LONGEST = 65_535  # pixels of a side; Pillow needs memory for every row as well
_MOST_BYTES = 8 * MOST_PIXELS + 2**20  # four channels of 16 bits, uncompressed
_MODES = ("1", "L", "LA", "La", "P", "PA", "RGB", "RGBX", "RGBA", "RGBa", "CMYK", "YCbCr")
_ORIENTATION = 0x0112  # in EXIF data


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """What to read, and how."""

    text: str = ""
    """A text to be rendered, with noise and a slant, and read. Beside image files or instead of them."""

    save: str = ""
    """Write the rendered text to this image file, in the format that its name ends in."""

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
        images = f"image files ({', '.join(FORMATS)}) of at most {MOST_PIXELS:,} pixels, dark on light or light on dark"
        parser.add_argument("images", metavar="IMAGE", nargs="*", help=images)
        parser.add_options(ReadOptions(), "reading")
        found = parser.parse(arguments)
        options = ReadOptions(**vars(found.reading))
        if not (found.images or options.text):
            raise UserError("give an image file, or --text TEXT to have one rendered")
        if options.save and not options.text:
            raise UserError("--save writes what --text renders; give a text")
        if options.beams < 1 or options.seed < 0:
            raise UserError(f"beams is {options.beams} and seed {options.seed}; they must be 1 or more, and 0 or more")
        device = check_device(options.device)
        checkpoint = load_checkpoint(found.folder)
        model = checkpoint.build(MODELS).to(device)
        if model.task != "images":
            raise elsewhere(found.folder, checkpoint.model, model.task)
        check_beams(options.beams, model.config.block_size, len(checkpoint.tokenizer))
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
        say(read(model, checkpoint.tokenizer, picture, options.beams))
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

    What is transparent counts as white. A photograph is turned as its EXIF data say.

    Raises DataError for a file that is not an image of one of the `FORMATS`, that is damaged, has several pages or more
    than `MOST_PIXELS`, and for a line too long for its height.
    """
    grey = _decoded(name)
    width = max(1, round(grey.width * height / grey.height))
    if width > length:
        raise DataError(
            f"{name} is {grey.width} x {grey.height} pixels; a line may be {length / height:g} times as long as it is "
            f"high: cut it into shorter ones"
        )
    scaled = np.asarray(grey.resize((width, height), _pillow().Resampling.BILINEAR), np.float32) / 255
    if np.median(scaled) > 0.5:  # dark ink on light ground
        scaled = 1 - scaled
    return np.pad(scaled, ((0, 0), (0, length - width)))


def _decoded(name: str) -> Any:
    """An image file as a PIL image in mode L, upright. Raises DataError for one that cannot be had, or would be large.

    Decoders are given the few formats that are meant: others start programs (EPS runs Ghostscript) or are never tested.
    """
    Image = _pillow()
    try:
        status = os.stat(name)
        if not stat.S_ISREG(status.st_mode):
            what = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe or a device"
            raise DataError(f"{name} is {what}; give an image file")
        if status.st_size > _MOST_BYTES:
            raise DataError(f"{name} has {status.st_size:,} bytes; an image may have {_MOST_BYTES:,}")
        with open(name, "rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sizes, which are checked here, and of metadata, which are not read
            with Image.open(file, formats=list(FORMATS)) as image:
                if image.width * image.height > MOST_PIXELS or max(image.size) > _LONGEST or min(image.size) < 1:
                    raise _oversized(name, f"is {image.width} x {image.height} pixels")
                if getattr(image, "is_animated", False) and image.format != "MPO":  # a photograph and its previews
                    raise DataError(f"{name} has several pages or frames; save the one to be read as a file of its own")
                image.load()
                return _upright(image, _grey(name, image))
    except DataError:
        raise
    except Image.DecompressionBombError:
        raise _oversized(name, "is larger") from None
    except Image.UnidentifiedImageError:
        raise DataError(f"{name} is damaged or not an image; known are {', '.join(FORMATS)}") from None
    except OSError as error:
        raise DataError(f"{name} cannot be read as an image ({error.strerror or error})") from None
    except Exception as error:  # decoders of damaged files raise anything: SyntaxError, struct.error, RuntimeError
        raise DataError(f"{name} cannot be read as an image ({type(error).__name__}: {error})") from None


def _oversized(name: str, what: str) -> DataError:
    return DataError(
        f"{name} {what}; an image may have {MOST_PIXELS:,} pixels, and {_LONGEST:,} a side: cut the line out of it, or "
        f"scale it down"
    )


def _grey(name: str, image: Any) -> Any:
    """The brightness of a loaded image, in mode L, on white paper."""
    Image = _pillow()
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG"):
        pixels = np.asarray(image)
        shown = np.where(pixels == image.info.get("transparency", -1), 65_535, pixels)
        return Image.fromarray((shown >> 8).astype(np.uint8))  # PIL would cut all above 255 off
    if image.mode not in _MODES:
        raise DataError(f"{name} has pixels of the kind {image.mode}; save it in grey or RGB, of 8 or 16 bits")
    if not image.has_transparency_data:
        return image.convert("L")
    image = image.convert("RGBA")
    return Image.composite(image.convert("L"), Image.new("L", image.size, "white"), image.getchannel("A"))


def _upright(image: Any, grey: Any) -> Any:
    """The pixels of an image, turned as its EXIF data say; data that cannot be read say nothing."""
    turn = _pillow().Transpose
    turns = {
        2: turn.FLIP_LEFT_RIGHT,
        3: turn.ROTATE_180,
        4: turn.FLIP_TOP_BOTTOM,
        5: turn.TRANSPOSE,
        6: turn.ROTATE_270,
        7: turn.TRANSVERSE,
        8: turn.ROTATE_90,
    }
    with contextlib.suppress(Exception):
        return grey.transpose(turns[image.getexif()[_ORIENTATION]])
    return grey


def _save(image: np.ndarray, name: str) -> None:
    """Write an image in the format that the name ends in. Raises UserError for another, OSError as the writer does."""
    kind = next((kind for kind, endings in FORMATS.items() if file_path(name).suffix.lower() in endings), None)
    if kind is None:
        raise UserError(f"{name}: end the name in one of {', '.join(itertools.chain(*FORMATS.values()))}")
    content = io.BytesIO()
    picture = _pillow().fromarray((image.clip(0, 1) * 255).astype(np.uint8))
    picture.save(content, kind)
    write_atomically(name, content.getvalue())


def _pillow() -> Any:
    """The module PIL.Image, which is loaded only where an image is read or written."""
    from PIL import Image

    return Image


if __name__ == "__main__":
    sys.exit(run("read", main))
