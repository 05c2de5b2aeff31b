"""AdamW, its groups and state, and the learning-rate schedule."""

import copy
import itertools
import json
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn, optim

f64 = tg.float64


def leaf(*values: float) -> Any:
    return tg.tensor(values[0] if len(values) == 1 else values, dtype=f64, requires_grad=True)


def give(p: Any, *values: float) -> None:
    p.grad = tg.tensor(values[0] if len(values) == 1 else values, dtype=f64)


class Reference:
    """The formula of the paper, one parameter at a time."""

    def __init__(self, w: np.ndarray) -> None:
        self.w, self.m, self.v, self.t = w.astype(np.float64), 0.0, 0.0, 0

    def step(
        self, g: np.ndarray, lr: float, betas: Any = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 1e-2
    ) -> None:
        self.t += 1
        self.w = self.w * (1 - lr * weight_decay)
        self.m = betas[0] * self.m + (1 - betas[0]) * g
        self.v = betas[1] * self.v + (1 - betas[1]) * g * g
        m, v = self.m / (1 - betas[0] ** self.t), self.v / (1 - betas[1] ** self.t)
        self.w = self.w - lr * m / (np.sqrt(v) + eps)


# The step


def test_each_parameter_counts_its_own_steps() -> None:
    p, q = leaf(1.0), leaf(1.0)
    adamw = optim.AdamW([p, q], lr=0.1, weight_decay=0.0)
    history = []
    for step in range(3):
        give(p, 5.0)
        if step == 2:
            give(q, 0.02)
        adamw.step()
        history.append((p.item(), q.item()))
    assert np.allclose(history, [(0.9, 1.0), (0.8, 1.0), (0.7, 0.9)], atol=1e-6)


@pytest.mark.parametrize(("gradient", "after"), [(0.0, 0.99), (3.0, 0.89)])
def test_decay_is_apart_from_the_gradient(gradient: float, after: float) -> None:
    w = leaf(1.0)
    give(w, gradient)
    optim.AdamW([w], lr=0.1, weight_decay=0.1).step()
    assert w.item() == pytest.approx(after, abs=1e-7)


def test_no_gradient_no_change() -> None:
    p, q = leaf(1.0, 2.0), leaf(3.0)
    adamw = optim.AdamW([p, q], lr=0.1, weight_decay=0.5)
    before = q._version[0]
    give(p, 1.0, 1.0)
    adamw.step()
    assert q.item() == 3
    assert q._version[0] == before
    assert list(adamw.state_dict()["state"]) == [0]


@pytest.mark.parametrize("dtype", [tg.float32, f64])
def test_many_parameters_with_gaps_follow_the_formula(dtype: Any) -> None:
    random = np.random.default_rng(0)
    shapes = [(3, 4), (5,), (), (70_000,), (2, 0), (1, 1, 1)]
    parameters: list[Any] = [tg.tensor(random.normal(size=s), dtype=dtype, requires_grad=True) for s in shapes]
    twins = [Reference(p.array) for p in parameters]
    groups = [{"params": parameters[:3], "weight_decay": 0.1, "betas": (0.8, 0.9)}, {"params": parameters[3:]}]
    adamw = optim.AdamW(groups, lr=0.01, eps=1e-6)
    for step in range(7):
        for i, (p, twin) in enumerate(zip(parameters, twins)):
            p.grad = None
            if (step + i) % 3:
                g = random.normal(size=p.shape)
                p.grad = tg.tensor(g, dtype=dtype)
                own: dict[str, Any] = {"weight_decay": 0.1, "betas": (0.8, 0.9)} if i < 3 else {}
                twin.step(p.grad.array.astype(np.float64), lr=0.01, eps=1e-6, **own)
        adamw.step()
    for p, twin in zip(parameters, twins):
        assert np.allclose(p.array, twin.w, rtol=0, atol=1e-13 if dtype == f64 else 2e-6)


def test_the_formula_without_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    from tinygrad_edu.kernels import numpy as kernels

    def run() -> list[float]:
        p = leaf(1.0, -2.0)
        adamw = optim.AdamW([p], lr=0.1, weight_decay=0.3)
        for g in (0.5, -0.2, 0.0):
            give(p, g, g * g)
            nn.utils.clip_grad_norm_([p], 0.1)
            adamw.step()
        return p.tolist()

    fused = run()
    monkeypatch.delattr(kernels, "adamw")
    monkeypatch.delattr(kernels, "sum_of_squares")
    assert np.allclose(run(), fused, rtol=0, atol=1e-14)


