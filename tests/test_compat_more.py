"""Names at the top of the package that PyTorch's programs use around their models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import amp, autograd, nn, optim
from tinygrad_edu.utils import data


def test_pieces() -> None:
    x = tg.arange(7)
    assert [p.tolist() for p in tg.tensor_split(x, 3)] == [[0, 1, 2], [3, 4], [5, 6]]
    assert [p.tolist() for p in tg.tensor_split(x, (2, 2, -1))] == [[0, 1], [], [2, 3, 4, 5], [6]]
    assert [p.tolist() for p in tg.split_with_sizes(x, [3, 4])] == [[0, 1, 2], [3, 4, 5, 6]]


def test_dtypes_promote() -> None:
    assert tg.promote_types(tg.int32, tg.float32) == tg.float32
    assert tg.promote_types(tg.float32, tg.float64) == tg.float64
    assert tg.result_type(tg.tensor([1, 2]), 1.0) == tg.float32
    assert tg.result_type(tg.ones(2), 3) == tg.float32


def test_the_stream_goes_on_from_a_state() -> None:
    tg.manual_seed(5)
    tg.rand(3)
    state = tg.get_rng_state()
    a = tg.rand(4).tolist()
    tg.set_rng_state(state)
    assert tg.rand(4).tolist() == a
    assert tg.initial_seed() == 5


def test_draws_like_another() -> None:
    like = tg.zeros(50, dtype=tg.float64)
    drawn = tg.randint_like(like, 2, 4)
    assert drawn.dtype == tg.float64
    assert set(drawn.tolist()) == {2.0, 3.0}
    assert tg.bernoulli(like, 1.0).tolist() == [1.0] * 50
    assert tg.logspace(0, 2, 3).tolist() == [1.0, 10.0, 100.0]


def test_functions_of_nn_functional() -> None:
    assert tg.layer_norm is nn.functional.layer_norm
    assert tg.dropout(tg.ones(3), 0.5, False).tolist() == [1.0] * 3


def test_backward_of_several_and_into_some() -> None:
    a, b = tg.tensor([2.0], requires_grad=True), tg.tensor([3.0], requires_grad=True)
    c = a * b
    autograd.backward([c, c * 2], [tg.tensor([1.0]), None])
    assert a.grad is not None
    assert a.grad.tolist() == [9.0]
    b.grad = None
    (a * b).backward(inputs=[a])
    assert [None if x.grad is None else x.grad.tolist() for x in (a, b)] == [[12.0], None]
    (a * b * b).sum().backward(inputs=b)
    assert [None if x.grad is None else x.grad.tolist() for x in (a, b)] == [[12.0], [12.0]]


def test_a_parameter_takes_a_programs_own_marks() -> None:
    p: Any = nn.Parameter(tg.ones(2))
    p.no_decay = True
    assert p.no_decay
    with pytest.raises(AttributeError, match="Tensor has no 'decay'"):
        p.decay  # noqa: B018


@pytest.mark.parametrize("name", ["gradcheck", "profiler"])
def test_what_autograd_has_elsewhere(name: str) -> None:
    with pytest.raises(AttributeError, match="tinygrad_edu"):
        getattr(autograd, name)


def test_changes_in_place_take_pytorchs_arguments() -> None:
    x = tg.tensor([[4.0, -7.0], [9.0, 2.0]])
    assert x.clone().copy_(src=tg.ones(2), non_blocking=True).tolist() == [[1.0, 1.0]] * 2
    assert x.clone().div_(2.0, rounding_mode="trunc").tolist() == [[2.0, -3.0], [4.0, 1.0]]
    assert x.clone().scatter_(1, tg.tensor([[0], [1]]), 10.0, reduce="add").tolist() == [[14.0, -7.0], [9.0, 12.0]]
    assert x.clone().masked_fill_(x < 0, tg.tensor(0.0)).tolist() == [[4.0, 0.0], [9.0, 2.0]]
    y = tg.tensor([1.0, 2.0], requires_grad=True)
    z = y * 1
    z.div_(y + 1, rounding_mode=None).sin_()
    z.sum().backward()
    np.testing.assert_allclose(np.asarray(y.grad), np.cos([1 / 2, 2 / 3]) / np.array([4.0, 9.0]), rtol=1e-6)


def test_numpys_functions_take_tensors() -> None:
    x = tg.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert np.sum(x).item() == 10.0
    assert np.mean(x, axis=0).tolist() == [2.0, 3.0]
    assert np.max(x).item() == 4.0


def test_shapes_change_in_place() -> None:
    x = tg.arange(6).reshape(2, 3)
    assert x.unsqueeze_(0).transpose_(1, 2).shape == (1, 3, 2)
    assert x.squeeze_().t_().tolist() == [[0, 1, 2], [3, 4, 5]]
    y = tg.ones(2, 3, requires_grad=True)
    z = y * 2
    z.unsqueeze_(0)
    (z.sum(-1) ** 2).sum().backward()
    assert y.grad is not None
    assert y.grad.tolist() == [[24.0] * 3] * 2
    with pytest.raises(RuntimeError, match="a leaf that needs a gradient keeps its shape"):
        y.unsqueeze_(0)


def test_methods_that_draw_and_measure() -> None:
    assert tg.tensor([0.0, 1.0]).multinomial(num_samples=3, replacement=True).tolist() == [1, 1, 1]
    assert tg.tensor([3.0, 0.0]).dist(tg.tensor([0.0, 4.0])).item() == 5.0
    assert tg.ones(1).get_device() == -1


def test_mixed_precision_changes_nothing() -> None:
    w = nn.Parameter(tg.ones(2))
    optimizer = optim.SGD([w], lr=0.5)
    scaler = tg.cuda.amp.GradScaler(init_scale=2.0**16, enabled=True)
    with tg.autocast("cuda", dtype=tg.float16), amp.autocast(enabled=False):
        loss = (w * w).sum()
    assert loss.dtype == tg.float32
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    assert w.grad is not None
    assert w.grad.tolist() == [2.0, 2.0]
    scaler.step(optimizer)
    scaler.update()
    scaler.load_state_dict(scaler.state_dict())
    assert w.tolist() == [0.0, 0.0]
    assert amp.autocast("cpu")(len)([1]) == 1


class Countdown(data.IterableDataset):
    def __iter__(self) -> Any:
        return iter([3, 2, 1])


def test_a_data_set_that_goes_its_own_way() -> None:
    assert [b.tolist() for b in data.DataLoader(Countdown(), batch_size=2)] == [[3, 2], [1]]
    assert [b.tolist() for b in data.DataLoader(Countdown(), batch_size=2, drop_last=True)] == [[3, 2]]
    assert list(data.DataLoader(Countdown(), batch_size=None)) == [3, 2, 1]
    with pytest.raises(ValueError, match="an IterableDataset gives the order already"):
        data.DataLoader(Countdown(), shuffle=True)
    with pytest.raises(TypeError, match="Countdown needs __len__"):
        len(data.DataLoader(Countdown()))


def test_samplers() -> None:
    class Backwards(data.Sampler):
        def __iter__(self) -> Any:
            return iter([2, 1, 0])

        def __len__(self) -> int:
            return 3

    both = data.ConcatDataset([[10, 11], [], [12]])
    assert [both[i] for i in range(-3, 3)] == [10, 11, 12] * 2
    for outside in (3, -4):
        with pytest.raises(IndexError, match="of 3"):
            both[outside]
    assert [b.tolist() for b in data.DataLoader(both, sampler=Backwards(both))] == [[12], [11], [10]]
    batches = data.BatchSampler(data.SequentialSampler(both), 2, drop_last=False)
    loader = data.DataLoader(both, batch_sampler=batches)
    assert [b.tolist() for b in loader] == [[10, 11], [12]]
    assert len(loader) == len(batches) == 2
    assert len(data.BatchSampler(range(3), 2, drop_last=True)) == 1
    with pytest.raises(ValueError, match="a batch_sampler makes the batches"):
        data.DataLoader(both, batch_size=2, batch_sampler=batches)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        data.BatchSampler(range(3), 0, drop_last=True)


def test_new_is_data_or_a_shape() -> None:
    x = tg.ones(1, dtype=tg.float64)
    assert x.new(2, 3).shape == (2, 3)
    assert x.new(2, 3).dtype == x.new([0.1]).dtype == tg.float64
    assert x.new([0.1]).item() == 0.1
    assert x.new().shape == (0,)
