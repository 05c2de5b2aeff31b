"""Masking: the shares it promises, no special token ever, seeds of single sequences."""

import math
from typing import Any

import numpy as np
import pytest

from tinygrad_edu.data.masking import Masking

V, PAD, MASK, CLS, SEP = 30, 0, 3, 1, 2
MASKING = Masking(vocab_size=V, mask=MASK, special=(PAD, CLS, SEP))


def test_shares_are_those_of_the_distribution() -> None:
    """Over 400,000 tokens each count lies within four standard deviations of its binomial mean."""
    random = np.random.default_rng(0)
    ids = random.integers(4, V, (1000, 400))
    batch = MASKING(ids, seeds=range(1000))
    chosen = batch.labels != -100
    n, k = ids.size, int(chosen.sum())
    masked, same = batch.ids == MASK, batch.ids == ids
    other = chosen & ~masked & ~same

    def near(count: int, of: int, p: float) -> bool:
        return abs(count - of * p) < 4 * math.sqrt(of * p * (1 - p))

    assert near(k, n, 0.15)
    assert near(int((chosen & masked).sum()), k, 0.8)
    # one random token of 26 in 26 draws is the token itself
    assert near(int(other.sum()), k, 0.1 * 25 / 26)
    assert near(int((chosen & same).sum()), k, 0.1 + 0.1 / 26)
    assert np.array_equal(batch.labels[chosen], ids[chosen])
    assert np.array_equal(batch.ids[~chosen], ids[~chosen])
    # random tokens: every ordinary one, none more often than another
    counts = np.bincount(batch.ids[other], minlength=V)
    assert counts[[PAD, MASK, CLS, SEP]].sum() == 0
    expected = other.sum() / 26
    assert ((counts[4:] - expected) ** 2 / expected).sum() < 60  # chi-square of 25 degrees: 99.99 % lie below
    # rows are independent of each other: counts per row spread as the binomial does
    per_row = chosen.sum(axis=1)
    assert per_row.var() == pytest.approx(400 * 0.15 * 0.85, rel=0.2)


def test_no_special_token_is_ever_chosen() -> None:
    ids = np.tile([CLS, 5, 6, SEP, 7, MASK, SEP, PAD], (500, 1))
    batch = Masking(V, MASK, (PAD, CLS, SEP), rate=1.0)(ids, seeds=range(500))
    special = np.isin(ids, [PAD, CLS, SEP, MASK])
    assert (batch.labels[special] == -100).all()
    assert np.array_equal(batch.ids[special], ids[special])
    assert (batch.labels[~special] == ids[~special]).all()


def test_a_seed_belongs_to_its_sequence() -> None:
    random = np.random.default_rng(0)
    ids = random.integers(4, V, (6, 50))
    seeds = [(7, 0, row) for row in range(6)]
    whole = MASKING(ids, seeds)
    for row in range(6):
        alone = MASKING(ids[row : row + 1], seeds[row : row + 1])
        assert np.array_equal(alone.ids[0], whole.ids[row])
        assert np.array_equal(alone.labels[0], whole.labels[row])
    again = MASKING(ids, [(7, 1, row) for row in range(6)])
    assert (again.labels != whole.labels).any(axis=1).all()  # another epoch, other tokens
    assert np.array_equal(ids, np.random.default_rng(0).integers(4, V, (6, 50)))  # the text is left alone


def test_every_second_short_batch_has_nothing_to_predict() -> None:
    """0.85⁴ = 0.522."""
    none = [(MASKING([[4, 5, 6, 7]], [seed]).labels == -100).all() for seed in range(4000)]
    assert np.mean(none) == pytest.approx(0.85**4, abs=0.03)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_rates_at_the_ends(rate: float) -> None:
    batch = Masking(V, MASK, rate=rate)(np.full((2, 40), 9), seeds=[0, 1])
    assert (batch.labels == (9 if rate else -100)).all()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mask": 30}, "ids in"),
        ({"special": (-1,)}, "ids in"),
        ({"rate": 1.5}, "rate 1.5"),
        ({"masked": 0.8, "random": 0.3}, "random 0.3"),
        ({"vocab_size": 2, "mask": 0, "special": (1,)}, "all 2 tokens are special"),
    ],
)
def test_what_cannot_be_masked(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Masking(**{"vocab_size": V, "mask": MASK, **changes})
    with pytest.raises(ValueError, match="a seed for each row"):
        MASKING([[4, 5]], seeds=[])
    with pytest.raises(IndexError, match=r"not all in \[0, 30\)"):
        MASKING([[30]], seeds=[0])