def test_only_what_was_written_gets_a_new_version() -> None:
    p, q = leaf(1.0, 2.0), leaf(3.0, 4.0)
    adamw = optim.AdamW([p, q], lr=0.1)
    through_q = (q * q).sum()
    through_p = (p * p).sum()
    give(p, 1.0, 1.0)
    adamw.step()
    through_q.backward()
    assert q.grad.tolist() == [6, 8]
    with pytest.raises(RuntimeError, match="changed in place"):
        through_p.backward()


def test_a_gradient_of_another_shape_changes_nothing() -> None:
    p, q = leaf(1.0, 2.0), leaf(3.0, 4.0)
    adamw = optim.AdamW([{"params": [p]}, {"params": [q]}], lr=0.1)
    give(p, 1.0, 1.0)
    give(q, 1.0, 1.0)
    q.grad.array = np.ones(3)
    with pytest.raises(ValueError, match=r"gradient has shape \(3,\)"):
        adamw.step()
    assert p.tolist() == [1, 2]
    assert adamw.state_dict()["state"] == {}


def test_closure_and_zero_grad() -> None:
    p = leaf(1.0, 2.0)
    adamw = optim.AdamW([p], lr=0.1)

    def closure() -> Any:
        loss = (p * p).sum()
        loss.backward()
        return loss

    with tg.no_grad():
        assert adamw.step(closure).item() == 5
    adamw.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0, 0]
    adamw.zero_grad()
    assert p.grad is None


def test_tied_weights_are_updated_once_and_stay_one() -> None:
    net: Any = nn.Module()
    net.token, net.head = nn.Embedding(5, 3, dtype=f64), nn.Linear(3, 5, bias=False)
    net.head.weight = net.token.weight
    twin = Reference(net.token.weight.array)
    adamw = optim.AdamW(net.parameters(), lr=0.1)
    for _ in range(2):
        adamw.zero_grad()
        nn.functional.cross_entropy(net.head(net.token([1, 4])), [2, 0]).backward()
        twin.step(net.token.weight.grad.array, lr=0.1)
        adamw.step()
    assert net.head.weight is net.token.weight
    assert np.allclose(net.head.weight.array, twin.w, atol=1e-14)


def test_a_padding_row_is_not_moved() -> None:
    table: Any = nn.Embedding(4, 2, padding_idx=0, dtype=f64)
    table([[1, 0], [2, 0]]).sum().backward()
    optim.AdamW(table.parameters(), lr=0.1, weight_decay=0.1).step()
    assert table.weight[0].tolist() == [0, 0]


# One array for all


def step_all(adamw: optim.AdamW) -> None:
    for group in adamw.param_groups:
        for p in group["params"]:
            p.grad = tg.ones_like(p)
    adamw.step()


def test_parameters_are_views_of_one_array_on_cache_lines() -> None:
    net: Any = nn.Linear(3, 5)
    array = net.weight.array
    optim.AdamW(net.parameters())
    assert net.weight.array.base is net.bias.array.base
    assert np.array_equal(net.weight.array, array)
    assert {p.array.ctypes.data % 64 for p in net.parameters()} == {0}


LOST: dict[str, Callable[[Any], Any]] = {
    "cast": lambda net: net.to(tg.float32).to(f64),
    "assigned": lambda net: setattr(net.weight, "data", net.weight.detach().clone()),
    "taken": lambda net: optim.AdamW(net.parameters()),
    "loaded": lambda net: net.load_state_dict(copy.deepcopy(net).state_dict()),
    "transposed": lambda net: setattr(net.weight, "array", np.asfortranarray(net.weight.array)),
}


@pytest.mark.parametrize("how", LOST)
def test_parameters_that_were_moved_are_laid_together_again(how: str) -> None:
    def run(lose: bool) -> list[Any]:
        tg.manual_seed(0)
        net: Any = nn.Linear(3, 2).to(f64)
        for p in net.parameters():
            p.data = p.detach().to(tg.float32).to(f64)
        adamw = optim.AdamW(net.parameters(), lr=2.0**-6, betas=(0.5, 0.75), weight_decay=0.0)
        for step in range(4):
            if lose and step == 2:
                LOST[how](net)
            step_all(adamw)
        return [*net.weight.flatten().tolist(), *net.bias.tolist()]

    assert np.allclose(run(True), run(False), rtol=0, atol=1e-7 if how == "cast" else 0)


