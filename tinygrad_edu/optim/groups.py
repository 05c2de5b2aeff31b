"""Parameter groups: how an optimizer takes its parameters, and how saved ones are matched with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygrad_edu.nn.layers import Embedding
from tinygrad_edu.nn.module import Module
from tinygrad_edu.tensor import Tensor


def decay_groups(model: Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two groups for AdamW: tensors of two or more axes (products, tables) decay, those of fewer (bias, norm) do not.

    Args:
        model: its parameters are taken by name, a tied one once, under its first name.
        weight_decay: of the first group.

    Returns groups for `AdamW(groups)`, an empty one left out. Raises ValueError for a model without parameters.

    >>> from tinygrad_edu import nn, optim
    >>> adamw = optim.AdamW(optim.decay_groups(nn.Linear(2, 3), weight_decay=0.1))
    >>> [(group["param_names"], group["weight_decay"]) for group in adamw.param_groups]
    [(['weight'], 0.1), (['bias'], 0.0)]
    """
    named = list(model.named_parameters())
    if not named:
        raise ValueError(f"decay_groups: {type(model).__name__} has no parameters")
    decayed = [(name, p) for name, p in named if p.ndim >= 2]
    plain = [(name, p) for name, p in named if p.ndim < 2]
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def muon_groups(model: Module, weight_decay: float, heads: Sequence[str] = ("head",)) -> list[dict[str, Any]]:
    """Groups for MuonAdamW: Muon for the hidden matrices; AdamW for tables and heads, and without decay for the rest.

    Hidden matrices are the parameters of two axes that are neither the table of an Embedding, also where something
    else shares it, nor part of an output head.

    Args:
        model: its parameters are taken by name, a tied one once, under its first name.
        weight_decay: of all parameters of two or more axes.
        heads: how the names of output heads end, as "head" does for `head.weight` and `lm_head.weight`.

    Returns groups for `MuonAdamW(groups)`, empty ones left out. Raises ValueError for a model without parameters.

    >>> from tinygrad_edu import nn, optim
    >>> model = nn.Sequential(nn.Embedding(5, 2), nn.Linear(2, 3))
    >>> [([name for name, _ in g["params"]], g["use_muon"]) for g in optim.muon_groups(model, weight_decay=0.1)]
    [(['1.weight'], True), (['0.weight'], False), (['1.bias'], False)]
    """
    tables = {id(module.weight) for module in model.modules() if isinstance(module, Embedding)}

    def hidden(name: str, p: Tensor) -> bool:
        in_head = any(part.endswith(tuple(heads)) for part in name.split("."))
        return p.ndim == 2 and id(p) not in tables and not in_head

    groups: list[dict[str, Any]] = []
    for group in decay_groups(model, weight_decay):
        for use_muon in (True, False):
            params = [(name, p) for name, p in group["params"] if hidden(name, p) is use_muon]
            groups.append({**group, "params": params, "use_muon": use_muon})
    return [group for group in groups if group["params"]]


def as_groups(params: Any) -> list[dict[str, Any]]:
    """The groups in an optimizer's first argument: parameters, (name, parameter) pairs, or dicts with such `params`."""
    if isinstance(params, Tensor):
        raise TypeError("params is a single Tensor; give a list of parameters, such as model.parameters()")
    if not hasattr(params, "__iter__"):
        raise TypeError(f"params is a {type(params).__name__}; give a list of parameters, such as model.parameters()")
    listed = list(params)
    if not listed:
        raise ValueError("params is empty; a generator can be read only once, so give a list or call parameters() anew")
    if all(isinstance(item, dict) for item in listed):
        return listed
    return [{"params": listed}]


