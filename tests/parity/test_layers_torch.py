"""Layers against PyTorch's of the same name: names in state_dict, first values' spread, outputs and gradients."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch

import tinygrad_edu as tg

R = np.random.default_rng(1)
X = R.uniform(-2, 2, (3, 4, 6))
Y = R.uniform(-2, 2, (3, 5, 6))
H = R.uniform(-1, 1, (2, 4, 7))
ID = R.integers(0, 9, (3, 4))
HIDDEN = np.triu(np.ones((4, 4), bool), 1)
PADDED = np.array([[False, False, False, True], [False] * 4, [False, False, True, True]])
LOGITS, TARGET = R.uniform(-2, 2, (6, 5)), np.array([1, 4, -100, 0, 2, 2])


def names(text: str) -> list[str]:
    return text.split()


def three(out: Any) -> Any:
    return out[0], *out[1]


# The class, its arguments, its inputs, and what is called: the layer's name, and the layer and the inputs by default.
CASES: list[Any] = [
    ("Linear", (6, 3), {}, (X,), None),
    ("Linear", (6, 3), {"bias": False}, (X,), None),
    ("Embedding", (9, 4), {"padding_idx": 2}, (ID,), None),
    ("LayerNorm", (6,), {}, (X,), None),
    ("LayerNorm", ((4, 6),), {"eps": 1e-3, "bias": False}, (X,), None),
    ("RMSNorm", (6,), {}, (X,), None),
    ("RMSNorm", (6,), {"eps": 1e-3, "elementwise_affine": False}, (X,), None),
    ("Identity", (1, 2), {"three": 3}, (X,), None),
    ("Flatten", (), {}, (X,), None),
    ("Unflatten", (2, (2, 3)), {}, (X,), None),
    ("PReLU", (4,), {}, (X,), None),
    *[
        (name, (), {}, (X,), None)
        for name in names(
            "ReLU ReLU6 LeakyReLU ELU CELU SELU SiLU Mish Hardswish Hardsigmoid Hardtanh Sigmoid LogSigmoid Tanh "
            "Tanhshrink Softsign Softplus GELU GLU PReLU"
        )
    ],
    *[(name, (), {"dim": -1}, (X,), None) for name in ("Softmax", "LogSoftmax", "Softmin")],
    ("GELU", ("tanh",), {}, (X,), None),
    ("LeakyReLU", (0.3, True), {}, (X,), lambda m, x: m(x * 1)),
    *[(name, (6, 7), {}, (X,), None) for name in ("RNN", "GRU")],
    ("RNN", (6, 7), {"nonlinearity": "relu", "num_layers": 2, "bias": False}, (X, H), None),
    ("GRU", (6, 7), {"num_layers": 2, "bidirectional": True, "batch_first": True}, (X,), None),
    ("GRU", (6, 7, 2), {}, (X, H), None),
    ("GRU", (6, 7), {}, (X[0],), None),
    ("LSTM", (6, 7), {}, (X,), lambda m, x: three(m(x))),
    (
        "LSTM",
        (6, 7),
        {"num_layers": 2, "batch_first": True},
        (Y[:2], H[:, :2], H[:, 2:]),
        lambda m, x, h, c: three(m(x, (h, c))),
    ),
    ("LSTM", (6, 7), {"bidirectional": True, "bias": False}, (X[:, 0],), lambda m, x: three(m(x))),
    ("RNNCell", (6, 7), {}, (X[0], H[0]), None),
    ("RNNCell", (6, 7), {"nonlinearity": "relu"}, (X[0],), None),
    ("GRUCell", (6, 7), {}, (X[0], H[0]), None),
    ("LSTMCell", (6, 7), {}, (X[0], H[0], H[1]), lambda m, x, h, c: m(x, (h, c))),
    ("LSTMCell", (6, 7), {"bias": False}, (X[0, 0],), None),
    ("MultiheadAttention", (6, 2), {}, (X,), lambda m, x: m(x, x, x)),
    (
        "MultiheadAttention",
        (6, 3),
        {"batch_first": True},
        (X, Y),
        lambda m, x, y: m(x, y, y, average_attn_weights=False),
    ),
    (
        "MultiheadAttention",
        (6, 2),
        {"batch_first": True, "bias": False},
        (X, "hidden"),
        lambda m, x, h: m(x, x, x, attn_mask=h),
    ),
    (
        "MultiheadAttention",
        (6, 2),
        {"batch_first": True},
        (X, "hidden", "padded"),
        lambda m, x, h, p: m(x, x, x, key_padding_mask=p, need_weights=False, attn_mask=h)[0],
    ),
    (
        "MultiheadAttention",
        (6, 2),
        {"kdim": 4, "vdim": 3, "add_bias_kv": True, "add_zero_attn": True},
        (X, X[..., :4], X[..., :3], HIDDEN[:3, :3] * -2.0),
        lambda m, q, k, v, a: m(q, k, v, attn_mask=a),
    ),
    ("MultiheadAttention", (6, 2), {}, (X[0],), lambda m, x: m(x, x, x)),
    ("TransformerEncoderLayer", (6, 2, 8, 0.0), {"batch_first": True}, (X, "hidden"), lambda m, x, h: m(x, src_mask=h)),
    ("TransformerEncoderLayer", (6, 2, 8, 0.0, "gelu"), {"norm_first": True, "bias": False}, (X,), None),
    (
        "TransformerDecoderLayer",
        (6, 2, 8, 0.0),
        {"batch_first": True},
        (X, Y, "hidden"),
        lambda m, x, y, h: m(x, y, tgt_mask=h),
    ),
    (
        "TransformerDecoderLayer",
        (6, 2, 8, 0.0),
        {"norm_first": True},
        (X.swapaxes(0, 1).copy(), Y.swapaxes(0, 1).copy()),
        None,
    ),
    (
        "Transformer",
        (6, 2, 2, 2, 8, 0.0),
        {"batch_first": True},
        (Y, X, "padded"),
        lambda m, y, x, p: m(y, x, tgt_mask=m.generate_square_subsequent_mask(4), tgt_key_padding_mask=p),
    ),
    ("CrossEntropyLoss", (), {"label_smoothing": 0.1}, (LOGITS, TARGET), None),
    ("NLLLoss", (), {"ignore_index": 4}, (LOGITS[:2], TARGET[:2]), None),
    ("KLDivLoss", (), {"reduction": "batchmean"}, (LOGITS, abs(LOGITS)), None),
    ("BCEWithLogitsLoss", (), {"reduction": "sum"}, (LOGITS, (LOGITS > 0) * 1.0), None),
    ("BCELoss", (), {}, (abs(LOGITS) / 3, (LOGITS > 0) * 1.0), None),
    *[
        (name, (), {"reduction": "sum"}, (LOGITS, LOGITS[::-1].copy()), None)
        for name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss")
    ],
]


def made(package: Any, value: Any) -> Any:
    named = {"hidden": HIDDEN, "padded": PADDED}
    array = named[value] if isinstance(value, str) else value
    return package.tensor(array, requires_grad=array.dtype.kind == "f")


def outputs(out: Any) -> list[Any]:
    return [y for part in out for y in outputs(part)] if isinstance(out, tuple | list) else [] if out is None else [out]


@pytest.mark.parametrize(("name", "args", "options", "inputs", "call"), CASES, ids=range(len(CASES)))
def test_a_layer_equals_pytorchs(name: str, args: Any, options: Any, inputs: Any, call: Any) -> None:
    ours = getattr(tg.nn, name)(*args, **options).double()
    theirs = getattr(torch.nn, name)(*args, **options).double()
    state = {n: t.detach().numpy() for n, t in theirs.state_dict().items()}
    assert list(ours.state_dict()) == list(state)
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    for n, t in ours.state_dict().items():
        assert t.shape == state[n].shape
    noisy = {n: v + R.uniform(-0.3, 0.3, v.shape) for n, v in state.items()}  # biases are zero at first
    ours.load_state_dict(noisy)
    theirs.load_state_dict({n: torch.tensor(v) for n, v in noisy.items()})
    found = []
    for package, module in ((tg, ours), (torch, theirs)):
        xs = [made(package, x) for x in inputs]
        ys = outputs(call(module, *xs) if call else module(*xs))
        total: Any = 0
        for y in ys:
            total = total + (y * package.tensor(np.cos(np.arange(y.numel())).reshape(tuple(y.shape)))).sum()
        if total.requires_grad:
            total.backward()
        grads = [x.grad for x in xs] + [p.grad for p in module.parameters()]
        found.append(([y.detach().numpy() for y in ys], [None if g is None else g.numpy() for g in grads]))
    for a, b in zip(*(values for values, _ in found), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)
    for a, b in zip(*(grads for _, grads in found), strict=True):
        if a is None or b is None:
            assert a is b is None or abs(b if a is None else a).max() == 0
        else:
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)


PARAMETERS = [
    ("Linear", (40, 50)), ("Embedding", (40, 50)), ("LayerNorm", (9,)), ("RMSNorm", (9,)), ("RNN", (40, 50)),
    ("GRU", (40, 50)), ("LSTM", (40, 50)), ("MultiheadAttention", (40, 4)), ("TransformerEncoderLayer", (40, 4, 60)),
    ("Transformer", (40, 4, 1, 1, 60)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args"), PARAMETERS)
def test_first_values_are_drawn_like_pytorchs(name: str, args: Any) -> None:
    tg.manual_seed(0)
    torch.manual_seed(0)
    theirs = dict(getattr(torch.nn, name)(*args).named_parameters())
    for n, p in getattr(tg.nn, name)(*args).named_parameters():
        a, b = p.detach().numpy(), theirs[n].detach().numpy()
        assert a.mean() == pytest.approx(b.mean(), abs=6 * float(b.std()) / b.size**0.5 + 1e-6)
        assert a.std() == pytest.approx(b.std(), rel=0.25, abs=1e-6)


CLASSES = sorted({name for name, *_ in CASES})
NOT_HERE = {
    "scale_grad_by_freq", "max_norm", "norm_type", "sparse", "_weight", "_freeze", "size_average", "reduce",
    "min_value", "max_value", "self",
}  # fmt: skip


@pytest.mark.parametrize("name", CLASSES)
def test_arguments_have_pytorchs_names_order_and_defaults(name: str) -> None:
    def arguments(package: Any) -> list[tuple[str, Any]]:
        found = inspect.signature(getattr(package.nn, name).__init__).parameters.values()
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        return [(p.name, p.default) for p in found if p.kind in kinds and p.name not in NOT_HERE]

    theirs = arguments(torch)
    if theirs:  # some of PyTorch's take *args
        ours = arguments(tg)
        assert [n for n, _ in ours] == [n for n, _ in theirs]
        assert [d for n, d in ours if n != "activation"] == [d for n, d in theirs if n != "activation"]


INITS: list[Any] = [
    ("trunc_normal_", {}, (300, 200)),
    ("trunc_normal_", {"mean": 1.0, "std": 2.0, "a": 0.0, "b": 3.0}, (300, 200)),
    ("kaiming_uniform_", {"a": 5**0.5}, (300, 200)),
    ("kaiming_normal_", {"mode": "fan_out", "nonlinearity": "relu"}, (300, 200)),
    ("xavier_uniform_", {"gain": 2.0}, (300, 200)),
    ("xavier_normal_", {}, (300, 200)),
    ("orthogonal_", {"gain": 2.0}, (30, 20)),
    ("orthogonal_", {}, (20, 30)),
    ("eye_", {}, (4, 6)),
    ("constant_", {"val": 0.3}, (4,)),
]


@pytest.mark.parametrize(("name", "options", "shape"), INITS)
def test_initial_values_are_distributed_like_pytorchs(name: str, options: Any, shape: Any) -> None:
    ours = getattr(tg.nn.init, name)(tg.empty(shape), **options).numpy()
    theirs = getattr(torch.nn.init, name)(torch.empty(shape), **options).numpy()
    assert ours.std() == pytest.approx(theirs.std(), rel=0.05, abs=1e-7)
    assert np.percentile(ours, [1, 99]) == pytest.approx(np.percentile(theirs, [1, 99]), rel=0.2, abs=0.05)
    if name == "orthogonal_":
        small = ours.T @ ours if shape[0] > shape[1] else ours @ ours.T
        np.testing.assert_allclose(small, np.eye(20) * options.get("gain", 1) ** 2, atol=1e-4)
