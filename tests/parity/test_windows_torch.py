"""Convolutions, pooling and norms over batches and channels against PyTorch's: values, gradients, running means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tinygrad_edu as tg

RNG = np.random.default_rng(0)
IMAGES, SOUNDS = RNG.standard_normal((2, 4, 9, 8)), RNG.standard_normal((2, 4, 10))
CALLS: list[tuple[Any, tuple[Any, ...]]] = [
    (lambda F, x, w, b: F.conv2d(x, w, b, (2, 1), 1, (1, 2)), (IMAGES, (6, 4, 3, 2), (6,))),
    (lambda F, x, w: F.conv2d(x, w, groups=2), (IMAGES, (6, 2, 3, 3))),
    (lambda F, x, w: F.conv2d(x, w, groups=4, padding=(0, 1)), (IMAGES, (4, 1, 3, 3))),
    (lambda F, x, w: F.conv2d(x, w, padding="same", dilation=2), (IMAGES, (6, 4, 3, 3))),
    (lambda F, x, w: F.conv1d(x, w, None, 2, 2), (SOUNDS, (5, 4, 3))),
    (lambda F, x, w: F.conv1d(x[0], w, padding="valid"), (SOUNDS, (5, 4, 3))),
    (lambda F, x: F.max_pool2d(x, 3, 2, 1), (IMAGES,)),
    (lambda F, x: F.max_pool1d(x, 2), (SOUNDS,)),
    (lambda F, x: F.avg_pool2d(x, (2, 3)), (IMAGES,)),
    (lambda F, x: F.avg_pool1d(x, 3, 1, 1), (SOUNDS,)),
    (lambda F, x: F.adaptive_avg_pool2d(x, (4, None)), (IMAGES,)),
    (lambda F, x: F.adaptive_avg_pool1d(x, 3), (SOUNDS,)),
    (lambda F, x: F.unfold(x, (3, 2), 1, 1, 2), (IMAGES,)),
    (lambda F, x, w, b: F.group_norm(x, 2, w, b, 1e-3), (IMAGES, (4,), (4,))),
    (lambda F, x, w, b: F.batch_norm(x, None, None, w, b, True), (SOUNDS, (4,), (4,))),
]


@pytest.mark.parametrize(("call", "inputs"), CALLS)
def test_a_function_is_pytorchs(call: Any, inputs: tuple[Any, ...]) -> None:
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(x) if isinstance(x, tuple) else x for x in inputs]
    ours, theirs = ([p.tensor(a, requires_grad=True) for a in arrays] for p in (tg, torch))
    y, z = call(tg.nn.functional, *ours), call(torch.nn.functional, *theirs)
    assert y.shape == tuple(z.shape)
    np.testing.assert_allclose(y.detach().numpy(), z.detach().numpy(), atol=1e-12)
    seed = rng.standard_normal(y.shape)
    y.backward(tg.tensor(seed))
    z.backward(torch.tensor(seed))
    for a, b in zip(ours, theirs, strict=True):
        assert a.grad is not None
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), atol=1e-10)


def network(package: Any) -> Any:
    nn = package.nn
    return nn.Sequential(
        nn.Conv2d(4, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.GroupNorm(3, 6),
        nn.Conv2d(6, 4, (1, 2), groups=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.BatchNorm1d(4, momentum=None),
        nn.Linear(4, 3),
    )  # fmt: skip


def test_a_network_is_pytorchs() -> None:
    theirs = network(torch).double()
    ours = network(tg).double()
    ours.load_state_dict({name: tg.tensor(t.detach().numpy()) for name, t in theirs.state_dict().items()})
    found = []
    for package, net in ((tg, ours), (torch, theirs)):
        optimizer = package.optim.SGD(net.parameters(), lr=0.1)
        for step in range(3):
            x = package.tensor(np.roll(IMAGES, step, 3))
            loss = package.nn.functional.cross_entropy(net(x), package.tensor([0, 2]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        state = {name: t.detach().numpy() for name, t in net.state_dict().items()}
        net.eval()
        found.append((loss.item(), state, net(package.tensor(IMAGES)).detach().numpy()))
    (loss, state, out), (their_loss, their_state, their_out) = found
    assert loss == pytest.approx(their_loss)
    assert list(state) == list(their_state)
    for name in state:
        np.testing.assert_allclose(state[name], their_state[name], atol=1e-9)
    np.testing.assert_allclose(out, their_out, atol=1e-8)
