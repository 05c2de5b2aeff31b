"""From steps to a picture: what every card says and which wires run between the cards."""

from __future__ import annotations

from math import prod
from typing import Any

from tinygrad_edu.graph.axes import axes_of, equal_lengths
from tinygrad_edu.graph.checks import checks
from tinygrad_edu.graph.clusters import arrange, innermost, place_of, with_definitions
from tinygrad_edu.graph.einsum import einsum, product_formula, shape_text, summed
from tinygrad_edu.graph.formula import (
    fill,
    is_sum,
    number_text,
    scale_text,
    scaled,
    shifted,
    transposed,
    until_comma,
)
from tinygrad_edu.graph.gradients import PIECES, gradients
from tinygrad_edu.graph.kinds import introduces, kind_of
from tinygrad_edu.graph.naming import labels
from tinygrad_edu.graph.picture import Card, Cell, Picture, Row, Wire, mark_ways
from tinygrad_edu.graph.products import product_of
from tinygrad_edu.graph.record import Application, Record, Value
from tinygrad_edu.graph.sources import sides_of, source_of
from tinygrad_edu.graph.steps import Step, Use, identity, named_steps
from tinygrad_edu.graph.streams import color, streams_of
from tinygrad_edu.graph.text import shorten
from tinygrad_edu.graph.visibility import verdict
from tinygrad_edu.graph.words import say, word

_HEADER, _FUSED = 44, 38  # characters of a formula that fit into a heading, of a fused op's that read well there
_NAME = 40


def draw(record: Record, every: bool = False) -> Picture:
    """The picture of a record, forward and backward on the same wires; `every`: a card for each op."""
    return _Sheet(record, every).picture()


