"""The words of pictures and ledgers: written in English where they are used, said in the language that is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tinygrad_edu.graph.chinese import CHINESE
from tinygrad_edu.graph.chinese_formulas import FORMULAS

_TABLES: dict[str, dict[str, str]] = {"en": {}, "zh": CHINESE | FORMULAS}
LANGUAGES = tuple(_TABLES)
_spoken: ContextVar[tuple[tuple[str, object], ...]] = ContextVar(
    "spoken", default=(("en", object()),)
)  # a list of blocks, so that they may end in any order


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Within the block, `say` and `word` speak this language. Raises ValueError for one that they do not know."""
    if language not in _TABLES:
        raise ValueError(f"language: pictures speak {' and '.join(LANGUAGES)}, not {language!r}")
    block = (language, object())
    _spoken.set((*_spoken.get(), block))
    try:
        yield
    finally:
        _spoken.set(tuple(b for b in _spoken.get() if b is not block))


def spoken() -> str:
    """The language that is spoken now."""
    return _spoken.get()[-1][0]


def word(text: str) -> str:
    """An English text, or a template of one, in the language that is spoken; as it is where that has none for it.

    >>> with speaking("zh"):
    ...     word("no gradient"), word("an op of one's own")
    ('无梯度', "an op of one's own")
    """
    return _TABLES[spoken()].get(text, text)


def say(text: str, /, **values: object) -> str:
    """An English template in the language that is spoken, filled with values.

    >>> say("{seen} of {all} visible", seen=15, all=25)
    '15 of 25 visible'
    """
    return word(text).format(**values)
