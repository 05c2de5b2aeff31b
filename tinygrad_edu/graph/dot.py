"""From a picture to the text that Graphviz lays out."""

from __future__ import annotations

from collections import Counter

from tinygrad_edu.graph import style
from tinygrad_edu.graph.cells import PAD, cell, run, table
from tinygrad_edu.graph.legend import barred, legend
from tinygrad_edu.graph.picture import Card, Cluster, Picture, Wire
from tinygrad_edu.graph.record import Shown
from tinygrad_edu.graph.text import markup, quoted, shorten, width, wrap
from tinygrad_edu.graph.visibility import almost_text, far_text, pattern_text
from tinygrad_edu.graph.words import say

_LONG = 58  # characters of a line in a card
_NOTE = 38  # of a line in a cluster's title
Item = Card | Cluster


def dot(picture: Picture) -> str:
    """The picture in the DOT language: the same bytes for the same picture.

    The label of a wire is a node of its own with a port at its left edge, through which the wire runs. So it takes part
    in the layout: no label lies on a card, a cluster's title or another wire, and wires stay straight.
    """
    rails = f"{style.VALUE}:{style.GRADIENT}"
    lines = [
        "digraph {",
        f'  graph [rankdir=TB, ordering=out, mclimit=4, nodesep=0.35, ranksep=0.2, bgcolor="{style.PAPER}", pad=0.25,',
        f'    fontname="Helvetica", labelloc=t, labeljust=l, label={heading(picture, _reads(picture))}];',
        '  node [shape=plain, fontname="Helvetica"];',
        f'  edge [color="{rails}", arrowhead=normal, arrowtail=vee, arrowsize=0.65, penwidth=1.4];',
    ]
    lines += _content(picture)
    tails = Counter(wire.tail for wire in picture.wires)
    for wire in picture.wires:
        lines += _wire(wire, picture.backward, tails[wire.tail] > 1)
    return "\n".join([*lines, "}"]) + "\n"


def _content(picture: Picture) -> list[str]:
    """Cards and labels of wires in their clusters, however deep these are."""
    inside = _clusters_of(picture)
    labels: dict[str, list[Wire]] = {}
    for wire in picture.wires:
        shared = [a for a, b in zip(inside[wire.tail], inside[wire.head], strict=False) if a == b]
        labels.setdefault(shared[-1] if shared else "", []).append(wire)
    lines: list[str] = []
    stack: list[tuple[Item | str, str, str]] = [(item, "  ", "") for item in reversed(picture.content)]
    while stack:
        item, indent, around = stack.pop()
        if isinstance(item, str):
            lines.append(item)
        elif isinstance(item, Card):
            lines.append(f"{indent}{item.id} [id={quoted(item.id)}, class={quoted(item.kind)}, label={_card(item)}];")
        else:
            label = _title(item, around)
            # a wire beside an inner cluster keeps the inner margin, so the outer one must be wider or the two coincide
            margin = 24 if any(isinstance(held, Cluster) for held in item.content) else 12
            lines.append(f"{indent}subgraph {item.id} {{")
            lines.append(
                f"{indent}  graph [id={quoted(item.id)}, label=<{label}>, labeljust=l, style=rounded, margin={margin}, "
                f'color="{style.CLUSTER_BORDER}", bgcolor="{style.CLUSTER_GROUND}"];'
            )
            stack.append((f"{indent}}}", indent, ""))
            inner = _labels(labels.get(item.id, []), picture.backward, indent + "  ")
            stack += [(line, "", "") for line in reversed(inner)]
            stack += [(held, indent + "  ", item.path or around) for held in reversed(item.content)]
    return lines + _labels(labels.get("", []), picture.backward, "  ")


def _title(cluster: Cluster, around: str) -> str:
    """What stands at the top of a cluster: its name inside of the module around it, and notes.

    It is kept narrow, since the wire that comes in passes it on the right.
    """
    label = shorten(cluster.label.replace(f"{around}.", "") if around else cluster.label, 80)
    if not cluster.notes:
        return run(label, 10, style.GREY)
    rows = [cell(label, 10, style.INK, bold=True, pad=0)]
    rows += [cell(wrap(note, _NOTE), 10, style.GREY, pad=0) for note in cluster.notes]
    return table(rows, pad=1)


