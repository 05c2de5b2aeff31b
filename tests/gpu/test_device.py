"""What only a GPU can show: its memory, its errors, and that a step waits for it no more than it says."""

import time

import pytest

import tinygrad_edu as tg
from tests.gpu.test_against_numpy import IDS, model_of
from tests.gpu.told import lines
from tinygrad_edu import cuda
from tinygrad_edu.training import TrainConfig, Trainer


def test_memory_is_told() -> None:
    before = cuda.memory_allocated()
    x = tg.zeros(1 << 20, device="cuda")
    assert cuda.memory_allocated() >= before + x.numel() * 4
    assert cuda.memory_reserved() >= cuda.memory_allocated()
    free, whole = cuda.mem_get_info()
    assert 0 < free <= whole
    lines.append(f"{cuda.device_count()} GPU(s), {free >> 20} MiB free of {whole >> 20}")


def test_too_much_is_refused_with_numbers() -> None:
    with pytest.raises(cuda.OutOfMemoryError, match=r"cuda:0 has too little memory: 2048\.0 GiB asked for, .* free of"):
        tg.zeros(1 << 39, device="cuda")
    assert tg.ones(2, device="cuda").sum().item() == 2.0


def test_steps_over_a_larger_model() -> None:
    """No bound on the time, which belongs to the machine; it is told."""
    model = model_of("gpt", "cuda")
    trainer = Trainer(model, IDS, TrainConfig(steps=60, batch_size=64, block_size=32, eval_every=0))
    for _ in range(10):
        trainer.advance()
    cuda.synchronize()
    start = time.perf_counter()
    for _ in range(50):
        trainer.advance()
    cuda.synchronize()
    lines.append(f"gpt, 64 windows of 32: {(time.perf_counter() - start) * 20:.2f} ms a step")
