"""Nothing waits for ever and nothing is left behind: interrupts at any instruction, forks, ends of the interpreter."""

import os
import subprocess
import sys
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tests.interrupts import ALL, BATCH, Model, blas
from tinygrad_edu.kernels import crew
from tinygrad_edu.parallel import Shards
from tinygrad_edu.parallel.blas import BlasThreads
from tinygrad_edu.parallel.workers import Workers

ROOT = Path(__file__).parents[1]
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system knows no fork")


def ran(name: str) -> tuple[int, str, str]:
    """Exit code and output of a program of tests.interrupts, which must end."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore::DeprecationWarning"}
    found = subprocess.run(
        [sys.executable, "-B", "-m", "tests.interrupts", name],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return found.returncode, found.stdout.strip(), found.stderr


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="newer Pythons trace instructions in another way")
@pytest.mark.parametrize("name", ["every_instruction_of_a_step", "every_instruction_of_a_block"])
def test_an_exception_at_any_instruction(name: str) -> None:
    code, out, err = ran(name)
    assert code == 0, err
    assert int(out) > 100


@pytest.mark.skipif(sys.platform == "win32", reason="Windows knows no alarms")
@pytest.mark.parametrize(
    ("name", "said"), [("signals_at_any_moment", "ended"), ("second_interrupt_leaves_a_stuck_shard", "ended")]
)
def test_signals_of_a_timer(name: str, said: str) -> None:
    code, out, err = ran(name)
    assert (code, out) == (0, said), err


@forks
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a_fork_in_every_thread", "child"),
        ("a_fork_in_a_worker", "ended"),
        ("a_fork_while_the_pool_is_open", "[0, 0, 0]"),
        ("locks_held_at_a_fork", "0"),
    ],
)
def test_forks(name: str, said: str) -> None:
    assert ran(name) == (0, said, "")


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("leaving_while_threads_work", 5, ""),
        ("leaving_while_a_thread_waits", 0, "[True]"),
        pytest.param(
            "leaving_by_an_exit", 7, "", marks=pytest.mark.skipif(sys.platform == "win32", reason="no alarms")
        ),
    ],
)
def test_the_interpreter_ends_meanwhile(name: str, code: int, said: str) -> None:
    assert ran(name) == (code, said, "")


def endless(*_: Any) -> Any:
    return endless()


class Own(BaseException):
    pass


@pytest.mark.parametrize("where", [0, 1])
@pytest.mark.parametrize(
    "kind", [Own, SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, RecursionError, MemoryError, OSError]
)
def test_exceptions_of_all_kinds(kind: type[BaseException], where: int) -> None:
    class Failing(Model):
        def loss(self, batch: Any) -> tuple[Any, int]:
            if (threading.current_thread() is not threading.main_thread()) == bool(where):
                if kind is RecursionError and sys.version_info < (3, 13):  # 3.13.0 never ends it in a thread
                    endless()
                raise kind
            return super().loss(batch)

    model = Model()
    with Shards(2) as shards:
        for _ in range(2):
            failing = Failing()
            before = failing.gradients()
            with pytest.raises(kind):
                shards.backward(failing, BATCH)
            assert failing.gradients() == before
            shards.backward(model, BATCH)
            assert model.gradients() == ALL
            model.clear()


def test_shards_in_shards() -> None:
    class Nested(Model):
        def __init__(self, pools: list[Shards]) -> None:
            super().__init__()
            self.pools = pools
            self.inner = [Model() for _ in range(8)]
            self.lock = threading.Lock()

        def loss(self, batch: Any) -> tuple[Any, int]:
            for pool in self.pools:
                with self.lock:
                    model = self.inner.pop()
                pool.backward(Nested(self.pools[1:]) if self.pools[1:] else model, BATCH)
            return super().loss(batch)

    with Shards(2) as one, Shards(2) as other:
        for pools in ([one], [other], [one, other], [other, one]):
            model = Nested(pools)
            one.backward(model, BATCH)
            assert model.gradients() == ALL
        with Shards(2) as third:
            third.backward(model, BATCH)


def test_one_pool_for_several_threads() -> None:
    def steps(_: int) -> list[Any]:
        model, found = Model(), []
        for _ in range(5):
            shards.backward(model, BATCH)
            found.append(model.gradients())
            model.clear()
        return found

    with Shards(3) as shards, ThreadPoolExecutor(4) as pool:
        assert list(pool.map(steps, range(8))) == [[ALL] * 5] * 8


def fill(array: np.ndarray, start: int, stop: int) -> None:
    array[start:stop] = 1


def test_blocks_of_interleaved_generators() -> None:
    before = blas()

    def steps(n: int) -> Generator[Any, None, None]:
        with Shards(n) as shards:
            while True:
                model = Model()
                shards.backward(model, BATCH)
                yield model.gradients()

    for order in ((0, 1), (1, 0)):
        both = [steps(2), steps(3)]
        assert [next(g) for g in both] == [ALL, ALL]
        assert len(crew._thread.offers) == 2
        both[order[0]].close()
        done = np.zeros(4 * crew.LEAST, np.int8)
        crew.shared(partial(fill, done), done.size)  # by threads that there are
        assert done.all()
        assert next(both[order[1]]) == ALL
        both[order[1]].close()
        assert [*crew._thread.offers] == []
        assert blas() == before


def test_a_pool_that_is_closed_or_lost() -> None:
    before, count = blas(), threading.active_count()
    workers = Workers(3)
    workers.close()
    assert workers.run(lambda i: i, 3) == [0, 1, 2]
    shards = Shards(3)
    shards.__enter__()
    threads = [worker.thread for worker in shards._workers._workers]  # type: ignore[union-attr]
    del shards
    for thread in threads:
        thread.join(60)
    assert threading.active_count() == count
    assert blas() == before
    limit = BlasThreads()
    limit.limit(1)
    del limit
    assert blas() == before


def test_no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    before, count = blas(), threading.active_count()
    started: list[threading.Thread] = []

    class Thread(threading.Thread):
        def start(self) -> None:
            if len(started) == 2:
                raise RuntimeError("can't start new thread")
            started.append(self)
            super().start()

    monkeypatch.setattr(threading, "Thread", Thread)
    with pytest.raises(RuntimeError, match="4 threads were asked for"), Shards(4):
        pass
    for thread in started:
        thread.join(60)
    assert threading.active_count() == count
    assert blas() == before


def test_an_error_of_a_shard_keeps_nothing_alive() -> None:
    import gc
    import weakref

    class Failing(Model):
        def loss(self, batch: Any) -> tuple[Any, int]:
            raise KeyError

    model = Failing()
    gone = weakref.ref(model)
    gc.disable()
    try:
        with Shards(2) as shards:
            for _ in range(2):
                with pytest.raises(KeyError):
                    shards.backward(model, BATCH)
            del model
            for _ in range(500):
                if gone() is None:
                    break
                threading.Event().wait(0.01)
            assert gone() is None
    finally:
        gc.enable()


def test_gradients_come_all_or_not_at_all() -> None:
    """Also of an ordinary backward pass: what the user's hook raises comes before the first is written."""
    model = Model()
    before = model.gradients()

    def refuse(_: Any) -> None:
        raise Own

    handle = model.old.register_hook(refuse)
    loss, _ = model.loss(BATCH)
    with pytest.raises(Own):
        loss.backward()
    assert model.gradients() == before
    handle.remove()
    held, memory = model.old.grad, model.old.grad.array
    (model.loss(BATCH)[0] / 4).backward()
    assert model.gradients() == ALL
    assert model.old.grad is held
    assert held.array is memory
    assert tg.is_grad_enabled()