def _labels(wires: list[Wire], backward: bool, indent: str) -> list[str]:
    """The labels of wires in one cluster; those of one tail stand side by side, in order, long wires outside."""
    lines = [_label(wire, backward, indent) for wire in wires]
    tails: dict[str, list[Wire]] = {}
    for wire in wires:
        tails.setdefault(wire.tail, []).append(wire)
    for beside in tails.values():
        if len(beside) > 1:
            order = " -> ".join(wire.id for wire in sorted(beside, key=lambda wire: wire.long))
            lines.append(f"{indent}{{ rank=same; {order} [style=invis]; }}")
    return lines


def _clusters_of(picture: Picture) -> dict[str, tuple[str, ...]]:
    """For every card the clusters around it, outermost first."""
    found: dict[str, tuple[str, ...]] = {}
    stack: list[tuple[Item, tuple[str, ...]]] = [(item, ()) for item in picture.content]
    while stack:
        item, around = stack.pop()
        if isinstance(item, Card):
            found[item.id] = around
        else:
            stack += [(inner, (*around, item.id)) for inner in item.content]
    return found


def _card(card: Card) -> str:
    if card.thin:
        return _thin(card)
    look = style.LOOKS[card.kind]
    both = ' COLSPAN="2"'
    words = card.words or " "
    rows = [
        cell(shorten(card.header, 90), 13, look.ink, look.header, bold=True) + cell(words, 9, look.ink, look.header)
    ]
    if card.path:
        rows.append(cell(shorten(card.path, 70), 9, style.GREY, mono=True, more=both))
    rows += [cell(wrap(line, _LONG), 10, style.GREY, mono=True, more=both) for line in card.lines]
    if card.source:
        rows.append(cell(wrap(card.source, _LONG), 9, style.INK, more=both))
    if card.einsum:
        rows.append(_einsum(card))
    if card.cells:
        colors = {
            "parameter": (style.PARAMETER_GROUND, style.PARAMETER_BORDER),
            "constant": (style.CONSTANT_GROUND, style.CONSTANT_BORDER),
        }
        cells = "".join(
            cell(
                f"{shorten(c.name, 40)} {c.shape}".rstrip(),
                10,
                style.INK,
                colors[c.kind][0],
                mono=True,
                align="CENTER",
                more=f' BORDER="1" COLOR="{colors[c.kind][1]}"',
            )
            for c in card.cells
        )
        inner = f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="3" CELLPADDING="3"><TR>{cells}</TR></TABLE>'
        rows.append(f'<TD COLSPAN="2" ALIGN="LEFT">{inner}</TD>')
    if card.grid:
        rows.append(_grid(card.grid, card.heads))
    for row in card.rows:
        lines = wrap(row.formula, _LONG)
        text = [f"▲ {lines[0]}", *("   " + line for line in lines[1:])]
        ink, ground = style.gradient(row.order)
        rows.append(cell(text, 10, ink, ground, mono=True) + cell(row.note or " ", 9, ink, ground))
    return f"<{table(barred(card, rows), 1, look.border, style.PAPER)}>"


def _thin(card: Card) -> str:
    """A card for what only arranges elements: one line, since the wires say both shapes, and sums that meet there."""
    rows = [cell(shorten(card.header, 60), 9, style.GREY, mono=True)]
    for row in map(card.rows.__getitem__, card.drawn):
        ink, ground = style.gradient(row.order)
        rows.append(cell(f"▲ {row.formula}", 9, ink, ground, mono=True))
    return f"<{table(barred(card, rows), 1, style.LOOKS['arranges'].border, style.PAPER, pad=2)}>"


