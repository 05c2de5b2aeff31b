"""autograd.Function: forward, backward, what is saved, second derivatives, errors."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tests.properties import Noting
from tinygrad_edu import check
from tinygrad_edu.autograd import Function
from tinygrad_edu.autograd.function import once_differentiable
from tinygrad_edu.engine.modes import setting


class Sine(Function):
    @staticmethod
    def forward(ctx: Any, x: tg.Tensor, scale: float) -> tg.Tensor:
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x.sin() * scale

    @staticmethod
    def backward(ctx: Any, grad: tg.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return grad * x.cos() * ctx.scale, None


class Exp(Function):
    """In the newer style, with its own output saved."""

    @staticmethod
    def forward(x: tg.Tensor) -> tg.Tensor:
        return x.exp()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tg.Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, grad: tg.Tensor) -> Any:
        return grad * ctx.saved_tensors[0]


class Product(Function):
    @staticmethod
    def forward(ctx: Any, x: tg.Tensor, y: tg.Tensor) -> Any:
        ctx.save_for_backward(x, y)
        where = x.argmax()
        ctx.mark_non_differentiable(where)
        return x * y, x + y, where

    @staticmethod
    def backward(ctx: Any, product: tg.Tensor, total: tg.Tensor, _: Any) -> Any:
        x, y = ctx.saved_tensors
        ctx.needed = ctx.needs_input_grad
        return product * y + total, product * x + total


class Opaque(Function):
    @staticmethod
    def forward(ctx: Any, x: tg.Tensor) -> tg.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: tg.Tensor) -> Any:
        return tg.tensor(grad.detach().numpy() * 3 * ctx.saved_tensors[0].detach().numpy() ** 2)


class Step(Function):
    """The straight-through estimator."""

    @staticmethod
    def forward(ctx: Any, x: tg.Tensor) -> tg.Tensor:
        return (x > 0).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: tg.Tensor) -> Any:
        return grad


X = np.array([0.3, -1.2, 2.0])


def slope(x: tg.Tensor) -> np.ndarray:
    assert x.grad is not None
    return x.grad.array


def leaf(values: Any = X) -> tg.Tensor:
    return tg.tensor(values, requires_grad=True)


def test_both_styles_to_the_second_order() -> None:
    for function in (lambda x: Sine.apply(x, 2.0), Exp.apply, lambda x: Product.apply(x, x * x)[0]):
        check.gradcheck(function, leaf())
        check.gradgradcheck(function, leaf())


def test_values_and_gradients() -> None:
    x, y = leaf(), leaf(X + 1)
    product, total, where = Product.apply(x, y)
    assert not where.requires_grad
    assert where.item() == 2
    (product.sum() * 2).backward(retain_graph=True)
    np.testing.assert_allclose(slope(x), 2 * (X + 1))
    total.sum().backward()
    np.testing.assert_allclose(slope(x), 2 * (X + 1) + 1)


def test_the_straight_way_through() -> None:
    x = leaf()
    y = Step.apply(x)
    y.backward(tg.tensor(X))
    assert y.tolist() == [1.0, 0.0, 1.0]
    np.testing.assert_array_equal(slope(x), X)


def test_a_backward_without_derivative_is_an_error_not_a_number() -> None:
    x = leaf()
    Opaque.apply(x).sum().backward()
    np.testing.assert_allclose(slope(x), 3 * X**2)
    (g,) = tg.grad(Opaque.apply(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        tg.grad((g + x * x).sum(), x)


def test_nothing_is_recorded_where_nothing_is_needed() -> None:
    with tg.no_grad():
        assert not Sine.apply(leaf(), 1.0).requires_grad
    assert not Sine.apply(tg.tensor(X), 1.0).requires_grad
    assert Sine.apply(leaf(), 1.0).grad_fn.name == "sine_function"


def test_a_change_in_place_is_noticed() -> None:
    x = leaf()
    h = x * 1
    y = Sine.apply(h, 1.0)
    h.add_(1.0)
    with pytest.raises(RuntimeError, match="changed in place since it was saved"):
        y.sum().backward()
    e = Exp.apply(leaf())
    e *= 2
    with pytest.raises(RuntimeError, match="changed in place"):
        e.sum().backward()
    s = Sine.apply(x, 1.0)
    s *= 2  # not saved, so this may be
    s.sum().backward()
    np.testing.assert_allclose(slope(x), 2 * np.cos(X))


def test_what_forward_returns_and_backward_gives_is_checked() -> None:
    class Few(Function):
        @staticmethod
        def forward(ctx: Any, x: tg.Tensor, y: tg.Tensor) -> tg.Tensor:
            return x + y

        @staticmethod
        def backward(ctx: Any, grad: tg.Tensor) -> Any:
            return grad

    class Bare(Function):
        @staticmethod
        def forward(ctx: Any, x: tg.Tensor) -> Any:
            return 3

    class Wide(Function):
        @staticmethod
        def forward(ctx: Any, x: tg.Tensor) -> tg.Tensor:
            return x.sum()

        @staticmethod
        def backward(ctx: Any, grad: tg.Tensor) -> Any:
            return tg.ones(7)

    with pytest.raises(RuntimeError, match="1 gradients for 2 arguments"):
        Few.apply(leaf(), leaf()).sum().backward()
    with pytest.raises(TypeError, match=r"Bare\.forward: must return a Tensor"):
        Bare.apply(leaf())
    with pytest.raises(ValueError, match="shape"):
        Wide.apply(leaf()).backward()
    with pytest.raises(RuntimeError, match=r"call Wide\.apply"):
        Wide()


def test_memory_goes_with_the_result() -> None:
    gc.disable()
    try:
        y = Exp.apply(leaf())
        gone = weakref.ref(y.grad_fn)
        y.sum().backward()
        del y
        assert gone() is None
    finally:
        gc.enable()


def test_it_is_one_op_for_who_listens() -> None:
    seen = Noting()
    with setting(trace=seen):
        Sine.apply(leaf(), 2.0).sum()
    assert seen.seen == {"sine_function", "sum"}


def test_an_input_returned_is_another_tensor() -> None:
    class Same(Function):
        @staticmethod
        def forward(ctx: Any, x: tg.Tensor) -> tg.Tensor:
            return x

        @staticmethod
        def backward(ctx: Any, grad: tg.Tensor) -> Any:
            return -grad  # what reverses a gradient

    x = leaf()
    Same.apply(x).sum().backward()
    assert slope(x).tolist() == [-1.0] * 3
