"""Text that fits and cannot break anything: widths that hold on every engine, and escaping for labels."""

from __future__ import annotations

import math
import unicodedata
from functools import lru_cache

# Widths in em: for each class the widest in Arial, Helvetica and DejaVu Sans, so that a cell is wide enough whichever
# of them draws the text. Bold is at most 1.18 times as wide.
_CLASSES = {
    0.34: "ijlI',.:;|/\\· ",
    0.42: '!()[]-rtf"',
    0.56: "sz?_*`J",
    0.65: "abcdeghknopquvxy0123456789${}FLT",
    0.73: "ABCEKPRSVXYZU",
    0.79: "DGHNOQ&",
    0.84: "wM+=<>~^#−×⊙⇅≤∞",
    1.02: "mW@%…→",
}
_WIDTHS = {c: w for w, chars in _CLASSES.items() for c in chars}
_BOLD = 1.18
_MONO = 0.605


@lru_cache(1 << 14)
def width(text: str, size: float, bold: bool = False, mono: bool = False) -> int:
    """Points that one line of text takes at most, at a font size in points.

    >>> width("Q·Kᵀ", 10), width("softmax", 10, mono=True), width("注意力", 10)
    (24, 43, 30)
    """
    total = math.fsum(_em(c, mono) for c in text) * size  # sum() rounds in another way from Python 3.12 on
    return -int(-total * (_BOLD if bold and not mono else 1.0) // 1)


def _em(c: str, mono: bool) -> float:
    if unicodedata.combining(c):
        return 0.0
    if unicodedata.east_asian_width(c) in "WF":
        return 1.0
    if mono:
        return _MONO if c < "\u0500" or unicodedata.decomposition(c).startswith(("<super>", "<sub>")) else 0.9
    known = _WIDTHS.get(c)
    if known is None:
        known = 0.46 if unicodedata.decomposition(c).startswith(("<super>", "<sub>")) else 0.82 if c < "\u0500" else 1.0
    return known


def clean(text: str) -> str:
    """Without what XML cannot hold: control characters but line ends and half surrogate pairs become U+FFFD.

    >>> clean("a\\x1b[0m\\tb")
    'a\\ufffd[0m b'
    """
    if text.isprintable():
        return text
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\t", " ")
    return "".join(c if c == "\n" or _fits_xml(c) else "\ufffd" for c in text)


def _fits_xml(c: str) -> bool:
    n = ord(c)
    return 0x20 <= n < 0x7F or 0xA0 <= n < 0xD800 or (n >= 0xE000 and n & 0xFFFE != 0xFFFE)


@lru_cache(1 << 14)
def markup(text: str) -> str:
    """One line of text inside an HTML-like label, so that exactly it is shown.

    >>> markup('<b>"x" & y]')
    '&lt;b&gt;&quot;x&quot; &amp; y&#93;'
    """
    text = clean(text).replace("\n", " ").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = (
        text.replace('"', "&quot;").replace("]", "&#93;").replace("\\", "&#92;&#92;")
    )  # \\N would mean the node's name
    return text.replace("  ", " &#160;") if "  " in text else text


def quoted(text: str) -> str:
    """A DOT string in double quotes, taken literally."""
    text = clean(text).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'


def shorten(text: str, most: int) -> str:
    """At most so many characters, the middle left out.

    >>> shorten("encoder.layers.attention", 13)
    'encode…ention'
    """
    if len(text) <= most:
        return text
    return text[: (most - 1) // 2] + "…" + text[len(text) - (most - 1 - (most - 1) // 2) :]


def wrap(text: str, most: int) -> list[str]:
    """Lines of at most `most` characters where the spaces allow it, rather broken behind a comma than elsewhere.

    >>> wrap("dx = (h − mean h) / σ, h = dy ⊙ W", 24)
    ['dx = (h − mean h) / σ,', 'h = dy ⊙ W']
    """
    lines = []
    while len(text) > most:
        at = text.rfind(", ", most // 2, most + 1) + 1 or text.rfind(" ", most // 3, most + 1)
        if at <= 0:
            at = text.find(" ", most)
            if at < 0:
                break
        lines.append(text[:at].rstrip())
        text = text[at:].lstrip()
    return [*lines, text]
