"""A drawing as PNG: what a browser on this machine shows of the SVG, or what Graphviz makes of the DOT text."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tinygrad_edu.files import write_atomically
from tinygrad_edu.graph.engine import LayoutError, drawn

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
_OPTIONS = ["--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--hide-scrollbars"]
_SHARPER = 2  # pixels of the picture for one of the page
_SECONDS = 60.0


def png(svg: str, text: str) -> bytes:
    """The drawing in pixels. svg, text: as SVG and in Graphviz's language. Raises LayoutError where neither works."""
    browser = find_browser()
    if browser is not None:
        shot = _screenshot(browser, svg)
        if shot:
            return shot
    found = drawn(text, "png")
    if not found.startswith(b"\x89PNG"):
        raise LayoutError("no PNG came of the drawing: install Chromium, or save an .svg, which every browser shows")
    return found


def find_browser() -> str | None:
    """The program of a Chromium on the PATH, or of one of its kind; None where there is none."""
    return next(filter(None, map(shutil.which, _BROWSERS)), None)


def _screenshot(browser: str, svg: str) -> bytes:
    """What a browser shows of an SVG, nothing where it fails."""
    box = re.search(r'viewBox="[-\d.]+ [-\d.]+ ([\d.]+) ([\d.]+)"', svg)
    assert box is not None
    wide, high = (math.ceil(float(points) * 4 / 3) for points in box.groups())  # a point is 4/3 pixels
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        page, shot = Path(folder) / "drawing.svg", Path(folder) / "drawing.png"
        write_atomically(page, svg)
        command = [browser, *_OPTIONS, f"--user-data-dir={folder}/profile", f"--screenshot={shot}"]
        command += [f"--window-size={wide},{high}", f"--force-device-scale-factor={_SHARPER}"]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            command.append("--no-sandbox")  # Chromium starts for root in no other way
        try:
            subprocess.run([*command, page.as_uri()], capture_output=True, timeout=_SECONDS, check=False)
            return shot.read_bytes()
        except (OSError, subprocess.TimeoutExpired):
            return b""
