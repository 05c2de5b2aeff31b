"""Axes that have an identity: which axis of one value is which axis of another, through every op of a record."""

from __future__ import annotations

from dataclasses import dataclass, field

from tinygrad_edu.graph.axis_rules import OVER_TIME, rule_for
from tinygrad_edu.graph.factors import Axis, Factors
from tinygrad_edu.graph.places import is_elementwise, places_of
from tinygrad_edu.graph.products import Product, letters_of, product_of
from tinygrad_edu.graph.record import Application, Record


@dataclass(slots=True)
class Axes:
    """The axes of every value of a record.

    roles: "q" or "k" for an axis of a value, where attention gives it one, "" for one that is both. exact: names that
    hold for one value before all others.
    """

    factors: Factors
    of: dict[int, list[Axis]] = field(default_factory=dict)
    roles: dict[tuple[int, int], str] = field(default_factory=dict)
    exact: dict[int, tuple[str | None, ...]] = field(default_factory=dict)
    settled: dict[int, list[str]] = field(default_factory=dict)  # what `names` found, once all axes are known
    features: set[int] = field(default_factory=set)
    contractions: dict[int, Axis] = field(default_factory=dict)  # by application
    # Applications that move content between tokens: which input is the weights of an average over keys, None where a
    # state goes from token to token.
    moving: dict[int, int | None] = field(default_factory=dict)
    queries: dict[int, int] = field(default_factory=dict)  # applications that score pairs: which input is queries
    called: dict[str, str] = field(default_factory=dict)  # what the roles are called, where not q and k
    learned: set[int] = field(default_factory=set)  # parameters, and what was made of them alone
    pairs: dict[int, int] = field(default_factory=dict)  # scores, and what was made of them one by one: who scored

    def names(self, value: int) -> list[str]:
        """What the axes of a value are called: a name, a role, or the length."""
        if value not in self.settled:
            self.settled[value] = self._names(value)
        return list(self.settled[value])

    def _names(self, value: int) -> list[str]:
        roles = [self.roles.get((value, i)) for i in range(len(self.of[value]))]
        exact = self.exact.get(value) or [None] * len(roles)
        return [
            given or (self.called.get(role, role) if role else self.factors.text(axis))
            for given, role, axis in zip(exact, roles, self.of[value], strict=True)
        ]

    def pairing(self, value: int) -> tuple[int, int] | None:
        """Which axes of a value are queries and keys, where it has one of each."""
        roles = [self.roles.get((value, i)) for i in range(len(self.of.get(value, ())))]
        if roles.count("q") == roles.count("k") == 1:
            return roles.index("q"), roles.index("k")
        return None

    def heads(self, value: int) -> tuple[str, str]:
        """What the rows and the columns of a value's grid are called, where they are queries and keys."""
        if self.pairing(value) is not None:
            return self.called.get("q", "q"), self.called.get("k", "k")
        return "", ""

    def same(self, x: Axis, y: Axis) -> bool:
        """Whether two axes are one."""
        return self.factors.leaves(x) == self.factors.leaves(y)


def axes_of(record: Record) -> Axes:
    """The axes of all values that the forward pass made or read.

    They are worked out from the ops alone: a product contracts the axes that it sums over, an element-wise op makes its
    operands' axes the same, a reshape cuts and joins them. Names come from `Value.axes` and spread over all that is
    the same axis; nothing is concluded from lengths, nor from the names of ops, modules or variables.
    """
    axes = Axes(Factors())
    factors = axes.factors
    for application in record.forward:
        for number in application.inputs:
            if number is not None and number not in axes.of:
                axes.of[number] = [(factors.new(n),) for n in record.values[number].shape]
        shapes = [record.values[number].shape for number in application.outputs]
        unknown = [number is not None and record.values[number].kind == "unknown" for number in application.inputs]
        given = [
            None if number is None or lost else axes.of[number]
            for number, lost in zip(application.inputs, unknown, strict=True)
        ]
        found = rule_for(application, any(unknown))(factors, application, given, shapes)
        for number, shape, dims in zip(application.outputs, shapes, found, strict=True):
            fits = dims is not None and [factors.length(axis) for axis in dims] == list(shape)
            axes.of[number] = dims if fits and dims is not None else [(factors.new(n),) for n in shape]
    for value in record.values:
        if value.given and value.axes is not None and value.id in axes.of:
            axes.exact[value.id] = value.axes
            continue
        for axis, name in zip(axes.of.get(value.id, []), value.axes or (), strict=False):
            if name is not None:
                factors.call(axis, name)
    axes.learned = _learned_values(record)
    _features(axes, record)
    _attention(axes, record)
    for number, names in axes.exact.items():
        for at, (axis, name) in enumerate(zip(axes.of[number], names, strict=True)):
            if name is not None and (number, at) not in axes.roles:  # q and k are the names of a side, not of an axis
                factors.call(axis, name)
    _lengths(axes, record)
    _letters(axes, record)
    return axes


