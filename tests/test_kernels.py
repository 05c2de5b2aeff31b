"""The NumPy kernels against plain float64 formulas and finite differences; none may write to what it was given."""

import math

import numpy as np
import pytest

from tests.arrays import DTYPES, FORMS, SHAPES, agrees, close, numbers
from tinygrad_edu.kernels import numpy as kernels

# the error function and GELU

exact_erf = np.vectorize(math.erf, otypes=[np.float64])


def gelu_formula(x, approximate):
    x = np.asarray(x, np.float64)
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1 + exact_erf(x / math.sqrt(2)))


@pytest.mark.parametrize(("dtype", "relative"), [(np.float32, 4e-7), (np.float64, 1e-15)])
def test_erf_is_accurate_everywhere(dtype, relative):
    x = np.concatenate([np.linspace(-7, 7, 40_001), [1e-30, -1e-10, 0.0, 0.5, -0.5]]).astype(dtype)
    np.testing.assert_allclose(kernels.erf(x), exact_erf(x), rtol=relative, atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_erf_of_extremes(dtype):
    got = kernels.erf(np.array([np.inf, -np.inf, 1e30, -1e30, 0.0, -0.0, np.nan], dtype))
    np.testing.assert_array_equal(got, np.array([1, -1, 1, -1, 0, -0.0, np.nan], dtype))
    assert np.signbit(got[5])


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_gelu(shape, form, dtype, approximate):
    x = numbers(shape, dtype, size=2, form=form)
    y, change = kernels.gelu(x, approximate)
    close(y, gelu_formula(x, approximate), dtype)
    wide = np.asarray(x, np.float64)
    close(change, (gelu_formula(wide + 1e-5, approximate) - gelu_formula(wide - 1e-5, approximate)) / 2e-5, dtype, 100)
    alone, none = kernels.gelu(x, approximate, slope=False)
    assert none is None
    np.testing.assert_array_equal(alone, y)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_gelu_of_extremes(dtype, approximate):
    with np.errstate(all="raise", under="ignore"):
        y, change = kernels.gelu(np.array([np.inf, -np.inf, 1e30, -1e30, 60, -60, 0], dtype), approximate)
    np.testing.assert_array_equal(y, np.array([np.inf, 0, 1e30, 0, 60, 0, 0], dtype))
    np.testing.assert_array_equal(change, np.array([1, 0, 1, 0, 1, 0, 0.5], dtype))
    assert np.isnan(kernels.gelu(np.array([np.nan], dtype), approximate)).all()


def test_gelu_of_half_precision_keeps_it():
    y, change = kernels.gelu(np.array([1.0], np.float16))
    assert y.dtype == change.dtype == np.float16
    assert abs(float(y[0]) - 0.8413) < 1e-3


def test_gelu_refuses_an_unknown_approximation():
    with pytest.raises(ValueError, match="'sigmoid'"):
        kernels.gelu(np.zeros(3), "sigmoid")


# softmax


def softmax_formula(x, axis):
    e = np.exp(np.asarray(x, np.float64) - np.max(x, axis=axis, keepdims=True, initial=-1e30))
    return e / e.sum(axis=axis, keepdims=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("shape", "axis"), [(s, a) for s in SHAPES for a in {0, -1, len(s) // 2}])
def test_softmax_and_log_softmax(shape, axis, form, dtype):
    x, g = numbers(shape, dtype, 1, 3, form), numbers(shape, dtype, 2, 1, form)
    wide, wg = np.asarray(x, np.float64), np.asarray(g, np.float64)
    p = softmax_formula(x, axis)
    y = kernels.softmax(x, axis)
    close(y, p, dtype)
    y.flags.writeable = False
    close(kernels.softmax_backward(g, y, axis), p * (wg - (wg * p).sum(axis=axis, keepdims=True)), dtype)
    logs, saved = kernels.log_softmax(x, axis)
    peak = np.max(wide, axis=axis, keepdims=True, initial=-1e30)
    total = np.exp(wide - peak).sum(axis=axis, keepdims=True)
    close(logs, wide - peak - np.log(np.maximum(total, 1e-300)), dtype)
    logs.flags.writeable = False
    close(kernels.log_softmax_backward(g, x, saved, axis), wg - p * wg.sum(axis=axis, keepdims=True), dtype, 10)


def test_softmax_backward_against_differences():
    x, g = numbers((3, 6), np.float64, 1), numbers((3, 6), np.float64, 2)
    agrees(kernels.softmax_backward(g, kernels.softmax(x, 1), 1), lambda a: softmax_formula(a, 1), x, g)
    saved = kernels.log_softmax(x, 0)[1]
    agrees(kernels.log_softmax_backward(g, x, saved, 0), lambda a: np.log(softmax_formula(a, 0)), x, g)


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_of_hidden_and_extreme_rows(dtype):
    x = np.array([[-np.inf, -np.inf], [-np.inf, 3], [1e30, -1e30], [1e4, 1e4]], dtype)
    with np.errstate(all="raise", under="ignore"):
        y = kernels.softmax(x, -1)
        logs, saved = kernels.log_softmax(x, -1)
        dx = kernels.softmax_backward(np.ones_like(x), y, -1)
        dlogs = kernels.log_softmax_backward(np.array([[1, 2]] * 4, dtype), x, saved, -1)
    np.testing.assert_array_equal(y, [[0, 0], [0, 1], [1, 0], [0.5, 0.5]])
    assert np.isneginf(logs[0]).all()
    np.testing.assert_array_equal(logs[1], [-np.inf, 0])
    np.testing.assert_array_equal(dx, np.zeros_like(x))
    np.testing.assert_array_equal(dlogs, [[1, 2], [1, -1], [-2, 2], [-0.5, 0.5]])  # from −∞ alone, no softmax is taken


# layer norm


def norm_formula(x, weight, bias, eps, axes_count):
    axes = tuple(range(-axes_count, 0))
    x = np.asarray(x, np.float64)
    y = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)
    return y * (1 if weight is None else weight) + (0 if bias is None else bias)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("affine", ["both", "weight", "none"])
@pytest.mark.parametrize(
    ("shape", "axes_count"),
    [((5, 7), 1), ((2, 3, 128), 1), ((2, 3, 4, 6), 2), ((6,), 1), ((300, 64), 1), ((0, 4), 1), ((2, 3, 4), 3)],
)
def test_layer_norm(shape, axes_count, affine, form, dtype):
    x, g = numbers(shape, dtype, 1, 3, form), numbers(shape, dtype, 2, 1, form)
    weight = None if affine == "none" else numbers(shape[-axes_count:], dtype, 3)
    bias = numbers(shape[-axes_count:], dtype, 4) if affine == "both" else None
    y, mean, rstd = kernels.layer_norm(x, weight, bias, 1e-5, axes_count)
    close(y, norm_formula(x, weight, bias, 1e-5, axes_count), dtype, 3)
    mean.flags.writeable = rstd.flags.writeable = False
    need = True, weight is not None, bias is not None
    dx, dweight, dbias = kernels.layer_norm_backward(g, x, weight, mean, rstd, need, axes_count)
    wide, wg = np.asarray(x, np.float64), np.asarray(g, np.float64)
    axes = tuple(range(-axes_count, 0))
    unit = norm_formula(x, None, None, 1e-5, axes_count)
    h = wg * (1 if weight is None else weight)
    inner = h - h.mean(axes, keepdims=True) - unit * (h * unit).mean(axes, keepdims=True)
    close(dx, inner / np.sqrt(wide.var(axes, keepdims=True) + 1e-5), dtype, 10)
    rows = tuple(range(len(shape) - axes_count))
    for got, want, wanted in ((dweight, (wg * unit).sum(rows), need[1]), (dbias, wg.sum(rows), need[2])):
        if wanted:
            close(got, want, dtype, 10)
        else:
            assert got is None


def test_layer_norm_backward_against_differences():
    x, g = numbers((3, 5), np.float64, 1), numbers((3, 5), np.float64, 2)
    w, b = numbers((5,), np.float64, 3), numbers((5,), np.float64, 4)
    _, mean, rstd = kernels.layer_norm(x, w, b)
    dx, dw, db = kernels.layer_norm_backward(g, x, w, mean, rstd)
    agrees(dx, lambda a: norm_formula(a, w, b, 1e-5, 1), x, g)
    agrees(dw, lambda a: norm_formula(x, a, b, 1e-5, 1), w, g)
    agrees(db, lambda a: norm_formula(x, w, a, 1e-5, 1), b, g)


@pytest.mark.parametrize("dtype", DTYPES)
def test_layer_norm_of_a_constant_row(dtype):
    x = np.full((1, 4), 5, dtype)
    y, mean, rstd = kernels.layer_norm(x)
    assert np.abs(y).max() == 0
    dx = kernels.layer_norm_backward(np.array([[1, 0, 0, 0]], dtype), x, None, mean, rstd, (True, False, False))[0]
    np.testing.assert_allclose(dx, np.array([[0.75, -0.25, -0.25, -0.25]]) / math.sqrt(1e-5), rtol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_layer_norm_over_one_feature(dtype):
    x, w, b = np.array([[7], [-2], [0.5]], dtype), np.array([4], dtype), np.array([0.3], dtype)
    y, mean, rstd = kernels.layer_norm(x, w, b)
    np.testing.assert_array_equal(y, np.full((3, 1), 0.3, dtype))
    dx, dw, db = kernels.layer_norm_backward(np.array([[1], [2], [3]], dtype), x, w, mean, rstd)
    np.testing.assert_array_equal(dx, np.zeros_like(x))
    assert (dw[0], db[0]) == (0, 6)


def test_layer_norm_keeps_its_precision_far_from_zero():
    x = numbers((4, 256), np.float64) + 1000
    y, _, _ = kernels.layer_norm(x.astype(np.float32))
    assert np.abs(y - norm_formula(x.astype(np.float32), None, None, 1e-5, 1)).max() < 2e-3


# linear and embedding


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(3, 4), (2, 5, 8), (4,), (0, 4), (3, 0), (2, 3, 4, 128)])
@pytest.mark.parametrize("outputs", [1, 6, 0, 700])
def test_linear(shape, outputs, form, dtype):
    x = numbers(shape, dtype, 1, form=form)
    weight, bias = numbers((outputs, shape[-1]), dtype, 2), numbers((outputs,), dtype, 3)
    g = numbers((*shape[:-1], outputs), dtype, 4, form=form)
    close(kernels.linear(x, weight), np.asarray(x, np.float64) @ weight.T, dtype, 5)
    close(kernels.linear(x, weight, bias), np.asarray(x, np.float64) @ weight.T + bias, dtype, 5)
    dx, dweight, dbias = kernels.linear_backward(g, x, weight)
    rows = math.prod(shape[:-1])
    flat, flat_x = np.asarray(g, np.float64).reshape(rows, outputs), np.asarray(x).reshape(rows, shape[-1])
    close(dx, np.asarray(g, np.float64) @ weight, dtype, 5)
    close(dweight, flat.T @ flat_x, dtype, 5)
    close(dbias, flat.sum(0), dtype, 5)


def test_linear_backward_computes_what_is_needed():
    x, w, g = (numbers(s, np.float32) for s in ((2, 3), (4, 3), (2, 4)))
    assert [d is None for d in kernels.linear_backward(g, x, w, (False, True, False))] == [True, False, True]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [4, 50, 3000])
@pytest.mark.parametrize("shape", [(9,), (3, 40), (0,), (2, 0, 3), (1, 2000)])
def test_embedding_adds_up_repeated_ids(shape, rows, dtype):
    ids = np.random.default_rng(1).integers(0, rows, shape)
    ids.flags.writeable = False
    weight, g = numbers((rows, 5), dtype), numbers((*shape, 5), dtype, 2)
    y = kernels.embedding(ids, weight)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, weight[ids])
    want = np.zeros((rows, 5))
    np.add.at(want, ids.reshape(-1), g.reshape(-1, 5).astype(np.float64))
    close(kernels.embedding_backward(g, ids, rows), want, dtype)


