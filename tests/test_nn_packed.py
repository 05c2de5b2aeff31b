"""Packed sequences: what a recurrent layer makes of each is what it makes of it alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.nn.utils.rnn import (
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    unpack_sequence,
)

LENGTHS = [2, 5, 1, 4]


def sequences(needs: bool = False) -> list[tg.Tensor]:
    rng = np.random.default_rng(0)
    return [tg.tensor(rng.standard_normal((n, 3)), requires_grad=needs) for n in LENGTHS]


@pytest.mark.parametrize("batch_first", [False, True])
def test_packing_and_back(batch_first: bool) -> None:
    parts = sequences()
    packed = pack_sequence(parts, enforce_sorted=False)
    assert packed.data.shape == (sum(LENGTHS), 3)
    assert packed.batch_sizes.tolist() == [4, 3, 2, 2, 1]
    padded, lengths = pad_packed_sequence(packed, batch_first, padding_value=-7.0, total_length=6)
    assert lengths.tolist() == LENGTHS
    rows = padded if batch_first else padded.transpose(0, 1)
    for row, part in zip(rows, parts, strict=True):
        np.testing.assert_array_equal(row[: len(part)].numpy(), part.numpy())
        assert (row[len(part) :].numpy() == -7).all()
    again = pack_padded_sequence(padded, lengths, batch_first, enforce_sorted=False)
    np.testing.assert_array_equal(again.data.numpy(), packed.data.numpy())
    for row, part in zip(unpack_sequence(packed), parts, strict=True):
        np.testing.assert_array_equal(row.numpy(), part.numpy())


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_each_sequence_is_as_if_alone(kind: Any) -> None:
    tg.manual_seed(0)
    layer = kind(3, 4, num_layers=2, bidirectional=True).double()
    parts, alone = sequences(True), sequences(True)
    outputs, states = layer(pack_sequence(parts, enforce_sorted=False))
    total: Any = 0.0
    for i, (y, x) in enumerate(zip(unpack_sequence(outputs), alone, strict=True)):
        expected, last = layer(x)
        np.testing.assert_allclose(y.detach().numpy(), expected.detach().numpy())
        pairs = zip(states, last, strict=True) if kind is nn.LSTM else [(states, last)]
        for found, one in pairs:
            np.testing.assert_allclose(found[:, i].detach().numpy(), one.detach().numpy())
        total = total + (y**2).sum() - (expected**2).sum()
    total.backward()
    for a, b in zip(parts, alone, strict=True):
        assert a.grad is not None
        assert b.grad is not None
        np.testing.assert_allclose(a.grad.numpy(), -b.grad.numpy(), atol=1e-12)


def test_what_is_given_is_checked() -> None:
    x = tg.zeros(5, 2, 3)
    with pytest.raises(ValueError, match="do not fall"):
        pack_padded_sequence(x, [2, 4])
    for lengths in ([6, 1], [3, 0], [3]):
        with pytest.raises(ValueError, match="a length from 1 to that each"):
            pack_padded_sequence(x, lengths)
    with pytest.raises(ValueError, match="less than the longest"):
        pad_packed_sequence(pack_padded_sequence(x, [4, 2]), total_length=3)
