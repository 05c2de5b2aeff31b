"""Scaled dot-product attention, forward and backward, in blocks of scores that stay in cache."""

import functools
import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from ...arrays.buffers import empty
from ...arrays.sums import ones, product, row_sums
from .. import crew
from .common import Gradients

GROUP = 1 << 20  # bytes of scores that are worked on together
CALM = 30.0  # |score| up to which exp needs no shift: e³⁰ is far from both ends of float32, but beyond float16's


class Weights(NamedTuple):
    """What the backward pass of `attention` reads besides its inputs: the weights P of each block of queries
    [B, H, queries, keys], without the keys that are hidden from the whole block, and the output [B, H, q, d']."""

    blocks: list[np.ndarray]
    output: np.ndarray
    is_causal: bool
    scale: float


def _groups(batch, heads, one):
    """Index pairs (samples, heads) whose scores, `one` byte count each, fill about a group."""
    together = max(1, GROUP // max(1, one))
    if together >= heads:
        step = max(1, together // max(1, heads))
        return [(slice(b, b + step), slice(None)) for b in range(0, batch, step)]
    return [(slice(b, b + 1), slice(h, h + together)) for b in range(batch) for h in range(0, heads, together)]


def _blocks(queries, keys, is_causal, size):
    """(first query, end of queries, end of their keys): query i of q reads key j of k where j ≤ i + k − q.

    A causal block leaves out the keys after its last query: short blocks save more work, but each costs some calls.
    About 4·√keys queries, and not under 64, were the best compromise for 64, 256 and 1024 keys.
    """
    split = is_causal or queries * keys * size > GROUP
    pieces = math.ceil(queries / max(64, 4 * math.sqrt(keys))) if split else 1
    edges = [queries * n // pieces for n in range(pieces + 1)] if queries else []
    spare = keys - queries
    return [(i, j, max(0, j + spare) if is_causal else keys) for i, j in itertools.pairwise(edges)]


def _corner(i, j, spare, dtype):
    """The part of a causal block with hidden keys: its first key, and 1 for the visible ones, else 0."""
    first = max(0, i + spare)
    return first, _triangle(j - i, first - i - spare, dtype)


@functools.lru_cache(maxsize=32)
def _triangle(size, left_out, dtype):
    """Ones on and below the diagonal, [size, size] without the first columns; read-only, since it is shared."""
    triangle = np.tri(size, dtype=dtype)[:, left_out:]
    triangle.flags.writeable = False
    return triangle


@crew.apart
def attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    mask: np.ndarray | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    keep: bool = True,
) -> tuple[np.ndarray, Any]:
    """O = P·V with P = softmax over the visible keys of scale·Q·Kᵀ.

    q [B, H, q, d]; k [B, H, k, d]; v [B, H, k, d']; mask, boolean, broadcast to [B, H, q, k], True where a query may
    read a key; is_causal: query i reads key j where j ≤ i + k − q (aligned to the end); scale: 1/√d if None; keep:
    whether there will be a backward pass. Results: O [B, H, q, d'], laid out as [B, q, H, d'] so that its heads merge
    without a copy, and `Weights` for the backward pass, None without. A query that may read nothing gets 0.

    A row's largest score is subtracted only where scores are so large that exp would come near its limits.
    Source: Vaswani et al., "Attention is all you need", 2017, section 3.2.

    >>> one = np.ones((1, 1, 2, 1))
    >>> attention(one, one, np.array([1.0, 3.0]).reshape(1, 1, 2, 1), is_causal=True)[0].ravel()
    array([1., 2.])
    """
    batch, heads, queries, width = q.shape
    keys, dtype = k.shape[2], q.dtype
    scale = 1 / math.sqrt(max(width, 1)) if scale is None else float(scale)
    output = empty((batch, queries, heads, v.shape[3]), dtype).transpose(0, 2, 1, 3)
    blocks = _blocks(queries, keys, is_causal, dtype.itemsize)
    weights: list[Any] = [empty((batch, heads, j - i, end), dtype) if keep else None for i, j, end in blocks]
    scaled = empty((batch, heads, width, keys), dtype)
    np.multiply(k.swapaxes(2, 3), scale, out=scaled)
    visible = _visible(mask, (batch, heads, queries, keys), dtype)
    corners = [_corner(i, j, keys - queries, dtype) if is_causal and j > i + 1 else None for i, j, _ in blocks]
    one = ones(keys, dtype)
    for group in _groups(batch, heads, queries * keys * dtype.itemsize):
        for (i, j, end), block, corner in zip(blocks, weights, corners):
            o = output[group][:, :, i:j]
            e = empty((*o.shape[:3], end), dtype) if block is None else block[group]
            if not e.size:
                o[...] = 0
                continue
            np.matmul(q[group][:, :, i:j], scaled[group][..., :end], out=e)
            _exp(e, None if visible is None else visible[group][:, :, i:j, :end], corner)
            total = row_sums(e, one[:end])
            if visible is not None or queries > keys:
                total[total == 0] = 1
            np.reciprocal(total, out=total)
            e *= total[..., None]
            product(e, v[group][:, :, :end], out=o)
    return output, Weights(weights, output, is_causal, scale) if keep else None


def _visible(mask, shape, dtype):
    """The mask as factors 1 and 0, spread to [B, H, q, k] without a copy; None where it hides nothing."""
    if mask is None or mask.all():
        return None
    return np.broadcast_to(mask.astype(dtype), shape)


def _exp(e, visible, corner):
    """Scores become exp(score − shift), 0 for hidden keys; the shift is the same along a row."""
    calm = e.itemsize > 2 and e.max() <= CALM and e.min() >= -CALM
    if not calm:
        _hide(e, visible, corner)
        e -= _largest(e)
    np.exp(e, out=e)
    if calm:
        if visible is not None:
            e *= visible
        if corner is not None:
            e[..., corner[0] :] *= corner[1]


def _hide(e, visible, corner):
    """Hidden scores become −∞."""
    if visible is not None:
        np.copyto(e, -np.inf, where=visible == 0)
    if corner is not None:
        np.copyto(e[..., corner[0] :], -np.inf, where=corner[1] == 0)


def _largest(e):
    """The largest score of each row; 0 where all are hidden."""
    largest = e.max(axis=-1, keepdims=True)
    largest[np.isneginf(largest)] = 0
    return largest


@crew.apart
def attention_backward(
    g: np.ndarray,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    saved: Weights,
    need: tuple[bool, bool, bool] = (True, True, True),
) -> Gradients:
    """dP = dO·Vᵀ; dS = P ⊙ (dP − Σ_k dP ⊙ P) = P ⊙ (dP − Σ dO ⊙ O); dQ = scale·dS·K, dK = scale·dSᵀ·Q, dV = Pᵀ·dO.

    g = dO [B, H, q, d']; q, k, v as for `attention`, with what it saved (hidden keys are known by their weight 0);
    need: which of (dQ, dK, dV) to compute.
    Results of the shapes of q, k, v, None where not needed, each laid out as [B, T, H, d]; for q, k and v of one shape
    they are the three parts of one [B, T, 3, H, d]. A query that may read nothing gives no gradient.
    As a row of dS adds up to 0, the dS of a weight above ½ is taken from the others: its own bracket is a difference of
    nearly equal numbers.
    """
    batch, heads, queries, _ = q.shape
    keys, dtype = k.shape[2], q.dtype
    weights, output, is_causal, scale = saved
    dq, dk, dv = _gradients(q, k, v, need)
    if need[0] or need[1]:
        scaled = empty((batch, heads, v.shape[3], keys), dtype)
        np.multiply(v.swapaxes(2, 3), scale, out=scaled)
        level = np.vecdot(g, output)[..., None]
        level *= scale
    blocks, one = _blocks(queries, keys, is_causal, dtype.itemsize), ones(keys, dtype)
    if not any(p.size for p in weights):
        for d in (dq, dk, dv):
            if d is not None:
                d[...] = 0
        return dq, dk, dv
    for group in _groups(batch, heads, queries * keys * dtype.itemsize):
        for (i, j, end), block in zip(blocks[::-1], weights[::-1]):  # the last block reads all keys
            p, rows = block[group], g[group][:, :, i:j]
            if dv is not None:
                _add_product(dv[group][:, :, :end], p, rows, j == queries)
            if need[0] or need[1]:
                ds = empty(p.shape, dtype)
                np.matmul(rows, scaled[group][..., :end], out=ds)
                ds -= level[group][:, :, i:j]
                ds *= p
                _balance(ds, p, one[:end])
            if dq is not None:
                product(ds, k[group][:, :, :end], out=dq[group][:, :, i:j])
            if dk is not None:
                _add_product(dk[group][:, :, :end], ds, q[group][:, :, i:j], j == queries)
    return dq, dk, dv


def _balance(ds, p, one):
    """The dS of a weight above ½ becomes minus the sum of its row's others."""
    flat = np.flatnonzero(p > 0.5)
    if flat.size:
        ds.reshape(-1)[flat] = 0
        places, width = flat // ds.shape[-1], ds.shape[-1]
        ds.reshape(-1)[flat] = -row_sums(ds.reshape(-1, width)[places], one)


def _add_product(total, weights, rows, first):
    """total = weightsᵀ·rows the first time, later total += weightsᵀ·rows."""
    if first:
        product(weights.swapaxes(2, 3), rows, out=total)
    else:
        total += product(weights.swapaxes(2, 3), rows)


def _gradients(q, k, v, need):
    """Memory for dQ, dK, dV as [B, H, T, d] views."""
    batch, heads, length, width = q.shape
    if q.shape == k.shape == v.shape and all(need):
        joint = empty((batch, length, 3, heads, width), q.dtype)
        return tuple(joint.transpose(2, 0, 3, 1, 4))
    return tuple(
        empty((x.shape[0], x.shape[2], x.shape[1], x.shape[3]), x.dtype).transpose(0, 2, 1, 3) if wanted else None
        for x, wanted in zip((q, k, v), need)
    )
