"""What a user holds: construction, dtypes beside numbers and arrays, Python's manners, conversion, creation."""

from __future__ import annotations

import copy
import math
import operator
import pickle
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu.arrays import dtypes
from tinygrad_edu.nn import functional as F


class TestConstruction:
    @pytest.mark.parametrize(
        ("data", "dtype"),
        [
            (1.5, "float32"), ([1, 2], "int64"), ([[True]], "bool"), ([1, 2.5], "float32"), ([], "float32"),
            (np.ones(2), "float64"), (np.ones(2, np.float32), "float32"), (np.array([1], np.int32), "int32"),
            (np.float64(2), "float64"), (np.array(2, np.uint8), "uint8"), (True, "bool"),
        ],
    )  # fmt: skip
    def test_dtype(self, data: Any, dtype: str) -> None:
        assert tg.Tensor(data).dtype == tg.tensor(data).dtype == dtype

    def test_numbers_are_data_to_tensor(self) -> None:
        for data, dtype in ((5, "int64"), (np.uint8(2), "uint8"), (np.int64(5), "int64")):
            assert (tg.tensor(data).shape, tg.tensor(data).dtype, tg.tensor(data).item()) == ((), dtype, data)
        shape = tg.zeros(2, 3).shape
        for held in (tg.tensor(shape), tg.as_tensor(shape), tg.zeros(1).new_tensor(shape), tg.Tensor((2, 3))):
            assert held.tolist() == [2, 3]

    @pytest.mark.parametrize(
        ("given", "shape"),
        [
            ((), (0,)), ((5,), (5,)), ((0,), (0,)), ((np.int64(4),), (4,)), ((2, 3), (2, 3)), ((2, 1, 1, 1, 1, 3),) * 2,
            ((2, np.int32(3)), (2, 3)), ((tg.tensor(2), tg.tensor(3)), (2, 3)), ((tg.zeros(2, 3).shape,), (2, 3)),
            ((tg.zeros(2, 3, 4).shape[1:],), (3, 4)), ((tg.zeros(2).size(),), (2,)), ((tg.Size([3, 1]),), (3, 1)),
            ((operator.add(tg.zeros(2).shape, (3,)),), (2, 3)), (((3, *tg.zeros(2).shape),), None),
            ((tg.zeros(()).shape,), ()),
        ],
    )  # fmt: skip
    def test_lengths_and_shapes(self, given: Any, shape: Any) -> None:
        """`Tensor(5)` and `Tensor(x.shape)` make tensors of that shape, as PyTorch's do; a plain tuple is data."""
        like = tg.ones(1, dtype=tg.float64)
        for make, dtype in (
            (tg.Tensor, "float32"),
            (tg.LongTensor, "int64"),
            (tg.FloatTensor, "float32"),
            (like.new, "float64"),
        ):
            made = make(*given)
            assert made.shape == ((2,) if shape is None else shape)
            if shape is not None:
                assert made.dtype == dtype
                assert not made.any()

    def test_lengths_with_options(self) -> None:
        x = tg.Tensor(4, requires_grad=True, dtype=tg.float64)
        assert (x.shape, x.dtype, x.requires_grad) == ((4,), "float64", True)
        assert tg.nn.Parameter(tg.Tensor(4)).shape == (4,)
        negative: list[Any] = [(-1,), (2, -3), (tg.Size([-2]),)]
        for given in negative:
            with pytest.raises(ValueError, match="negative"):
                tg.Tensor(*given)
        mixed: list[Any] = [(2, 0.5), ([2], [3]), ([1.0], "cpu")]
        for given in mixed:
            with pytest.raises(TypeError, match="several arguments are lengths"):
                tg.Tensor(*given)

    def test_a_size_is_a_tuple_that_stays_one(self) -> None:
        shape, lengths = tg.zeros(2, 3, 4).shape, [2, 3, 4]
        assert shape == tuple(lengths) == shape[:]
        for part in (
            shape[1:],
            operator.add(shape, (1,)),
            operator.add((1,), shape),
            shape * 2,
            2 * shape,
            tg.Size(iter([2])),
            pickle.loads(pickle.dumps(shape)),
        ):
            assert type(part) is tg.Size
        assert (shape.numel(), shape[-1], shape.index(3), tg.Size().numel()) == (24, 4, 1, 1)
        a, *rest = shape
        assert (a, rest, hash(shape)) == (2, [3, 4], hash((2, 3, 4)))
        with pytest.raises(TypeError, match="lengths are integers"):
            tg.Size([0.5])

    def test_memory_is_its_own_and_writable(self) -> None:
        source = np.ones(3, np.float32)
        source.flags.writeable = False
        t = tg.Tensor(source)
        assert not np.shares_memory(t.array, source)
        assert t.array.flags.writeable
        t.fill_(2)
        assert source[0] == 1
        view = np.ones((2, 4), np.float32)[:, ::2]
        assert not np.shares_memory(tg.Tensor(view).array, view)

    @pytest.mark.parametrize(
        ("make", "error", "message"),
        [
            (lambda: tg.Tensor([[1], [1, 2]]), ValueError, "no rectangular array"),
            (lambda: tg.Tensor(["a"]), TypeError, "holds no numbers"),
            (lambda: tg.Tensor([1, 2], requires_grad=True), TypeError, "only floating tensors have gradients.*int64"),
            (lambda: tg.Tensor([True]).requires_grad_(), TypeError, "only floating tensors have gradients"),
            (lambda: tg.Tensor([1.0], dtype="float99"), TypeError, "dtype 'float99' is unknown"),
            (lambda: tg.Tensor([1.0], device="gpu"), ValueError, "device 'gpu' is unknown; use 'cpu', 'cuda'"),
            (lambda: tg.Tensor([1.0], device="cuda:x"), ValueError, "is unknown"),
        ],
    )
    def test_errors(self, make: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            make()

    def test_cuda_says_what_is_missing(self) -> None:
        try:
            import cupy

            cupy.cuda.runtime.getDeviceCount()
            pytest.skip("a GPU is here")
        except Exception:  # no CuPy, or no driver under it: both are answered below
            pass
        with pytest.raises(ValueError, match=r"needs CuPy, which is not installed|needs an NVIDIA GPU"):
            tg.zeros(1, device="cuda")


class TestDtypes:
    @pytest.mark.parametrize(
        "other", [2, 2.5, True, np.float64(0.5), np.sqrt(64), np.array(1.0), np.ones(2), np.int64(3), np.arange(1, 3)]
    )
    def test_nothing_widens_a_float32(self, other: Any) -> None:
        h = tg.ones(2, requires_grad=True)
        for y in (h * other, other * h, h + other, other - h, h / other, other / (h + 1), h**2, tg.maximum(h, other)):
            assert isinstance(y, tg.Tensor)
            assert y.dtype == np.float32
        (g,) = tg.grad((h * other).sum(), h)
        assert g.dtype == np.float32

    def test_numbers_keep_their_digits_beside_a_float64(self) -> None:
        x = tg.zeros(1, dtype=tg.float64)
        x[0] = 0.1
        assert x.item() == 0.1
        index = tg.tensor([0])
        for y in (x.scatter(0, index, 0.1), x.scatter(0, index, value=0.1), x.index_copy(0, index, [0.1])):
            assert y.item() == 0.1

    def test_tensors_promote_as_in_pytorch(self) -> None:
        i, f, d, b = tg.arange(2), tg.ones(2), tg.ones(2, dtype="float64"), tg.tensor([True, False])
        scalar = tg.tensor(np.float64(2.0))
        assert (i + f).dtype == np.float32
        assert (f + d).dtype == np.float64
        assert (f * scalar).dtype == np.float32
        assert (i * scalar).dtype == np.float64
        assert (i + 1).dtype == np.int64
        assert (i * 1.5).dtype == np.float32
        assert (b + b).dtype == np.bool_
        assert (b * 2).dtype == np.int64
        assert (i / i.sum()).dtype == np.float32
        assert tg.where(b, f, 0.0).dtype == np.float32
        assert tg.where(b, 1.0, i).dtype == np.float32

    def test_gradients_come_back_in_the_inputs_dtype(self) -> None:
        f, d = tg.ones(2, requires_grad=True), tg.Tensor(np.ones(2), requires_grad=True)
        gf, gd = tg.grad((f * d).sum(), [f, d])
        assert (gf.dtype, gd.dtype) == (np.float32, np.float64)

    def test_small_unsigned_integers_do_not_wrap_in_a_loss(self) -> None:
        p, q = (tg.Tensor(np.array([v], np.uint8)) for v in (5, 7))
        assert ((p.float() - q.float()) ** 2).item() == 4.0
        assert (p.float() - q).abs().item() == 2.0
        for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss):
            with pytest.raises(TypeError, match=r"must be floating, got uint8; convert it with \.float\(\)"):
                loss(p, q)

    def test_integers_have_gradients_once_they_are_floating(self) -> None:
        x = tg.tensor([1, 2, 3]).double().requires_grad_()
        (g,) = tg.grad((x * x).mean(), x)
        np.testing.assert_allclose(g.array, [2 / 3, 4 / 3, 2], rtol=1e-15)

    @pytest.mark.parametrize("left", [np.float64(3), np.array([10.0, 20.0]), np.ones((2, 2))])
    def test_numpy_on_the_left_leaves_the_op_to_the_tensor(self, left: Any) -> None:
        t = tg.Tensor([1.0, 2.0], requires_grad=True)
        for y in (left * t, left - t, left / t, left + t, *((left @ t, t @ left) if np.ndim(left) else ())):
            assert type(y) is tg.Tensor
            assert y.dtype == tg.float32
            assert y.requires_grad
        loss = (np.float64(3) * t).sum() + (np.array([10.0, 20.0]) * t).sum()
        assert loss.item() == 59
        assert tg.grad(loss, t)[0].tolist() == [13.0, 23.0]
        assert tg.grad((np.array([10.0, 20.0]) - t).sum(), t)[0].tolist() == [-1.0, -1.0]
        assert tg.grad((np.array([10.0, 20.0]) / t).sum(), t)[0].tolist() == [-10.0, -5.0]
        assert tg.grad(np.array([10.0, 20.0]) @ t, t)[0].tolist() == [10.0, 20.0]


