"""Values and gradients at zeros, bounds, ties, infinities and NaN, of integers outside a dtype, and along axis 0 of a
tensor that has none: what PyTorch's samples seldom hit."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import tinygrad_edu as tg

INF, NAN = float("inf"), float("nan")
PLACES = [-INF, -2.5, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 2.5, 3.0, INF, NAN]
FINITE = [x for x in PLACES if np.isfinite(x)]
ROWS = [[0, 0, 0], [1, 1, 0], [2, 2, 2], [-1, 1, -1], [0, 3, 0], [3, 1, 2], [5, 5, 1], [0, 0, 5, 7], [2, 1, NAN]]
INFINITE = [
    [1, INF, INF],
    [-INF, -INF],
    [INF, -INF, 2, INF],
    [-INF, 1],
    [-INF, INF],
    [1, NAN, INF],
    [NAN],
    [3, NAN, NAN],
]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def same(function: Callable[..., Any], *arrays: Any, gradients: bool = True) -> None:
    """One text in both libraries, `function(library, *tensors)`: values, dtypes and gradients."""
    theirs = [torch.tensor(np.asarray(a, np.float64), requires_grad=True) for a in arrays]
    ours = [tg.tensor(np.asarray(a, np.float64), requires_grad=True) for a in arrays]
    expected, found = function(torch, *theirs), function(tg, *ours)
    if not isinstance(expected, torch.Tensor):
        expected, found = expected[0], found[0]
    np.testing.assert_allclose(found.array, expected.detach().numpy(), rtol=1e-9, atol=1e-12)
    if not gradients:
        return
    slopes = torch.autograd.grad(expected.sum(), theirs, allow_unused=True)
    for e, f in zip(slopes, tg.grad(found.sum(), ours, allow_unused=True)):
        if e is not None:  # of what counts PyTorch has none
            np.testing.assert_allclose(f.array, e.numpy(force=True), rtol=1e-9, atol=1e-12)


def same_twice(function: Callable[..., Any], *arrays: Any, g: float = 1.0, dtype: str = "float64") -> None:
    """Values, gradients from `g` and second derivatives; where PyTorch's derivative is NaN, ours may be a limit."""
    tolerance = {"float64": 1e-9, "float16": 2e-3}[dtype]

    def derivatives(lib: Any, grad: Any, xs: list[Any]) -> list[Any]:
        y = function(lib, *xs)
        found = grad(y, xs, lib.full_like(y, g), create_graph=True, allow_unused=True)
        again = [
            grad(d, xs, lib.ones_like(d), retain_graph=True, allow_unused=True)
            if d is not None and d.requires_grad
            else [None] * len(xs)
            for d in found
        ]
        return [y, *found, *itertools.chain(*again)]

    theirs = derivatives(
        torch, torch.autograd.grad, [torch.tensor(np.array(a, dtype), requires_grad=True) for a in arrays]
    )
    ours = derivatives(tg, tg.grad, [tg.tensor(np.array(a, dtype), requires_grad=True) for a in arrays])
    for number, (e, f) in enumerate(zip(theirs, ours, strict=True)):
        if e is None and f is None:
            continue
        expected = np.zeros(f.array.shape) if e is None else e.numpy(force=True)
        found = np.zeros(expected.shape) if f is None else f.array
        if number:
            found = np.where(np.isnan(expected), np.nan, found)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * 1e-3, err_msg=f"output {number}")


def pairs(values: list[float]) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.array(list(itertools.product(values, values))).T.copy()
    return a, b


def triples(values: list[float]) -> tuple[np.ndarray, ...]:
    a, b, c = np.array(list(itertools.product(values, repeat=3))).T.copy()
    return a, b, c


@pytest.mark.parametrize(
    "name", ["abs", "sign", "sgn", "relu", "sqrt", "square", "round", "trunc", "reciprocal", "exp"]
)
def test_curves(name: str) -> None:
    same(lambda lib, x: getattr(lib, name)(x), PLACES)


@pytest.mark.parametrize("g", [1.0, 0.0, INF])
@pytest.mark.parametrize(
    "name",
    [
        "abs", "floor", "ceil", "round", "trunc", "sign", "sgn", "frac", "sqrt", "rsqrt", "log", "log2", "log10",
        "log1p", "asin", "acos", "asinh", "acosh", "atan", "atanh", "logit", "reciprocal", "square", "relu",
    ],
)  # fmt: skip
def test_curves_twice_and_from_infinite_gradients(name: str, g: float) -> None:
    same_twice(lambda lib, x: getattr(lib, name)(x), PLACES, g=g)


