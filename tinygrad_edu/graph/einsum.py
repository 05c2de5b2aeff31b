"""How a step pairs the axes of what it reads: which it contracts, which it keeps, which a gradient is summed over."""

from __future__ import annotations

from tinygrad_edu.graph.axes import Axes, operands
from tinygrad_edu.graph.record import Record
from tinygrad_edu.graph.steps import Step, Use

Run = tuple[str, str]  # (text, tone)


def shape_text(value: int, record: Record, axes: Axes, brief: bool = False) -> str:
    """The axes of a value, by name where any has one, and their lengths: "[B q d] 2×5×4"; `brief`: one of the two."""
    lengths = [str(n) for n in record.values[value].shape]
    if not lengths:
        return "a number"
    names = axes.names(value) if value in axes.of else lengths
    if names == lengths:
        return "×".join(lengths)
    return f"[{' '.join(names)}]" + ("" if brief else " " + "×".join(lengths))


def names_beside(value: int, step: Step, axes: Axes) -> list[str]:
    """The axes of a value that a step reads, called as on the side of the step's result."""
    result = list(enumerate(axes.of[step.out]))
    found = axes.names(value)
    for i, axis in enumerate(axes.of[value]):
        same = [j for j, other in result if axes.same(axis, other)]
        if len(same) == 1 and (value, i) not in axes.roles and (step.out, same[0]) in axes.roles:
            found[i] = axes.roles[step.out, same[0]]
    return found


def einsum(step: Step, axes: Axes) -> tuple[list[Run], str, str]:
    """A product as runs of text, such as B q D, D d -> B q d with D marked; what it contracts; what it keeps."""
    used = operands(step.main)
    if used is None:
        return [], "", ""
    x, i, y, j = used
    runs: list[Run] = []
    contracted = ""
    for value, at in ((x, i), (y, j)):
        names = names_beside(value, step, axes)
        at %= len(names)
        runs += [(", ", "")] if runs else []
        for k, name in enumerate(names):
            runs += [(" ", "")] if k else []
            runs.append((name, "contract" if k == at else _tone(name)))
        contracted = names[at]
    out = axes.names(step.out)
    runs.append((" -> ", ""))
    for k, name in enumerate(out):
        runs += [(" ", "")] if k else []
        runs.append((name, _tone(name)))
    return runs, contracted, " ".join(out)


def _tone(name: str) -> str:
    return name if name in ("q", "k") else ""


def summed(step: Step, use: Use, axes: Axes, learned: bool) -> str:
    """What the gradient that comes back from a use is summed over: "contract d", "sum over B q", or nothing."""
    used = operands(step.main) if use.op == step.main.id else None
    if used is not None and use.value in (used[0], used[2]):
        words = _contracted(step, use, used, axes)
    elif not learned and len(axes.of[use.value]) >= len(axes.of[step.out]):
        words = []
    else:
        mine = [(use.value, i) for i in range(len(axes.of[use.value]))]
        out = [(step.out, i) for i in range(len(axes.of[step.out])) if axes.factors.leaves(axes.of[step.out][i])]
        names = axes.names(step.out)
        words = [names[place[1]] for place in out if not any(_alike(axes, place, other) for other in mine)]
    if not words:
        return ""
    return f"{'contract' if used is not None and not learned else 'sum over'} {' '.join(words)}"


def _contracted(step: Step, use: Use, used: tuple[int, int, int, int], axes: Axes) -> list[str]:
    """The axes of the result that an operand of a product lacks, by their places, as axes may be the same one."""
    out = axes.names(step.out)
    if use.at == 0:
        return [*out[: len(out) - len(axes.of[use.value])], out[-1]]
    if step.main.op == "linear":
        return out[:-1]
    return [*out[: len(out) - len(axes.of[use.value])], out[-2]]


def _alike(axes: Axes, x: tuple[int, int], y: tuple[int, int]) -> bool:
    """Whether two axes of values are one and play no different roles."""
    roles = {axes.roles.get(x), axes.roles.get(y)} - {None}
    return len(roles) < 2 and axes.same(axes.of[x[0]][x[1]], axes.of[y[0]][y[1]])
