"""Shards: the same loss and gradients as one pass over the whole batch, and nothing left behind when one fails."""

import gc
import threading
from typing import Any, NamedTuple

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

import tinygrad_edu as tg
from models.gpt import GPT, GPTConfig
from tinygrad_edu import optim
from tinygrad_edu.engine.modes import Listener, active, setting
from tinygrad_edu.kernels import crew
from tinygrad_edu.kernels.numpy import adamw
from tinygrad_edu.optim.flat import gradient_place
from tinygrad_edu.parallel import Shards
from tinygrad_edu.parallel.blas import BlasThreads
from tinygrad_edu.parallel.workers import Workers


class Pair(NamedTuple):
    ids: Any
    labels: Any


def blas_threads():
    return [library.num_threads for library in ThreadpoolController().select(user_api="blas").lib_controllers]


def gpt(dropout=0.0):
    tg.manual_seed(1)
    return GPT(GPTConfig(vocab_size=17, block_size=12, layers=2, heads=2, width=16, dropout=dropout, bias=True))


def batch(samples, seed=0):
    drawn = np.random.default_rng(seed)
    return Pair(drawn.integers(0, 17, (samples, 12)), drawn.integers(0, 17, (samples, 12)))


def gradients(model):
    return {name: None if p.grad is None else p.grad.numpy() for name, p in model.named_parameters()}


def same(got, want):
    assert got.keys() == want.keys()
    for name in want:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-4, atol=1e-6, err_msg=name)


def whole(model, data):
    total, count = model.loss(data)
    (total / count).backward()
    return total.item(), count


class Scale:
    """loss = Σ w·x over the samples, counted by x ≥ 0; what happens to a sample below −1 is up to the test."""

    def __init__(self, at_bad=None):
        self.w: Any = tg.tensor(2.0, requires_grad=True)
        self.unused = tg.tensor(1.0, requires_grad=True)
        self.at_bad = at_bad
        self.seen = []

    def loss(self, parts):
        x = np.asarray(parts[0], np.float32)
        self.seen.append((x.tolist(), threading.current_thread(), active(), parts))
        if self.at_bad and (x < -1).any():
            self.at_bad()
        return (self.w * tg.tensor(np.maximum(x, 0))).sum(), int((x >= 0).sum())


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("samples", [1, 2, 7])
def test_any_number_of_shards_gives_the_loss_and_gradients_of_the_whole(samples, n):
    model, data = gpt(), batch(samples)
    total, count = whole(model, data)
    want = gradients(model)
    for p in model.parameters():
        p.grad = None
    with Shards(n) as shards:
        loss, counted = shards.backward(model, data)
    assert counted == count
    assert abs(loss - total) < 1e-4 * total
    same(gradients(model), want)


def test_dropout_does_not_depend_on_the_number_of_shards():
    found, states = [], []
    for n in (1, 2, 3):
        model = gpt(dropout=0.3)
        tg.manual_seed(5)
        with Shards(n) as shards:
            losses = [shards.backward(model, batch(6, i))[0] for i in range(2)]
        states.append(tg.random.default_generator.get_state())
        found.append((losses, gradients(model)))
    model = gpt(dropout=0.3)
    tg.manual_seed(5)
    losses = [whole(model, batch(6, i))[0] for i in range(2)]
    for other, grads in found:
        np.testing.assert_allclose(other, losses, rtol=1e-5)
        same(grads, gradients(model))
    assert states == [tg.random.default_generator.get_state()] * 3


def test_gradients_add_to_those_that_are_there():
    model = gpt()
    whole(model, batch(4))
    want = {name: 2 * g for name, g in gradients(model).items()}
    with Shards(2) as shards:
        shards.backward(model, batch(4))
    same(gradients(model), want)


def test_gradients_have_memory_of_their_own():
    model = gpt()
    with Shards(2) as shards:
        shards.backward(model, batch(4))
        first = gradients(model)
        kept = {name: g.copy() for name, g in first.items()}
        for p in model.parameters():
            p.grad = None
        shards.backward(model, batch(4, 9))
    for name, g in first.items():
        np.testing.assert_array_equal(g, kept[name])


def test_unused_parameters_keep_no_gradient():
    model = Scale()
    with Shards(2) as shards:
        assert shards.backward(model, ([1.0, 2.0, 3.0],)) == (12.0, 3)
    assert model.w.grad.item() == 2.0
    assert model.unused.grad is None


def test_a_tied_weight_gets_the_sum_of_both_uses():
    model = gpt()
    with Shards(2) as shards:
        shards.backward(model, batch(4))
    assert model.head.weight.grad is model.token.weight.grad


