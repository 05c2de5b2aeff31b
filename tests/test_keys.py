"""x[...] means what it means to PyTorch, also where NumPy means something else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg

CUBE = np.arange(60.0).reshape(3, 4, 5)
IDS = [1, 0, 1]


@pytest.mark.parametrize(
    ("key", "meaning"),
    [
        ((0, slice(None), tg.tensor(IDS)), CUBE[0][:, IDS]),
        ((np.int64(2), ..., IDS), CUBE[2][:, IDS]),
        ((tg.tensor(1), slice(1, None), tg.tensor([True, False, True, False, True])), CUBE[1, 1:][:, ::2]),
        ((slice(None), tg.tensor(IDS), -1), CUBE[..., -1][:, IDS]),
        ((tg.tensor(IDS), 2, tg.tensor(IDS)), CUBE[:, 2][IDS, IDS]),
        ((0, None, slice(None), range(2)), CUBE[0][None][:, :, [0, 1]]),
    ],
)
def test_numbers_leave_before_arrays_pick(key: Any, meaning: np.ndarray) -> None:
    x = tg.tensor(CUBE, requires_grad=True)
    assert x[key].tolist() == meaning.tolist()
    weight = np.arange(1.0, meaning.size + 1).reshape(meaning.shape)
    (x[key] * tg.tensor(weight)).sum().backward()
    assert float((x.grad * x.detach()).sum()) == (weight * meaning).sum()

    y = tg.tensor(CUBE)
    y[key] = 0.0
    assert float(y.sum()) == CUBE.sum() - np.unique(meaning).sum()  # no two elements are equal


def test_a_number_in_a_tensor_leaves_a_view() -> None:
    x = tg.zeros(2, 2)
    for row in tg.arange(2):
        x[row][0] = 5.0
        x[row, 1:].add_(row)
    assert x.tolist() == [[5.0, 0.0], [5.0, 1.0]]


def test_uint8_says_whether_it_is_a_mask() -> None:
    x = tg.arange(3)
    for index in (tg.tensor([1, 0, 1], dtype=tg.uint8), np.array([1, 0, 1], np.uint8)):
        with pytest.raises(IndexError, match=r"\.bool\(\) or \.long\(\)"):
            x[index]
        with pytest.raises(IndexError, match=r"\.bool\(\) or \.long\(\)"):
            x[None, index] = 0
    assert int(x[tg.tensor(2, dtype=tg.uint8)]) == 2
