"""Hooks of modules: before and after forward, before and after backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn


def rows(values: Any = ((1.0, 2.0), (3.0, 4.0)), needs: bool = True) -> tg.Tensor:
    return tg.tensor(np.array(values), requires_grad=needs)


class Pair(nn.Module):
    def forward(self, x: tg.Tensor, scale: float, y: tg.Tensor) -> Any:
        return x * scale, x * y


def test_backward_hooks_see_every_gradient_once() -> None:
    seen: list[Any] = []
    pair = Pair()
    pair.register_full_backward_pre_hook(lambda m, out: seen.append(("out", [g.tolist() for g in out])))
    pair.register_full_backward_hook(lambda m, into, out: seen.append(("in", into, out)))
    x, y = rows(), rows(needs=False)
    a, b = pair(x, 3.0, y)
    (a.sum() + 2 * b.sum()).backward()
    assert [kind for kind, *_ in seen] == ["out", "in"]
    assert seen[0][1] == [[[1.0, 1.0]] * 2, [[2.0, 2.0]] * 2]
    into, out = seen[1][1:]
    np.testing.assert_array_equal(into[0].numpy(), 3 + 2 * y.numpy())
    assert into[1] is None
    assert into[2] is None
    assert len(out) == 2
    np.testing.assert_array_equal(x.grad, into[0])


def test_what_a_backward_hook_returns_goes_on() -> None:
    layer = nn.Linear(2, 2, bias=False).double()
    x = rows()
    with (
        layer.register_full_backward_pre_hook(lambda m, out: (out[0] * 10,)),
        layer.register_full_backward_hook(lambda m, into, out: (into[0] * 0 + 7,)),
    ):
        layer(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[7.0, 7.0]] * 2
    assert layer.weight.grad is not None
    np.testing.assert_allclose(layer.weight.grad.numpy(), 10 * np.array([[4.0, 6.0]] * 2))
    layer(x).sum().backward()  # taken back
    np.testing.assert_allclose(layer.weight.grad.numpy(), 11 * np.array([[4.0, 6.0]] * 2))


def test_inputs_without_gradient() -> None:
    seen: list[Any] = []
    layer = nn.Linear(2, 2)
    layer.register_full_backward_hook(lambda m, into, out: seen.append((into, out[0].shape)))
    layer(tg.ones(3, 2)).sum().backward()
    assert seen == [((None,), (3, 2))]
    with tg.no_grad():
        layer(tg.ones(3, 2))
    assert len(seen) == 1


def test_a_recorded_pass_goes_through_backward_hooks() -> None:
    layer = Pair()
    layer.register_full_backward_hook(lambda m, into, out: (None if into[0] is None else into[0] * 2, None, into[2]))
    x, y = rows(), rows([[5.0, 6.0], [7.0, 8.0]])
    (g,) = tg.grad(layer(x, 1.0, y * y)[1].sum(), x, create_graph=True)
    np.testing.assert_allclose(g.detach().numpy(), 2 * y.detach().numpy() ** 2)
    (h,) = tg.grad(g.sum(), y)
    np.testing.assert_allclose(h.numpy(), 4 * y.detach().numpy())


def test_a_wrong_number_of_gradients() -> None:
    layer = nn.Linear(2, 2)
    layer.register_full_backward_hook(lambda m, into, out: (None, None))
    with pytest.raises(RuntimeError, match="returned 2 gradients, there are 1"):
        layer(tg.ones(1, 2, requires_grad=True)).sum().backward()


def test_always_call() -> None:
    class Fails(nn.Module):
        def forward(self, x: Any) -> Any:
            raise ValueError("no")

    seen: list[Any] = []
    net = Fails()
    net.register_forward_hook(lambda m, args, result: seen.append("never"))
    net.register_forward_hook(lambda m, args, result: seen.append(result), always_call=True)
    with pytest.raises(ValueError, match="no"):
        net(1)
    assert seen == [None]


def test_a_submodule_is_put_in_place() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU()))
    net.set_submodule("1.0", nn.Tanh())
    net.set_submodule("0", nn.Identity())
    assert [type(m).__name__ for m in net.modules()] == ["Sequential", "Identity", "Sequential", "Tanh"]
    with pytest.raises(AttributeError, match="has no module"):
        net.set_submodule("1.7", nn.Tanh())


def test_a_state_is_assigned() -> None:
    layer, other = nn.Linear(2, 2), nn.Linear(2, 2).double()
    layer.load_state_dict(other.state_dict(), assign=True)
    assert layer.weight.dtype == tg.float64
    np.testing.assert_array_equal(layer.weight.detach().numpy(), other.weight.detach().numpy())
    filled: dict[str, Any] = {"mine": 1}
    assert layer.state_dict(destination=filled, prefix="a.") is filled
    assert list(filled) == ["mine", "a.weight", "a.bias"]
