"""The training step that is measured: its shape, its work and its data, and this framework's way to make it."""

import json
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from tools.bench_rounds import answer

LEARNING_RATE, BETAS, WEIGHT_DECAY, CLIP = 1e-3, (0.9, 0.99), 0.1, 1.0


@dataclass(frozen=True)
class Shape:
    """A GPT without bias, with a tied head, and its batch. A step is forward, backward, clipping and AdamW, float32."""

    vocab_size: int = 65  # V, number of different tokens
    block_size: int = 64  # T, positions of a sample
    batch_size: int = 12  # B, samples of a batch
    layers: int = 4  # L, blocks of the model
    heads: int = 4  # H, attention heads
    width: int = 128  # D, features of a position


CASES = {
    "nano-cpu": Shape(),
    "baby-gpt": Shape(block_size=256, batch_size=8, layers=6, heads=6, width=384),
}


def flops(shape: Shape) -> int:
    """Floating-point operations of the matrix products of a step: 3·B·T·(2·(12·L·D² + V·D) + 4·L·T·D).

    For each of the B·T positions a weight takes part in one multiplication and one addition: 12·D² weights a layer
    (Q, K, V and output 4, feed-forward 8) and V·D of the head. Q·Kᵀ and P·V take 2·T·D each; all T keys are counted,
    also by contenders that leave out the hidden half. Backward takes two products for each of forward's.

    >>> round(flops(CASES["nano-cpu"]) / 1e9, 2), round(flops(CASES["baby-gpt"]) / 1e9, 1)
    (3.96, 145.3)
    """
    V, T, B, L, D = shape.vocab_size, shape.block_size, shape.batch_size, shape.layers, shape.width
    return 3 * B * T * (2 * (12 * L * D**2 + V * D) + 4 * L * T * D)


def batches(shape: Shape, count: int = 8) -> list[tuple[np.ndarray, np.ndarray]]:
    """`count` random batches (ids, labels), each [B, T] int64, the same for every contender."""
    rng = np.random.default_rng(1)
    size = shape.batch_size, shape.block_size
    return [(rng.integers(0, shape.vocab_size, size), rng.integers(0, shape.vocab_size, size)) for _ in range(count)]


def weights(shapes: Iterable[tuple[int, ...]]) -> list[np.ndarray]:
    """What every contender starts from, float32: tables of N(0, 0.02²), vectors of ones; in the order of the model:
    tokens, positions, then each block's norm, Q, K and V in one, output, norm, up, down, then the last norm."""
    rng = np.random.default_rng(0)
    return [
        np.float32(0.02) * rng.standard_normal(shape, np.float32) if len(shape) > 1 else np.ones(shape, np.float32)
        for shape in shapes
    ]


def contend(shape: Shape, threads: int, definitions: bool) -> None:
    """Train with this framework, its fused ops as kernels or by their definitions."""
    import tinygrad_edu as tg
    from models.gpt import GPT, GPTConfig
    from tinygrad_edu.nn.utils import clip_grad_norm_
    from tinygrad_edu.optim import AdamW, decay_groups
    from tinygrad_edu.parallel import Shards

    model = {name: getattr(shape, name) for name in ("vocab_size", "block_size", "layers", "heads", "width")}
    gpt = GPT(GPTConfig(**model, bias=False, tied=True))
    parameters = list(gpt.parameters())
    with tg.no_grad():
        for p, start in zip(parameters, weights(p.shape for p in parameters), strict=True):
            p.copy_(tg.Tensor(start))
    optimizer = AdamW(decay_groups(gpt, WEIGHT_DECAY), lr=LEARNING_RATE, betas=BETAS)
    data = batches(shape)
    with tg.definitions() if definitions else nullcontext(), Shards(threads or None) as shards:

        def step(i: int) -> float:
            total, count = shards.backward(gpt, data[i % len(data)])
            clip_grad_norm_(parameters, CLIP)
            optimizer.step()
            optimizer.zero_grad()
            return total / count

        answer(step)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("tools.bench starts this program: python -m tools.bench train")
    contend(Shape(**json.loads(sys.argv[1])), int(sys.argv[2]), "definitions" in sys.argv[3:])