def test_embedding_gradient_of_the_repeated_ids_case():
    got = kernels.embedding_backward(np.ones((2, 3, 2)), np.array([[1, 3, 1], [1, 0, 3]]), 4)
    np.testing.assert_array_equal(got, [[1, 1], [3, 3], [0, 0], [2, 2]])


# cross-entropy


def entropy_formula(z, target, ignore_index, smoothing, weight):
    z = np.asarray(z, np.float64)
    logs = np.log(softmax_formula(z, 1))
    w = np.ones(z.shape[1]) if weight is None else np.asarray(weight, np.float64)
    safe = np.where(target == ignore_index, 0, target)
    rows = -(1 - smoothing) * w[safe] * logs[np.arange(len(z)), safe] - smoothing / z.shape[1] * (logs @ w)
    return np.where(target == ignore_index, 0, rows)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize(("count", "classes"), [(6, 5), (0, 4), (1, 1), (500, 65)])
def test_cross_entropy(count, classes, smoothing, weighted, dtype):
    z, g = numbers((count, classes), dtype, 1, 3), numbers((count,), dtype, 2)
    target = np.random.default_rng(3).integers(0, classes, count)
    target[::4] = -100
    target.flags.writeable = False
    weight = np.abs(numbers((classes,), dtype, 4)) if weighted else None
    losses, saved = kernels.cross_entropy(z, target, -100, smoothing, weight)
    close(losses, entropy_formula(z, target, -100, smoothing, weight), dtype, 2)
    dz = kernels.cross_entropy_backward(g, z, target, saved, -100, smoothing, weight)
    assert dz.dtype == dtype
    assert not dz[target == -100].any()
    if count < 10 and dtype == np.float64:
        agrees(dz, lambda a: entropy_formula(a, target, -100, smoothing, weight), z, g)
    else:
        p, w = softmax_formula(z, 1), np.ones(classes) if weight is None else weight.astype(np.float64)
        safe = np.where(target == -100, 0, target)
        hot = np.eye(classes)[safe]
        want = (1 - smoothing) * w[safe, None] * (p - hot) + smoothing / classes * (p * w.sum() - w)
        close(dz, np.where(target[:, None] == -100, 0, want * np.asarray(g, np.float64)[:, None]), dtype, 2)


