"""Changes in place of tensors and of their views, in random order: values and gradients as PyTorch has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import tinygrad_edu as tg


def program(lib: Any, rng: np.random.Generator) -> list[Any]:
    """The sum over a changed tensor and its views, and its gradients for the two leaves."""
    x = lib.tensor(rng.standard_normal((4, 6)), requires_grad=True)
    w = lib.tensor(rng.standard_normal(3), requires_grad=True)
    z = x * 1.5 if rng.integers(2) else lib.full((4, 6), 0.3, dtype=lib.float64)
    views = []
    for _ in range(rng.integers(1, 6)):
        kind, row = int(rng.integers(10)), int(rng.integers(4))
        a, b = sorted(rng.choice(7, 2, replace=False).tolist())
        if kind == 0:
            z[:, a:b] *= w[0]
        elif kind == 1:
            z[row] += w[1] * z[(row + 1) % 4].clone()
        elif kind == 2:
            views.append(z.view(24)[a:b])
            views[-1].mul_(w[2])
        elif kind == 3:
            views.append(z.t())
            views[-1][a:b] += 1.0
            views[-1].mul_(w[0])
        elif kind == 4:
            views.append(z[:, ::2])
            z.mul_(2.0)
        elif kind == 5:
            views += [z[row, a:b], z[:, a - 1]]
            views[-2].add_(w[1])
        elif kind == 6:
            z[1:3, a:b] = z[1:3, a:b] * w[0]
        elif kind == 7:
            views.append(z.unsqueeze(0).reshape(2, 2, 6))
            views[-1][0].copy_(w[0] * x[:2])
        elif kind == 8:
            views.append(z[row, a])
            views[-1] += w[1]
        else:
            z[row, a:b].fill_(1.0)
    total = (z * z).sum()
    for i, view in enumerate(views):
        total = total + (view * (i + 1.5)).sum()
    total.backward()
    return [total.tolist(), *(np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.tolist() for leaf in (x, w))]


def outcome(lib: Any, seed: int) -> list[Any] | None:
    """What the program gives, None where it is refused: it changed what backward needs, or nothing needs a gradient."""
    try:
        return program(lib, np.random.default_rng(seed))
    except RuntimeError:
        return None


def test_changes_through_views() -> None:
    computed = 0
    for seed in range(600):
        ours, theirs = outcome(tg, seed), outcome(torch, seed)
        assert (ours is None) == (theirs is None), f"seed {seed}"
        for mine, other in zip(ours or (), theirs or (), strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-12, err_msg=f"seed {seed}")
        computed += ours is not None
    assert computed > 300
