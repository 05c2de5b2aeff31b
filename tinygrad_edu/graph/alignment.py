"""Which step of one graph is which of another: by module, by op and axes, and by the order in which they come."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise, takewhile

from tinygrad_edu.graph.picture import Card, Cluster, Picture

_MOST = 4_000_000  # pairs up to which the longest common subsequence is looked for


@dataclass(slots=True)
class Node:
    """A step or an input of a graph, and the module that it stands in, without layer numbers."""

    card: Card
    module: str

    @property
    def axes(self) -> str:
        """The names of the axes that it pairs, or that its result has."""
        paired = "".join(text for text, _ in self.card.einsum)
        if paired:
            return paired
        shape = self.card.shape or next(iter(self.card.lines), "")
        named = re.match(r"\[(.*?)\]", shape)
        return named[1] if named else str(shape.count("×") + 1)

    @property
    def key(self) -> tuple[str, str]:
        """What is the same in two nodes that are to be compared: the op and the axes, or an input's name."""
        return (self.card.op, self.axes) if self.card.role == "step" else (self.card.origin, self.card.header)


def nodes_of(picture: Picture) -> list[Node]:
    """The inputs and steps of a picture, in order."""
    found: list[Node] = []
    stack: list[tuple[Card | Cluster, str]] = [(item, "") for item in reversed(picture.content)]
    while stack:
        item, around = stack.pop()
        if isinstance(item, Cluster):
            stack += [(inner, item.path or around) for inner in reversed(item.content)]
        elif item.role == "step" or item.origin == "input":
            path = item.path.partition(" · ")[0] if item.role == "step" and " · " in item.path else around
            found.append(Node(item, without_numbers(path)))
    return sorted(found, key=lambda node: int(node.card.id[1:]))


def without_numbers(path: str) -> str:
    """A module's path with a star for every layer number.

    >>> without_numbers("blocks.11.attention.0")
    'blocks.*.attention.*'
    """
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", path)


def aligned(before: list[Node], after: list[Node]) -> list[tuple[Node | None, Node | None]]:
    """Pairs of nodes that are one, in the order of the second; None beside a node that only one of the graphs has.

    Nodes pair within a module: those of one op and axes along their longest common subsequence, and what is left
    between two such pairs where the op, or what it does with tokens, is the same. Modules pair by their path, and where
    only the path differs, by what runs in them. What is left then pairs by op and axes wherever it stands.
    """
    pairs: list[tuple[Node, Node]] = []
    for olds, news in _modules(_by_module(before), _by_module(after)):
        pairs += _within(olds, news)
    ids = {node.card.id for node, _ in pairs}, {node.card.id for _, node in pairs}
    olds, news = ([node for node in side if node.card.id not in own] for side, own in zip((before, after), ids))
    pairs += [(olds[i], news[j]) for i, j in _common([node.key for node in olds], [node.key for node in news])]
    partner = {new.card.id: old for old, new in pairs}
    taken = {old.card.id for old, _ in pairs}
    found: list[tuple[Node | None, Node | None]] = []
    rest = [node for node in before if node.card.id not in taken]
    for new in after:
        old = partner.get(new.card.id)
        while old is not None and rest and int(rest[0].card.id[1:]) < int(old.card.id[1:]):
            found.append((rest.pop(0), None))
        found.append((old, new))
    return [*found, *((node, None) for node in rest)]


def _by_module(nodes: list[Node]) -> dict[str, list[Node]]:
    found: dict[str, list[Node]] = {}
    for node in nodes:
        found.setdefault(node.module, []).append(node)
    return found


def _modules(before: dict[str, list[Node]], after: dict[str, list[Node]]) -> list[tuple[list[Node], list[Node]]]:
    """The nodes of modules that are one."""
    found = [(before[path], after[path]) for path in before if path in after]
    left = [path for path in before if path not in after]
    right = [path for path in after if path not in before]
    for path in left:
        keys = [node.key for node in before[path]]
        for other in sorted(right, key=lambda other: -_ending(path, other)):
            same = len(_common(keys, [node.key for node in after[other]]))
            if same and 2 * same >= max(len(keys), len(after[other])):
                found.append((before[path], after[other]))
                right.remove(other)
                break
    return found


def _ending(path: str, other: str) -> int:
    """How many names at their ends two paths share."""
    pairs = zip(reversed(path.split(".")), reversed(other.split(".")))
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _within(before: list[Node], after: list[Node]) -> list[tuple[Node, Node]]:
    """The pairs of two modules' nodes."""
    common = _common([node.key for node in before], [node.key for node in after])
    pairs = [(before[i], after[j]) for i, j in common]
    for (i, j), (end, stop) in pairwise([(-1, -1), *common, (len(before), len(after))]):
        between = list(after[j + 1 : stop])
        for old in before[i + 1 : end]:
            alike = [new for new in between if _alike(old.card, new.card)]
            if alike:
                pairs.append((old, alike[0]))
                between = between[between.index(alike[0]) + 1 :]
    return pairs


def _alike(old: Card, new: Card) -> bool:
    """Whether two cards are one that changed."""
    if old.role != new.role or old.role != "step":
        return False
    return old.op == new.op or (old.kind == new.kind and old.kind != "plain")


def _common(x: list[tuple[str, str]], y: list[tuple[str, str]]) -> list[tuple[int, int]]:
    """The places of a longest common subsequence."""
    if len(x) * len(y) > _MOST:
        blocks = SequenceMatcher(None, x, y, autojunk=False).get_matching_blocks()
        return [(block.a + k, block.b + k) for block in blocks for k in range(block.size)]
    longest = [[0] * (len(y) + 1) for _ in range(len(x) + 1)]
    for i in reversed(range(len(x))):
        for j in reversed(range(len(y))):
            equal = x[i] == y[j]
            longest[i][j] = longest[i + 1][j + 1] + 1 if equal else max(longest[i + 1][j], longest[i][j + 1])
    found, i, j = [], 0, 0
    while i < len(x) and j < len(y):
        if x[i] == y[j]:
            found.append((i, j))
            i, j = i + 1, j + 1
        elif longest[i + 1][j] >= longest[i][j + 1]:
            i += 1
        else:
            j += 1
    return found
