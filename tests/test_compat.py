"""PyTorch's face: whole programs trained, the names around tensors, and what is said of a name that is not here."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tests.programs as programs
import tests.programs_letters as letters
import tinygrad_edu as tg
from tinygrad_edu import nn, utils
from tinygrad_edu.nn import functional as F

torch: Any = tg
layer: Any = nn.Linear(1, 1)


@pytest.mark.parametrize("program", programs.PROGRAMS, ids=lambda p: p.__name__)
def test_a_program_learns(program: Any) -> None:
    torch.manual_seed(0)
    model, loss_of = program(torch)
    model = torch.compile(model).double() if program in (programs.autoencoder, programs.smoothed) else model
    wanted = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(wanted, lr=1e-2, weight_decay=0.0)
    losses = []
    for _ in range(25):
        loss = loss_of(torch, model)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]


def test_a_gpt_generates() -> None:
    torch.manual_seed(0)
    model, _ = letters.gpt(torch)
    ids = model.eval().generate(torch.zeros((2, 1), dtype=torch.long), 12, top_k=3)
    assert ids.shape == (2, 13)
    assert ids.dtype == torch.int64
    assert 0 <= ids.min() <= ids.max() < letters.V


def test_numbers_one_at_a_time() -> None:
    value, da, db = programs.scalars(torch)
    assert math.isfinite(value)
    for at, slope in ((0, da), (1, db)):
        moved = [_scalars(at, h) for h in (1e-6, -1e-6)]
        assert slope == pytest.approx((moved[0] - moved[1]) / 2e-6, rel=1e-6)


def _scalars(at: int, h: float) -> float:
    class Moved:
        optional: Any = None

        def __getattr__(self, name: str) -> Any:
            return getattr(tg, name)

        def tensor(self, data: list[float], **options: Any) -> Any:
            here = (data[0] == -4.0, data[0] == 2.0)[at]
            return tg.tensor([data[0] + h * here], **options)

    return programs.scalars(Moved())[0]


def test_a_network_by_hand_learns() -> None:
    losses = programs.by_hand(torch)
    assert losses == sorted(losses, reverse=True)


# Names around tensors


def test_dtypes_are_named() -> None:
    assert torch.zeros(2, dtype=torch.long).dtype == torch.int64 == torch.zeros(1).long().dtype
    assert torch.ones(2).dtype == torch.float32 == torch.get_default_dtype() == torch.float
    assert (torch.ones(2) > 0).dtype == torch.bool
    assert torch.LongTensor([1.7]).tolist() == [1]
    assert torch.FloatTensor([1, 2]).dtype == torch.float32
    assert torch.FloatTensor(2, 3).shape == (2, 3)
    assert isinstance(torch.tensor([1]), torch.LongTensor)
    assert not isinstance(torch.tensor([1.0]), torch.LongTensor)
    assert torch.ones(2).type(torch.ByteTensor).dtype == torch.uint8
    assert torch.finfo(torch.float32).eps == 2**-23
    assert torch.finfo().min == -torch.finfo(torch.float).max
    assert torch.iinfo(torch.int32).max == 2**31 - 1
    assert torch.finfo(torch.ones(1).dtype).tiny > 0


def test_the_default_dtype_can_be_set() -> None:
    try:
        torch.set_default_dtype(torch.float64)
        made = [torch.zeros(2), torch.tensor([1.0]), torch.randn(2), nn.Linear(2, 2).weight, torch.tensor([1]) * 0.5]
        assert {t.dtype for t in made} == {torch.float64}
        assert torch.arange(3).sqrt().dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    with pytest.raises(TypeError, match="needs a floating dtype"):
        torch.set_default_dtype(torch.int64)


def test_devices_are_named() -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.zeros(2, device=device)
    assert x.device == device
    assert x.device.type == device.type
    assert "cuda" in torch.device("cuda", 1)
    assert torch.device("cuda:1").index == 1
    assert torch.device("cpu").index is None
    assert repr(torch.device("cpu")) == "device(type='cpu')"
    assert torch.zeros(1).to(torch.device("cpu")).is_cuda is False
    assert nn.Linear(1, 1).to(torch.device("cpu")).weight.device == "cpu"
    assert not torch.backends.mps.is_available()
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.cuda.manual_seed_all(3)
    torch.cuda.synchronize()


def test_recording_is_switched() -> None:
    x = torch.ones(1, requires_grad=True)

    @torch.inference_mode()
    def quiet() -> Any:
        return x * 2

    assert not quiet().requires_grad
    with torch.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    assert torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    assert not torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    assert (x * 2).requires_grad
    with torch.inference_mode(False):
        assert (x * 2).requires_grad


def test_harmless_calls_do_nothing() -> None:
    model = nn.Linear(2, 2)
    assert torch.compile(model, mode="max-autotune") is model

    @torch.compile(dynamic=True)
    def twice(x: Any) -> Any:
        return x * 2

    assert twice(3) == 6
    torch.set_float32_matmul_precision("high")
    torch.use_deterministic_algorithms(True)
    generator = torch.Generator(device="cpu").manual_seed(5)
    assert generator.initial_seed() == 5
    assert torch.rand(2, generator=generator).shape == (2,)
    with pytest.raises(ValueError, match="'highest', 'high' or 'medium'"):
        torch.set_float32_matmul_precision("low")


def test_draws_take_pytorchs_arguments() -> None:
    assert torch.randint(3, (2, 4)).shape == torch.randint(0, 3, (2, 4)).shape == torch.randint(3, size=(2, 4)).shape
    assert torch.randint(low=5, high=6, size=(3,)).tolist() == [5, 5, 5]
    assert torch.randint(5, high=6, size=(1,)).tolist() == [5]
    assert torch.randn(size=(2, 3), dtype=torch.float64).dtype == torch.float64
    assert torch.normal(0.0, 1.0, size=(3,)).shape == torch.normal(torch.zeros(3), torch.ones(3)).shape
    assert sorted(torch.randperm(5).tolist()) == [0, 1, 2, 3, 4]
    assert torch.empty(3).exponential_().min() > 0
    assert set(torch.empty(50, dtype=torch.long).random_(2, 4).tolist()) == {2, 3}
    with pytest.raises(TypeError, match="give \\(low, high, size\\) or \\(high, size\\)"):
        torch.randint(size=(2,))


def test_python_sees_tensors_as_pytorchs() -> None:
    x = torch.tensor([[1, 2], [3, 4]])
    assert 3 in x
    assert 7 not in x
    assert f"{torch.tensor(2.5):.2f}" == "2.50"
    assert [int(n) for n in x[0]] == [1, 2]
    assert round(torch.tensor([1.26]), 1).tolist() == pytest.approx([1.3])
    assert (x & 1).tolist() == [[1, 0], [1, 0]]
    assert (x[0] ^ torch.tensor([3, 3])).tolist() == [2, 1]
    assert (torch.tensor([True, False]) & torch.tensor([1, 1], dtype=torch.uint8)).tolist() == [1, 0]
    assert (7 // x).tolist() == [[7, 3], [2, 1]]
    assert (7 % x).tolist() == [[0, 1], [1, 3]]
    values, indices = x.max(dim=1)
    assert x.max(dim=1).indices.tolist() == indices.tolist() == [1, 1]
    assert torch.topk(x, 1).values.tolist() == [[2], [4]]
    assert values.size(-1) == 2
    assert torch.Tensor(2, 3, 4).shape == (2, 3, 4)
    assert nn.Parameter(torch.Tensor(2, 3)).dtype == torch.float32
    with pytest.raises(TypeError, match=r"use zeros\(\.\.\.\) or empty\(\.\.\.\)"):
        torch.Tensor([1.0], "cpu")
    with pytest.raises(TypeError, match=r"\.to\(dtype\) converts"):
        torch.ones(2).view(torch.int32)


def test_changes_in_place() -> None:
    x = torch.zeros(3, 4)
    x.scatter_(1, torch.tensor([[0], [2], [1]]), 1.0)
    assert x.argmax(1).tolist() == [0, 2, 1]
    assert x.index_add_(0, torch.tensor([0, 0]), torch.ones(2, 4))[0].tolist() == [3, 2, 2, 2]
    assert x.index_fill_(1, torch.tensor([3]), 9.0)[:, 3].tolist() == [9, 9, 9]
    assert torch.ones(3, 3).tril_().sum() == 6
    assert torch.ones(3, 3).triu_(1).sum() == 3
    assert torch.zeros(2, 3).fill_diagonal_(5.0).sum() == 10
    assert torch.zeros(2).fill_(torch.tensor(3.0)).tolist() == [3, 3]
    y = torch.ones(2, requires_grad=True)
    z = y * 1
    assert z.detach_() is z
    assert not z.requires_grad
    z = y * 4
    z.pow_(2).sigmoid_().log_()
    z.sum().backward()
    s = 1 / (1 + math.exp(-16.0))
    assert y.grad.tolist() == pytest.approx([32 * (1 - s)] * 2, rel=0.1)
    with pytest.raises(ValueError, match="names an element twice"):
        (y * 1).scatter_(0, torch.tensor([0, 0]), y)


# What is not here


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: torch.save, "safetensors"),
        (lambda: torch.load, "safetensors"),
        (lambda: torch.bfloat16, "use float32"),
        (lambda: torch.softmx, "the nearest is softmax"),
        (lambda: torch.jit, "use the model as it is"),
        (lambda: nn.ConvTranspose2d, "Conv1d and Conv2d"),
        (lambda: nn.SyncBatchNorm, "BatchNorm1d"),
        (lambda: nn.Lineer, "the nearest is Linear"),
        (lambda: nn.functional.conv3d, "conv1d and conv2d"),
        (lambda: F.softmaxx, "the nearest is softmax or log_softmax"),
        (lambda: nn.init.xavier_uniform, "use xavier_uniform_"),
        (lambda: nn.utils.clip_grad_norm, "use clip_grad_norm_"),
        (lambda: torch.optim.LBFGS, "comes nearest"),
        (lambda: utils.tensorboard, "metrics"),
        (lambda: utils.data.get_worker_info, "no workers"),
        (lambda: torch.ones(2).permute_(0), r"write x = x\.permute"),
        (lambda: torch.ones(2).lgamma(), "no derivative"),
        (lambda: torch.ones(2).sotfmax(0), "the nearest is softmax"),
        (lambda: layer._parameters, r"named_parameters\(recurse=False\)"),
        (lambda: layer.wieght, "the nearest is weight"),
        (lambda: layer.register_backward_hook, "use register_full_backward_hook"),
    ],
)
def test_a_name_that_is_not_here_says_what_to_use(ask: Any, said: str) -> None:
    with pytest.raises(AttributeError, match=said):
        ask()
    assert not hasattr(torch, "no_such_name")


def test_every_name_listed_is_there() -> None:
    modules = (tg, nn, F, nn.init, nn.utils, nn.utils.rnn, tg.optim, utils, utils.data, utils.checkpoint, tg.cuda)
    for module in modules:
        names = getattr(module, "__all__", ())
        assert [name for name in names if not hasattr(module, name)] == []
        assert len(set(names)) == len(names)


# utils.data and utils.checkpoint


def test_a_loader_makes_batches() -> None:
    data = utils.data.TensorDataset(torch.arange(10), torch.arange(10) * 2.0)
    batches = list(utils.data.DataLoader(data, batch_size=4))
    assert [x.tolist() for x, _ in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    loader = utils.data.DataLoader(data, batch_size=4, shuffle=True, drop_last=True, num_workers=2, pin_memory=True)
    assert len(loader) == len(list(loader)) == 2
    order = [i for x, _ in utils.data.DataLoader(data, 3, shuffle=True) for i in x.tolist()]
    assert sorted(order) == list(range(10))
    assert order != sorted(order)
    endless = utils.data.RandomSampler(data, replacement=True, num_samples=int(1e10))
    x, _ = next(iter(utils.data.DataLoader(data, batch_size=7, sampler=endless)))
    assert x.shape == (7,)
    a, b = utils.data.random_split(data, [7, 3], generator=torch.Generator().manual_seed(1))
    assert sorted([a[i][0].item() for i in range(7)] + [b[i][0].item() for i in range(3)]) == list(range(10))
    samples = utils.data.default_collate([{"x": np.ones(2), "n": 1}, {"x": np.zeros(2), "n": 2}])
    assert samples["x"].shape == (2, 2)
    assert samples["n"].tolist() == [1, 2]
    with pytest.raises(ValueError, match="do not add up"):
        utils.data.random_split(data, [1, 2])
    with pytest.raises(ValueError, match="leave shuffle out"):
        utils.data.DataLoader(data, shuffle=True, sampler=endless)


def test_checkpoint_where_pytorch_has_it() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    utils.checkpoint.checkpoint(lambda v: (v * v).exp(), x, use_reentrant=False).sum().backward()
    assert x.grad.tolist() == pytest.approx([2 * math.e, 4 * math.exp(4)], rel=1e-5)
    layers = nn.Sequential(*(nn.Linear(2, 2) for _ in range(5)))
    y = utils.checkpoint.checkpoint_sequential(layers, 2, x.detach().requires_grad_(), use_reentrant=False)
    assert y.tolist() == pytest.approx(layers(x).tolist())
    y.sum().backward()
    assert all(p.grad is not None for p in layers.parameters())
    with pytest.raises(ValueError, match="segments must be at least 1, got 0"):
        utils.checkpoint.checkpoint_sequential(layers, 0, x)
