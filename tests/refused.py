"""Calls that make no sense, and that PyTorch refuses, too: each as text, with `L` for the library."""

from __future__ import annotations

from typing import Any

ARGUMENTS = {
    "x": "L.ones(3)",
    "m": "L.tensor([True, False, True])",
    "n": "L.tensor([1, 2, 3])",
    "a": "L.ones(2, 3)",
    "b": "L.ones(2, 2, 2)",
    "d": "L.ones(1, dtype=L.float64)",
    "at": "L.tensor([0])",
    "nan": "float('nan')",
}

CALLS = """
L.arange(5, 0) | L.arange(-1) | L.arange(0, 3, 0) | L.arange(0, 5, -1) | L.arange(0.0, nan) | L.arange(0.0, 5.0, nan)
L.arange(0, 3, dtype=L.bool) | L.arange(0, 1, 0.3, dtype=L.int64)
L.linspace(0, 1, -1) | L.linspace(0, 1, 2.5) | L.linspace(0, 1, 3, dtype=L.bool) | L.logspace(0, 1, -1)
L.logspace(0, 1, 3, dtype=L.bool) | L.eye(-1) | L.eye(2, -1) | L.eye(2.5)
L.full((-1,), 1) | L.full((2,), None) | L.full((2,), [1, 2]) | L.full((2.5,), 1) | L.zeros(-1) | L.ones(2, -3)
L.empty(-2) | L.zeros(2.0) | L.rand(-1) | L.randn(2, -1) | L.zeros(2).new_zeros(-1) | L.zeros(2).new_full((-1,), 2)
L.tril_indices(-1, 2) | L.tril_indices(2, -2) | L.triu_indices(2, -2)
L.randint(3, 3, (2,)) | L.randint(5, 3, (2,)) | L.randint(0, (2,)) | L.randint(-3, (2,)) | L.randint(0, 3, (-2,))
L.randint(0, 300, (2,), dtype=L.uint8) | L.randint(0, 2**40, (2,), dtype=L.int32)
L.randint(-1, 3, (2,), dtype=L.uint8)
L.randint(0, 3, (2,), dtype=L.bool) | L.randint(0.5, 3, (2,)) | L.randint_like(x, 3, 3)
L.randint_like(x.to(L.uint8), 300) | L.randperm(-1) | L.randperm(2.5) | L.randperm(300, dtype=L.uint8)
L.randperm(3, dtype=L.bool) | L.normal(0.0, -1.0, (2,)) | L.normal(x, -x - 1) | L.normal(x, -1.0)
L.normal(0.0, nan, (2,))
L.bernoulli(L.full((2,), 1.5)) | L.bernoulli(L.full((2,), nan)) | L.bernoulli(L.full((2,), -0.1)) | L.bernoulli(x, 1.5)
L.multinomial(x, -1) | L.multinomial(x, 0) | L.multinomial(x, 4) | L.multinomial(-x, 1) | L.multinomial(0 * x, 1)
L.multinomial(x * nan, 1) | L.multinomial(x / 0, 1) | L.multinomial(b, 1) | L.multinomial(L.tensor(1.0), 1)
L.multinomial(L.ones(0), 1) | L.multinomial(x, 1.5) | L.multinomial(L.tensor([[1.0, 1.0], [0.0, 0.0]]), 1)
x.normal_(0, -1) | x.normal_(0, nan) | x.uniform_(2, 1) | x.uniform_(nan, 1) | x.uniform_(0, float("inf"))
x.exponential_(0) | x.exponential_(-1) | x.exponential_(nan) | x.bernoulli_(1.5) | x.bernoulli_(nan)
x.bernoulli_(2 * x)
x.bernoulli_(L.ones(2)) | x.random_(3, 3) | x.random_(5, 3) | x.random_(0) | x.random_(-1)
x.diff(n=-1) | x.diff(dim=1) | L.tensor(1.0).diff() | a.diff(prepend=x) | a.diff(prepend=L.ones(3, 1))
x.roll((1, 2), 0) | x.roll(1, (0, 0)) | a.roll(1, 2) | x.roll(1.5, 0) | x.roll((), ()) | a.roll((1, 1))
x.unfold(0, 4, 1) | x.unfold(0, -1, 1) | x.unfold(0, 2, 0) | x.unfold(0, 2, -1) | x.unfold(1, 2, 1)
x.topk(4) | x.topk(-1) | x.topk(1.5) | x.topk(1, 1) | x.kthvalue(0) | x.kthvalue(4) | x.kthvalue(-1) | x.kthvalue(1.5)
x.quantile(1.5) | x.quantile(-0.1) | x.quantile(nan) | x.quantile(0.5, interpolation="x")
x.quantile(L.tensor([[0.5]]))
L.ones(0).quantile(0.5) | x.chunk(0) | x.chunk(-1) | x.split(0) | x.split(-1) | x.split([1, 1]) | x.split([1, -1, 3])
x.split([4]) | L.tensor(1.0).split(1) | L.tensor(1.0).chunk(1) | L.tensor_split(x, 0) | L.tensor_split(x, -1)
L.tensor_split(L.tensor(1.0), 2) | x.repeat(-1) | a.repeat(2) | x.repeat(2, -1) | x.tile(-1)
x.repeat_interleave(-1) | x.repeat_interleave(n[:2]) | x.repeat_interleave(n - 2) | x.repeat_interleave(x)
x.repeat_interleave(n[None]) | x.repeat_interleave(1.5) | x.repeat_interleave(n, output_size=7)
x.narrow(0, 4, 1) | x.narrow(0, 1, 3) | x.narrow(0, 1, -1) | x.narrow(0, -4, 1) | x.select(0, 3) | x.select(0, -4)
x.expand(-1, 3) | x.expand(2) | x.expand(-2) | x.expand(3, 4) | a.expand(3) | x.reshape(-1, -1) | x.reshape(2)
x.reshape(-2) | x.view(2, -1) | L.ones(0).reshape(-1, 0) | x.unflatten(0, (2, 2)) | a.flatten(1, 0)
a.permute(0) | a.permute(0, 0) | a.permute(0, 1, 2) | a.movedim(0, (0, 1)) | a.movedim((0, 1), (0, 0)) | x.flip(0, 0)
a.flip(2) | x.fliplr() | L.tensor(1.0).flipud() | x.cumsum(1) | x.cumprod(2) | b.trace() | x.trace() | b.diag()
x.diagonal() | a.diagonal(dim1=0, dim2=0) | x.diag_embed(dim1=0, dim2=0) | x.tril() | x.triu() | x.norm("x")
n.norm() | m.norm(1) | n.dist(n * 2) | L.linalg.vector_norm(n)
x.gather(0, n) | x.gather(0, -n) | x.gather(0, x) | a.gather(0, at) | x.take(n) | x.take(at - 4) | x.take(x)
x.index_select(0, n) | x.index_select(0, at[None]) | x.index_select(0, x) | x.index_select(0, m)
x.masked_select(n) | x.masked_select(x) | x.masked_select(m[:2]) | x.masked_fill(x, 1.0) | x.masked_fill(n, 1.0)
x.masked_fill(m[:2], 1.0) | x.masked_fill(m, x) | x.masked_scatter(x, x) | x.masked_scatter(n, x)
x.masked_scatter(L.tensor([1, 1, 1], dtype=L.uint8), L.zeros(9)) | x.masked_scatter(m, x[:1]) | x.masked_scatter(m, n)
L.where(x, x, x) | L.where(n, x, x) | x.scatter(0, n, 1.0) | x.scatter(0, at, 1.0, reduce="x") | x.scatter(0, at, d)
x.scatter_add(0, at, d) | x.scatter_reduce(0, at, x[:1], "x") | x.scatter_reduce(0, at, d, "sum") | x.scatter_(0, at, d)
x.scatter_add_(0, at, d) | x.index_add(0, n[:2], x[:1]) | x.index_add(0, n, x) | x.index_add(0, at, d)
x.index_add_(0, at, d) | x.index_copy(0, at, x) | x.index_copy(0, at, d) | x.index_copy_(0, at, d)
x.index_fill(0, n, 1.0) | x.index_put((at,), x[:2]) | x.index_put((at,), d) | L.cat([]) | L.cat([x, a])
L.cat([x, L.tensor(1.0)]) | L.stack([]) | L.stack([x, x[:2]]) | L.stack([x], 2) | L.meshgrid(x, x, indexing="x")
L.meshgrid(a) | L.broadcast_tensors(x, x[:2]) | L.cartesian_prod(a, x) | L.block_diag(b) | L.bincount(-n)
L.bincount(n, minlength=-1) | L.bincount(n, weights=x[:2]) | L.bincount(x) | L.bincount(n[None])
L.searchsorted(x, x, side="x") | L.searchsorted(a, x) | L.bucketize(x, a) | L.einsum("i->j", x) | L.einsum("i,i->", x)
L.einsum("ij->ii", a) | L.einsum("ii", x) | L.tensordot(a, a, dims=-1) | L.tensordot(a, a, dims=3)
L.tensordot(a, a, dims=([0], [0, 1])) | L.cdist(x, x) | L.cdist(a, a, p=-1) | L.cdist(a, b[0]) | L.cross(x, L.ones(4))
L.dot(x, x[:2]) | L.mm(x, x) | L.outer(a, x) | L.addmm(a, a, a) | L.clamp(x) | x.clamp_() | L.clip(x)
L.div(x, x, rounding_mode="x") | L.round(x, decimals=1.5) | L.add(n, n, alpha=0.5) | L.sub(n, n, alpha=0.5)
n.add_(n, alpha=0.5) | L.isclose(x, x, rtol=-1) | L.isclose(x, x, atol=-1) | L.allclose(x, x, rtol=-1)
L.softmax(x, 1) | L.softmax(x, 0.5) | L.log_softmax(x, 5) | x.item() | x.unique(dim=1) | x.sort(1) | x.sum((0, 0))
x.amax((0, 0)) | L.ones(0).max() | L.ones(0).argmax() | L.ones(0, 2).max(0) | x.transpose(0, 1)
L.Tensor(-1) | L.Tensor(2, 0.5) | L.tensor([300], dtype=L.uint8) | L.tensor([nan], dtype=L.int64) | n.fill_(nan)
L.full((1,), 300, dtype=L.uint8) | n.masked_fill(m, nan) | x.fill_(x) | L.Size([0.5]) | L.tensor([1, 2])**-1
"""
REFUSED = [call.strip() for line in CALLS.strip().splitlines() for call in line.split(" | ")]


def called(call: str, library: Any) -> Any:
    names = {"L": library}
    return eval(call, names | {name: eval(value, names) for name, value in ARGUMENTS.items()})
