"""One label for every value that a picture shows: a given name, the code's own, the parameter's, or the op's."""

from __future__ import annotations

from tinygrad_edu.graph.formula import number_text
from tinygrad_edu.graph.record import Name, Record, Value
from tinygrad_edu.graph.steps import Steps

_RANK = {"given": 0, "assigned": 1, "module": 2, "element": 3, "argument": 4, "array": 5}
_LETTERS = {"weight": "W", "bias": "b"}
_DIGITS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
Group = tuple[object, str]  # where a name was bound, and the name


def labels(steps: Steps) -> dict[int, str]:
    """The label of every value that a wire can start from.

    Values of one name get a running index where one run of a function binds it several times, or where a step would
    otherwise show two of them: x₁, x₂, ... Elsewhere two values may well be called the same, as they are in the code.
    """
    record = steps.record
    sources = sorted({*steps.holder, *steps.pieces, *steps.uses_of(), *steps.pieces_of()})
    shared = _loops(record)
    groups: dict[int, Group] = {}
    for number in sources:  # in the order in which they were made, so that what one is called after is known
        groups[number] = _group(number, steps, shared, groups)
    merged: dict[Group, Group] = {}

    def leader(group: Group) -> Group:
        while group in merged:
            group = merged[group]
        return group

    for step in steps.steps:
        first: dict[str, Group] = {}
        shown = [use.source for use in step.uses if record.values[use.source].kind != "number"]
        for number in (*shown, *step.outputs):
            group = leader(groups[number])
            other = leader(first.setdefault(group[1], group))
            if other != group:
                merged[group] = other
    members: dict[Group, list[int]] = {}
    for number in sources:
        if record.values[number].kind != "number":
            members.setdefault(leader(groups[number]), []).append(number)
    found = {number: groups[number][1] for number in sources}
    for group, numbers in members.items():
        if len(numbers) > 1:
            for i, number in enumerate(numbers, 1):
                found[number] = group[1] + str(i).translate(_DIGITS)
    return found


def _group(number: int, steps: Steps, shared: set[Group], groups: dict[int, Group]) -> Group:
    """Where a value got its name, and the name."""
    record = steps.record
    value = record.values[number]
    found = []
    for alias, other in enumerate([number, *steps.same.get(number, [])]):
        for place, name in enumerate(record.values[other].names):
            if value.path is None or (_RANK[name.how] < _RANK["module"] and _bound(name) not in shared):
                own = value.kind == "input" and name.how == "argument" and not name.depth  # as the caller knows it
                found.append((0 if own else _RANK[name.how], alias > 0, name.depth, alias, place, name))
    if found:
        name = min(found, key=lambda entry: entry[:-1])[-1]
        return name.scope, name.text
    if value.path is not None:
        return value.path, _symbol(value.path) if value.kind == "parameter" else value.path.rpartition(".")[2]
    if value.gradient_of in groups:
        return f"gradient {value.gradient_of}", "d" + groups[value.gradient_of][1]
    piece = steps.pieces.get(number)
    if piece is not None and piece.whole in groups:
        scope, text = groups[piece.whole]
        return (scope, value.output), f"{text}[{value.output}]"
    return _fallback(value, record)


def _loops(record: Record) -> set[Group]:
    """Names that held several parameters one after another, as in a loop over them; they tell nothing apart."""
    held: dict[Group, set[int]] = {}
    for value in record.values:
        for name in value.names if value.path is not None else ():
            held.setdefault(_bound(name), set()).add(value.id)
    return {group for group, values in held.items() if len(values) > 1}


def _bound(name: Name) -> Group:
    """The run of a module in which a name was bound, and the name."""
    return name.scope[0], name.text


def _fallback(value: Value, record: Record) -> Group:
    """For a value without any name: after the op that made it, or after what kind of leaf it is."""
    if value.made_by is not None:
        made_by = record.forward[value.made_by]
        several = len(made_by.outputs) > 1
        return made_by.call, f"{made_by.op}[{value.output}]" if several else made_by.op.removesuffix("_number")
    if value.kind == "unknown":
        return f"leaf {value.id}", "?"
    text = "constant"
    shown = value.shown.numbers[0] if value.shown and len(value.shape) == 1 else []
    if value.only is not None:
        text = number_text(value.only)
    elif value.kind in ("number", "input"):
        text = value.kind
    elif value.gradient:
        text = "param"
    elif value.dtype == "bool":
        text = "mask"
    elif len(shown) > 1 and len(shown) == value.shape[0] and shown == list(range(len(shown))):
        text = f"0…{len(shown) - 1}"
    return f"leaf {value.id}", text


def _symbol(path: str) -> str:
    """What a parameter is called in formulas: W_qkv for `blocks.0.attention.qkv.weight`.

    >>> _symbol("blocks.0.attention.qkv.bias"), _symbol("head.Wq"), _symbol("weight")
    ('b_qkv', 'Wq', 'W')
    """
    owner, _, name = path.rpartition(".")
    letter = _LETTERS.get(name)
    if letter is None:
        return name
    last = owner.rpartition(".")[2]
    return f"{letter}_{last}" if last else letter
