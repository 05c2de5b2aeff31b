"""Formulas of ops and gradient branches, written with the names of the values they are about."""

from __future__ import annotations

import math
import re
from typing import Any

_PRODUCT = re.compile(r"[^\s·⊙+−/]+·[^\s·⊙+−/]+")


def number_text(x: float) -> str:
    """A number as a formula shows it.

    >>> [number_text(x) for x in (2.0, 0.5, 1e-05, float("-inf"), 1 / 3)]
    ['2', '0.5', '1e-5', '−∞', '0.3333']
    """
    if math.isinf(x):
        return "∞" if x > 0 else "−∞"
    if math.isnan(x):
        return "NaN"
    text = str(int(x)) if float(x).is_integer() and abs(x) < 1e9 else f"{x:.4g}"
    return re.sub(r"e([+-])0*", lambda m: "e-" if m[1] == "-" else "e", text).replace("-", "−", text.startswith("-"))


def scale_text(op: str, x: float, contracted: int | None) -> str:
    """What stands behind a formula whose value is multiplied or divided by a number: "/ √12" for 1/√12.

    contracted: the length of the axis that a product before it sums over; where the number is 1/√ of that, it is
    written so.

    >>> scale_text("mul", 0.5, 4), scale_text("mul", 0.5, 3), scale_text("mul", 12**-0.5, None)
    (' / √4', ' · 0.5', ' / √12')
    """
    if op == "neg":
        return ""
    if x > 0:
        square = x * x if op == "div" else 1 / (x * x)
        whole = round(square)
        if (
            1 < whole < 1e6
            and abs(square - whole) < 1e-6 * whole
            and (contracted == whole or math.isqrt(whole) ** 2 != whole)
        ):
            return f" / √{whole}"
    return f" {'/' if op == 'div' else '·'} {number_text(x)}"


def fill(template: str, names: dict[str, str], missing: set[str], static: dict[str, Any]) -> str:
    """A docstring's template with names in place of arguments; what a missing input would add is left out.

    names: argument (and "out") to text. missing: inputs that were not given. static: the op's static arguments.

    >>> fill("{out} = {x}·{weight}ᵀ + {bias}", {"out": "y", "x": "h", "weight": "W"}, {"bias"}, {})
    'y = h·Wᵀ'
    >>> fill("d{x} = d{out} ⊙ {y}", {"out": "s", "x": "q", "y": "2"}, set(), {})
    'dq = ds · 2'
    >>> fill("d{x} = {n} · d{out} ⊙ {x}^({n} − 1)", {"out": "s", "x": "q"}, set(), {"n": 2})
    'dq = 2 · ds ⊙ q'
    """
    for name in missing:
        template = re.sub(rf"\s*[+⊙]\s*\{{{name}\}}", "", template)
    for name, text in names.items():
        if re.fullmatch(r"−?[\d.]+(e-?\d+)?", text):
            template = template.replace(f"⊙ {{{name}}}", f"· {{{name}}}").replace(f"{{{name}}} ⊙", f"{{{name}}} ·")

    def put(match: re.Match[str]) -> str:
        key = match[1]
        if key in names:
            return names[key]
        text = static_text(key, static[key]) if key in static else key
        return re.sub(r"\{(\w+)\}", lambda inner: names.get(inner[1], inner[1]), text)

    text = re.sub(r"\{(\w+)\}", put, template).replace("ᵀᵀ", "")
    return re.sub(r"\^\((−?[\d.]+) − 1\)", _lowered, text)


def _lowered(match: re.Match[str]) -> str:
    """An exponent less 1, worked out; the exponent 1 goes without saying."""
    exponent = float(match[1].replace("−", "-")) - 1
    return "" if exponent == 1 else f"^{number_text(exponent)}"


def static_text(name: str, value: Any) -> str:
    """A static argument as a formula shows it."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int | float):
        return number_text(value)
    if isinstance(value, tuple | list):
        return ", ".join(static_text("", item) for item in value)
    return str(value)


def transposed(text: str) -> str:
    """The transpose of what a formula computes.

    >>> transposed("qᵀ·dS"), transposed("a + b")
    ('dSᵀ·q', '(a + b)ᵀ')
    """
    if _PRODUCT.fullmatch(text):
        left, right = text.split("·")
        return f"{transposed(right)}·{transposed(left)}"
    if re.search(r"[\s·⊙+−/]", text):
        return f"({text})ᵀ"
    return text[:-1] if text.endswith("ᵀ") else text + "ᵀ"


def scaled(text: str, scale: str, negative: bool = False) -> str:
    """A formula with a scaling behind it or a minus in front, in parentheses where it is no single product.

    >>> scaled("q·kᵀ", " / √4"), scaled("a + b", " / 2"), scaled("z with x at 1:", " · 3")
    ('q·kᵀ / √4', '(a + b) / 2', '(z with x at 1:) · 3')
    """
    if not scale and not negative:
        return text
    if not _is_product(text):
        text = f"({text})"
    return ("−" if negative else "") + text + scale


def shifted(text: str, shift: str) -> str:
    """A formula with something added behind it, in parentheses where it ends in words that would take it in.

    >>> shifted("x·W", " + b"), shifted("exp x", " + 1"), shifted("Σ x over k", " + 1")
    ('x·W + b', 'exp x + 1', '(Σ x over k) + 1')
    """
    words = _outside(text).split()
    wordy = any(word.endswith((",", ":")) or word in ("with", "where", "over", "at") for word in words)
    wordy |= any("\u4e00" <= c <= "\u9fff" for c in _outside(text))
    return (f"({text})" if wordy else text) + shift


def _outside(text: str) -> str:
    """A formula without what stands in parentheses and brackets."""
    depth, kept = 0, []
    for c in text:
        depth -= c in ")]"
        if depth == 0:
            kept.append(c)
        depth += c in "(["
    return "".join(kept)


def _is_product(text: str) -> bool:
    """Whether a formula is one factor, or factors with nothing but products and quotients between them."""
    words = _outside(text).split()
    return len(words) % 2 == 1 and all(word in ("·", "⊙", "/") for word in words[1::2])


def is_sum(text: str) -> bool:
    """Whether a formula has a plus, a minus or a comma outside of all parentheses."""
    outside = _outside(text)
    return any(sign in outside for sign in (" + ", " − ", ", "))


def until_comma(text: str) -> str:
    """A formula without the remarks behind its first comma outside of parentheses."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if depth == 0 and text[i : i + 2] == ", ":
            return text[:i]
    return text
