"""Models that answer and read, from the command line: what tools.generate and tools.read do, and what they refuse."""

import io
import os
import re
import resource
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tinygrad_edu.data import DataError
from tools import cli, fill, generate, read, train


def run(tool: Any, *arguments: Any) -> int:
    return cli.run(tool.__name__.rpartition(".")[2], tool.main, [str(a) for a in arguments])


def trained(model: str, folder: Path, *options: Any) -> Path:
    assert run(train, model, "--preset", "tiny", "--threads", 1, "--out", folder / model, *options) == 0
    return folder / model


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    (folder / "pairs.jsonl").write_text('{"prompt": "abc", "answer": "xyyy"}\n' * 20)
    return trained(
        "seq2seq",
        folder,
        "--data",
        folder / "pairs.jsonl",
        "--val-fraction",
        0,
        "--steps",
        60,
        "--warmup",
        5,
        "--lr",
        0.01,
    )


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained("ocr", tmp_path_factory.mktemp("images"), "--steps", 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--prompt", "a" * 999], "999 tokens of the source in a row"),
        (["--prompt", "a" * 999, "--beams", 2], "999 tokens of the source in a row"),
        ([], "the prompt is empty"),
        (["--prompt", "a", "--beams", -1], "must be 1 or more"),
        (["--prompt", "a", "--repetition-penalty", 0], "repetition_penalty is 0"),
    ],
)
def test_an_answer_that_cannot_be_given(
    options: list[Any], said: str, pairs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(generate, pairs, *options) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_every_option_counts_for_an_answer(pairs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def answer(*options: Any) -> str:
        assert run(generate, pairs, "--prompt", "abc", *options) == 0
        return capsys.readouterr().out.removesuffix("\n")

    for way in (["--temperature", 0], ["--beams", 2]):
        assert answer(*way) == "xyyy"
        assert answer(*way, "--stop", "yy") == "x"
    assert answer("--repetition-penalty", 1e9) != answer()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--text", "hi", "--beams", 0], "beams is 0"),
        (["--text", "hi", "--seed", -1], "seed -1"),
        (["--text", "long " * 30], "150 characters does not fit"),
        ([], "give an image file"),
    ],
)
def test_what_cannot_be_read(options: list[Any], said: str, reader: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(read, reader, *options) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_a_transparent_ground_is_paper(tmp_path: Path) -> None:
    ink = np.zeros((16, 40), np.uint8)
    ink[4:12, 5:9] = 255
    Image.fromarray(255 - ink).save(tmp_path / "paper.png")
    Image.fromarray(np.stack([0 * ink, 0 * ink, 0 * ink, ink], axis=-1)).save(tmp_path / "glass.png")
    paper, glass = (read.opened(str(tmp_path / name), 16, 128) for name in ("paper.png", "glass.png"))
    assert paper.max() == 1
    np.testing.assert_array_equal(glass, paper)


# images


def picture(kind: str, image: Image.Image, **options: Any) -> bytes:
    content = io.BytesIO()
    image.save(content, kind, **options)
    return content.getvalue()


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int, height: int, after: bytes = b"", pixels: int = 100) -> bytes:
    """A PNG that states a size, has pixels for 16 rows of 64, as many bytes of them as asked for, and chunks after."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = zlib.compress(b"\0" * 65 * 16)[:pixels]
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + (after or chunk(b"IEND", b""))


def exif(orientation: int) -> Image.Exif:
    data = Image.Exif()
    data[0x0112] = orientation
    return data


GREY = np.random.default_rng(0).integers(0, 200, (16, 64), np.uint8)
GREY[0, :] = 255
SPLIT = Image.fromarray(GREY)


KINDS = {
    "PNG": picture("PNG", SPLIT),
    "BMP": picture("BMP", SPLIT.convert("RGB")),
    "GIF": picture("GIF", SPLIT),
    "WEBP": picture("WEBP", SPLIT.convert("RGB"), lossless=True),
    "palette": picture("PNG", SPLIT.convert("P")),
    "grey and alpha": picture("PNG", SPLIT.convert("LA")),
    "alpha": picture("PNG", SPLIT.convert("RGBA")),
    "16 bits": picture("PNG", Image.fromarray(GREY.astype(np.uint16) * 257)),
    "16 bits, a transparent value": picture(
        "PNG", Image.fromarray(np.where(GREY == 255, 7, GREY.astype(np.uint16) * 257)), transparency=7
    ),
    "turned": picture("PNG", SPLIT.transpose(Image.Transpose.ROTATE_90), exif=exif(6)),
    "mirrored": picture("PNG", SPLIT.transpose(Image.Transpose.FLIP_LEFT_RIGHT), exif=exif(2)),
    "transposed": picture("PNG", SPLIT.transpose(Image.Transpose.TRANSPOSE), exif=exif(5)),
    "EXIF data damaged": picture("PNG", SPLIT)[:33] + chunk(b"eXIf", b"nonsense") + picture("PNG", SPLIT)[33:],
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_image_is_read_alike(kind: str, tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(KINDS[kind])
    found = read.opened(str(tmp_path / "image"), 16, 128)
    np.testing.assert_allclose(found[:, :64] * 255, GREY, atol=1)
    assert not found[:, 64:].any()


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_images_that_lose_a_little(mode: str, tmp_path: Path) -> None:
    grey = np.kron(np.array([[10, 250, 60, 10, 100, 10, 10, 0]] * 2, np.uint8), np.ones((8, 8), np.uint8))
    (tmp_path / "image").write_bytes(picture("JPEG", Image.fromarray(grey).convert("RGB").convert(mode)))
    found = read.opened(str(tmp_path / "image"), 16, 128)[:, :64]
    np.testing.assert_allclose(found * 255, grey, atol=4)


BROKEN = b"\0\0\0\x10\x10\x95`#" + b"x" * 20  # a chunk whose kind is no kind
DAMAGED = {
    "empty": (b"", "is damaged or not an image; known are PNG, JPEG, WEBP, BMP, GIF"),
    "text": (b"hello", "is damaged or not an image"),
    "EPS": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n", "is damaged or not an image"),
    "TIFF": (picture("TIFF", SPLIT), "is damaged or not an image"),
    "PDF": (picture("PDF", SPLIT), "is damaged or not an image"),
    "ICO": (picture("ICO", SPLIT), "is damaged or not an image"),
    "cut short": (picture("PNG", SPLIT)[:200], "cannot be read as an image"),
    "JPEG cut short": (picture("JPEG", SPLIT)[:-80], "cannot be read as an image"),
    "WEBP cut short": (picture("WEBP", SPLIT)[:-40], "cannot be read as an image"),
    "broken chunk": (png(64, 16, BROKEN, pixels=10), "cannot be read as an image (SyntaxError"),
    "no pixels": (png(0, 16), "is damaged or not an image"),
    "bomb": (png(11_000, 11_000), "is 11000 x 11000 pixels; an image may have 25,000,000 pixels"),
    "large bomb": (png(2**31 - 1, 2**31 - 1), "is larger; an image may have"),
    "tall": (png(1, 100_000), "is 1 x 100000 pixels; an image may have"),
    "long": (png(64, 1), "is 64 x 1 pixels; a line may be 8 times as long as it is high"),
    "text bomb": (
        png(64, 16, chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(10**7))) + chunk(b"IEND", b"")),
        "cannot be read as an image",
    ),
    "frames": (
        picture("GIF", SPLIT, save_all=True, append_images=[SPLIT.rotate(180)]),
        "has several pages or frames",
    ),
}


@pytest.mark.parametrize("case", DAMAGED)
@pytest.mark.filterwarnings("error")
def test_what_is_no_image_is_one_line(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "image").write_bytes(DAMAGED[case][0])
    monkeypatch.setattr(subprocess, "Popen", None)  # no other program has a part in it
    with pytest.raises(DataError, match=re.escape(f"{tmp_path / 'image'} {DAMAGED[case][1]}")):
        read.opened(str(tmp_path / "image"), 16, 128)
    assert capfd.readouterr() == ("", "")


def test_a_large_image_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    """Also in formats whose files state their size elsewhere."""
    sizes = {"GIF": (6, "<HH"), "BMP": (18, "<ii"), "JPEG": (picture("JPEG", SPLIT).index(b"\xff\xc0") + 5, ">HH")}
    for kind, (at, form) in sizes.items():
        content = bytearray(picture(kind, SPLIT))
        content[at : at + struct.calcsize(form)] = struct.pack(form, 12_000, 12_001)
        (tmp_path / kind).write_bytes(content)
        with pytest.raises(DataError, match=r"is 1200. x 1200. pixels"):
            read.opened(str(tmp_path / kind), 16, 128)
    with open(tmp_path / "large", "wb") as file:
        file.truncate(10**10)  # takes no room on the disk
    with pytest.raises(DataError, match=r"has 10,000,000,000 bytes"):
        read.opened(str(tmp_path / "large"), 16, 128)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_only_files_are_images(reader: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, said in (("", "is a folder"), ("pipe", "is a pipe or a device"), ("none", "No such file or directory")):
        assert run(read, reader, tmp_path / name) == 2
        told = capsys.readouterr().err
        assert said in told
        assert told.count("\n") == 1


def test_too_little_memory_for_an_image_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError

    (tmp_path / "image").write_bytes(picture("PNG", SPLIT))
    monkeypatch.setattr(Image.Image, "convert", fail)
    with pytest.raises(DataError, match="MemoryError"):
        read.opened(str(tmp_path / "image"), 16, 128)


def test_the_rendered_text_is_saved(reader: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = np.random.default_rng(0).random((16, 128), np.float32) / 2
    for ending in ("png", "PNG", "jpg", "jpeg", "bmp", "gif", "webp"):
        read._save(image, str(tmp_path / f"image.{ending}"))
        lost = 0.2 if ending[0] in "jw" else 0.005
        np.testing.assert_allclose(read.opened(str(tmp_path / f"image.{ending}"), 16, 128), image, atol=lost)
    assert run(read, reader, "--text", "hi", "--save", tmp_path / "text.png") == 0
    (tmp_path / "text.png").chmod(0o600)
    (tmp_path / "link.png").symlink_to("text.png")
    assert run(read, reader, "--text", "other", "--save", tmp_path / "link.png") == 0
    assert (tmp_path / "link.png").is_symlink()
    assert (tmp_path / "text.png").stat().st_mode & 0o777 == 0o600
    before = (tmp_path / "text.png").read_bytes()
    capsys.readouterr()
    for options, said in (
        (["--text", "hi", "--save", "a.eps"], "a.eps: end the name in one of .png, .jpg, .jpeg, .webp, .bmp, .gif"),
        (["--text", "hi", "--save", tmp_path / "none" / "a.png"], "No such file or directory"),
        (["--text", "hi", "--save", f"{tmp_path}/a.png/"], "names a folder, not a file"),
        (["--text", "hi", "--save", ""], "--save is empty"),
        ([tmp_path / "text.png", "--save", "a.png"], "--save writes what --text renders"),
    ):
        assert run(read, reader, *options) == 2
        told = capsys.readouterr().err
        assert said in told
        assert told.count("\n") == 1
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
    try:
        assert run(read, reader, "--text", "hi", "--save", tmp_path / "text.png") == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert f"File too large: '{tmp_path / 'text.png'}'" in capsys.readouterr().err
    assert (tmp_path / "text.png").read_bytes() == before


def test_each_tool_names_the_one_for_the_model(pairs: Path, reader: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for tool, folder, words, named in (
        (fill, reader, ["[MASK]"], "read"),
        (fill, pairs, ["[MASK]"], "generate"),
        (generate, reader, [], "read"),
        (read, pairs, ["--text", "x"], "generate"),
    ):
        assert run(tool, folder, *words) == 2
        assert f"let tools.{named} run it" in capsys.readouterr().err
