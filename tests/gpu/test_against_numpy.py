"""Ops, kernels, a model in training, generation and saved weights: the same on the GPU as on NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tests.properties as p
import tinygrad_edu as tg
from models.bigram import Bigram, BigramConfig
from models.gpt import GPT, GPTConfig
from tests.gpu.corpus import corpus
from tests.gpu.told import lines
from tests.strict.ran import host, same_on_both
from tests.strict.test_ops import values
from tests.test_ops import EVERY, FUSED
from tinygrad_edu import kernels, nn
from tinygrad_edu.arrays import gpu, indexing
from tinygrad_edu.data import CharTokenizer
from tinygrad_edu.generation import generate
from tinygrad_edu.training import TrainConfig, Trainer

TEXT = corpus()
TOKENIZER = CharTokenizer.of(TEXT)
IDS = TOKENIZER.encode(TEXT)
NEAR = 1e-3  # of losses in float32 after some tens of steps, in which rounding has come to differ


@pytest.mark.parametrize("case", EVERY, ids=lambda c: c.name)
def test_op(case: p.Case) -> None:
    same_on_both(lambda device: values(case, device), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("case", FUSED, ids=lambda c: c.name)
def test_definition(case: p.Case) -> None:
    with tg.definitions():
        same_on_both(lambda device: values(case, device), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 3, 700), (4, 5000)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softmax_kernel(shape: tuple[int, ...], dtype: str) -> None:
    xp = gpu.library()
    rng = np.random.default_rng(0)
    x, g = rng.standard_normal((2, *shape)).astype(dtype)
    x[0] = -np.inf if len(shape) == 2 and shape[0] > 1 else x[0]
    for axis in range(-1, len(shape)):
        here = kernels.of(x).softmax(x, axis)
        there = kernels.of(xp.ones(1)).softmax(xp.asarray(x), axis)
        near = 1e-6 if dtype == "float32" else 1e-14
        np.testing.assert_allclose(host(there), here, rtol=0, atol=near)
        slope = kernels.of(there).softmax_backward(xp.asarray(g), xp.asarray(here), axis)
        np.testing.assert_allclose(host(slope), kernels.of(x).softmax_backward(g, here, axis), rtol=0, atol=20 * near)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_adamw_kernel_to_the_last_bit(dtype: str) -> None:
    xp = gpu.library()
    here = [np.abs(a).astype(dtype) for a in np.random.default_rng(0).standard_normal((4, 100_003))]
    there = [xp.asarray(a) for a in here]
    for step in (1, 2, 3):
        options = {"lr": 0.01, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.1, "step": step}
        kernels.of(here[0]).adamw(*here, **options)
        kernels.of(there[0]).adamw(*there, **options)
    for a, b in zip(here, there, strict=True):
        np.testing.assert_array_equal(host(b), a)


def test_dropout_masks_are_numpys_to_the_last_bit() -> None:
    xp = gpu.library()
    like = np.zeros((7, 33, 5), np.float32)
    there = kernels.of(xp.ones(1)).keep_mask(xp.asarray(like), 0.3, (5, 2**33), 11)
    np.testing.assert_array_equal(host(there), kernels.of(like).keep_mask(like, 0.3, (5, 2**33), 11))


def model_of(name: str, device: str) -> Any:
    tg.manual_seed(0)
    if name == "bigram":
        return Bigram(BigramConfig(len(TOKENIZER))).to(device)
    shape = {"block_size": 32, "layers": 2, "heads": 4, "width": 64, "dropout": 0.1}
    return GPT(GPTConfig(vocab_size=len(TOKENIZER), **shape)).to(device)  # type: ignore[arg-type]


def trained(name: str, device: str, steps: int) -> tuple[Any, list[float], float]:
    lr = 3e-2 if name == "bigram" else 3e-3
    config = TrainConfig(steps=steps, batch_size=8, block_size=32, lr=lr, warmup=5, eval_every=0, seed=1)
    trainer = Trainer(model_of(name, device), IDS, config)
    losses = [report.loss for report in trainer]
    return trainer.model, losses, trainer.seconds / steps


@pytest.mark.parametrize(("name", "steps"), [("bigram", 30), ("gpt", 30)])
def test_training_and_what_comes_of_it(name: str, steps: int, tmp_path: Path) -> None:
    here, there = trained(name, "cpu", steps), trained(name, "cuda", steps)
    np.testing.assert_allclose(there[1], here[1], rtol=NEAR)
    assert here[1][-1] < 0.9 * here[1][0]
    lines.append(
        f"{name}: loss {here[1][0]:.4f} to {here[1][-1]:.4f} on NumPy, {there[1][-1]:.4f} on the GPU after {steps} "
        f"steps; {1000 * here[2]:.1f} and {1000 * there[2]:.1f} ms a step"
    )
    model = there[0]
    weights: dict[str, Any] = {n: host(t) for n, t in model.state_dict().items()}
    np.savez(tmp_path / "weights.npz", **weights)
    with np.load(tmp_path / "weights.npz") as saved:
        again, back = model_of(name, "cpu"), model_of(name, "cuda")
        again.load_state_dict(dict(saved))
        back.load_state_dict(dict(saved))
    prompt = TOKENIZER.encode("the old tape ")
    written = generate(back, prompt, 40, temperature=0.0)
    np.testing.assert_array_equal(generate(model, prompt, 40, temperature=0.0), written)
    ids = IDS[None, :32].astype(np.int64)
    np.testing.assert_allclose(host(again.eval()(ids)), host(back.eval()(ids)), rtol=1e-3, atol=1e-4)
    lines.append(f"{name} writes: {TOKENIZER.decode(written)!r}")


def test_a_gpu_of_ones_own_choice_by_number() -> None:
    last = f"cuda:{tg.cuda.device_count() - 1}"
    model = nn.Linear(4, 3).to(last)
    y = model(tg.ones(2, 4, device=last)).sum()
    y.backward()
    assert (y.device, model.weight.grad.device) == (last, last)  # type: ignore[union-attr]


def test_ids_out_of_range_are_refused() -> None:
    with pytest.raises(IndexError, match="ids must lie in 0 to 4"):
        nn.functional.embedding(tg.tensor([0, 5], device="cuda"), tg.ones(5, 2, device="cuda"))


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "int8"])
def test_adding_and_extremes_where_two_meet(dtype: str) -> None:
    xp, at = gpu.library(), np.array([1, 1, 3, 0])
    values = np.array([1, -2, 3, 4]).astype(dtype)
    for change in ("add", "maximum", "minimum"):
        here = np.array([2, 0, 1, 1]).astype(dtype)
        there = xp.asarray(here)
        getattr(np, change).at(here, at, values)
        if change == "add":
            indexing.add_at(there, xp.asarray(at), xp.asarray(values))
        else:
            indexing.change_along(there, xp.asarray(at), xp.asarray(values), 0, change)
        np.testing.assert_array_equal(host(there), here)