def test_shards_without_labels_count_nothing():
    model = Scale()
    with Shards(3) as shards:
        assert shards.backward(model, ([1.0, -1.0, 3.0],)) == (8.0, 2)
        assert model.w.grad.item() == 2.0
        assert shards.backward(model, ([-1.0, -1.0],)) == (0.0, 0)
    assert model.w.grad.item() == 2.0


def test_samples_are_split_in_order_over_threads_and_first_sample_tells_where():
    model = Scale()
    with Shards(2) as shards:
        shards.backward(model, ([1.0, 2.0, 3.0, 4.0, 5.0],))
    seen = sorted(model.seen, key=lambda entry: entry[0])
    assert [entry[0] for entry in seen] == [[1.0, 2.0], [3.0, 4.0, 5.0]]
    assert [entry[2].first_sample for entry in seen] == [0, 2]
    assert seen[0][1] is threading.current_thread()
    assert seen[1][1] is not threading.current_thread()
    assert active().first_sample == 0


def test_parts_of_a_batch_keep_their_kind():
    model = Scale()
    with Shards(2) as shards:
        shards.backward(model, Pair(tg.tensor([1.0, 2.0]).array, None))
        shards.backward(model, Pair([1.0, 2.0], 7))
    assert all(type(entry[3]) is Pair for entry in model.seen)
    assert [entry[3].labels for entry in model.seen] == [None, None, 7, 7]


def test_modes_reach_every_shard():
    model = Scale()
    with Shards(2) as shards:
        with tg.definitions():
            shards.backward(model, ([1.0, 2.0],))
        with tg.no_grad(), pytest.raises(RuntimeError, match="needs no gradient"):
            shards.backward(model, ([1.0, 2.0],))
        generator = tg.Generator(3)
        with setting(generator=generator):
            shards.backward(model, ([1.0, 2.0],))
    assert [entry[2].definitions for entry in model.seen[:2]] == [True, True]
    assert [entry[2].grad for entry in model.seen[2:4]] == [False, False]
    assert all(entry[2].generator.seed == 3 and entry[2].generator is not generator for entry in model.seen[4:])


def test_numpy_error_settings_reach_every_shard():
    found = []

    class Model(Scale):
        def loss(self, parts):
            found.append(np.geterr()["divide"])
            return super().loss(parts)

    with Shards(2) as shards, np.errstate(divide="raise"):
        shards.backward(Model(), ([1.0, 2.0],))
    assert found == ["raise", "raise"]


@pytest.mark.parametrize("bad", [[-2.0, 1.0, 1.0], [1.0, 1.0, -2.0], [-2.0, -2.0, -2.0]])
def test_an_exception_in_one_shard_is_raised_and_leaves_no_trace(bad):
    class Broken(Exception):
        pass

    def fail():
        tg.rand(3)
        raise Broken

    model, before = Scale(fail), blas_threads()
    state = tg.random.default_generator.get_state()
    with Shards(3) as shards:
        shards.backward(model, ([1.0, 2.0, 3.0],))
        with pytest.raises(Broken):
            shards.backward(model, (bad,))
        assert model.w.grad.item() == 2.0
        assert active().first_sample == 0
        assert shards.backward(model, ([1.0, 2.0, 3.0],)) == (12.0, 3)
        assert model.w.grad.item() == 4.0
    assert blas_threads() == before
    assert tg.random.default_generator.get_state() == state


def test_all_shards_have_ended_when_an_exception_comes_out():
    ended = threading.Event()

    def work(i):
        if i == 0:
            raise KeyError("first")
        threading.Event().wait(0.2)
        ended.set()

    workers = Workers(2)
    with pytest.raises(KeyError, match="first"):
        workers.run(work, 2)
    assert ended.is_set()
    workers.close()


def test_products_use_one_thread_inside_and_all_of_them_after():
    before = blas_threads()
    with Shards(2) as shards:
        assert blas_threads() == [1] * len(before)
        shards.backward(Scale(), ([1.0],))
        assert blas_threads() == [min(n, 2) for n in before]  # one shard: the products have the machine to themselves
        shards.backward(Scale(), ([1.0, 2.0],))
        assert blas_threads() == [1] * len(before)
    assert blas_threads() == before
    with pytest.raises(ZeroDivisionError), Shards(2):
        raise ZeroDivisionError
    assert blas_threads() == before
    with Shards(1) as shards:
        shards.backward(Scale(), ([1.0, 2.0],))
        assert blas_threads() == [1] * len(before)
    assert blas_threads() == before


