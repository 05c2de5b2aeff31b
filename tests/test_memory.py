"""What a result shares with the tensor it came of, and whether it can be written to: as PyTorch has it."""

from __future__ import annotations

from typing import Any

import pytest

import tinygrad_edu as tg

SOURCES = {
    "x": "L.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])",
    "o": "L.tensor([[1.0, 2.0, 3.0]])",
    "v": "L.tensor([1.0, 2.0, 3.0])",
    "s": "L.tensor(2.0)",
    "b": "L.tensor([[True, False]])",
    "i": "L.ones(1, 1, 2, 2)",
    "l": "L.ones(1, 1, 4)",
}

SHARED = """
x.positive() | +x | x.float() | x.to(L.float32) | x.to(x) | x.to("cpu") | x.type(L.float32) | x.type_as(x) | x.cpu()
x.contiguous() | x.detach() | x.data | L.as_tensor(x) | x.view_as(x) | x.reshape(2, 3) | x.reshape(3, 2)
x.reshape(-1) | x.view(6) | x.flatten() | x.flatten(0, 0) | x.flatten(0, 1) | x.ravel() | x.unflatten(1, (1, 3))
x.unsqueeze(0) | x.squeeze() | x.squeeze(0) | o.squeeze() | o.squeeze(0) | x.transpose(0, 1) | x.transpose(0, 0)
x.swapaxes(0, 1) | x.swapdims(0, 1) | x.permute(0, 1) | x.permute(1, 0) | x.movedim(0, 1) | x.movedim(0, 0)
x.moveaxis(0, 1) | x.t() | v.t() | s.t() | x.mT | x.T | v.T | x.split(1)[0] | x.split(2)[0] | x.split([2])[0]
x.chunk(1)[0] | x.chunk(2)[0] | x.unbind()[0] | o.unbind()[0] | L.tensor_split(x, 2)[1] | L.tensor_split(x, [1])[0]
L.split(x, 1)[0] | L.split_with_sizes(x, [1, 1])[1] | x.narrow(0, 0, 2) | x.narrow(0, 0, 1) | x.select(0, 0) | x[...]
x[:] | x[0] | x[0, 0] | x[:, 0] | x[None] | x[0:2] | x[::2] | x[:, ::2] | x[()] | x[L.tensor(0)] | L.atleast_1d(x)
L.atleast_1d(s) | L.detach(x) | L.squeeze(x) | L.ravel(x) | L.reshape(x, (2, 3)) | L.flatten(x) | F.dropout(x, 0.0)
F.dropout(x, 0.5, training=False) | F.dropout(x, 0.0, training=False) | nn.Identity()(x) | nn.Flatten()(x)
nn.Flatten()(i) | nn.Unflatten(1, (1, 3))(x) | nn.Dropout(0.0)(x) | nn.Dropout(0.5).eval()(x) | nn.Sequential()(x)
x.float().float() | b.bool() | x.expand(2, 3) | x.expand_as(x) | x.broadcast_to((2, 3)) | x.diagonal() | x.diagonal(1)
x.unfold(1, 1, 1) | L.einsum("ij->ij", x) | L.einsum("ij->ji", x) | L.einsum("...", x) | L.cartesian_prod(v)
L.meshgrid(v)[0] | L.broadcast_tensors(x)[0]
"""