def test_two_dtypes_in_one_group() -> None:
    p, q = tg.ones(2, requires_grad=True), tg.ones(3, dtype=f64, requires_grad=True)
    adamw = optim.AdamW([p, q], lr=0.1, weight_decay=0.0)
    step_all(adamw)
    assert p.dtype == tg.float32
    assert q.dtype == f64
    assert [*p.tolist(), *q.tolist()] == pytest.approx([0.9] * 5)


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "pickle"])
def test_a_copy_of_model_and_optimizer_goes_on_by_itself(twin_of: Any) -> None:
    tg.manual_seed(0)
    net: Any = nn.Linear(3, 2)
    adamw = optim.AdamW(net.named_parameters(), lr=0.1)
    step_all(adamw)
    before = net.weight.tolist()
    twin, second = twin_of((net, adamw))
    assert second.param_groups[0]["params"][0] is twin.weight
    step_all(second)
    assert net.weight.tolist() == before
    step_all(adamw)
    assert twin.weight.tolist() == net.weight.tolist()
    assert twin.bias.tolist() == net.bias.tolist()


# Groups


def test_decay_groups_split_by_axes_and_take_a_tied_weight_once() -> None:
    net: Any = nn.Module()
    net.token, net.head, net.norm = nn.Embedding(5, 3), nn.Linear(3, 5), nn.LayerNorm(3)
    net.head.weight = net.token.weight
    adamw = optim.AdamW(optim.decay_groups(net, 0.1), lr=0.5)
    assert [(g["param_names"], g["weight_decay"], g["lr"]) for g in adamw.param_groups] == [
        (["token.weight"], 0.1, 0.5),
        (["head.bias", "norm.weight", "norm.bias"], 0.0, 0.5),
    ]
    assert len(optim.decay_groups(nn.LayerNorm(2), 0.1)) == 1
    with pytest.raises(ValueError, match="no parameters"):
        optim.decay_groups(nn.GELU(), 0.1)


def test_groups_are_added_and_edited() -> None:
    p, q = leaf(1.0), leaf(1.0)
    adamw = optim.AdamW([p], lr=0.1, weight_decay=0.0)
    adamw.add_param_group({"params": q, "lr": 0.5})
    adamw.param_groups[0]["lr"] = 0.2
    step_all(adamw)
    assert [p.item(), q.item()] == pytest.approx([0.8, 0.5])
    assert repr(adamw).splitlines()[2] == "  1 parameters: lr=0.5, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.0"


W = nn.Parameter(tg.ones(2))
NEVER: list[tuple[Any, type[Exception], str]] = [
    ([], ValueError, "params is empty"),
    (iter(()), ValueError, "generator can be read only once"),
    ([{"params": iter(())}], ValueError, "params is empty"),
    ([{"params": [W]}, {"params": [W]}], ValueError, "given twice"),
    ([W, W], ValueError, "parameter 1 of the group is given twice"),
    ([("a", W), ("b", W)], ValueError, "parameter 'b' is given twice"),
    ([("a", W), ("a", nn.Parameter(tg.ones(1)))], ValueError, "two parameters are named 'a'"),
    ([("a", W), nn.Parameter(tg.ones(1))], ValueError, "named and unnamed"),
    ([{"params": [W]}, {"params": [("a", nn.Parameter(tg.ones(1)))]}], ValueError, "some groups have named"),
    ([W * 2], ValueError, "result of an op"),
    ([tg.tensor([1, 2])], ValueError, "dtype int64"),
    (W, TypeError, "single Tensor"),
    ([{"params": {W}}], TypeError, "is a set"),
    (["weight"], TypeError, "is a str"),
    ([{"params": [W], "weight_deacy": 0.1}], ValueError, "'weight_deacy' is unknown"),
    ([{"lr": 0.1}], ValueError, "needs 'params'"),
    ([{"params": [W], "lr": -1.0}], ValueError, "lr must be"),
    ([{"params": [W], "betas": (0.9, 1.0)}], ValueError, "betas are"),
]


@pytest.mark.parametrize(("params", "error", "said"), NEVER, ids=[said for _, _, said in NEVER])
def test_what_an_optimizer_refuses(params: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        optim.AdamW(params)


@pytest.mark.parametrize("option", [{"lr": math.nan}, {"eps": -1e-8}, {"weight_decay": math.inf}])
def test_options_out_of_range(option: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(option))):
        optim.AdamW([leaf(1.0)], **option)


# State


def rows(order: str, named: bool, shapes: Any = (2, 2)) -> tuple[dict[str, Any], optim.AdamW]:
    made: dict[str, Any] = {n: tg.zeros(s, dtype=f64, requires_grad=True) for n, s in zip("pq", shapes)}
    pairs = [(n, made[n]) for n in order]
    return made, optim.AdamW(pairs if named else [p for _, p in pairs], lr=0.1)


