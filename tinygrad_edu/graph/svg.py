"""What Graphviz drew, made fit to be shown anywhere: with words for it, a dark palette, and life under the mouse."""

from __future__ import annotations

import re
from html import escape

from tinygrad_edu.graph import style
from tinygrad_edu.graph.picture import Card, Picture
from tinygrad_edu.graph.text import clean

_MOST = 400  # cards that light up their wires under the mouse; each takes a rule of the style
_FONTS = (
    'text[font-family^="Helvetica"]{font-family:Helvetica,Arial,"Liberation Sans","DejaVu Sans",sans-serif}'
    'text[font-family^="Courier"]{font-family:"Courier New",Courier,"Liberation Mono","DejaVu Sans Mono",monospace}'
)


def finished(drawn: str, picture: Picture) -> str:
    """The SVG that `dot` wrote, with a title, a description and titles for all parts instead of ids, and a style.

    It holds no script, no address and no comment, so it can stand inside a page as well as alone.
    """
    titles = _titles(picture)

    def title(match: re.Match[str]) -> str:
        key = re.sub(r".*&gt;([eg]\d+).*|([eg]\d+).*&gt;.*", r"\1\2", match[1])
        return f"<title>{escape(clean(titles.get(key, picture.title)), quote=False)}</title>"

    body = drawn[drawn.index("<svg") :]
    body = re.sub(r"<!--.*?-->\n?", "", body, flags=re.DOTALL)
    body = re.sub(r"<title>([^<]*)</title>", title, body)
    body = re.sub(r'\s+xmlns:xlink="[^"]*"', "", body)
    body = _titles_on_top(_together(_joined(body)))
    opening, _, rest = body.partition(">")
    described = f"<title>{escape(clean(picture.title), quote=False)}</title>\n<desc>{_description(picture)}</desc>"
    return f'{opening} role="img">\n{described}\n<style>{_style(picture)}</style>{rest}'


def _joined(body: str) -> str:
    """The upper half of every wire drawn on through the label's port, up to where the lower half begins."""
    half = re.compile(r'<g id="([eg]\d+)([ab])" class="edge.*?</g>', re.DOTALL)
    path = re.compile(r' d="M([-\d.]+,[-\d.]+)([^"]*)"')
    starts = {m[1]: path.findall(m[0]) for m in half.finditer(body) if m[2] == "b"}

    def join(match: re.Match[str]) -> str:
        below = iter(starts.get(match[1], []))
        if match[2] == "b":
            return match[0]
        return path.sub(lambda m: f' d="M{m[1]}{m[2]}L{next(below, m)[0]}"', match[0])

    return half.sub(join, body)


def _together(body: str) -> str:
    """Name and gradient on a wire's label as one line of text, so that the space between them is that of the font."""
    text = r'<text xml:space="preserve" text-anchor="start" x="[^"]*" y="([^"]*)"([^>]*)>([^<]*)</text>'
    pair = re.compile(rf"({text})\n({text})")

    def join(match: re.Match[str]) -> str:
        if match[2] != match[6]:
            return match[0]
        start = match[1].partition(match[3])[0]
        return f"{start}><tspan{match[3]}>{match[4]}</tspan><tspan{match[7]}>&#160;{match[8]}</tspan></text>"

    label = re.compile(r'<g id="e\d+" class="node wire.*?</g>', re.DOTALL)
    return label.sub(lambda found: pair.sub(join, found[0], count=1), body)


def _titles_on_top(body: str) -> str:
    """The titles of clusters drawn last, above the wires that pass them, each with a rim of the cluster's ground."""
    cluster = re.compile(r'<g id="cluster_n?\d+" class="cluster">.*?</g>', re.DOTALL)
    text = re.compile(r"<text.*?</text>\n")
    titles = [title for found in cluster.findall(body) for title in text.findall(found)]
    body = cluster.sub(lambda found: text.sub("", found[0]), body)
    end = body.rindex("</g>")
    return f'{body[:end]}<g class="titles" pointer-events="none">\n{"".join(titles)}</g>\n{body[end:]}'


def _titles(picture: Picture) -> dict[str, str]:
    """By Graphviz's own titles: what to read when the mouse rests on a card, a wire or a cluster."""
    found = {}
    stack = list(picture.content)
    while stack:
        item = stack.pop()
        if isinstance(item, Card):
            found[item.id] = item.title
            found[f"b{item.id}"] = f"{item.header}: {'; '.join(row.formula for row in item.rows)}"
        else:
            found[item.id] = item.label
            stack += item.content
    for wire in picture.wires:
        back = (
            f" and back {wire.gradient}" if wire.gradient is not None else ", no gradient" if picture.backward else ""
        )
        found[wire.id] = f"{wire.name}{back}: {' '.join(wire.shapes)}"
        found[wire.id.replace("e", "g")] = f"{wire.gradient}: {wire.shapes[-1]}"
    return found


def _description(picture: Picture) -> str:
    """The picture in words, a sentence for each card."""
    lines = []
    for card in picture.cards():
        back = "; ".join(row.formula for row in card.rows)
        lines.append(f"{card.header} ({card.words})" + (f"; backward: {back}" if back else "") + ".")
    return escape(clean("\n".join([*picture.remarks, *lines])), quote=False)


def _style(picture: Picture) -> str:
    dark = "".join(
        f'[fill="{light}"]{{fill:{night}}}[stroke="{light}"]{{stroke:{night}}}' for light, night in style.DARK.items()
    )
    ids = [card.id for card in picture.cards()]
    near = "".join(f"svg:has(#{i}:hover) .edge:not(.{i}){{opacity:.15}}" for i in ids[:_MOST])
    return (
        f"{_FONTS}.titles text{{paint-order:stroke;stroke:{style.CLUSTER_GROUND};stroke-width:4px}}"
        f".edge:hover path{{stroke-width:3}}.node:hover>polygon:last-of-type{{stroke-width:2.5}}{near}"
        f"@media (prefers-color-scheme:dark){{{dark}.titles text{{stroke:{style.DARK[style.CLUSTER_GROUND]}}}}}"
    )
