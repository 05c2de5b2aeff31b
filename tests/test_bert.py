"""BERT: who reads whom, padding, the head's tie, losses with nothing masked, and a classifier that learns."""

from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from models.bert import BERT, BERTClassifier, BERTConfig, BERTEncoder
from tinygrad_edu import nn, optim
from tinygrad_edu.data.masking import Masking
from tinygrad_edu.parallel import Shards

SMALL = BERTConfig(vocab_size=11, block_size=8, layers=2, heads=2, width=16)


def spread(model: Any) -> Any:
    """In float64, with weights large enough that everything shows."""
    model.to(tg.float64)
    for name, p in model.named_parameters():
        nn.init.normal_(p, mean=1.0 if "norm.weight" in name else 0.0, std=0.3)
    return model


@pytest.fixture(autouse=True)
def _seed() -> None:
    tg.manual_seed(0)


def draw(*shape: int, low: int = 0) -> np.ndarray:
    return np.random.default_rng(1).integers(low, 11, shape)


@pytest.mark.parametrize("j", range(8))
def test_every_position_reads_every_other(j: int) -> None:
    model = spread(BERT(SMALL))
    ids = draw(1, 8)
    other = ids.copy()
    other[0, j] = (other[0, j] + 1) % 11
    assert (model(ids).array != model(other).array).any(axis=-1).all()


@pytest.mark.parametrize("kind", [bool, int])
def test_padding_changes_nothing(kind: Any) -> None:
    """Short sequences in a batch with longer ones give what they give alone, whatever the padding holds."""
    model = spread(BERT(SMALL))
    ids = draw(2, 8)
    mask = (np.arange(8) < np.array([[5], [8]])).astype(kind)
    logits = model(ids, mask=mask).array
    assert np.allclose(logits[0, :5], model(ids[:1, :5]).array[0], rtol=0, atol=1e-12)
    assert np.allclose(logits[1], model(ids[1:]).array[0], rtol=0, atol=1e-12)
    ids[0, 5:] = 0
    assert np.array_equal(model(ids, mask=mask).array[0, :5], logits[0, :5])
    assert abs(model(ids).array[0, :5] - logits[0, :5]).max() > 1e-3
    with pytest.raises(ValueError, match=r"mask has shape \(2, 5\), the ids \(2, 8\)"):
        model(ids, mask=mask[:, :5])


def test_a_row_of_padding_alone_is_finite() -> None:
    model = BERT(SMALL)
    total, count = model.loss((draw(1, 4), draw(1, 4), None, np.zeros((1, 4), bool)))
    (total / count).backward()
    assert all(p.grad is None or np.isfinite(p.grad.array).all() for p in model.parameters())


def test_segments_matter_and_default_to_the_first() -> None:
    model = spread(BERT(SMALL))
    ids = draw(2, 6)
    segments = np.array([[0, 0, 0, 1, 1, 1]] * 2)
    assert np.array_equal(model(ids).array, model(ids, segments * 0).array)
    assert abs(model(ids).array - model(ids, segments).array).max() > 1e-3
    with pytest.raises(IndexError, match="0 to 1"):
        model(ids, segments * 2)


def test_the_decoder_is_the_table() -> None:
    model = BERT(SMALL)
    assert model.head.decoder.weight is model.encoder.token.weight
    D, V, T, F = 16, 11, 8, 64
    block = 4 * D * D + 4 * D + 2 * D * F + F + D + 4 * D
    embeddings = (V + T + 2) * D + 2 * D
    assert model.num_parameters() == embeddings + 2 * block + D * D + D + 2 * D + V


