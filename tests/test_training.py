"""The training loop, its options, measuring, metrics and checkpoints."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from models.bigram import Bigram, BigramConfig
from models.gpt import GPT, GPTConfig
from tinygrad_edu.data import Batch, CharTokenizer, DataError, Windows, consecutive
from tinygrad_edu.generation import probabilities
from tinygrad_edu.nn import Module
from tinygrad_edu.parallel.parts import divided
from tinygrad_edu.training import (
    Best,
    Metrics,
    MetricsFile,
    TrainConfig,
    Trainer,
    TrainingError,
    evaluate,
    read_metrics,
)

TEXT = "the quick brown fox jumps over the lazy dog. " * 20
TOKENIZER = CharTokenizer.of(TEXT)
IDS = TOKENIZER.encode(TEXT)
SMALL = TrainConfig(steps=6, batch_size=4, block_size=8, warmup=2, lr=1e-2, eval_every=2, log_every=1)


def gpt(seed: int = 0, dropout: float = 0.1) -> GPT:
    tg.manual_seed(seed)
    return GPT(GPTConfig(vocab_size=len(TOKENIZER), block_size=8, layers=1, heads=2, width=16, dropout=dropout))


def bigram() -> Bigram:
    tg.manual_seed(0)
    return Bigram(BigramConfig(vocab_size=len(TOKENIZER)))


def arrays_equal(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> bool:
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


# what is learned


def test_labels_are_shifted_once_by_the_loader_and_not_by_the_model() -> None:
    ids = np.array([3, 1, 4, 1, 5])
    model = Bigram(BigramConfig(vocab_size=6))
    table = np.zeros((6, 6), np.float32)
    for now, following in [(3, 1), (1, 4), (4, 1)]:
        table[now, following] = 20
    model.load_state_dict(dict.fromkeys(model.state_dict(), table))
    inputs, labels = Windows(ids, 3)[0]
    total, count = model.loss(Batch(inputs[None], labels[None]))
    assert total.item() / count < 1e-6
    assert count == 3
    unshifted, _ = model.loss(Batch(inputs[None], inputs[None]))
    assert unshifted.item() / 3 > 10


def test_a_label_of_minus_100_does_not_count() -> None:
    total, count = bigram().loss(Batch(np.array([[3, 1, 4, 1]]), np.array([[-100, -100, 4, 1]])))
    assert count == 2
    assert math.isfinite(total.item())


def test_training_learns() -> None:
    trainer = Trainer(gpt(dropout=0.0), IDS, dataclasses.replace(SMALL, steps=60))
    reports = list(trainer)
    assert reports[0].loss > 2.5
    assert reports[-1].metrics is not None
    assert reports[-1].metrics.val_loss == trainer.measure() < 1.8
    assert [r.step for r in reports] == list(range(1, 61))


def test_a_bigram_learns_how_often_each_token_follows_each() -> None:
    config = TrainConfig(steps=300, batch_size=32, block_size=16, lr=0.3, min_lr=1e-3, warmup=5, weight_decay=0, clip=0)
    trainer = Trainer(bigram(), IDS, dataclasses.replace(config, val_fraction=0, eval_every=0))
    *_, last = trainer
    counts = np.zeros((len(TOKENIZER),) * 2)
    np.add.at(counts, (IDS[:-1].astype(int), IDS[1:].astype(int)), 1)
    frequencies = counts / counts.sum(axis=1, keepdims=True)
    assert frequencies.sum(axis=1) == pytest.approx(1)
    seen = counts > 0
    entropy = -(counts[seen] * np.log(frequencies[seen])).sum() / counts.sum()
    assert last.metrics is not None
    assert last.metrics.val_loss == pytest.approx(entropy, abs=0.005)
    (table,) = trainer.weights().values()
    assert np.abs(probabilities(table) - frequencies).max() < 0.03


def test_equal_seeds_give_equal_runs() -> None:
    runs = [[r.loss for r in Trainer(gpt(), IDS, dataclasses.replace(SMALL, seed=seed))] for seed in (0, 0, 1)]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize("parts", [2, 4])
def test_accumulated_batches_act_as_one(parts: int) -> None:
    whole = Trainer(gpt(dropout=0.0), IDS, dataclasses.replace(SMALL, batch_size=4))
    cut = Trainer(gpt(dropout=0.0), IDS, dataclasses.replace(SMALL, batch_size=4 // parts, accumulation=parts))
    for one, other in zip(whole, cut, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-5)
        assert one.norm == pytest.approx(other.norm, rel=1e-4)
        assert one.tokens == other.tokens
    for name, weight in whole.weights().items():
        np.testing.assert_allclose(weight, cut.weights()[name], atol=2e-5)


def test_accumulation_weights_by_tokens() -> None:
    """One part with 1 label and one with 8: the gradient is that of the 9 labels together."""
    trainer = Trainer(bigram(), IDS, dataclasses.replace(SMALL, batch_size=1, accumulation=2))
    inputs, labels = np.array([[1] * 8, [2] * 8]), np.array([[3] + [-100] * 7, [4] * 8])
    total, count = trainer._gradients(divided(Batch(inputs, labels), 2, "test"))
    (table,) = trainer.model.parameters()
    assert table.grad is not None
    part = table.grad.numpy().copy()
    trainer.optimizer.zero_grad()
    loss, counted = trainer.model.loss(Batch(inputs, labels))
    (loss / counted).backward()
    np.testing.assert_allclose(part, table.grad.numpy(), atol=1e-7)
    assert count == counted == 9
    assert total == pytest.approx(loss.item())


def test_a_step_without_a_label_changes_nothing() -> None:
    trainer = Trainer(bigram(), IDS, SMALL)
    before = {name: w.copy() for name, w in trainer.weights().items()}
    empty = Batch(np.zeros((1, 8), np.int64), np.full((1, 8), -100))
    trainer.data.draw = lambda *_: empty  # type: ignore[method-assign]
    report = trainer.advance()
    assert (report.loss, report.tokens, report.norm) == (0, 0, 0)
    assert arrays_equal(before, trainer.weights())


def test_clipping_bounds_the_update() -> None:
    trainer = Trainer(bigram(), IDS, dataclasses.replace(SMALL, clip=1e-3))
    trainer.advance()
    norm = math.sqrt(sum(float((p.grad.numpy() ** 2).sum()) for p in trainer.model.parameters() if p.grad is not None))
    assert norm == pytest.approx(1e-3, rel=1e-3)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_diverged_loss_stops_before_the_weights_change(value: float) -> None:
    trainer = Trainer(bigram(), IDS, SMALL)
    trainer.advance()
    before = {name: w.copy() for name, w in trainer.weights().items()}

    def broken(model: Any, batch: Batch) -> tuple[float, int]:
        return value, 4

    trainer.backward = broken
    with pytest.raises(TrainingError, match="in step 2"):
        trainer.advance()
    assert arrays_equal(before, trainer.weights())


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e30])
@pytest.mark.parametrize("what", ["weight", "state"])
@pytest.mark.parametrize("resumable", [True, False])
def test_a_step_that_spoils_the_weights_is_not_saved(tmp_path: Path, value: float, what: str, resumable: bool) -> None:
    trainer = Trainer(gpt(), IDS, SMALL)
    trainer.advance()
    trainer.save(tmp_path, "gpt", TOKENIZER)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    p = next(iter(trainer.model.parameters()))
    (p.array if what == "weight" else trainer.optimizer.state[p]["exp_avg"].array)[0] = value
    if what == "state" and value == 1e30:
        trainer.save(tmp_path, "gpt", TOKENIZER, resumable=resumable)
        return
    with pytest.raises(TrainingError, match=r"step 1 left .*try a lower lr"):
        trainer.save(tmp_path, "gpt", TOKENIZER, resumable=resumable)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", ["lr", "muon_lr", "min_lr"])
def test_a_rate_beyond_float32_is_refused(name: str) -> None:
    for value in (1e308, 3.5e38, math.inf, math.nan, -1.0):
        with pytest.raises(ValueError, match=rf"{name} is .*must lie in \[0, 3.4e\+38\]"):
            TrainConfig(**{name: value})  # type: ignore[arg-type]


def test_decay_spares_tensors_of_one_axis() -> None:
    groups = Trainer(gpt(), IDS, SMALL).optimizer.param_groups
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]
    assert all(p.ndim >= 2 for p in groups[0]["params"])
    assert all(p.ndim < 2 for p in groups[1]["params"])


def test_muon_takes_the_matrices_of_blocks_and_adamw_the_rest() -> None:
    config = dataclasses.replace(SMALL, optimizer="muon", muon_lr=0.05, lr=0.01)
    trainer = Trainer(gpt(), IDS, config)
    taken = {group["use_muon"]: group for group in trainer.optimizer.param_groups if group["lr"]}
    assert {name.split(".")[0] for name in taken[True]["param_names"]} == {"blocks"}
    assert {p.ndim for p in taken[True]["params"]} == {2}
    assert trainer.schedule.base_lrs[:2] == [0.05, 0.01]
    named = [name for group in trainer.optimizer.param_groups for name in group["param_names"]]
    assert sorted(named) == sorted(name for name, _ in trainer.model.named_parameters())
    with pytest.raises(ValueError, match="a Bigram has no hidden matrix"):
        Trainer(bigram(), IDS, config)


def test_muons_momentum_rises_over_300_steps() -> None:
    trainer = Trainer(gpt(), IDS, dataclasses.replace(SMALL, optimizer="muon", momentum=(0.8, 0.9), steps=400))
    found = {}
    for step in (0, 150, 300, 399):
        trainer.step = step
        trainer.advance()
        found[step] = [group["momentum"] for group in trainer.optimizer.param_groups if group["use_muon"]]
    assert found == {0: [0.8], 150: [pytest.approx(0.85)], 300: [pytest.approx(0.9)], 399: [pytest.approx(0.9)]}


def test_a_linear_schedule_holds_and_falls() -> None:
    config = dataclasses.replace(SMALL, steps=20, lr=0.1, min_lr=0.0, warmup=3, schedule="linear", decay=0.5)
    trainer = Trainer(bigram(), IDS, dataclasses.replace(config, log_every=1))
    rates = [report.metrics.lr for report in trainer if report.metrics]
    assert rates == pytest.approx([0.025, 0.05, 0.075] + [0.1] * 8 + [0.01 * n for n in range(9, 0, -1)])


def test_few_steps_shorten_the_warm_up() -> None:
    trainer = Trainer(bigram(), IDS, TrainConfig(steps=4, block_size=8, lr=1e-5))
    rates = [report.metrics.lr for report in trainer if report.metrics]
    assert trainer.schedule.warmup_steps == 2
    assert rates[-1] <= 1e-5


def test_ids_that_the_model_has_no_row_for() -> None:
    with pytest.raises(ValueError, match="token id 6, but the model's vocab_size is 4"):
        Trainer(Bigram(BigramConfig(vocab_size=4)), np.arange(7).repeat(9), SMALL)


def test_a_text_shorter_than_a_window() -> None:
    with pytest.raises(DataError, match="block_size"):
        Trainer(gpt(), IDS[:8], dataclasses.replace(SMALL, val_fraction=0))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("steps", 0),
        ("batch_size", -1),
        ("lr", -1.0),
        ("lr", math.nan),
        ("clip", math.inf),
        ("seed", -1),
        ("betas", (0.9, 1.0)),
        ("val_fraction", 1.0),
        ("warmup", -1),
        ("muon_lr", -1.0),
        ("momentum", (0.9, 1.0)),
        ("momentum", (0.9,)),
        ("optimizer", "sgd"),
        ("schedule", "constant"),
        ("decay", 1.5),
    ],
)
def test_options_out_of_range(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=field):
        TrainConfig(**{field: value})


# measuring


class Fixed(Module):
    """A model whose loss is whatever it is told."""

    def __init__(self, losses: list[tuple[float, int]]) -> None:
        super().__init__()
        self.losses = iter(losses)

    def loss(self, batch: Batch) -> tuple[tg.Tensor, int]:
        assert not self.training
        total, count = next(self.losses)
        return tg.Tensor(np.array(total)), count


def test_loss_is_weighted_by_tokens() -> None:
    batch = Batch(np.zeros((1, 4), int), np.zeros((1, 4), int))
    found = evaluate(Fixed([(4 * 1.0, 4), (3.0, 1)]), [batch, batch])
    assert found.loss == pytest.approx(7 / 5)
    assert found.tokens == 5
    assert found.perplexity == pytest.approx(4.0552, abs=1e-4)


@pytest.mark.parametrize("losses", [[], [(0.0, 0)]])
def test_no_counted_label_is_an_error(losses: list[tuple[float, int]]) -> None:
    with pytest.raises(ValueError, match="no label was counted"):
        evaluate(Fixed(losses), [Batch(np.zeros((1, 1), int), np.full((1, 1), -100))] * len(losses))


def test_batch_size_does_not_change_what_is_measured() -> None:
    model = gpt(dropout=0.5)
    losses = [evaluate(model, consecutive(IDS[:150], 8, rows)) for rows in (1, 5, 64)]
    assert evaluate(model, consecutive(IDS[:150], 8, 1), threads=3) == losses[0]
    assert {found.tokens for found in losses} == {149}
    assert losses[0].loss == pytest.approx(losses[1].loss, rel=1e-6)
    assert losses[0].loss == pytest.approx(losses[2].loss, rel=1e-6)


def test_best_is_strictly_lower_and_finite() -> None:
    best = Best()
    losses = [math.nan, 3.0, 2.0]
    assert [best.improves(i, loss) for i, loss in enumerate(losses)] == [False, True, True]
    nothing = Best()
    assert [nothing.improves(i, math.nan) for i in range(3)] == [False] * 3
    assert nothing == Best(loss=None, step=None, since=3)


def test_patience_ends_a_run() -> None:
    trainer = Trainer(bigram(), IDS, dataclasses.replace(SMALL, steps=100, eval_every=1, patience=2))
    losses = iter([2.0, math.nan, 1.5, 1.6, math.inf, 1.0])
    trainer.measure = lambda: next(losses)  # type: ignore[method-assign]
    assert [report.best for report in trainer] == [True, False, True, False, False]
    assert (trainer.best.step, trainer.best.loss) == (3, 1.5)


# metrics


def line(step: int, loss: float = 1.5, val: float | None = None) -> Metrics:
    return Metrics(step, loss, val, 1e-3, step * 10, step * 0.1)


def test_metrics_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    file = MetricsFile(path)
    for step in (1, 2, 3):
        file.append(line(step, val=0.5 if step == 2 else None))
    assert list(json.loads(path.read_text().splitlines()[1]).items())[:6] == [
        ("step", 2),
        ("train_loss", 1.5),
        ("val_loss", 0.5),
        ("lr", 0.001),
        ("tokens", 20),
        ("seconds", 0.2),
    ]
    assert read_metrics(path) == [line(1), line(2, val=0.5), line(3)]
    MetricsFile(path, step=2).append(line(3, loss=9.0))
    assert read_metrics(path) == [line(1), line(2, val=0.5), line(3, loss=9.0)]
    MetricsFile(path)
    assert read_metrics(path) == []


def test_metrics_that_are_not_finite_stay_json(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    MetricsFile(path).append(line(1, loss=math.nan, val=math.inf))
    assert "NaN" not in path.read_text()
    assert "Infinity" not in path.read_text()
    assert math.isnan(read_metrics(path)[0].train_loss)


def test_a_line_cut_short_by_a_crash_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    MetricsFile(path).append(line(1))
    with open(path, "a") as file:
        file.write('{"step": 2, "tra')
    with pytest.warns(UserWarning, match="line 2: cut short in a crash"):
        assert read_metrics(path) == [line(1)]
    path.write_text('{"step": 2, "tra\n' + path.read_text())
    with pytest.raises(ValueError, match="line 1"):
        read_metrics(path)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"garbage",
        b"\xff",
        b"[" * 100_000,
        b"[1]",
        b'{"step": 1, "train_loss": null}',
        b'{"train_loss": []}',
    ],
)
def test_a_damaged_line_of_metrics_is_named(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    MetricsFile(path).append(Metrics(1, 1.5, None, 0.1, 10, 0.5))
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(ValueError, match=r"metrics.jsonl, line 2: no line of metrics"):
        read_metrics(path)


def test_a_wrong_kind_of_value_in_metrics_is_named(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    good = {"step": 1, "train_loss": 1.5, "val_loss": None, "lr": 0.1, "tokens": 10, "seconds": 0.5}
    for name in good:
        path.write_text(json.dumps({**good, name: "3"}) + "\n")
        with pytest.raises(ValueError, match="line 1"):
            read_metrics(path)
