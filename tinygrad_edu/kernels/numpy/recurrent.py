"""Recurrent layers over all positions, forward and backward through time: one direction of one layer.

x [T, B, gates·H] is the projected input; weight [gates·H, H] and bias [gates·H], or None, project the state; h and c
[B, H] are the first state. reverse: positions are read from the last to the first. batch_sizes: how many sequences, the
first ones of the batch, reach each position, None for all; where a sequence has ended, its state stays as it is.

With `keep`, what is needed on the way back is computed for all positions at once: the slopes of the step, so that only
the chain rule is left for the loop. It goes over the positions in the order of reading, the results are in that of x.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...arrays.buffers import empty
from ...arrays.pieces import logistic_slope, sech_squared_of_exp
from ...arrays.sums import column_sums, ones, product
from .. import crew
from .common import packed
from .linear import times

Sizes = tuple[int, ...] | None
Found = np.ndarray | None


def _read(array, reverse):
    """The array with its positions in the order of reading."""
    return array[::-1] if reverse and array is not None else array


def _steps(sizes, states, *arrays):
    """Step by step, the rows of each array [steps, B, ...] that belong to sequences that have not ended. Where they
    have, the `states` [1 + steps, B, H] stay as they are."""
    if sizes is None:
        yield from zip(*arrays)
        return
    for t, n in enumerate(sizes):
        yield [array[t][:n] for array in arrays]
        for state in states:
            state[t + 1][n:] = state[t][n:]


def _steps_back(sizes, *arrays):
    """The same from the last step to the first."""
    return _steps(sizes and sizes[::-1], (), *(array[::-1] for array in arrays))


def _zeros_at_ends(array, sizes):
    """The array [steps, B, ...], 0 where sequences have ended."""
    for part, n in zip(array, sizes or ()):
        part[n:] = 0
    return array


def _of_weights(changes, y, h, need_weight, need_bias, reverse):
    """dW = Σ da_tᵀ·y_(t−1) as one product over all positions, db = Σ da_t; da [T, B, gates·H] are the `changes`."""
    rows = changes.reshape(-1, changes.shape[-1])
    dweight = dbias = None
    with crew.apart:
        if need_weight:
            before = empty(y.shape, y.dtype)
            read = _read(before, reverse)
            read[0], read[1:] = h, _read(y, reverse)[:-1]
            dweight = product(rows.T, before.reshape(-1, y.shape[-1]))
        if need_bias:
            dbias = column_sums(rows, ones(len(rows), rows.dtype))
    return dweight, dbias


def _relu(x, out):
    np.maximum(x, 0, out=out)


def rnn(
    x: np.ndarray,
    weight: np.ndarray,
    h: np.ndarray,
    bias: np.ndarray | None = None,
    nonlinearity: str = "tanh",
    reverse: bool = False,
    batch_sizes: Sizes = None,
    keep: bool = True,
) -> tuple[np.ndarray, Found]:
    """y_t = tanh(x_t + y_(t−1)·Wᵀ + b), or max(..., 0). Results: y [T, B, H], and for the backward pass the slopes of
    that function, of the same shape.

    >>> rnn(np.ones((2, 1, 1)), np.ones((1, 1)), np.zeros((1, 1)), nonlinearity="relu", keep=False)[0].ravel()
    array([1., 2.])
    """
    y, a = empty(x.shape, x.dtype), empty(x.shape, x.dtype)
    np.add(_read(x, reverse), 0 if bias is None else bias, out=a)
    table, bend = packed(weight.T), np.tanh if nonlinearity == "tanh" else _relu
    hs, scratch = [h, *_read(y, reverse)], [empty(h.shape, x.dtype)] * len(x)
    with np.errstate(all="ignore"):
        for at, before, out, product_t in _steps(_read(batch_sizes, reverse), (hs,), a, hs, hs[1:], scratch):
            at += times(before, table, product_t)
            bend(at, out)
        if not keep:
            return y, None
        if nonlinearity == "tanh":
            return y, sech_squared_of_exp(np.exp(a, out=a))
        return y, np.subtract(1, a <= 0, out=a, dtype=a.dtype)  # which passes at NaN


def rnn_backward(
    g: np.ndarray,
    weight: np.ndarray,
    h: np.ndarray,
    y: np.ndarray,
    slopes: np.ndarray,
    need: tuple[bool, ...] = (True,) * 4,
    reverse: bool = False,
    batch_sizes: Sizes = None,
) -> tuple[Found, ...]:
    """With dh_t = dy_t + da_(t+1)·W: dx_t = da_t = dh_t ⊙ slopes_t, dW = Σ da_tᵀ·y_(t−1), dh = da_1·W, db = Σ da_t.

    need: which of (dx, dW, dh, db) are wanted; dW and db are None where they are not.
    """
    sizes, da, dh = _read(batch_sizes, reverse), empty(g.shape, g.dtype), np.zeros(h.shape, g.dtype)
    das = _zeros_at_ends(_read(da, reverse), sizes)
    steps = _steps_back(sizes, slopes, das, [dh] * len(g))
    for g_t, (slope, d, dh_t) in zip(_read(g, reverse)[::-1], steps):
        dh += g_t
        np.multiply(dh_t, slope, d)
        times(d, weight, dh_t)
    dweight, dbias = _of_weights(da, y, h, need[1], any(need[3:]), reverse)
    return da, dweight, dh, dbias


class GruSlopes(NamedTuple):
    """What one unit of dh_t is in other places, with p_t = y_(t−1)·Wᵀ + b."""

    projected: np.ndarray  # in r, z and n of p_t, [T, B, 3, H]
    new: np.ndarray  # in n of x_t, [T, B, H]
    state: np.ndarray  # in y_(t−1), left out what goes through p_t: z


def gru(
    x: np.ndarray,
    weight: np.ndarray,
    h: np.ndarray,
    bias: np.ndarray | None = None,
    reverse: bool = False,
    batch_sizes: Sizes = None,
    keep: bool = True,
) -> tuple[np.ndarray, GruSlopes | None]:
    """With p = y_(t−1)·Wᵀ + b: r, z = σ(x_t + p), n = tanh(x_t + r ⊙ p), y_t = n + z ⊙ (y_(t−1) − n).

    Results: y [T, B, H], and `GruSlopes` for the backward pass.
    """
    (length, batch, _), width, dtype = x.shape, h.shape[1], x.dtype
    signs = np.repeat(np.array([-1, -1, 1], dtype), width)  # the exp that a sigmoid needs is that of −a
    a, gates = empty(x.shape, dtype), empty((length, batch, 2 * width), dtype)
    y, n, inner, above = (empty((length, batch, width), dtype) for _ in range(4))
    np.multiply(_read(x, reverse), signs, out=a)
    table, shift = np.multiply(weight.T, signs, order="C"), np.zeros(3 * width, dtype) if bias is None else bias * signs
    exps, bends, r, z = a[..., : 2 * width], a[..., 2 * width :], gates[..., :width], gates[..., width:]
    exps += shift[: 2 * width]
    hs, projected = [h, *_read(y, reverse)], empty((batch, 3 * width), dtype)
    scratch = ([part] * length for part in (projected, projected[:, : 2 * width], projected[:, 2 * width :]))
    steps = _steps(_read(batch_sizes, reverse), (hs,), exps, bends, gates, r, z, n, inner, above, hs, hs[1:], *scratch)
    with np.errstate(all="ignore"):
        for e, bend, gate, r_t, z_t, n_t, inner_t, above_t, before, out, p, p_rz, p_n in steps:
            times(before, table, p)
            e += p_rz
            np.exp(e, e)
            np.add(e, 1, gate)
            np.reciprocal(gate, gate)
            np.add(p_n, shift[2 * width :], inner_t)
            bend += np.multiply(r_t, inner_t, out)
            np.tanh(bend, n_t)
            np.subtract(before, n_t, above_t)
            np.multiply(z_t, above_t, out)
            out += n_t
        if not keep:
            return y, None
        slope = sech_squared_of_exp(np.exp(bends, out=n))
        slope *= np.reciprocal(1 + np.reciprocal(exps[..., width:]))  # 1 − z
        slopes = logistic_slope(exps, gates)
        slopes[..., :width] *= inner
        slopes[..., :width] *= slope
        slopes[..., width:] *= above
        np.multiply(r, slope, out=bends)
    return y, GruSlopes(a.reshape(length, batch, 3, width), slope, packed(z))


def gru_backward(
    g: np.ndarray,
    weight: np.ndarray,
    h: np.ndarray,
    y: np.ndarray,
    slopes: GruSlopes,
    need: tuple[bool, ...] = (True,) * 4,
    reverse: bool = False,
    batch_sizes: Sizes = None,
) -> tuple[Found, ...]:
    """With dh_t = dy_t + dh_(t+1) ⊙ z + dp_(t+1)·W: dp_t = dh_t ⊙ slopes_t, dx_t the same but for its n, and
    dW = Σ dp_tᵀ·y_(t−1), dh = dh_1 ⊙ z + dp_1·W, db = Σ dp_t.

    need: which of (dx, dW, dh, db) are wanted; dW and db are None where they are not.
    """
    (length, batch, width), dtype, sizes = g.shape, g.dtype, _read(batch_sizes, reverse)
    dp, dhs = empty((length, batch, 3 * width), dtype), empty(g.shape, dtype)
    dh, back = np.zeros((batch, width), dtype), empty((batch, width), dtype)
    dps = _zeros_at_ends(_read(dp, reverse), sizes)
    parts = dps.reshape(length, batch, 3, width), dhs[:, :, None], [dh] * length, [back] * length
    steps = _steps_back(sizes, slopes.projected, slopes.state, dhs, dps, *parts)
    for g_t, d, (slope, z, d_t, dp_t, three, one, dh_t, back_t) in zip(_read(g, reverse)[::-1], dhs[::-1], steps):
        np.add(dh, g_t, d)
        np.multiply(slope, one, three)
        dh[...] = d  # also where sequences have ended
        np.multiply(d_t, z, dh_t)
        dh_t += times(dp_t, weight, back_t)
    dweight, dbias = _of_weights(dp, y, h, need[1], any(need[3:]), reverse)
    if need[0]:
        np.multiply(dhs, slopes.new, out=dps[..., 2 * width :])
        _zeros_at_ends(dps, sizes)
    return dp, dweight, dh, dbias


class LstmSlopes(NamedTuple):
    """What one unit of dc_t, for o one of dh_t, is in other places."""

    gates: np.ndarray  # in i, f, g and o before the bends, [T, B, 4, H]
    cell: np.ndarray  # of dh_t in c_t, [T, B, H]
    state: np.ndarray  # in c_(t−1): f


def lstm(
    x: np.ndarray,
    weight: np.ndarray,
    h: np.ndarray,
    c: np.ndarray,
    bias: np.ndarray | None = None,
    reverse: bool = False,
    batch_sizes: Sizes = None,
    keep: bool = True,
) -> tuple[tuple[np.ndarray, np.ndarray], LstmSlopes | None]:
    """y_t = o ⊙ tanh c_t, c_t = f ⊙ c_(t−1) + i ⊙ g; i, f, o are σ, g is tanh of x_t + y_(t−1)·Wᵀ + b.

    Results: (y [T, B, H], the last c [B, H]), and `LstmSlopes` for the backward pass.
    """
    (length, batch, _), width, dtype = x.shape, h.shape[1], x.dtype
    signs = np.repeat(np.array([-1, -1, 1, -1], dtype), width)  # the exp that a sigmoid needs is that of −a
    a, gates, cells = empty(x.shape, dtype), empty(x.shape, dtype), empty((length + 1, batch, width), dtype)
    y, g, bent = (empty((length, batch, width), dtype) for _ in range(3))
    np.multiply(_read(x, reverse), signs, out=a)
    if bias is not None:
        a += bias * signs
    i, f, _, o = (gates[..., k * width : (k + 1) * width] for k in range(4))
    bends = a[..., 2 * width : 3 * width]
    table, hs, cells[0] = np.multiply(weight.T, signs, order="C"), [h, *_read(y, reverse)], c
    arrays = (
        a,
        bends,
        gates,
        i,
        f,
        o,
        g,
        bent,
        hs,
        cells,
        hs[1:],
        cells[1:],
        [empty((batch, 4 * width), dtype)] * length,
    )
    with np.errstate(all="ignore"):
        steps = _steps(_read(batch_sizes, reverse), (hs, cells), *arrays)
        for e, bend, gate, i_t, f_t, o_t, g_t, bent_t, h_before, c_before, h_t, c_t, scratch in steps:
            e += times(h_before, table, scratch)
            np.tanh(bend, g_t)
            np.exp(e, e)
            np.add(e, 1, gate)
            np.reciprocal(gate, gate)
            np.multiply(f_t, c_before, c_t)
            c_t += np.multiply(i_t, g_t, h_t)
            np.tanh(c_t, bent_t)
            np.multiply(o_t, bent_t, h_t)
        last = cells[length].copy()
        if not keep:
            return (y, last), None
        steep = sech_squared_of_exp(bends)
        slopes = logistic_slope(a, gates).reshape(length, batch, 4, width)
        slopes[:, :, 0] *= g
        slopes[:, :, 1] *= cells[:-1]
        np.multiply(i, steep, out=slopes[:, :, 2])
        slopes[:, :, 3] *= bent
        slope = sech_squared_of_exp(np.exp(cells[1:], out=bent))
        slope *= o
    return (y, last), LstmSlopes(slopes, slope, packed(f))


def lstm_backward(
    g: np.ndarray | None,
    gc: np.ndarray | None,
    weight: np.ndarray,
    h: np.ndarray,
    y: np.ndarray,
    slopes: LstmSlopes,
    need: tuple[bool, ...] = (True,) * 5,
    reverse: bool = False,
    batch_sizes: Sizes = None,
) -> tuple[Found, ...]:
    """With dh_t = dy_t + da_(t+1)·W and dc_t = dh_t ⊙ slopes_c + dc_(t+1) ⊙ f_(t+1): dx_t = da_t = (dc_t, dc_t, dc_t,
    dh_t) ⊙ slopes_t, dW = Σ da_tᵀ·y_(t−1), dh = da_1·W, dc = dc_1 ⊙ f_1, db = Σ da_t.

    g, the gradient of y, or gc, that of the last c, may be None. need: which of (dx, dW, dh, dc, db) are wanted; dW and
    db are None where they are not.
    """
    (length, batch, width), dtype, sizes = y.shape, y.dtype, _read(batch_sizes, reverse)
    da, scratch = empty((length, batch, 4 * width), dtype), empty((batch, width), dtype)
    dh, dc = np.zeros((batch, width), dtype), np.zeros((batch, width), dtype) if gc is None else gc.copy()
    das = _zeros_at_ends(_read(da, reverse), sizes)
    four, fixed = das.reshape(length, batch, 4, width), ([part] * length for part in (dh, dc, dc[:, None], scratch))
    by_c, by_h = slopes.gates[:, :, :3], slopes.gates[:, :, 3]
    arrays = slopes.cell, slopes.state, by_c, by_h, das, four[:, :, :3], four[:, :, 3], *fixed
    gs = np.zeros((length, 1, 1), dtype) if g is None else _read(g, reverse)
    for g_t, rows in zip(gs[::-1], _steps_back(sizes, *arrays)):
        cell, f, slopes_c, slopes_h, d, d_ifg, d_o, dh_t, dc_t, dc_one, part = rows
        dh += g_t
        dc_t += np.multiply(dh_t, cell, part)
        np.multiply(slopes_c, dc_one, d_ifg)
        np.multiply(slopes_h, dh_t, d_o)
        dc_t *= f
        times(d, weight, dh_t)
    dweight, dbias = _of_weights(da, y, h, need[1], any(need[4:]), reverse)
    return da, dweight, dh, dc, dbias
