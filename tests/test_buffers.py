"""The buffer source: reuse, and never memory that somebody can still see."""

import random
import sys
import threading
from typing import Any

import numpy as np
import pytest

from tinygrad_edu.arrays import buffers
from tinygrad_edu.arrays.buffers import empty, owned

SHAPE = (64, 128)
pools = pytest.mark.skipif(buffers._FREE is None, reason="reference counts do not tell here")


@pytest.fixture(autouse=True)
def _fresh_pool():
    buffers.clear()
    yield
    buffers.clear()


@pools
def test_memory_comes_back_when_nobody_holds_it():
    a = empty(SHAPE, np.float32)
    place = a.ctypes.data
    del a
    assert empty(SHAPE, np.float32).ctypes.data == place
    assert empty((128, 64), np.int32).ctypes.data == place  # another shape and dtype of the same size


VIEWS = {
    "itself": lambda a: a,
    "slice": lambda a: a[3:],
    "transpose": lambda a: a.T,
    "view of a view": lambda a: a.reshape(-1)[5:].view(np.int32)[::2],
    "element": lambda a: a[0, 0:1],
    "broadcast": lambda a: np.broadcast_to(a[:1], (7, 128)),
    "memoryview": memoryview,
    "buffer": lambda a: np.frombuffer(memoryview(a), np.uint8)[9:],
    "iterator": lambda a: a.flat,
    "base": lambda a: a.T.base,
    "memory": lambda a: a.base,
    "in a container": lambda a: {"k": [a]},
}


@pytest.mark.parametrize("hold", VIEWS.values(), ids=VIEWS.keys())
def test_memory_that_is_held_in_any_way_is_not_handed_out(hold):
    a = empty(SHAPE, np.float32)
    place = a.ctypes.data
    held = hold(a)
    del a
    others = [empty(shape, np.float32) for shape in (SHAPE, SHAPE, SHAPE, (48, 128), (33, 128))]
    assert place not in {other.ctypes.data for other in others}
    del held


def test_array_is_plain_aligned_writable_and_of_the_asked_kind():
    kinds: list[tuple[tuple[int, ...], Any]] = [
        (SHAPE, np.float32),
        (SHAPE, "float64"),
        ((5000,), np.int64),
        ((3, 0, 4), np.float32),
        ((), np.float64),
    ]
    for shape, dtype in kinds:
        a = empty(shape, dtype)
        assert type(a) is np.ndarray
        assert a.shape == shape
        assert a.dtype == np.dtype(dtype)
        assert a.flags.c_contiguous
        assert a.flags.writeable
        if a.nbytes >= buffers.SMALL and buffers._FREE is not None:
            assert a.ctypes.data % buffers.LINE == 0


def test_objects_are_initialised():
    assert empty((3000,), object)[0] is None


def test_negative_length_is_refused():
    with pytest.raises(ValueError, match="negative"):
        empty((-5000, -5000), np.float32)


def _fuzz(seed, rounds=3000):
    """Arrays, views of them and drops in any order; what is held must keep its content."""
    choose = random.Random(seed)
    held: list[Any] = []
    for stamp in range(rounds):
        if choose.random() < 0.55 or not held:
            shape = choose.choice([(4096,), (5000,), SHAPE, (16, 33, 20), (2, 8192), (3, 7)])
            a = empty(shape, choose.choice([np.float32, np.float64, np.int32]))
            a.fill(stamp)
            view = choose.choice([lambda x: x, lambda x: x[1:], lambda x: x.T, lambda x: x.reshape(-1)[::3]])(a)
            held.append((stamp, view))
        else:
            held.pop(choose.randrange(len(held)))
        if len(held) > 60:
            del held[: choose.randrange(1, 60)]
        if stamp % 50 == 0:
            assert all((view == number).all() for number, view in held)
    assert all((view == number).all() for number, view in held)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_held_keeps_its_content(seed):
    _fuzz(seed)


def test_threads_do_not_share_memory():
    failures = []

    def work(seed):
        try:
            _fuzz(seed, 1500)
        except AssertionError as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_arrays_outlive_the_thread_that_made_them():
    made = []
    thread = threading.Thread(target=lambda: made.append(empty(SHAPE, np.float32)))
    thread.start()
    thread.join()
    made[0].fill(7)
    others = [empty(SHAPE, np.float32) for _ in range(8)]
    for other in others:
        other.fill(1)
    assert (made[0] == 7).all()


