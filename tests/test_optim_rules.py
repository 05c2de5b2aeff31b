"""SGD, Adam, RMSprop, Adagrad and Muon: their formulas, and what they all inherit."""

import copy
import importlib
import math
import pickle
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn, optim
from tinygrad_edu.optim.muon import orthogonal
from tinygrad_edu.parallel import Shards

f64 = tg.float64

# each with options that give it all the state it can have
ALL: dict[str, Any] = {
    "SGD": lambda params, **o: optim.SGD(params, **{"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1, **o}),
    "Adam": lambda params, **o: optim.Adam(params, **{"lr": 0.1, "amsgrad": True, "weight_decay": 0.1, **o}),
    "AdamW": lambda params, **o: optim.AdamW(params, **{"lr": 0.1, "weight_decay": 0.1, **o}),
    "RMSprop": lambda params, **o: optim.RMSprop(params, **{"lr": 0.01, "momentum": 0.9, "centered": True, **o}),
    "Adagrad": lambda params, **o: optim.Adagrad(params, **{"lr": 0.1, "initial_accumulator_value": 0.2, **o}),
    "Muon": lambda params, **o: optim.Muon(params, **{"lr": 0.1, **o}),
    "MuonAdamW": lambda params, **o: optim.MuonAdamW([{"params": params, "use_muon": True}], **{"lr": 0.1, **o}),
}
every = pytest.mark.parametrize("make", ALL.values(), ids=ALL)


def leaf(*values: float) -> Any:
    return tg.tensor(values[0] if len(values) == 1 else values, dtype=f64, requires_grad=True)


def matrices(seed: int = 0) -> dict[str, Any]:
    drawn = np.random.default_rng(seed)
    return {name: tg.tensor(drawn.normal(size=(2, 3)), requires_grad=True) for name in "pqr"}


def push(made: dict[str, Any], optimizer: Any, step: int, names: str = "pqr") -> None:
    drawn = np.random.default_rng(100 + step)
    for name, p in sorted(made.items()):
        g = drawn.normal(size=p.shape)
        p.grad = tg.tensor(g) if name in names else None
    optimizer.step()


# The formulas, by hand


@pytest.mark.parametrize(
    ("make", "gradients", "values"),
    [
        (lambda p: optim.SGD(p, lr=0.1), [1, 2], [0.9, 0.7]),
        (lambda p: optim.SGD(p, lr=0.1, weight_decay=0.5), [1, 2], [0.85, 0.6075]),
        (lambda p: optim.SGD(p, lr=0.1, momentum=0.5), [1, 2, None, 0], [0.9, 0.65, 0.65, 0.525]),
        (lambda p: optim.SGD(p, lr=0.1, momentum=0.5, dampening=0.5), [1, 2], [0.9, 0.75]),
        (lambda p: optim.SGD(p, lr=0.1, momentum=0.5, nesterov=True), [1, 2], [0.85, 0.525]),
        (lambda p: optim.SGD(p, lr=0.1, maximize=True), [1, 2], [1.1, 1.3]),
        (lambda p: optim.RMSprop(p, lr=0.1, alpha=0.75, eps=1e-12), [2, 2], [0.8, 0.8 - 0.2 / math.sqrt(1.75)]),
        (lambda p: optim.RMSprop(p, lr=0.1, alpha=0.75, eps=1), [2, 0], [0.9, 0.9]),
        (lambda p: optim.RMSprop(p, lr=0.1, alpha=0.75, momentum=0.5, eps=1e-12), [2, 0], [0.8, 0.7]),
        (lambda p: optim.RMSprop(p, lr=0.1, alpha=0.75, centered=True, eps=1e-12), [2], [1 - 0.2 / math.sqrt(0.75)]),
        (lambda p: optim.Adagrad(p, lr=0.1, eps=1e-12), [3, 4], [0.9, 0.82]),
        (lambda p: optim.Adagrad(p, lr=0.1, lr_decay=1, eps=1e-12), [3, 4], [0.9, 0.86]),
        (lambda p: optim.Adagrad(p, lr=0.1, initial_accumulator_value=16, eps=1e-12), [3], [0.94]),
        (lambda p: optim.Adam(p, lr=0.1), [5, 5, None, 5], [0.9, 0.8, 0.8, 0.7]),
    ],
)
def test_steps_by_hand(make: Any, gradients: list[float | None], values: list[float]) -> None:
    p = leaf(1.0)
    optimizer = make([p])
    for gradient, value in zip(gradients, values, strict=True):
        p.grad = None if gradient is None else tg.tensor(float(gradient), dtype=f64)
        optimizer.step()
        assert p.item() == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("gradient", [0.0, 3.0])
def test_adam_renormalises_decay_in_the_gradient(gradient: float) -> None:
    w = leaf(1.0)
    w.grad = tg.tensor(gradient, dtype=f64)
    optim.Adam([w], lr=0.1, weight_decay=0.1).step()
    assert w.item() == pytest.approx(0.9, abs=1e-6)


@pytest.mark.parametrize("cls", [optim.Adam, optim.AdamW])
def test_each_parameter_counts_its_own_steps(cls: Any) -> None:
    p, q = leaf(1.0), leaf(1.0)
    optimizer = cls([p, q], lr=0.1, weight_decay=0.0)
    history = []
    for step in range(3):
        p.grad = tg.tensor(5.0, dtype=f64)
        q.grad = tg.tensor(0.02, dtype=f64) if step == 2 else None
        optimizer.step()
        history.append((p.item(), q.item()))
    assert np.allclose(history, [(0.9, 1.0), (0.8, 1.0), (0.7, 0.9)], rtol=0, atol=1e-6)


def test_a_weight_used_twice_is_stepped_once() -> None:
    w = leaf(2.0)
    sgd = optim.SGD([w], lr=0.1)
    (w * (w * 3)).backward()
    assert w.grad.item() == 12
    sgd.step()
    assert w.item() == pytest.approx(0.8)
    with pytest.raises(ValueError, match="given twice"):
        optim.SGD([w, w], lr=0.1)


@every
def test_tied_weights_are_updated_once_and_stay_one(make: Any) -> None:
    net: Any = nn.Module()
    net.token, net.head = nn.Embedding(5, 3, dtype=f64), nn.Linear(3, 5, bias=False)
    net.head.weight = net.token.weight
    assert sum(p.numel() for p in net.parameters()) == 15
    alone = tg.tensor(net.token.weight.array, requires_grad=True)
    optimizer, other = make(net.parameters()), make([alone])
    for _ in range(2):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net.head(net.token([1, 4])), [2, 0]).backward()
        alone.grad = net.token.weight.grad
        optimizer.step()
        other.step()
    assert net.head.weight is net.token.weight
    assert np.array_equal(net.head.weight.array, alone.array)


def test_centered_rmsprop_of_a_constant_gradient_stays_finite() -> None:
    p = leaf(1.0, 1.0)
    optimizer = optim.RMSprop([p], lr=1e-3, alpha=0.5, centered=True, eps=1e-3)
    for _ in range(200):
        p.grad = tg.tensor([0.1, 1e-3], dtype=f64)
        optimizer.step()
    assert np.isfinite(p.array).all()


# Muon


@pytest.mark.parametrize("shape", [(8, 8), (3, 12), (12, 3), (1, 5)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_orthogonal(shape: tuple[int, int], dtype: str) -> None:
    matrix = np.random.default_rng(0).normal(size=shape).astype(dtype)
    u, _, vt = np.linalg.svd(matrix, full_matrices=False)
    exact = orthogonal(matrix, (2.0, -1.5, 0.5), 60)
    assert np.allclose(exact, u @ vt, atol=1e-4 if dtype == "float32" else 1e-9)
    near = orthogonal(matrix * 1000)
    assert near.dtype == dtype
    assert 0.6 < np.linalg.svd(near, compute_uv=False).min() <= np.linalg.svd(near, compute_uv=False).max() < 1.25
    assert np.array_equal(orthogonal(np.zeros(shape)), np.zeros(shape))


@pytest.mark.parametrize(
    ("shape", "adjust", "scale"),
    [((2, 8), None, 1.0), ((8, 2), "original", 2.0), ((2, 25), "match_rms_adamw", 1.0), ((0, 3), None, 0.0)],
)
def test_the_size_of_muons_step(shape: tuple[int, int], adjust: str | None, scale: float) -> None:
    w = tg.ones(*shape, dtype=f64, requires_grad=True)
    w.grad = tg.tensor(np.random.default_rng(0).normal(size=shape))
    muon = optim.Muon([w], lr=0.5, weight_decay=0.2, ns_coefficients=(2, -1.5, 0.5), ns_steps=60, adjust_lr_fn=adjust)
    muon.step()
    moved = np.linalg.svd(w.array - 0.9, compute_uv=False)
    assert np.allclose(moved, 0.5 * scale)


class Net(nn.Module):
    """A small language model with everything that muon_groups must tell apart."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(7, 4), nn.Embedding(5, 4)
        self.up, self.norm, self.down = nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 4, bias=False)
        self.lm_head = nn.Linear(4, 7, bias=False)
        if tied:
            self.lm_head.weight = self.token.weight

    def forward(self, ids: Any) -> Any:
        x = self.token(ids) + self.position(tg.arange(len(ids)))
        return self.lm_head(x + self.down(nn.functional.gelu(self.norm(self.up(x)))))


@pytest.mark.parametrize("tied", [True, False])
def test_muon_groups(tied: bool) -> None:
    net = Net(tied)
    optimizer = optim.MuonAdamW(optim.muon_groups(net, 0.2), lr=0.01)
    found = [(g["use_muon"], g["weight_decay"], g["param_names"]) for g in optimizer.param_groups]
    assert found == [
        (True, 0.2, ["up.weight", "down.weight"]),
        (False, 0.2, ["token.weight", "position.weight"] + ["lm_head.weight"] * (not tied)),
        (False, 0.0, ["up.bias", "norm.weight", "norm.bias"]),
    ]
    everything = optim.muon_groups(net, 0.2, heads=("down", "up", "head"))
    assert not any(group["use_muon"] for group in everything)


def test_muon_and_adamw_train_a_model_together() -> None:
    tg.manual_seed(0)
    net = Net(tied=True)
    optimizer = optim.MuonAdamW(optim.muon_groups(net, 0.01), lr=0.02)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=60)
    losses = []
    for _ in range(60):
        loss = nn.functional.cross_entropy(net([0, 3, 1, 6, 2]), [3, 1, 6, 2, 5])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]
    kinds = [set(entry) for entry in optimizer.state_dict()["state"].values()]
    assert kinds == [{"step", "momentum_buffer"}] * 2 + [{"step", "exp_avg", "exp_avg_sq"}] * 5
    assert {group["lr"] for group in optimizer.param_groups} == {schedule.get_last_lr()[0]}
    optimizer.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    shown = repr(optimizer)
    assert "2 parameters: use_muon=True, lr=" in shown
    assert "3 parameters: lr=" in shown


def test_muon_takes_matrices_only() -> None:
    with pytest.raises(ValueError, match=r"parameter 'b' has shape \(2,\), and only matrices"):
        optim.Muon([("a", tg.ones(2, 2, requires_grad=True)), ("b", tg.ones(2, requires_grad=True))])
    both = optim.MuonAdamW([tg.ones(2, requires_grad=True)])
    with pytest.raises(ValueError, match="only matrices"):
        both.add_param_group({"params": [tg.ones(2, 2, 2, requires_grad=True)], "use_muon": True})
    with pytest.raises(ValueError, match="'momentum' is unknown"):
        both.add_param_group({"params": [tg.ones(2, 2, requires_grad=True)], "momentum": 0.9})
    both.add_param_group({"params": [tg.ones(2, 2, requires_grad=True)], "use_muon": True, "momentum": 0.9})
    assert [group.get("momentum") for group in both.param_groups] == [None, 0.9]


# What all have in common


@every
def test_no_gradient_no_change_and_new_versions_for_what_changed(make: Any) -> None:
    made = matrices()
    optimizer = make(made.items())
    push(made, optimizer, 0)
    before = {name: (p.tolist(), p._version[0]) for name, p in made.items()}
    push(made, optimizer, 1, names="pr")
    assert {name: p.tolist() != before[name][0] for name, p in made.items()} == {"p": True, "q": False, "r": True}
    assert {name: p._version[0] - before[name][1] for name, p in made.items()} == {"p": 1, "q": 0, "r": 1}
    assert [entry["step"] for entry in optimizer.state_dict()["state"].values()] == [2, 1, 2]


@every
def test_a_gradient_of_another_shape_changes_nothing(make: Any) -> None:
    made = matrices()
    optimizer = make(made.items())
    before = {name: p.tolist() for name, p in made.items()}
    for p in made.values():
        p.grad = tg.ones_like(p)
    made["r"].grad.array = np.ones(3)
    with pytest.raises(ValueError, match=r"\w+\.step: a gradient has shape \(3,\) and its parameter \(2, 3\)"):
        optimizer.step()
    assert {name: p.tolist() for name, p in made.items()} == before
    assert optimizer.state_dict()["state"] == {}


@every
@pytest.mark.parametrize("order", ["pqr", "rpq"])
def test_state_follows_the_names_and_resuming_is_exact(make: Any, order: str) -> None:
    made = matrices()
    optimizer = make(made.items())
    for step, names in enumerate(["pqr", "pr", "p"]):
        push(made, optimizer, step, names)
    saved = optimizer.state_dict()
    again = {name: tg.tensor(made[name].array, requires_grad=True) for name in order}
    other = make(again.items(), lr=7.0)
    other.load_state_dict(saved)
    for step in range(3, 6):
        push(made, optimizer, step)
        push(again, other, step)
    assert {name: p.tolist() for name, p in again.items()} == {name: p.tolist() for name, p in made.items()}


@every
def test_state_that_lacks_something_is_refused_whole(make: Any) -> None:
    made = matrices()
    optimizer = make(made.items())
    push(made, optimizer, 0)
    whole = optimizer.state_dict()
    push(made, optimizer, 1)
    before = optimizer.state_dict()
    slot = list(whole["state"][1])[-1]
    for wrong, said in [
        ({**whole["state"], 2: {k: v for k, v in whole["state"][2].items() if k != slot}}, f"parameter 2 lacks {slot}"),
        ({**whole["state"], 2: {**whole["state"][2], slot: np.zeros(3)}}, rf"{slot} of parameter 2 has shape \(3,\)"),
        ({**whole["state"], 9: whole["state"][0]}, "parameter 9, which is in no group"),
    ]:
        with pytest.raises(ValueError, match=said):
            optimizer.load_state_dict({**whole, "state": wrong})
    groups = [{**group, "lr": -1.0} for group in whole["param_groups"]]
    with pytest.raises(ValueError, match=r"nothing was loaded; \w*: lr must be"):
        optimizer.load_state_dict({**whole, "param_groups": groups})
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    for at, entry in before["state"].items():
        assert {k: v if k == "step" else v.tolist() for k, v in entry.items()} == {
            k: v if k == "step" else v.tolist() for k, v in after["state"][at].items()
        }


def test_state_of_another_optimizer_is_refused() -> None:
    made = matrices()
    adam = optim.Adam(made.items())
    with pytest.raises(ValueError, match=r"SGD\.load_state_dict: the state lacks 'momentum'"):
        optim.SGD(made.items()).load_state_dict(adam.state_dict())


@every
@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "pickle"])
def test_a_copy_goes_on_by_itself(make: Any, twin_of: Any) -> None:
    made = matrices()
    optimizer = make(made.items())
    push(made, optimizer, 0)
    twins, twin = twin_of((made, optimizer))
    push(twins, twin, 1)
    assert made["p"].tolist() != twins["p"].tolist()
    push(made, optimizer, 1)
    assert {name: p.tolist() for name, p in twins.items()} == {name: p.tolist() for name, p in made.items()}


@every
def test_an_exhausted_generator_is_refused(make: Any) -> None:
    parameters = (p for p in matrices().values())
    make(parameters)
    assert list(parameters) == []
    with pytest.raises(ValueError, match="generator can be read only once"):
        make(parameters)


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adagrad"])
def test_long_vectors_are_one_pass_alone_or_shared(name: str) -> None:
    found = []
    for threads in (1, 2):
        drawn = np.random.default_rng(0)
        w = tg.tensor(drawn.normal(size=300_001).astype(np.float32), requires_grad=True)
        few = tg.tensor(w.array[-5:], requires_grad=True)
        optimizer, other = ALL[name]([w]), ALL[name]([few])
        with Shards(threads):
            for _ in range(3):
                w.grad = tg.tensor(drawn.normal(size=w.shape).astype(np.float32))
                few.grad = w.grad[-5:]
                optimizer.step()
                other.step()
        assert np.allclose(w.array[-5:], few.array, rtol=1e-6, atol=0)
        found.append(w.array)
    assert np.array_equal(*found)


def test_muons_matrices_are_shared_out() -> None:
    found = []
    for threads in (1, 2):
        drawn = np.random.default_rng(0)
        shapes = [(400, 300), (2, 3), (300, 500), (1, 1)]
        made: list[Any] = [tg.tensor(drawn.normal(size=s).astype(np.float32), requires_grad=True) for s in shapes]
        muon = optim.Muon(made, lr=0.1)
        with Shards(threads):
            for p in made:
                p.grad = tg.tensor(drawn.normal(size=p.shape).astype(np.float32))
            muon.step()
        found.append(np.concatenate([p.array.ravel() for p in made]))
    assert np.allclose(found[0], found[1], rtol=0, atol=1e-6)


def test_an_option_that_is_turned_on_later_gets_its_memory() -> None:
    p, q = leaf(1.0), leaf(1.0)
    sgd, twin = optim.SGD([p], lr=0.1), optim.SGD([q], lr=0.1, momentum=0.5)
    for w in (p, q):
        w.grad = tg.tensor(1.0, dtype=f64)
    sgd.step()
    assert sgd.state_dict()["state"] == {0: {"step": 1}}
    sgd.param_groups[0]["momentum"] = 0.5
    for _ in range(2):
        sgd.step()
        twin.step()
    assert p.item() == pytest.approx(q.item() - 0.1)
    sgd.param_groups[0]["momentum"] = 0.0
    sgd.step()
    assert list(sgd.state_dict()["state"][0]) == ["step"]
    sgd.load_state_dict(sgd.state_dict())


def test_the_state_can_be_looked_at() -> None:
    p, q = leaf(1.0, 2.0), leaf(3.0)
    sgd = optim.SGD([p, q], lr=0.1, momentum=0.9)
    p.grad = tg.tensor([5.0, 6.0], dtype=f64)
    sgd.step()
    assert list(sgd.state) == [p]
    assert sgd.state[p]["step"] == 1
    assert sgd.state[p]["momentum_buffer"].tolist() == [5, 6]


def test_an_optimizer_of_ones_own() -> None:
    class Lion(optim.Optimizer):
        def __init__(self, params: Any, lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.99)) -> None:
            super().__init__(params, {"lr": lr, "betas": betas})

        @staticmethod
        def slots(group: dict[str, Any]) -> dict[str, float]:
            return {"exp_avg": 0.0}

        @staticmethod
        def update(param: Any, grad: Any, state: dict[str, Any], step: int, group: dict[str, Any]) -> None:
            (beta1, beta2), mean = group["betas"], state["exp_avg"]
            param -= group["lr"] * np.sign(beta1 * mean + (1 - beta1) * grad)
            mean *= beta2
            mean += (1 - beta2) * grad

    p = leaf(1.0, -1.0)
    lion = Lion([p], lr=0.25)
    p.grad = tg.tensor([3.0, -0.1], dtype=f64)
    lion.step()
    assert p.tolist() == [0.75, -0.75]
    assert lion.state_dict()["state"][0]["exp_avg"].tolist() == pytest.approx([0.03, -0.001])
    with pytest.raises(ValueError, match="Lion: lr must be"):
        Lion([p], lr=-1)
    with pytest.raises(NotImplementedError, match="needs an update"):
        optim.Optimizer([p], {}).step()


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("SGD", {"lr": -0.1}, "SGD: lr must be a finite number"),
        ("SGD", {"momentum": math.inf}, "SGD: momentum must"),
        ("SGD", {"nesterov": True, "momentum": 0.0}, "nesterov needs a momentum above 0"),
        ("SGD", {"nesterov": True, "dampening": 0.1}, "and no dampening"),
        ("SGD", {"lr": tg.tensor(0.1)}, "SGD: lr must be a finite number"),
        ("Adam", {"betas": (0.9, 1.0)}, "Adam: betas are two numbers"),
        ("RMSprop", {"alpha": -1}, "RMSprop: alpha must"),
        ("Adagrad", {"initial_accumulator_value": -1.0}, "Adagrad: initial_accumulator_value must"),
        ("Muon", {"adjust_lr_fn": "other"}, "adjust_lr_fn is 'original' or 'match_rms_adamw', not 'other'"),
        ("Muon", {"ns_coefficients": (1, 2)}, "ns_coefficients are 3 numbers"),
        ("MuonAdamW", {"ns_steps": -1}, "MuonAdamW: ns_steps must"),
    ],
)
def test_options_out_of_range(name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ALL[name](matrices().items(), **options)


@pytest.mark.parametrize("name", ["adagrad", "adamw", "muon", "rmsprop", "sgd", "optimizer"])
def test_formulas_name_no_array_library(name: str) -> None:
    module = importlib.import_module(f"tinygrad_edu.optim.{name}")
    assert not {"np", "numpy", "cupy"} & vars(module).keys()


def test_what_is_missing_says_what_is_near() -> None:
    with pytest.raises(AttributeError, match=r"optim.NAdam is not here; AdamW comes nearest"):
        optim.NAdam  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'AdamX'; it has SGD, Adagrad"):
        optim.AdamX  # noqa: B018
