"""Text and cells of the HTML-like tables that Graphviz's labels are made of."""

from __future__ import annotations

from tinygrad_edu.graph.text import markup, width

PAD = 4


def run(text: str, size: int, color: str, bold: bool = False, mono: bool = False) -> str:
    """Text in one font and colour."""
    inner = f"<B>{markup(text)}</B>" if bold else markup(text)
    return f'<FONT FACE="{"Courier" if mono else "Helvetica"}" POINT-SIZE="{size}" COLOR="{color}">{inner}</FONT>'


def cell(
    lines: list[str] | str,
    size: int,
    color: str,
    ground: str = "",
    bold: bool = False,
    mono: bool = False,
    align: str = "LEFT",
    more: str = "",
    pad: int = PAD,
    least: int = 0,
) -> str:
    """A cell of lines of text, as wide as they are in our own measure, since engines guess it differently.

    more: further attributes; pad: points left and right of the text; least: points that it is wide at least.
    """
    lines = [line for text in ([lines] if isinstance(lines, str) else lines) for line in text.split("\n")]
    wide = max(least, *(width(line, size, bold, mono) + 2 * pad for line in lines))
    fill = f' BGCOLOR="{ground}"' if ground else ""
    end = f'<BR ALIGN="{align}"/>'
    runs = [run(line, size, color, bold, mono) if line else "" for line in lines]
    text = runs[0] if len(runs) == 1 else "".join(run + end for run in runs)
    return f'<TD ALIGN="{align}" WIDTH="{wide}"{fill}{more}>{text}</TD>'


def table(rows: list[str], border: int = 0, color: str = "", ground: str = "", pad: int = PAD) -> str:
    """A table of rows, each the text of its cells."""
    extra = (f' COLOR="{color}"' if color else "") + (f' BGCOLOR="{ground}"' if ground else "")
    body = "".join(f"<TR>{row}</TR>" for row in rows)
    return f'<TABLE BORDER="{border}" CELLBORDER="0" CELLSPACING="0" CELLPADDING="{pad}"{extra}>{body}</TABLE>'
