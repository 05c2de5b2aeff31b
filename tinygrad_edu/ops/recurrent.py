"""One direction of a recurrent layer over all positions as one op, and the step that its definition repeats."""

from tinygrad_edu import kernels
from tinygrad_edu.engine.tape import Op
from tinygrad_edu.ops.curve import Relu, Sigmoid, Tanh
from tinygrad_edu.ops.layer import Linear
from tinygrad_edu.ops.shape import Cat, Narrow, Reshape, Split, Unbind


def rnn_step(x, h, state):
    """h ← tanh(x + h), of projections of the input and of the state [B, H]."""
    return (Tanh(x + h),)


def relu_step(x, h, state):
    """h ← max(x + h, 0)."""
    return (Relu(x + h),)


def gru_step(x, h, state):
    """r, z = σ(x + h), n = tanh(x + r ⊙ h), state ← (1 − z) ⊙ n + z ⊙ state; x and h [B, 3H] hold r, z, n."""
    (xr, xz, xn), (hr, hz, hn) = _parts(x, 3), _parts(h, 3)
    n = Tanh(xn + Sigmoid(xr + hr) * hn)
    z = xz + hz
    return (Sigmoid(-z) * n + Sigmoid(z) * state[0],)  # σ(−z) keeps the digits that 1 − σ(z) has lost


def lstm_step(x, h, state):
    """c ← σ(f) ⊙ c + σ(i) ⊙ tanh(g), h ← σ(o) ⊙ tanh(c); x + h [B, 4H] holds i, f, g, o; state is (h, c)."""
    i, f, g, o = _parts(x + h, 4)
    c = Sigmoid(f) * state[1] + Sigmoid(i) * Tanh(g)
    return Sigmoid(o) * Tanh(c), c


STEPS = {"tanh": rnn_step, "relu": relu_step}