class _Sheet:
    """The cards drawn so far, and all that is needed to draw more."""

    def __init__(self, record: Record, every: bool) -> None:
        self.record, self.steps, self.every = record, named_steps(record, every), every
        self.labels = {number: shorten(text, _NAME) for number, text in labels(self.steps).items()}
        self.uses, self.pieces = self.steps.uses_of(), self.steps.pieces_of()
        self.gradients = gradients(self.steps, self.labels)
        self.axes = axes_of(record)
        self.streams = streams_of(self.steps, self.axes)
        self.cards: list[tuple[Card, int | None, bool]] = []
        self.leaves: dict[int, Card] = {}
        self.made: dict[int, Card] = {}  # by step

    def picture(self) -> Picture:
        record = self.record
        picture = Picture(record.title, any(output.seed for output in record.outputs))
        if record.outputs and not any(record.values[output.value].gradient for output in record.outputs):
            picture.remarks.append(say("no gradient history: nothing that leads to the result needs a gradient"))
        picture.remarks += [say(note.text, **note.values) for note in record.notes]
        wires: list[tuple[Use, Card]] = []
        calls = with_definitions(record) if self.every else record.calls
        for step in self.steps.steps:
            for use in step.uses:
                self._ensure_leaf(use)
            card = self.made[step.id] = self._step(step)
            self._place(card, place_of(step.main, record) if self.every else step.main.call, True)
            wires += [(use, card) for use in step.uses if not self._inside(use.source)]
        for use in self.steps.results:
            self._ensure_leaf(use)
            if use.source in self.leaves:
                self.leaves[use.source].lines.append(self._returned(use))
            else:
                card = self._result(use)
                self._place(card, None, False)
                wires.append((use, card))
        picture.remarks += self._equal_lengths()
        if unread := record.unread:
            more = "parameters that nothing reads: {names} and {n} more"
            text = more if len(unread) > 4 else "parameters that nothing reads: {names}"
            picture.remarks.append(say(text, names=", ".join(unread[:4]), n=len(unread) - 4))
        color(picture, self.streams, self.labels, self.leaves, self.made)
        picture.content = arrange(calls, self.cards, len(record.calls))
        picture.wires = self._wires(wires)
        steps = [self.made[step.id] for step in self.steps.steps]
        picture.checks = checks(record, self.steps, self.axes, steps, picture.wires)
        return picture

    def _place(self, card: Card, call: int | None, is_step: bool) -> None:
        card.id = f"n{len(self.cards)}"
        self.cards.append((card, call, is_step))

    # Leaves

    def _inside(self, number: int) -> bool:
        """Whether a leaf is drawn inside the only card that reads it."""
        value = self.record.values[number]
        if value.kind == "number":
            return True
        if value.made_by is not None or value.kind in ("input", "earlier") or number in self.pieces:
            return False
        if len(self.uses[number]) != 1 or self.uses[number][0].step is None:
            return False
        return value.learned or not any(n.how in ("assigned", "array") for n in value.names)

    def _ensure_leaf(self, use: Use) -> None:
        number = use.source
        while number in self.steps.pieces:
            number = self.steps.pieces[number].whole
        value = self.record.values[number]
        if value.made_by is None and number not in self.leaves and not self._inside(number):
            card = self.leaves[number] = self._leaf(value)
            self._place(card, self._home(number), False)

    def _home(self, number: int) -> int | None:
        """The call whose cluster a leaf stands in: the innermost around all that read it; none for an input."""
        if self.record.values[number].kind == "input":
            return None
        held = [number]
        for whole in held:
            held += [piece.value for piece in self.pieces.get(whole, [])]
        uses = [use for part in held for use in self.uses.get(part, [])]
        calls = [self.steps.steps[use.step].main.call if use.step is not None else None for use in uses]
        return innermost(calls, self.record.calls)

    def _leaf(self, value: Value) -> Card:
        kind = "parameter" if value.learned else "input"
        words = {"tensor": "constant", "earlier": "made before the trace"}.get(value.kind, value.kind)
        words = say("parameter" if value.learned else words)
        name = self.labels[value.id]
        if not value.learned and value.dtype not in ("float32", "float64"):
            words += f", {value.dtype}"
        card = Card("", kind, name, words, f"{words} {name}", "leaf", lines=[self._shape(value.id)])
        if value.path and value.path != name:
            card.path = value.path
        if value.shown and value.shown.what == "numbers":
            card.grid = value.shown
        card.rows = self._incoming(value.id)
        card.identity = f"{value.kind} {value.gradient} {card.lines[0]}"
        card.origin, card.size = "parameter" if value.learned else value.kind, prod(value.shape)
        if value.learned and len(self.uses.get(value.id, [])) > 1:
            card.lines[0] += ", " + say("shared")
        if not value.gradient:
            card.lines[0] += ", " + say("no gradient")
        return card

    def _cells(self, step: Step) -> list[Cell]:
        found = []
        for use in step.uses:
            value = self.record.values[use.source]
            if (
                not self._inside(use.source)
                or value.kind == "number"
                or (value.dtype == "bool" and len(value.shape) > 1)
            ):
                continue
            kind = "parameter" if value.learned else "constant"
            found.append(Cell(kind, self.labels[use.source], self._shape(value.id), prod(value.shape)))
        return found

    # Steps

    def _step(self, step: Step) -> Card:
        main = step.main
        names, missing = self._names(step, main)
        text = fill(
            product_formula(step, self.record, self.axes).partition(";")[0].rstrip("."),
            names,
            missing,
            self._static(main),
        )
        head, _, right = text.partition(" = ")
        if not right:
            head, right = names["out"], text
        card = Card("", "", f"{head} = {self._with_tail(step, right)}", "", "", "step", cells=self._cells(step))
        twice = main.fused and any(main.formula.count(f"{{{argument}}}") > 1 for argument in main.arguments)
        if twice or len(card.header) > (_FUSED if main.fused else _HEADER):
            wired = [u for u in step.uses if u.op == main.id and not self.record.values[u.source].learned]
            read = ", ".join(names[main.arguments[use.at]] for use in wired)
            card.lines.append(self._with_tail(step, until_comma(right) if main.fused else right))
            card.header = f"{names['out']} = {self._with_tail(step, f'{main.op}({read})')}"
        card.kind, card.words = kind_of(step, self.record, self.axes)
        if main.order:
            card.kind = "derived" if card.kind in ("plain", "arranges") else card.kind
            card.words = say("{words} · order {n}", words=card.words, n=main.order)
        card.einsum, card.contracts, card.keeps = einsum(step, self.record, self.axes)
        card.shape, card.reads = self._shape(step.out), self._reads(step)
        card.data = self._data(step)
        if card.kind == "mixes":
            card.source = source_of(step, self.steps, self.axes, self.labels)
        card.visible = verdict(step, self.record, self.axes)
        card.lines += [card.visible] if card.visible.startswith(say("FAIL: {text}", text="")) else []
        made = self.record.values[step.out].shown
        if made and introduces(step, self.record, self.axes, made.what):
            card.grid = made
            card.heads = self.axes.heads(step.out)
        card.title = card.header + (f"\n{main.line.file}:{main.line.number}: {main.line.text}" if main.line else "")
        flowing = sorted((u for u in step.uses if u.branch), key=lambda use: not self._inside(use.source))
        card.rows = [self._branch(step, use) for use in flowing]
        for output in step.outputs:
            card.rows += self._incoming(output)
        card.identity, card.op = identity(step, self.record, self._shape), main.op
        card.thin = self.every and main.arranges and not card.cells
        return card

    def _text(self, use: Use) -> str:
        """What the value of a use is called where the step reads it."""
        number = self.record.values[use.source].number
        text = number_text(number) if number is not None else self.labels[use.source]
        return text + ("ᵀ" if self._is_transposed(use) else "")

    def _names(self, step: Step, application: Application) -> tuple[dict[str, str], set[str]]:
        """What the arguments of an op are called in its formulas, and which were not given."""
        names = {"out": self.labels[step.out]}
        for use in step.uses:
            if use.op == application.id:
                names[application.arguments[use.at]] = self._text(use)
        given = zip(application.arguments, application.inputs, strict=True)
        return names, {argument for argument, number in given if number is None}

    def _static(self, application: Application) -> dict[str, Any]:
        """The static arguments of an op, axes by name instead of number."""
        found = dict(application.static)
        first = application.inputs[0] if application.inputs else None
        names = [] if first is None else self.axes.names(first)
        if isinstance(found.get("axis"), int) and names:
            found["axis"] = names[found["axis"]]
        if isinstance(found.get("axes"), tuple):
            found["axes"] = " ".join(names[axis] for axis in found["axes"])
        return found

    def _is_transposed(self, use: Use) -> bool:
        """Whether the last two axes are exchanged on the way to the step."""
        odd = False
        for number in use.trail:
            arranged = self.record.forward[number]
            n = len(self.record.values[arranged.outputs[0]].shape)
            if arranged.op == "transpose":
                ends = {arranged.static["dim0"] % n, arranged.static["dim1"] % n}
                odd ^= ends == {n - 2, n - 1}
            elif arranged.op == "permute":
                axes = [axis % n for axis in arranged.static["axes"]]
                odd ^= n > 1 and axes == [*range(n - 2), n - 1, n - 2]
        return odd

    def _with_tail(self, step: Step, text: str) -> str:
        """The formula of a step's main op with all that is folded into the step."""
        for application in step.tail:
            if application.op in ("add", "sub"):
                other = next(self._text(use) for use in step.uses if use.op == application.id)
                text = shifted(text, f" {'+' if application.op == 'add' else '−'} {other}")
            else:
                text = scaled(text, *self._scale(step, application))
        return text

    def _scale(self, step: Step, application: Application) -> tuple[str, bool]:
        """What a folded scaling writes behind a formula, and whether it turns the sign."""
        if application.op == "neg":
            return "", True
        if application.op in ("add", "sub"):
            return "", False
        numbers = [self.record.values[i].number for i in application.inputs if i is not None]
        used = product_of(step.main, self.record) if step.main.op != "linear" else None
        contracted = prod(self.record.values[used.x].shape[a] for a in used.i) if used else None
        return "".join(scale_text(application.op, n, contracted) for n in numbers if n is not None), False

    # Gradients

    def _reads(self, step: Step) -> list[str]:
        """What the gradient rules of a step read, each value once."""
        found: list[str] = []
        for use in step.uses:
            for name in use.branch.reads if use.branch else ():
                names, _ = self._names(step, self.record.forward[use.branch.application])  # type: ignore[union-attr]
                found.append(names.get(name, name).removesuffix("ᵀ"))
        return list(dict.fromkeys(found))

    def _data(self, step: Step) -> str:
        """What a step reads beside parameters and constants; of one that scores pairs, where its sides come from."""
        if step.main.id in self.axes.queries:
            return sides_of(step, self.steps, self.axes, self.labels)
        read = [use.source for use in step.uses if not self._inside(use.source)]
        return ", ".join(dict.fromkeys(self.labels[i] for i in read if not self.record.values[i].learned))

    def _branch(self, step: Step, use: Use) -> Row:
        branch = use.branch
        assert branch is not None
        application = self.record.forward[branch.application]
        template = word(branch.formula.partition("\n")[0])
        if application.op == "einsum" and application is step.main:
            template = product_formula(step, self.record, self.axes, use.at)
        right = template.partition(" = ")[2] or template
        text = fill(right, *self._names(step, application), self._static(application))
        if self._is_transposed(use):
            text = transposed(text)
        for folded in step.tail:
            if folded.id > application.id:
                text = scaled(text, *self._scale(step, folded))
        if branch.fitted and any(self.record.backward[i].op == "sum_to" for i in branch.applications[-2:]):
            text = f"Σ ({text})" if is_sum(text) else f"Σ {text}"
        note = summed(step, use, self.record, self.axes)
        shape = shape_text(use.source, self.record, self.axes, brief=True)
        ran = self.steps.ran(step, use)
        return Row("branch", f"{self.gradients.of(use)} = {text}", note or shape, branch.id, branch.order, ran)

    def _shape(self, value: int) -> str:
        return shape_text(value, self.record, self.axes)

    def _equal_lengths(self) -> list[str]:
        """A remark where axes of different names have one length, so that shapes alone do not tell them apart."""
        return [
            say("equal lengths: {names} = {n}", names=" = ".join(names), n=n)
            for n, names in equal_lengths(self.record, self.axes)
        ]

    def _incoming(self, number: int) -> list[Row]:
        """The rows on what arrives at a value from below: put together from pieces, summed over several uses."""
        rows = []
        pieces = self.pieces.get(number, [])
        name = f"d{self.labels[number]}"
        for piece in pieces:
            rows += self._incoming(piece.value)
        if (number, PIECES, 0) in self.gradients.names:
            parts = [f"d{self.labels[p.value]}" if p.value in self.gradients.parts else "0" for p in pieces]
            joined = f"{self.gradients.names[number, PIECES, 0]} = {' ‖ '.join(parts)}"
            arrived = *self._arrived(number), self.steps.put(pieces)
            rows.append(Row("sum", joined, say("one behind the other"), *arrived))
        parts = self.gradients.parts.get(number, [])
        if len(parts) > 1:
            joined = f"{name} = {' + '.join(parts)}"
            arrived = *self._arrived(number), self.steps.added(number)
            rows.append(Row("sum", joined, say("sum of the branches"), *arrived))
        return rows

    def _arrived(self, number: int) -> tuple[int, int]:
        """The last branch that brings a gradient to a value or to a piece of it, and the highest order of them."""
        own = [(use.branch.id, use.branch.order) for use in self.uses.get(number, []) if use.branch]
        own += [self._arrived(piece.value) for piece in self.pieces.get(number, [])]
        return max((at for at, _ in own), default=-1), max((order for _, order in own), default=1)

    # Results and wires

    def _returned(self, use: Use) -> str:
        label = shorten(self.record.outputs[use.at].label, _NAME)
        return say("returned as it is as {label}", label=label) if label else say("returned as it is")

    def _result(self, use: Use) -> Card:
        output, value = self.record.outputs[use.at], self.record.values[use.value]
        name = self.labels[use.source]
        unlabelled = output.label.startswith("[") or not output.label
        label = "loss" if output.seed == "1" and unlabelled else output.label
        header, shape = shorten(label, _NAME) or name, self._shape(value.id)
        card = Card("", "output", header, say("result"), "result", "result", lines=[shape])
        if label and label != name:
            card.words = say("result, {name}", name=name)
        if output.seed == "1":
            start, note = f"{self.gradients.of(use)} = 1", say("backward starts here")
            card.rows.append(Row("start", start, note, order=self._order(use)))
        elif output.seed == "ones":
            start, note = f"{self.gradients.of(use)}", say("gradient enters here")
            card.rows.append(Row("start", start, note, order=self._order(use)))
        elif value.gradient:
            card.lines.append(say("backward does not start here"))
        else:
            card.lines[0] += ", " + say("no gradient history")
        return card

    def _order(self, use: Use) -> int:
        """How often the gradient that comes back from a use has been differentiated."""
        made_by = self.record.values[use.value].made_by
        if use.branch is not None or made_by is None:
            return use.branch.order if use.branch is not None else 1
        return 1 + self.record.forward[made_by].order

    def _node(self, number: int) -> Card:
        while number in self.steps.pieces:
            number = self.steps.pieces[number].whole
        step = self.steps.holder.get(number)
        return self.made[step] if step is not None else self.leaves[number]

    def _wires(self, ends: list[tuple[Use, Card]]) -> list[Wire]:
        found: list[Wire] = []
        for use, head in ends:
            tail = self._node(use.source)
            shapes = [self._shape(number) for number in (use.source, use.value)]
            wire = Wire(
                f"e{len(found)}",
                tail.id,
                head.id,
                self.labels[use.source],
                self.gradients.of(use),
                shapes[:1] if shapes[0] == shapes[1] else [shapes[0], f"▸ {shapes[1]}"],
                self._order(use),
            )
            found.append(wire)
        mark_ways(found)
        return found
