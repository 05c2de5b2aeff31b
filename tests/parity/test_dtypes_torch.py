"""Every elementwise method in place, on every pair of dtypes: taken in, cast or refused as PyTorch does."""

from __future__ import annotations

import inspect
import operator
from typing import Any

import numpy as np
import pytest
import torch

import tinygrad_edu as tg
from tests.test_changes import AUGMENTED, DTYPES, NAMES

FILLED = [1, 0, 1]
VALUES = [True, 2, 0.5]
REFUSALS = ("can't be cast", "with a bool tensor is not supported", "with two bool tensors", "on a bool tensor is not",
            "negative integer powers", "ZeroDivisionError")  # fmt: skip
# where a number stands in for a tensor, or a dtype is one more than PyTorch has: rightly computed here
MORE = ("not implemented for", "must be Tensor", "invalid combination of arguments", "Boolean inputs not supported",
        "Integer division with addcdiv", "expected dtype", "The `+` operator")  # fmt: skip
NOT_HERE: set[tuple[str, str]] = set()


def made(lib: Any, dtype: str) -> Any:
    return lib.tensor(FILLED, dtype=getattr(lib, dtype))


def outcome(lib: Any, name: str, dtype: str, other: Any) -> Any:
    """(dtype, values) of the changed tensor, or the error."""
    x = made(lib, dtype)
    given = () if other is None else (made(lib, other) if isinstance(other, str) else other,)
    try:
        if name in AUGMENTED:
            y = getattr(operator, f"__{name}__")(x, *given)
            if y is not x:
                raise AssertionError("another tensor")
        else:
            y = getattr(x, f"{name}_")(*given)
    except (RuntimeError, TypeError, ValueError) as error:
        return error
    return str(y.dtype).removeprefix("torch."), y.tolist()


@pytest.mark.parametrize("name", [*AUGMENTED, *(n for n in NAMES if hasattr(torch.Tensor, f"{n}_"))])
@pytest.mark.filterwarnings("ignore")
def test_changes_in_place_on_all_dtypes(name: str) -> None:
    binary = name in AUGMENTED or len(
        [p for p in inspect.signature(getattr(tg.Tensor, name)).parameters.values() if p.default is p.empty]
    ) == 2  # fmt: skip
    for dtype in DTYPES:
        for other in [*DTYPES, *VALUES] if binary else [None]:
            ours, theirs = outcome(tg, name, dtype, other), outcome(torch, name, dtype, other)
            where = f"{name}_ of {dtype} and {other}: {ours} here, PyTorch {theirs}"
            if isinstance(theirs, Exception):
                if (
                    any(said in str(theirs) for said in REFUSALS)
                    and other is not True
                    and (name, dtype) not in NOT_HERE
                ):
                    assert isinstance(ours, Exception), where
                else:
                    assert isinstance(ours, Exception) or any(said in str(theirs) for said in (*MORE, *REFUSALS)), where
            elif isinstance(ours, Exception):
                assert isinstance(ours, TypeError | ValueError), where
            else:
                assert ours[0] == theirs[0], where
                np.testing.assert_allclose(
                    np.array(ours[1], float), np.array(theirs[1], float), rtol=2e-3, atol=1e-6, err_msg=where
                )
