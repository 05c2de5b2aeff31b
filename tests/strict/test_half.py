"""float16 on the stand-in, where most fused ops run as their definitions: ordinary numbers, those of the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_edu as tg
from tests import test_half as table

# Lines that name no tensor of their own, which would lie on the CPU.
LINES = [
    "layer_norm", "layer_norm, weight", "rms_norm", "rms_norm, weight", "batch_norm", "group_norm", "var",
    "std", "mean", "mean of many", "sum", "nanmean", "norm", "norm, 3", "logsumexp", "cumsum", "prod",
    "softmax", "log_softmax", "cross_entropy, probabilities", "l1_loss", "mse_loss", "huber_loss", "kl_div",
    "cosine_similarity", "normalize", "matmul", "linear", "addmm", "einsum", "attention", "attention, causal",
    "expand", "times a large number", "gelu",
]  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_float16_gives_what_float64_rounds_to(name: str) -> None:
    function, given = table.LINES[name]
    found = []
    for dtype, device in ((tg.float16, "cuda"), (tg.float64, "cpu")):
        xs = [tg.tensor(x.astype(np.float16), dtype=dtype, device=device, requires_grad=True) for x in given]
        y = function(*xs)
        assert y.dtype == dtype
        weight = tg.tensor(1 + 0.5 * np.cos(np.arange(y.numel())).reshape(y.shape), dtype=dtype, device=device)
        found.append([t.detach().cpu().numpy().astype(np.float64) for t in (y, *tg.grad(y, xs, weight))])
    table.same(name, *found)