@pytest.mark.parametrize("g", [1.0, 0.0, INF])
@pytest.mark.parametrize("p", [0, 1, 2, 3, 4, -1, -2, 0.5, 1.5, 2.5, -0.5, -1.5, 0.3, 1e-3, INF, -INF])
def test_powers_everywhere(p: float, g: float) -> None:
    same_twice(lambda lib, x: x**p, PLACES, g=g)
    same_twice(lambda lib, x: p**x, PLACES, g=g)


@pytest.mark.parametrize("g", [1.0, 0.0, INF])
@pytest.mark.parametrize("name", ["pow", "xlogy", "maximum", "fmod", "remainder"])
def test_pairs_twice(name: str, g: float) -> None:
    same_twice(
        lambda lib, x, y: getattr(lib, name)(x, y), *pairs([-INF, -2, -0.5, -0.0, 0, 1e-30, 0.5, 1, 3, INF]), g=g
    )


@pytest.mark.parametrize("name", ["hypot", "atan2"])
def test_angles_twice(name: str) -> None:
    same_twice(lambda lib, x, y: getattr(lib, name)(x, y), *pairs([-INF, -2, -0.5, 0.5, 1, 3, INF]))


@pytest.mark.parametrize("name", ["relu6", "hardtanh", "leaky_relu", "elu", "celu", "selu"])
def test_bends_at_bounds_and_nan(name: str) -> None:
    same_twice(lambda lib, x: getattr(lib.nn.functional, name)(x), [*PLACES, 6.0])


@pytest.mark.parametrize("alpha", [-0.5, -2.0, 0.25, 4.0])  # PyTorch divides by them in float32
def test_celu_with_any_width(alpha: float) -> None:
    same_twice(lambda lib, x: lib.nn.functional.celu(x, alpha), [-80.0, -20.0, -8.5, -5.0, -1e-9, 0.5, 3.0])


@pytest.mark.parametrize("alpha", [INF, -INF, NAN])
def test_elu_at_0_whatever_alpha(alpha: float) -> None:
    zeros = [0.0, -0.0, 1.0]
    found, expected = (lib.nn.functional.elu(lib.tensor(zeros), alpha).numpy() for lib in (tg, torch))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("beta", "sizes"), [(100.0, [1e37, 3e38]), (3.0, [3e38, -3e38]), (1e38, [3.4, -3.4])])
def test_softplus_where_beta_times_x_overflows(beta: float, sizes: list[float]) -> None:
    found = tg.nn.functional.softplus(tg.tensor(sizes), beta)
    np.testing.assert_array_equal(found.array, torch.nn.functional.softplus(torch.tensor(sizes), beta).numpy())


@pytest.mark.parametrize("bound", [0.5, 1.0, 2.0, 1e-10, INF])
@pytest.mark.parametrize(("name", "option"), [("huber_loss", "delta"), ("smooth_l1_loss", "beta")])
def test_losses_with_a_bend(name: str, option: str, bound: float) -> None:
    errors = [-INF, -1e30, -2.0, -1.0, -0.5, -1e-30, -0.0, 0.0, 1e-10, 0.3, 0.5, 1.0, 2.0, 7.0, 1e30, INF]
    same_twice(
        lambda lib, x: getattr(lib.nn.functional, name)(x, lib.zeros_like(x), reduction="none", **{option: bound}),
        errors,
    )
    for lib in (torch, tg):
        x = lib.tensor([NAN], requires_grad=True)
        getattr(lib.nn.functional, name)(x, lib.zeros_like(x), **{option: bound}).backward()
        assert math.isnan(x.grad.item())


def test_the_slope_of_hardsigmoid_at_nan_is_0() -> None:
    for lib in (torch, tg):
        x = lib.tensor([NAN], requires_grad=True)
        lib.nn.functional.hardsigmoid(x).sum().backward()
        assert x.grad.tolist() == [0.0]