def new_group(group: dict[str, Any], defaults: dict[str, Any], present: list[dict[str, Any]]) -> dict[str, Any]:
    """A complete group, checked: leaves only, none twice (in it or in the groups present), all or none named."""
    known = ["params", "param_names", "name", *defaults]
    if unknown := [key for key in group if key not in known]:
        raise ValueError(f"group option {unknown[0]!r} is unknown; a group takes {', '.join(known)}")
    if "params" not in group:
        raise ValueError(f"a group needs 'params'; this one has {', '.join(group) or 'nothing'}")
    items = [group["params"]] if isinstance(group["params"], Tensor) else group["params"]
    if isinstance(items, set | frozenset):
        raise TypeError("params is a set, whose order differs from run to run; give a list")
    items = list(items)
    if not items:
        raise ValueError("a group's params is empty; a generator can be read only once, so give a list")
    named = [isinstance(item, tuple) for item in items]
    if any(named) and not all(named):
        raise ValueError("params mixes named and unnamed parameters; name all of them or none")
    names = [name for name, _ in items] if all(named) else group.get("param_names")
    parameters = [p for _, p in items] if all(named) else items
    if names is not None and len(names) != len(parameters):
        raise ValueError(f"a group has {len(parameters)} parameters and {len(names)} param_names")
    seen = {id(p) for other in present for p in other["params"]}
    taken = {name for other in present for name in other.get("param_names", ())}
    for i, p in enumerate(parameters):
        shown = f"parameter {names[i]!r}" if names else f"parameter {i} of the group"
        if not isinstance(p, Tensor):
            raise TypeError(f"{shown} is a {type(p).__name__}; an optimizer changes Tensors")
        if p.record is not None:
            raise ValueError(f"{shown} is the result of an op; an optimizer changes leaves, so give nn.Parameter(...)")
        if p.dtype.kind != "f":
            raise ValueError(f"{shown} has dtype {p.dtype}; an optimizer changes floating values")
        if id(p) in seen:
            raise ValueError(f"{shown} is given twice; a shared parameter belongs in one place once")
        if names and names[i] in taken:
            raise ValueError(f"two parameters are named {names[i]!r}")
        seen.add(id(p))
        taken |= {names[i]} if names else set()
    if present and ("param_names" in present[0]) != (names is not None):
        raise ValueError("some groups have named parameters and some have not; name all of them or none")
    whole = {**defaults, **group, "params": parameters}
    if names is not None:
        whole["param_names"] = list(names)
    return whole


def match(saved: list[dict[str, Any]], groups: list[dict[str, Any]]) -> dict[int, int]:
    """Saved parameter number -> own number (both counted through the groups), by name or, where neither side has names,
    by position; ValueError naming every difference in groups, names or shapes."""
    if len(saved) != len(groups):
        raise ValueError(f"the state has {len(saved)} parameter groups, the optimizer {len(groups)}")
    pairs, wrong, start = {}, [], 0
    for at, (theirs, ours) in enumerate(zip(saved, groups)):
        numbers, shapes = theirs["params"], [tuple(shape) for shape in theirs["param_shapes"]]
        names, parameters = theirs.get("param_names"), ours["params"]
        if (names is None) != ("param_names" not in ours):
            have, lack = ("state", "optimizer") if names is not None else ("optimizer", "state")
            raise ValueError(
                f"the {have} names its parameters and the {lack} does not, so they cannot be told apart; make both "
                f"optimizers from model.named_parameters()"
            )
        if len({len(numbers), len(shapes), len(names or numbers)}) > 1:
            raise ValueError(f"group {at} of the state is damaged: it has unequal numbers of params, shapes and names")
        if names is None:
            if len(numbers) != len(parameters):
                raise ValueError(
                    f"group {at}: the state has {len(numbers)} parameters, the optimizer {len(parameters)}"
                )
            keys = own = [f"parameter {i} of group {at}" for i in range(len(parameters))]
        else:
            keys, own = names, ours["param_names"]
            wrong += [f"{name} of group {at} is not in the optimizer" for name in keys if name not in own]
            wrong += [f"{name} of group {at} is not in the state" for name in own if name not in keys]
        place = {name: i for i, name in enumerate(own)}
        for name, number, shape in zip(keys, numbers, shapes):
            if name in place:
                i = place[name]
                if shape != parameters[i].shape:
                    wrong.append(f"{name} has shape {shape} in the state, {parameters[i].shape} in the optimizer")
                pairs[int(number)] = start + i
        start += len(parameters)
    if wrong:
        raise ValueError("; ".join(wrong))
    return pairs
