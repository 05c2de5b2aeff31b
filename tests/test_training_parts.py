"""What a training step is made of, for every kind of batch: parts that add up, operations counted, faults named."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from models import MODELS
from models.bigram import Bigram, BigramConfig
from tinygrad_edu import nn
from tinygrad_edu.data import (
    END_OF_TEXT,
    MASKING,
    Batch,
    MaskedSource,
    PairSource,
    Source,
    TextSource,
    encode_documents,
    encode_pair,
    make_tokenizer,
)
from tinygrad_edu.data.rendered import PROMPT, RenderedSource
from tinygrad_edu.data.sides import SidesSource
from tinygrad_edu.nn import functional as F
from tinygrad_edu.parallel import Shards
from tinygrad_edu.parallel.parts import divided
from tinygrad_edu.training import TrainConfig, Trainer, TrainingError
from tinygrad_edu.training.metrics import Smoothed
from tinygrad_edu.watching import watch

TEXT = "the quick brown fox jumps over the lazy dog. " * 20
PAIRS = [(f"{n} and {n}", str(2 * n)) for n in range(1, 40)]
BOUNDED = make_tokenizer("char", [TEXT, PROMPT, *(text for pair in PAIRS for text in pair)], 0, (END_OF_TEXT,))
SMALL = TrainConfig(steps=6, batch_size=4, block_size=24, warmup=2, lr=1e-2, eval_every=0, log_every=1, clip=0.0)


def windows() -> Source:
    return TextSource(BOUNDED.encode(TEXT), 24, 0.1)


def documents() -> Source:
    ids = np.concatenate(list(encode_documents(BOUNDED, ["a fox", "the lazy dog", "jumps"] * 30)))
    return TextSource(ids, 24, 0.1, BOUNDED.begin, BOUNDED.end)


def packed() -> Source:
    return PairSource([encode_pair(BOUNDED, *pair) for pair in PAIRS], 24, 0.1)


def masked() -> Source:
    tokenizer = make_tokenizer("char", [TEXT], 0, MASKING)
    return MaskedSource(tokenizer.encode(TEXT), tokenizer, 24, 0.1)


def sides() -> Source:
    return SidesSource(PAIRS[5:], PAIRS[:5], BOUNDED, 24)


def rendered() -> Source:
    words = TEXT.split()
    return RenderedSource(words[:9], words[9:12], BOUNDED, 24)


KINDS: dict[str, tuple[Callable[[], Source], str]] = {
    "windows": (windows, "gpt"),
    "documents": (documents, "gpt"),
    "packed": (packed, "gpt"),
    "masked": (masked, "bert"),
    "sides": (sides, "seq2seq"),
    "rendered": (rendered, "ocr"),
}


def small(model: str, vocab_size: int = len(BOUNDED), **options: Any) -> Any:
    tg.manual_seed(0)
    kind: Any
    kind, configuration = MODELS[model]
    return kind(configuration(vocab_size, block_size=24, layers=1, heads=2, width=16, **options))


def trainer_of(kind: str, config: TrainConfig = SMALL) -> Trainer:
    make, model = KINDS[kind]
    source = make()
    return Trainer(small(model, max(len(BOUNDED), source.largest + 1)).to(tg.float64), source, config)


def gradients(model: nn.Module) -> dict[str, np.ndarray]:
    return {name: p.grad.numpy().copy() for name, p in model.named_parameters() if p.grad is not None}


# accumulation


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "parts"), [(5, 2), (7, 3), (3, 8), (4, 4)])
def test_parts_of_any_batch_add_up_to_its_gradient(kind: str, rows: int, parts: int) -> None:
    trainer = trainer_of(kind)
    batch = trainer.data.draw(rows, trainer.order)
    cut = divided(batch, parts, "test")
    assert len(cut) == min(rows, parts)
    assert {type(part) for part in cut} == {type(batch)}
    whole = trainer._gradients([batch])
    expected = gradients(trainer.model)
    total, count = trainer._gradients(cut)
    assert count == whole[1] > 0
    assert total == pytest.approx(whole[0], rel=1e-12)
    found = gradients(trainer.model)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        np.testing.assert_allclose(found[name], gradient, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_batch_is_trained_on_in_parts_shared_by_threads(kind: str) -> None:
    config = dataclasses.replace(SMALL, accumulation=3, batch_size=3, steps=2)
    losses = []
    with Shards(2) as shards:
        for backward in (None, shards.backward):
            trainer = trainer_of(kind, config)
            trainer.backward = backward or trainer.backward
            losses.append([report.loss for report in trainer])
    assert losses[0] == pytest.approx(losses[1], rel=1e-10)


def test_a_part_without_a_label_changes_nothing() -> None:
    trainer = trainer_of("windows")
    batch = trainer.data.draw(4, trainer.order)
    expected = trainer._gradients([Batch(batch.ids[:2], batch.labels[:2])])
    one = gradients(trainer.model)
    batch.labels[2:] = -100
    assert trainer._gradients(divided(batch, 2, "test")) == expected
    for name, gradient in one.items():
        np.testing.assert_allclose(gradients(trainer.model)[name], gradient, rtol=1e-12)


def test_a_plain_tuple_with_numbers_in_it_is_cut_too() -> None:
    parts = divided((np.arange(5), [*"abcde"], 0.5, None), 2, "test")
    assert [(a.tolist(), b, c, d) for a, b, c, d in parts] == [
        ([0, 1], ["a", "b"], 0.5, None),
        ([2, 3, 4], ["c", "d", "e"], 0.5, None),
    ]
    with pytest.raises(ValueError, match=r"test: the parts of the batch have \[2, 3\] samples"):
        divided((np.arange(2), np.arange(3)), 2, "test")


# the loss, smoothed


def test_the_smoothed_loss_is_the_mean_weighted_by_powers_of_its_decay() -> None:
    losses = [3.0, 1.0, 2.0, 5.0]
    smoothed = Smoothed()
    assert math.isnan(smoothed.value)
    for n in range(1, 5):
        weights = Smoothed.decay ** np.arange(n)[::-1]
        assert smoothed.add(losses[n - 1]) == pytest.approx(weights @ losses[:n] / weights.sum())


def test_the_smoothed_loss_is_reported_and_written() -> None:
    trainer = trainer_of("windows")
    smoothed = Smoothed()
    for report in trainer:
        assert report.metrics is not None
        assert report.smoothed == report.metrics.smoothed_loss == smoothed.add(report.loss)


# work and speed


def counted(model: Any, batch: Any) -> int:
    """The operations of the products of one forward pass, by the shapes of the ops that ran."""
    found = 0

    def tell(event: Any) -> None:
        nonlocal found
        if event.op in ("linear", "matmul"):
            found += 2 * math.prod(event.outputs[0]) * event.inputs[0][-1]
        elif event.op == "scaled_dot_product_attention":
            q, k = event.inputs[:2]
            found += 4 * math.prod(q) * k[-2]

    with watch(tell):
        model.loss(batch)
    return found


@pytest.mark.parametrize("model", [name for name in MODELS if name != "bigram"])
def test_the_operations_of_a_batch_are_those_that_run(model: str) -> None:
    made = small(model)
    batch = made.example(3, 6, np.random.default_rng(0))
    assert made.flops(batch) == counted(made, batch) > 0
    assert made.flops(batch, training=True) == 3 * made.flops(batch)


def test_a_table_has_no_products() -> None:
    model = Bigram(BigramConfig(5))
    assert model.flops(model.example(3, 6, np.random.default_rng(0)), training=True) == 0


def test_speed_is_of_the_steps_since_the_line_before() -> None:
    trainer = trainer_of("sides", dataclasses.replace(SMALL, log_every=3))
    reports = list(trainer)
    for line in (reports[2], reports[5]):
        steps = reports[line.step - 3 : line.step]
        seconds = sum(step.seconds for step in steps)
        assert line.metrics is not None
        assert line.metrics.tokens_per_second == pytest.approx(sum(step.tokens for step in steps) / seconds, abs=0.1)
        assert line.metrics.flops_per_second == pytest.approx(sum(step.flops or 0 for step in steps) / seconds, abs=1)


# what is not finite


class Broken(nn.Module):
    """A model whose head takes the logarithm of a weight; from its third call on, of a negative one."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.config = type("Config", (), {"vocab_size": len(BOUNDED)})
        self.table, self.head = nn.Embedding(len(BOUNDED), len(BOUNDED)), Head(kind)
        self.calls = 0

    def loss(self, batch: Any) -> tuple[tg.Tensor, int]:
        self.calls += 1
        logits = self.head(self.table(tg.tensor(batch.ids)), self.calls > 2)
        return F.cross_entropy(logits.flatten(0, 1), tg.tensor(batch.labels).flatten(), reduction="sum"), 96