def equal_lengths(record: Record, axes: Axes) -> list[tuple[int, list[str]]]:
    """(length, names) wherever axes of different names have one length."""
    found: dict[int, set[str]] = {}
    for value, dims in axes.of.items():
        for n, axis in zip(record.values[value].shape, dims, strict=True):
            name = axes.factors.text(axis)
            if n > 1 and name.isidentifier():
                found.setdefault(n, set()).add(name)
    return [(n, sorted(names)) for n, names in sorted(found.items()) if len(names) > 1]


def _features(axes: Axes, record: Record) -> None:
    """The factors that learned products sum over or make, and the columns of tables."""
    for application in record.forward:
        used = product_of(application, record)
        read: list[tuple[int | None, list[int]]] = []
        if used is not None:
            read = [(used.x, used.i + used.rows[-2:]), (used.y, used.j + used.columns)]
        elif application.op == "embedding":
            read = [(application.inputs[1], [-1])]
        for number, places in read:
            if number is not None and number in axes.learned:
                for at in places:
                    axes.features |= set(axes.factors.leaves(axes.of[number][at]))


def _learned_values(record: Record) -> set[int]:
    """Parameters, and what was made of them alone."""
    found = {value.id for value in record.values if value.learned}
    for application in record.forward:
        read = [i for i in application.inputs if i is not None and record.values[i].kind != "number"]
        if read and all(i in found for i in read):
            found |= set(application.outputs)
    return found


def _attention(axes: Axes, record: Record) -> None:
    """Tell queries from keys: keys are the columns of scores, or the rows where the values are summed over these.

    Scores are a product of two streams over features, or the product that rows summing to 1 were made from.
    """
    weighted = _weighted(record)
    turned = _roles(axes, record, weighted, set())
    if turned:
        for found in (axes.roles, axes.moving, axes.queries, axes.pairs):
            found.clear()
        _roles(axes, record, weighted, turned)


def _roles(axes: Axes, record: Record, weighted: set[int], turned: set[int]) -> set[int]:
    """Give the roles; the products that scored with keys as rows, as the sum over the values shows."""
    fixed = _fixed(record)
    over: dict[int, str] = {}  # by the product that scored: the role that the first sum over values takes for keys
    for application in record.forward:
        used = product_of(application, record)
        if used is None:
            if application.op in OVER_TIME:
                axes.moving[application.id] = None
            _carry(axes, application, record)
            continue
        contracted = tuple(factor for at in used.i for factor in axes.of[used.x][at])
        axes.contractions[application.id] = contracted
        if used.x in axes.learned or used.y in axes.learned or not used.rows or not used.columns:
            for value, summed_over, kept in ((used.x, used.i, used.left), (used.y, used.j, used.right)):
                if not any((value, i) in axes.roles for i in summed_over):  # as where heads are mixed with each other
                    _give(axes, value, application.outputs[0], kept)
            continue
        out = application.outputs[0]
        row, column = used.rows[-1], used.columns[-1]
        for value, places in ((used.x, used.i), (used.y, used.j)):
            if value in axes.pairs and not application.order:
                for role in (axes.roles.get((value, at)) for at in places):
                    if role:
                        over.setdefault(axes.pairs[value], role)
        if any(axes.roles.get((used.x, at)) == "k" for at in used.i):
            axes.moving[application.id] = 0
            axes.roles[out, used.left[row]] = "q"
            _role(axes, record, used.y, used.j[-1], "k")
        elif used.y in axes.pairs and any(axes.roles.get((used.y, at)) == "k" for at in used.j):
            axes.moving[application.id] = 1
            axes.roles[out, used.right[column]] = "q"
            _role(axes, record, used.x, used.i[-1], "k")
        elif (at := _averaging(used, fixed, record)) is not None:  # weights that depend on no token
            axes.moving[application.id] = at
            value, along, other = (used.y, used.j[0], used.x) if at else (used.x, used.i[0], used.y)
            _role(axes, record, value, along, "k")
            _role(axes, record, value, column if at else row, "q")
            _role(axes, record, other, (used.i if at else used.j)[0], "k")
            axes.roles[out, used.right[column] if at else used.left[row]] = "q"
        elif set(axes.factors.leaves(contracted)) & axes.features or application.id in weighted:
            first, second = (used.x, row, used.left[row]), (used.y, column, used.right[column])
            swapped = (second[2] < first[2]) is not (application.id in turned)
            axes.queries[application.id] = int(swapped)
            for (value, at, place), role in zip((second, first) if swapped else (first, second), "qk", strict=True):
                axes.roles[out, place] = role
                _role(axes, record, value, at, role)
            axes.pairs[out] = application.id
    return {number for number, role in over.items() if role == "q"}


def _averaging(used: Product, fixed: set[int], record: Record) -> int | None:
    """Which of two values that are multiplied is fixed weights, along the axis that is summed over."""
    for at, (value, other, over) in enumerate(((used.x, used.y, used.i), (used.y, used.x, used.j))):
        shown = record.values[value].shown
        weighs = shown is not None and shown.what == "weights" and [shown.places[1]] == over
        if weighs and value in fixed and other not in fixed:
            return at
    return None


