"""The mirror: the forward pass on the left, the ops that its backward pass ran on the right, at the same heights."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tinygrad_edu.graph import style
from tinygrad_edu.graph.cells import cell, table
from tinygrad_edu.graph.dot import heading
from tinygrad_edu.graph.legend import barred
from tinygrad_edu.graph.picture import Card, Picture, Row, Wire, cards_of
from tinygrad_edu.graph.record import Record
from tinygrad_edu.graph.text import quoted, shorten, wrap
from tinygrad_edu.graph.words import say

VIEWS = ("twin", "mirror")
MOST = 25  # steps that two graphs side by side can be read of
_LONG = 44


def fits(picture: Picture) -> bool:
    """Whether a picture has few enough steps for a mirror, and a backward pass."""
    return picture.backward and sum(card.role == "step" for card in picture.cards()) <= MOST


def too_large(picture: Picture) -> Picture:
    """The picture to be drawn as twin instead, with a remark why."""
    if not picture.backward:
        said = say("no mirror: nothing goes back")
    else:
        said = say("no mirror: it reads well up to {most} steps; name a module, for example one attention", most=MOST)
    return replace(picture, remarks=[*picture.remarks, said])


def mirror(picture: Picture, record: Record) -> str:
    """The mirror of a picture in the DOT language.

    Every card has its backward beside it: a line for each gradient branch, with the ops that it ran. Gradients run up
    on wires of their own; a dotted bridge says what was saved on the left and is read on the right.
    """
    cards = cards_of(picture.content)
    ends = {end for wire in picture.wires if wire.gradient is not None for end in (wire.tail, wire.head)}
    backward = [card for card in cards if card.rows or card.id in ends]
    lines = [
        "digraph {",
        "  graph [rankdir=TB, newrank=true, ordering=out, nodesep=0.3, ranksep=0.2, pad=0.25,",
        f'    bgcolor="{style.PAPER}", fontname="Helvetica", labelloc=t, labeljust=l,',
        f"    label={heading(picture, _reads())}];",
        '  node [shape=plain, fontname="Helvetica"];',
        "  edge [arrowsize=0.65, penwidth=1.4];",
    ]
    flowing = [wire for wire in picture.wires if wire.gradient is not None]
    lines += _side("cluster_forward", say("forward"), style.CLUSTER_GROUND, style.CLUSTER_BORDER, style.GREY)
    for card in cards:
        lines.append(f"    {card.id} [id={quoted(card.id)}, class={quoted(card.kind)}, label={_forward(card)}];")
    lines += [_label(wire, wire.id, wire.name, style.INK) for wire in picture.wires]
    lines += _beside(picture.wires, "e")
    lines.append("  }")
    lines += _side("cluster_backward", say("backward"), style.GRADIENT_GROUND, style.BACKWARD, style.GRADIENT)
    for card in backward:
        number = _opposite(card.id)
        lines.append(f"    {number} [id={quoted(number)}, class=backward, label={_backward(card, record)}];")
    lines += [_label(wire, _opposite(wire.id), wire.gradient or "", style.GRADIENT) for wire in flowing]
    lines += _beside(flowing, "g")
    lines.append("  }")
    tails = Counter(wire.tail for wire in picture.wires)
    for wire in picture.wires:
        look = f'color="{style.VALUE if wire.gradient else style.NONE}"' + ("" if wire.gradient else ", style=dashed")
        lines += _wire(wire, (wire.id, wire.tail, wire.head), ("none", "forward"), look, tails[wire.tail] > 1)
    for wire in flowing:
        ids = _opposite(wire.id), _opposite(wire.tail), _opposite(wire.head)
        lines += _wire(wire, ids, ("back", "none"), f'color="{style.GRADIENT}"', tails[wire.tail] > 1)
        lines.append(f"  {{ rank=same; {wire.id}; {_opposite(wire.id)}; }}")
    for card in backward:
        lines.append(f"  {{ rank=same; {card.id}; {_opposite(card.id)}; }}")
        lines.append(_bridge(card))
    return "\n".join([*lines, "}"]) + "\n"


def _reads() -> str:
    return say("forward runs down on the left, backward runs up on the right, dotted is what was saved")


def _opposite(number: str) -> str:
    """The id on the right of what has this id on the left."""
    return ("g" if number[0] == "e" else "b") + number.removeprefix("e")


def _side(number: str, title: str, ground: str, border: str, ink: str) -> list[str]:
    label = f'<FONT FACE="Helvetica" POINT-SIZE="12" COLOR="{ink}"><B>{title}</B></FONT>'
    return [
        f"  subgraph {number} {{",
        f'    graph [id="{number}", label=<{label}>, labeljust=l, style=rounded, margin=14, color="{border}",',
        f'      bgcolor="{ground}"];',
    ]


def _beside(wires: list[Wire], letter: str) -> list[str]:
    """Labels of wires from one card side by side, in order."""
    tails: dict[str, list[Wire]] = {}
    for wire in wires:
        tails.setdefault(wire.tail, []).append(wire)
    found = []
    for several in tails.values():
        ids = [wire.id if letter == "e" else _opposite(wire.id) for wire in sorted(several, key=lambda w: w.long)]
        if len(ids) > 1:
            found.append(f"    {{ rank=same; {' -> '.join(ids)} [style=invis]; }}")
    return found


def _label(wire: Wire, number: str, name: str, color: str) -> str:
    """The node that carries a label on one of the two sides; the wire runs through its port."""
    lines = [cell(name, 11, color, bold=True, pad=2), cell(wire.shapes[0], 9, style.GREY, mono=True, pad=2)]
    port = '<TD ROWSPAN="2" PORT="w" WIDTH="9"></TD>'
    first = lines[0] + port if wire.long else port + lines[0]
    table_of = f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="1"><TR>{first}</TR><TR>{lines[1]}</TR>'
    return f"    {number} [id={quoted(number)}, class=wire, label=<{table_of}</TABLE>>];"


def _forward(card: Card) -> str:
    look = style.LOOKS[card.kind]
    rows = [
        cell(shorten(card.header, 60), 12, look.ink, look.header, bold=True)
        + cell(card.words or " ", 9, look.ink, look.header)
    ]
    small = "".join(text for text, _ in card.einsum) or (card.lines[0] if card.role != "step" and card.lines else "")
    if small:
        rows.append(cell(small, 10, style.GREY, mono=True, more=' COLSPAN="2"'))
    if card.visible:
        rows.append(cell(wrap(card.visible, _LONG), 9, style.GREY, more=' COLSPAN="2"'))
    return f"<{table(barred(card, rows), 1, look.border, style.PAPER)}>"


def _backward(card: Card, record: Record) -> str:
    """What came of a card in the backward pass: each gradient, and by which ops."""
    name = card.header.partition(" = ")[0]
    title = say("backward of {name}", name=name) if card.role == "step" else f"d{name}"
    rows = [cell(shorten(title, 60), 12, style.GRADIENT, style.GRADIENT_HEADER, bold=True, more=' COLSPAN="2"')]
    for row in card.rows:
        text = wrap(row.formula, _LONG)
        text[1:] = ["   " + line for line in text[1:]]
        rows.append(cell(text, 10, style.GRADIENT, style.PAPER, mono=True) + cell(_ops(row, record), 9, style.GREY))
    if card.reads:
        saved = say("reads what was saved: {names}", names=", ".join(card.reads))
        rows.append(cell(wrap(saved, _LONG), 9, style.GREY, more=' COLSPAN="2"'))
    return f"<{table(rows, 1, style.BACKWARD, style.PAPER)}>"


def _ops(row: Row, record: Record) -> str:
    """The ops that the backward pass ran for a row, in order."""
    if row.ran:
        ops = Counter(record.backward[number].op for number in row.ran)
        return ", ".join(f"{op} × {n}" if n > 1 else op for op, n in ops.items())
    if row.kind != "branch":
        return row.note
    fused = record.forward[record.branches[row.after].application].fused
    return say("one kernel") if fused else say("passed on as it is")


def _wire(wire: Wire, ids: tuple[str, str, str], ways: tuple[str, str], look: str, beside: bool) -> list[str]:
    """The two halves of a wire above and below its label, in forward order on both sides."""
    number, tail, head = ids
    weights = (100, 100) if wire.spine else (1 if beside else 5, 4) if wire.long else (2, 1)
    ends = f"class={quoted(' '.join(ids))}, arrowhead=normal, arrowtail=vee, {look}"
    return [
        f'  {tail} -> {number}:w:n [id="{number}a", {ends}, dir={ways[0]}, weight={weights[0]}];',
        f'  {number}:w:s -> {head} [id="{number}b", {ends}, dir={ways[1]}, weight={weights[1]}];',
    ]


def _bridge(card: Card) -> str:
    """From a card to its backward, which reads what was saved."""
    look = f'style=dotted, color="{style.NONE}", arrowhead=vee, penwidth=1.6' if card.reads else "style=invis"
    return f"  {card.id} -> {_opposite(card.id)} [{look}, constraint=false];"