@pytest.mark.parametrize("count", [2049, 70000])
def test_ties_are_counted_beyond_float16(count: int) -> None:
    calls: list[Callable[[Any, Any], Any]] = [
        lambda lib, x: x.amax(), lambda lib, x: x.max(), lambda lib, x: x.min(), lambda lib, x: x.amin(0),
        lambda lib, x: x.norm(INF), lambda lib, x: x.aminmax()[1],
        lambda lib, x: lib.ones(1, dtype=lib.float16).scatter_reduce(0, lib.zeros(count, dtype=lib.int64), x, "amax"),
    ]  # fmt: skip
    for number, call in enumerate(calls):
        x = tg.ones(count, dtype=tg.float16, requires_grad=True)
        (slope,) = tg.grad(call(tg, x).sum() * 20000, [x])
        np.testing.assert_allclose(slope.array, 20000 / count, rtol=2e-3, err_msg=f"{number}")


@pytest.mark.parametrize("alpha", [65504.0, 1e5, -1e5, 1e-6, 1e38])
@pytest.mark.parametrize("name", ["elu", "celu", "leaky_relu", "mul", "div"])
def test_numbers_that_float16_does_not_hold(name: str, alpha: float) -> None:
    def call(lib: Any, x: Any) -> Any:
        return getattr(lib if name in ("mul", "div") else lib.nn.functional, name)(x, alpha)

    same_twice(call, [-INF, -6e4, -12.0, -11.0, -1.0, -1e-3, 1e-3, 0.5, 5.0, INF, NAN], dtype="float16")


@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin", "xlogy", "mul", "div", "atan2"])
def test_pairs(name: str) -> None:
    same(lambda lib, x, y: getattr(lib, name)(x, y), *pairs(PLACES))


@pytest.mark.parametrize("name", ["pow", "fmod", "remainder"])
def test_pairs_of_finite_numbers(name: str) -> None:
    same(lambda lib, x, y: getattr(lib, name)(x, y), *pairs(FINITE))


@pytest.mark.parametrize("number", [0, 1, 2, 3, -1, 0.5, 2.5])
def test_powers_of_and_to_numbers(number: float) -> None:
    same(lambda lib, x: x**number, [x for x in FINITE if x > 0])
    if number >= 0:
        same(lambda lib, x: number**x, FINITE)


def test_clamp_and_lerp() -> None:
    same(lambda lib, x: x.clamp(-1, 2), PLACES)
    same(lambda lib, x: x.clamp(2, -1), PLACES)
    same(lambda lib, x, y: x.clamp(min=y), *pairs(PLACES))
    same(lambda lib, x, y: x.clamp(max=y), *pairs(PLACES))
    same(lambda lib, *xs: lib.clamp(*xs), *triples([-1, 0, 2, NAN, INF, -INF]))
    for low, high in itertools.product([-1, 2, NAN, INF, -INF], repeat=2):
        same(lambda lib, x, low=low, high=high: x.clamp(low, high), PLACES)
    same(lambda lib, *xs: lib.lerp(*xs), *triples([-1, 0, 0.5, 1, 1e20]))
    for weight in (0, 0.3, 0.5, 1, 2):
        same(lambda lib, x, y, w=weight: lib.lerp(x, y, w), *pairs(FINITE))


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("name", ["amax", "amin", "max", "min", "median", "prod", "std", "nansum", "nanmean"])
def test_reductions(name: str, row: list[float]) -> None:
    if name in ("prod", "std") and NAN in row:
        pytest.skip("a NaN spoils all")
    same(lambda lib, x: getattr(x, name)(), row)
    if name in ("amax", "amin", "max", "min", "median", "prod"):
        same(lambda lib, x: getattr(x, name)(0), row)


def test_the_median_of_several_nan_is_the_first() -> None:
    x = [[NAN, NAN, 1.0], [1.0, NAN, NAN]]
    assert tg.tensor(x).median(1).indices.tolist() == torch.tensor(x).median(1).indices.tolist() == [0, 1]


@pytest.mark.parametrize("row", ROWS[:-1])
@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, INF, -INF, -1, -0.5])
def test_norms(p: float, row: list[float]) -> None:
    same(lambda lib, x: lib.linalg.vector_norm(x, p), row)


@pytest.mark.parametrize("row", INFINITE)
@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 2.5, 3, 4, INF, -INF, -1, -0.5])
def test_norms_of_infinities_and_nan(p: float, row: list[float]) -> None:
    same_twice(lambda lib, x: x.norm(p), row)