class TestManners:
    def test_repr(self) -> None:
        x = tg.Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        assert repr(x) == "tensor([[1., 2.],\n        [3., 4.]], requires_grad=True)"
        assert repr(x.sum()) == "tensor(10., grad_fn=<sum>)"
        assert repr(tg.Tensor(np.ones(1))) == "tensor([1.], dtype=float64)"
        assert repr(tg.zeros(0)) == "tensor([])"
        assert "dtype" not in repr(tg.ones(30, 30) / 3)

    def test_python_protocols(self) -> None:
        x = tg.Tensor([1.0, 2.0, 3.0])
        assert len(x) == 3
        assert [float(v) for v in x] == [1.0, 2.0, 3.0]
        assert bool(x[0]) is True
        assert int(x[1]) == 2
        assert [10, 20, 30][tg.tensor(1)] == 20
        assert x.tolist() == [1.0, 2.0, 3.0]
        assert np.asarray(x).sum() == 6
        assert x.size() == (3,)
        assert x.size(0) == 3
        assert x.numel() == 3
        assert x.dim() == 1
        assert (x == x) is not True
        assert (x == x).all()
        assert (x != None) is True  # noqa: E711
        assert x in {x}
        for call, error in (
            (lambda: len(x[0]), TypeError), (lambda: iter(x[0]), TypeError), (lambda: bool(x), ValueError),
            (x.item, ValueError), (lambda: [1][x], TypeError), (lambda: ~x, TypeError),
        ):  # fmt: skip
            with pytest.raises(error):
                call()

    def test_text_of_a_number_is_the_numbers(self) -> None:
        """A tensor of no axes is formatted as its element, any other as its repr, which takes no spec."""
        loss, count, flag = tg.tensor(0.5, requires_grad=True) * 1, tg.tensor(3), tg.tensor(True)
        assert f"{loss} {count} {flag} {loss:.3f} {loss:>8} {loss:e} {count:04d} {count:x}" == (
            "0.5 3 True 0.500      0.5 5.000000e-01 0003 3"
        )
        assert str.format("loss {0}, step {1}", loss, count) == "loss 0.5, step 3"
        assert operator.mod("%.2f %d %s %r", (loss, count, flag, count)) == "0.50 3 tensor(True) tensor(3)"
        assert f"{loss!r}" == "tensor(0.5, grad_fn=<mul>)"
        vector = tg.tensor([2.567])
        assert f"{vector}" == str(vector) == "tensor([2.567])"
        assert operator.mod("%.1f", vector) == "2.6"
        for spec in (".3f", ">10", "d"):
            with pytest.raises(TypeError, match="this tensor has shape"):
                format(vector, spec)

    def test_one_element_is_a_number_to_python(self) -> None:
        one = tg.tensor([[2.75]])
        assert (float(one), int(one), bool(one), math.floor(one), math.sqrt(tg.tensor(4))) == (2.75, 2, True, 2, 2.0)
        assert (operator.index(tg.tensor([3])), operator.index(tg.tensor(True)), "ab"[tg.tensor(True)]) == (3, 1, "b")
        assert list(range(tg.tensor(2))) == [0, 1]
        with pytest.raises(TypeError, match="only one integer is an index"):
            operator.index(tg.tensor(2.0))
        for wrong in (tg.zeros(0), tg.zeros(2)):
            for convert in (float, int, bool, operator.index):
                with pytest.raises((ValueError, TypeError)):
                    convert(wrong)

    def test_numpy_refuses_to_lose_gradients(self) -> None:
        x = tg.ones(2, requires_grad=True)
        with pytest.raises(RuntimeError, match=r"x\.detach\(\)\.numpy\(\)"):
            x.numpy()
        assert np.shares_memory(x.detach().numpy(), x.array)

    def test_copies_and_pickles(self) -> None:
        x = tg.Tensor([1.0, 2.0], requires_grad=True)
        (x * x).sum().backward()
        twin = copy.deepcopy(x)
        assert twin.requires_grad
        assert twin.grad is not None
        assert twin.grad.tolist() == [2.0, 4.0]
        assert not np.shares_memory(twin.array, x.array)
        back = pickle.loads(pickle.dumps(x))
        assert back.requires_grad
        assert back.tolist() == [1.0, 2.0]
        for act in (copy.deepcopy, pickle.dumps):
            with pytest.raises(RuntimeError):
                act(x * 2)

    def test_data_and_grad_are_tensors(self) -> None:
        x = tg.Tensor([1.0, 2.0], requires_grad=True)
        assert isinstance(x.data, tg.Tensor)
        assert not x.data.requires_grad
        x.data = tg.Tensor([5.0, 6.0])
        assert x.tolist() == [5.0, 6.0]
        given = tg.ones(2)
        x.grad = given
        (x * 3).sum().backward()
        assert x.grad.tolist() == [4.0, 4.0]
        assert given.tolist() == [1.0, 1.0]
        assert isinstance(x.grad, tg.Tensor)
        with pytest.raises(ValueError, match=r"grad: .*\(2,\); got \(3,\)"):
            x.grad = tg.ones(3)
        with pytest.raises(ValueError, match="data: new values"):
            x.data = tg.ones(3)

    def test_in_place(self) -> None:
        x = tg.zeros(2, 3)
        x[0] = tg.ones(3)
        x[:, 1] = 5
        assert x.tolist() == [[1, 5, 1], [0, 5, 0]]
        assert x.copy_([1.0, 2.0, 3.0]) is x
        assert x.zero_().tolist() == [[0] * 3] * 2

    def test_arithmetic_in_place(self) -> None:
        w = tg.ones(2, requires_grad=True)
        alias, memory = w, w.array
        (w * 3).sum().backward()
        with tg.no_grad():
            w -= 0.5 * w.grad  # type: ignore[operator]
            w.add_(tg.ones(2), alpha=2).mul_(4).div_(2).sub_([1.0, 0.0])
        assert w is alias
        assert w.array is memory
        assert w.requires_grad
        assert w.tolist() == [2.0, 3.0]
        w.data -= 1.0
        assert w.tolist() == [1.0, 2.0]
        n = tg.arange(2)
        n += 1
        n *= 3
        assert n.tolist() == [3, 6]
        assert n.dtype == np.int64
        for change, error in (
            (lambda: n.add_(0.5), TypeError),
            (lambda: n.div_(2), TypeError),
            (lambda: n.add_(tg.ones(2, 2).long()), ValueError),
        ):
            with pytest.raises(error):
                change()
        assert n.tolist() == [3, 6]

    def test_format(self) -> None:
        assert f"{tg.tensor(1.23456):.2f}" == "1.23"
        assert f"{tg.ones(1)}" == "tensor([1.])"

    def test_leaves(self) -> None:
        x = tg.ones(1, requires_grad=True)
        assert x.is_leaf
        assert not (x * 2).is_leaf
        with pytest.raises(RuntimeError, match="detach"):
            (x * 2).requires_grad_(False)
        assert not x.detach().requires_grad
        y = tg.ones(1)
        y.requires_grad = True
        assert y.requires_grad
        for tensor, value, error in ((tg.arange(2), True, TypeError), (x * 2, False, RuntimeError)):
            with pytest.raises(error, match="requires_grad: "):
                tensor.requires_grad = value


