"""Parts of modules: containers, hooks, conversions, and the layers that are not in every model."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.nn import functional as F

f64 = tg.float64
R = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _seed() -> None:
    tg.manual_seed(0)


def made(*shape: int) -> Any:
    return tg.tensor(R.standard_normal(shape), requires_grad=True)


def same(a: Any, b: Any) -> None:
    x, y = (v.detach().numpy() if isinstance(v, tg.Tensor) else v for v in (a, b))
    np.testing.assert_allclose(x, y, atol=1e-12)


# Containers


def test_a_dict_of_modules() -> None:
    parts: Any = nn.ModuleDict({"up": nn.Linear(2, 3), "act": nn.ReLU()})
    parts["down"] = nn.Linear(3, 2)
    assert list(parts) == list(parts.keys()) == ["up", "act", "down"]
    assert parts.up is parts["up"]
    assert len(parts) == 3
    assert "act" in parts
    assert "no" not in parts
    assert [name for name, _ in parts.named_parameters()] == ["up.weight", "up.bias", "down.weight", "down.bias"]
    assert isinstance(parts.pop("act"), nn.ReLU)
    parts.update([("more", nn.Identity())])
    assert list(parts) == ["up", "down", "more"]
    parts.clear()
    assert len(parts) == 0


@pytest.mark.parametrize("key", ["keys", "forward", "a.b", "", "training"])
def test_a_dict_refuses_names_that_are_none(key: str) -> None:
    with pytest.raises(KeyError, match="attribute name"):
        nn.ModuleDict({key: nn.Identity()})
    with pytest.raises(KeyError, match="attribute name"):
        nn.ParameterDict({key: tg.ones(1)})


def test_a_dict_says_what_it_has() -> None:
    with pytest.raises(KeyError, match="it has up"):
        nn.ModuleDict({"up": nn.Identity()})["down"]
    with pytest.raises(TypeError, match="holds modules, not a int"):
        nn.ModuleDict({"up": 3})
    with pytest.raises(TypeError, match="holds parameters, not a int"):
        nn.ParameterList([3])


def test_lists_and_dicts_of_parameters() -> None:
    rows = nn.ParameterList([tg.ones(2), nn.Parameter(tg.zeros(3))])
    rows.append(tg.ones(1))
    rows[0] = tg.zeros(4)
    assert [p.shape for p in rows] == [(4,), (3,), (1,)]
    assert [name for name, _ in rows.named_parameters()] == ["0", "1", "2"]
    assert len(rows[1:]) == 2
    assert all(p.requires_grad for p in rows)
    named = nn.ParameterDict({"scale": tg.ones(2)})
    named["shift"] = tg.zeros(2)
    assert list(named.state_dict()) == list(named) == ["scale", "shift"]
    assert named.pop("scale").shape == (2,)
    assert named.values() == [named.shift]  # type: ignore[attr-defined]


def test_lists_of_modules_shrink_and_grow() -> None:
    layers = nn.ModuleList(nn.Linear(i, 1) for i in range(1, 5))
    del layers[1]
    assert [m.in_features for m in layers] == [1, 3, 4]  # type: ignore[attr-defined]
    assert layers.pop().in_features == 4  # type: ignore[attr-defined]
    layers.insert(0, nn.Identity())
    layers += [nn.ReLU()]
    assert [name for name, _ in layers.named_children()] == ["0", "1", "2", "3"]
    assert [type(m).__name__ for m in layers.__add__([nn.GELU()])] == ["Identity", "Linear", "Linear", "ReLU", "GELU"]
    assert next(iter(nn.Sequential(*layers).state_dict())) == "1.weight"


# Hooks


def test_hooks_see_and_change_calls() -> None:
    net: Any = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    seen: list[Any] = []
    first = net[0].register_forward_hook(lambda m, args, y: seen.append((type(m).__name__, args[0].shape, y.shape)))
    net(tg.zeros(3, 2))
    assert seen == [("Linear", (3, 2), (3, 2))]
    first.remove()
    first.remove()
    with net[1].register_forward_pre_hook(lambda m, args: args[0] * 0 - 1):
        assert net(tg.ones(1, 2)).tolist() == [[0, 0]]
    with net.register_forward_hook(lambda m, args, y: y + 5):
        assert min(net(tg.ones(1, 2)).tolist()[0]) >= 5
    with net.register_forward_pre_hook(lambda m, args, kw: ((args[0] * 2,), kw), with_kwargs=True):
        assert net(tg.zeros(1, 2)).shape == (1, 2)
    with net.register_forward_hook(lambda m, args, kw, y: seen.append(kw), with_kwargs=True, prepend=True):
        net(input=tg.zeros(1, 2))
    assert len(seen) == 2
    assert "input" in seen[1]
    assert len(list(copy.deepcopy(net).parameters())) == 2


def test_a_module_that_watches_is_no_part() -> None:
    net, watcher = nn.Linear(2, 2), nn.Linear(2, 2)
    net.register_forward_hook(lambda m, args, y: None)
    net.register_forward_hook(watcher.forward)
    assert len(list(net.parameters())) == 2
    assert len(list(net.modules())) == 1


# Parts by path, and conversions


def test_parts_are_found_by_their_path() -> None:
    net: Any = nn.Sequential(nn.ModuleDict({"in": nn.Linear(2, 2)}), nn.Flatten())
    assert net.get_submodule("0.in") is net[0]["in"]
    assert net.get_submodule("") is net
    assert net.get_parameter("0.in.bias") is net[0]["in"].bias
    net.register_buffer("seen", tg.zeros(1))
    assert net.get_buffer("seen") is net.seen
    with pytest.raises(AttributeError, match=r"no module '0\.out'; it has .*0\.in"):
        net.get_submodule("0.out")
    net.add_module("tail", nn.Identity())
    assert isinstance(net.tail, nn.Identity)
    with pytest.raises(TypeError, match="give a Module"):
        net.add_module("x", 3)
    assert next(iter(net.state_dict(prefix="net."))) == "net.seen"
    assert net.state_dict(keep_vars=True)["seen"] is net.seen


@pytest.mark.parametrize(
    ("convert", "dtype"),
    [
        (lambda m: m.half(), tg.float16),
        (lambda m: m.double(), f64),
        (lambda m: m.double().float().cpu(), tg.float32),
        (lambda m: m.type(f64), f64),
        (lambda m: m.to("cpu", f64), f64),
        (lambda m: m.to(tg.zeros(1, dtype=f64)), f64),
        (lambda m: m.to(device=tg.device("cpu"), dtype=f64, non_blocking=True), f64),
    ],
)
def test_modules_are_converted(convert: Any, dtype: Any) -> None:
    net = nn.Linear(2, 2)
    net.register_buffer("count", tg.zeros(1, dtype=tg.long))
    assert convert(net) is net
    assert {p.dtype for p in net.parameters()} == {dtype}
    assert net.get_buffer("count").dtype == tg.int64


# Layers


def test_every_activation_is_its_function() -> None:
    x = made(3, 4)
    names = {
        "ReLU": "relu", "ReLU6": "relu6", "LeakyReLU": "leaky_relu", "ELU": "elu", "CELU": "celu", "SELU": "selu",
        "SiLU": "silu", "Mish": "mish", "Hardswish": "hardswish", "Hardsigmoid": "hardsigmoid", "Hardtanh": "hardtanh",
        "Sigmoid": "sigmoid", "LogSigmoid": "logsigmoid", "Tanh": "tanh", "Tanhshrink": "tanhshrink", "GLU": "glu",
        "Softsign": "softsign", "Softplus": "softplus", "GELU": "gelu",
    }  # fmt: skip
    for module, function in names.items():
        assert getattr(nn, module)()(x).tolist() == getattr(F, function)(x).tolist()
    for module, function in {"Softmax": "softmax", "LogSoftmax": "log_softmax", "Softmin": "softmin"}.items():
        assert getattr(nn, module)(dim=0)(x).tolist() == getattr(F, function)(x, dim=0).tolist()
    for shape, axis in (((), 0), ((3,), 0), ((3, 4), 1), ((2, 3, 4), 0), ((1, 2, 3, 4), 1)):
        y = tg.randn(*shape) if shape else tg.tensor(1.0)
        with pytest.warns(UserWarning, match=f"dim was not given, so it is {axis}"):
            assert nn.Softmax()(y).tolist() == F.softmax(y, axis).tolist()
    assert repr(nn.LeakyReLU(0.3, inplace=True)) == "LeakyReLU(negative_slope=0.3)"
    soft = F.gumbel_softmax(x, tau=0.5)
    hard = F.gumbel_softmax(x, hard=True)
    assert soft.sum(-1).tolist() == pytest.approx([1] * 3)
    assert set(hard.round(decimals=6).reshape(-1).tolist()) == {0, 1}
    hard.sum().backward()


def test_every_loss_is_its_function() -> None:
    logits, targets, w = made(4, 3), tg.tensor([0, 2, 1, 2]), tg.tensor([1.0, 2.0, 3.0], dtype=f64)
    assert nn.CrossEntropyLoss(w)(logits, targets).item() == F.cross_entropy(logits, targets, w).item()
    assert nn.NLLLoss(reduction="sum")(logits, targets).item() == F.nll_loss(logits, targets, reduction="sum").item()
    x, y = logits, made(4, 3).detach()
    for module, function in {"MSELoss": "mse_loss", "L1Loss": "l1_loss", "HuberLoss": "huber_loss"}.items():
        assert (
            getattr(nn, module)(reduction="none")(x, y).tolist()
            == getattr(F, function)(x, y, reduction="none").tolist()
        )
    assert nn.SmoothL1Loss(beta=0.5)(x, y).item() == F.smooth_l1_loss(x, y, beta=0.5).item()
    assert list(nn.CrossEntropyLoss(w).state_dict()) == ["weight"]
    assert not list(nn.CrossEntropyLoss(w).parameters())
    p = x.sigmoid()
    assert nn.BCELoss()(p, (y > 0).double()).item() == pytest.approx(
        nn.BCEWithLogitsLoss()(x, (y > 0).double()).item(), rel=1e-12
    )


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_a_recurrent_layer_is_its_cell_run_along(kind: str) -> None:
    layer, cell = getattr(nn, kind)(3, 4, dtype=f64), getattr(nn, kind + "Cell")(3, 4, dtype=f64)
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in layer.state_dict().items()})
    x, state = made(5, 2, 3), None
    outputs, last = layer(x)
    for i in range(5):
        state = cell(x[i], state)
        h = state[0] if kind == "LSTM" else state
        same(h, outputs[i])
    same((last[0] if kind == "LSTM" else last)[0], h)
    alone, _ = layer(x[:, 0])
    same(alone, outputs[:, 0])


def test_recurrent_layers_say_what_they_need() -> None:
    with pytest.raises(ValueError, match=r"needs \[T, B, 3\].*got \(2, 4\)"):
        nn.GRU(3, 4)(tg.zeros(2, 4))
    with pytest.raises(ValueError, match=r"first state has shape \(1, 1, 4\), expected \(1, 2, 4\)"):
        nn.GRU(3, 4)(tg.zeros(5, 2, 3), tg.zeros(1, 1, 4))
    with pytest.raises(ValueError, match="put a Linear behind"):
        nn.LSTM(3, 4, proj_size=2)
    with pytest.raises(ValueError, match="'tanh' or 'relu'"):
        nn.RNN(3, 4, nonlinearity="gelu")
    with pytest.raises(ValueError, match="at least one position"):
        nn.RNN(3, 4)(tg.zeros(0, 2, 3))
    assert repr(nn.LSTM(3, 4, 2, batch_first=True)) == "LSTM(3, 4, num_layers=2, batch_first=True)"


def test_attention_with_and_without_weights_is_the_same() -> None:
    layer = nn.MultiheadAttention(8, 2, batch_first=True, dtype=f64)
    q, kv = made(2, 3, 8), made(2, 5, 8)
    hidden, padded = tg.tensor(R.random((3, 5)) > 0.7), tg.zeros(2, 5, dtype=tg.bool)
    padded[1, 3:] = True
    for masks in (
        {},
        {"attn_mask": hidden},
        {"key_padding_mask": padded},
        {"attn_mask": hidden, "key_padding_mask": padded},
    ):
        slow, weights = layer(q, kv, kv, **masks)
        fast, none = layer(q, kv, kv, need_weights=False, **masks)
        assert none is None
        same(slow, fast)
        assert weights.shape == (2, 3, 5)
        assert "key_padding_mask" not in masks or weights[1, :, 3:].sum().item() == 0
    later = tg.ones(3, 3, dtype=tg.bool).triu(1)
    by_mask, by_flag = layer(q, q, q, attn_mask=later)[0], layer(q, q, q, is_causal=True)[0]
    same(by_mask, by_flag)
    numbers = tg.zeros(3, 3, dtype=f64).masked_fill(later, float("-inf"))
    same(layer(q, q, q, attn_mask=numbers)[0], by_flag)
    with pytest.raises(ValueError, match="attn_mask has shape"):
        layer(q, kv, kv, attn_mask=later)
    with pytest.raises(ValueError, match="must be a multiple"):
        nn.MultiheadAttention(8, 3)
    with pytest.raises(TypeError, match="must be boolean or floating"):
        layer(q, kv, kv, attn_mask=hidden.long())


def test_floating_masks_of_attention() -> None:
    q, k, v, bias = made(2, 4, 3), made(2, 4, 3), made(2, 4, 3), made(4, 4)
    later = tg.full((4, 4), float("-inf"), dtype=f64).triu(1)
    same(F.scaled_dot_product_attention(q, k, v, later), F.scaled_dot_product_attention(q, k, v, is_causal=True))
    y = F.scaled_dot_product_attention(q, k, v, bias, is_causal=True)
    scores = q @ k.mT / 3**0.5 + bias + later
    same(y, (scores.softmax(-1) @ v))
    y.sum().backward()
    assert abs(bias.grad.numpy()[np.triu_indices(4, 1)]).max() == 0


def test_a_padded_batch_and_its_sequences() -> None:
    rows = [tg.tensor([[1.0, 2.0]] * n) for n in (3, 1)]
    whole = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=9.0)
    assert whole.shape == (2, 3, 2)
    assert whole[1].tolist() == [[1, 2], [9, 9], [9, 9]]
    assert nn.utils.rnn.pad_sequence(rows).shape == (3, 2, 2)
    left = nn.utils.rnn.pad_sequence([tg.tensor([1, 2]), tg.tensor([3])], True, padding_side="left")
    assert left.tolist() == [[1, 2], [0, 3]]
    again = nn.utils.rnn.unpad_sequence(whole, tg.tensor([3, 1]), batch_first=True)
    assert [r.tolist() for r in again] == [r.tolist() for r in rows]


def test_a_table_from_elsewhere() -> None:
    values = tg.tensor([[1.0, 2.0], [3.0, 4.0]])
    table = nn.Embedding.from_pretrained(values)
    assert table(tg.tensor([1])).tolist() == [[3, 4]]
    assert not table.weight.requires_grad
    assert nn.Embedding.from_pretrained(values, freeze=False).weight.requires_grad


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (lambda: nn.init.trunc_normal_(tg.zeros(2), a=1.0, b=0.0), "hardly a draw"),
        (lambda: nn.init.eye_(tg.zeros(2)), "needs a matrix"),
        (lambda: nn.init.orthogonal_(tg.zeros(2)), "two or more axes"),
    ],
)
def test_first_values_that_cannot_be(draw: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        draw()


def test_orthogonal_and_cut_off_first_values() -> None:
    w = nn.init.orthogonal_(tg.zeros(3, 5, dtype=f64))
    same((w @ w.T), np.eye(3))
    cut = nn.init.trunc_normal_(tg.zeros(1000), std=1.0, a=-1.0, b=0.5).numpy()
    assert cut.min() >= -1
    assert cut.max() <= 0.5
    assert len(np.unique(cut)) > 990