def _fixed(record: Record) -> set[int]:
    """The values that were made of constants alone."""
    if not any(value.kind in ("input", "earlier") for value in record.values):
        return set()  # then these may be what it is all about
    found = {
        value.id
        for value in record.values
        if value.made_by is None and value.kind in ("tensor", "buffer", "number") and not value.gradient
    }
    for application in record.forward:
        if all(i is None or i in found for i in application.inputs):
            found.update(application.outputs)
    return found


def _lengths(axes: Axes, record: Record) -> None:
    """Call axes as the code calls the lengths that it gives to a reshape, where nothing else names them."""
    for application in record.forward:
        if application.op == "reshape" and application.line is not None:
            made = axes.of[application.outputs[0]]
            fitting = {
                (*names[:front], *(None,) * (len(made) - len(names)), *names[front:])
                for names, front in application.line.lengths
                if len(names) == len(made) or (front < len(names) < len(made))
            }
            for axis, name in zip(made, *fitting) if len(fitting) == 1 else ():
                if name is not None:
                    axes.factors.call(axis, name)


def _letters(axes: Axes, record: Record) -> None:
    """Call axes as the letters of an einsum do, where nothing else names them.

    Where a letter q or k is something else than queries and keys, those are called by the letters of the scores.
    """
    for application in record.forward:
        if application.op != "einsum":
            continue
        dotted = application.line is not None and "..." in application.line.text  # the engine chose some letters
        terms, result = letters_of(application)
        for number, letters in zip((*application.inputs, application.outputs[0]), (*terms, result), strict=True):
            for at, letter in enumerate(letters if number is not None else ()):
                if number is not None and axes.roles.get((number, at)) != letter and not (dotted and letter.isupper()):
                    axes.factors.call(axes.of[number][at], letter)
    if {"q", "k"} & set(axes.factors.name.values()):
        for number in axes.queries:
            application = record.forward[number]
            if application.op == "einsum":
                for at, letter in enumerate(letters_of(application)[1]):
                    role = axes.roles.get((application.outputs[0], at))
                    if role:
                        axes.called.setdefault(role, letter)


def _weighted(record: Record) -> set[int]:
    """The products from which values with rows summing to 1 were made."""
    found = set()
    for application in record.forward:
        shown = record.values[application.outputs[0]].shown
        number: int | None = application.outputs[0] if shown and shown.what == "weights" else None
        while number is not None and (made_by := record.values[number].made_by) is not None:
            if record.forward[made_by].op in ("matmul", "einsum"):
                found.add(made_by)
                break
            number = _first_scores(record.forward[made_by], record)
    return found


def _first_scores(application: Application, record: Record) -> int | None:
    """The input that an op made scores or weights from: of all that hold floats the first of their shape, or the first;
    not a condition, and not the number in its place."""
    floats = [i for i in application.inputs if i is not None and record.values[i].dtype.startswith("float")]
    shape = record.values[application.outputs[0]].shape
    return next((i for i in floats if record.values[i].shape == shape), floats[0] if floats else None)


def _role(axes: Axes, record: Record, value: int, at: int, role: str) -> None:
    """Give an axis a role in a value and in what it was arranged from, back to the step that made it."""
    axis = axes.of[value][at]
    while True:
        axes.roles[value, at] = role if axes.roles.get((value, at), role) == role else ""
        made_by = record.values[value].made_by
        if made_by is None or not record.forward[made_by].arranges:
            return
        source = record.forward[made_by].inputs[0]
        if source is None or len(record.forward[made_by].outputs) > 1:
            return
        back = [i for i, place in places_of(record.forward[made_by], record).items() if place == at]
        if len(back) != 1 or not axes.same(axis, axes.of[source][back[0]]):
            return
        value, at = source, back[0]


def _carry(axes: Axes, application: Application, record: Record) -> None:
    """What is made of scores or weights one by one has their roles, and so has a mask beside them."""
    at = next((at for at, i in enumerate(application.inputs) if i is not None and axes.pairing(i) is not None), None)
    if at is None:
        return
    number: int = application.inputs[at]  # type: ignore[assignment]
    n = len(axes.of[number])
    aligned = is_elementwise(application)
    if not aligned and at > 0:
        return
    for out in application.outputs:
        m = len(axes.of[out])
        _give(axes, number, out, {i: i + m - n for i in range(n)} if aligned else places_of(application, record))
    for other in application.inputs if aligned else ():
        if other is not None and other != number:
            m = len(axes.of[other])
            _give(axes, number, other, {i: i + m - n for i in range(n)}, made=False)


def _give(axes: Axes, value: int, other: int, places: dict[int, int], made: bool = True) -> None:
    """Let axes of another value have the roles that these have in a value; `made` of that value."""
    for i in axes.pairing(value) or ():
        at = places.get(i, -1)
        if 0 <= at < len(axes.of[other]) and axes.same(axes.of[value][i], axes.of[other][at]):
            axes.roles.setdefault((other, at), axes.roles[value, i])
    if made and value in axes.pairs and axes.pairing(other) is not None:
        axes.pairs[other] = axes.pairs[value]
