"""Changes past the tape, through arrays that share a tensor's memory, are found by checksum; nothing else is."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from models.gpt import GPT, GPTConfig
from tests.properties import tensors
from tests.test_ops import FUSED, PLAIN, ROUGH
from tinygrad_edu import autograd, nn, optim
from tinygrad_edu.autograd import detect_anomaly
from tinygrad_edu.nn import functional as F
from tinygrad_edu.parallel import Shards
from tinygrad_edu.watching import AnomalyError

# each makes a tensor of the values, and gives it with an array through which its memory can be changed


def from_numpy(values: np.ndarray) -> tuple[Any, np.ndarray]:
    memory = np.concatenate([values, values])
    return tg.from_numpy(memory[: len(values)]), memory[: len(values)]


def through_array(values: np.ndarray) -> tuple[Any, np.ndarray]:
    x = tg.tensor(values)
    return x, x.array[:]


def through_numpy(values: np.ndarray) -> tuple[Any, np.ndarray]:
    x = tg.tensor(values)
    return x, x.numpy()[...]


def through_asarray(values: np.ndarray) -> tuple[Any, np.ndarray]:
    x = tg.tensor(values)
    return x, np.asarray(x).view()


def through_memoryview(values: np.ndarray) -> tuple[Any, np.ndarray]:
    x = tg.tensor(values)
    return x, np.asarray(memoryview(x.array))


def through_dlpack(values: np.ndarray) -> tuple[Any, np.ndarray]:
    x = tg.tensor(values)
    return x, np.from_dlpack(x.array[:]).view()


def through_detached(values: np.ndarray) -> tuple[Any, np.ndarray]:
    x = tg.tensor(values)
    return x, x.detach().data.numpy().reshape(-1)


WAYS = [
    from_numpy,
    through_array,
    through_numpy,
    through_asarray,
    through_memoryview,
    through_dlpack,
    through_detached,
]
V = np.array([0.5, 1.5, 2.5, 3.5], np.float32)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_share_memory(way: Callable[[np.ndarray], tuple[Any, np.ndarray]]) -> None:
    x, shared = way(V)
    x.requires_grad_()
    if not shared.flags.writeable:
        pytest.skip("NumPy hands out what comes over DLPack read-only")
    with detect_anomaly():
        loss = (x * x).sum()
        shared[1] = 9
        with pytest.raises(RuntimeError, match=r"^mul: .* saved for backward, [xy], .* past the tape.*test_anomaly"):
            loss.backward()
        assert [x.grad] == [None]
        loss = (x * x).sum()
        loss.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 18.0, 5.0, 7.0]


class Cube(autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x**3
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, _ = ctx.saved_tensors
        return grad * 3 * x**2


OPS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "exp": (lambda x: x.exp(), "its output"),
    "mul": (lambda x: x * x, "x"),
    "matmul": (lambda x: x.reshape(2, 2) @ x.reshape(2, 2), "x"),
    "softmax": (lambda x: F.softmax(x, dim=-1), "its output"),
    "layer_norm": (lambda x: F.layer_norm(x.reshape(2, 2), (2,)), ""),
    "cat": (lambda x: tg.cat([x * 2, x.sin()]) ** 2, ""),
    "transposed": (lambda x: x.reshape(2, 2).t() * x.reshape(2, 2), ""),
    "expanded": (lambda x: x.reshape(1, 4).expand(3, 4) * x, ""),
    "cube": (Cube.apply, "saved_tensors"),
    "sort": (lambda x: x.sort()[0] * x, ""),
}


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize(("op", "named"), OPS.values(), ids=OPS)
def test_saved_values_of_many_kinds(op: Callable[[Any], Any], named: str, create: bool) -> None:
    x = tg.tensor(V, requires_grad=True)
    shared = x.array[:]
    with detect_anomaly():
        out = op(x)
        memory = shared
        if named == "its output":
            memory = out.detach().array
        out.sum().backward(create_graph=create, retain_graph=True)  # unchanged: nothing to tell
        x.grad = None
        memory[...] = memory[..., ::-1].copy()  # the same numbers elsewhere
        with pytest.raises(RuntimeError, match=f"{named}.*past the tape"):
            out.sum().backward(create_graph=create)
        memory[...] = memory[..., ::-1].copy()
        out.sum().backward()


def test_a_change_that_is_taken_back_and_one_before_saving_are_fine() -> None:
    x, shared = from_numpy(V)
    x.requires_grad_()
    with detect_anomaly():
        shared[0] = 7
        y = (x * x).sum()
        shared[0] = 8
        shared[0] = 7
        y.backward()
    assert x.grad is not None
    assert x.grad[0].item() == 14


def test_changes_of_the_neighbours_of_a_view_are_fine() -> None:
    memory = np.ones((4, 4), np.float32)
    x = tg.from_numpy(memory[::2, 1:3]).requires_grad_()
    with detect_anomaly():
        y = (x * x).sum()
        memory[1] = 5
        memory[:, 0] = 5
        y.backward()
        y = (x * x).sum()
        memory[2, 2] = 5
        with pytest.raises(RuntimeError, match="past the tape"):
            y.backward()


def test_graphs_from_before_the_block_are_left_alone() -> None:
    x, shared = from_numpy(V)
    y = (x.requires_grad_() ** 2).sum()
    shared[0] = 7
    with detect_anomaly():
        y.backward()


@pytest.mark.parametrize("made", [optim.AdamW, optim.SGD, optim.RMSprop, optim.Muon])
def test_training_under_the_search_raises_no_alarm(made: Any) -> None:
    tg.manual_seed(1)
    model = GPT(GPTConfig(vocab_size=17, block_size=12, layers=2, heads=2, width=16, dropout=0.2, bias=True))
    parameters = [p for p in model.parameters() if p.dim() == 2] if made is optim.Muon else model.parameters()
    optimizer = made(parameters, lr=0.01)
    drawn, losses = np.random.default_rng(0), []
    with Shards(2) as shards, detect_anomaly():
        for _ in range(6):
            ids = drawn.integers(0, 17, (4, 13)) // 4
            optimizer.zero_grad()
            total, count = shards.backward(model, (ids[:, :-1], ids[:, 1:]))
            losses.append(total / count)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    assert losses[-1] < losses[0]


def test_changes_of_tensors_are_none_past_the_tape() -> None:
    x = tg.tensor(V, requires_grad=True)
    with detect_anomaly():
        unused = x * x
        with tg.no_grad():
            x -= 0.5
        with pytest.raises(RuntimeError, match="version"):
            unused.sum().backward()
        y = x * 1
        y.mul_(y)
        y += 1
        y.sum().backward()
        x.data.zero_()
        nn.Linear(2, 2).load_state_dict(nn.Linear(2, 2).state_dict())


def test_layers_that_keep_statistics_and_accumulated_gradients() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.GELU(), nn.Linear(8, 1))
    optimizer = optim.AdamW(model.parameters())
    with detect_anomaly():
        for _ in range(3):
            for _ in range(2):
                model(tg.randn(6, 4)).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)


@pytest.mark.parametrize("create", [False, True])
def test_no_op_writes_to_what_it_saved(create: bool) -> None:
    """The rules of every op leave saved arrays as they are, and a second pass over the same graph finds them so."""
    seen = 0
    for case in (*PLAIN, *FUSED, *ROUGH):
        xs = tensors(case.arrays())
        with np.errstate(all="ignore"), detect_anomaly():
            try:
                found = case.function(*xs)
            except AnomalyError:
                continue
            for y in found if isinstance(found, tuple) else (found,):
                if y.requires_grad:
                    for _ in range(2):
                        try:
                            y.backward(tg.ones_like(y), retain_graph=True, create_graph=create)
                        except AnomalyError:
                            break
                    seen += 1
    assert seen > 200


def test_a_block_in_a_block_looks_on() -> None:
    x = tg.tensor([0.0], requires_grad=True)
    with detect_anomaly():
        with detect_anomaly():
            y = x.sqrt()
        with pytest.raises(AnomalyError, match="sqrt"):
            y.backward()
