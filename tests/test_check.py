"""gradcheck and gradgradcheck: right rules pass, planted faults get the right verdict and the right op is named."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tests.properties as p
import tinygrad_edu as tg
from tests.test_ops import FUSED, PLAIN
from tinygrad_edu.check import GradcheckError, Verdict, gradcheck, gradgradcheck
from tinygrad_edu.engine.tape import Op, registry
from tinygrad_edu.nn import functional as F


@pytest.fixture(autouse=True)
def _ops_of_one_test() -> Iterator[None]:
    before = dict(registry)
    yield
    registry.clear()
    registry.update(before)


def op(name: str, forward: Callable[..., Any], **rules: Any) -> Any:
    """An op named `name`, as its user would write it."""
    return type(name, (Op,), {"forward": forward, **rules})


def numbers(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> tg.Tensor:
    return tg.Tensor(np.random.default_rng(seed).uniform(low, high, shape), requires_grad=True)


def given(*values: float) -> tg.Tensor:
    return tg.Tensor(np.array(values), requires_grad=True)


def failure(fn: Callable[..., Any], inputs: Any, check: Callable[..., bool] = gradcheck, **options: Any) -> Any:
    """The error of a check, which must fail, after making sure that it also returns False and leaves no .grad."""
    assert check(fn, inputs, raise_exception=False, **options) is False
    with pytest.raises(GradcheckError) as caught:
        check(fn, inputs, **options)
    for x in [inputs] if isinstance(inputs, tg.Tensor) else inputs:
        assert not isinstance(x, tg.Tensor) or x.grad is None
    return caught.value


# What is right passes


@pytest.mark.parametrize("case", PLAIN + FUSED, ids=lambda c: c.name)
def test_every_op_passes_to_the_second_order(case: p.Case) -> None:
    assert gradcheck(case.function, p.tensors(case.arrays()))
    assert gradgradcheck(case.function, p.tensors(case.arrays()))


@pytest.mark.parametrize(
    ("fn", "inputs"),
    [
        (lambda x: F.softmax(x, -1).sum(), (3, 4)),
        (lambda x: 1e6 * F.softmax(x, -1).sum(), (3, 4)),
        (lambda x: F.layer_norm(x, 4).sum(), (3, 4)),
        (lambda x: (x - x).exp(), (3, 4)),
        (lambda x: x * 1e-12, (3,)),
        (lambda x: x * 1e12, (3,)),
        (lambda x: (x * 50).exp(), (3,)),
        (lambda x: (x * 1000).tanh(), (3,)),
        (lambda x: x * x + 1e8, (3,)),
        (lambda x: (x * x + 1e10) - 1e10, (3,)),
        (lambda x: x * x, ()),
        (lambda x: x[0] * x[0] + x[1].floor(), (2, 3)),
        (lambda x: x * x, (0, 3)),
        (lambda x: (x * x).sum(), (0, 3)),
        (lambda x: x.relu(), (300, 400)),
        (lambda x: tg.grad((x**3).sum(), x, create_graph=True)[0].tanh(), (3,)),
    ],
)
def test_hard_to_difference_and_right(fn: Callable[..., Any], inputs: tuple[int, ...]) -> None:
    """Slopes that are 0 but for rounding, of any size, steep, beside large constants, of few or no elements."""
    assert gradcheck(fn, numbers(*inputs))


def test_inputs_of_any_size() -> None:
    assert gradcheck(lambda x: x.log(), given(1e-8, 1e-3, 1.0, 1e9))
    assert gradcheck(lambda x: x * x, given(1e8, 1e-3))
    assert gradcheck(lambda x: x**-1.5, numbers(5, low=0.001))


def test_float64_tells_one_percent_and_float32_is_refused() -> None:
    c = np.array([0.3, -0.7])
    right = op("Dot", lambda w: (w * c).sum(keepdims=True), dw=lambda g: g * c)
    large = op("Large", lambda w: (w * c).sum(keepdims=True), dw=lambda g: g * (1.01 * c))
    w = given(0.5, 0.25)
    assert gradcheck(right, w)
    error = failure(large, w)
    assert (error.verdict, error.op) == (Verdict.WRONG, "large")
    assert error.by_rule == pytest.approx(1.01 * error.by_differences, rel=1e-9)
    assert abs(error.by_differences - c[error.index]) < 1e-8
    with pytest.raises(TypeError, match=r"input 0 is float32, in which differences cannot tell rounding from"):
        gradcheck(right, tg.tensor([0.5, 0.25], requires_grad=True))
    with pytest.raises(TypeError, match=r"output 0 is float32"):
        gradcheck(lambda x: x.float(), w)


def test_outputs_of_many_kinds() -> None:
    x = numbers(3, 4)
    assert gradcheck(lambda x: (x.max(0), {"two": [x * 2, 3, None, "text"]}, x > 0, x.detach()), x)
    assert gradgradcheck(lambda x: (x.max(0), {"two": [x**3, 3]}), x)
    assert gradcheck(lambda x: x, x)


def test_other_arguments_go_through() -> None:
    assert gradcheck(lambda x, n, a, y: x**n * a + y, (numbers(3), 2, np.ones(3), numbers(3).detach()))


def test_inputs_are_left_alone() -> None:
    x = numbers(3)
    before = x.array.copy()
    x.array.flags.writeable = False
    assert gradcheck(lambda x: x.exp(), x)
    assert x.grad is None
    assert x.is_leaf
    np.testing.assert_array_equal(x.array, before)


def test_runs_in_no_grad_and_takes_values_of_ops() -> None:
    with tg.no_grad():
        assert gradcheck(lambda x: x.exp(), numbers(3))
    assert gradcheck(lambda x: x.exp(), numbers(3) * 2)


# What is wrong is found, and the op is named

X, Y = numbers(3, 4), numbers(1, 4, seed=1)
SQUARE = numbers(3, 3)
WRONG: dict[str, tuple[Callable[[], Any], Any, str]] = {
    "one percent": (lambda: op("Wrong", lambda x: x * x, dx=lambda g, x: g * x * 2.02), X, "x"),
    "a factor": (lambda: op("Wrong", lambda x: x * x, dx=lambda g, x: g * x), X, "x"),
    "the sign": (lambda: op("Wrong", lambda x: x * x, dx=lambda g, x: g * x * -2.0), X, "x"),
    "a square left out": (lambda: op("Wrong", lambda x: np.tanh(1.0 * x), dx=lambda g, out: g * (1.0 - out)), X, "x"),
    "transposed": (
        lambda: op("Wrong", lambda x, y: x @ y, dx=lambda g, y: g @ y, dy=lambda g, x: x.swapaxes(0, 1) @ g),
        (SQUARE, numbers(3, 3, seed=1)),
        "x",
    ),
    "no sum over what was copied": (
        lambda: op("Wrong", lambda x, y: x + y, dx=lambda g: g, dy=lambda g: g[:1]),
        (X, Y),
        "y",
    ),
    "the other input's": (
        lambda: op("Wrong", lambda x, y: x * y, dx=lambda g, y: g * y, dy=lambda g, y: g * y),
        (X, numbers(3, 4, seed=1)),
        "y",
    ),
    "one of many inputs": (
        lambda: op("Wrong", lambda *xs: sum(xs), dxs=lambda g, position: g * (2.0 if position == 1 else 1.0)),
        (X, numbers(3, 4, seed=1)),
        "xs[1]",
    ),
    "two elements exchanged": (
        lambda: op("Wrong", lambda x: x * np.arange(4.0), dx=lambda g: g * np.array([0.0, 2, 1, 3])),
        X,
        "x",
    ),
    "all at once": (
        lambda: op(
            "Wrong",
            lambda x, y: x * y,
            gradients=lambda g, need, x, y: (g * y, g * x * 1.01),
            formulas={"x": "", "y": ""},
        ),
        (X, Y),
        "y",
    ),
    "not finite": (lambda: op("Wrong", lambda x: x * 1.0, dx=lambda g, x: g * np.sqrt(x)), X, "x"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_rule(kind: str) -> None:
    made, inputs, name = WRONG[kind]
    wrong = made()
    error = failure(lambda *xs: (wrong(*[x.tanh() + 1.5 * x for x in xs]) * 2.0).mean(0), inputs)
    assert (error.verdict, error.op, error.input) == (Verdict.WRONG, "wrong", name)
    assert error.function.verdict == Verdict.WRONG
    assert error.function.op is None
    assert f"wrong gradient of input {name} of op wrong" in str(error)
    assert not np.isclose(error.by_rule, error.by_differences, rtol=1e-3)


def test_the_numbers_are_those_of_the_element() -> None:
    cube = op("Cube", lambda x: x * x * x, dx=lambda g, x: g * (x * x * np.array([3.0, 3.03, 3.0])))
    error = failure(lambda x: (cube(x) * 5.0).sum(), given(1.0, -2.0, 0.5))
    assert (error.op, error.input, error.index, error.output, error.output_index) == ("cube", "x", (1,), 0, (1,))
    assert error.by_rule == pytest.approx(12.12)
    assert error.by_differences == pytest.approx(12.0)
    f = error.function
    assert (f.input, f.index, f.output_index) == (0, (1,), ())
    assert (f.by_rule, f.by_differences) == (pytest.approx(60.6), pytest.approx(60.0))
    assert str(error) == (
        "gradcheck: wrong gradient of input x of op cube\n"
        "  op cube: d out[1] / d x[1]: by rule 12.12, by differences 12 (ratio 1.01)\n"
        "  fn: d output 0 / d input 0[1]: by rule 60.6, by differences 60 (ratio 1.01)"
    )
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert (again.index, again.function) == (error.index, error.function)


def test_one_element_of_a_million() -> None:
    def dx(g: Any) -> Any:
        factors = np.full((1000, 1000), 2.0)
        factors[123, 456] = 2.02
        return g * factors

    one = op("One", lambda x: x * 2.0, dx=dx)
    with pytest.raises(GradcheckError) as caught:
        gradcheck(lambda x: one(x).sum(), numbers(1000, 1000))
    assert (caught.value.op, caught.value.index) == ("one", (123, 456))
    assert caught.value.by_rule == pytest.approx(2.02)
    assert gradcheck(lambda x: (x * 2.0).tanh(), numbers(1000, 1000))


def test_the_first_wrong_op_of_several() -> None:
    late = op("Late", lambda x: x * x, dx=lambda g, x: g * x)
    early = op("Early", lambda x: x * x, dx=lambda g, x: g * x)
    assert failure(lambda x: late(early(x).exp()), X).op == "early"


def test_a_rule_that_raises() -> None:
    def dx(g: Any) -> Any:
        raise KeyError("nothing here")

    error = failure(lambda x: op("Raising", lambda x: x * 1.0, dx=dx)(x.exp()), X)
    assert (error.verdict, error.op) == (Verdict.RAISED, "raising")
    assert "KeyError: 'nothing here'" in str(error)
    assert isinstance(error.__cause__, KeyError)


def test_a_gradient_of_another_shape() -> None:
    short = op("Short", lambda x: x * 1.0, dx=lambda g: g[:1, :3])
    error = failure(lambda x: short(x.exp()).tanh(), X)
    assert (error.verdict, error.op) == (Verdict.RAISED, "short")


def test_an_error_of_the_function_is_its_own() -> None:
    with pytest.raises(ValueError, match="do not broadcast"):
        gradcheck(lambda x: x + tg.ones(7), X)


# Gradients that should be there and are not, or the other way round


def test_missing_gradients() -> None:
    error = failure(lambda x, y: x * 2 + y.detach(), (X, Y))
    assert (error.verdict, error.op, error.input) == (Verdict.MISSING, None, 1)
    assert (error.by_rule, error.by_differences) == (0.0, pytest.approx(1.0))
    assert "fn calls detach()" in str(error)
    error = failure(lambda x: tg.Tensor(np.exp(x.array)), X)
    assert (error.verdict, error.input) == (Verdict.MISSING, 0)
    assert "NumPy inside fn" in str(error)
    assert failure(lambda x: x.detach() * 2, X, gradgradcheck).verdict == Verdict.MISSING


def test_half_a_gradient_is_wrong_though_every_op_is_right() -> None:
    error = failure(lambda x: x * x.detach(), X)
    assert (error.verdict, error.op) == (Verdict.WRONG, None)
    assert error.by_differences == pytest.approx(2 * error.by_rule)
    assert "by itself each of the 1 recorded ops is right" in str(error)


def test_no_gradient_is_right_where_nothing_depends() -> None:
    assert gradcheck(lambda x, y: x * 2, (X, Y))
    assert gradcheck(lambda x: (x > 0).to(tg.float64) + x * 0, X)


def test_a_gradient_of_nothing() -> None:
    idle = op("Idle", lambda x, y: x * 1.0, dx=lambda g: g, dy=lambda g, y: g * y)
    error = failure(lambda x, y: idle(x, y).exp(), (X, Y))
    assert (error.verdict, error.op, error.input, error.by_differences) == (Verdict.UNNEEDED, "idle", "y", 0.0)


# The second order


def test_wrong_in_the_second_order_only() -> None:
    def dx(g: Any, x: Any) -> Any:
        values = getattr(x, "array", x)
        return g * (3.0 * values * values)  # an array is no part of the tape

    cube = op("Cube", lambda x: x * x * x, dx=dx)
    assert gradcheck(lambda x: cube(x).tanh(), X)
    error = failure(lambda x: cube(x).tanh(), X, gradgradcheck)
    assert (error.verdict, error.op, error.input) == (Verdict.MISSING, "cube", "x")
    assert "the rule is right, its own derivative is not" in str(error)
    assert "d (d x)" in str(error)


def test_wrong_in_an_op_of_a_rule() -> None:
    half = op("Half", lambda x: x / 2, dx=lambda g: g)
    twice = op("Twice", lambda x: x * x, dx=lambda g, x: g * half(x * 4.0))
    assert gradcheck(twice, X)
    assert failure(twice, X, gradgradcheck).op == "half"


def test_a_definition_that_is_not_the_kernel() -> None:
    fused = op(
        "Fused",
        lambda x: x * x,
        definition=lambda x: x * x * 1.5,
        gradients=lambda g, need, x: (g * x * 2.0,),
        formulas={"x": ""},
    )
    assert gradcheck(fused, X)
    error = failure(lambda x: fused(x).tanh(), X, gradgradcheck)
    assert (error.verdict, error.op) == (Verdict.WRONG, "fused")
    assert "another first derivative than the plain one" in str(error)
    assert error.by_rule == pytest.approx(1.5 * error.by_differences)


def test_grad_outputs_of_the_callers_own() -> None:
    y, w = numbers(3), numbers(3, seed=5)
    assert gradgradcheck(lambda x: x.exp(), y, w)
    assert gradgradcheck(lambda x: (x.exp(), x.max(0)), y, [w, np.array(2.0)])
    with pytest.raises(ValueError, match=r"grad_outputs have the shapes \[\(2,\)\], the outputs \[\(3,\)\]"):
        gradgradcheck(lambda x: x.exp(), y, numbers(2))


# Points without derivative, noise and chance


KINKS: dict[str, tuple[Callable[[tg.Tensor], Any], tg.Tensor, str | None]] = {
    "relu at 0": (lambda x: x.relu(), given(1.0, 0.0, -1.0), "relu"),
    "relu at 0, summed": (lambda x: (x * 3.0).relu().sum() * 2, given(1.0, 0.0, -1.0), "relu"),
    "many at 0": (lambda x: (x * tg.Tensor(np.array([1.0, -2, 3, -0.5]))).relu().sum(), given(0.0), "relu"),
    "max at a tie": (lambda x: x.max(0)[0], given(1.0, 7.0, 7.0), "max"),
    "sqrt at 0": (lambda x: x.sqrt().sum(), given(1.0, 0.0), "sqrt"),
    "root of a square at 0": (lambda x: (x * x).sqrt(), given(1.0, 0.0), "sqrt"),
    "a jump": (lambda x: x + (x >= 0).to(tg.float64).detach(), given(1.0, 0.0), None),
}


@pytest.mark.parametrize("kind", KINKS)
def test_a_point_without_derivative(kind: str) -> None:
    fn, x, name = KINKS[kind]
    error = failure(fn, x)
    assert (error.verdict, error.op) == (Verdict.KINK, name)
    assert "a point without derivative" in str(error)
    assert gradcheck(fn, x + np.linspace(0.25, 0.5, x.numel()))


def test_rules_that_take_the_middle_of_a_kink_pass() -> None:
    assert gradcheck(lambda x: x.abs(), given(0.0, 1.0))
    assert gradcheck(lambda x: x.amax(0), given(1.0, 7.0, 7.0))


def test_a_kink_hides_no_wrong_rule() -> None:
    wrong = op("Wrong", lambda x: x * x, dx=lambda g, x: g * x * 2.02)
    x = given(1.0, 0.0, -1.0, 2.0)
    assert (error := failure(lambda x: wrong(x.relu()), x)).op == "wrong"
    assert error.verdict == Verdict.WRONG
    error = failure(lambda x: x * x.detach() + x.relu(), x)
    assert (error.verdict, error.op) == (Verdict.WRONG, None)


def test_a_rule_that_is_neither_slope_of_a_kink_is_wrong() -> None:
    wrong = op("Wrong", lambda x: np.maximum(x, 0), dx=lambda g, out: g * ((out >= 0) * 3.0))
    assert failure(wrong, given(0.0)).verdict == Verdict.WRONG


@pytest.mark.parametrize("offset", [1e12, 1e14, 1e16])
def test_noise(offset: float) -> None:
    error = failure(lambda x: (x * x + offset) - offset, X)
    assert (error.verdict, error.op) == (Verdict.NOISE, None)
    assert "rounding hides the differences" in str(error)
    assert f"gives values up to {offset:.3g}" in str(error)
    assert failure(lambda x: x * x + offset, X).verdict == Verdict.NOISE


def test_noise_hides_no_wrong_rule() -> None:
    wrong = op("Wrong", lambda x: x * x, dx=lambda g, x: g * x * 2.02)
    for offset in (1e10, 1e12, 1e14):
        error = failure(lambda x, offset=offset: (wrong(x) + offset) - offset, X)
        assert (error.verdict, error.op) == (Verdict.WRONG, "wrong")
    assert failure(lambda x: (x * x.detach() + 1e12) - 1e12, X).verdict == Verdict.WRONG


def test_a_random_function() -> None:
    error = failure(lambda x: F.dropout(x.exp()) * 2, X)
    assert (error.verdict, error.op) == (Verdict.RANDOM, "dropout")
    assert "two evaluations at one point differ; op dropout is the first" in str(error)

    def seeded(x: tg.Tensor) -> tg.Tensor:
        tg.manual_seed(0)
        return F.dropout(x.exp()) * 2

    assert gradcheck(seeded, X)
    assert gradgradcheck(seeded, X)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: gradcheck(lambda x: x, tg.ones(2)), ValueError, "no input is a tensor with requires_grad=True"),
        (lambda: gradcheck(lambda x: 3.0, numbers(2)), ValueError, "returns no floating tensor"),
        (lambda: gradcheck(lambda x: x.argmax(), numbers(2)), ValueError, "returns no floating tensor"),
        (lambda: gradcheck(lambda x: x, numbers(2), eps=0.0), ValueError, "eps must lie above 0"),
        (lambda: gradcheck(lambda x: x, numbers(2), directions=0), ValueError, "directions at least 1; got"),
        (lambda: gradcheck(lambda x: x, given(1.0, np.nan)), ValueError, "input 0 holds NaN or Inf"),
        (lambda: gradcheck(lambda x: x * np.inf, numbers(2)), ValueError, "only NaN or Inf"),
        (lambda: gradcheck(lambda x: x[x > 0], given(0.0, 1.0)), RuntimeError, "an output has shape"),
    ],
)
def test_what_cannot_be_checked(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_elements_that_are_not_finite_are_left_out() -> None:
    assert gradcheck(lambda x: x.masked_fill(np.array([True, False]), -np.inf), numbers(2))
