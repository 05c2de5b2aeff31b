"""Options that make no sense are refused by name: of losses, activations, layers, pooling, optimizers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn, optim, options
from tinygrad_edu.nn import functional as F

X, ROWS = tg.ones(2, 3) * 0.5, tg.ones(2, 3, 8)
IDS, PLANE = tg.tensor([0, 2]), tg.ones(1, 2, 6, 6)
NAN = float("nan")


def test_numbers_of_every_kind_are_taken_and_nothing_else_is() -> None:
    for value in (2, 2.0, np.float32(2), np.array(2), tg.tensor(2.0), tg.tensor([2])):
        found = options.number(value, "gain", 0.0, 3.0)
        assert type(found) is float
        assert found == 2
    for other in ("2", None, [2.0], 2j, tg.ones(2), tg.tensor(2.0, requires_grad=True)):
        with pytest.raises(TypeError, match="gain"):
            options.number(other, "gain")
    for outside in (-1, 4, NAN, 10**400):
        with pytest.raises(ValueError, match="gain"):
            options.number(outside, "gain", 0.0, 3.0)
    with pytest.raises(ValueError, match="gain must be a number above 0, got 0"):
        options.number(0, "gain", above=0.0)


def test_integers_flags_and_lengths() -> None:
    assert [options.integer(n, "n") for n in (3, np.int8(3), np.array(3), tg.tensor(3))] == [3] * 4
    for value in (True, 3.0, "3", None, tg.tensor(3.0), tg.ones(2).long()):
        with pytest.raises(TypeError, match="n must be an integer"):
            options.integer(value, "n")
    assert options.flag(np.bool_(True), "yes") is True
    other: Any
    for other in (0, 1, None, "False", [], 1.0):
        with pytest.raises(TypeError, match="yes must be True or False"):
            options.flag(other, "yes")
    assert options.lengths([4], 2, "size") == (4, 4)
    wrong: Any
    for wrong in ([], (1, 2, 3), "", 1.5, (True, 1), (0, 2)):
        with pytest.raises((TypeError, ValueError), match="size"):
            options.lengths(wrong, 2, "size", 1)


# What is called, and a word of what is said. Each has the option that makes no sense first, then its neighbours.
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: F.huber_loss(X, X, delta=-1.0), "delta"),
    (lambda: F.huber_loss(X, X, delta=0.0), "delta"),
    (lambda: F.huber_loss(X, X, delta=NAN), "delta"),
    (lambda: nn.HuberLoss(delta=1j), "delta"),  # type: ignore[arg-type]
    (lambda: F.smooth_l1_loss(X, X, beta=-0.1), "beta"),
    (lambda: F.mse_loss(X, X, reduction="average"), "reduction"),
    (lambda: F.mse_loss(X, X, weight=tg.ones(3)), "weight"),
    (lambda: F.l1_loss(X, X, weight=tg.ones(2, 1)), "weight"),
    (lambda: F.l1_loss(X, X > 0), "target"),
    (lambda: F.huber_loss(X, X, weight=tg.ones(())), "weight"),
    (lambda: F.kl_div(X, X > 0), "target"),
    (lambda: F.kl_div(X, X, log_target=1), "log_target"),  # type: ignore[arg-type]
    (lambda: F.binary_cross_entropy(X, X + 1), "target"),
    (lambda: F.binary_cross_entropy(X * NAN, X), "input"),
    (lambda: F.binary_cross_entropy(X, X.double()), "float64"),
    (lambda: F.binary_cross_entropy(X, X, weight=tg.ones(5)), "weight"),
    (lambda: F.binary_cross_entropy_with_logits(X, (X > 0).long()), "target"),
    (lambda: F.binary_cross_entropy_with_logits(X, X, pos_weight=tg.ones(4, 2, 3)), "pos_weight"),
    (lambda: F.cross_entropy(X, X, ignore_index=1), "ignore"),
    (lambda: F.cross_entropy(X, IDS, ignore_index=1.5), "ignore_index"),  # type: ignore[arg-type]
    (lambda: F.cross_entropy(X, IDS, label_smoothing=1.1), "label_smoothing"),
    (lambda: F.cross_entropy(X, IDS, label_smoothing=NAN), "label_smoothing"),
    (lambda: F.cross_entropy(X, IDS, tg.ones(3).double()), "weight"),
    (lambda: F.cross_entropy(X, IDS, tg.ones(3, requires_grad=True)), "weight"),
    (lambda: F.cross_entropy(X, X, tg.ones(1)), "weight"),
    (lambda: F.nll_loss(X, IDS, tg.ones(3).half()), "weight"),
    (lambda: F.hardtanh(X, 0.5, -0.5), "min_val"),
    (lambda: nn.Hardtanh(1.0, 1.0), "max_val"),
    (lambda: F.softplus(X, beta=0), "beta"),
    (lambda: F.softplus(X, threshold="20"), "threshold"),  # type: ignore[arg-type]
    (lambda: F.celu(X, alpha=0), "alpha"),
    (lambda: F.leaky_relu(X, (0.1,)), "negative_slope"),  # type: ignore[arg-type]
    (lambda: F.prelu(tg.ones(2, 8, 3), tg.ones(2, 4)), "weight"),
    (lambda: F.prelu(tg.ones(2, 3), tg.ones(2)), "weight"),
    (lambda: F.prelu(tg.ones(3), tg.ones(3)), "weight"),
    (lambda: F.prelu(X, tg.ones(3).double()), "weight"),
    (lambda: F.relu(X > 0), "bool"),
    (lambda: F.softmax(X, dim=True), "dim"),
    (lambda: F.dropout(X, 1.5), "dropout: p"),
    (lambda: F.dropout(X, 0.5, training="no"), "training"),  # type: ignore[arg-type]
    (lambda: F.scaled_dot_product_attention(ROWS, ROWS, ROWS, is_causal=1), "is_causal"),  # type: ignore[arg-type]
    (lambda: F.scaled_dot_product_attention(ROWS, ROWS, ROWS, scale="1"), "scale"),  # type: ignore[arg-type]
    (lambda: F.embedding(IDS, X.T, padding_idx=0.5), "padding_idx"),  # type: ignore[arg-type]
    (lambda: F.layer_norm(X, 3.0), "normalized_shape"),  # type: ignore[arg-type]
    (lambda: F.batch_norm(X, tg.zeros(1), tg.ones(1)), "running_mean"),
    (lambda: F.batch_norm(X, tg.zeros(3), None, training=True), "running"),
    (lambda: F.batch_norm(X, None, None), "running"),
    (lambda: F.batch_norm(X, tg.zeros(3), tg.ones(3), tg.ones(())), "weight"),
    (lambda: F.batch_norm(X, tg.zeros(3).double(), tg.ones(3).double()), "running_mean"),
    (lambda: F.batch_norm(X, tg.zeros(3), tg.ones(3), eps=-1.0), "eps"),
    (lambda: F.batch_norm(X, None, None, training=True, eps=0.0), "eps"),
    (lambda: F.batch_norm(tg.ones(3), tg.zeros(3), tg.ones(3)), "input"),
    (lambda: nn.BatchNorm1d(3, eps=0.0)(X), "eps"),
    (lambda: nn.BatchNorm1d(4)(X), "running_mean"),
    (lambda: nn.BatchNorm1d(-1), "num_features"),
    (lambda: F.group_norm(tg.ones(1, 3), 3), "more than one value"),
    (lambda: F.group_norm(tg.ones(2, 4, 3), -2), "num_groups"),
    (lambda: F.group_norm(tg.ones(2, 4, 3), 2, tg.ones(1)), "weight"),
    (lambda: nn.GroupNorm(0, 4), "num_groups"),
    (lambda: F.max_pool1d(ROWS, 2, stride=1, dilation=0), "dilation"),
    (lambda: F.max_pool1d(ROWS, 1, stride=0), "stride"),
    (lambda: F.max_pool1d(ROWS, 0), "kernel_size"),
    (lambda: F.max_pool1d(ROWS, (2, 2)), "kernel_size"),
    (lambda: F.max_pool1d(tg.ones(8), 2), "input"),
    (lambda: F.max_pool2d(PLANE, 3, padding=2), "padding"),
    (lambda: F.max_pool2d(PLANE[0, 0], 2), "input"),
    (lambda: F.avg_pool1d(ROWS, 2, padding=-1), "padding"),
    (lambda: F.avg_pool2d(PLANE, 2, stride=(-1, 1)), "stride"),
    (lambda: F.adaptive_avg_pool1d(ROWS, -1), "output_size"),
    (lambda: F.adaptive_avg_pool2d(PLANE, (1, 2, 3)), "output_size"),
    (lambda: F.unfold(PLANE, 2, stride=0), "stride"),
    (lambda: F.conv1d(ROWS, tg.ones(4, 3, 2), stride=-1), "stride"),
    (lambda: F.conv1d(ROWS, tg.ones(4, 3, 2), dilation=0), "dilation"),
    (lambda: F.conv1d(ROWS, tg.ones(4, 3, 2), padding=-1), "padding"),
    (lambda: F.conv1d(ROWS, tg.ones(4, 3, 2), padding="full"), "padding"),
    (lambda: F.conv1d(ROWS, tg.ones(4, 3, 2), groups=0), "groups"),
    (lambda: F.conv1d(ROWS, tg.ones(4, 3, 2), tg.ones(1)), "bias"),
    (lambda: F.conv2d(PLANE, tg.ones(4, 2, 2, 2).double()), "weight"),
    (lambda: nn.Conv2d(2, 4, 0), "kernel_size"),
    (lambda: nn.Conv1d(2, 4, 3, groups=-2), "groups"),
    (lambda: nn.Conv1d(2, 4, 3, stride=0), "stride"),
    (lambda: F.pad(X, (1.5, 1)), "pad"),  # type: ignore[arg-type]
    (lambda: F.pad(X, (1, 1), value=1j), "value"),  # type: ignore[arg-type]
    (lambda: F.one_hot(IDS, -2), "num_classes"),
    (lambda: nn.RNN(0, 5), "input_size"),
    (lambda: nn.RNN(5, 0), "hidden_size"),
    (lambda: nn.GRU(5, 5, 0), "num_layers"),
    (lambda: nn.GRU(5, 5, dropout=1.5), "dropout"),
    (lambda: nn.RNN(5, 5, dropout=True), "dropout"),
    (lambda: nn.LSTM(3, 5, batch_first="False"), "batch_first"),  # type: ignore[arg-type]
    (lambda: nn.LSTM(3, 5, bias=0), "bias"),  # type: ignore[arg-type]
    (lambda: nn.LSTM(3, 5)(tg.ones(4, 2, 3), tg.ones(1, 2, 5)), "pair"),
    (lambda: nn.RNN(3, 5)(tg.ones(4, 3), tg.ones(1, 1, 5)), "two axes"),
    (lambda: nn.RNNCell(3, 5)(X, tg.ones(2, 1, 1, 5)), "state"),
    (lambda: nn.RNNCell(3, 5)(X, tg.ones(1, 5)), "state"),
    (lambda: nn.GRUCell(3, 5)(X, tg.ones(5)), "state"),
    (lambda: nn.LSTMCell(3, 5)(X, (tg.ones(2, 5), tg.ones(3, 5))), "state"),
    (lambda: nn.LSTMCell(3, 5)(X, tg.ones(2, 5)), "pair"),
    (lambda: nn.GRUCell(3, 5)(tg.ones(1, 2, 3)), "input"),
    (lambda: nn.MultiheadAttention(4, 3), "num_heads"),
    (lambda: nn.MultiheadAttention(4, 0), "num_heads"),
    (lambda: nn.MultiheadAttention(4, 2, dropout=-0.1), "dropout"),
    (lambda: nn.MultiheadAttention(4, 2, batch_first="no"), "batch_first"),  # type: ignore[arg-type]
    (lambda: nn.MultiheadAttention(4, 2, kdim=-1), "kdim"),
    (lambda: nn.TransformerEncoderLayer(4, 2, -1), "out_features"),
    (lambda: nn.Dropout(NAN), "Dropout: p"),
    (lambda: nn.LayerNorm((2, -1)), "normalized_shape"),
    (lambda: nn.Embedding(3, 2, padding_idx=1.0), "padding_idx"),  # type: ignore[arg-type]
    (lambda: nn.Linear(2.0, 3), "in_features"),  # type: ignore[arg-type]
    (lambda: nn.PReLU(-1), "num_parameters"),
    (lambda: optim.SGD([tg.ones(1, requires_grad=True)], lr=NAN), "lr"),
    (lambda: optim.SGD([tg.ones(1, requires_grad=True)], lr="1"), "lr"),  # type: ignore[arg-type]
    (lambda: optim.SGD([tg.ones(1, requires_grad=True)], nesterov="no", momentum=0.9), "nesterov"),  # type: ignore[arg-type]
    (lambda: optim.Adam([tg.ones(1, requires_grad=True)], betas=(0.9, tg.tensor(0.99))), "betas"),  # type: ignore[arg-type]
    (lambda: optim.AdamW([tg.ones(1, requires_grad=True)], betas=(0.9, "0.99")), "betas"),  # type: ignore[arg-type]
    (lambda: optim.AdamW([tg.ones(1, requires_grad=True)], eps=-1e-8), "eps"),
]


@pytest.mark.parametrize(("call", "said"), REFUSED, ids=range(len(REFUSED)))
def test_what_makes_no_sense_is_refused_by_name(call: Callable[[], Any], said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        call()


def test_what_only_looks_like_nonsense_is_taken() -> None:
    assert F.smooth_l1_loss(X, X + 2, beta=0).item() == 2
    assert F.huber_loss(X, X + 2, delta=float("inf")).item() == 2
    x = tg.ones(2, requires_grad=True)
    F.huber_loss(x * 3, tg.zeros(2), delta=float("inf")).backward()
    assert x.grad.tolist() == [4.5, 4.5]  # type: ignore[union-attr]
    assert F.celu(tg.tensor([1.0, -1.0]), alpha=-1.0).double().numpy().round(3).tolist() == [1, -1.718]
    assert F.softplus(tg.tensor([0.5, 2.0]), threshold=1.0).double().numpy().round(3).tolist() == [0.974, 2]
    assert F.mse_loss(X, X.double()).dtype == tg.float64
    assert F.prelu(tg.tensor(-2.0), tg.tensor([0.25])).shape == ()
    assert nn.LayerNorm(0)(tg.ones(2, 0)).shape == (2, 0)
    assert F.adaptive_avg_pool2d(PLANE, (0, None)).shape == (1, 2, 0, 6)
    empty: Any = nn.BatchNorm1d(3)
    assert empty(tg.ones(0, 3)).shape == (0, 3)
    assert empty.running_mean.tolist() == [0, 0, 0]
    assert nn.BatchNorm1d(3, bias=False).bias is None
    assert nn.GroupNorm(1, 3, bias=False).bias is None
    assert F.batch_norm(X.half(), tg.zeros(3), tg.ones(3)).dtype == tg.float16


@pytest.mark.parametrize("name", ["ReLU", "ReLU6", "LeakyReLU", "ELU", "CELU", "SELU", "SiLU", "Mish", "Hardswish"])
def test_in_place_activations_write_into_their_input(name: str) -> None:
    x = tg.tensor([-2.0, 3.0, 0.5], requires_grad=True)
    wanted = getattr(nn, name)()(x)
    wanted.sum().backward()
    grad, x.grad = x.grad, None
    h: Any = x * 1
    view = h[1:]
    y = getattr(nn, name)(inplace=True)(h)
    assert y is h
    assert view.tolist() == wanted[1:].tolist()
    y.sum().backward()
    assert x.grad.tolist() == grad.tolist()  # type: ignore[union-attr]
    with pytest.raises(RuntimeError, match="leaf that needs a gradient"):
        getattr(nn, name)(inplace=True)(x)


def test_dropout_in_place_and_the_first_of_equal_ones() -> None:
    x = tg.ones(4)
    assert nn.Dropout(1.0, inplace=True)(x) is x
    assert x.tolist() == [0, 0, 0, 0]
    ties = tg.ones(1, 1, 4, requires_grad=True)
    F.max_pool1d(ties, 2).sum().backward()
    assert ties.grad.tolist() == [[[1, 0, 1, 0]]]  # type: ignore[union-attr]
    assert np.isnan(F.kl_div(X, -X).array).all()


def test_no_row_is_shortened_where_none_is_asked_for() -> None:
    table = tg.ones(3, 4) * 9
    assert F.embedding(tg.zeros(0).long(), table, max_norm=1.0).shape == (0, 4)
    assert table.tolist() == [[9.0] * 4] * 3
    y = tg.tensor([1.0, 0.0], requires_grad=True)
    F.binary_cross_entropy(tg.tensor([1e-30, 1 - 2**-20]), y, reduction="sum").backward()
    assert y.grad.tolist() == pytest.approx([30 * np.log(10), -20 * np.log(2)], rel=1e-6)  # type: ignore[union-attr]