@pytest.mark.parametrize("row", INFINITE)
@pytest.mark.parametrize("name", ["max", "min", "amax", "amin"])
def test_extremes_of_infinities_and_nan(name: str, row: list[float]) -> None:
    same_twice(lambda lib, x: getattr(x, name)(), row)
    same_twice(lambda lib, x: getattr(x, name)(), row, g=0.0)
    if name[0] == "a":
        same_twice(lambda lib, x: getattr(x, name)(0), [row, row])


@pytest.mark.parametrize("row", INFINITE)
def test_logsumexp_of_infinities_and_nan(row: list[float]) -> None:
    same_twice(lambda lib, x: x.logsumexp(0), row)
    same_twice(lambda lib, x: x.logsumexp((0, 1)), [row, row])


@pytest.mark.parametrize(
    "row", [*(row for row in INFINITE if len(row) > 1), [1e200, 3e200], [1e-200, 3e-200], [2.0, 2.0]]
)
def test_variances_that_overflow(row: list[float]) -> None:
    for correction in (0, 1):
        same_twice(lambda lib, x, c=correction: x.var(correction=c), row)
        same_twice(lambda lib, x, c=correction: x.var(0, correction=c), [row, row[::-1]])


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss"])
def test_losses_of_infinities(name: str) -> None:
    x, y = pairs([-INF, -2.0, -1.0, 0.0, 0.5, 1.0, 3.0, INF])
    apart = ~(np.isinf(x) & (x == y))
    same_twice(lambda lib, x, y: getattr(lib.nn.functional, name)(x, y, reduction="none"), x[apart], y[apart])


def test_the_gradient_of_a_target_of_an_infinite_logit() -> None:
    def loss(lib: Any, x: Any, y: Any) -> Any:
        return lib.nn.functional.binary_cross_entropy_with_logits(x, y, reduction="none")

    same_twice(loss, [INF, INF, -2.0, 0.0, 30.0], [0.0, 0.3, 1.0, 0.3, 0.0])


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("row", [[1, NAN, 2], [INF, 1], [INF, INF, NAN], [NAN, NAN]])
def test_a_recorded_softmax_of_what_is_no_number(name: str, row: list[float]) -> None:
    x = tg.tensor(row, requires_grad=True)
    y = getattr(x, name)(0)
    (d,) = tg.grad((y * tg.arange(len(row))).sum(), [x], create_graph=True)
    assert np.isnan(y.array).all()
    assert np.isnan(d.array).all()


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "bool"])
def test_dtypes_of_sums(dtype: str) -> None:
    x = np.array([[1, 0], [1, 1]]).astype(dtype)
    calls: list[Callable[[Any, Any], Any]] = [
        lambda lib, x: x.sum(), lambda lib, x: x.sum(0), lambda lib, x: x.prod(), lambda lib, x: x.cumsum(0),
        lambda lib, x: x.cumprod(1), lambda lib, x: x.nansum(), lambda lib, x: x.any(), lambda lib, x: x.all(1),
        lambda lib, x: x.sum(dtype=lib.uint8), lambda lib, x: x.prod(dtype=lib.int32), lambda lib, x: x.square(),
        lambda lib, x: x.cumsum(0, dtype=lib.int8), lambda lib, x: x.cumprod(0, dtype=lib.int16),
        lambda lib, x: x.sum(dtype=lib.bool), lambda lib, x: x.sum(dtype=lib.float32), lambda lib, x: lib.diag(x),
        lambda lib, x: lib.einsum("ij->", x), lambda lib, x: lib.einsum("ij->j", x), lambda lib, x: lib.einsum("ii", x),
        lambda lib, x: lib.einsum("ij->ji", x), lambda lib, x: lib.einsum("ij,ij->ij", x, x), lambda lib, x: x.sign(),
        lambda lib, x: x.logsumexp(0), lambda lib, x: x.count_nonzero(), lambda lib, x: x**2, lambda lib, x: 2**x,
        lambda lib, x: lib.isclose(x, x), lambda lib, x: x.cosh(), lambda lib, x: x.sinh(), lambda lib, x: x.logit(),
    ]  # fmt: skip
    for number, call in enumerate(calls):
        expected, found = call(torch, torch.tensor(x)), call(tg, tg.tensor(x))
        np.testing.assert_allclose(found.array, expected.numpy(), rtol=1e-5, err_msg=f"{number}")
        assert found.array.dtype == expected.numpy().dtype, number


