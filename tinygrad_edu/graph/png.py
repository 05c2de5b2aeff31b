"""A drawing as PNG: what a browser on this machine shows of the SVG, or what Graphviz makes of the DOT text."""

from __future__ import annotations

import math
import os
import re
import shutil
import struct
import subprocess
import tempfile
import zlib
from pathlib import Path

import numpy as np

from tinygrad_edu.files import write_atomically
from tinygrad_edu.graph.engine import LayoutError, drawn

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
_OPTIONS = ["--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--hide-scrollbars"]
# A browser keeps what it has drawn within a budget of memory, and leaves white what does not fit, without a word.
_OPTIONS.append("--force-gpu-mem-available-mb=4096")
_SHARPER = (2.0, 1.0, 0.5)  # pixels of the picture for one of the page; fewer where a picture comes out in part
_MOST, _LONGEST = 80_000_000, 32_000  # pixels of a picture, and of a side
_CERTAIN = 20_000_000  # pixels that have always come out whole
_SECONDS = 120.0
_PNG, _END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"
_CHANNELS = {2: 3, 6: 4}  # by the kinds of colour that browsers write: RGB and RGBA
_ROWS = 256  # of a picture that are in memory at once


def png(svg: str, text: str) -> bytes:
    """The drawing in pixels. svg, text: as SVG and in Graphviz's language. Raises LayoutError where neither works."""
    browser = find_browser()
    if browser is not None:
        wide, high = _size(svg)
        largest = min(math.sqrt(_MOST / (wide * high)), _LONGEST / max(wide, high))
        for sharper in sorted({min(sharper, largest) for sharper in _SHARPER}, reverse=True):
            shot = _screenshot(browser, svg, wide, high, sharper)
            if shot and is_whole(shot):
                return shot
            if not shot:
                break
    found = drawn(text, "png")
    if not found.startswith(_PNG):
        raise LayoutError("no PNG came of the drawing: install Chromium, or save an .svg, which every browser shows")
    return found


def find_browser() -> str | None:
    """The program of a Chromium on the PATH, or of one of its kind; None where there is none."""
    return next(filter(None, map(shutil.which, _BROWSERS)), None)


def is_whole(shot: bytes) -> bool:
    """Whether a PNG of a browser has ink in its last rows and columns, which are the last to be drawn.

    A drawing reaches into them, unless it is so small that its margin fills them; then it is not asked. The rows are
    looked at as they are filtered: by every filter, a row as white as the one above becomes the same byte throughout,
    apart from its first pixel. A file that is cut short is not whole.
    """
    if not shot.startswith(_PNG) or not shot.endswith(_END):
        return False
    width, height, depth, color = struct.unpack(">IIBB", shot[16:26])
    if width * height <= _CERTAIN or depth != 8 or color not in _CHANNELS:
        return True
    channels = _CHANNELS[color]
    line, stream, at, data = 1 + width * channels, zlib.decompressobj(), 8, []
    while at < len(shot):
        length, kind = struct.unpack(">I4s", shot[at : at + 8])
        data += [shot[at + 8 : at + 8 + length]] * (kind == b"IDAT")
        at += 12 + length
    below = right = False
    rest, block, row = b"".join(data), b"", 0
    while row < height:
        count = min(_ROWS, height - row)
        while len(block) < count * line:
            more = stream.decompress(rest, count * line - len(block))
            if not more:
                return False
            block, rest = block + more, stream.unconsumed_tail
        pixels = np.frombuffer(block, np.uint8).reshape(count, line)[:, 1 + channels :]
        inked = pixels.min(1) != pixels.max(1)
        last = pixels[:, -pixels.shape[1] // 4 :]
        below |= bool(inked[max(0, height * 3 // 4 - row) :].any())
        right |= bool((last.min(1) != last.max(1)).any())
        block, row = b"", row + count
    return below and right


def _size(svg: str) -> tuple[int, int]:
    """Width and height of an SVG, in pixels of a page."""
    box = re.search(r'viewBox="[-\d.]+ [-\d.]+ ([\d.]+) ([\d.]+)"', svg)
    assert box is not None
    wide, high = (math.ceil(float(points) * 4 / 3) for points in box.groups())  # a point is 4/3 pixels
    return wide, high


def _screenshot(browser: str, svg: str, wide: int, high: int, sharper: float) -> bytes:
    """What a browser shows of an SVG, nothing where it fails."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        page, shot = Path(folder) / "drawing.svg", Path(folder) / "drawing.png"
        write_atomically(page, svg)
        command = [browser, *_OPTIONS, f"--user-data-dir={folder}/profile", f"--screenshot={shot}"]
        command += [f"--window-size={wide},{high}", f"--force-device-scale-factor={sharper}"]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            command.append("--no-sandbox")  # Chromium starts for root in no other way
        try:
            subprocess.run([*command, page.as_uri()], capture_output=True, timeout=_SECONDS, check=False)
            return shot.read_bytes()
        except (OSError, subprocess.TimeoutExpired):
            return b""