@pytest.mark.parametrize("first", [0, 1])
def test_of_several_limits_the_lowest_holds_and_the_last_to_end_restores(first):
    before = blas_threads()
    limits = BlasThreads(), BlasThreads()
    limits[0].limit(2)
    limits[1].limit(1)
    assert blas_threads() == [1] * len(before)
    limits[first].restore()
    assert blas_threads() == [min(n, 2 if first else 1) for n in before]
    limits[1 - first].restore()
    assert blas_threads() == before
    limits[first].restore()
    assert blas_threads() == before


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was(enabled):
    class Model(Scale):
        def loss(self, parts):
            assert not gc.isenabled()
            return super().loss(parts)

    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with Shards(2) as shards:
            shards.backward(Model(), ([1.0, 2.0],))
            assert gc.isenabled() is enabled
            with pytest.raises(AttributeError):
                shards.backward(None, ([1.0, 2.0],))
            assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_threads_end_with_the_block():
    before = threading.active_count()
    with Shards(4):
        assert threading.active_count() == before + 3
    assert threading.active_count() == before


def test_a_finished_step_is_not_kept_alive_by_the_threads():
    import weakref

    class Model(Scale):
        pass

    with Shards(2) as shards:
        model = Model()
        gone = weakref.ref(model)
        shards.backward(model, ([1.0, 2.0],))
        model.seen.clear()
        del model
        for _ in range(100):
            if gone() is None:
                break
            threading.Event().wait(0.01)
        assert gone() is None


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "2"])
def test_a_senseless_number_of_shards_is_refused(n):
    with pytest.raises(ValueError, match="threads"):
        Shards(n)


def test_misuse_is_explained():
    shards = Shards(2)
    with pytest.raises(RuntimeError, match="with Shards"):
        shards.backward(Scale(), ([1.0],))
    with shards:
        with pytest.raises(RuntimeError, match="already entered"):
            shards.__enter__()
        with pytest.raises(ValueError, match=r"\[2, 3\] samples"):
            shards.backward(Scale(), (np.ones(2), np.ones(3)))
        with pytest.raises(ValueError, match="no samples"):
            shards.backward(Scale(), (np.ones(0),))
        with pytest.raises(TypeError, match="tuple"):
            shards.backward(Scale(), np.ones(3))
    with shards:  # and again, once it was left
        assert shards.backward(Scale(), ([1.0],)) == (2.0, 1)


def test_default_is_one_shard_per_core():
    assert Shards().n >= 1


def test_a_traced_step_runs_in_one_thread():
    class Model:
        def loss(self, parts):
            assert len(parts[0]) == 2
            with setting(trace=None):
                return tg.zeros(()), 0

    with Shards(2) as shards, setting(trace=Listener()):
        assert shards.backward(Model(), ([1.0, 2.0],)) == (0.0, 0)