@pytest.mark.parametrize("number", [300, -1, -300, 2**40, 128, -129])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32"])
def test_a_number_outside_of_a_dtype_wraps_around(dtype: str, number: int) -> None:
    x = np.array([1, 3, 100]).astype(dtype)
    theirs, ours = torch.tensor(x), tg.tensor(x)
    calls: list[Callable[[Any], Any]] = [
        lambda x: x + number, lambda x: x - number, lambda x: number - x, lambda x: x * number, lambda x: x & number,
        lambda x: x | number, lambda x: x ^ number, lambda x: x.add(number), lambda x: x.clone().add_(number),
    ]  # fmt: skip
    for call in calls:
        assert call(ours).tolist() == call(theirs).tolist()
        assert str(call(ours).dtype) == dtype
    # Unlike PyTorch's, comparisons do not wrap: no uint8 is equal to 300 or above it.
    assert (ours == number).tolist() == (x.astype(np.int64) == number).tolist()
    assert (ours < number).tolist() == (x.astype(np.int64) < number).tolist()
    assert (number <= ours).tolist() == (number <= x.astype(np.int64)).tolist()


def test_a_tensor_of_no_axes_is_a_vector_of_one() -> None:
    calls: list[Callable[[Any, Any], Any]] = [
        lambda lib, x: x.gather(0, lib.tensor(0)), lambda lib, x: x.gather(-1, lib.tensor([0, 0])),
        lambda lib, x: x.index_select(0, lib.tensor([0])), lambda lib, x: x.index_select(-1, lib.tensor(0)),
        lambda lib, x: x.scatter(0, lib.tensor(0), lib.tensor(2.0)), lambda lib, x: x.scatter(0, lib.tensor(0), 7.0),
        lambda lib, x: x.scatter_add(0, lib.tensor(0), lib.tensor(2.0)), lambda lib, x: x.transpose(0, -1),
        lambda lib, x: x.index_add(0, lib.tensor(0), lib.tensor(2.0)), lambda lib, x: x.movedim(0, 0),
        lambda lib, x: x.index_fill(0, lib.tensor(0), 2.0), lambda lib, x: x.unfold(0, 1, 1), lambda lib, x: x.flip(0),
        lambda lib, x: x.index_copy(0, lib.tensor(0), lib.tensor(2.0)), lambda lib, x: x.squeeze((0,)),
        lambda lib, x: x.scatter_reduce(0, lib.tensor(0), lib.tensor(2.0), "prod"), lambda lib, x: x.sum((0,)),
        lambda lib, x: x.logsumexp((0,)), lambda lib, x: x.nonzero(), lambda lib, x: x.argwhere(),
        lambda lib, x: x.clone().scatter_(0, lib.tensor(0), lib.tensor(2.0)), lambda lib, x: x.argmax(0),
        lambda lib, x: x.clone().index_add_(0, lib.tensor(0), lib.tensor(2.0)), lambda lib, x: x.cumsum(0),
        lambda lib, x: x.clone().index_fill_(0, lib.tensor(0), 2.0), lambda lib, x: x.sort(0)[0],
    ]  # fmt: skip
    for number, call in enumerate(calls):
        expected, found = call(torch, torch.tensor(5.0)), call(tg, tg.tensor(5.0))
        assert found.shape == tuple(expected.shape), number
        assert found.tolist() == expected.tolist(), number
    for name, *arguments in [("split", 1), ("unbind", 0), ("select", 0, 0), ("narrow", 0, 0, 1)]:
        with pytest.raises((IndexError, ValueError)):
            getattr(tg.tensor(5.0), str(name))(*arguments)


@pytest.mark.parametrize(
    "name", ["sum", "mean", "amax", "amin", "var", "std", "nansum", "nanmean", "norm", "count_nonzero"]
)
def test_no_dim_at_all_reduces_all(name: str) -> None:
    x = np.arange(6.0).reshape(2, 3)
    dims: list[Any] = [(), []]
    for dim in dims:
        expected = getattr(torch.tensor(x), name)(dim=dim)
        found = getattr(tg.tensor(x), name)(dim=dim)
        assert found.shape == tuple(expected.shape) == ()
        np.testing.assert_allclose(found.item(), expected.item())
    for name in ("any", "all"):
        assert getattr(tg.tensor(x), name)(dim=()).tolist() == getattr(torch.tensor(x), name)(dim=()).tolist()


