"""What axes are made of: factors that may turn out to be the same one, or to be made of smaller ones."""

from __future__ import annotations

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
