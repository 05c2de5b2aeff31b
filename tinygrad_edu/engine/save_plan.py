"""What an op class says of itself, read once: its inputs, and what to keep for the rules of a backward pass."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Branch:
    """One gradient branch: the rule, which input it is for (of joint rules the first), which kept values it reads."""

    at: int
    rule: Callable[..., Any]
    reads: list[Any]  # places in what is kept and, behind it, the plan's facts; a slice for `*xs`
    formula: str


@dataclass(slots=True)
class Plan:
    """For one set of inputs that need gradients: which of [out, *saves, *inputs] are kept, and which branches run."""

    keep: list[int]
    facts: list[Callable[[Any], Any]]  # what rules read besides, from the record: static arguments, shapes
    branches: list[Branch]
    keeps_out: bool
    inputs_kept: list[int]  # beside `keep`, which input it is; below 0 for results and saved values


def declare(op: Any) -> None:
    """Read the signatures of a new op class into its class attributes, and refuse rules that read what is not there."""
    op.name = "".join("_" + c.lower() if c.isupper() else c for c in op.__name__).strip("_")
    own = op.__dict__
    signature = inspect.signature(op.forward).parameters
    op.inputs = tuple(n for n, p in signature.items() if p.kind is not p.KEYWORD_ONLY)
    op.variadic = next((n for n, p in signature.items() if p.kind is p.VAR_POSITIONAL), None)
    op.static = {n: p.default for n, p in signature.items() if p.kind is p.KEYWORD_ONLY and n != "recording"}
    op.asks = "recording" in signature
    op.joint = own.get("gradients")
    op.rules = {n: own["d" + n] for n in op.inputs if "d" + n in own}
    op.by_ops = {n: own[n] for n in op.saves if n in own}
    op.plans = {}
    needy = [n in op.rules or n in op.formulas for n in op.inputs]
    op.needy = -1 if op.variadic and any(needy) else sum(1 << i for i, flows in enumerate(needy) if flows)
    known = {"g", "need", "out", "position", *op.inputs, *op.saves, *op.static}
    known |= {f"{n}_{what}" for n in op.inputs for what in ("shape", "dtype")}
    for rule in [op.joint] if op.joint else op.rules.values():
        if unknown := [n for n in inspect.signature(rule).parameters if n not in known]:
            raise TypeError(f"op {op.name}: a rule reads {unknown}, no input, static argument or saved value")
    for name, function in op.by_ops.items():
        if unknown := [n for n in inspect.signature(function).parameters if n not in {*op.inputs, *op.static}]:
            raise TypeError(f"op {op.name}: {name} reads {unknown}, no input or static argument")
    for name in ("forward", "definition", "gradients"):
        if name in own:
            setattr(op, name, staticmethod(own[name]))


def plan_for(op: Any, mask: int, count: int) -> Plan:
    """The plan for `count` inputs, of which those whose bit is set in `mask` need gradients."""
    first = 1 + len(op.saves)
    rest = len(op.inputs) - 1 if op.variadic else count  # the inputs from here on are those of `*xs`
    places = {"out": 0, **{n: i for i, n in enumerate([*op.saves, *op.inputs[:rest]], 1)}}
    needed = [i for i in range(count) if mask >> i & 1]
    rules = [(i, op.joint or op.rules[op.inputs[min(i, rest)]]) for i in (needed[:1] if op.joint else needed)]
    keep = set(range(first, first + count)) if op.definition else set()
    for _, rule in rules:
        for name in inspect.signature(rule).parameters:
            again = inspect.signature(op.by_ops[name]).parameters if name in op.by_ops else ()
            keep |= {places[n] for n in (name, *again) if n in places}
            keep |= set(range(first + rest, first + count)) if name == op.variadic else set()
    order = sorted(keep)
    need = tuple(bool(mask >> i & 1) for i in range(count))
    facts: dict[Any, tuple[int, Callable[..., Any]]] = {}  # with the place of each

    def read(name: str, at: int) -> Any:
        if name in places:
            return order.index(places[name])
        if name == op.variadic:
            return slice(order.index(first + rest), len(order))
        if (name, at) not in facts:
            facts[name, at] = len(order) + len(facts), _fact(op, name, at, need)
        return facts[name, at][0]

    branches = []
    for at, rule in rules:
        names = list(inspect.signature(rule).parameters)[1:]
        branches.append(Branch(at, rule, [read(name, at) for name in names], inspect.getdoc(rule) or ""))
    return Plan(order, [fact for _, fact in facts.values()], branches, 0 in keep, [place - first for place in order])


def _fact(op: Any, name: str, at: int, need: tuple[bool, ...]) -> Callable[[Any], Any]:
    """What a rule reads that is not kept: a static argument, the shape or dtype of an input, a constant of the plan."""
    if name in op.static:
        return lambda record: record.static[name]
    if name in ("need", "position"):
        constant = need if name == "need" else at
        return lambda record: constant
    whose, _, what = name.rpartition("_")
    place = at if whose == op.variadic else op.inputs.index(whose)
    return lambda record: getattr(record, what + "_of")(place)
