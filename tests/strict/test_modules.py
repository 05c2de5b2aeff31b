"""Every module of nn on the stand-in: outputs and all gradients equal to NumPy's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tests.strict.ran import host, note, same_on_both
from tinygrad_edu import nn

R = np.random.default_rng(0)
X = R.standard_normal((3, 4))
P = R.uniform(0.1, 0.9, (3, 4))
SEQUENCE = R.standard_normal((2, 5, 8))
IMAGES = R.standard_normal((3, 2, 6, 7))
IDS = np.array([[1, 2, 1], [0, 1, 4]])
TARGET = np.array([1, -100, 3])
SEEN = np.array([[False, True, False, False, False]] * 2)  # keys to leave out
elementwise = {
    name: (lambda name=name: getattr(nn, name)(), X)
    for name in (
        "CELU", "ELU", "GELU", "GLU", "Hardsigmoid", "Hardswish", "Hardtanh", "Identity", "LeakyReLU", "LogSigmoid",
        "Mish", "PReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softplus", "Softsign", "Tanh", "Tanhshrink",
        "Flatten",
    )
}  # fmt: skip
losses = {
    name: (lambda name=name: getattr(nn, name)(), *inputs)
    for name, inputs in {
        "BCELoss": (P, (X > 0) * 1.0), "BCEWithLogitsLoss": (X, P), "HuberLoss": (X, P), "KLDivLoss": (np.log(P), P),
        "L1Loss": (X, P), "MSELoss": (X, P), "SmoothL1Loss": (X, P), "CrossEntropyLoss": (X, TARGET),
        "NLLLoss": (np.log(P), TARGET),
    }.items()
}  # fmt: skip
CASES: dict[str, tuple[Any, ...]] = {
    **elementwise,
    **losses,
    "Softmax": (lambda: nn.Softmax(1), X),
    "Softmin": (lambda: nn.Softmin(1), X),
    "LogSoftmax": (lambda: nn.LogSoftmax(1), X),
    "Unflatten": (lambda: nn.Unflatten(1, (2, 2)), X),
    "Dropout": (lambda: nn.Dropout(0.3), X),
    "Linear": (lambda: nn.Linear(4, 3), X),
    "Embedding": (lambda: nn.Embedding(5, 3, padding_idx=1), IDS),
    "LayerNorm": (lambda: nn.LayerNorm(4), X),
    "RMSNorm": (lambda: nn.RMSNorm(4), X),
    "Sequential": (lambda: nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), X),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(8, 2, batch_first=True), SEQUENCE, SEQUENCE, SEQUENCE, SEEN),
    "RNNCell": (lambda: nn.RNNCell(4, 3), X),
    "GRUCell": (lambda: nn.GRUCell(4, 3), X),
    "LSTMCell": (lambda: nn.LSTMCell(4, 3), X),
    "RNN": (lambda: nn.RNN(8, 3, 2, batch_first=True), SEQUENCE),
    "GRU": (lambda: nn.GRU(8, 3, bidirectional=True), SEQUENCE),
    "LSTM": (lambda: nn.LSTM(8, 3), SEQUENCE),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), SEQUENCE),
    "TransformerDecoderLayer": (lambda: nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), SEQUENCE, SEQUENCE),
    "TransformerEncoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2),
        SEQUENCE,
    ),
    "TransformerDecoder": (
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), 1),
        SEQUENCE,
        SEQUENCE,
    ),
    "Conv1d": (lambda: nn.Conv1d(5, 4, 3, padding=1, stride=2), SEQUENCE),
    "Conv2d": (lambda: nn.Conv2d(2, 4, 3, padding=1, groups=2, dilation=2), IMAGES),
    "AvgPool1d": (lambda: nn.AvgPool1d(2), SEQUENCE),
    "AvgPool2d": (lambda: nn.AvgPool2d(2, padding=1), IMAGES),
    "MaxPool1d": (lambda: nn.MaxPool1d(3, 2, 1), SEQUENCE),
    "MaxPool2d": (lambda: nn.MaxPool2d(2), IMAGES),
    "AdaptiveAvgPool1d": (lambda: nn.AdaptiveAvgPool1d(3), SEQUENCE),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d((2, 3)), IMAGES),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(5), SEQUENCE),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(2), IMAGES),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), R.standard_normal((2, 4, 5))),
    "Transformer": (lambda: nn.Transformer(8, 2, 1, 1, 16, batch_first=True), SEQUENCE, SEQUENCE),
}
HOLDERS = {"Buffer", "Module", "ModuleDict", "ModuleList", "Parameter", "ParameterDict", "ParameterList"}


def flat(outputs: Any) -> list[Any]:
    if isinstance(outputs, tuple | list):
        return [x for part in outputs for x in flat(part)]
    return [outputs] if isinstance(outputs, tg.Tensor) else []


@pytest.mark.parametrize("name", CASES)
def test_module_is_numpy(name: str) -> None:
    build: Callable[[], nn.Module] = CASES[name][0]
    tg.manual_seed(0)
    first = build().double()

    def run(device: str) -> list[Any]:
        tg.manual_seed(5)
        module = copy.deepcopy(first).to(device)
        inputs = [tg.Tensor(x, requires_grad=x.dtype.kind == "f", device=device) for x in CASES[name][1:]]
        found = flat(module(*inputs))
        total = sum((y * y).sum() for y in found)
        total.backward()
        return [*found, *(x.grad for x in inputs), *(p.grad for p in module.parameters())]

    same_on_both(run)
    note("modules", name)


def test_every_module_is_in_the_table() -> None:
    made = {n for n in nn.__all__ if isinstance(getattr(nn, n), type) and issubclass(getattr(nn, n), nn.Module)}
    assert sorted(made - HOLDERS - set(CASES)) == [], "a new module: give it a line in CASES, so that it runs here"


def test_to_keeps_the_parameters_and_moves_what_they_hold() -> None:
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5))
    before = [(p, p.tolist()) for p in model.parameters()]
    model.to("cuda:1")
    assert all(p is q for (p, _), q in zip(before, model.parameters(), strict=True))
    assert {str(p.device) for p in model.parameters()} == {"cuda:1"}
    assert [p.tolist() for p in model.parameters()] == [v for _, v in before]
    model.cuda()
    assert {str(p.device) for p in model.parameters()} == {"cuda:0"}
    assert {str(p.device) for p in model.cpu().parameters()} == {"cpu"}


def test_state_goes_from_one_device_to_the_other() -> None:
    here, there = nn.Linear(4, 3), nn.Linear(4, 3).to("cuda")
    there.load_state_dict(here.state_dict())
    np.testing.assert_array_equal(host(there.weight), here.weight.detach().numpy())
    nn.Linear(4, 3).load_state_dict(there.state_dict())
    assert there.weight.device == "cuda:0"
