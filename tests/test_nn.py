"""Modules: how they find, save, load and move their parts."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.engine.modes import setting
from tinygrad_edu.nn import functional as F

f64 = tg.float64


@pytest.fixture(autouse=True)
def _seed() -> None:
    tg.manual_seed(0)


class Plain(nn.Module):
    """Layers in a list, and in a dict that holds a list."""

    def __init__(self, layers: Any) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Any) -> Any:
        return x


def pair() -> Any:
    return nn.Linear(2, 2)


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


# Finding the parts


@pytest.mark.parametrize(
    ("layers", "names"),
    [
        ([pair(), pair(), pair()], ["layers.0", "layers.1", "layers.2"]),
        ({"a": pair(), "b": [pair(), pair()]}, ["layers.a", "layers.b.0", "layers.b.1"]),
        ((pair(), (pair(), {3: pair()})), ["layers.0", "layers.1.0", "layers.1.1.3"]),
        (nn.ModuleList([pair(), pair(), pair()]), ["layers.0", "layers.1", "layers.2"]),
    ],
    ids=["list", "dict", "nested", "ModuleList"],
)
def test_layers_in_containers_are_found(layers: Any, names: list[str]) -> None:
    net = Plain(layers)
    assert count(net) == 18
    assert [n for n, _ in net.named_parameters()] == [f"{n}.{part}" for n in names for part in ("weight", "bias")]
    assert list(net.state_dict()) == [n for n, _ in net.named_parameters()]
    net.eval()
    assert not any(m.training for m in net.modules())
    assert len(list(net.modules())) == 4 + isinstance(layers, nn.ModuleList)


def test_a_shared_layer_counts_once_and_is_saved_under_all_names() -> None:
    net = Plain([pair(), pair()])
    net.alias = net.layers[0]
    assert count(net) == 12
    assert [n for n, _ in net.named_parameters()] == [
        "layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias",
    ]  # fmt: skip
    assert {"alias.weight", "layers.0.weight"} <= net.state_dict().keys()
    assert [n for n, _ in net.named_parameters(remove_duplicate=False)][-2:] == ["alias.weight", "alias.bias"]
    assert [n for n, _ in net.named_children()] == ["layers.0", "layers.1"]


def test_own_parameters_come_before_the_children() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = pair()
            self.scale = nn.Parameter(tg.ones(1))
            self.shifts = [nn.Parameter(tg.ones(1))]

    assert [n for n, _ in Net().named_parameters()] == ["scale", "shifts.0", "first.weight", "first.bias"]
    assert [n for n, _ in Net().named_parameters(prefix="net", recurse=False)] == ["net.scale", "net.shifts.0"]


def test_circles_end() -> None:
    net, inner = Plain([pair()]), Plain([])
    net.inner, inner.outer = inner, net
    inner.layers.append(inner.layers)
    assert count(net) == 6
    assert list(net.state_dict()) == ["layers.0.weight", "layers.0.bias"]
    seen: list[nn.Module] = []
    net.apply(seen.append)
    assert seen == [net.layers[0], inner, net]


def test_parameters_is_a_generator() -> None:
    parameters = pair().parameters()
    assert len(list(parameters)) == 2
    assert list(parameters) == []


def test_two_tensors_under_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match=r"two tensors are named 'layers\.1\.weight'"):
        Plain({1: pair(), "1": pair()}).state_dict()


# What may be assigned


def test_super_init_is_asked_for() -> None:
    class Forgot(nn.Module):
        def __init__(self) -> None:
            self.layers = [pair()]

    with pytest.raises(AttributeError, match=r"Forgot: 'layers' is assigned before super\(\)\.__init__\(\)"):
        Forgot()


def test_a_tensor_does_not_silently_replace_a_parameter() -> None:
    layer = pair()
    with pytest.raises(TypeError, match=r"Linear\.weight is a Parameter"):
        layer.weight = layer.weight * 2
    layer.bias = None
    assert count(layer) == 4


def test_forward_is_asked_for() -> None:
    with pytest.raises(NotImplementedError, match="Module has no forward"):
        nn.Module()(1)


def test_results_of_parameters_are_tensors() -> None:
    w = nn.Parameter(tg.ones(2, 2))
    for result in (w * 2, w[0], w.T, w.detach(), w.data, w @ w, F.linear(w, w)):
        assert type(result) is tg.Tensor
    assert w.requires_grad
    assert not nn.Parameter(tg.ones(1), requires_grad=False).requires_grad
    with pytest.raises(TypeError, match="floating"):
        nn.Parameter([1, 2])


# Buffers


def buffered() -> Any:
    net: Any = nn.Module()
    net.register_buffer("mean", tg.zeros(2))
    net.register_buffer("mask", tg.ones(2, dtype=tg.bool), persistent=False)
    net.register_buffer("later", None)
    return net


def test_buffers_are_saved_and_moved_but_not_learned() -> None:
    net = buffered()
    assert list(net.parameters()) == []
    assert [n for n, _ in net.named_buffers()] == ["mean", "mask"]
    assert list(net.state_dict()) == ["mean"]
    net.mean = net.mean * 0.9 + 0.1
    assert isinstance(net.mean, nn.Buffer)
    assert net.state_dict()["mean"].tolist() == pytest.approx([0.1, 0.1])
    net.to(f64)
    assert (net.mean.dtype, net.mask.dtype) == (f64, tg.bool)
    twin = pickle.loads(pickle.dumps(copy.deepcopy(net)))
    assert list(twin.state_dict()) == ["mean"]


@pytest.mark.parametrize("name", ["mean", "a.b", "", "forward"])
def test_a_buffer_needs_a_new_name(name: str) -> None:
    with pytest.raises(KeyError, match="new attribute name"):
        buffered().register_buffer(name, tg.zeros(1))


# Saving and loading


def test_state_dict_shares_memory_and_loading_copies_in_place() -> None:
    net, other = pair(), pair()
    before = net.weight
    array, version = before.array, before._version[0]
    state = other.state_dict()
    assert net.load_state_dict(state) == ([], [])
    assert net.weight is before
    assert net.weight.array is array
    assert before._version[0] > version
    assert np.array_equal(array, other.weight.array)
    assert not np.shares_memory(array, other.weight.array)
    assert np.shares_memory(state["weight"].array, other.weight.array)


def test_loading_names_everything_that_is_wrong_and_changes_nothing() -> None:
    net = Plain([pair(), pair()])
    before = {n: p.tolist() for n, p in net.state_dict().items()}
    state = {
        "layers.0.weight": np.zeros((2, 2)),
        "layers.0.bias": np.zeros(3),
        "layers.1.weight": "zeros",
        "layers.2.bias": np.zeros(2),
    }
    with pytest.raises(ValueError, match="nothing was loaded") as error:
        net.load_state_dict(state)
    for part in (
        "missing: layers.1.bias",
        "unexpected: layers.2.bias",
        "layers.0.bias has shape (3,), the module's is (2,)",
        "layers.1.weight is a str",
    ):
        assert part in str(error.value)
    assert {n: p.tolist() for n, p in net.state_dict().items()} == before


def test_loading_without_strict_reports_the_names() -> None:
    net = pair()
    result = net.load_state_dict({"weight": np.zeros((2, 2)), "more": np.zeros(1)}, strict=False)
    assert result.missing_keys == ["bias"]
    assert result.unexpected_keys == ["more"]
    assert net.weight.tolist() == [[0, 0], [0, 0]]
    with pytest.raises(ValueError, match="shape"):
        net.load_state_dict({"weight": np.zeros(2)}, strict=False)


def test_loading_swapped_values_of_the_same_module() -> None:
    net = Plain([pair(), pair()])
    state = net.state_dict()
    a, b = state["layers.0.weight"].tolist(), state["layers.1.weight"].tolist()
    state["layers.0.weight"], state["layers.1.weight"] = state["layers.1.weight"], state["layers.0.weight"]
    net.load_state_dict(state)
    assert [net.layers[0].weight.tolist(), net.layers[1].weight.tolist()] == [b, a]


def tied() -> Any:
    net: Any = nn.Module()
    net.token = nn.Embedding(5, 3)
    net.head = nn.Linear(3, 5, bias=False)
    net.head.weight = net.token.weight
    return net


def test_a_tied_weight_is_saved_twice_loaded_from_either_name_and_not_from_two_values() -> None:
    net = tied()
    assert count(net) == 15
    assert list(net.state_dict()) == ["token.weight", "head.weight"]
    assert net.load_state_dict({"head.weight": np.ones((5, 3))}) == ([], [])
    assert net.token.weight.array.sum() == 15
    with pytest.raises(ValueError, match=r"token\.weight and head\.weight are one tied parameter"):
        net.load_state_dict({"head.weight": np.ones((5, 3)), "token.weight": np.zeros((5, 3))})
    with pytest.raises(ValueError, match=r"missing: token\.weight, head\.weight"):
        net.load_state_dict({})


def test_fractions_are_not_loaded_into_integers() -> None:
    net: Any = nn.Module()
    net.register_buffer("seen", tg.tensor([1, 2]))
    with pytest.raises(ValueError, match="dtype float32"):
        net.load_state_dict({"seen": np.ones(2, np.float32)})


@pytest.mark.parametrize(
    "twin_of", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))], ids=["copy", "pickle"]
)
def test_copies_stand_alone_and_stay_tied(twin_of: Any) -> None:
    net = tied().eval()
    twin = twin_of(net)
    assert twin.head.weight is twin.token.weight
    assert type(twin.head.weight) is nn.Parameter
    assert twin.head.weight.requires_grad
    assert not twin.training
    assert np.array_equal(twin.head.weight.array, net.head.weight.array)
    assert not np.shares_memory(twin.head.weight.array, net.head.weight.array)


# Modes, moves, gradients


def test_dropout_in_eval_and_back() -> None:
    net = nn.Sequential(nn.Sequential(nn.Dropout(0.5)))
    x = tg.ones(1000)
    net.eval()
    assert net(x).tolist() == x.tolist() == net(x).tolist()
    net.train()
    y = net(x)
    assert set(y.tolist()) == {0.0, 2.0}
    assert abs(y.mean().item() - 1) < 0.16
    with pytest.raises(ValueError, match="True or False"):
        net.train("no")  # type: ignore[arg-type]


def test_to_keeps_the_parameters_and_moves_their_gradients() -> None:
    net = pair()
    before = list(net.parameters())
    net(tg.ones(1, 2)).sum().backward()
    assert net.to(f64) is net
    assert [p is q for p, q in zip(before, net.parameters())] == [True, True]
    assert net.weight.dtype == f64
    assert net.weight.grad.dtype == f64
    assert net(tg.ones(1, 2, dtype=f64)).dtype == f64
    net.to("cpu").to(device="cpu", dtype=tg.float32)
    assert net.bias.dtype == tg.float32
    with pytest.raises(TypeError, match="floating dtype"):
        net.to(tg.int64)
    with pytest.raises(ValueError, match="device"):
        net.to("tpu")


def test_freezing_and_forgetting_gradients() -> None:
    net = pair()
    net.weight.requires_grad_(False)
    net(tg.ones(1, 2)).sum().backward()
    assert net.weight.grad is None
    assert net.bias.grad is not None
    net.zero_grad(set_to_none=False)
    assert net.bias.grad.tolist() == [0, 0]
    net.zero_grad()
    assert net.bias.grad is None
    assert not any(p.requires_grad for p in net.requires_grad_(False).parameters())


def test_the_trace_is_told_of_every_call() -> None:
    class Trace:
        told: list[tuple[str, nn.Module]] = []  # noqa: RUF012

        def enter(self, module: nn.Module) -> None:
            self.told.append(("enter", module))

        def leave(self, module: nn.Module) -> None:
            self.told.append(("leave", module))

    class Fails(nn.Module):
        def forward(self, x: Any) -> Any:
            raise KeyError("inside")

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Fails()

        def forward(self, x: Any) -> Any:
            return self.inner(x)

    net, trace = Outer(), Trace()
    with setting(trace=trace), pytest.raises(KeyError):
        net(1)
    assert trace.told == [("enter", net), ("enter", net.inner), ("leave", net.inner), ("leave", net)]


def test_the_printed_form() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.GELU(), Plain([pair(), pair()]), nn.Embedding(4, 2, padding_idx=-1))
    assert repr(net) == (
        "Sequential(\n"
        "  (0): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (1): GELU(approximate='none')\n"
        "  (2): Plain(\n"
        "    (layers.0-1): 2 x Linear(in_features=2, out_features=2, bias=True)\n"
        "  )\n"
        "  (3): Embedding(4, 2, padding_idx=3)\n"
        ")"
    )
    assert repr(nn.LayerNorm(3)) == "LayerNorm((3,), eps=1e-05, elementwise_affine=True)"
    assert repr(nn.ModuleList()) == "ModuleList()"


# Containers


def test_module_lists() -> None:
    layers = nn.ModuleList(pair() for _ in range(3))
    first, last = layers[0], layers[-1]
    assert [*layers][1] is layers[1]
    assert isinstance(layers[:2], nn.ModuleList)
    assert layers[:2][0] is first
    layers.append(pair()).extend([pair()])
    layers.insert(0, last)
    assert len(layers) == 6
    assert layers[0] is last
    assert layers[1] is first
    layers[-1] = first
    assert [n for n, _ in layers.named_parameters(remove_duplicate=False)][-1] == "5.bias"
    with pytest.raises(IndexError, match="index 6 of 6 modules"):
        layers[6]
    with pytest.raises(TypeError, match="holds modules, not a int"):
        layers.append(3)  # type: ignore[arg-type]


def test_sequential_takes_names() -> None:
    net: Any = nn.Sequential({"up": nn.Linear(2, 4, bias=False), "down": nn.Linear(4, 1, bias=False)})
    assert list(net.state_dict()) == ["up.weight", "down.weight"]
    x = tg.ones(1, 2)
    assert net(x).item() == pytest.approx((net.down(net.up(x))).item())
    assert len(net[1:]) == 1


def test_tied_gradients_are_the_sum_of_both_uses() -> None:
    net = tied().to(f64)
    ids, target = [1, 4], [2, 0]
    weight = net.token.weight.detach().clone()
    once, twice = (weight.clone().requires_grad_() for _ in range(2))
    F.cross_entropy(F.linear(F.embedding(ids, once), twice), target).backward()
    F.cross_entropy(net.head(net.token(ids)), target).backward()
    assert once.grad is not None
    assert twice.grad is not None
    assert np.allclose(net.token.weight.grad.array, once.grad.array + twice.grad.array, atol=1e-15)
