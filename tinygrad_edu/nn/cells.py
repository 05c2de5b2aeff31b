"""One step of a recurrent network: RNNCell, GRUCell and LSTMCell."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_edu.creation import empty, zeros
from tinygrad_edu.nn import functional as F
from tinygrad_edu.nn import init
from tinygrad_edu.nn.module import Module
from tinygrad_edu.nn.parameter import Parameter
from tinygrad_edu.ops.recurrent import STEPS, gru_step, lstm_step
from tinygrad_edu.options import integer
from tinygrad_edu.tensor import Tensor


def step_of(nonlinearity: str, what: str) -> Any:
    """The step of a plain RNN, by its nonlinearity."""
    if nonlinearity not in STEPS:
        raise ValueError(f"{what}: nonlinearity is 'tanh' or 'relu', not {nonlinearity!r}")
    return STEPS[nonlinearity]


def drawn(shape: tuple[int, ...], hidden_size: int, device: Any, dtype: Any) -> Parameter:
    """A parameter of a recurrent layer, uniform in ±1/√hidden_size."""
    bound = 1 / math.sqrt(hidden_size) if hidden_size else 0.0
    p = Parameter(empty(shape, device=device, dtype=dtype))
    init.uniform_(p, -bound, bound)
    return p


class _Cell(Module):
    gates = 1
    step: Any

    def __init__(self, input_size: int, hidden_size: int, bias: bool, device: Any, dtype: Any) -> None:
        super().__init__()
        kind = type(self).__name__
        integer(input_size, f"{kind}: input_size", 0), integer(hidden_size, f"{kind}: hidden_size", 1)
        self.input_size, self.hidden_size = input_size, hidden_size
        rows = self.gates * hidden_size
        self.weight_ih = drawn((rows, input_size), hidden_size, device, dtype)
        self.weight_hh = drawn((rows, hidden_size), hidden_size, device, dtype)
        self.bias_ih = drawn((rows,), hidden_size, device, dtype) if bias else None
        self.bias_hh = drawn((rows,), hidden_size, device, dtype) if bias else None

    def _zeros(self, x: Any) -> Tensor:
        return zeros(*x.shape[:-1], self.hidden_size, dtype=x.dtype, device=x.device)

    def _check(self, x: Any, *states: Any) -> None:
        """Raise where the input is not one row or a batch of rows, and the states are not as many rows."""
        kind = type(self).__name__
        if x.ndim not in (1, 2) or x.shape[-1] != self.input_size:
            raise ValueError(
                f"{kind}: input must be [B, {self.input_size}] or [{self.input_size}], got shape {tuple(x.shape)}"
            )
        wanted = (*x.shape[:-1], self.hidden_size)
        for state in states:
            if tuple(state.shape) != wanted:
                raise ValueError(f"{kind}: the state has shape {tuple(state.shape)}, the input needs {wanted}")

    def _next(self, x: Any, *state: Any) -> Any:
        self._check(x, *state)
        gates = F.linear(x, self.weight_ih, self.bias_ih), F.linear(state[0], self.weight_hh, self.bias_hh)
        return self.step(*gates, state)

    def extra_repr(self) -> str:
        """10, 20, bias=True"""
        return f"{self.input_size}, {self.hidden_size}, bias={self.bias_ih is not None}"


class RNNCell(_Cell):
    """h ← tanh(W_ih·x + b_ih + W_hh·h + b_hh), or max(..., 0).

    Args:
        input_size: width of x. hidden_size: width of h, H.
        bias: whether there are biases.
        nonlinearity: "tanh" or "relu".
        device, dtype: of the parameters.

    Parameters: weight_ih [H, input_size], weight_hh [H, H], bias_ih and bias_hh [H], uniform in ±1/√H at first.

    >>> import tinygrad_edu as tg
    >>> RNNCell(3, 5)(tg.zeros(2, 3)).shape
    (2, 5)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity
        step_of(nonlinearity, "RNNCell")

    def step(self, x: Any, h: Any, state: Any) -> tuple[Any, ...]:
        """See the class."""
        return step_of(self.nonlinearity, "RNNCell")(x, h, state)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """x [B, input_size] or [input_size], h [B, H] or [H], zeros where None -> the next h."""
        return self._next(input, self._zeros(input) if hx is None else hx)[0]


class GRUCell(_Cell):
    """r, z = σ(W·x + b + U·h + c), n = tanh(W·x + b + r ⊙ (U·h + c)), h ← (1 − z) ⊙ n + z ⊙ h.

    Arguments as of RNNCell. Parameters: weight_ih [3H, input_size], weight_hh [3H, H], bias_ih and bias_hh [3H]; the
    rows are those of r, z, n in this order.
    Source: Cho et al., "Learning phrase representations using RNN encoder-decoder", 2014.

    >>> import tinygrad_edu as tg
    >>> GRUCell(3, 5)(tg.zeros(2, 3)).shape
    (2, 5)
    """

    gates = 3
    step = staticmethod(gru_step)

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """x [B, input_size] or [input_size], h [B, H] or [H], zeros where None -> the next h."""
        return self._next(input, self._zeros(input) if hx is None else hx)[0]


class LSTMCell(_Cell):
    """i, f, o = σ(W·x + b + U·h + c), g = tanh(the same), c ← f ⊙ c + i ⊙ g, h ← o ⊙ tanh(c).

    Arguments as of RNNCell. Parameters: weight_ih [4H, input_size], weight_hh [4H, H], bias_ih and bias_hh [4H]; the
    rows are those of i, f, g, o in this order.
    Source: Hochreiter and Schmidhuber, "Long short-term memory", 1997.

    >>> import tinygrad_edu as tg
    >>> h, c = LSTMCell(3, 5)(tg.zeros(2, 3))
    >>> h.shape, c.shape
    ((2, 5), (2, 5))
    """

    gates = 4
    step = staticmethod(lstm_step)

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """x [B, input_size] or [input_size], (h, c) each [B, H] or [H], zeros where None -> the next (h, c)."""
        if hx is not None and (not isinstance(hx, tuple | list) or len(hx) != 2):
            raise TypeError(f"LSTMCell: the state is a pair (h, c), not a {type(hx).__name__}")
        return self._next(input, *((self._zeros(input), self._zeros(input)) if hx is None else hx))