@pytest.mark.parametrize("size", [0, 5, crew.LEAST, 2 * crew.LEAST, 7 * crew.LEAST + 13])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_shared_pass_covers_everything_once(size, n):
    seen, threads = np.zeros(size, np.int64), set()

    def count(start, stop):
        seen[start:stop] += 1
        threads.add(threading.current_thread())

    with Shards(n):
        crew.shared(count, size)
    assert (seen == 1).all()
    assert len(threads) == max(1, min(n, size // crew.LEAST))


def test_an_optimizer_step_is_the_same_shared_or_alone():
    size, found = 2 * crew.LEAST + 1000, []
    for n in (1, 2):
        drawn = np.random.default_rng(0)
        p, g, m, v = drawn.random((4, size), np.float32)
        with Shards(n):
            adamw(p, g, m, v, lr=0.1, beta1=0.9, beta2=0.99, eps=1e-8, weight_decay=0.1, step=3)
        found.append((p, m, v))
    np.testing.assert_array_equal(found[0], found[1])


def test_a_failing_pass_ends_the_offer_with_its_block():
    def fail(start, stop):
        raise KeyError(start)

    with Shards(2):
        with pytest.raises(KeyError, match="0"):
            crew.shared(fail, 4 * crew.LEAST)
        assert len(crew._thread.offers) == 1
    assert not crew._thread.offers


def held_by_another(lock):
    found = []
    thread = threading.Thread(target=lambda: found.append(not lock.acquire(timeout=0) or lock.release() or False))
    thread.start()
    thread.join()
    return found[0]


def test_a_turn_is_given_away_in_long_operations_and_at_the_end():
    turn = threading.Lock()
    with crew.apart:  # without turns nothing happens
        pass
    with crew.taking_turns(turn):
        assert held_by_another(turn)
        with crew.apart:
            assert not held_by_another(turn)
            with crew.apart:
                assert not held_by_another(turn)
            assert not held_by_another(turn)
        assert held_by_another(turn)
    assert not held_by_another(turn)


def test_a_turn_is_given_back_after_an_exception():
    turn = threading.Lock()
    with pytest.raises(KeyError), crew.taking_turns(turn), crew.apart:
        raise KeyError
    assert not held_by_another(turn)


def test_nobody_waits_long_for_a_turn():
    turn = threading.Lock()
    turn.acquire()
    with crew.taking_turns(turn), crew.apart:
        pass
    assert turn.locked()
    turn.release()
    with crew.taking_turns(turn):
        assert turn.locked()


class Overwriting(optim.AdamW):
    @staticmethod
    def update(param, grad, state, step, group):
        grad *= -1
        param += group["lr"] * grad


class TestGradientsWhereTheOptimizerReadsThem:
    def step(self, shards, model, optimizer, seed):
        optimizer.zero_grad()
        shards.backward(model, batch(4, seed))
        optimizer.step()

    def test_they_are_not_copied(self):
        model = gpt()
        optimizer = optim.AdamW(model.parameters())
        with Shards(2) as shards:
            for seed in range(3):
                self.step(shards, model, optimizer, seed)
                read = optimizer._layouts[0].flats[0].gradient
                there = [np.shares_memory(p.grad.array, read) for p in model.parameters()]
                assert there == [seed > 0] * len(there)  # before the first step nobody knows what the optimizer does

    def test_steps_are_those_of_gradients_elsewhere(self):
        here, elsewhere = gpt(), gpt()
        optimizers = [optim.AdamW(model.parameters(), lr=0.01) for model in (here, elsewhere)]
        with Shards(2) as shards:
            for seed in range(4):
                self.step(shards, here, optimizers[0], seed)
                optimizers[1].zero_grad()
                shards.backward(elsewhere, batch(4, seed))
                for p in elsewhere.parameters():
                    p.grad = p.grad.clone()
                optimizers[1].step()
        for p, q in zip(here.parameters(), elsewhere.parameters(), strict=True):
            np.testing.assert_array_equal(p.array, q.array)

    @pytest.mark.parametrize("hold", [lambda g: g, lambda g: g[0], lambda g: g.array.T, lambda g: memoryview(g.array)])
    @pytest.mark.parametrize("plain", [False, True])
    def test_a_gradient_that_somebody_holds_keeps_its_values(self, hold, plain):
        model = gpt()
        optimizer = optim.AdamW(model.parameters(), lr=0.01)
        with Shards(2) as shards:
            for seed in range(3):
                self.step(shards, model, optimizer, seed)
            held = {name: hold(p.grad) for name, p in model.named_parameters()}
            before = {name: np.array(getattr(h, "array", h)) for name, h in held.items()}
            for seed in range(3, 6):
                optimizer.zero_grad()
                if plain:
                    whole(model, batch(4, seed))
                    optimizer.step()
                else:
                    self.step(shards, model, optimizer, seed)
                for name, h in held.items():
                    np.testing.assert_array_equal(getattr(h, "array", h), before[name], err_msg=name)

    @pytest.mark.parametrize(
        "make",
        [
            optim.AdamW,
            lambda p: optim.AdamW(p, maximize=True),
            lambda p: optim.AdamW(p, amsgrad=True),
            lambda p: optim.Adam(p, weight_decay=0.1),
            lambda p: optim.SGD(p, lr=0.1, weight_decay=0.1),
            Overwriting,
        ],
        ids=["adamw", "maximize", "amsgrad", "adam", "sgd", "subclass"],
    )
    def test_no_step_changes_a_gradient(self, make):
        model = gpt()
        optimizer = make(model.parameters())
        with Shards(2) as shards:
            for seed in range(3):
                optimizer.zero_grad(set_to_none=seed < 2)
                shards.backward(model, batch(4, seed))
                before = gradients(model)
                before = {name: g.copy() for name, g in before.items()}
                optimizer.step()
                if seed == 1 and "maximize" in optimizer.param_groups[0]:
                    optimizer.param_groups[0]["maximize"] = True
                for name, g in gradients(model).items():
                    np.testing.assert_array_equal(g, before[name], err_msg=name)

    def test_each_gradient_has_a_version_of_its_own(self):
        model = gpt()
        optimizer = optim.AdamW(model.parameters())
        with Shards(2) as shards:
            for seed in range(2):
                self.step(shards, model, optimizer, seed)
        first, second = list(model.parameters())[:2]
        assert first.grad is not None
        assert second.grad is not None
        before = second.grad._version[0]
        first.grad.zero_()
        assert second.grad._version[0] == before

    def test_a_parameter_that_was_moved_has_no_place(self):
        model = gpt()
        optimizer = optim.AdamW(model.parameters())
        with Shards(2) as shards:
            self.step(shards, model, optimizer, 0)
            optimizer.zero_grad()
            first = next(iter(model.parameters()))
            assert gradient_place(first) is not None
            first.array = first.array.astype(np.float64)
            assert gradient_place(first) is None
