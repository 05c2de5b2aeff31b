"""Devices, copies and CuPy's differences, each handled in one place of the engine."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tests.strict.device_array import Device, traffic
from tests.strict.ran import host
from tinygrad_edu import nn
from tinygrad_edu.arrays import devices, indexing
from tinygrad_edu.nn import functional as F

ROOT = Path(__file__).resolve().parents[2]


def on(device: str, *shape: int) -> Any:
    return tg.ones(*shape, device=device)


# Devices


def test_to_cuda_and_back() -> None:
    x = tg.tensor([1.0, 2.0])
    assert x.to("cpu") is x
    assert (x.cuda().device, x.to("cuda:1").device, x.to(device="cuda", dtype="float64").dtype) == (
        "cuda:0",
        "cuda:1",
        np.float64,
    )
    assert x.cuda().cpu().tolist() == [1.0, 2.0]
    assert x.to("cuda").to(tg.ones(1)).device == "cpu"
    assert isinstance(x.cuda().numpy(), np.ndarray)
    assert repr(x.cuda()) == repr(x) or "2." in repr(x.cuda())
    assert (x.cuda().device.type, x.to("cuda:1").device.index) == ("cuda", 1)


def test_tensors_from_arrays_stay_where_the_array_is(cupy: Any) -> None:
    assert tg.Tensor(cupy.ones(3)).device == "cuda:0"
    assert tg.tensor([1, 2], device="cuda:1").device == "cuda:1"
    with pytest.raises(ValueError, match=r"device 'cuda:2': this machine has 2 CUDA device\(s\), numbered from 0"):
        tg.zeros(1, device="cuda:2")


def test_what_is_asked_of_gpus(cupy: Any) -> None:
    assert tg.cuda.is_available()
    assert (tg.cuda.device_count(), tg.cuda.current_device(), tg.cuda.get_device_name(1)) == (2, 0, "stand-in")
    tg.cuda.synchronize("cuda:1")
    pool = cupy.get_default_memory_pool()
    pool.used = {0: 3 << 30, 1: 5 << 30}
    assert (tg.cuda.memory_allocated(), tg.cuda.memory_allocated(1), tg.cuda.memory_reserved()) == (
        3 << 30,
        5 << 30,
        4 << 30,
    )
    assert tg.cuda.mem_get_info("cuda:1") == (58 << 30, 64 << 30)
    tg.cuda.set_per_process_memory_fraction(0.25, 1)
    assert pool.limit == {1: 16 << 30}
    with pytest.raises(ValueError, match="a share from 0 to 1, not 2"):
        tg.cuda.set_per_process_memory_fraction(2)
    tg.cuda.empty_cache()
    assert pool.freed == [0, 1]
    assert Device.current == 0


def test_results_are_where_the_operands_are() -> None:
    """CuPy computes on the thread's GPU, so the engine makes that the operands'."""
    x, y = on("cuda:1", 3), on("cuda:0", 3)
    assert (tg.Tensor(x).device, tg.Tensor(y.array).device, x.clone().device) == ("cuda:1", "cuda:0", "cuda:1")
    assert ((x + 1).device, (y + 1).device, (x * x).sum().device, (y @ y).device) == (
        *("cuda:1", "cuda:0", "cuda:1", "cuda:0"),
    )
    model = nn.Linear(4, 2).to("cuda:1")
    assert model(on("cuda:1", 5, 4)).device == "cuda:1"
    assert tg.randn(2, device="cuda:1").device == "cuda:1"


def test_a_model_over_two_gpus() -> None:
    """The backward pass follows the tensors from one GPU to the other."""
    tg.manual_seed(0)
    first, second = nn.Linear(4, 8).to("cuda:0"), nn.Linear(8, 2).to("cuda:1")
    tg.manual_seed(0)
    whole = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    h = first(tg.tensor(x, device="cuda:0")).tanh()
    (second(h.to("cuda:1")) ** 2).mean().backward()
    (whole[1](whole[0](tg.tensor(x)).tanh()) ** 2).mean().backward()
    optimizer = tg.optim.AdamW([*first.parameters(), *second.parameters()])
    nn.utils.clip_grad_norm_([*first.parameters(), *second.parameters()], 0.1)
    nn.utils.clip_grad_norm_(whole.parameters(), 0.1)
    for p, q in zip([*first.parameters(), *second.parameters()], whole.parameters(), strict=True):
        np.testing.assert_allclose(host(p.grad), host(q.grad), rtol=1e-5, atol=1e-7)
        assert p.grad.device == p.device  # type: ignore[union-attr]
    optimizer.step()
    assert {str(p.device) for p in second.parameters()} == {"cuda:1"}


MIXED = {
    "add": lambda x, y: x + y,
    "matmul": lambda x, y: x @ y.T,
    "maximum": tg.maximum,
    "where": lambda x, y: tg.where(x > 0, x, y),
    "masked_fill": lambda x, y: x.masked_fill(y > 0, 1.0),
    "cat": lambda x, y: tg.cat([x, y]),
    "linear": F.linear,
    "embedding": lambda x, y: F.embedding(y[0].long(), x),
    "cross_entropy": lambda x, y: F.cross_entropy(x, y[0, :2].long()),
    "layer_norm": lambda x, y: F.layer_norm(x, 2, y[0]),
    "scaled_dot_product_attention": lambda x, y: F.scaled_dot_product_attention(x, y, y),
    "gather": lambda x, y: x.gather(0, y.long()),
    "set": lambda x, y: x.__setitem__(0, y[0]),
    "+=": lambda x, y: x.__iadd__(y),
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize(("one", "other"), [("cpu", "cuda:0"), ("cuda:0", "cpu"), ("cuda:0", "cuda:1")])
def test_mixing_devices_names_both(name: str, one: str, other: str) -> None:
    with pytest.raises(ValueError, match="its inputs lie on") as caught:
        MIXED[name](on(one, 2, 2), on(other, 2, 2))
    assert one in str(caught.value)
    assert other in str(caught.value)
    assert ".to('cuda:" in str(caught.value)


def test_values_are_copied_from_anywhere() -> None:
    x, y = on("cuda:1", 3), tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x.copy_(y)
    assert (x.device, x.tolist()) == ("cuda:1", [1.0, 2.0, 3.0])
    (x * x).sum().backward()
    assert y.grad is not None
    assert (y.grad.device, y.grad.tolist()) == ("cpu", [2.0, 4.0, 6.0])
    w = on("cuda", 2, 2)
    nn.init.orthogonal_(w)
    nn.init.trunc_normal_(w)
    nn.init.xavier_uniform_(w)
    assert w.device == "cuda:0"
    w.data = np.zeros((2, 2), np.float32)
    assert w.device == "cuda:0"


def test_lists_and_numbers_go_where_the_tensor_is() -> None:
    x = on("cuda", 3)
    row = [1.0, 2.0, 3.0]
    for y in (x + row, row + x, x * 2, 2 - x, x[[0, 2]], x.masked_fill([True, False, True], 0)):
        assert y.device == "cuda:0"
    x[[0, 1]] = [5.0, 6.0]
    assert x.tolist() == [5.0, 6.0, 1.0]


def test_tensors_are_made_where_they_are_wanted() -> None:
    """Constants and ranges are made there; random draws are made here and sent, so that they are the same numbers."""
    with traffic() as seen:
        made = [
            tg.zeros(1000, device="cuda"),
            tg.full((3,), 7, device="cuda"),
            tg.arange(5, device="cuda"),
            tg.arange(0.0, 1.0, 0.25, device="cuda"),
            tg.eye(3, device="cuda"),
            tg.linspace(0, 1, 5, device="cuda"),
            tg.ones_like(tg.ones(4, device="cuda")),
        ]
    assert {str(t.device) for t in made} == {"cuda:0"}
    assert [t.dtype for t in made[1:4]] == [np.int64, np.int64, np.float32]
    assert seen.counts == (0, 0, 0)
    tg.manual_seed(1)
    here = tg.randn(5)
    tg.manual_seed(1)
    assert tg.randn(5, device="cuda").tolist() == here.tolist()


# Memory


def test_out_of_memory_says_how_much(cupy: Any) -> None:
    tg.ones(1, device="cuda")
    pool = cupy.get_default_memory_pool()
    pool.used = {0: 3 << 30}
    tg.cuda.set_per_process_memory_fraction(0.0625)
    with pytest.raises(tg.cuda.OutOfMemoryError) as caught:
        cupy.cuda.get_allocator()(2 << 30)
    assert isinstance(caught.value, MemoryError)
    assert str(caught.value).startswith(
        "cuda:0 has too little memory: 2.0 GiB asked for, 3.0 GiB in use by arrays, 61.0 GiB free of 64.0 GiB, "
        "limited to 4.0 GiB; choose a smaller batch or model"
    )


def test_an_allocator_of_the_users_stays(cupy: Any) -> None:
    cupy.cuda.set_allocator(len)
    tg.ones(1, device="cuda")
    assert cupy.cuda.get_allocator() is len


# Ids


def test_ids_from_the_host_are_checked_there() -> None:
    w, ids = on("cuda", 5, 3), tg.tensor([[0, 4], [2, 2]], device="cuda")
    with traffic() as seen:
        F.embedding(ids, w)
        F.embedding(ids[:, 1:], w)
        F.embedding(tg.arange(5, device="cuda"), w)
    assert seen.counts == (0, 0, 0)


@pytest.mark.parametrize("ids", [[0, 5], [-1, 2]])
def test_ids_out_of_range_are_refused(ids: list[int]) -> None:
    w = on("cuda", 5, 3)
    for call in (
        lambda: F.embedding(tg.tensor(ids, device="cuda"), w),
        lambda: F.embedding(np.array(ids), w),
        lambda: F.cross_entropy(w[:2, :], tg.tensor([0, 3], device="cuda")),
        lambda: w.gather(0, tg.tensor([ids], device="cuda")),
        lambda: w.index_select(0, tg.tensor(ids, device="cuda")),
    ):
        with pytest.raises(IndexError, match="ids must lie in"):
            call()


PLACES: dict[str, Any] = {
    "list": [0, 5],
    "negative": np.array([-6]),
    "tensor": lambda: tg.tensor([5], device="cuda"),
    "second axis": (slice(None), [3]),
    "after an ellipsis": (..., [-4], slice(None)),
    "after a mask": (np.tri(5, 3, -3, dtype=bool), [0, 1, 0]),
    "after a new axis": (None, [5], 0),
    "beside another": ([0, 1], [0, 3]),
}


@pytest.mark.parametrize("key", PLACES.values(), ids=PLACES)
def test_places_out_of_range_are_refused(key: Any) -> None:
    w, key = on("cuda", 5, 3, 1), key() if callable(key) else key
    before = w.tolist()
    for call in (lambda: w[key], lambda: w.__setitem__(key, 1.0)):
        with pytest.raises(IndexError, match=r"index of axis \d: ids must lie in -[531] to [420]"):
            call()
    assert w.tolist() == before


def test_places_from_the_host_are_checked_there() -> None:
    w, ids = on("cuda", 5, 3), tg.tensor([0, -3], device="cuda")
    with traffic() as seen:
        w[ids]
        w[:, ids[:1]]
    assert seen.counts == (0, 0, 0)
    assert w[[-5, 4], [2, -3]].tolist() == [w[0, 2].item(), w[4, 0].item()]
    assert w[None, [-5]].shape == (1, 1, 3)  # a new axis takes none of w


def test_ids_that_changed_since_are_asked_of_the_gpu() -> None:
    w, ids = on("cuda", 5, 3), tg.tensor([0, 4], device="cuda")
    ids += 1
    with traffic() as seen, pytest.raises(IndexError, match="from 1 to 5"):
        F.embedding(ids, w)
    assert seen.to_host == [8, 8]


def test_a_part_of_ids_may_be_right_where_the_whole_is_not() -> None:
    ids = tg.tensor([7, 1, 2], device="cuda")
    assert F.embedding(ids[1:], on("cuda", 5, 3)).shape == (2, 3)


def test_the_hosts_array_may_change_after_it_was_sent() -> None:
    given = np.array([0, 1])
    ids = tg.tensor(given, device="cuda")
    given[:] = 9
    assert F.embedding(ids, on("cuda", 5, 3)).shape == (2, 3)
    assert devices.on_host(ids).tolist() == [0, 1]


def test_what_is_known_of_ids_goes_with_them() -> None:
    from tinygrad_edu.arrays import gpu

    before = len(gpu._twins)
    for n in range(50):
        tg.tensor([n], device="cuda")
    assert len(gpu._twins) <= before + 1


# Scattering, and what else CuPy does otherwise


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64", "int8", "uint8"])
def test_adding_at_an_index(cupy: Any, dtype: str) -> None:
    expected = np.zeros(4, dtype)
    values = np.array([1, 2, 3, -4 if dtype[0] != "u" else 4]).astype(dtype)
    np.add.at(expected, np.array([1, 1, 3, 0]), values)
    found = cupy.zeros(4, dtype=dtype)
    indexing.add_at(found, cupy.asarray(np.array([1, 1, 3, 0])), cupy.asarray(values))
    np.testing.assert_array_equal(found.get(), expected)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64", "int8", "uint8"])
@pytest.mark.parametrize("by", ["maximum", "minimum"])
def test_extremes_at_an_index(cupy: Any, dtype: str, by: str) -> None:
    start = np.array([5, -5 if dtype[0] != "u" else 5, 0, 2]).astype(dtype)
    values = np.array([3, 9, 7, -8 if dtype[0] != "u" else 8]).astype(dtype)
    index = np.array([[1], [1], [3], [0]])
    expected = start.copy()[:, None]
    getattr(np, by).at(expected, (index, np.zeros((4, 1), int)), values[:, None])
    found = cupy.asarray(start[:, None])
    indexing.change_along(found, cupy.asarray(index), cupy.asarray(values[:, None]), 0, by)
    np.testing.assert_array_equal(found.get(), expected)


def test_expanded_tensors_are_not_written_to() -> None:
    """CuPy would write to memory that several elements share."""
    with pytest.raises(RuntimeError, match="read-only or copied"):
        on("cuda", 3).expand(2, 3).add_(1)


def test_logarithm_of_nothing_warns_nowhere() -> None:
    assert tg.zeros(2, device="cuda").log().tolist() == [-np.inf] * 2
    assert tg.zeros(2, 0, device="cuda").logsumexp(1).tolist() == [-np.inf] * 2


def test_tensors_pickle() -> None:
    x = on("cuda", 3)
    again = pickle.loads(pickle.dumps(x))
    assert again.tolist() == [1.0] * 3


# What is missing


def told(program: str) -> str:
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


BLOCKED = """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("cupy", "cupyx"):
            {answer}