def _einsum(card: Card) -> str:
    """The axes of a product, what it contracts underlined. Its runs are ASCII, whose widths every engine knows."""
    tones = {"contract": style.CONTRACTED, "q": style.QUERY, "k": style.KEY, "": style.GREY}
    runs = []
    for text, tone in card.einsum:
        inner = f"<U><B>{markup(text)}</B></U>" if tone == "contract" else markup(text)
        runs.append(f'<FONT FACE="Courier" POINT-SIZE="10" COLOR="{tones[tone]}">{inner}</FONT>')
    wide = width("".join(text for text, _ in card.einsum), 10, mono=True) + 2 * PAD
    return f'<TD ALIGN="LEFT" WIDTH="{wide}">{"".join(runs)}</TD>' + cell(
        say("contract {contracts} · keep {keeps}", contracts=card.contracts, keeps=card.keeps), 9, style.GREY
    )


def _grid(shown: Shown, heads: tuple[str, str]) -> str:
    if shown.what == "numbers":
        rows = [
            "".join(cell(f"{x:g}", 9, style.INK, style.EMPTY, mono=True, align="RIGHT", pad=2) for x in row)
            for row in shown.numbers
        ]
        return f'<TD COLSPAN="2" ALIGN="LEFT">{_small(rows)}</TD>'
    head = [
        "<TD></TD>"
        + "".join(cell(f"{heads[1]}{k}", 8, style.GREY, mono=True, align="CENTER", pad=2) for k in shown.columns)
    ]
    body = []
    for q, row in zip(shown.rows, shown.numbers, strict=True):
        cells = [cell(f"{heads[0]}{q}", 8, style.GREY, mono=True, align="RIGHT", pad=2)]
        cells += [_hidden(x) if shown.what in ("hidden", "cut") else _weight(x) for x in row]
        body.append("".join(cells))
    queries, keys = shown.total
    notes = []
    if shown.what == "hidden":
        words = shown.pattern if heads[0] else shown.pattern.replace("k ≤ q", "column ≤ row").replace("query", "row")
        notes = [pattern_text(words)] if words else []
        notes.append(say("{seen} of {all} visible", seen=queries * keys - shown.marked, all=queries * keys))
        if shown.almost:
            notes += wrap(almost_text(shown), _NOTE)
        if shown.far:
            notes += wrap(far_text(shown), _NOTE)
    elif shown.what == "cut":
        text = "{marked} of {all} weights hidden after the softmax: rows no longer sum to 1"
        notes.append(say(text, marked=shown.marked, all=queries * keys))
    else:
        notes.append(say("every column sums to 1" if shown.pattern == "columns" else "every row sums to 1"))
    if not shown.alike:
        notes.append(say("shown: the first of all"))
    if (len(shown.rows), len(shown.columns)) != shown.total:
        held = {"rows": len(shown.rows), "columns": len(shown.columns)}
        notes.append(say("{rows}×{columns} of {queries}×{keys} shown", **held, queries=queries, keys=keys))
    return cell(notes, 9, style.GREY) + f'<TD ALIGN="RIGHT">{_small(head + body)}</TD>'


def _small(rows: list[str]) -> str:
    body = "".join(f"<TR>{row}</TR>" for row in rows)
    return f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="1" CELLPADDING="2">{body}</TABLE>'


def _hidden(x: float) -> str:
    if x:
        return cell("×" if x == 1 else "~0", 8, style.NONE, style.EMPTY, align="CENTER", pad=2)
    return f'<TD WIDTH="12" BGCOLOR="{style.VISIBLE}"></TD>'


def _weight(x: float) -> str:
    text = "0" if x == 0 else "1" if x >= 0.995 else f"{x:.2f}".lstrip("0") if x >= 0.005 else "~0"
    if x == 0:
        return cell(text, 8, style.NONE, style.EMPTY, mono=True, align="CENTER", pad=2)
    ends = [(255, int(style.WEIGHT[i : i + 2], 16)) for i in (1, 3, 5)]
    ground = "#" + "".join(f"{round(a + (b - a) * (0.12 + 0.88 * x)):02x}" for a, b in ends)
    return cell(text, 8, "#fffffe" if x > 0.45 else "#1e1b4b", ground, mono=True, align="CENTER", pad=2)


