"""The NumPy attention kernel against its float64 formula and finite differences; it may not write to its inputs."""

from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tests.arrays import DTYPES, NEAR, agrees, close, numbers
from tinygrad_edu.arrays.buffers import clear, held_bytes
from tinygrad_edu.kernels import numpy as kernels
from tinygrad_edu.nn import functional as F


def attention_formula(q, k, v, visible, scale):
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    scores = np.where(visible, scale * (q @ k.swapaxes(-1, -2)), -np.inf)
    peak = scores.max(-1, keepdims=True, initial=-1e300)
    e = np.where(visible, np.exp(scores - peak), 0)
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total) @ v


def attention_gradients(g, q, k, v, visible, scale):
    g, q, k, v = (np.asarray(x, np.float64) for x in (g, q, k, v))
    p = attention_formula(q, k, np.eye(k.shape[2]), visible, scale)
    dp = g @ v.swapaxes(-1, -2)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * scale
    return ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ g


def seen(queries, keys, is_causal, mask):
    visible = np.tril(np.ones((queries, keys), bool), keys - queries) if is_causal else np.ones((queries, keys), bool)
    return visible if mask is None else visible & mask


MASKS: dict[str, Any] = {
    "none": lambda B, H, Q, K: None,
    "padding": lambda B, H, Q, K: np.arange(K) < np.arange(1, B + 1).reshape(B, 1, 1, 1) * K // B,
    "random": lambda B, H, Q, K: np.random.default_rng(5).random((Q, K)) < 0.6,
    "by head": lambda B, H, Q, K: np.random.default_rng(5).random((H, Q, K)) < 0.6,
    "nothing": lambda B, H, Q, K: np.zeros((B, H, Q, K), bool),
    "everything": lambda B, H, Q, K: np.ones((1, 1, 1, 1), bool),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1.0, 9.0])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(
    ("queries", "keys"), [(1, 1), (5, 5), (3, 7), (7, 3), (1, 20), (150, 150), (130, 300), (300, 9)]
)
def test_attention(queries, keys, is_causal, mask, size, dtype):
    batch, heads = 3, 2
    qkv = [
        numbers((batch, n, heads, 8), dtype, s, a)
        for s, (n, a) in enumerate([(queries, size), (keys, size), (keys, 1)])
    ]
    q, k, v = (x.transpose(0, 2, 1, 3) for x in qkv)
    g = numbers((batch, queries, heads, 8), dtype, 7).transpose(0, 2, 1, 3)
    chosen = MASKS[mask](batch, heads, queries, keys)
    if chosen is not None:
        chosen.flags.writeable = False
    visible = seen(queries, keys, is_causal, chosen)
    out, saved = kernels.attention(q, k, v, chosen, is_causal)
    close(out, attention_formula(q, k, v, visible, 8**-0.5), dtype, 3 * size)
    dead = ~np.broadcast_to(visible, (batch, heads, queries, keys)).any(-1)
    assert not out[dead].any()
    assert np.shares_memory(out, out.transpose(0, 2, 1, 3).reshape(batch, queries, heads * 8))
    alone, nothing = kernels.attention(q, k, v, chosen, is_causal, keep=False)
    np.testing.assert_array_equal(alone, out)
    assert nothing is None
    got = kernels.attention_backward(g, q, k, v, saved)
    for d, want in zip(got, attention_gradients(g, q, k, v, visible, 8**-0.5)):
        close(d, want, dtype, 20 * size)
    assert not got[0][dead].any()


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("size", [1.0, 6.0])
def test_attention_backward_against_differences(is_causal, size):
    q, k, v, g = (numbers((1, 2, n, 3), np.float64, n, size) for n in (4, 5, 5, 4))
    v = numbers((1, 2, 5, 2), np.float64, 8)
    g = numbers((1, 2, 4, 2), np.float64, 9)
    _, saved = kernels.attention(q, k, v, None, is_causal, 0.5)
    visible = seen(4, 5, is_causal, None)
    dq, dk, dv = kernels.attention_backward(g, q, k, v, saved)
    agrees(dq, lambda a: attention_formula(a, k, v, visible, 0.5), q, g)
    agrees(dk, lambda a: attention_formula(q, a, v, visible, 0.5), k, g)
    agrees(dv, lambda a: attention_formula(q, k, a, visible, 0.5), v, g)


def test_attention_computes_the_gradients_that_are_needed():
    x = numbers((2, 2, 5, 4), np.float32)
    _, saved = kernels.attention(x, x, x)
    whole = kernels.attention_backward(x, x, x, x, saved)
    for need in [(True, False, False), (False, True, False), (False, False, True), (True, False, True)]:
        part = kernels.attention_backward(x, x, x, x, saved, need)
        for wanted, some, all_of_it in zip(need, part, whole):
            if wanted:
                np.testing.assert_array_equal(some, all_of_it)
            else:
                assert some is None