def test_the_pooler_reads_the_first_position() -> None:
    model = BERTEncoder(BERTConfig(vocab_size=11, layers=1, heads=2, width=16, pooler=True))
    x = model(draw(2, 5))
    assert model.pooler is not None
    expected = np.tanh(x.detach().array[:, 0] @ model.pooler.weight.array.T + model.pooler.bias.array)  # type: ignore[union-attr]
    assert np.allclose(model.pool(x).array, expected, atol=1e-6)
    with pytest.raises(ValueError, match="pooler=True"):
        BERTEncoder(SMALL).pool(x)
    with_pooler, without = (BERT(BERTConfig(11, layers=1, pooler=pooler)) for pooler in (True, False))
    assert with_pooler.flops_per_token(8) == without.flops_per_token(8)  # it runs once for a sequence


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"width": 10, "heads": 4}, "take width 8"),
        ({"classes": 0}, "classes must be at least 1"),
        ({"dropout": 1.0}, "dropout must lie"),
        ({"activation": "tanh"}, "activation is one of"),
    ],
)
def test_shapes_that_cannot_be_built(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        BERTConfig(vocab_size=11, **changes)
    with pytest.raises(ValueError, match=r"9 ids in a row.*block_size 8"):
        BERT(SMALL)(draw(1, 9))


@pytest.mark.parametrize("shards", [0, 2])
def test_nothing_masked_is_no_loss_and_no_nan(shards: int) -> None:
    """Of four tokens at 15 % none is chosen in every second batch; a row of special tokens never has any."""
    model = BERT(SMALL)
    masking = Masking(vocab_size=11, mask=1, special=(0, 2))
    batch = masking([[0, 1, 2, 0], [2, 2, 0, 1]], seeds=[0, 1])
    assert (batch.labels == -100).all()
    before = [p.array.copy() for p in model.parameters()]
    adamw = optim.AdamW(model.parameters(), lr=0.1)
    if shards:
        with Shards(shards) as threads:
            assert threads.backward(model, batch) == (0.0, 0)
    else:
        total, count = model.loss(batch)
        assert (total.item(), count) == (0.0, 0)
        total.backward()
        assert all(p.grad is None or abs(p.grad.array).max() == 0 for p in model.parameters())
        model.zero_grad()
    adamw.step()
    assert all(np.array_equal(p.array, was) for p, was in zip(model.parameters(), before, strict=True))


def test_it_learns_to_fill_in() -> None:
    """Sequences of one token: what is masked stands all around."""
    model = BERT(BERTConfig(vocab_size=11, block_size=8, layers=1, heads=2, width=32))
    masking = Masking(vocab_size=11, mask=0, rate=0.25)
    adamw = optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.0)
    random = np.random.default_rng(0)

    def sequences(n: int) -> np.ndarray:
        return np.tile(random.integers(1, 11, (n, 1)), 8)

    for step in range(150):
        batch = masking(sequences(16), seeds=[(0, step, row) for row in range(16)])
        total, count = model.loss(batch)
        adamw.zero_grad()
        (total / max(count, 1)).backward()
        adamw.step()
    held = masking(sequences(50), seeds=range(1000, 1050))
    asked = (held.labels != -100) & (held.ids == 0)
    assert (model(held.ids).array.argmax(-1) == held.labels)[asked].mean() > 0.95


def test_a_classifier_learns_which_of_two_comes_first() -> None:
    """Fine-tuned from an encoder: class 1 where token 9 stands before token 10, at any two places, padded or not."""
    random = np.random.default_rng(0)
    config = BERTConfig(vocab_size=11, block_size=8, layers=2, heads=2, width=32)
    pretrained = BERT(config)
    model = BERTClassifier(config).train()
    given = pretrained.encoder.state_dict()
    model.encoder.load_state_dict({**model.encoder.state_dict(), **given})
    assert np.array_equal(model.encoder.token.weight.array, pretrained.encoder.token.weight.array)

    def examples(n: int) -> tuple[Any, ...]:
        ids, lengths = random.integers(1, 9, (n, 8)), random.integers(4, 9, n)
        mask = np.arange(8) < lengths[:, None]
        labels = random.integers(0, 2, n)
        for row, length, label in zip(ids, lengths, labels, strict=True):
            places = np.sort(random.choice(length, 2, replace=False))
            row[places] = (9, 10) if label else (10, 9)
        return np.where(mask, ids, 0), labels, None, mask

    adamw = optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0)
    for _ in range(400):
        total, count = model.loss(examples(16))
        adamw.zero_grad()
        (total / count).backward()
        adamw.step()
    ids, labels, _, mask = examples(500)
    model.eval()
    assert (model(ids, mask=mask).array.argmax(-1) == labels).mean() > 0.95
    labels[:400] = -100
    assert model.loss((ids, labels, None, mask))[1] == 100