@pytest.mark.parametrize("beta", [0, 0.0, 1, 2.5])
@pytest.mark.parametrize("alpha", [0, 1, -2.0])
def test_what_is_multiplied_with_zero_is_not_looked_at(beta: float, alpha: float) -> None:
    bad, m, v = [[NAN, INF], [1.0, 2.0]], [[1.0, 2.0], [3.0, 4.0]], [1.0, 2.0]
    calls: list[Callable[..., Any]] = [
        lambda lib, x, a, b, c: lib.addmm(x, a, a, beta=beta, alpha=alpha),
        lambda lib, x, a, b, c: lib.addmm(x[0], a, a, beta=beta, alpha=alpha),
        lambda lib, x, a, b, c: lib.addmv(x[0], a, b, beta=beta, alpha=alpha),
        lambda lib, x, a, b, c: lib.baddbmm(x[None], a[None], a[None], beta=beta, alpha=alpha),
    ]
    for call in calls:
        same(call, bad, m, v, v, gradients=beta == 0)


EQUATIONS = [
    ("i,i", (2,), (1,)), ("ij,jk->ik", (2, 1), (3, 4)), ("ij,jk", (2, 3), (1, 4)), ("bij,bj->bi", (2, 3, 4), (2, 1)),
    ("i,ij->j", (1,), (3, 2)), ("ij,ij->", (2, 3), (1, 3)), ("ij,ij->", (2, 3), (1, 1)), ("iii->i", (2, 2, 2)),
    ("iii", (2, 2, 2)), ("iiij->ij", (2, 2, 2, 3)), ("iiii->i", (2, 2, 2, 2)), ("iji->j", (3, 2, 3)),
    ("ij,kl->ik", (2, 3), (4, 2)), ("...i,...i->...", (2, 1, 3), (4, 3)), ("ii,i->i", (3, 3), (1,)),
    ("ijk,k->ji", (2, 3, 4), (1,)), ("ab,bc,cd->ad", (2, 3), (3, 1), (4, 2)), ("ij->ji", (2, 3)), ("i,j", (1,), (3,)),
]  # fmt: skip


@pytest.mark.parametrize("case", EQUATIONS, ids=lambda c: c[0])
def test_letters_of_einsum(case: tuple[Any, ...]) -> None:
    letters, *shapes = case
    draws = np.random.default_rng(0)
    same(lambda lib, *xs: lib.einsum(letters, *xs), *(draws.normal(size=shape) for shape in shapes))


def test_cosines_of_what_broadcasts() -> None:
    draws = np.random.default_rng(0)
    for a, b, dim in (((1, 2), (2, 1), 0), ((1, 2, 3), (2, 1, 3), 1), ((2, 3), (1, 3), 0), ((4, 1), (1, 5), 1)):
        same(
            lambda lib, x, y, d=dim: lib.nn.functional.cosine_similarity(x, y, dim=d),
            draws.normal(size=a),
            draws.normal(size=b),
        )


def test_views_show_the_memory_and_copies_do_not() -> None:
    def shows(result: Any, x: Any) -> bool:
        return np.may_share_memory(result.array, x.array)

    x = tg.tensor(np.arange(12.0).reshape(3, 4))
    views = [x.diagonal(), x.unfold(1, 2, 2), x.expand(3, 4), x.T, x[1:], x.unfold(0, 2, 1)]
    copies = [x.diag(), x.repeat(1, 1), x.tile((1,)), x.T.ravel(), x[:, :2].ravel(), x.diff(n=0), x.nan_to_num()]
    assert all(shows(view, x) for view in views)
    assert not any(shows(copy, x) for copy in copies)
    for writable in (*views[:5], *copies):
        writable.zero_()
    with pytest.raises(RuntimeError, match="read-only"):
        views[5].zero_()  # its windows overlap


def test_draws_have_a_gradient_of_zero() -> None:
    mean, std = tg.zeros(3, dtype=tg.float16, requires_grad=True), tg.ones(3, dtype=tg.float16, requires_grad=True)
    drawn = tg.normal(mean, std)
    assert drawn.dtype == tg.float16
    drawn.sum().backward()
    assert mean.grad is not None
    assert std.grad is not None
    assert mean.grad.tolist() == std.grad.tolist() == [0, 0, 0]


