"""Operands of one op brought to one dtype, by PyTorch's rule."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_edu.arrays.devices import device_of, module_on, new_array
from tinygrad_edu.arrays.dtypes import CATEGORY, DEFAULT, float16, float32, int64, number_for
from tinygrad_edu.arrays.library import is_array


def promoted(operands: list[Any], tensors: list[bool], numbers: str = "wrap", rounds_last: bool = False) -> list[Any]:
    """Operands of one elementwise op brought to one dtype, by PyTorch's rule; `tensors` says which came from Tensors.

    Floating beats integer beats boolean. Within a kind, tensors with axes decide, then tensors without, then bare
    arrays and Python's numbers: so a Tensor is never widened by anything else. An integer that the dtype cannot hold
    wraps around as the dtype's own values do ("wrap"), makes all of them int64 ("exact", for comparisons, whose result
    is boolean anyway), or raises a ValueError ("fit", for what is written into the result as it is). There a finite
    number beyond float32 raises one, too; elsewhere it is infinite.
    With `rounds_last`, numbers next to float16 are float32: the caller rounds the result.
    """
    place = next((device_of(x) for x in operands if is_array(x)), None)
    operands = [x if is_array(x) or type(x) in (float, int, bool) else _constant(x, place) for x in operands]
    xp = module_on(place)
    ranks: list[list[np.dtype]] = [[], [], [], []]
    for x, tensor in zip(operands, tensors, strict=True):
        if is_array(x):
            ranks[(0 if x.ndim else 1) if tensor else 2].append(x.dtype)
        else:
            ranks[3].append(DEFAULT["b" if type(x) is bool else "i" if type(x) is int else "f"])
    target: np.dtype | None = None
    for dtypes in ranks:
        if dtypes:
            top = max(CATEGORY[d.kind] for d in dtypes)
            if target is None or top > CATEGORY[target.kind]:
                target = np.result_type(*(d for d in dtypes if CATEGORY[d.kind] == top))
    if target is not None and target.kind in "iu" and any(type(x) is int for x in operands):
        target = _holding([x for x in operands if type(x) is int], target, numbers)
    of_numbers = float32 if rounds_last and target == float16 else target
    if numbers == "fit" and target is not None and target.kind == "f" and target != float16:  # as in PyTorch
        for x in operands:
            number_for(x, target, "where")
    with np.errstate(over="ignore"):
        return [
            x.astype(target, copy=False) if is_array(x) else xp.asarray(_wrapped(x, target), dtype=of_numbers)
            for x in operands
        ]


def _holding(integers: list[int], target: np.dtype, numbers: str) -> np.dtype:
    """The dtype in which to compute with Python's integers next to tensors of `target`."""
    bounds = np.iinfo(target)
    least = -int(bounds.max) if target.kind == "u" else int(bounds.min)  # PyTorch writes -1 as 255
    for x in integers:
        if not -(2**63) <= x < 2**63:
            raise ValueError(f"{x} has more than the 63 bits of int64; use a float")
        if numbers == "fit" and not least <= x <= bounds.max:
            raise ValueError(f"{x} does not fit into {target}, whose values go from {bounds.min} to {bounds.max}")
        if numbers == "exact" and not bounds.min <= x <= bounds.max:
            return int64
    return target


def _wrapped(x: Any, target: np.dtype | None) -> Any:
    """An integer as the dtype's own arithmetic would leave it: 300 is 44 in uint8. Other numbers as they are."""
    if type(x) is not int or target is None or target.kind not in "iu":
        return x
    span, least = 2 ** (8 * target.itemsize), int(np.iinfo(target).min)
    return (x - least) % span + least


def _constant(x: Any, device: str | None) -> Any:
    if isinstance(x, np.generic):
        return x.item()
    try:
        return new_array(x, device=device)
    except (TypeError, ValueError):
        raise TypeError(f"cannot compute with a {type(x).__name__}; give a Tensor, an array or a number") from None