class TestConversion:
    def test_to(self) -> None:
        x = tg.ones(2)
        assert x.to(tg.float32) is x
        assert x.to("cpu") is x
        assert x.to(tg.float64).dtype == x.double().dtype == np.float64
        assert x.to("cpu", tg.int64).dtype == x.long().dtype == np.int64
        assert x.to(tg.tensor(1)).dtype == np.int64
        assert x.bool().dtype == np.bool_
        assert x.device == "cpu"

    def test_dtype_names(self) -> None:
        assert dtypes.dtype_of(float) == np.float32
        assert dtypes.dtype_of(int) == np.int64
        with pytest.raises(TypeError, match="holds no numbers"):
            dtypes.dtype_of("U3")


class TestCreation:
    def test_values(self) -> None:
        assert tg.zeros(2, 1).tolist() == [[0.0], [0.0]]
        assert tg.ones((2,)).tolist() == [1.0, 1.0]
        assert tg.full((2,), 7).dtype == np.int64
        assert tg.full((2,), 7.0).dtype == np.float32
        assert tg.arange(1, 7, 2).tolist() == [1, 3, 5]
        assert tg.arange(0.0, 1.0, 0.5).dtype == np.float32
        assert tg.zeros_like(tg.ones(2, dtype="float64")).dtype == np.float64
        assert tg.empty(3).shape == (3,)

    def test_random_streams(self) -> None:
        tg.manual_seed(1)
        a = tg.randn(3), tg.rand(3), tg.randint(0, 9, (3,))
        tg.manual_seed(1)
        b = tg.randn(3), tg.rand(3), tg.randint(0, 9, (3,))
        assert all((x == y).all() for x, y in zip(a, b, strict=True))
        assert a[0].dtype == np.float32
        assert a[2].dtype == np.int64
        g = tg.Generator(5)
        tg.randn(2, generator=g)
        state = g.get_state()
        assert state == {"seed": 5, "count": 1}
        first = tg.rand(4, generator=g)
        g.set_state(state)
        assert (tg.rand(4, generator=g) == first).all()
        assert not (tg.rand(4, generator=g) == first).any()

    @pytest.mark.parametrize("seed", [-1, 2**64, 1.5, True, "1"])
    def test_bad_seeds(self, seed: Any) -> None:
        with pytest.raises((ValueError, TypeError), match="seed must"):
            tg.manual_seed(seed)

    def test_normal_has_its_moments(self) -> None:
        x = tg.randn(100, 100, generator=tg.Generator(0)).array
        assert abs(x.mean()) < 0.03
        assert abs(x.std() - 1) < 0.03
        u = tg.zeros(10_000).uniform_(-1, 3, tg.Generator(0)).array
        assert u.min() >= -1
        assert u.max() < 3
        assert abs(u.mean() - 1) < 0.05


