"""Calls as PyTorch's programs write them, positions and keywords: values, dtypes and gradients are PyTorch's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import tinygrad_edu as tg

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((2, 3, 4)).tolist()
I = RNG.integers(-3, 4, (3, 4)).tolist()  # noqa: E741
CALLS = [
    "torch.softmax(torch.tensor(3.0), dim=-1)",
    "F.log_softmax(torch.tensor(3.0), dim=0)",
    "torch.tensor(3.).sum(0)",
    "torch.tensor(3.).max(0)",
    "torch.tensor(3.).cumsum(0)",
    "torch.tensor(3.).argmax(0)",
    "torch.tensor(3.).topk(1)",
    "torch.tensor(3.).sort()",
    "torch.tensor(3.).median(0)",
    "torch.tensor(3.).kthvalue(1)",
    "torch.tensor(3.).quantile(.5)",
    "x.std(1, False, True)",
    "x.var(0, True)",
    "x.var(False)",
    "torch.var_mean(x, 1, False)",
    "torch.std_mean(x, dim=0, correction=0)",
    "x.max(1).values",
    "x.max(1).indices",
    "x.min(0)[0]",
    "x.sort(1, True).indices",
    "x.topk(2).values",
    "x.median(1).values",
    "x.kthvalue(2, 0, True).values",
    "torch.max(x, y)",
    "torch.max(x, dim=1, keepdim=True)[0]",
    "torch.aminmax(x, dim=0).max",
    "i & 3",
    "i | 8",
    "i ^ 5",
    "~i",
    "i << 2",
    "i >> 1",
    "1 << i.abs()",
    "i.bitwise_and(torch.tensor(6))",
    "(i > 0) & (i < 3)",
    "torch.bitwise_xor(i, i + 1)",
    "torch.nonzero(i)",
    "i.nonzero(as_tuple=True)[1]",
    "torch.unique(i, return_counts=True)",
    "torch.unique(i, return_inverse=True)",
    "torch.unique(i, dim=0)",
    "torch.bincount(i.abs().flatten())",
    "torch.argsort(x, dim=1, descending=True)",
    "torch.searchsorted(torch.tensor([1.,2.,3.]), x)",
    "torch.searchsorted(torch.tensor([1.,2.,3.]), 2.0)",
    "torch.searchsorted(torch.tensor([1.,2.,3.]), 2.0, side='right')",
    "torch.bucketize(x, torch.tensor([-.5, .5]), right=True)",
    "torch.isin(i, torch.tensor([1, 2]), invert=True)",
    "x.div(y, rounding_mode='trunc')",
    "x.div(0.3, rounding_mode='floor')",
    "i.div(2, rounding_mode='trunc')",
    "i.div(2, rounding_mode='floor')",
    "torch.floor_divide(i, 2)",
    "torch.fmod(x, 0.7)",
    "torch.fmod(i, 2)",
    "torch.remainder(i, -2)",
    "x.fmod(y)",
    "torch.atan2(x, y)",
    "torch.hypot(x, y)",
    "torch.logaddexp(x, y)",
    "torch.erfc(x)",
    "torch.frac(x)",
    "torch.trunc(x)",
    "torch.asin(x/5)",
    "torch.acos(x/5)",
    "torch.atanh(x/5)",
    "torch.asinh(x)",
    "torch.acosh(x.abs()+1)",
    "torch.log2(x.abs())",
    "torch.log10(x.abs())",
    "torch.exp2(x)",
    "torch.xlogy(x, y.abs())",
    "torch.cumprod(x, dim=1)",
    "torch.cummax(x, 1)",
    "torch.cummin(x, dim=0)",
    "torch.logcumsumexp(x, 1)",
    "torch.diff(x)",
    "torch.diff(x, n=2, dim=0)",
    "torch.diff(i, append=i[:, :1])",
    "torch.nansum(torch.where(x > 0, x, torch.tensor(float('nan'))))",
    "torch.nanmean(torch.where(x > 0, x, torch.tensor(float('nan'))), dim=0)",
    "torch.quantile(x, 0.25)",
    "torch.quantile(x, torch.tensor([.1, .9], dtype=torch.float64), dim=1)",
    "torch.quantile(x, 0.3, dim=0, keepdim=True, interpolation='nearest')",
    "torch.quantile(x, .4, interpolation='higher')",
    "torch.quantile(x, torch.tensor([.1, .9], dtype=torch.float64), keepdim=True)",
    "torch.quantile(x, .5, interpolation='midpoint')",
    "torch.cdist(x, y)",
    "torch.cdist(x, y, p=1.0)",
    "torch.tensordot(x, y, dims=([1],[1]))",
    "torch.tensordot(x, y.t(), 1)",
    "torch.kron(x[:2,:2], y[:2,:2])",
    "torch.cross(x[:, :3], y[:, :3], dim=1)",
    "torch.linalg.cross(x[:, :3], y[:, :3])",
    "torch.inner(x, y)",
    "torch.addmm(x[:, :3], x, y.t(), alpha=2)",
    "torch.lerp(x, y, 0.3)",
    "torch.trace(x)",
    "x.repeat(2, 1)",
    "x.tile((2,))",
    "x.movedim(0, 1)",
    "x.unflatten(1, (2, 2))",
    "x.flip(dims=(1,))",
    "x.permute(dims=(1, 0))",
    "x.unfold(1, 2, 1)",
    "torch.take_along_dim(x, i.abs() % 4, dim=1)",
    "x.fliplr()",
    "torch.diag_embed(x)",
    "torch.block_diag(x, y)",
    "torch.cartesian_prod(torch.tensor([1,2]), torch.tensor([3,4]))",
    "torch.column_stack([x[:,0], y])",
    "torch.atleast_1d(torch.tensor(2.))",
    "x.index_add(1, torch.tensor([0, 0]), y[:, :2], alpha=2)",
    "x.index_fill(1, torch.tensor([0]), 9.)",
    "x.index_copy(0, torch.tensor([1]), y[:1])",
    "x.scatter(1, i.abs() % 4, 7.0)",
    "x.scatter(1, torch.tensor([[1],[2],[3]]), y)",
    "x.scatter(1, torch.tensor([[1],[2],[3]]), y, reduce='add')",
    "x.scatter(1, torch.tensor([[1],[2],[3]]), 2.0, reduce='multiply')",
    "x.masked_select(x > 0)",
    "x.masked_scatter(x > 0, y)",
    "x.masked_scatter(x[:1] > 0, y)",
    "x.index_put((torch.tensor([0, 0]),), y[:2], accumulate=True)",
    "torch.isclose(x, x + 1e-9)",
    "torch.allclose(x, x)",
    "torch.linalg.norm(x)",
    "torch.linalg.norm(x, 1)",
    "torch.linalg.norm(x, dim=1)",
    "torch.linalg.vector_norm(x, 3, dim=0, keepdim=True)",
    "torch.linalg.vector_norm(x, float('-inf'))",
    "torch.linalg.matrix_norm(x, float('inf'))",
    "torch.linalg.vector_norm(x, 0)",
    "x.norm(p=1, dim=1)",
    "torch.norm(x, 2)",
    "F.normalize(x, dim=0)",
    "F.one_hot(i.abs())",
    "F.pairwise_distance(x, y, keepdim=True)",
    "F.cosine_similarity(x, y, dim=0)",
    "F.mse_loss(x, y[:1])",
    "F.l1_loss(x, y, weight=y.abs())",
    "F.mse_loss(x, y, weight=y.abs())",
    "F.huber_loss(x, y, weight=y.abs())",
    "F.mse_loss(x, y, None, None, 'sum')",
    "F.mse_loss(x, y, False)",
    "F.mse_loss(x, y, reduce=False)",
    "F.cross_entropy(x, torch.tensor([0,1,2]), None, None, -100, None, 'sum', 0.1)",
    "F.nll_loss(x, torch.tensor([0,1,2]), None, None, 1)",
    "F.smooth_l1_loss(x, y, None, None, 'mean', 0.5)",
    "F.pad(x, (1, 1))",
    "x.clone().sin_()",
    "x.clone().fmod_(2.)",
    "x.clone().unsqueeze(0)",
    "torch.fmax(x, torch.where(y > 0, y, torch.tensor(float('nan'))))",
    "x.prod(1)",
    "x.logsumexp(1)",
    "x.softmax(-1)",
    "x.amax((0, 1))",
    "x.count_nonzero(dim=1)",
    "torch.std(x, [0, 1])",
    "x.mean([0, 1], True)",
    "x.sum((0,), keepdim=True)",
    "i.sum()",
    "(x > 0).sum(1)",
    "i.float().mean()",
    "x.argmin(dim=1, keepdim=True)",
    "torch.where(x > 0, x, 0.)",
    "x.masked_fill(x > 0, -1)",
    "x.clamp(min=y)",
    "torch.clamp(x, -1, 1)",
    "x.roll(1, 0)",
    "torch.roll(x, shifts=(1, 1), dims=(0, 1))",
    "x.tril(-1)",
    "torch.triu(x, diagonal=1)",
    "x.split(2, dim=1)[1]",
    "torch.chunk(x, 2, dim=1)[0]",
    "torch.stack((x, y), -1)",
    "torch.cat((x, y), dim=-1)",
    "x.expand(2, -1, -1)",
    "x.gather(1, i.abs() % 4)",
    "torch.einsum('ij,kj->ik', x, y)",
    "torch.outer(x[0], y[0])",
    "x.swapaxes(0, 1)",
    "x.diff(dim=0, prepend=y[:1])",
    "torch.meshgrid(x[0], y[0], indexing='xy')[0]",
    *(
        f"x.scatter_reduce(1, i.abs() % 2, y, reduce='{reduce}', include_self={own})"
        for reduce in ("sum", "prod", "mean", "amax", "amin")
        for own in (True, False)
    ),
]
NO_BACKWARD = {"x.scatter(1, torch.tensor([[1],[2],[3]])"}  # PyTorch's own raises where the index is shorter


def run(package: Any, call: str) -> tuple[tuple[Any, ...], list[Any]]:
    """(the results, x and y) of a call."""
    x, y = (package.tensor(v, dtype=package.float64, requires_grad=True) for v in (X, Y))
    names = {"torch": package, "F": package.nn.functional, "x": x, "y": y, "i": package.tensor(I)}
    found = eval(call, names)
    return found if isinstance(found, tuple) else (found,), [x, y]


@pytest.mark.parametrize("call", CALLS)
def test_a_call_is_pytorchs(call: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, their_inputs = run(torch, call)
        ours, our_inputs = run(tg, call)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        if not isinstance(b, torch.Tensor):
            assert a == b
            continue
        assert str(a.dtype) == str(b.dtype).removeprefix("torch.")
        assert a.shape == tuple(b.shape)
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-7)
        if not b.requires_grad or any(call.startswith(start) for start in NO_BACKWARD):
            continue
        seed = np.random.default_rng(1).standard_normal(a.shape)
        got = [None, None]
        if a.requires_grad:
            got = list(tg.grad([a], our_inputs, [tg.tensor(seed)], retain_graph=True, allow_unused=True))
        given = torch.autograd.grad([b], their_inputs, [torch.tensor(seed)], retain_graph=True, allow_unused=True)
        for g, h, x in zip(got, given, our_inputs, strict=True):
            mine = np.zeros(x.shape) if g is None else g.numpy()
            yours = np.zeros(x.shape) if h is None else h.numpy()
            np.testing.assert_allclose(mine, yours, rtol=1e-6, atol=1e-7)