def test_cross_entropy_of_large_logits():
    z = np.zeros((3, 3), np.float32)
    z[0], z[1], z[2] = (1e8, 1e8, -np.inf), (-40, 40, -np.inf), (1000, 0, 0)
    target = np.array([1, 0, 0])
    losses, saved = kernels.cross_entropy(z, target)
    np.testing.assert_allclose(losses, [math.log(2), 80, 0], rtol=1e-6)
    dz = kernels.cross_entropy_backward(np.ones(3, np.float32), z, target, saved)
    np.testing.assert_array_equal(dz, np.array([[0.5, -0.5, 0], [-1, 1, 0], [0, 0, 0]], np.float32))


def test_cross_entropy_smooths_only_rows_that_count():
    z = np.array([[2.0, 0, 0], [9, -9, 1]])
    losses, saved = kernels.cross_entropy(z, np.array([0, -100]), label_smoothing=0.1)
    np.testing.assert_allclose(losses, [0.3728784, 0], atol=1e-6)
    dz = kernels.cross_entropy_backward(np.ones(2), z, np.array([0, -100]), saved, label_smoothing=0.1)
    assert not dz[1].any()


def test_cross_entropy_ignores_rows_whatever_they_hold():
    z = np.array([[0.0, 0.0], [np.nan, 1.0]])
    losses, saved = kernels.cross_entropy(z, np.array([0, 7]), ignore_index=7)
    dz = kernels.cross_entropy_backward(np.ones(2), z, np.array([0, 7]), saved, ignore_index=7)
    assert losses[1] == 0
    np.testing.assert_array_equal(dz, [[-0.5, 0.5], [0, 0]])