@pytest.mark.parametrize("make", [tg.zeros, lambda n: tg.ones(2, 3).reshape(n), lambda n: tg.rand(1, n)])
def test_lengths_are_integers(make: Any) -> None:
    with pytest.raises(TypeError, match="lengths, axes and shifts are integers"):
        make(6.0)


def test_sums_of_small_integers_are_int64_unless_a_dtype_is_asked_for() -> None:
    x = tg.tensor([200, 100], dtype=tg.uint8)
    for found in (x.sum(), x.prod(), x.cumsum(0), x.cumprod(0), tg.nansum(x), tg.einsum("i->", x)):
        assert found.dtype == tg.int64
    assert (x.sum() - 400).item() == -100
    for found in (x.sum(dtype=tg.int32), x.prod(dtype=tg.int32), x.cumsum(0, dtype=tg.int32)):
        assert found.dtype == tg.int32


def test_integers_outside_of_a_dtype_wrap_in_arithmetic_and_not_in_comparisons() -> None:
    x = tg.tensor([1, 200], dtype=tg.uint8)
    assert (x + 300).tolist() == [45, 244]
    assert (x - -1).tolist() == [2, 201]
    assert (x < 300).tolist() == [True, True]
    assert (x == -56).tolist() == [False, False]
    with pytest.raises(ValueError, match="does not fit"):
        tg.where(x > 1, x, 300)
    with pytest.raises(ValueError, match="63 bits"):
        x.add(2**70)


