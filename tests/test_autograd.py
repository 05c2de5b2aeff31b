"""Derivatives of functions, recomputed activations, hooks, and the search for NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import autograd, nn, watching
from tinygrad_edu.nn import functional as F

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((3, 4)), RNG.standard_normal((4, 2))


def mixed(x: tg.Tensor, y: tg.Tensor) -> Any:
    return F.softmax(x @ y, -1), (x * x).sum(), F.layer_norm(x, 4)


class TestProducts:
    def test_vjp_and_jvp_are_adjoint(self) -> None:
        """⟨u, J v⟩ = ⟨uᵀ J, v⟩, through fused ops and several inputs and outputs."""
        vs = [RNG.standard_normal(a.shape) for a in (A, B)]
        outs, along = autograd.jvp(mixed, (A, B), vs)
        us = [RNG.standard_normal(y.shape) for y in outs]
        _, back = autograd.vjp(mixed, (A, B), us)
        left = sum((u * j.array).sum() for u, j in zip(us, along, strict=True))
        right = sum((g.array * v).sum() for g, v in zip(back, vs, strict=True))
        assert np.isclose(left, right, rtol=1e-10)

    def test_jvp_is_the_difference_quotient(self) -> None:
        v = RNG.standard_normal(A.shape)
        _, along = autograd.jvp(lambda x: F.gelu(x).sum(1), A, v)
        ends = [F.gelu(tg.Tensor(A + s * 1e-6 * v)).sum(1).array for s in (1, -1)]
        np.testing.assert_allclose(along.array, (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-8)

    def test_hvp_is_the_hessian_times_v(self) -> None:
        x, v = RNG.standard_normal(4), RNG.standard_normal(4)

        def f(t: tg.Tensor) -> tg.Tensor:
            return (t.exp() * t.roll(1)).sum() + t.prod()

        H = autograd.hessian(f, tg.Tensor(x)).array
        np.testing.assert_allclose(H, H.T, rtol=1e-10)
        value, product = autograd.hvp(f, tg.Tensor(x), v)
        assert np.isclose(value.item(), f(tg.Tensor(x)).item())
        np.testing.assert_allclose(product.array, H @ v, rtol=1e-10)
        assert autograd.hessian_vector_product is autograd.hvp

    def test_constants_have_zero_derivatives(self) -> None:
        x = tg.Tensor(A)
        assert (autograd.vjp(lambda t: t.detach() * 2, x, A)[1].array == 0).all()
        assert (autograd.jvp(lambda t: t.detach() * 2, x, A)[1].array == 0).all()
        assert (autograd.hvp(lambda t: t.sum(), x, A)[1].array == 0).all()
        assert (autograd.jacobian(lambda t: tg.ones(2), x).array == 0).all()

    def test_jacobian_of_a_linear_map_is_its_matrix(self) -> None:
        np.testing.assert_array_equal(autograd.jacobian(lambda t: tg.Tensor(A) @ t, tg.Tensor(B[:, 0])).array, A)

    def test_nothing_given_is_changed(self) -> None:
        x = tg.Tensor(A, requires_grad=True)
        autograd.vjp(lambda t: (t * t).sum(), x)
        assert x.grad is None

    def test_bad_calls(self) -> None:
        with pytest.raises(TypeError, match="input 0 is int64"):
            autograd.vjp(lambda t: t, np.arange(3))
        with pytest.raises(ValueError, match="2 vectors for 1 tensors"):
            autograd.vjp(lambda t: t, A, [A, A])
        with pytest.raises(ValueError, match=r"a vector has shape \(2,\)"):
            autograd.jvp(lambda t: t, A, np.ones(2))
        with pytest.raises(TypeError, match="must return a Tensor"):
            autograd.vjp(lambda t: 3, A)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.dropout = nn.Linear(4, 8), nn.Linear(8, 4), nn.Dropout(0.5)

    def forward(self, x: tg.Tensor) -> tg.Tensor:
        return self.down(self.dropout(F.gelu(self.up(x))))


class TestCheckpoint:
    def gradients(self, recompute: bool) -> list[np.ndarray]:
        tg.manual_seed(0)
        net, x = Net(), tg.Tensor(A.astype(np.float32), requires_grad=True)
        h = x * 2
        outer = h.exp()
        y = (autograd.checkpoint(lambda t: net(t) + outer, h) if recompute else net(h) + outer) * F.dropout(h)
        y.sum().backward()
        grads = [x.grad, *(p.grad for p in net.parameters())]
        return [y.detach().array, *(g.array for g in grads if g is not None)]

    def test_equals_the_ordinary_pass_with_dropout_and_captured_tensors(self) -> None:
        plain, again = self.gradients(False), self.gradients(True)
        assert len(plain) == len(again) == 6
        for p, a in zip(plain, again, strict=True):
            np.testing.assert_allclose(p, a, rtol=1e-6)

    def test_keeps_only_inputs(self) -> None:
        net, x = Net(), tg.Tensor(A.astype(np.float32), requires_grad=True)
        record = autograd.checkpoint(net, x).grad_fn
        kept = [k for k in record.kept if hasattr(k, "shape")]
        assert {id(k) for k in kept} <= {id(x.array), *(id(p.array) for p in net.parameters())}

    def test_several_outputs_and_other_arguments(self) -> None:
        x = tg.Tensor(A, requires_grad=True)
        a, b, n = autograd.checkpoint(lambda t, k: (t * k, t.exp(), t.detach()), x, 3)
        assert not n.requires_grad or n.grad_fn is a.grad_fn
        (a.sum() + b.sum()).backward()
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.array, 3 + np.exp(A))

    def test_nested(self) -> None:
        x = tg.Tensor(A, requires_grad=True)
        inner = autograd.checkpoint(lambda t: autograd.checkpoint(lambda s: s * s, t).exp(), x)
        (g,) = tg.grad(inner.sum(), x)
        np.testing.assert_allclose(g.array, 2 * A * np.exp(A * A))

    def test_a_recorded_pass_is_refused(self) -> None:
        x = tg.Tensor(A, requires_grad=True)
        with pytest.raises(RuntimeError, match="call the function without checkpoint"):
            tg.grad(autograd.checkpoint(lambda t: t * t, x).sum(), x, create_graph=True)

    def test_a_changed_parameter_is_noticed(self) -> None:
        net, x = Net(), tg.Tensor(A.astype(np.float32), requires_grad=True)
        y = autograd.checkpoint(net, x).sum()
        with tg.no_grad():
            net.up.weight.mul_(2)
        with pytest.raises(RuntimeError, match="checkpoint: a value it saved"):
            y.backward()

    def test_without_gradients(self) -> None:
        assert not autograd.checkpoint(lambda t: t * 2, tg.ones(2)).requires_grad
        with tg.no_grad():
            assert not autograd.checkpoint(Net(), tg.ones(3, 4)).requires_grad


class TestTensorHooks:
    def test_on_leaves_and_inner_values(self) -> None:
        x = tg.Tensor([1.0, 2.0], requires_grad=True)
        h = x * 3
        seen: list[Any] = []
        h.register_hook(lambda g: seen.append(g.tolist()))
        first = h.register_hook(lambda g: g * 2)
        x.register_hook(lambda g: g + 1)
        (h * h).sum().backward(retain_graph=True)
        assert x.grad is not None
        assert seen == [[6.0, 12.0]]
        assert x.grad.tolist() == [37.0, 73.0]
        first.remove()
        first.remove()
        x.grad = None
        (h * h).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [19.0, 37.0]

    def test_in_grad_and_in_recorded_passes(self) -> None:
        x = tg.Tensor([2.0], requires_grad=True)
        x.register_hook(lambda g: g * 10)
        (g,) = tg.grad((x**3).sum(), x, create_graph=True)
        assert g.item() == 120.0
        h = x * 1
        h.register_hook(lambda g: g * 10)
        assert tg.grad((h * 3).sum(), h)[0].item() == 30.0
        assert tg.grad(g, x)[0].item() == 1200.0

    def test_bad_hooks(self) -> None:
        x = tg.ones(2, requires_grad=True)
        with pytest.raises(RuntimeError, match="needs no gradient"):
            tg.ones(1).register_hook(lambda g: g)
        x.register_hook(lambda g: g.sum())
        with pytest.raises(ValueError, match=r"returned a gradient of shape \(\), not \(2,\)"):
            (x * 2).sum().backward()
        assert x.grad is None

    def test_a_leaf_that_is_gone_leaves_no_hook(self) -> None:
        from tinygrad_edu.engine.hooks import hooks

        before = len(hooks)
        x = tg.ones(2, requires_grad=True)
        x.register_hook(lambda g: g)
        assert len(hooks) == before + 1
        del x
        assert len(hooks) == before


class TestWatch:
    def test_forward_and_backward_with_modules(self) -> None:
        net = Net().eval()
        events: list[watching.Event] = []
        with watching.watch(events.append):
            net(tg.ones(3, 4)).sum().backward()
        forward = [(e.op, e.module) for e in events if e.phase == "forward"]
        assert forward == [("linear", "Net.up"), ("gelu", "Net"), ("linear", "Net.down"), ("sum", "")]
        backward = [(e.op, e.module, e.outputs) for e in events if e.phase == "backward"]
        assert [b[0] for b in backward] == ["sum", "linear", "linear", "linear", "gelu", "linear", "linear"]
        assert backward[1] == ("linear", "Net.down", ((3, 8),))
        assert all(e.seconds >= 0 and e.bytes > 0 for e in events)
        assert net.up.weight.grad is not None

    def test_gradients_are_those_of_an_unwatched_pass(self) -> None:
        x = tg.Tensor(A, requires_grad=True)
        (plain,) = tg.grad(mixed(x, tg.Tensor(B))[0][:, 0].sum(), x)
        with watching.watch(lambda e: tg.ones(1) * 2):
            (watched,) = tg.grad(mixed(x, tg.Tensor(B))[0][:, 0].sum(), x)
        np.testing.assert_array_equal(plain.array, watched.array)


class TestAnomaly:
    def test_names_the_first_op_that_makes_a_nan(self) -> None:
        class Bad(nn.Module):
            def forward(self, x: tg.Tensor) -> tg.Tensor:
                return (x - 2.0).log() * 3

        class Whole(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.bad = Bad()

            def forward(self, x: tg.Tensor) -> tg.Tensor:
                return self.bad(x)

        with (
            np.errstate(invalid="ignore"),
            pytest.raises(
                watching.AnomalyError, match=r"log made the first NaN.*\(2,\).*test_autograd.*in module Whole\.bad"
            ),
            watching.detect_anomaly(),
        ):
            Whole()(tg.ones(2))

    def test_names_the_forward_line_of_a_bad_gradient(self) -> None:
        x = tg.zeros(2, requires_grad=True)
        with (
            np.errstate(all="ignore"),
            pytest.raises(
                watching.AnomalyError, match=r"sqrt: the gradient of its input x .* infinity .*test_autograd"
            ),
            watching.detect_anomaly(),
        ):
            x.sqrt().sum().backward()
        assert x.grad is None

    def test_masks_are_no_anomaly(self) -> None:
        q = tg.Tensor(A, requires_grad=True)
        with watching.detect_anomaly(), tg.definitions():
            y = F.scaled_dot_product_attention(q, q, q, is_causal=True)
            y.sum().backward()
        assert q.grad is not None
