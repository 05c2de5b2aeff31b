"""Sums of products over named axes, two arrays at a time, each by one matrix product."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

from tinygrad_edu.arrays.library import Array, as_array
from tinygrad_edu.arrays.sums import narrow, product, total, wide

Part = tuple[Array, str]  # an array, and a letter for each of its axes


def contracted(equation: str, xs: Sequence[Array]) -> Array:
    """The sum of products that `equation` spells, like "ij,jk->ik", in memory of its own.

    No letter twice in one term; an axis of length 1 goes along with any length. A letter is summed as soon as no other
    array has it, and the two arrays with the smallest product come first.

    >>> import numpy as np
    >>> contracted("ij,j->i", [np.ones((2, 3)), np.arange(3.0)]).tolist()
    [3.0, 3.0]
    """
    left, result = equation.split("->")
    lengths: dict[str, int] = {}
    parts: list[Part] = []
    for term, x in zip(left.split(","), xs, strict=True):
        lengths |= {c: n for c, n in zip(term, x.shape, strict=True) if n != 1 or c not in lengths}
        long = [i for i, n in enumerate(x.shape) if n != 1]
        parts.append((wide(x).reshape([x.shape[i] for i in long]), "".join(term[i] for i in long)))
    while len(parts) > 1:
        found = []
        for i, j in itertools.combinations(range(len(parts)), 2):
            others = result + "".join(term for k, (_, term) in enumerate(parts) if k not in (i, j))
            found.append((math.prod(lengths[c] for c in {*parts[i][1], *parts[j][1]} & {*others}), i, j, others))
        _, i, j, others = min(found)
        pair = _pair(parts[i], parts[j], others, lengths)
        parts = [part for k, part in enumerate(parts) if k not in (i, j)] + [pair]
    kept = [c for c in result if lengths[c] != 1]
    y, term = _summed(*parts[0], kept)
    y = narrow(_arranged(y, term, kept), xs[0].dtype) if xs[0].dtype.kind == "f" else _arranged(y, term, kept)
    y = y.reshape([lengths[c] for c in result])
    return y.copy() if len(xs) == 1 and y.size == xs[0].size else y


def _summed(x: Array, term: str, kept: Iterable[str]) -> Part:
    """Σ x over the letters that are not kept."""
    axes = tuple(i for i, c in enumerate(term) if c not in kept)
    return (as_array(total(x, axes), x), "".join(c for c in term if c in kept)) if axes else (x, term)


def _arranged(x: Array, term: str, letters: Sequence[str]) -> Array:
    return x.transpose([term.index(c) for c in letters]) if letters else x


def _pair(first: Part, second: Part, others: str, lengths: dict[str, int]) -> Part:
    """The product of two, summed over the letters that they alone have."""
    x, a = _summed(*first, second[1] + others)
    y, b = _summed(*second, a + others)
    common = [c for c in a if c in b]
    both, over = [c for c in common if c in others], [c for c in common if c not in others]
    rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]
    outer, along, height, width = ([lengths[c] for c in letters] for letters in (both, over, rows, columns))
    x, y = _arranged(x, a, [*both, *rows, *over]), _arranged(y, b, [*both, *over, *columns])
    if over:
        x = x.reshape([*outer, math.prod(height), math.prod(along)])
        z: Any = product(x, y.reshape([*outer, math.prod(along), math.prod(width)]))
    else:
        z = x.reshape([*outer, *height, *[1] * len(width)]) * y.reshape([*outer, *[1] * len(height), *width])
    return z.reshape([*outer, *height, *width]), "".join([*both, *rows, *columns])
