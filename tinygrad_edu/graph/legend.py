"""What the colours of a picture mean: a line for the kinds of cards that are on it, and one for its inputs."""

from __future__ import annotations

import re

from tinygrad_edu.graph import style
from tinygrad_edu.graph.cells import cell, table
from tinygrad_edu.graph.picture import Card, Picture
from tinygrad_edu.graph.text import shorten
from tinygrad_edu.graph.words import say

_BAR = 5  # points that a bar is wide
_KINDS = {
    "plain": "token-wise",
    "pairs": "token pairs",
    "mixes": "moves content between tokens",
    "visibility": "visibility",
    "parameter": "parameter",
    "derived": "of a gradient",
    "same": "equal",
    "changed": "changed",
    "added": "added",
    "removed": "removed",
}


def stream(at: int) -> str:
    """The colour of an input, by its place among all."""
    return style.STREAMS[at % len(style.STREAMS)]


def barred(card: Card, rows: list[str]) -> list[str]:
    """The rows of a card's table with a bar in front for each input that it reads."""
    bars = "".join(
        f'<TD ROWSPAN="{len(rows)}" WIDTH="{_BAR}" CELLPADDING="0" BGCOLOR="{stream(at)}"></TD>' for at in card.streams
    )
    return [bars + rows[0], *rows[1:]]


def legend(picture: Picture, least: int) -> list[str]:
    """The lines as rows of a table that is `least` points wide or more; none where there is nothing to tell apart."""
    cards = picture.cards()
    shown = {card.kind for card in cards} | {found.kind for card in cards for found in card.cells}
    chips = [
        cell(say(words), 9, style.LOOKS[kind].ink, style.LOOKS[kind].header, pad=6)
        for kind, words in _KINDS.items()
        if kind in shown
    ]
    read = sorted({at for card in cards for at in card.streams})
    bars = [
        f'<TD WIDTH="{_BAR}" CELLPADDING="0" BGCOLOR="{stream(at)}"></TD>'
        + cell(shorten(picture.streams[at], 24), 9, style.INK, pad=3)
        for at in read
    ]
    if bars:
        bars.insert(0, cell(say("reads from:"), 9, style.GREY, pad=0))
    return [_line(found, least) for found in (chips, bars) if len(found) > 1]


def _line(cells: list[str], least: int) -> str:
    """Cells side by side; an empty one behind them takes the room that is left, or else all would be spread over it."""
    text = "".join(cells)
    room = least - sum(map(int, re.findall(r'WIDTH="(\d+)"', text)))
    text += f'<TD WIDTH="{room}"></TD>' if room > 0 else ""
    return f'<TD ALIGN="LEFT" CELLPADDING="0">{table([text], pad=3)}</TD>'
