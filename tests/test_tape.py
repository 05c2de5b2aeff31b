"""The tape and the reverse pass: order, accumulation, freeing, ownership, versions, modes, threads, memory."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu.engine import backward
from tinygrad_edu.engine.modes import Listener, active, setting
from tinygrad_edu.engine.tape import Op, registry
from tinygrad_edu.nn import functional as F
from tinygrad_edu.ops.shape import Split


def leaf(*values: float) -> tg.Tensor:
    return tg.Tensor(np.array(values), requires_grad=True)


def grad_of(x: tg.Tensor) -> np.ndarray:
    assert x.grad is not None
    return x.grad.array


class TestPass:
    def test_leaves_add_up_over_passes_and_inner_values_do_not(self) -> None:
        x = leaf(3.0)
        h = x * x
        y = h * h
        y.backward(retain_graph=True)
        assert grad_of(x) == [108.0]
        y.backward()
        assert grad_of(x) == [216.0]

    def test_a_freed_graph_raises_and_changes_nothing(self) -> None:
        x, z = leaf(3.0), leaf(2.0)
        y = x * x
        y.backward()
        before = grad_of(x).copy()
        with pytest.raises(RuntimeError, match=r"mul: this graph was freed.*retain_graph=True"):
            (y * z).backward()
        assert grad_of(x) == before
        assert z.grad is None

    def test_an_op_that_kept_nothing_is_not_freed(self) -> None:  # as in PyTorch
        x = leaf(3.0)
        y = (x + 1).sum()
        y.backward()
        y.backward()
        assert grad_of(x) == 2.0
        z = (x + 1) * x
        z.backward()
        with pytest.raises(RuntimeError, match="freed"):
            z.backward()

    @pytest.mark.parametrize("dtype", [tg.float16, tg.float32])
    @pytest.mark.parametrize(
        "loss",
        [F.binary_cross_entropy_with_logits, F.mse_loss, F.huber_loss, F.l1_loss, F.smooth_l1_loss],
    )
    def test_a_loss_is_walked_after_a_penalty_on_its_gradient(self, loss: Any, dtype: Any) -> None:
        x = tg.tensor([0.5, -1.0, 2.0, 0.25], dtype=dtype, requires_grad=True)
        y = tg.tensor([0.0, 1.0, 1.0, 0.0], dtype=dtype)
        (expected,) = tg.grad(loss(x, y), [x])
        value = loss(x, y)
        (g,) = tg.grad(value, [x], create_graph=True)
        if loss is not F.l1_loss:  # whose slope has none
            (g * g).sum().backward()
        x.grad = None
        value.backward()
        np.testing.assert_array_equal(grad_of(x), expected.array)

    def test_arrays_are_dropped_as_the_pass_goes_by(self) -> None:
        x = leaf(3.0)
        h = x * x
        y = h * h
        record = h.grad_fn
        assert record is not None
        assert record.kept is not None
        y.backward()
        assert record.kept is None

    def test_only_what_a_needed_branch_reads_is_kept(self) -> None:
        x, w = tg.ones(2, 3), tg.ones(3, 2, requires_grad=True)
        kept = (x @ w).grad_fn.kept  # type: ignore[union-attr]
        assert kept is not None
        assert len(kept) == 1
        assert kept[0] is x.array
        assert (w + 1).grad_fn.kept == []  # type: ignore[union-attr]
        frozen = F.relu(w * 2)
        assert len(frozen.grad_fn.kept) == 1  # type: ignore[union-attr, arg-type]

    def test_long_chains_need_no_recursion(self) -> None:
        x = leaf(1.0)
        y = x
        for _ in range(30_000):
            y = y + 1
        y.sum().backward()
        assert grad_of(x) == [1.0]
        del y

    def test_doubling_is_linear_in_the_number_of_ops(self) -> None:
        x = leaf(1.0)
        y = x
        for _ in range(60):
            y = y + y
        y.backward()
        assert grad_of(x) == [2.0**60]

    def test_retain_grad_follows_a_change_in_place(self) -> None:
        x = leaf(2.0)
        h, seen = x * 1, x * 1
        view = seen.view(1)
        h.retain_grad()
        view.retain_grad()
        h.mul_(3)
        seen.mul_(5)
        (h * 7 + view * 11).sum().backward()
        assert grad_of(h) == [7.0]
        assert grad_of(view) == [11.0]
        assert grad_of(x) == [76.0]
        with pytest.raises(RuntimeError, match="retain_grad: this tensor needs no gradient"):
            tg.ones(1).retain_grad()

    def test_retain_grad(self) -> None:
        x = leaf(2.0)
        h = x * x
        h.retain_grad()
        (h * 3).sum().backward()
        assert h.grad is not None
        assert h.grad.tolist() == [3.0]
        assert (x * x).grad is None

    def test_needs_a_start(self) -> None:
        x = leaf(1.0, 2.0)
        with pytest.raises(RuntimeError, match=r"one element starts its own gradient.*\(2,\)"):
            (x * x).backward()
        with pytest.raises(ValueError, match=r"gradient has shape \(3,\), the tensor \(2,\)"):
            (x * x).backward(tg.ones(3, dtype="float64"))
        with pytest.raises(TypeError, match="gradient has dtype float32, the tensor float64"):
            (x * x).backward(tg.ones(2))
        with pytest.raises(RuntimeError, match="needs no gradient"):
            tg.ones(1).backward()
        (x * x).backward([1.0, 10.0])
        assert grad_of(x).tolist() == [2.0, 40.0]

    def test_a_leaf_is_its_own_gradient(self) -> None:
        x = leaf(5.0)
        x.backward()
        assert grad_of(x) == [1.0]

    def test_leaf_ready_comes_once_with_everything(self) -> None:
        x, w = leaf(2.0), leaf(3.0)
        heard: list[tuple[int, float]] = []
        y = (x * w) + (x * x)
        backward.gradients([y], [x, w], leaf_ready=lambda v, g: heard.append((id(v), g.item())))
        assert sorted(heard) == sorted([(id(x), 7.0), (id(w), 2.0)])


class TestSeveralOutputs:
    def test_parts_that_are_not_used_count_as_zero(self) -> None:
        x = leaf(1.0, 2.0, 3.0, 4.0)
        a, b = x.split(2)
        assert a.grad_fn is b.grad_fn
        (b * b).sum().backward()
        assert grad_of(x).tolist() == [0.0, 0.0, 6.0, 8.0]

    def test_outputs_without_gradient(self) -> None:
        values, at = leaf(1.0, 9.0, 3.0).max(0)
        assert values.requires_grad
        assert not at.requires_grad
        assert at.item() == 1

    def test_all_parts_meet_in_one_rule(self) -> None:
        x = leaf(1.0, 2.0, 3.0)
        ran = []

        class Noting(Listener):
            def arrived(self, record: Any, at: int, gradient: Any) -> None:
                ran.append(record.name)

        a, b, c = x.split(1)
        y = (a * b * c).sum()
        with setting(trace=Noting()):
            y.backward()
        assert ran.count("split") == 1
        assert grad_of(x).tolist() == [6.0, 3.0, 2.0]

    def test_gradients_that_lie_side_by_side_are_not_copied(self) -> None:
        x = tg.ones(2, 6, requires_grad=True)
        base = np.arange(12, dtype=np.float32).reshape(2, 6)
        seen = []
        x.split([2, 1, 3], 1)
        rule = Split.__dict__["dx"]
        for pieces in (
            [base[:, :2], base[:, 2:3], base[:, 3:]],
            [base[:, :2], base[:, 3:4], base[:, 3:]],
            [base[:, :2], base[:, 2:3], base[:, 3:].copy()],
            [base[:, :2], base[:, 2:3][::-1], base[:, 3:]],
        ):
            whole = rule(pieces, (2, 1, 3), 1, (2, 6))
            np.testing.assert_array_equal(whole, np.concatenate(pieces, 1))
            seen.append(np.shares_memory(whole, base))
        assert seen == [True, False, False, False]


class TestFunctionalGrad:
    def test_touches_no_grad_and_takes_inner_values(self) -> None:
        x = leaf(3.0)
        h = x * x
        y = h * x
        dh, dx = tg.grad(y, [h, x])
        assert (dh.item(), dx.item()) == (3.0, 27.0)
        assert x.grad is None

    def test_unused_inputs(self) -> None:
        x, z = leaf(1.0), leaf(1.0)
        with pytest.raises(RuntimeError, match="no output depends on input 1; pass allow_unused=True"):
            tg.grad((x * x).sum(), [x, z])
        assert tg.grad((x * x).sum(), [x, z], allow_unused=True)[1] is None

    def test_several_outputs_with_weights(self) -> None:
        x = leaf(2.0)
        (g,) = tg.grad([x * x, x * 3], x, [tg.Tensor(np.array([10.0])), None])
        assert g.item() == 43.0

    def test_bad_calls(self) -> None:
        x = leaf(1.0)
        with pytest.raises(ValueError, match="2 outputs but 1 grad_outputs"):
            tg.grad([x * 1, x * 2], x, [None])
        with pytest.raises(RuntimeError, match="input 0 has requires_grad=False"):
            tg.grad(x * 2, tg.ones(1))

    def test_branches_beside_the_way_do_not_run(self) -> None:
        x, w = leaf(2.0), leaf(3.0)
        h = w * w
        y = x * h
        record = h.grad_fn
        tg.grad(y, x)
        assert record is not None
        assert record.kept is not None  # nothing upstream of x was walked, so nothing there was freed


class TestHigherOrders:
    def test_all_orders_of_a_power(self) -> None:
        x = leaf(2.0)
        y, expected = x**5, [80.0, 160.0, 240.0, 240.0, 120.0]
        for value in expected:
            (y,) = tg.grad(y, x, create_graph=True)
            assert y.item() == value

    def test_create_graph_into_grad(self) -> None:
        x = leaf(3.0)
        (x**3).backward(create_graph=True)
        assert x.grad is not None
        slope, x.grad = x.grad, None
        slope.backward()
        assert grad_of(x) == [18.0]

    def test_one_tensor_as_two_inputs_of_a_fused_op(self) -> None:
        x = tg.Tensor(np.random.default_rng(0).standard_normal((3, 4)), requires_grad=True)

        def first(create: bool) -> Any:
            return tg.grad(F.scaled_dot_product_attention(x, x, x).sum(), x, create_graph=create)[0]

        np.testing.assert_allclose(first(True).array, first(False).array, rtol=1e-10)

    def test_gradient_penalty_trains(self) -> None:
        w = tg.Tensor(np.eye(2), requires_grad=True)
        x = tg.Tensor(np.ones((1, 2)), requires_grad=True)
        (g,) = tg.grad(((x @ w) ** 2).sum(), x, create_graph=True)
        (g * g).sum().backward()
        # g = 2 x W Wᵀ, so Σ g² = 4 x W Wᵀ W Wᵀ xᵀ, whose gradient at W = I is 16 xᵀx
        np.testing.assert_allclose(grad_of(w), np.full((2, 2), 16.0))


class TestOwnership:
    def test_two_leaves_never_share_a_gradient(self) -> None:
        x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
        g = np.array([1.0, 1.0])
        (x + y).backward(tg.Tensor(g))
        assert not np.shares_memory(grad_of(x), grad_of(y))
        grad_of(x)[0] = 99
        assert grad_of(y)[0] == 1.0

    def test_the_callers_gradient_stays_the_callers(self) -> None:
        x, upstream = leaf(1.0, 2.0), tg.Tensor(np.ones(2))
        (x + x).backward(upstream, retain_graph=False)
        assert upstream.tolist() == [1.0, 1.0]
        assert grad_of(x).tolist() == [2.0, 2.0]
        assert not np.shares_memory(grad_of(x), upstream.array)

    def test_a_gradient_passed_on_is_not_added_to(self) -> None:
        x = leaf(1.0)
        a = x + 0  # hands its gradient on as it is
        a.retain_grad()
        b = a + 0
        b.retain_grad()
        (b + a * 5 + a * 7).sum().backward()
        assert b.grad is not None
        assert a.grad is not None
        assert (b.grad.item(), a.grad.item(), grad_of(x).item()) == (1.0, 13.0, 13.0)

    def test_expanded_gradients_are_copied_before_they_are_kept(self) -> None:
        x = leaf(1.0, 2.0)
        x.sum().backward()
        assert grad_of(x).flags.writeable
        grad_of(x)[0] = 5
        assert grad_of(x).tolist() == [5.0, 1.0]

    def test_fused_ops_leave_what_others_read(self) -> None:
        h = tg.Tensor(np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32), requires_grad=True)
        seen = h.array.copy()
        (F.gelu(h, "tanh") + h).sum().backward()
        np.testing.assert_array_equal(h.array, seen)

    def test_an_input_array_is_copied(self) -> None:
        buffer = np.array([3.0])
        t = tg.Tensor(buffer, requires_grad=True)
        y = t * t
        buffer[0] = 100
        y.backward()
        assert grad_of(t) == [6.0]


class TestVersions:
    def test_a_saved_value_changed_since_raises(self) -> None:
        x = leaf(3.0)
        y = x * x
        with tg.no_grad():
            x.fill_(100)
        with pytest.raises(
            RuntimeError, match=r"mul: a value it saved.*changed in place since \(version 0 then, 1 now\)"
        ):
            y.backward()
        assert x.grad is None

    def test_through_a_view(self) -> None:
        x = tg.ones(2, 3)
        w = tg.ones(2, 3, requires_grad=True)
        for view in (x.reshape(3, 2), x.T, x[0], x[:, 1:], x.detach(), x.data, x.unsqueeze(0), x.split(1)[1]):
            y = (x * w).sum()
            view.fill_(5)
            with pytest.raises(RuntimeError, match="changed in place"):
                y.backward()

    def test_a_copy_may_be_changed(self) -> None:
        x, w = tg.ones(2, 3), tg.ones(2, 3, requires_grad=True)
        for copy in (x.clone(), x[[0, 1]], x.T.reshape(6), x.to(tg.float64)):
            y = (x * w).sum()
            copy.fill_(5)
            y.backward()

    def test_an_output_changed_since_raises(self) -> None:
        x = leaf(0.5)
        y = x.exp()
        y.detach().fill_(0)
        with pytest.raises(RuntimeError, match="exp"):
            y.backward()

    def test_a_change_of_what_was_not_saved_is_fine(self) -> None:
        x = leaf(3.0)
        y = x + 1
        with tg.no_grad():
            x.fill_(100)
        y.backward()
        assert grad_of(x) == [1.0]

    def test_a_leaf_is_not_changed_on_the_tape(self) -> None:
        x = leaf(3.0)
        changes = (
            lambda: x.fill_(1), lambda: x.copy_(x), lambda: x.__setitem__(0, 1.0), x.normal_,
            lambda: x.__iadd__(1.0), lambda: x.__isub__(1.0), lambda: x.__imul__(2.0), lambda: x.__itruediv__(2.0),
        )  # fmt: skip
        for change in changes:
            with pytest.raises(RuntimeError, match="no_grad"):
                change()
        assert x.tolist() == [3.0]
        with pytest.raises(RuntimeError, match="read-only or copied"):
            tg.ones(1).expand(3).fill_(2)

    def test_a_change_is_on_the_tape(self) -> None:
        x, v = leaf(1.0, 2.0, 3.0), leaf(5.0)
        y = x * 2
        alias = y
        y += 1
        y[1:2] = v * 10
        y.mul_(y)
        assert y is alias
        assert y.tolist() == [9.0, 2500.0, 49.0]
        y.sum().backward()
        assert grad_of(x).tolist() == [12.0, 0.0, 28.0]
        assert grad_of(v).tolist() == [1000.0]

    def test_a_plain_tensor_takes_part_from_its_change_on(self) -> None:
        table, w = tg.zeros(3), tg.tensor([2.0], requires_grad=True)
        for i in range(3):
            table[i] = w[0] ** (i + 1)
        table.sum().backward()
        assert grad_of(w).tolist() == [1 + 2 * 2 + 3 * 4]

    def test_a_change_behind_a_saved_value_raises(self) -> None:
        x = leaf(0.5)
        y = x.exp()
        y += 1
        with pytest.raises(RuntimeError, match="exp: a value it saved"):
            y.backward()

    def test_a_change_is_one_of_all_who_show_the_memory(self) -> None:
        x, w = leaf(1.0, 2.0, 3.0), leaf(10.0)
        y = x * 1
        first, rest = y[0], y[1:]
        first += w[0]
        assert y.tolist() == [11.0, 2.0, 3.0]
        y *= 2
        assert first.item() == 22.0
        (first * 3 + rest.sum() * 5 + y.sum()).backward()
        assert grad_of(x).tolist() == [8.0, 12.0, 12.0]
        assert grad_of(w).tolist() == [8.0]

    def test_a_slice_is_changed_once(self) -> None:
        x, w = leaf(1.0, 2.0, 3.0), leaf(10.0)
        y = x * 1
        y[:2] *= w
        assert y.tolist() == [10.0, 20.0, 3.0]
        y.sum().backward()
        assert grad_of(x).tolist() == [10.0, 10.0, 1.0]
        assert grad_of(w).tolist() == [3.0]

    def test_a_view_of_a_leaf_is_not_changed_on_the_tape(self) -> None:
        x = leaf(1.0, 2.0)
        with pytest.raises(RuntimeError, match="shares the memory of a leaf"):
            x[0] += 1
        with pytest.raises(RuntimeError, match="shares the memory of a leaf"):
            x.reshape(2, 1).mul_(2)
        assert x.tolist() == [1.0, 2.0]
        with pytest.raises(ValueError, match="names an element twice"):
            (x * 1)[[0, 0]] = leaf(1.0, 2.0)

    def test_a_view_saved_before_a_change_raises(self) -> None:
        y = leaf(1.0, 2.0) * 1
        squared = y[:1] * y[:1]
        y[1] += 1
        with pytest.raises(RuntimeError, match="mul: a value it saved"):
            squared.sum().backward()

    def test_a_view_that_is_gone_is_in_nobodys_way(self) -> None:
        x = leaf(1.0, 2.0)
        z = x.clone()
        z[0] = z[0] * 2
        z[1] = z[0] + z[1]
        z.sum().backward()
        assert z.tolist() == [2.0, 4.0]
        assert grad_of(x).tolist() == [4.0, 1.0]
        flat = (x * 2).reshape(2, 1)
        flat += 1
        assert flat.tolist() == [[3.0], [5.0]]

    def test_views_of_a_parameter_do_not_pile_up(self) -> None:
        x = leaf(1.0, 2.0)
        for _ in range(1000):
            x.reshape(2, 1)
        assert len(x._version) == 2

    def test_a_change_of_a_diagonal_is_seen(self) -> None:
        x = tg.ones(2, 2, requires_grad=True)
        y = x * 1
        y.diagonal().mul_(3.0)
        assert y.tolist() == [[3.0, 1.0], [1.0, 3.0]]
        y.sum().backward()
        assert grad_of(x).tolist() == [[3.0, 1.0], [1.0, 3.0]]

    def test_detached_twins_see_a_change(self) -> None:
        y = leaf(1.0) * 1
        twin = y.detach()
        y += 1
        assert twin.tolist() == [2.0]

    def test_index_arrays_are_taken_by_value(self) -> None:
        x, at = leaf(1.0, 2.0, 3.0), np.array([0, 0])
        y = x[at].sum()
        at[:] = 2
        y.backward()
        assert grad_of(x).tolist() == [2.0, 0.0, 0.0]


class TestModes:
    def test_no_grad_as_block_decorator_and_after_an_error(self) -> None:
        @tg.no_grad()
        def down(n: int) -> int:
            assert not tg.is_grad_enabled()
            return 0 if n == 0 else down(n - 1)

        @tg.no_grad
        def bare() -> bool:
            return tg.is_grad_enabled()

        down(3)
        assert not bare()
        assert tg.is_grad_enabled()
        with pytest.raises(KeyError), tg.no_grad():
            raise KeyError
        assert tg.is_grad_enabled()
        with tg.no_grad():
            down(2)
            with tg.enable_grad():
                assert tg.is_grad_enabled()
            assert not tg.is_grad_enabled()

    def test_one_guard_entered_twice(self) -> None:
        guard = tg.no_grad()
        with guard:
            with guard:
                assert not tg.is_grad_enabled()
            assert not tg.is_grad_enabled()
        assert tg.is_grad_enabled()

    def test_generators_give_the_mode_back_at_every_yield(self) -> None:
        @tg.no_grad()
        def steps() -> Any:
            try:
                got = yield tg.is_grad_enabled()
                yield got, tg.is_grad_enabled()
            except KeyError:
                yield "caught", tg.is_grad_enabled()
            return "end"

        g = steps()
        assert next(g) is False
        assert tg.is_grad_enabled()
        assert g.send("value") == ("value", False)
        assert tg.is_grad_enabled()
        assert g.throw(KeyError()) == ("caught", False)
        with pytest.raises(StopIteration, match="end"):
            next(g)
        assert tg.is_grad_enabled()

    def test_async_functions_are_refused(self) -> None:
        async def later() -> None: ...

        with pytest.raises(TypeError, match="async"):
            tg.no_grad()(later)

    def test_threads_have_modes_of_their_own(self) -> None:
        seen = []
        with tg.no_grad():
            other = threading.Thread(target=lambda: seen.append(tg.is_grad_enabled()))
            other.start()
            other.join()
        assert seen == [True]

    def test_definitions_can_be_named(self) -> None:
        x = leaf(1.0, 2.0)
        with setting(definitions=frozenset({"softmax"})):
            assert F.softmax(x, 0).grad_fn.name == "div"  # type: ignore[union-attr]
            assert F.gelu(x).grad_fn.name == "gelu"  # type: ignore[union-attr]
        assert active().definitions is False


class TestThreads:
    def test_passes_over_one_graph_at_once(self) -> None:
        x = leaf(*np.linspace(0, 1, 50))
        y = x
        for _ in range(50):
            y = (y * x).tanh()
        total = y.sum()
        (expected,) = tg.grad(total, x, retain_graph=True)
        found: list[np.ndarray] = []

        def run() -> None:
            for _ in range(5):
                found.append(tg.grad(total, x, retain_graph=True)[0].array)

        threads = [threading.Thread(target=run) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len(found) == 20
        for g in found:
            np.testing.assert_array_equal(g, expected.array)

    def test_a_rule_that_raises_leaves_no_gradient(self) -> None:
        class Broken(Op):
            """{out} = {x}"""

            def forward(x):
                return x * 1  # type: ignore[operator]

            def dx(g):
                """d{x} = never"""
                raise ArithmeticError("no derivative today")

        broken: Any = Broken
        x, z = leaf(1.0), leaf(2.0)
        with pytest.raises(ArithmeticError):
            (broken(x) + z * z).backward()
        assert x.grad is None
        assert z.grad is None
        registry.pop("broken")


class TestOwnOps:
    def test_a_rule_of_ones_own_differentiates_to_any_order(self) -> None:
        class Cube(Op):
            """{out} = {x}³"""

            def forward(x, *, scale=1.0):
                return x * x * x * scale  # type: ignore[operator]

            def dx(g, x, scale):
                """d{x} = 3 {scale} {x}² ⊙ d{out}"""
                return g * x * x * (3.0 * scale)

        cube: Any = Cube
        x = leaf(2.0)
        y = cube(x, scale=2.0)
        for expected in (24.0, 24.0, 12.0):  # of 2x³ at 2: 6x², 12x, 12
            (y,) = tg.grad(y, x, create_graph=True)
            assert y.item() == expected
        assert cube(np.array([2.0])).tolist() == [8.0]
        registry.pop("cube")

    def test_what_was_saved_has_derivatives_by_the_ops_that_give_it(self) -> None:
        class Power(Op):
            """{out} = {x}ⁿ"""

            saves = ("slope",)

            def forward(x, *, n):
                return x**n, n * x ** (n - 1)

            def slope(x, n):
                return x ** (n - 1) * float(n)

            def dx(g, slope):
                """d{x} = n {x}ⁿ⁻¹ ⊙ d{out}"""
                return g * slope

        power: Any = Power
        x = leaf(2.0)
        y = power(x, n=3)
        assert tg.grad(y, x, retain_graph=True)[0].item() == 12.0
        for expected in (12.0, 12.0, 6.0):  # of x³ at 2: 3x², 6x, 6
            (y,) = tg.grad(y, x, create_graph=True)
            assert y.item() == expected
        registry.pop("power")
        with pytest.raises(TypeError, match=r"op bad: slope reads \['z'\], no input or static argument"):

            class Bad(Op):
                """{out} = {x}"""

                saves = ("slope",)

                def forward(x):
                    return x, x

                def slope(z):
                    return z

    def test_a_gradient_of_the_wrong_shape_names_the_op(self) -> None:
        class Crooked(Op):
            """{out} = {x}"""

            def forward(x):
                return x

            def dx(g):
                """d{x} = half of it"""
                return g[:1]  # type: ignore[index]  # g is no self

        crooked: Any = Crooked
        x = leaf(1.0, 2.0)
        with pytest.raises(
            ValueError, match=r"crooked: a rule gave a gradient of shape \(1,\) for an input of .*\(2,\)"
        ):
            crooked(x).backward([1.0, 1.0])
        registry.pop("crooked")

    def test_names_of_the_engine_are_taken(self) -> None:
        with pytest.raises(ValueError, match=r"op cast: the name belongs to tinygrad_edu\.ops\.choice"):

            class Cast(Op):
                """{out} = {x}"""

                def forward(x):
                    return x


class TestMemory:
    def test_no_cycle_keeps_a_graph_alive(self) -> None:
        gc.collect()
        gc.disable()
        try:
            x = tg.ones(4, 4, requires_grad=True)
            h = F.gelu(F.linear(x, x))
            ref, record = weakref.ref(h), h.grad_fn
            loss = F.cross_entropy(h * h, [0, 1, 2, 3])
            loss.backward()
            del h, loss
            assert ref() is None
            assert record is not None
            array = weakref.ref(x.grad)
            x.grad = None
            assert array() is None
        finally:
            gc.enable()

    def test_a_graph_never_walked_goes_too(self) -> None:
        gc.collect()
        gc.disable()
        try:
            x = tg.ones(4, 4, requires_grad=True)
            parts = [F.softmax(x, -1), *x.split(2), tg.cat([x, x]), F.layer_norm(x, 4), x[0], F.dropout(x)]
            refs = [weakref.ref(p) for p in parts]
            parts.clear()
            assert [r() for r in refs] == [None] * len(refs)
        finally:
            gc.enable()

    def test_numbers_carry_no_history(self) -> None:
        x = leaf(2.0)
        assert type((x * x).sum().item()) is float
        assert type(float((x * x).sum())) is float

    def test_split_shares_memory(self) -> None:
        x = tg.ones(4)
        assert all(np.shares_memory(p.array, x.array) for p in Split(x, sizes=(1, 3), axis=0))


@pytest.mark.parametrize(
    "call",
    [
        lambda w: w.unique(),
        lambda w: w.unique(return_inverse=True, return_counts=True)[0],
        lambda w: w.reshape(3, 1).unique(dim=0),
        lambda w: tg.tensor([0, 2, 2]).bincount(w),
        lambda w: tg.tensor([0, 2, 2]).bincount(w, 5) * 2,
    ],
)
def test_what_has_no_derivative_says_so_in_the_backward_pass(call: Any) -> None:
    w = leaf(1.0, 2.0, 2.0)
    y = call(w)
    assert y.requires_grad
    with pytest.raises(NotImplementedError, match="derivative"):
        y.sum().backward()
    assert w.grad is None
    assert not call(w.detach()).requires_grad
    with pytest.raises(TypeError, match="needs a gradient"):
        tg.full((2,), w[0])  # type: ignore[arg-type]
