"""Long graphs and long runs: no recursion, work in proportion to the length, and no memory left behind."""

from __future__ import annotations

import gc
import sys
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn, optim
from tinygrad_edu.nn import functional as F


@contextmanager
def shallow(depth: int = 60) -> Iterator[None]:
    """A block in which Python's stack grows by no more than `depth` frames."""
    before, frame, here = sys.getrecursionlimit(), sys._getframe(), 0
    while frame.f_back is not None:
        frame, here = frame.f_back, here + 1
    sys.setrecursionlimit(here + depth)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


@contextmanager
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def chain(x: tg.Tensor, length: int) -> tg.Tensor:
    y = x
    for _ in range(length // 2):
        y = (y * 1.0001).sin()
    return y


def test_a_chain_of_100_000_ops() -> None:
    x = tg.tensor([0.5], dtype=tg.float64, requires_grad=True)
    with shallow(), no_collector():
        y = chain(x, 100_000)
        end = weakref.ref(y)
        y.backward()
        assert x.grad is not None
        assert 0 < x.grad.item() < 1e-3
        del y
        assert end() is None
        y = chain(x, 100_000)  # and one that nobody walks
        end = weakref.ref(y)
        del y
        assert end() is None


def test_a_chain_is_differentiated_twice() -> None:
    """Each of its ops is recorded with the ops of its rule, and that graph is no deeper on the stack either."""
    x = tg.tensor(0.5, dtype=tg.float64, requires_grad=True)
    with shallow():
        y = chain(x, 10_000)
        (slope,) = tg.grad(y, x, create_graph=True)
        (bend,) = tg.grad(slope, x)
        assert np.isfinite(bend.item())
        assert bend.item() < 0 < slope.item()
        del y, slope


def calls(function: Callable[[], Any]) -> int:
    """How many functions Python calls, its own and those in C."""
    count = 0

    def tell(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(tell)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("create_graph", [False, True])
def test_work_is_in_proportion_to_the_length(create_graph: bool) -> None:
    def run(length: int) -> int:
        x = tg.tensor([0.5], requires_grad=True)
        return calls(lambda: tg.grad(chain(x, length), x, create_graph=create_graph))

    run(10)
    short, long = run(1000), run(4000)
    assert 3.9 < long / short < 4.1


def test_work_is_in_proportion_to_the_uses_of_a_value() -> None:
    def run(uses: int) -> int:
        x = tg.tensor([0.5, 2.0], requires_grad=True)

        def step() -> None:
            h = x * 2
            tg.grad(sum((h[0] for _ in range(uses)), h[1]), x)

        return calls(step)

    run(10)
    assert 3.9 < run(4000) / run(1000) < 4.1


class Small(nn.Module):
    """Attention and a layer norm between an embedding and logits."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.mix = nn.Linear(8, 24)
        self.norm = nn.LayerNorm(8)
        self.logits = nn.Linear(8, 11)

    def forward(self, ids: Any) -> Any:
        x = self.table(ids)
        q, k, v = self.mix(x).split(8, dim=-1)
        x = x + F.dropout(F.scaled_dot_product_attention(q, k, v, is_causal=True), 0.1)
        return self.logits(F.gelu(self.norm(x)))


def test_a_thousand_steps_without_the_collector_hold_memory_constant() -> None:
    tg.manual_seed(0)
    model = Small()
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    ids = tg.arange(24).reshape(4, 6) % 11

    def step(number: int) -> None:
        logits = model(ids)
        loss = F.cross_entropy(logits.reshape(-1, 11), ids.reshape(-1))
        if number % 10 == 0:
            (slope,) = tg.grad(loss, model.norm.weight, create_graph=True)
            loss = loss + 0.01 * (slope * slope).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    def held() -> int:
        assert gc.collect() == 0  # no cycle is left, and Python gives back the tuples that it keeps for reuse
        return tracemalloc.get_traced_memory()[0]

    with no_collector():
        tracemalloc.start()
        try:
            for number in range(600):  # until Python's and NumPy's stores of small pieces for reuse are full
                step(number)
            early = held()
            for number in range(600, 1600):
                step(number)
            late = held()
        finally:
            tracemalloc.stop()
        assert late - early < 20_000


def test_thousands_of_inputs_of_one_op() -> None:
    """What an op saves is planned once, in time that grows with the number of its inputs."""
    xs = [tg.full((2,), float(i), requires_grad=True) for i in range(10_000)]
    y = tg.stack(xs)
    (y * tg.arange(10_000.0)[:, None]).sum().backward()
    assert [x.grad.tolist() for x in xs[::999] if x.grad is not None] == [[float(i)] * 2 for i in range(0, 10_000, 999)]
