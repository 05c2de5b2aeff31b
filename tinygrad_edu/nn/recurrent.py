"""Recurrent layers over whole sequences: RNN, GRU and LSTM, several layers deep, in one or both directions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_edu.creation import zeros
from tinygrad_edu.functional import cat, stack
from tinygrad_edu.nn import functional as F
from tinygrad_edu.nn.cells import drawn, step_of
from tinygrad_edu.nn.module import Module
from tinygrad_edu.nn.utils.rnn import PackedSequence, packed_like, unpacked
from tinygrad_edu.ops.recurrent import Gru, Lstm, Rnn
from tinygrad_edu.options import flag, integer, probability


class _Recurrent(Module):
    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        kind = type(self).__name__
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            integer(size, f"{kind}: {name}", 1)
        for name, option in (("bias", bias), ("batch_first", batch_first), ("bidirectional", bidirectional)):
            flag(option, f"{kind}: {name}")
        if isinstance(dropout, bool):
            raise TypeError(f"{kind}: dropout is a probability, not {dropout}")
        dropout = probability(dropout, f"{kind}: dropout")
        self.input_size, self.hidden_size, self.num_layers, self.bias = input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional = batch_first, dropout, bidirectional
        ways = ["", "_reverse"] if bidirectional else [""]
        rows = self.gates * hidden_size
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * len(ways)
            for way in ways:
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, width), "weight_hh": (rows, hidden_size)}
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {}
                for name, shape in shapes.items():
                    setattr(self, f"{name}_l{layer}{way}", drawn(shape, hidden_size, device, dtype))

    def flatten_parameters(self) -> None:
        """Nothing: the parameters' place in memory does not matter here."""

    def _over(self, x: Any, weight: Any, state: Any, bias: Any, **order: Any) -> tuple[Any, ...]:
        """The op: (outputs, further parts of the last state) of one layer in one direction."""
        raise NotImplementedError

    def _run(self, x: Any, states: list[Any], sizes: Any = None) -> tuple[Any, list[Any]]:
        """x [T, B, input_size] -> outputs [T, B, H·directions], the last states, as the first ones: for each part of a
        state [layers·directions, B, H].

        sizes: how many sequences reach each position, the longest first; None for all.
        """
        last: list[Any] = []
        for layer in range(self.num_layers):
            found = []
            for back, way in enumerate(["", "_reverse"] if self.bidirectional else [""]):
                names = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
                w, b, u, c = (getattr(self, f"{n}_l{layer}{way}") if self.bias or n[0] == "w" else None for n in names)
                state = [part[len(last)] for part in states]
                y, *more = self._over(F.linear(x, w, b), u, state, c, reverse=bool(back), batch_sizes=sizes)
                last.append((y[0 if back else -1], *more))
                found.append(y)
            x = cat(found, -1) if len(found) > 1 else found[0]
            if self.dropout and layer < self.num_layers - 1:
                x = F.dropout(x, self.dropout, self.training)
        return x, [stack(parts) for parts in zip(*last, strict=True)]

    def _enter(self, input: Any) -> tuple[Any, bool]:
        """The input as [T, B, input_size], and whether it came without the batch axis."""
        kind = type(self).__name__
        if input.ndim not in (2, 3) or input.shape[-1] != self.input_size:
            raise ValueError(
                f"{kind}: needs [T, B, {self.input_size}] (batch_first: [B, T, {self.input_size}]) or "
                f"[T, {self.input_size}], got {input.shape}"
            )
        if input.ndim == 2:
            x, alone = input.unsqueeze(1), True
        else:
            x, alone = input.transpose(0, 1) if self.batch_first else input, False
        if not x.shape[0]:
            raise ValueError(f"{kind}: a sequence needs at least one position, got {input.shape}")
        return x, alone

    def _begin(self, x: Any, given: Any, alone: bool) -> Any:
        shape = (self.num_layers * (1 + self.bidirectional), x.shape[1], self.hidden_size)
        if given is None:
            return zeros(shape, dtype=x.dtype, device=x.device)
        if alone and given.ndim == 2:
            given = given.unsqueeze(1)
        elif alone:
            raise ValueError(f"{type(self).__name__}: a sequence without a batch needs a first state of two axes")
        if given.shape != shape:
            raise ValueError(f"{type(self).__name__}: the first state has shape {given.shape}, expected {shape}")
        if given.dtype != x.dtype:
            raise TypeError(
                f"{type(self).__name__}: the first state is {given.dtype}, input {x.dtype}; convert one with .to()"
            )
        return given

    def _leave(self, y: Any, alone: bool) -> Any:
        return y.squeeze(1) if alone else y.transpose(0, 1) if self.batch_first else y

    def forward(self, input: Any, hx: Any = None) -> Any:
        """input [T, B, input_size] (batch_first: [B, T, input_size]; [T, input_size] for one sequence), first states
        hx [layers·directions, B, H], zeros where None -> (outputs [T, B, H·directions], last states as hx).

        A PackedSequence gives packed outputs, and the last state of each sequence where that ends."""
        packed = isinstance(input, PackedSequence)
        x, alone = self._enter(input.data if packed else input)
        if packed:
            x, sizes = unpacked(input)[0], tuple(np.asarray(input.batch_sizes).tolist())
            first = [self._begin(x, _ordered(part, input.sorted_indices), False) for part in self._parts(hx)]
            y, last = self._run(x, first, sizes)
            return packed_like(y, input), self._state([_ordered(part, input.unsorted_indices) for part in last])
        y, last = self._run(x, [self._begin(x, part, alone) for part in self._parts(hx)])
        return self._leave(y, alone), self._state([part.squeeze(1) if alone else part for part in last])

    def _parts(self, hx: Any) -> tuple[Any, ...]:
        """The parts of a first state as it is given."""
        return (hx,)

    def _state(self, parts: list[Any]) -> Any:
        """A last state as it is returned."""
        return parts[0]

    def extra_repr(self) -> str:
        """10, 20, num_layers=2"""
        more = [f"num_layers={self.num_layers}"] if self.num_layers > 1 else []
        more += [f"{n}={getattr(self, n)}" for n in ("batch_first", "dropout", "bidirectional") if getattr(self, n)]
        return ", ".join([str(self.input_size), str(self.hidden_size), *more])


