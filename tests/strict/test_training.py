"""Models, optimizers, trainer, generation and graphs on the stand-in, as on NumPy; what a step sends is counted."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from models import MODELS
from models.bert import BERT, BERTClassifier, BERTConfig
from tests.strict.device_array import traffic
from tests.strict.ran import host, note, same_on_both
from tinygrad_edu import graph, nn, optim
from tinygrad_edu.data import Batch, CharTokenizer
from tinygrad_edu.engine.tape import registry
from tinygrad_edu.generation import generate
from tinygrad_edu.graph import watch
from tinygrad_edu.nn import functional as F
from tinygrad_edu.training import TrainConfig, Trainer, load_checkpoint

TEXT = "a rose is a rose is a rose; is a rose a rose? " * 20
TOKENIZER = CharTokenizer.of(TEXT)
IDS = TOKENIZER.encode(TEXT)
SHAPES: dict[str, dict[str, Any]] = {
    "bigram": {},
    "gpt": {"block_size": 8, "layers": 2, "heads": 2, "width": 16, "dropout": 0.2, "bias": True},
    "bert": {"block_size": 8, "layers": 2, "heads": 2, "width": 16, "dropout": 0.2},
    "seq2seq": {"block_size": 9, "layers": 1, "heads": 2, "width": 16, "dropout": 0.2},
    "ocr": {"block_size": 8, "layers": 1, "heads": 2, "width": 16, "dropout": 0.2},
}


def model_of(name: str, device: str, **changes: Any) -> Any:
    tg.manual_seed(0)
    model: Any
    model, config = MODELS[name]
    return model(config(vocab_size=len(TOKENIZER), **{**SHAPES[name], **changes})).to(device)


def batch(seed: int = 0) -> Batch:
    starts = np.random.default_rng(seed).integers(0, len(IDS) - 9, 4)
    rows = np.stack([IDS[s : s + 9] for s in starts]).astype(np.int64)
    return Batch(rows[:, :-1], np.where(rows[:, 1:] == 2, -100, rows[:, 1:]))


def test_the_table_is_whole() -> None:
    assert SHAPES.keys() == MODELS.keys()


GPTS: dict[str, dict[str, Any]] = {
    "gpt, rotary": {"positions": "rotary", "norm": "rms", "activation": "swiglu", "key_heads": 1, "normalised": True},
    "gpt, waves": {"positions": "sinusoidal", "norm_first": False, "activation": "relu", "tied": False},
}
BERTS = {"bert": BERT, "bert, classes": BERTClassifier}


def built(name: str, device: str) -> tuple[Any, Any]:
    """A model, and a batch for it."""
    if name in BERTS:
        tg.manual_seed(0)
        config = BERTConfig(len(TOKENIZER), block_size=8, layers=1, heads=2, width=16, dropout=0.1, pooler=True)
        ids, labels = batch()
        segments, mask = (np.arange(8)[None] > 3) * np.ones((4, 1), np.int64), ids != 3
        return BERTS[name](config).to(device), (ids, labels[:, 0] % 2 if "classes" in name else labels, segments, mask)
    model = model_of("gpt" if name in GPTS else name, device, **GPTS.get(name, {}))
    return model, batch() if name in ("gpt", "bigram", *GPTS) else model.example(4, 8, np.random.default_rng(0))


@pytest.mark.parametrize("name", [*MODELS, *GPTS, *BERTS])
def test_model_is_numpy(name: str) -> None:
    def run(device: str) -> list[Any]:
        model, given = built(name, device)
        total, count = model.loss(given)
        (total / count).backward()
        return [total, tg.tensor(count, device=device), *(p.grad for p in model.parameters())]

    same_on_both(run, rtol=5e-4, atol=5e-6)
    note("models", name)


@pytest.mark.parametrize("name", [*MODELS, *GPTS, *BERTS])
def test_a_loss_and_its_gradients_send_the_batch_and_fetch_nothing(name: str) -> None:
    model, given = built(name, "cuda")
    with traffic() as seen:
        total, count = model.loss(given)
        (total / count).backward()
    assert seen.counts == (len(given), 0, 0)


OPTIMIZERS = {
    "AdamW": lambda ps: optim.AdamW(ps, lr=0.01),
    "AdamW, amsgrad": lambda ps: optim.AdamW(ps, lr=0.01, amsgrad=True),
    "AdamW, maximize": lambda ps: optim.AdamW(ps, lr=0.01, maximize=True),
    "Adam": lambda ps: optim.Adam(ps, lr=0.01, weight_decay=0.1),
    "SGD": lambda ps: optim.SGD(ps, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "RMSprop": lambda ps: optim.RMSprop(ps, lr=0.01, momentum=0.9, centered=True),
    "Adagrad": lambda ps: optim.Adagrad(ps, lr=0.1),
    "Muon": lambda ps: optim.Muon([p for p in ps if p.ndim == 2], lr=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_is_numpy(name: str) -> None:
    def run(device: str) -> list[Any]:
        tg.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)).double().to(device)
        optimizer = OPTIMIZERS[name](list(model.parameters()))
        x = tg.Tensor(np.random.default_rng(0).standard_normal((5, 4)), device=device)
        for _ in range(4):
            optimizer.zero_grad()
            (model(x) ** 2).mean().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.05)
            optimizer.step()
        saved = optimizer.state_dict()
        optimizer.load_state_dict(saved)
        kept = [t for entry in saved["state"].values() for t in entry.values() if isinstance(t, tg.Tensor)]
        return [*model.parameters(), *kept]

    same_on_both(run)
    note("optimizers", name)


def test_every_optimizer_is_in_the_table() -> None:
    made = {
        n
        for n in optim.__all__
        if isinstance(getattr(optim, n), type) and issubclass(getattr(optim, n), optim.Optimizer)
    }
    assert made - {"Optimizer", "MuonAdamW"} == {name.partition(",")[0] for name in OPTIMIZERS}


def test_norms_of_gradients() -> None:
    for p in (1.0, 2.0, 3.0, math.inf):
        found = []
        for device in ("cpu", "cuda"):
            w, v = (tg.zeros(3, requires_grad=True, device=device) for _ in range(2))
            w.grad = tg.tensor([1.0, -2.0, 3.0], device=device)
            found.append(nn.utils.clip_grad_norm_([w, v], 1.0, p).item())
            nn.utils.clip_grad_value_([w], 0.3)
            assert w.grad.tolist() == pytest.approx(np.clip(w.grad.tolist(), -0.3, 0.3))
        assert found[0] == pytest.approx(found[1], rel=1e-6)


@pytest.mark.parametrize("accumulation", [1, 2])
def test_trainer_is_numpy(accumulation: int, tmp_path: Path) -> None:
    def run(device: str) -> list[Any]:
        model = model_of("gpt", device)
        config = TrainConfig(
            steps=6, batch_size=4, block_size=8, eval_every=3, log_every=1, warmup=2, accumulation=accumulation
        )
        trainer = Trainer(model, IDS, config)
        reports = list(trainer)
        (tmp_path / device).mkdir()
        trainer.save(tmp_path / device, "gpt", TOKENIZER)
        numbers = [[r.loss, r.norm, r.metrics.val_loss or 0.0] for r in reports if r.metrics is not None]
        return [tg.Tensor(np.array(numbers), device=device), *model.parameters()]

    same_on_both(run, rtol=1e-3, atol=2e-5)
    saved = [load_checkpoint(tmp_path / device) for device in ("cpu", "cuda")]
    for name, weight in saved[0].weights.items():
        np.testing.assert_allclose(saved[1].weights[name], weight, rtol=1e-3, atol=2e-5)
    there = saved[0].build(MODELS).to("cuda")
    prompt = TOKENIZER.encode("a rose")
    np.testing.assert_array_equal(
        generate(there, prompt, 5, temperature=0.0), generate(saved[0].build(MODELS), prompt, 5, temperature=0.0)
    )
    note("tools", "trainer", "checkpoints", "generation")


def test_resume_on_the_other_device(tmp_path: Path) -> None:
    """Saved where it began, gone on with elsewhere, dropout and order of batches included."""

    def trainer(device: str) -> Trainer:
        return Trainer(model_of("gpt", device), IDS, TrainConfig(steps=6, batch_size=4, block_size=8, eval_every=0))

    whole = trainer("cpu")
    losses = [report.loss for report in whole]
    first = trainer("cuda")
    begun = [first.advance().loss for _ in range(3)]
    first.save(tmp_path, "gpt", TOKENIZER)
    saved = load_checkpoint(tmp_path, resume=True)
    second = trainer("cpu")
    second.model.load_state_dict(saved.weights)
    second.load_state(saved.state, saved.tensors)  # type: ignore[arg-type]
    np.testing.assert_allclose([*begun, *(r.loss for r in second)], losses, rtol=1e-4)


def test_a_training_step_sends_the_batch_and_fetches_two_numbers() -> None:
    """Ids and labels go there, the loss and the norm of the gradients come back, and nobody waits for anything else."""
    trainer = Trainer(model_of("gpt", "cuda"), IDS, TrainConfig(steps=9, batch_size=4, block_size=8, eval_every=0))
    trainer.advance()  # the first one lays out the optimizer's memory
    with traffic() as seen:
        trainer.advance()
    assert seen.counts == (2, 2, 0)
    assert seen.to_device == [4 * 8 * 8] * 2
    assert max(seen.to_host) <= 8
    note("tools", "training step")


def test_a_decode_step_sends_the_ids_and_fetches_the_logits_of_one_position() -> None:
    model = model_of("gpt", "cuda")
    prompt = TOKENIZER.encode("a ro").astype(np.int64)
    with traffic() as seen:
        generate(model, prompt, 3)
    assert seen.counts == (3, 3, 0)
    assert seen.to_device == [4 * 8, 8, 8]  # the prompt, then one id at a time
    assert seen.to_host == [len(TOKENIZER) * 4] * 3
    note("tools", "decode step")


def test_a_plain_step_of_ones_own_waits_for_nothing() -> None:
    model, x = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)).to("cuda"), tg.randn(5, 4, device="cuda")
    labels = tg.tensor([0, 2, 1, -100, 1], device="cuda")
    optimizer = optim.AdamW(model.parameters())
    for _ in range(2):
        with traffic() as seen:
            optimizer.zero_grad()
            F.cross_entropy(model(x), labels).backward()
            optimizer.step()
    assert seen.counts == (0, 0, 0)


def test_graph_of_a_model_is_the_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all fused ops opened: those that have no kernel for a GPU are opened there in any case."""
    fused = {op.name for op in registry.values() if op.definition is not None}
    monkeypatch.setattr(sys.modules["tinygrad_edu.graph.trace"], "_OPENED", frozenset(fused))
    installed = (*watch._INSTALLED, str(Path(__file__).parent))  # as CuPy would be: no text of the user's
    monkeypatch.setattr(watch, "_INSTALLED", installed)
    here, there = (
        graph.trace(model_of("gpt", device, dropout=0.0, layers=1).loss, batch(), title="gpt").dot()
        for device in ("cpu", "cuda")
    )
    assert here == there
    note("tools", "graph")


def test_host() -> None:
    assert host(tg.ones(2, device="cuda")).tolist() == [1.0, 1.0]
