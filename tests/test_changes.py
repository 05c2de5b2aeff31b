"""Changes in place: which dtypes a tensor takes in, what is drawn into it, and integers divided by 0."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu.arrays import dtypes

DTYPES = ["bool", "uint8", "int8", "int32", "int64", "float16", "float32", "float64"]
VALUES: list[Any] = [True, 2, 0.5, tg.tensor(True), tg.tensor(2), tg.tensor(0.5)]
VALUES += [tg.tensor([1, 1, 1], dtype=d) for d in DTYPES]
RANKS = {"b": 0, "u": 1, "i": 1, "f": 2}


def filled(dtype: str) -> tg.Tensor:
    return tg.tensor([1, 0, 1], dtype=dtype)


def twins() -> list[str]:
    """The methods that have an in-place form of the same arguments, one operand or none."""
    found = []
    for name in dir(tg.Tensor):
        method, change = (getattr(tg.Tensor, n, None) for n in (name, f"{name}_"))
        if name[:1] != "_" and inspect.isfunction(method) and inspect.isfunction(change):
            needed = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
            if len(needed) <= 2 and name not in (
                "requires_grad",
                "detach",
                "cumsum",
                "cumprod",
                "t",
                "unsqueeze",
                "squeeze",
            ):
                found.append(name)
    return found


NAMES = twins()


def outcome(function: Callable[..., Any], *given: Any) -> Any:
    try:
        return function(*given)
    except Exception as error:
        return error


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_a_change_takes_results_of_its_kind_or_a_lower_one(name: str) -> None:
    """x.op_(y) is x.op(y) in the dtype of x where booleans < integers < floating numbers allow it, else refused."""
    needed = [p for p in inspect.signature(getattr(tg.Tensor, name)).parameters.values() if p.default is p.empty]
    values = VALUES if len(needed) == 2 or name == "clamp" else [None]
    for dtype in DTYPES:
        for value in values:
            given = () if value is None else (value,)
            x = filled(dtype)
            made, changed = (
                outcome(getattr(filled(dtype), name), *given),
                outcome(getattr(x, f"{name}_"), *given),
            )
            if isinstance(made, Exception) or made.shape != x.shape:
                assert isinstance(changed, Exception), f"{dtype}, {value}: {changed}"
            elif RANKS[made.dtype.kind] > RANKS[x.dtype.kind]:
                assert isinstance(changed, TypeError), f"{dtype}, {value}: {changed}"
                assert "cannot hold" in str(changed)
            else:
                assert changed is x, f"{dtype}, {value}: {changed}"
                assert x.dtype == dtype
                np.testing.assert_array_equal(x.array, made.array.astype(dtype))
                continue
            assert x.tolist() == filled(dtype).tolist()
            assert x.dtype == dtype


def test_in_place_methods_are_many() -> None:
    assert len(NAMES) > 70
    assert {"add", "clamp", "pow", "square", "floor_divide", "bitwise_xor", "eq", "sin"} <= {*NAMES}


AUGMENTED = [
    "iadd",
    "isub",
    "imul",
    "itruediv",
    "ifloordiv",
    "imod",
    "ipow",
    "iand",
    "ior",
    "ixor",
    "ilshift",
    "irshift",
]


@pytest.mark.parametrize("name", AUGMENTED)
@pytest.mark.filterwarnings("ignore")
def test_augmented_assignments_change_or_refuse(name: str) -> None:
    """`x += y` never makes another tensor: whoever shows the memory sees the change, or there is none."""
    plain, change = getattr(operator, f"__{name[1:]}__"), getattr(operator, f"__{name}__")
    for dtype in DTYPES:
        for value in VALUES:
            x = filled(dtype)
            seen = x.detach()
            made, changed = (
                outcome(plain, filled(dtype), value),
                outcome(change, x, value),
            )
            if isinstance(made, Exception) or RANKS[made.dtype.kind] > RANKS[x.dtype.kind]:
                assert isinstance(changed, Exception), f"{dtype}, {value}: {changed}"
                assert seen.tolist() == filled(dtype).tolist()
            else:
                assert changed is x, f"{dtype}, {value}: {changed}"
                np.testing.assert_allclose(seen.array, made.array.astype(dtype), rtol=1e-3)


def test_masks_and_integers_stay_what_they_are() -> None:
    mask, count, byte = tg.tensor([True, False]), tg.tensor([7, 2]), tg.tensor([7, 2], dtype=tg.uint8)
    refused: list[Callable[[], Any]] = [
        lambda: operator.iadd(mask, 1), lambda: operator.isub(mask, mask), lambda: operator.imul(mask, 2),
        lambda: operator.itruediv(mask, True), lambda: mask.add_(2), mask.neg_, mask.exp_,
        lambda: mask.clamp_(0, 3), lambda: mask.addcmul_(count, count),
        lambda: mask.floor_divide_(2), lambda: mask.pow_(2),
        lambda: operator.iadd(count, 0.5), lambda: operator.itruediv(count, 2), lambda: count.mul_(0.5),
        lambda: count.sub_(tg.tensor([0.5, 1.0])), lambda: count.div_(2), count.sqrt_, count.sin_,
        lambda: count.pow_(0.5), lambda: count.clamp_(0.5), lambda: count.clamp_(tg.tensor(0.5)),
        lambda: count.lerp_(count, 0.5),
        lambda: count.div_(2.0, rounding_mode="floor"), lambda: count.floor_divide_(2.0), lambda: count.remainder_(0.5),
        lambda: count.addcdiv_(count, count), lambda: count.hypot_(count), byte.sigmoid_,
    ]  # fmt: skip
    for change in refused:
        with pytest.raises(TypeError, match=r"cannot hold|boolean tensors are masks"):
            change()
    assert (mask.tolist(), count.tolist(), byte.tolist()) == ([True, False], [7, 2], [7, 2])
    mask += tg.tensor([False, True])
    mask.mul_(tg.tensor([True, True])).logical_not_().eq_(1)
    count += mask
    count *= byte
    byte += count
    small = tg.ones(2, dtype=tg.float16)
    small += tg.tensor([1.0, 2.0], dtype=tg.float64)
    small *= count
    assert (mask.tolist(), count.tolist(), byte.tolist(), small.tolist()) == (
        [False, False], [49, 4], [56, 6], [98.0, 12.0],
    )  # fmt: skip
    assert (count.dtype, byte.dtype, small.dtype) == (tg.int64, tg.uint8, tg.float16)


def test_a_mask_has_no_negative_and_nothing_is_taken_from_it() -> None:
    mask, x, n = tg.tensor([True, False]), tg.ones(2), tg.tensor([3, 4], dtype=tg.uint8)
    for call in (lambda: -mask, lambda: mask - mask, lambda: mask - 1, lambda: 1 - mask, lambda: x - mask,
                 lambda: mask - x,
                 lambda: n - mask, lambda: mask.sub(x), mask.neg, lambda: tg.sub(x, mask),
                 lambda: x.sub_(mask),
                 lambda: operator.isub(n, mask), lambda: x - mask.numpy()):  # fmt: skip
        with pytest.raises(TypeError, match=r"boolean tensors are masks; ~mask inverts one"):
            call()
    assert (mask + mask).tolist() == (mask * mask).tolist() == [True, False]
    assert (x - mask.float()).tolist() == (x - mask.long()).tolist() == [0, 1]
    assert mask.isclose(mask).all()
    assert not n.isclose(tg.tensor([4, 3], dtype=tg.uint8)).any()


# Integers divided by 0

DIVISIONS: dict[str, Callable[[Any, Any], Any]] = {
    "//": operator.floordiv,
    "%": operator.mod,
    "floor_divide": tg.floor_divide,
    "remainder": tg.remainder,
    "fmod": tg.fmod,
    "div, floor": lambda x, y: tg.div(x, y, rounding_mode="floor"),
    "div, trunc": lambda x, y: tg.div(x, y, rounding_mode="trunc"),
    "//=": operator.ifloordiv,
    "%=": operator.imod,
    "floor_divide_": lambda x, y: x.floor_divide_(y),
    "remainder_": lambda x, y: x.remainder_(y),
    "fmod_": lambda x, y: x.fmod_(y),
    "div_, floor": lambda x, y: x.div_(y, rounding_mode="floor"),
    "div_, trunc": lambda x, y: x.div_(y, rounding_mode="trunc"),
}


@pytest.mark.parametrize("name", DIVISIONS)
def test_integers_divided_by_zero_are_refused(name: str) -> None:
    divide = DIVISIONS[name]
    for dtype in ("uint8", "int8", "int16", "int32", "int64"):
        for zero in (
            0,
            False,
            tg.tensor(0),
            tg.tensor([1, 0]),
            tg.tensor([1, 0], dtype=dtype),
            np.array([0, 1]),
            [2, 0],
        ):
            x = tg.tensor([5, 7], dtype=dtype)
            with pytest.raises(ZeroDivisionError, match="a divisor is 0") as caught:
                divide(x, zero)
            assert isinstance(caught.value, RuntimeError)
            assert x.tolist() == [5, 7]
        empty = tg.zeros(0, dtype=dtype)
        assert divide(empty, empty).shape == (0,)
    for reflected in (lambda: 7 // tg.tensor([2, 0]), lambda: 7 % tg.tensor([2, 0]), lambda: True // tg.tensor([2, 0])):
        with pytest.raises(ZeroDivisionError, match="a divisor is 0"):
            reflected()


@pytest.mark.parametrize("name", DIVISIONS)
def test_floating_numbers_are_divided_by_zero(name: str) -> None:
    for zero in (0, 0.0, tg.tensor(0), tg.tensor([0.0, 0.0]), False):
        assert not DIVISIONS[name](tg.tensor([5.0, 7.0]), zero).isfinite().any()
    if "=" not in name and "_," not in name and name[-1] != "_":
        assert not DIVISIONS[name](tg.tensor([5, 7]), 0.0).isfinite().any()


def test_true_division_of_integers_by_zero_is_infinite() -> None:
    assert (tg.tensor([1, -1, 0]) / 0).tolist()[:2] == [float("inf"), float("-inf")]


def test_what_integers_cannot_be_divided_or_raised_to() -> None:
    for divide in DIVISIONS.values():
        with pytest.raises(TypeError, match="booleans are not divided"):
            divide(tg.tensor([True]), tg.tensor([True]))
    for x in (tg.tensor([2, 3]), tg.tensor([2], dtype=tg.uint8), tg.tensor([True])):
        with pytest.raises(
            ValueError, match=r"\*\*: integers to the power -1 are no integers; use x.float\(\) \*\* -1"
        ):
            _ = x**-1
        with pytest.raises(ValueError, match="are no integers"):
            x.pow_(-1)
    assert (tg.tensor([2.0]) ** -1).item() == (tg.tensor([2]) ** -1.0).item() == 0.5


def test_numbers_beside_integers_keep_their_value_where_the_result_is_floating() -> None:
    """A negative number beside unsigned integers is no large one, as it is where the result is unsigned, too."""
    x = tg.tensor([2, 4], dtype=tg.uint8)
    assert (x / -1).tolist() == [-2, -4]
    assert (-4 / x).tolist() == [-2, -1]
    assert (x / 400).tolist() == pytest.approx([0.005, 0.01])
    assert x.atan2(-1)[0].item() == pytest.approx(np.arctan2(2, -1))
    assert x.hypot(-300).tolist() == pytest.approx([np.hypot(2, 300), np.hypot(4, 300)])
    for y in (x / -1, -4 / x, x.atan2(-1), tg.ones(2).xlogy(2), tg.ones(2).xlogy(0.5)):
        assert y.dtype == tg.float32


def test_powers_and_sums_of_masks() -> None:
    mask = tg.tensor([True, False])
    assert (mask**2).tolist() == [1, 0]
    assert (mask**2).dtype == mask.square().dtype == tg.int64
    for made, expected in (
        (mask**True, [True, False]),
        (mask**False, [True, True]),
        (mask.add(~mask, alpha=2), [True, True]),
    ):
        assert (made.tolist(), made.dtype) == (expected, tg.bool)
    assert mask.logit().tolist() == [float("inf"), float("-inf")]


# Draws

FILLS: dict[str, Callable[[tg.Tensor], Any]] = {
    "normal_": lambda x: x.normal_(),
    "uniform_": lambda x: x.uniform_(),
    "exponential_": lambda x: x.exponential_(),
    "init.normal_": tg.nn.init.normal_,
    "init.uniform_": tg.nn.init.uniform_,
    "init.trunc_normal_": tg.nn.init.trunc_normal_,
    "init.xavier_uniform_": tg.nn.init.xavier_uniform_,
    "init.xavier_normal_": tg.nn.init.xavier_normal_,
    "init.kaiming_uniform_": tg.nn.init.kaiming_uniform_,
    "init.kaiming_normal_": tg.nn.init.kaiming_normal_,
    "init.orthogonal_": tg.nn.init.orthogonal_,
    "rand": lambda x: tg.rand(2, dtype=x.dtype),
    "randn": lambda x: tg.randn(2, dtype=x.dtype),
    "rand_like": tg.rand_like,
    "randn_like": tg.randn_like,
    "normal": lambda x: tg.normal(0.0, 1.0, (2,), dtype=x.dtype),
    "dropout": tg.nn.functional.dropout,
    "gumbel_softmax": tg.nn.functional.gumbel_softmax,
}


@pytest.mark.parametrize("name", FILLS)
def test_draws_are_not_cut_off_to_integers(name: str) -> None:
    for dtype in DTYPES:
        x = tg.ones(3, 3, dtype=dtype)
        if x.dtype.kind == "f":
            made = FILLS[name](x)
            assert made.dtype == dtype
            continue
        with pytest.raises(TypeError, match=r"draws are no integers|must be floating"):
            FILLS[name](x)
        assert x.all()


def test_integers_are_drawn_where_the_dtype_holds_them() -> None:
    for dtype in DTYPES:
        x = tg.zeros(1000, dtype=dtype).random_()
        assert len(set(x.tolist())) == 2 if dtype == "bool" else len(set(x.tolist())) > 50
        assert not (x < 0).any()
        assert set(tg.zeros(100, dtype=dtype).random_(2).tolist()) == {0, 1}
        assert set(tg.zeros(100, dtype=dtype).bernoulli_().tolist()) == {0, 1}
        if dtype not in ("bool", "uint8"):
            assert set(tg.zeros(100, dtype=dtype).random_(-2, 0).tolist()) == {-2, -1}
        least, most = dtypes.bounds_of(tg.zeros(0, dtype=dtype).dtype)
        for low, high in ((0, int(most) + 2), (int(least) - 1, 1)):
            if dtype not in ("float32", "float64"):
                with pytest.raises(ValueError, match=f"random_: {dtype} holds numbers from"):
                    tg.zeros(2, dtype=dtype).random_(low, high)
            if dtype[0] != "f":
                with pytest.raises(ValueError, match=f"randint: {dtype} holds numbers from"):
                    tg.randint(low, high, (2,), dtype=dtype)
                with pytest.raises(ValueError, match=f"randint: {dtype} holds numbers from"):
                    tg.randint_like(x, low, high)
    with pytest.raises(ValueError, match="randperm: uint8 holds numbers from 0 to 255"):
        tg.randperm(257, dtype=tg.uint8)
    assert sorted(tg.randperm(256, dtype=tg.uint8).tolist()) == list(range(256))


def test_uniform_draws_stay_below_their_bound() -> None:
    """A draw next to 1 would be rounded to it in a smaller dtype."""
    edge = np.array([0.0, 0.5, 1 - 2**-53])
    for dtype in ("float16", "float32", "float64"):
        kind = np.dtype(dtype)
        assert tg.random.below(edge, 0, 1, kind).max() < 1
        assert tg.random.below(edge * 3 + 5, 5, 8, kind).max() < 8
        assert tg.random.below(edge * 0 + 2, 2, 2, kind).tolist() == [2, 2, 2]
        assert tg.rand(20000, dtype=dtype).max() < 1
        assert tg.zeros(20000, dtype=dtype).uniform_(-3, -1).max() < -1


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (lambda x: x.normal_(0, -1), "normal_: std"), (lambda x: x.normal_(0, float("nan")), "normal_: std"),
        (lambda x: x.uniform_(2, 1), "uniform_"), (lambda x: x.uniform_(0, float("inf")), "uniform_"),
        (lambda x: x.uniform_(float("nan"), 1), "uniform_"), (lambda x: x.exponential_(0), "exponential_: lambd"),
        (lambda x: x.exponential_(-1), "exponential_: lambd"), (lambda x: x.bernoulli_(1.5), "bernoulli_: p"),
        (lambda x: x.bernoulli_(float("nan")), "bernoulli_: p"), (lambda x: x.bernoulli_(x + 1), "bernoulli_: p"),
        (lambda x: x.bernoulli_(tg.ones(3)), "bernoulli_: p"), (lambda x: x.random_(3, 3), "random_"),
        (lambda x: x.random_(0), "random_"), (lambda x: x.random_(5, 3), "random_"),
        (lambda x: tg.nn.init.trunc_normal_(x, std=-1.0), "trunc_normal_: std"),
        (lambda x: tg.nn.init.trunc_normal_(x, std=0.0), "trunc_normal_: std"),
        (lambda x: tg.nn.init.normal_(x, std=-1.0), "normal_: std"),
        (lambda x: tg.nn.init.uniform_(x, 1, 0), "uniform_"),
        (lambda x: tg.normal(0.0, -1.0, (2,)), "normal: every std"), (lambda x: tg.normal(x, -x), "normal: every std"),
        (lambda x: tg.normal(x, float("nan")), "normal: every std"), (lambda x: tg.bernoulli(x, 1.5), "bernoulli"),
    ],
)  # fmt: skip
def test_draws_need_a_distribution(draw: Any, said: str) -> None:
    x = tg.ones(2)
    with pytest.raises(ValueError, match=said):
        draw(x)
    assert x.tolist() == [1, 1]


def test_probabilities_of_each_element() -> None:
    assert tg.zeros(2, 2).bernoulli_(tg.tensor([0.0, 1.0])).tolist() == [[0, 1], [0, 1]]
    assert tg.zeros(2, dtype=tg.int64).bernoulli_(tg.tensor([1.0, 0.0])).tolist() == [1, 0]


# Numbers that a dtype does not hold

PUTS: dict[str, Callable[[Any, str], tg.Tensor]] = {
    "Tensor": lambda v, d: tg.tensor([v], dtype=d),
    "full": lambda v, d: tg.full((1,), v, dtype=d),
    "full_like": lambda v, d: tg.full_like(tg.zeros(1, dtype=d), v),
    "new_full": lambda v, d: tg.zeros(1, dtype=d).new_full((1,), v),
    "fill_": lambda v, d: tg.zeros(1, dtype=d).fill_(v),
    "masked_fill": lambda v, d: tg.zeros(1, dtype=d).masked_fill(tg.tensor([True]), v),
    "masked_fill_": lambda v, d: tg.zeros(1, dtype=d).masked_fill_(tg.tensor([True]), v),
}


@pytest.mark.parametrize("name", PUTS)
def test_numbers_out_of_a_dtypes_range_are_refused(name: str) -> None:
    put = PUTS[name]
    for dtype, value in (("uint8", 300), ("int8", 128), ("int32", 2**40), ("int64", 1e30), ("int64", float("nan")),
                         ("int32", float("inf")), ("uint8", -300.0)):  # fmt: skip
        with pytest.raises(ValueError, match=f"none of the numbers of {dtype}"):
            put(value, dtype)
    for dtype, value, held in (("int64", 2.7, 2), ("int8", -2.7, -2), ("bool", 2.5, True), ("uint8", 255, 255),
                               ("float16", 0.5, 0.5), ("int64", -(2**63), -(2**63)),
                               ("float32", float("inf"), float("inf"))):  # fmt: skip
        made = put(value, dtype)
        assert (made.item(), made.dtype) == (held, dtype)


def test_an_integer_out_of_range_is_not_written_to_an_element() -> None:
    x = tg.zeros(2, dtype="int8")
    for key in (0, slice(None), tg.tensor([True, False])):
        with pytest.raises(ValueError, match="none of the numbers of int8"):
            x[key] = 300
    assert x.tolist() == [0, 0]
    x[1] = -128
    assert x.tolist() == [0, -128]


def test_a_fill_is_of_one_number_in_the_tensors_dtype() -> None:
    mask = tg.tensor([True, False])
    for dtype in DTYPES:
        x = tg.zeros(2, dtype=dtype)
        for value in (tg.tensor(1.75), tg.tensor(1), 1):
            for made in (x.masked_fill(mask, value), x.clone().masked_fill_(mask, value)):
                assert made.dtype == dtype
                assert made[0] == tg.tensor(float(value)).to(made.dtype)
    for call in (
        lambda: x.masked_fill(mask, tg.ones(2)),
        lambda: x.masked_fill_(mask, tg.ones(2)),
        lambda: x.fill_(tg.ones(1)),
    ):
        with pytest.raises(ValueError, match="a tensor of no axes, got shape"):
            call()
    value = tg.tensor(3.0, requires_grad=True)
    y = (tg.ones(2, requires_grad=True) * 1).masked_fill_(mask, value)
    assert tg.grad(y.sum(), value)[0] == 1