def _parts(x, count):
    """x cut into equal parts along its last axis."""
    return Split(x, sizes=(x.shape[-1] // count,) * count, axis=len(x.shape) - 1)


def over_time(step, x, weight, bias, state, reverse, batch_sizes):
    """The outputs of a step at all positions, [T, B, H], and the last state without its h, which is one of them.

    x [T, B, ...], the projected input; state: (h, ...), each [B, H]; reverse: from the last position to the first;
    batch_sizes: how many sequences, the first ones of the batch, reach each position. At the others of a sequence its
    state stays as it is.
    """
    outputs, batch = [], x.shape[1]
    positions = list(zip(Unbind(x, axis=0), batch_sizes or (batch,) * x.shape[0], strict=True))
    for gates, size in reversed(positions) if reverse else positions:
        new = step(gates, Linear(state[0], weight, bias), state)
        state = new if size == batch else tuple(_first_rows(size, a, b) for a, b in zip(new, state, strict=True))
        outputs.append(Reshape(state[0], shape=(1, *state[0].shape)))
    return Cat(*reversed(outputs) if reverse else outputs, axis=0), *state[1:]


def _first_rows(size, new, old):
    """The first rows of one array, followed by the others of another."""
    return Cat(Narrow(new, axis=0, start=0, stop=size), Narrow(old, axis=0, start=size, stop=old.shape[0]), axis=0)


class Rnn(Op):
    """{out}_t = tanh({x}_t + {out}_(t−1)·{weight}ᵀ + {bias}), or max(..., 0), from {h} on"""

    saves = ("slope",)
    formulas = {
        "x": "d{x}_t = (d{out}_t + d{x}_(t+1)·{weight}) ⊙ (1 − {out}_t²), or ⊙ ({out}_t > 0)",
        "weight": "d{weight} = Σ_t d{x}_tᵀ·{out}_(t−1)",
        "h": "d{h} = d{x}_1·{weight}",
        "bias": "d{bias} = Σ_t d{x}_t",
    }

    def definition(x, weight, h, bias=None, *, nonlinearity="tanh", reverse=False, batch_sizes=None):
        return over_time(STEPS[nonlinearity], x, weight, bias, (h,), reverse, batch_sizes)[0]

    def forward(x, weight, h, bias=None, *, nonlinearity="tanh", reverse=False, batch_sizes=None, recording=False):
        return kernels.of(x).rnn(x, weight, h, bias, nonlinearity, reverse, batch_sizes, recording)

    def gradients(g, need, weight, h, out, slope, reverse, batch_sizes):
        return kernels.of(g).rnn_backward(g, weight, h, out, slope, need, reverse, batch_sizes)


class Gru(Op):
    """{out}_t = (1 − z) ⊙ n + z ⊙ {out}_(t−1) with n = tanh({x}_t + r ⊙ p_t), from {h} on

    p_t = {out}_(t−1)·{weight}ᵀ + {bias}; r and z are σ({x}_t + p_t); r, z and n are made of their columns.
    """

    saves = ("slopes",)
    formulas = {
        "x": "d{x}_t = (dn ⊙ p ⊙ r', dh ⊙ ({out}_(t−1) − n) ⊙ z', dn), dn = dh ⊙ (1 − z) ⊙ n', "
        "dh = d{out}_t + dh_(t+1) ⊙ z_(t+1) + dp_(t+1)·{weight}",
        "weight": "d{weight} = Σ_t dp_tᵀ·{out}_(t−1), dp = d{x} ⊙ (1, 1, r)",
        "h": "d{h} = dh_1 ⊙ z_1 + dp_1·{weight}, dp = d{x} ⊙ (1, 1, r)",
        "bias": "d{bias} = Σ_t dp_t, dp = d{x} ⊙ (1, 1, r)",
    }

    def definition(x, weight, h, bias=None, *, reverse=False, batch_sizes=None):
        return over_time(gru_step, x, weight, bias, (h,), reverse, batch_sizes)[0]

    def forward(x, weight, h, bias=None, *, reverse=False, batch_sizes=None, recording=False):
        return kernels.of(x).gru(x, weight, h, bias, reverse, batch_sizes, recording)

    def gradients(g, need, weight, h, out, slopes, reverse, batch_sizes):
        return kernels.of(g).gru_backward(g, weight, h, out, slopes, need, reverse, batch_sizes)


class Lstm(Op):
    """h_t = o ⊙ tanh c_t with c_t = f ⊙ c_(t−1) + i ⊙ g, from {h} and {c} on; results: all h_t, the last c_t

    i, f, o are σ and g is tanh of their columns of {x}_t + h_(t−1)·{weight}ᵀ + {bias}.
    """

    outputs = True
    saves = ("slopes",)
    formulas = {
        "x": "d{x}_t = (dc ⊙ g ⊙ i', dc ⊙ c_(t−1) ⊙ f', dc ⊙ i ⊙ g', dh ⊙ tanh c ⊙ o'), "
        "dc = dc_(t+1) ⊙ f_(t+1) + dh ⊙ o ⊙ tanh' c, dh = dh_t + d{x}_(t+1)·{weight}",
        "weight": "d{weight} = Σ_t d{x}_tᵀ·h_(t−1)",
        "h": "d{h} = d{x}_1·{weight}",
        "c": "d{c} = dc_1 ⊙ f_1",
        "bias": "d{bias} = Σ_t d{x}_t",
    }

    def definition(x, weight, h, c, bias=None, *, reverse=False, batch_sizes=None):
        return over_time(lstm_step, x, weight, bias, (h, c), reverse, batch_sizes)

    def forward(x, weight, h, c, bias=None, *, reverse=False, batch_sizes=None, recording=False):
        return kernels.of(x).lstm(x, weight, h, c, bias, reverse, batch_sizes, recording)

    def gradients(g, need, weight, h, out, slopes, reverse, batch_sizes):
        return kernels.of(weight).lstm_backward(*g, weight, h, out[0], slopes, need, reverse, batch_sizes)