def push(made: dict[str, Any], adamw: optim.AdamW) -> None:
    give(made["p"], 1.0, 1.0)
    give(made["q"], 100.0, 100.0)
    adamw.step()


@pytest.mark.parametrize("order", ["pq", "qp"])
def test_state_follows_the_names_and_resuming_is_exact(order: str) -> None:
    made, adamw = rows("pq", named=True)
    for _ in range(3):
        push(made, adamw)
    saved, values = adamw.state_dict(), {n: p.detach().clone() for n, p in made.items()}
    push(made, adamw)
    again, other = rows(order, named=True)
    for n, p in again.items():
        p.data = values[n]
    other.load_state_dict(saved)
    assert [entry["step"] for entry in other.state_dict()["state"].values()] == [3, 3]
    push(again, other)
    assert {n: p.tolist() for n, p in again.items()} == {n: p.tolist() for n, p in made.items()}


def test_state_without_names_goes_by_position_and_shape() -> None:
    made, adamw = rows("pq", named=False, shapes=((2,), (3,)))
    give(made["p"], 1.0, 1.0)
    give(made["q"], 1.0, 1.0, 1.0)
    adamw.step()
    _, same = rows("pq", named=False, shapes=((2,), (3,)))
    same.load_state_dict(adamw.state_dict())
    _, swapped = rows("qp", named=False, shapes=((2,), (3,)))
    with pytest.raises(ValueError, match=r"parameter 0 of group 0 has shape \(2,\) in the state, \(3,\) in the optim"):
        swapped.load_state_dict(adamw.state_dict())
    assert swapped.state_dict()["state"] == {}


def test_state_that_does_not_fit_is_refused_by_name() -> None:
    made, adamw = rows("pq", named=True)
    push(made, adamw)
    saved = adamw.state_dict()
    extra = optim.AdamW([("p", leaf(0.0, 0.0)), ("r", leaf(0.0, 0.0))])
    with pytest.raises(ValueError, match=r"q of group 0 is not in the optimizer; r of group 0 is not in the state"):
        extra.load_state_dict(saved)
    with pytest.raises(ValueError, match="the state names its parameters and the optimizer does not"):
        rows("pq", named=False)[1].load_state_dict(saved)
    with pytest.raises(ValueError, match="the state has 1 parameter groups, the optimizer 2"):
        optim.AdamW([{"params": [("p", leaf(0.0))]}, {"params": [("q", leaf(0.0))]}]).load_state_dict(saved)
    with pytest.raises(ValueError, match="the state lacks 'state'"):
        rows("pq", named=True)[1].load_state_dict({"param_groups": saved["param_groups"]})
    damaged = {**saved["param_groups"][0], "param_shapes": [[2]]}
    with pytest.raises(ValueError, match="group 0 of the state is damaged"):
        adamw.load_state_dict({**saved, "param_groups": [damaged]})
    saved["state"][1]["exp_avg"] = np.zeros(3)
    with pytest.raises(ValueError, match=r"exp_avg of parameter 1 has shape \(3,\)"):
        adamw.load_state_dict(saved)


def test_the_state_is_a_copy_that_json_and_arrays_can_hold() -> None:
    made, adamw = rows("pq", named=True)
    push(made, adamw)
    saved = adamw.state_dict()
    moments = saved["state"][0]["exp_avg"].tolist()
    push(made, adamw)
    assert saved["state"][0]["exp_avg"].tolist() == moments
    groups = json.loads(json.dumps(saved["param_groups"]))
    state = {
        str(at): {k: v if k == "step" else v.numpy() for k, v in entry.items()} for at, entry in saved["state"].items()
    }
    other = rows("pq", named=True)[1]
    other.param_groups[0]["lr"] = 7.0
    other.load_state_dict({"state": state, "param_groups": groups})
    assert other.param_groups[0]["lr"] == 0.1
    assert other.param_groups[0]["betas"] == (0.9, 0.999)
    assert other.state_dict()["state"][0]["exp_avg"].tolist() == moments