def test_array_held_by_another_thread_only_is_not_handed_out():
    kept: list[Any] = []
    ready, done = threading.Event(), threading.Event()

    def keep():
        mine = kept.pop()[2:]
        ready.set()
        done.wait(10)
        kept.append(bool((mine == 3).all()))

    kept.append(np.full_like(empty(SHAPE, np.float32), 3))
    thread = threading.Thread(target=keep)
    thread.start()
    ready.wait(10)
    for _ in range(10):
        empty(SHAPE, np.float32).fill(0)
    done.set()
    thread.join()
    assert kept == [True]


@pools
def test_pool_is_bounded_when_every_shape_is_new():
    for length in range(5000, 205_000, 100):  # 2000 sizes, 0.8 GB in all
        a, b = empty((length,), np.float32), empty((length, 2), np.float32)
        del a, b
    assert buffers.held_bytes() <= 2 * buffers.KEEP


@pools
def test_pool_shrinks_after_a_large_use():
    large = [empty((1 << 20,), np.float32) for _ in range(40)]  # 160 MiB
    assert buffers.held_bytes() >= 160 << 20
    del large
    for _ in range(2 * buffers.PERIOD + 2):
        empty((8192,), np.float32)
    assert buffers.held_bytes() < 1 << 20


@pools
def test_many_held_arrays_of_one_size_stay_cheap_to_serve():
    held = [empty((4096,), np.float32) for _ in range(3000)]
    assert len({a.ctypes.data for a in held}) == 3000
    before = buffers.held_bytes()
    for _ in range(3000):
        empty((4096,), np.float32)
    assert buffers.held_bytes() - before <= 16 * 16384


@pools
@pytest.mark.parametrize(("length", "serves"), [(65536, True), (50000, True), (30000, True), (20000, False)])
def test_a_larger_piece_serves_before_a_new_one_is_made(length, serves):
    large = empty((65536,), np.float32)
    before = buffers.held_bytes()
    where = large.ctypes.data
    other = empty((length,), np.float32)
    assert other.ctypes.data != where
    grown = buffers.held_bytes()
    assert grown > before
    del large
    another = empty((length,), np.float32)
    assert (another.ctypes.data == where) is serves
    assert (buffers.held_bytes() == grown) is serves
    another.fill(1)
    other.fill(2)
    assert (another == 1).all()


@pools
def test_clear_gives_free_memory_back_and_leaves_the_rest():
    kept, gone = empty(SHAPE, np.float32), empty((64, 1280), np.float32)
    kept.fill(5)
    del gone
    buffers.clear()
    assert buffers.held_bytes() == 32768
    assert (kept == 5).all()


@pools
def test_an_array_asked_for_by_a_finalizer_is_another_one():
    seen = []

    class Late:
        def __del__(self):
            seen.append(empty(SHAPE, np.float32))

    late = Late()
    a = empty(SHAPE, np.float32)
    a.fill(1)
    del late
    seen[0].fill(2)
    assert (a == 1).all()


def test_owned_tells_the_only_array_on_its_memory():
    a = empty(SHAPE, np.float32)
    assert owned(a)
    assert owned(np.zeros(3))
    for view in (a[:], a.T, a.reshape(-1), np.zeros((3, 4))[1:], np.broadcast_to(np.zeros(1), (3,))):
        assert not owned(view)
    a.flags.writeable = False
    assert not owned(a)


def test_falls_back_to_numpy_where_counts_do_not_tell(monkeypatch):
    monkeypatch.setattr(buffers, "_FREE", None)
    a = empty(SHAPE, np.float32)
    assert a.flags.owndata
    assert owned(a)


def test_a_free_threaded_python_is_not_trusted(monkeypatch):
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert buffers._calibrate() is None


def test_an_interpreter_with_other_counts_is_not_trusted(monkeypatch):
    class Sys:
        getrefcount = staticmethod(lambda thing: 3)

    monkeypatch.setattr(buffers, "sys", Sys)
    assert buffers._calibrate() is None