# optimizer


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("count", [0, 5, 40_000])
def test_adamw_follows_its_formula(count, decay, dtype):
    p, m, v = numbers((count,), dtype).copy(), np.zeros(count, dtype), np.zeros(count, dtype)
    wide, wm, wv = p.astype(np.float64), np.zeros(count), np.zeros(count)
    for t in range(1, 6):
        g = numbers((count,), dtype, t)
        kernels.adamw(p, g, m, v, lr=0.01, beta1=0.9, beta2=0.99, eps=1e-8, weight_decay=decay, step=t, grad_scale=0.5)
        wg = g.astype(np.float64) * 0.5
        wide *= 1 - 0.01 * decay
        wm = 0.9 * wm + 0.1 * wg
        wv = 0.99 * wv + 0.01 * wg * wg
        wide -= 0.01 * (wm / (1 - 0.9**t)) / (np.sqrt(wv / (1 - 0.99**t)) + 1e-8)
    close(p, wide, dtype)
    close(m, wm, dtype)
    close(v, wv, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_sum_of_squares(shape, form, dtype):
    x = numbers(shape, dtype, form=form)
    assert math.isclose(
        kernels.sum_of_squares(x), float((x.astype(np.float64) ** 2).sum()), rel_tol=1e-6, abs_tol=1e-12
    )


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_sum_of_squares_beyond_float32(size):
    x = np.full(100, size, np.float32)
    assert math.isclose(kernels.sum_of_squares(x), 100 * float(x[0]) ** 2, rel_tol=1e-6)


def test_sum_of_squares_shows_what_is_not_finite():
    assert math.isnan(kernels.sum_of_squares(np.array([1.0, np.nan], np.float32)))
    assert kernels.sum_of_squares(np.array([1.0, -np.inf], np.float32)) == math.inf


def test_results_are_fresh_memory():
    x = numbers((64, 128), np.float32)
    w = np.ones(128, np.float32)
    results = [
        kernels.gelu(x)[0],
        kernels.softmax(x, -1),
        kernels.softmax(x, 0),
        kernels.log_softmax(x, -1)[0],
        kernels.layer_norm(x, w)[0],
        kernels.linear(x, np.eye(128, dtype=np.float32)),
    ]
    for i, y in enumerate(results):
        assert not np.shares_memory(y, x)
        assert not any(np.shares_memory(y, other) for other in results[:i])
