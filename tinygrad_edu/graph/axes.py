"""Axes that have an identity: which axis of one value is which axis of another, through every op of a record."""

from __future__ import annotations

from dataclasses import dataclass, field

from tinygrad_edu.graph.axis_rules import rule_for
from tinygrad_edu.graph.record import Application, Record

Axis = tuple[int, ...]  # the factors that an axis is made of, outermost first; most have one


class Factors:
    """Factors of axes, which may turn out to be the same one, or to be made of smaller ones.

    >>> f = Factors()
    >>> D, H, d = f.new(12, "D"), f.new(3, "H"), f.new(4, "d")
    >>> f.unify((D,), (H, d))
    True
    >>> f.text((D,)), f.text((H, d))
    ('D', '(H d)')
    """

    def __init__(self) -> None:
        self.leader: list[int] = []
        self.size: list[int] = []
        self.name: dict[int, str] = {}
        self.parts: dict[int, tuple[int, ...]] = {}

    def new(self, size: int, name: str | None = None) -> int:
        """A factor that is none of the others, as far as is known."""
        self.leader.append(len(self.leader))
        self.size.append(size)
        if name is not None:
            self.name[len(self.leader) - 1] = name
        return len(self.leader) - 1

    def find(self, a: int) -> int:
        """The factor that stands for all that are the same as `a`."""
        while self.leader[a] != a:
            self.leader[a] = self.leader[self.leader[a]]
            a = self.leader[a]
        return a

    def call(self, axis: Axis, name: str) -> None:
        """Give an axis of one factor a name; the first one given stays."""
        if len(axis) == 1:
            self.name.setdefault(self.find(axis[0]), name)

    def cut(self, a: int, first: int) -> tuple[int, ...]:
        """The parts of a factor, made where it had none: one of size `first` and the rest. () where that cannot be."""
        a = self.find(a)
        if a not in self.parts:
            if first < 1 or self.size[a] % first:
                return ()
            self.parts[a] = self.new(first), self.new(self.size[a] // first)
        return self.parts[a]

    def unify(self, x: Axis, y: Axis) -> bool:
        """Note that two axes are the same one; False where their factors cannot be matched."""
        left, right = list(reversed(x)), list(reversed(y))
        while left and right:
            a, b = self.find(left.pop()), self.find(right.pop())
            if a == b:
                continue
            if self.size[a] == self.size[b]:
                self._merge(a, b)
                continue
            small, large, stack = (a, b, right) if self.size[a] < self.size[b] else (b, a, left)
            (left if stack is right else right).append(small)
            parts = self.cut(large, self.size[small])
            if not parts:
                return False
            stack += reversed(parts)
        return not left and not right

    def _merge(self, a: int, b: int) -> None:
        self.leader[b] = a
        if b in self.name:
            self.name.setdefault(a, self.name[b])
        if a in self.parts and b in self.parts:
            self.unify(self.parts[a], self.parts[b])
        elif b in self.parts:
            self.parts[a] = self.parts[b]

    def leaves(self, axis: Axis) -> tuple[int, ...]:
        """The smallest factors of an axis that are longer than 1."""
        found, stack = [], list(reversed(axis))
        while stack:
            a = self.find(stack.pop())
            if a in self.parts:
                stack += reversed(self.parts[a])
            elif self.size[a] != 1:
                found.append(a)
        return tuple(found)

    def text(self, axis: Axis) -> str:
        """The name of an axis, the names of its factors, or where these have none, its length."""
        words = self._words(axis)
        if all(word.isdigit() for word in words):
            return str(self.length(axis))
        return words[0] if len(words) == 1 else f"({' '.join(words)})"

    def _words(self, axis: Axis) -> list[str]:
        words: list[str] = []
        for a in map(self.find, axis):
            if a in self.name or a not in self.parts:
                words.append(self.name.get(a, str(self.size[a])))
            else:
                words += self._words(self.parts[a])
        return words

    def length(self, axis: Axis) -> int:
        """How many elements lie along an axis."""
        n = 1
        for a in axis:
            n *= self.size[self.find(a)]
        return n


@dataclass(slots=True)
class Axes:
    """The axes of every value of a record. roles: "q" or "k" for an axis of a value, where attention gives it one."""

    factors: Factors
    of: dict[int, list[Axis]] = field(default_factory=dict)
    roles: dict[tuple[int, int], str] = field(default_factory=dict)
    features: set[int] = field(default_factory=set)
    contractions: dict[int, Axis] = field(default_factory=dict)  # by application
    moving: set[int] = field(default_factory=set)  # applications that average over keys
    pairs: set[int] = field(default_factory=set)  # scores, and what was made of them one by one

    def names(self, value: int) -> list[str]:
        """What the axes of a value are called: a name, a role, or the length."""
        return [self.roles.get((value, i)) or self.factors.text(axis) for i, axis in enumerate(self.of[value])]

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
        given = [axes.of[number] if number is not None else None for number in application.inputs]
        found = rule_for(application)(factors, application, given, shapes)
        for number, shape, dims in zip(application.outputs, shapes, found, strict=True):
            fits = dims is not None and [factors.length(axis) for axis in dims] == list(shape)
            axes.of[number] = dims if fits and dims is not None else [(factors.new(n),) for n in shape]
    for value in record.values:
        for axis, name in zip(axes.of.get(value.id, []), value.axes or (), strict=False):
            if name is not None:
                factors.call(axis, name)
    _features(axes, record)
    _attention(axes, record)
    return axes


def operands(application: Application) -> tuple[int, int, int, int] | None:
    """(left, axis, right, axis): which values a product multiplies and which axis of each it sums over."""
    x, y = (*application.inputs, None, None)[:2]
    if x is None or y is None:
        return None
    if application.op == "matmul":
        return x, -1, y, -2
    return (x, -1, y, -1) if application.op == "linear" else None


def _features(axes: Axes, record: Record) -> None:
    """The factors that learned products sum over or make, and the columns of tables."""
    learned = _learned_values(record)
    for application in record.forward:
        used = operands(application)
        read = [used[0], used[2]] if used else [application.inputs[1]] if application.op == "embedding" else []
        for number in read:
            if number in learned:
                for axis in axes.of[number][-2:] if used else axes.of[number][-1:]:
                    axes.features |= set(axes.factors.leaves(axis))


def _learned_values(record: Record) -> set[int]:
    """Parameters, and what was made of them alone."""
    found = {value.id for value in record.values if value.learned}
    for application in record.forward:
        read = [i for i in application.inputs if i is not None and record.values[i].kind != "number"]
        if read and all(i in found for i in read):
            found |= set(application.outputs)
    return found


def _attention(axes: Axes, record: Record) -> None:
    """Tell queries from keys: they are the rows and columns of the scores that attention weights came from.

    Scores are a product of two streams over features, or the product that rows summing to 1 were made from.
    """
    learned = _learned_values(record)
    weighted = _weighted(record)
    for application in record.forward:
        used = operands(application)
        if used is None:
            _carry(axes, application)
            continue
        x, i, y, _ = used
        contracted = axes.of[x][i]
        over_features = bool(set(axes.factors.leaves(contracted)) & axes.features)
        axes.contractions[application.id] = contracted
        if x in learned or y in learned or len(axes.of[x]) < 2 or len(axes.of[y]) < 2:
            continue
        out = application.outputs[0]
        last = len(axes.of[out]) - 1
        if axes.roles.get((x, len(axes.of[x]) - 1)) == "k":
            axes.moving.add(application.id)
            axes.roles[out, last - 1] = "q"
            _role(axes, record, y, len(axes.of[y]) - 2, "k")
        elif over_features or application.id in weighted:
            axes.roles[out, last - 1], axes.roles[out, last] = "q", "k"
            axes.pairs.add(out)
            _role(axes, record, x, len(axes.of[x]) - 2, "q")
            _role(axes, record, y, len(axes.of[y]) - 1, "k")


def _weighted(record: Record) -> set[int]:
    """The products from which values with rows summing to 1 were made."""
    found = set()
    for application in record.forward:
        shown = record.values[application.outputs[0]].shown
        number: int | None = application.outputs[0] if shown and shown.what == "weights" else None
        while number is not None and (made_by := record.values[number].made_by) is not None:
            if record.forward[made_by].op == "matmul":
                found.add(made_by)
                break
            number = record.forward[made_by].inputs[0]
    return found


def _role(axes: Axes, record: Record, value: int, at: int, role: str) -> None:
    """Give an axis a role in a value and in what it was arranged from, back to the step that made it."""
    axis = axes.of[value][at]
    while True:
        axes.roles[value, at] = role
        made_by = record.values[value].made_by
        if made_by is None or not record.forward[made_by].arranges:
            return
        source = record.forward[made_by].inputs[0]
        if source is None or len(record.forward[made_by].outputs) > 1:
            return
        places = [i for i, other in enumerate(axes.of[source]) if axes.same(axis, other)]
        if len(places) != 1:
            return
        value, at = source, places[0]


def _carry(axes: Axes, application: Application) -> None:
    """An op that keeps the last two axes of a value with roles keeps the roles; a mask beside it gets the same."""
    pairs = [i for i in application.inputs if i is not None and (i, len(axes.of[i]) - 1) in axes.roles]
    for number in pairs:
        n = len(axes.of[number])
        others = [i for i in application.inputs if i is not None and i != number]
        for other in (*application.outputs, *others):
            m = len(axes.of[other])
            if min(n, m) < 2 or (number, n - 2) not in axes.roles:
                continue
            for i in (1, 2) if axes.same(axes.of[number][n - 2], axes.of[other][m - 2]) else ():
                if axes.same(axes.of[number][n - i], axes.of[other][m - i]):
                    axes.roles.setdefault((other, m - i), axes.roles[number, n - i])
                    if number in axes.pairs and other in application.outputs and i == 1:
                        axes.pairs.add(other)