sys.meta_path.insert(0, Finder())
import tinygrad_edu as tg
"""


def test_without_cupy_it_says_what_to_install() -> None:
    program = BLOCKED.format(answer="raise ModuleNotFoundError(f'No module named {name!r}', name=name)") + (
        "print(tg.cuda.is_available(), tg.cuda.device_count(), tg.cuda.memory_allocated())\n"
        "tg.cuda.empty_cache()\n"
        "try: tg.zeros(1, device='cuda')\n"
        "except ValueError as error: print(error)\n"
    )
    first, message = told(program).splitlines()
    assert first == "False 0 0"
    assert message.startswith(
        "device 'cuda' needs CuPy, which is not installed: in the checkout, pip install -e '.[cuda12]'"
    )


def test_a_cupy_that_cannot_be_loaded_says_why() -> None:
    program = BLOCKED.format(answer="raise ImportError('libcuda is odd')") + (
        "try: tg.ones(1).cuda()\nexcept ValueError as error: print(error)\n"
    )
    assert told(program) == "device 'cuda' needs CuPy, which is installed but cannot be loaded: libcuda is odd\n"


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Device, "count", 0)
    assert not tg.cuda.is_available()
    with pytest.raises(ValueError, match=r"needs an NVIDIA GPU with its driver, and CuPy 14.2.0 finds none here"):
        tg.zeros(1, device="cuda")


def test_on_numpy_alone_cupy_is_never_imported() -> None:
    """A model is built, trained, saved and sampled from while whoever asks for CuPy fails."""
    program = BLOCKED.format(answer="raise AssertionError('CuPy was asked for')") + (
        "import numpy as np\n"
        "from models.gpt import GPT, GPTConfig\n"
        "from tinygrad_edu import graph, generation, nn, optim\n"
        "from tinygrad_edu.training import TrainConfig, Trainer\n"
        "ids = np.arange(400) % 7\n"
        "model = GPT(GPTConfig(vocab_size=7, block_size=8, layers=1, heads=2, width=8, dropout=0.1))\n"
        "reports = list(Trainer(model, ids, TrainConfig(steps=2, batch_size=2, block_size=8)))\n"
        "generation.generate(model, ids[:3], 2)\n"
        "graph.trace(model, [[1, 2]]).dot()\n"
        "print(len(reports), sorted(n for n in sys.modules if n.startswith('cupy')))\n"
    )
    assert told(program) == "2 []\n"