OWN = """
x.abs() | x.neg() | x.sign() | x.exp() | x.log() | x.sqrt() | x.floor() | x.ceil() | x.round() | x.trunc() | x.frac()
x.relu() | x.clamp(0, 9) | x.clamp(min=-9) | x.clip(max=99) | x.clamp(L.zeros(2, 3), x + 9) | x.nan_to_num() | x * 1
x + 0 | x - 0 | x / 1 | x ** 1 | x.pow(1) | x.mul(1) | x.add(0) | x.maximum(x) | x.minimum(x) | x.fmax(x) | x.fmin(x)
x.lerp(x, 0.0) | x.lerp(x, 1.0) | x.lerp(x + 1, 0.0) | x.addcmul(x, x, value=0) | x.where(x > 0, x)
L.where(x > 0, x, x) | x.masked_fill(x > 99, 0.0) | x.masked_fill(x > 0, 0.0) | x.masked_scatter(x > 99, x)
x.fmod(99) | x.remainder(99) | x.deg2rad() | x.xlogy(x) | x.double() | x.half() | x.long() | x.int() | x.bool()
x.byte() | x.short() | x.mT.contiguous() | x.clone() | x.new_tensor(x) | L.clone(x) | x.mT.reshape(-1)
x.mT.flatten() | x.mT.ravel() | x.repeat(2, 1) | x.repeat_interleave(1) | x.repeat_interleave(1, 0) | v.diag()
x.diag_embed() | x.flip(0) | x.flip(()) | x.flip(0, 1) | o.flip(0) | v.flip(0) | x.fliplr() | x.flipud() | x.roll(0)
x.roll(0, 0) | x.roll(1, 0) | o.roll(1, 0) | x.tril() | x.triu(-5) | x.tril(5) | x[[0, 1]] | x[x > -99]
x[L.tensor([0, 1])] | x[True] | x[0, [0, 1]] | x[:, [0]] | x[L.tensor(True)] | x.index_select(0, L.tensor([0, 1]))
x.gather(0, L.zeros(2, 3, dtype=L.int64)) | x.take(L.tensor([0, 1]))
x.take_along_dim(L.zeros(2, 3, dtype=L.int64), 0) | x.masked_select(x > -99)
x.scatter(0, L.zeros(0, 3, dtype=L.int64), 1.0) | x.index_add(0, L.zeros(0, dtype=L.int64), x[:0])
x.index_copy(0, L.zeros(0, dtype=L.int64), x[:0]) | x.index_fill(0, L.zeros(0, dtype=L.int64), 0.0)
x.index_put((L.zeros(0, dtype=L.int64),), x[:0]) | x.scatter_reduce(0, L.zeros(0, 3, dtype=L.int64), x, "sum")
x.sum(()) | o.sum(0) | o.sum(0, keepdim=True) | s.sum() | x.sum(dim=(0, 1)) | o.mean(0) | o.mean(0, keepdim=True)
s.mean() | o.prod(0) | s.prod() | o.amax(0) | o.amin(0, keepdim=True) | o.max(0)[0] | o.min(0)[0]
o.max(0, keepdim=True)[0] | s.max() | s.min() | o.median(0)[0] | s.median() | o.logsumexp(0) | s.logsumexp(0)
o.norm(dim=0) | s.norm() | o.norm(1, dim=0) | o.norm(float("inf"), dim=0) | o.nansum(0) | o.nanmean(0)
o.var(0, unbiased=False) | o.std(0, unbiased=False) | b.any() | b.any(0) | b.all(0) | b.all(1) | o.aminmax(dim=0)[0]
o.count_nonzero(0) | o.cumsum(0) | x.cumsum(0) | o.cumprod(0) | o.cummax(0)[0] | o.cummin(0)[0] | o.logcumsumexp(0)
s.cumsum(0) | s.cumprod(0) | s.cummax(0)[0] | s.logcumsumexp(0) | x.diff(n=0) | x.diff() | o.diff(dim=0) | x.sort()[0]
o.sort(0)[0] | s.sort()[0] | v.sort()[0] | x.argsort() | x.msort() | o.msort() | x.topk(3)[0] | o.topk(1, 0)[0]
s.topk(1)[0] | x.kthvalue(1)[0] | o.kthvalue(1, 0)[0] | s.kthvalue(1)[0] | o.quantile(0.5, 0) | s.quantile(0.5)
x.unique() | v.unique() | o.unique(dim=0) | x.softmax(0) | o.softmax(0) | o.log_softmax(0) | s.softmax(0)
F.softmax(o, 0) | x @ L.eye(3) | x.mm(L.eye(3)) | x.matmul(L.eye(3)) | L.einsum("ij->i", o.T)
L.einsum("ii->i", L.ones(3, 3)) | L.einsum("ij->", s[None, None]) | L.einsum("ij,->ij", x, L.tensor(1.0))
L.tensordot(x, L.eye(3), 1) | L.kron(x, L.ones(1, 1)) | L.outer(v, L.ones(1)) | L.cat([x]) | L.cat([x], 1)
L.stack([x])[0] | L.stack([x]) | L.hstack([x]) | L.vstack([x]) | L.column_stack([x]) | L.concat([x]) | L.block_diag(x)
L.addmm(x, x, L.eye(3), beta=1, alpha=0) | L.baddbmm(x[None], x[None], L.eye(3)[None], alpha=0) | L.bernoulli(x * 0)
F.relu(x) | F.gelu(x) | F.hardtanh(x, -99, 99) | F.relu6(x) | F.leaky_relu(x, 1.0) | F.elu(x) | F.prelu(x, L.ones(1))
F.pad(x, (0, 0)) | F.pad(x, ()) | F.pad(x, (0, 0, 0, 0)) | F.pad(x, (-1, 0)) | F.pad(x, (1, 0)) | F.normalize(x)
F.layer_norm(x, (3,)) | F.adaptive_avg_pool2d(i, 2) | F.adaptive_avg_pool2d(i, (None, 2))
F.adaptive_avg_pool1d(l, 4) | F.max_pool1d(l, 1) | F.max_pool2d(i, 1) | F.avg_pool1d(l, 1) | F.avg_pool2d(i, 1)
F.unfold(i, 1) | F.one_hot(L.tensor([0])) | F.embedding(L.tensor([0, 1]), x) | F.linear(x, L.eye(3))
F.conv1d(l, L.ones(1, 1, 1)) | F.glu(x[:, :2]) | nn.ReLU()(x) | nn.AdaptiveAvgPool2d(2)(i) | nn.MaxPool2d(1)(i)
nn.utils.rnn.pad_sequence([v]) | nn.utils.rnn.pad_sequence([v])[:, 0] | x.long().long() | x.to(L.float32, copy=True)
x.nonzero() | x.argwhere() | x.isnan() | b.logical_not() | b & b | b.clone() | x.eq(x) | x.erf() | x.sgn() | x.fix()
x.square() | x.rsqrt() | x.trace() | x.hypot(x * 0) | x.inner(L.eye(3)) | x.cross(x) | L.normal(x, 0.0)
L.rand_like(x) | L.zeros_like(x) | L.empty_like(x) | L.full_like(x, 1.0) | L.ones_like(x) | x.new_zeros(2)
x.index_fill(0, L.tensor([0]), 1.0) | x.scatter(0, L.tensor([[0]]), 1.0) | x.repeat(1, 1) | x.repeat(1, 1, 1)
o.repeat(1, 1) | x.tile(1) | x.tile((1, 1)) | x.diag() | F.adaptive_avg_pool2d(i, (None, None))
"""