@pytest.mark.parametrize("value", [2.0, [2.0]], ids=["no axes", "one axis"])
def test_one_number_keeps_its_shape_as_gradient_and_as_state(value: Any) -> None:
    c: Any = tg.tensor(value, requires_grad=True)
    (c * tg.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert type(c.grad.array) is np.ndarray
    assert (c.grad.shape, c.grad.dtype, c.grad.item()) == (np.shape(value), np.float32, 6.0)
    adamw = optim.AdamW([c], lr=0.1)
    adamw.step()
    assert c.shape == np.shape(value)
    assert {adamw.state_dict()["state"][0][name].shape for name in ("exp_avg", "exp_avg_sq")} == {np.shape(value)}


def test_the_empty_state_can_be_loaded() -> None:
    made, adamw = rows("pq", named=True)
    saved = adamw.state_dict()
    push(made, adamw)
    adamw.load_state_dict(saved)
    assert adamw.state_dict()["state"] == {}


# The schedule


def schedule(lrs: tuple[float, ...] = (1.0,), **options: Any) -> optim.WarmupCosine:
    groups = [{"params": [leaf(1.0)], "lr": lr} for lr in lrs]
    return optim.WarmupCosine(optim.AdamW(groups), **{"warmup_steps": 3, "total_steps": 10, "min_lr": 0.1, **options})


def test_warm_up_and_cosine() -> None:
    plan = schedule(lrs=(1.0, 0.5))
    seen = []
    for _ in range(13):
        seen.append(plan.get_last_lr())
        plan.step()
    for at, peak in enumerate((1.0, 0.5)):
        rates = [lrs[at] for lrs in seen]
        assert rates[:4] == pytest.approx([peak / 4, peak / 2, peak * 3 / 4, peak])
        assert rates[5] == pytest.approx(0.1 + (peak - 0.1) * (1 + math.cos(math.pi * 2 / 7)) / 2)
        assert rates[10:] == [0.1, 0.1, 0.1]
        assert all(a > b for a, b in itertools.pairwise(rates[3:11]))


@pytest.mark.parametrize(
    ("options", "first"),
    [({"warmup_steps": 0}, 1.0), ({"warmup_steps": 10}, 1 / 11), ({"warmup_steps": 0, "total_steps": 0}, 0.1)],
)
def test_the_ends_of_the_schedule(options: dict[str, Any], first: float) -> None:
    assert schedule(**options).get_last_lr()[0] == pytest.approx(first)


def test_a_resumed_schedule_goes_on() -> None:
    plan = schedule()
    for _ in range(5):
        plan.step()
    again = schedule(total_steps=99)
    again.load_state_dict(json.loads(json.dumps(plan.state_dict())))
    assert again.get_last_lr() == plan.get_last_lr()
    plan.step()
    again.step()
    assert again.get_last_lr() == plan.get_last_lr()
    with pytest.raises(ValueError, match="missing min_lr"):
        plan.load_state_dict({k: v for k, v in plan.state_dict().items() if k != "min_lr"})
    with pytest.raises(ValueError, match="1 groups, the optimizer 2"):
        schedule(lrs=(1.0, 1.0)).load_state_dict(plan.state_dict())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"warmup_steps": 11}, "at most total_steps 10"),
        ({"warmup_steps": -1}, "0 or more"),
        ({"min_lr": 2.0}, "min_lr"),
    ],
)
def test_schedules_that_cannot_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        schedule(**options)


def linear(**options: Any) -> optim.WarmupLinear:
    plan = {"warmup_steps": 3, "total_steps": 10, "min_lr": 0.1, "decay_steps": 4}
    groups = [{"params": [leaf(1.0)], "lr": lr} for lr in (1.0, 0.5)]
    return optim.WarmupLinear(optim.AdamW(groups), **{**plan, **options})


def test_warm_up_peak_and_line() -> None:
    plan = linear()
    seen = []
    for _ in range(12):
        seen.append(plan.get_last_lr())
        plan.step()
    for at, peak in enumerate((1.0, 0.5)):
        fall = [0.1 + (peak - 0.1) * left for left in (0.75, 0.5, 0.25)]
        rates = [peak / 4, peak / 2, peak * 3 / 4, *[peak] * 4, *fall, 0.1, 0.1]
        assert [lrs[at] for lrs in seen] == pytest.approx(rates)
    again = linear(decay_steps=1)
    again.load_state_dict(json.loads(json.dumps({**plan.state_dict(), "last_step": 8})))
    assert again.get_last_lr() == pytest.approx([0.55, 0.3])
    assert linear(decay_steps=0, total_steps=3).get_last_lr() == [0.25, 0.125]
    for wrong in (-1, 8):
        with pytest.raises(ValueError, match=f"decay_steps {wrong} must be 0 or more, and with warmup_steps 3"):
            linear(decay_steps=wrong)