def test_attention_gradients_of_self_attention_share_one_array():
    x = numbers((2, 3, 4, 8), np.float32)
    _, saved = kernels.attention(x, x, x)
    dq, dk, dv = kernels.attention_backward(x, x, x, x, saved)
    assert dq.base is dk.base is dv.base
    joint = dq.base
    assert joint.shape == (2, 4, 3, 3, 8)
    np.testing.assert_array_equal(joint[:, :, 1].transpose(0, 2, 1, 3), dk)


@pytest.mark.parametrize("dtype", DTYPES)
def test_attention_hides_exactly(dtype):
    """A hidden key changes nothing, in whichever block it lies and however large its score."""
    q, k, v = (numbers((1, 1, 200, 4), dtype, s).copy() for s in range(3))
    before, _ = kernels.attention(q, k, v, None, True)
    before = before.copy()
    k[:, :, 100:] *= 50
    v[:, :, 100:] += 7
    after, _ = kernels.attention(q, k, v, None, True)
    np.testing.assert_allclose(after[:, :, :100], before[:, :, :100], rtol=0, atol=NEAR[np.dtype(dtype)])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1e3, 1e-3])
def test_attention_of_extreme_scores_is_finite(dtype, size):
    x = numbers((2, 2, 9, 4), dtype, 1, size)
    with np.errstate(all="raise", under="ignore"):
        out, saved = kernels.attention(x, x, x, None, True)
        got = kernels.attention_backward(x, x, x, x, saved)
    assert np.isfinite(out).all()
    assert all(np.isfinite(d).all() for d in got)


def test_attention_of_float16_does_not_overflow():
    """e¹² is more than float16 can hold."""
    x = numbers((1, 2, 9, 4), np.float64, 1)
    x = np.sqrt(40 / (x * x).sum(-1).max()) * x  # scores up to 20
    h = x.astype(np.float16)
    out, saved = kernels.attention(h, h, h, None, True)
    got = kernels.attention_backward(h, h, h, h, saved)
    want, saved = kernels.attention(x, x, x, None, True)
    for half, full in zip([out, *got], [want, *kernels.attention_backward(x, x, x, x, saved)], strict=True):
        np.testing.assert_allclose(half, full, rtol=0, atol=0.03 * np.abs(full).max())


@pytest.mark.parametrize("shape", [(0, 2, 3, 4), (2, 0, 3, 4), (2, 2, 0, 4), (1, 1, 3, 0)])
def test_attention_of_nothing(shape):
    x = numbers(shape, np.float32)
    out, saved = kernels.attention(x, x, x)
    assert out.shape == shape
    assert [d.shape for d in kernels.attention_backward(x, x, x, x, saved)] == [shape] * 3


def test_attention_without_keys_is_zero():
    q, k = numbers((1, 2, 3, 4), np.float32), numbers((1, 2, 0, 4), np.float32)
    out, saved = kernels.attention(q, k, k)
    assert not out.any()
    dq, dk, dv = kernels.attention_backward(q, q, k, k, saved)
    assert not dq.any()
    assert dk.shape == dv.shape == k.shape


def test_weights_are_kept_for_a_backward_pass_only():
    x = tg.tensor(numbers((2, 4, 512, 8), np.float32))
    clear()
    with tg.no_grad():
        F.scaled_dot_product_attention(x, x, x, is_causal=True)
    assert held_bytes() < 4 << 20
    y = F.scaled_dot_product_attention(x.requires_grad_(), x, x, is_causal=True)
    assert held_bytes() > 4 << 20
    y.sum().backward()


@pytest.mark.parametrize("gap", [10, 25, 40, 80])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_key_far_above_the_others_keeps_its_gradient(dtype, gap):
    """Of one query with score `gap` for one key and less for the others: dS of the one is minus the sum of theirs."""
    rng = np.random.default_rng(gap)
    q, k, v = np.ones((1, 1, 1, 1)), rng.random((1, 1, 5, 1)), rng.standard_normal((1, 1, 5, 3))
    k[0, 0, 2] = gap
    q, k, v, g = (x.astype(dtype) for x in (q, k, v, rng.standard_normal((1, 1, 1, 3))))
    _, saved = kernels.attention(q, k, v, None, False, 1.0)
    _, dk, _ = kernels.attention_backward(g, q, k, v, saved)
    others = np.arange(5) != 2
    p = np.exp(k.ravel().astype(float) - gap) / np.exp(k.ravel().astype(float) - gap).sum()
    along = (v.astype(float) @ g.astype(float).swapaxes(2, 3)).ravel()
    ds = p * ((along - along[2]) - p[others] @ (along - along[2])[others])
    ds[2] = -ds[others].sum()
    np.testing.assert_allclose(dk.ravel(), ds, rtol=3e-5 if dtype == np.float32 else 1e-12)