def _written(lib: Any, value: float, dtype: Any) -> dict[str, Callable[[], Any]]:
    """Calls that put a number into a tensor, or compute with it."""
    F = lib.nn.functional

    def ones(*lengths: int) -> Any:
        return lib.ones(*(lengths or (2,)), dtype=dtype)

    def put(key: Any) -> Any:
        x = ones()
        x[key] = value
        return x

    at = lib.tensor([0])
    return {
        "full": lambda: lib.full((2,), value, dtype=dtype),
        "full_like": lambda: lib.full_like(ones(), value),
        "new_full": lambda: ones().new_full((2,), value),
        "fill_": lambda: ones().fill_(value),
        "masked_fill": lambda: ones().masked_fill(ones() > 0, value),
        "masked_fill_": lambda: ones().masked_fill_(ones() > 0, value),
        "index_fill": lambda: ones().index_fill(0, at, value),
        "scatter": lambda: ones().scatter(0, at, value),
        "scatter_": lambda: ones().scatter_(0, at, value=value),
        "fill_diagonal_": lambda: ones(2, 2).fill_diagonal_(value),
        "constant_": lambda: lib.nn.init.constant_(ones(), value),
        "pad": lambda: F.pad(ones(), (1, 1), value=value),
        "setitem": lambda: put(0),
        "setitem of a mask": lambda: put(ones() > 0),
        "setitem of a list": lambda: put([0, 1]),
        "where": lambda: lib.where(ones() > 0, value, ones()),
        "clamp min": lambda: ones().clamp(min=value),
        "clamp max": lambda: ones().clamp(max=value),
        "clamp_": lambda: ones().clamp_(max=value),
        "clamp_min_": lambda: ones().clamp_min_(value),
        "alpha": lambda: ones().add(ones(), alpha=value),
        "sub alpha": lambda: ones().sub_(ones(), alpha=value),
        "addcmul": lambda: ones().addcmul(ones(), ones(), value=value),
        "addcdiv": lambda: ones().addcdiv(ones(), ones(), value=value),
        "lerp": lambda: ones().lerp(ones() * 2, value),
        "addmm": lambda: lib.addmm(ones(1, 1), ones(1, 1), ones(1, 1), alpha=value),
        "linspace": lambda: lib.linspace(0, value if abs(value) < INF else 1.0, 2, dtype=dtype),
        "elu": lambda: F.elu(-ones(), value),
        "celu": lambda: F.celu(-ones(), abs(value)),
        "leaky_relu": lambda: F.leaky_relu(-ones(), value),
        "add": lambda: ones() + value,
        "add_": lambda: ones().add_(value),
        "rsub": lambda: value - ones(),
        "mul": lambda: ones() * value,
        "div": lambda: ones() / value,
        "less": lambda: ones() < value,
        "equal": lambda: ones() == value,
        "tensor": lambda: lib.tensor([value], dtype=dtype),
        "new_tensor": lambda: ones().new_tensor([value]),
        "nan_to_num": lambda: (ones() * float("nan")).nan_to_num(value),
        "nan_to_num of infinity": lambda: (ones() * INF).nan_to_num(posinf=value),
    }


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("float32", 1e40), ("float32", -1e40), ("float32", 3.4028235e38), ("float32", 3.4028234663852886e38),
        ("float32", INF), ("float32", -INF), ("float16", 65504.0), ("float16", 65505.0), ("float16", 1e5),
        ("float16", INF), ("float16", 1e40), ("float64", 1e40), ("float64", INF),
    ],
)  # fmt: skip
def test_a_finite_number_beyond_a_dtype_is_refused_where_it_is_written(dtype: str, value: float) -> None:
    theirs, ours = (_written(lib, value, getattr(lib, dtype)) for lib in (torch, tg))
    for name, call in theirs.items():
        try:
            expected = call().numpy()
        except RuntimeError:
            with pytest.raises(ValueError, match="is beyond"):
                ours[name]()
            continue
        with warnings.catch_warnings(), np.errstate(all="warn", under="ignore"):
            warnings.simplefilter("ignore" if value == INF or value == -INF else "error")
            found = ours[name]().array
        np.testing.assert_allclose(found, expected, rtol=1e-3 if dtype == "float16" else 1e-6, err_msg=name)