class RNN(_Recurrent):
    """h_t = tanh(W_ih·x_t + b_ih + W_hh·h_(t−1) + b_hh), or max(..., 0); each layer reads the outputs of the one below.

    Args:
        input_size: width of x. hidden_size: width of h, H. num_layers: layers on top of each other.
        nonlinearity: "tanh" or "relu".
        bias: whether there are biases.
        batch_first: whether inputs and outputs are [B, T, ...], not [T, B, ...]; states are [layers, B, H] always.
        dropout: probability of dropping an output between layers, in training.
        bidirectional: whether a second network reads from the end; outputs stand side by side.
        device, dtype: of the parameters.

    Parameters of layer k: weight_ih_lk [H, width], weight_hh_lk [H, H], bias_ih_lk and bias_hh_lk [H], with "_reverse"
    behind for the second direction; uniform in ±1/√H at first.

    >>> import tinygrad_edu as tg
    >>> outputs, last = RNN(3, 5, batch_first=True)(tg.zeros(2, 7, 3))
    >>> outputs.shape, last.shape
    ((2, 7, 5), (1, 2, 5))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype)
        self.nonlinearity = nonlinearity
        step_of(nonlinearity, "RNN")

    def _over(self, x: Any, weight: Any, state: Any, bias: Any, **order: Any) -> tuple[Any, ...]:
        return (Rnn(x, weight, *state, bias, nonlinearity=self.nonlinearity, **order),)


class GRU(_Recurrent):
    """At every position the formulas of GRUCell; arguments, shapes and names as of RNN, without `nonlinearity`.

    Parameters: weight_ih_lk [3H, width], ...; the rows are those of r, z, n in this order.

    >>> import tinygrad_edu as tg
    >>> GRU(3, 5, bidirectional=True)(tg.zeros(7, 2, 3))[0].shape
    (7, 2, 10)
    """

    gates = 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype)

    def _over(self, x: Any, weight: Any, state: Any, bias: Any, **order: Any) -> tuple[Any, ...]:
        return (Gru(x, weight, *state, bias, **order),)


class LSTM(_Recurrent):
    """At every position the formulas of LSTMCell; arguments, shapes and names as of RNN, without `nonlinearity`.

    The state, given and returned, is a pair (h, c). Parameters: weight_ih_lk [4H, width], ...; the rows are those of
    i, f, g, o in this order.

    >>> import tinygrad_edu as tg
    >>> outputs, (h, c) = LSTM(3, 5, num_layers=2)(tg.zeros(7, 2, 3))
    >>> outputs.shape, h.shape, c.shape
    ((7, 2, 5), (2, 2, 5), (2, 2, 5))
    """

    gates = 4

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if integer(proj_size, "LSTM: proj_size", 0):
            raise ValueError("LSTM: proj_size is not here; put a Linear behind the layer")
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype)

    def _over(self, x: Any, weight: Any, state: Any, bias: Any, **order: Any) -> tuple[Any, ...]:
        outputs: tuple[Any, ...] = Lstm(x, weight, *state, bias, **order)
        return outputs

    def _parts(self, hx: Any) -> tuple[Any, ...]:
        if hx is not None and (not isinstance(hx, tuple | list) or len(hx) != 2):
            raise TypeError(f"LSTM: the first state is a pair (h, c), not a {type(hx).__name__}")
        return (None, None) if hx is None else tuple(hx)

    def _state(self, parts: list[Any]) -> Any:
        return tuple(parts)


def _ordered(states: Any, indices: Any) -> Any:
    """[layers·directions, B, H] with the sequences in another order."""
    return states if states is None or indices is None else states.index_select(1, indices)