def _label(wire: Wire, backward: bool, indent: str) -> str:
    """The node that carries a wire's label, right of the wire, or left of one that is long and so runs beside cards."""
    # Engines take every byte of × and ▸ for a letter. The room they then leave is claimed by the second cell, or else
    # they would spread it over both and tear name and gradient apart.
    guessed = round(max(len(shape.encode()) for shape in wire.shapes) * 0.6 * 9) + 6
    name = f"{wire.name} × {wire.times}" if wire.times > 1 else wire.name
    least = guessed - width(name, 11, bold=True) - 4
    first = cell(name, 11, style.INK, bold=True, pad=2)
    if wire.gradient is not None:
        back, size, ink = f"⇅ {wire.gradient}", 11, style.gradient(wire.order)[0]
    else:
        back, size, ink = say("no gradient") if backward else " ", 9, style.GREY
    bold = wire.gradient is not None
    port = f'<TD ROWSPAN="{1 + len(wire.shapes)}" PORT="w" WIDTH="9"></TD>'
    if wire.long:
        room = max(1, least - width(back, size, bold) - 4)
        row = f'<TD WIDTH="{room}"></TD>{first}{cell(back, size, ink, bold=bold, pad=2)}{port}'
        span, side = 3, "RIGHT"
    else:
        row = f"{port}{first}{cell(back, size, ink, bold=bold, pad=2, least=least)}"
        span, side = 2, "LEFT"
    shapes = [
        cell(shape, 9, style.GREY, mono=True, more=f' COLSPAN="{span}"', align=side, pad=2) for shape in wire.shapes
    ]
    rows = f"<TR>{row}</TR>"
    rows += "".join(f"<TR>{shape}</TR>" for shape in shapes)
    table = f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="1">{rows}</TABLE>'
    return (
        f"{indent}{wire.id} [id={quoted(wire.id)}, class={quoted(f'wire {wire.tail} {wire.head}')}, label=<{table}>];"
    )


def _wire(wire: Wire, backward: bool, beside: bool) -> list[str]:
    """Its two halves, above and below the label; the lower one carries the value's arrow, the upper the gradient's."""
    look = ""
    upper, lower = "dir=back", "dir=forward"
    if wire.gradient is None:
        upper = "dir=none"
        look = f', color="{style.NONE}", style=dashed' if backward else f', color="{style.VALUE}"'
        if wire.kind:
            look = f', color="{style.LOOKS[wire.kind].border}"' + (", style=dashed" if wire.kind == "removed" else "")
    elif wire.order > 1:
        look = f', color="{style.VALUE}:{style.gradient(wire.order)[0]}"'
    # a long wire is straight below its label, so that it leaves to the side at once; a label that has none beside it to
    # stay in line with must be drawn up more than down
    weights = (100, 100) if wire.spine else (1 if beside else 5, 4) if wire.long else (2, 1)
    ends = f"class={quoted(f'{wire.id} {wire.tail} {wire.head}')}"
    return [
        f'  {wire.tail} -> {wire.id}:w:n [id="{wire.id}a", {ends}, {upper}{look}, weight={weights[0]}];',
        f'  {wire.id}:w:s -> {wire.head} [id="{wire.id}b", {ends}, {lower}{look}, weight={weights[1]}];',
    ]


def heading(picture: Picture, reads: str) -> str:
    """The title of a drawing with how it reads, the legend and the remarks."""
    title = say("{title}: {reads}", title=shorten(picture.title, 80), reads=reads)
    rows = [cell(title, 15, style.INK, bold=True), *legend(picture, width(title, 15, bold=True))]
    rows += [cell(remark, 10, style.GREY) for remark in picture.remarks]
    return f"<{table(rows)}>"


def _reads(picture: Picture) -> str:
    usual = "forward runs down, backward runs up, on the same wires" if picture.backward else "forward"
    return picture.reads or say(usual)