class Head(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.w = kind, nn.Parameter(tg.ones(1))

    def forward(self, x: tg.Tensor, broken: bool) -> tg.Tensor:
        if broken and self.kind == "loss":
            return x * (self.w - 5).log()
        if broken and self.kind == "gradient":
            return x + (self.w * 0).sqrt()
        return x * self.w


@pytest.mark.parametrize(
    ("kind", "fault"), [("loss", "log made the first NaN"), ("gradient", "sqrt: the gradient of its input x")]
)
@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_not_finite_is_traced_to_its_op_module_and_line(
    kind: str, fault: str, accumulation: int, threads: int
) -> None:
    config = dataclasses.replace(SMALL, batch_size=4 // accumulation, accumulation=accumulation)
    trainer = Trainer(Broken(kind), windows(), config)
    if accumulation == 1 and threads == 1:
        trainer.advance()
        trainer.advance()
    else:
        trainer.model.calls = 2
    before = {name: weight.copy() for name, weight in trainer.weights().items()}
    optimizer = {name: array.copy() for name, array in trainer.state()[1].items()}
    with Shards(threads) as shards:
        trainer.backward = shards.backward
        with pytest.raises(TrainingError) as caught:
            trainer.advance()
    said = str(caught.value)
    what = "loss became nan" if kind == "loss" else "norm of the gradients became "
    assert said.startswith(f"the {what}")
    assert fault in said
    assert "test_training_parts.py" in said
    assert ", line " in said
    assert "in module Head" in said
    assert "try a lower lr" in said
    assert all(np.array_equal(before[name], weight) for name, weight in trainer.weights().items())
    assert all(np.array_equal(optimizer[name], array) for name, array in trainer.state()[1].items())
    assert gradients(trainer.model) == {}


def test_the_search_repeats_the_dropout_of_the_step() -> None:
    """An overflow that only the masks of this very step make is found again."""

    class Dropped(Broken):
        def loss(self, batch: Any) -> tuple[tg.Tensor, int]:
            kept = F.dropout(tg.ones(1), 0.5)  # 0 or 2
            seen.append(kept.item())
            return self.table(tg.tensor(batch.ids)).sum() * 0 + 1 / kept.sum(), 96

    seen: list[float] = []
    for seed in range(20):
        tg.manual_seed(seed)
        trainer = Trainer(Dropped("loss"), windows(), dataclasses.replace(SMALL, steps=100))
        seen.clear()
        with pytest.raises(TrainingError, match="made the first infinity"):
            list(trainer)
        assert seen[-2:] == [0.0, 0.0]


def test_a_weight_that_is_no_number_is_named() -> None:
    trainer = trainer_of("windows")
    trainer.model.blocks[0].feed_forward.up.weight.array[0, 0] = math.nan
    with pytest.raises(
        TrainingError, match=r"the weights blocks\.0\.feed_forward\.up\.weight held one before the step"
    ):
        trainer.advance()


@pytest.mark.parametrize("kind", KINDS)
def test_the_search_runs_on_every_model(kind: str) -> None:
    trainer = trainer_of(kind, dataclasses.replace(SMALL, accumulation=2))
    with tg.no_grad():
        for p in trainer.model.parameters():
            p.mul_(1e300)
    with pytest.raises(TrainingError, match=r"first .*, line \d+, in module"):
        trainer.advance()