def test_zero_times_what_is_ignored_is_zero() -> None:
    nan, one, two = float("nan"), tg.tensor([[1.0]]), tg.tensor([[2.0]])
    x = tg.tensor([[nan]], requires_grad=True)
    y = tg.addmm(x, one, two, beta=0)
    y.sum().backward()
    assert y.item() == 2.0
    assert x.grad is not None
    assert x.grad.tolist() == [[0.0]]
    assert tg.addmm(two, one * nan, one, alpha=0).item() == 2.0
    with pytest.raises(TypeError, match="must be integers"):
        tg.addmm(two.long(), one.long(), one.long(), beta=0.5)


def test_gradients_at_zeros_and_ties() -> None:
    def slope(function: Any, *values: float) -> list[float]:
        x = tg.tensor(values, dtype=tg.float64, requires_grad=True)
        return tg.grad(function(x), x)[0].tolist()

    assert slope(lambda x: x.norm(0.5), 0.0, 4.0) == [0.0, 1.0]
    assert slope(lambda x: x.norm(-1), 0.0, 4.0) == [0.0, 0.0]
    assert slope(lambda x: x.norm(0), 0.0, 4.0) == [0.0, 0.0]
    assert slope(lambda x: x.median(), 0.0, 0.0, 5.0) == [0.5, 0.5, 0.0]
    assert slope(lambda x: x.xlogy(tg.tensor([1.0, 1.0])).sum(), 0.0, 2.0) == [0.0, 0.0]
    assert slope(lambda x: x.fmax(tg.tensor([1.0, float("nan")])).sum(), 1.0, 2.0) == [1.0, 1.0]
    assert slope(lambda x: (2**x).sum(), 0.0, 1.0) == [math.log(2), 2 * math.log(2)]
    assert tg.tensor(1e16, dtype=tg.float64).lerp(tg.tensor(1.0, dtype=tg.float64), 1).item() == 1.0


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "i4"])
def test_numbers_in_the_byte_order_of_another_machine(kind: str) -> None:
    swapped = np.arange(5000).astype(kind).astype(np.dtype(kind).newbyteorder())
    for t in (tg.tensor(swapped), tg.as_tensor(swapped), tg.zeros(5000, dtype=swapped.dtype) + tg.tensor(swapped)):
        assert t.array.dtype == np.dtype(kind)
        assert t.array.dtype.isnative
        np.testing.assert_array_equal(t.array, swapped)
    p = tg.nn.Parameter(tg.zeros(5000))
    p.data = swapped
    assert p.array.dtype.isnative
    with pytest.raises(ValueError, match="another order"):
        tg.from_numpy(swapped)
