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

from ...buffers import empty
from ...pieces import logistic_slope, sech_squared_of_exp
from ...sums import column_sums, ones, product
from .. import crew
from .common import packed
from .linear import times

Sizes = tuple[int, ...] | None
Found = np.ndarray | None


def _read(array, reverse):
    """The array with its positions in the order of reading."""
    return array[::-1] if reverse else array


def _steps(x, reverse, batch_sizes):
    """(step, sequences that take part in it), in the order of reading."""
    return list(enumerate(_read(batch_sizes or (x.shape[1],) * len(x), reverse)))


def _zeros_at_ends(array, steps):
    """The array [steps, B, ...], 0 where sequences have ended."""
    for t, n in steps:
        array[t, n:] = 0
    return array


def _of_weights(changes, y, h, need, reverse):
    """dW = Σ da_tᵀ·y_(t−1) as one product over all positions, db = Σ da_t; da [T, B, gates·H] are the `changes`."""
    rows = changes.reshape(-1, changes.shape[-1])
    dweight = dbias = None
    with crew.apart:
        if need[1]:
            before = empty(y.shape, y.dtype)
            read = _read(before, reverse)
            read[0], read[1:] = h, _read(y, reverse)[:-1]
            dweight = product(rows.T, before.reshape(-1, y.shape[-1]))
        if need[-1]:
            dbias = column_sums(rows, ones(len(rows), rows.dtype))
    return dweight, dbias


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
    table, projected, ys = packed(weight.T), empty(h.shape, x.dtype), _read(y, reverse)
    with np.errstate(all="ignore"):
        for t, n in _steps(x, reverse, batch_sizes):
            at, out = a[t, :n], ys[t]
            at += times(h[:n], table, projected[:n])
            np.tanh(at, out=out[:n]) if nonlinearity == "tanh" else np.maximum(at, 0, out=out[:n])
            out[n:] = h[n:]
            h = out
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
    steps, da, dh = _steps(g, reverse, batch_sizes), empty(g.shape, g.dtype), np.zeros(h.shape, g.dtype)
    gs, das = _read(g, reverse), _zeros_at_ends(_read(da, reverse), steps)
    for t, n in reversed(steps):
        dh += gs[t]
        np.multiply(dh[:n], slopes[t, :n], out=das[t, :n])
        times(das[t, :n], weight, dh[:n])
    dweight, dbias = _of_weights(da, y, h, need, reverse)
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
    y, new, inner, above = (empty((length, batch, width), dtype) for _ in range(4))
    table, projected = np.multiply(weight.T, signs), empty((batch, 3 * width), dtype)
    shift = np.zeros(3 * width, dtype) if bias is None else bias * signs
    np.multiply(_read(x, reverse), signs, out=a)
    rz, n_ = np.s_[..., : 2 * width], np.s_[..., 2 * width :]
    a[rz] += shift[rz]
    ys = _read(y, reverse)
    with np.errstate(all="ignore"):
        for t, n in _steps(x, reverse, batch_sizes):
            p, exps, gate, bent, out = times(h[:n], table, projected[:n]), a[t, :n][rz], gates[t, :n], new[t, :n], ys[t]
            exps += p[rz]
            np.exp(exps, out=exps)
            np.add(exps, 1, out=gate)
            np.reciprocal(gate, out=gate)
            np.add(p[n_], shift[n_], out=inner[t, :n])
            a[t, :n][n_] += np.multiply(gate[:, :width], inner[t, :n], out=out[:n])
            np.tanh(a[t, :n][n_], out=bent)
            np.subtract(h[:n], bent, out=above[t, :n])
            np.multiply(gate[:, width:], above[t, :n], out=out[:n])
            out[:n] += bent
            out[n:] = h[n:]
            h = out
        if not keep:
            return y, None
        slope = sech_squared_of_exp(np.exp(a[n_], out=new))
        slope *= np.reciprocal(1 + np.reciprocal(a[..., width : 2 * width]))  # 1 − z
        slopes = logistic_slope(a[rz], gates)
        slopes[..., :width] *= inner
        slopes[..., :width] *= slope
        slopes[..., width:] *= above
        np.multiply(gates[..., :width], slope, out=a[n_])
    return y, GruSlopes(a.reshape(length, batch, 3, width), slope, packed(gates[..., width:]))


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
    (length, batch, width), dtype, steps = g.shape, g.dtype, _steps(g, reverse, batch_sizes)
    dp, dhs = empty((length, batch, 3 * width), dtype), empty(g.shape, dtype)
    dh, back = np.zeros((batch, width), dtype), empty((batch, width), dtype)
    gs, dps = _read(g, reverse), _zeros_at_ends(_read(dp, reverse), steps)
    for t, n in reversed(steps):
        d = np.add(dh, gs[t], out=dhs[t])
        np.multiply(slopes.projected[t, :n], d[:n, None], out=dps[t, :n].reshape(n, 3, width))
        np.multiply(d[:n], slopes.state[t, :n], out=dh[:n])
        dh[:n] += times(dps[t, :n], weight, back[:n])
        dh[n:] = d[n:]
    dweight, dbias = _of_weights(dp, y, h, need, reverse)
    if need[0]:
        np.multiply(dhs, slopes.new, out=dps[..., 2 * width :])
        _zeros_at_ends(dps, steps)
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
    y, new, bent = (empty((length, batch, width), dtype) for _ in range(3))
    table, projected = np.multiply(weight.T, signs), empty((batch, 4 * width), dtype)
    np.multiply(_read(x, reverse), signs, out=a)
    if bias is not None:
        a += bias * signs
    i, f, g, o = (np.s_[..., k * width : (k + 1) * width] for k in range(4))
    ys, cells[0] = _read(y, reverse), c
    with np.errstate(all="ignore"):
        for t, n in _steps(x, reverse, batch_sizes):
            exps, gate, cell, out = a[t, :n], gates[t, :n], cells[t + 1], ys[t]
            exps += times(h[:n], table, projected[:n])
            np.tanh(exps[g], out=new[t, :n])
            np.exp(exps, out=exps)
            np.add(exps, 1, out=gate)
            np.reciprocal(gate, out=gate)
            np.multiply(gate[f], cells[t, :n], out=cell[:n])
            cell[:n] += np.multiply(gate[i], new[t, :n], out=out[:n])
            np.tanh(cell[:n], out=bent[t, :n])
            np.multiply(gate[o], bent[t, :n], out=out[:n])
            out[n:], cell[n:] = h[n:], cells[t, n:]
            h = out
        last = cells[length].copy()
        if not keep:
            return (y, last), None
        steep = sech_squared_of_exp(a[g])
        slopes = logistic_slope(a, gates)
        slopes[i] *= new
        slopes[f] *= cells[:-1]
        np.multiply(gates[i], steep, out=slopes[g])
        slopes[o] *= bent
        slope = sech_squared_of_exp(np.exp(cells[1:], out=bent))
        slope *= gates[o]
    return (y, last), LstmSlopes(slopes.reshape(length, batch, 4, width), slope, packed(gates[f]))


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
    (length, batch, width), dtype, steps = y.shape, y.dtype, _steps(y, reverse, batch_sizes)
    da, part, dh = (
        empty((length, batch, 4 * width), dtype),
        empty((batch, width), dtype),
        np.zeros((batch, width), dtype),
    )
    dc = np.zeros((batch, width), dtype) if gc is None else gc.copy()
    gs = np.zeros((length, 1, 1), dtype) if g is None else _read(g, reverse)
    das = _zeros_at_ends(_read(da, reverse), steps)
    for t, n in reversed(steps):
        dh += gs[t]
        slope, d = slopes.gates[t, :n], das[t, :n].reshape(n, 4, width)
        dc[:n] += np.multiply(dh[:n], slopes.cell[t, :n], out=part[:n])
        np.multiply(slope[:, :3], dc[:n, None], out=d[:, :3])
        np.multiply(slope[:, 3], dh[:n], out=d[:, 3])
        dc[:n] *= slopes.state[t, :n]
        times(das[t, :n], weight, dh[:n])
    dweight, dbias = _of_weights(da, y, h, need, reverse)
    return da, dweight, dh, dc, dbias