def calls(text: str) -> list[str]:
    """The calls of a table, which " | " or the end of a line separates."""
    return [call.strip() for line in text.strip().splitlines() for call in line.removesuffix(" |").split(" | ")]


def relation(call: str, lib: Any) -> str:
    """ "shared" where a change of the result is one of its source, else "own"."""
    sources = {name: eval(value, {"L": lib}) for name, value in SOURCES.items()}
    result = eval(call, {"L": lib, "F": lib.nn.functional, "nn": lib.nn} | sources)
    before = {name: source.tolist() for name, source in sources.items()}
    result.copy_(result.logical_not() if "bool" in str(result.dtype) else result + 71)
    return "own" if {name: source.tolist() for name, source in sources.items()} == before else "shared"


@pytest.mark.parametrize("call", calls(SHARED))
def test_views_show_the_memory_of_their_source(call: str) -> None:
    assert relation(call, tg) == "shared"


@pytest.mark.parametrize("call", calls(OWN))
def test_results_have_memory_of_their_own(call: str) -> None:
    assert relation(call, tg) == "own"


def test_an_element_shown_twice_is_not_written_to() -> None:
    """Such views see each change of their source, but a change of theirs would be one of several elements: PyTorch
    refuses most, here all are."""
    x, v = tg.tensor([[1.0], [2.0]]), tg.tensor([1.0, 2.0, 3.0])
    for source, view in (
        (x, x.expand(2, 3)), (x, x.broadcast_to((4, 2, 1))), (x, tg.broadcast_tensors(x, tg.ones(2, 5))[0]),
        (v, tg.meshgrid(v, v)[1]), (v, v.unfold(0, 2, 1)),
    ):  # fmt: skip
        before = view.clone()
        for change in (
            lambda y: y.zero_(),
            lambda y: y.add_(1),
            lambda y: y.__setitem__(0, 5.0),
            lambda y: y.normal_(),
        ):
            with pytest.raises(RuntimeError, match=r"read-only or copied \(expand\); clone\(\) it first"):
                change(view)
        source.add_(10)
        assert (view - before).tolist() == (before * 0 + 10).tolist()
        view.clone().zero_()


def test_gradients_go_through_the_copies() -> None:
    x = tg.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    weights = tg.tensor([[1.0, 10.0, 100.0]])
    same = [[1, 10, 100]]
    for made, expected in ((x.flip(1), [[100, 10, 1]]), (x.diff(n=0), same), (x.logcumsumexp(0), same),
                           (x.to(tg.float32, copy=True), same)):  # fmt: skip
        made.detach().zero_()
        assert tg.grad((made * weights).sum(), x)[0].tolist() == expected
    assert x.tolist() == [[1, 2, 3]]
