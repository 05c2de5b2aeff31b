"""How a step pairs the axes of what it reads: which it contracts, which it keeps, which a gradient is summed over."""

from __future__ import annotations

from tinygrad_edu.graph.axes import Axes
from tinygrad_edu.graph.products import Product, letters_of, product_of
from tinygrad_edu.graph.record import Record
from tinygrad_edu.graph.steps import Step, Use
from tinygrad_edu.graph.words import say, word

Run = tuple[str, str]  # (text, tone)


def shape_text(value: int, record: Record, axes: Axes, brief: bool = False) -> str:
    """The axes of a value, by name where any has one, and their lengths: "[B q d] 2×5×4"; `brief`: one of the two."""
    lengths = [str(n) for n in record.values[value].shape]
    if not lengths:
        return say("a number")
    names = axes.names(value) if value in axes.of else lengths
    if names == lengths:
        return "×".join(lengths)
    return f"[{' '.join(names)}]" + ("" if brief else " " + "×".join(lengths))


def einsum(step: Step, record: Record, axes: Axes) -> tuple[list[Run], str, str]:
    """A product as runs of text, such as B q D, D d -> B q d with D marked; what it contracts; what it keeps.

    An axis that the result keeps is called as there, one that is summed over as in the first value that has a role.
    """
    used = product_of(step.main, record)
    if used is None:
        return [], "", ""
    out = axes.names(step.out)
    first, second = axes.names(used.x), axes.names(used.y)
    for a, b in zip(used.i, used.j, strict=True):
        name = second[b] if axes.roles.get((used.y, b)) and not axes.roles.get((used.x, a)) else first[a]
        first[a] = second[b] = name
    for names, kept in ((first, used.left), (second, used.right)):
        for at, place in kept.items():
            names[at] = out[place] if names[at] != "1" else "1"
    runs: list[Run] = []
    for names, summed_over in ((first, used.i), (second, used.j)):
        runs += [(", ", "")] if runs else []
        for k, name in enumerate(names):
            runs += [(" ", "")] if k else []
            runs.append((name, "contract" if k in summed_over else _tone(name, axes)))
    runs.append((" -> ", ""))
    for k, name in enumerate(out):
        runs += [(" ", "")] if k else []
        runs.append((name, _tone(name, axes)))
    return runs, " ".join(first[a] for a in used.i), " ".join(out)


def product_formula(step: Step, record: Record, axes: Axes, at: int | None = None) -> str:
    """The formula of a step's op, or that of the gradient of input `at`; an einsum's names what it sums over."""
    main = step.main
    if main.op != "einsum":
        return word(main.formula.partition(";")[0].rstrip("."))
    terms, result = letters_of(main)
    called = dict(zip(result, axes.names(step.out), strict=True))
    for number, term in zip(main.inputs, terms, strict=True):
        if number is not None:
            called = dict(zip(term, axes.names(number), strict=True)) | called
    others = [f"{{{name}}}" for i, name in enumerate(main.arguments) if i != at]
    if at is None:
        head, kept = "{out}", result
    else:
        head, kept = f"d{{{main.arguments[at]}}}", terms[at]
        others.insert(0, "d{out}")
        terms = [result, *(term for i, term in enumerate(terms) if i != at)]
    over = [called[c] for c in dict.fromkeys("".join(terms)) if c not in kept]
    paired = any(c in second for i, first in enumerate(terms) for second in terms[i + 1 :] for c in first)
    text = (" ⊙ " if paired and not over else "·").join(others)
    return f"{head} = " + (say("Σ {factors} over {axes}", factors=text, axes=" ".join(over)) if over else text)


def _tone(name: str, axes: Axes) -> str:
    return next((role for role in ("q", "k") if axes.called.get(role, role) == name), "")


def summed(step: Step, use: Use, record: Record, axes: Axes) -> str:
    """What the gradient that comes back from a use is summed over: "contract d", "sum over B q", or nothing."""
    learned = record.values[use.source].learned
    used = product_of(step.main, record) if use.op == step.main.id else None
    if used is not None and use.at < 2:
        words = lacks(step, use.at, used, axes)
    elif not learned and len(axes.of[use.value]) >= len(axes.of[step.out]):
        words = []
    else:
        mine = [(use.value, i) for i in range(len(axes.of[use.value]))]
        out = [(step.out, i) for i in range(len(axes.of[step.out])) if axes.factors.leaves(axes.of[step.out][i])]
        names = axes.names(step.out)
        words = [names[place[1]] for place in out if not any(_alike(axes, place, other) for other in mine)]
    if not words:
        return ""
    text = "contract {axes}" if used is not None and not learned else "sum over {axes}"
    return say(text, axes=" ".join(words))


def lacks(step: Step, at: int, used: Product, axes: Axes) -> list[str]:
    """The axes of a product's result that one of its operands has not, over which that operand's gradient sums."""
    kept = (used.right if at else used.left).values()
    return [name for place, name in enumerate(axes.names(step.out)) if place not in kept]


def _alike(axes: Axes, x: tuple[int, int], y: tuple[int, int]) -> bool:
    """Whether an axis is another one, or a part of it, and they play no different roles."""
    roles = {axes.roles.get(x), axes.roles.get(y)} - {None, ""}
    part, whole = (set(axes.factors.leaves(axes.of[value][i])) for value, i in (x, y))
    return len(roles) < 2 and part <= whole
