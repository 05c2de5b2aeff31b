"""Programs in which exceptions, as handlers of signals raise them, come up at any instruction; test_interrupts runs
them in a process of their own: `python -m tests.interrupts NAME`."""

import contextlib
import dis
import faulthandler
import functools
import gc
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Generator
from types import CodeType
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

import tinygrad_edu as tg
from tinygrad_edu.engine.modes import active
from tinygrad_edu.kernels import crew
from tinygrad_edu.parallel import Shards

_WATCHED = (
    "parallel",
    "kernels/crew.py",
    "tinygrad_edu/engine/backward.py",
    "tinygrad_edu/engine/modes.py",
    "contextlib.py",
)


class Interrupt(BaseException):
    """What the handler raises."""


class Model:
    """loss = Σ w·x + b, with leaves that have a gradient already and that have none, with axes and without."""

    def __init__(self) -> None:
        self.w: Any = tg.tensor([1.0, 2.0], requires_grad=True)
        self.b: Any = tg.tensor(3.0, requires_grad=True)
        self.old: Any = tg.tensor([1.0, 2.0], requires_grad=True)
        self.scalar: Any = tg.tensor(1.0, requires_grad=True)
        self.clear()

    def clear(self) -> None:
        self.w.grad = self.b.grad = None
        self.old.grad, self.scalar.grad = tg.ones(2), tg.tensor(1.0)

    def loss(self, batch: Any) -> tuple[Any, int]:
        x = tg.tensor(batch[0])
        return (x @ (self.w * self.old) + self.b * self.scalar).sum() * 1.0, len(batch[0])

    def gradients(self) -> list[Any]:
        return [None if p.grad is None else p.grad.tolist() for p in (self.w, self.b, self.old, self.scalar)]


BATCH = (np.array([[1.0, 1.0], [3.0, 5.0], [2.0, 3.0], [2.0, 3.0]], np.float32),)
NONE = [None, None, [1.0, 1.0], 1.0]
ALL = [[2.0, 6.0], 1.0, [3.0, 7.0], 4.0]


@functools.cache
def looks_for_signals(code: CodeType, before: int | None, at: int) -> bool:
    """Whether the interpreter runs the handlers of signals just before instruction `at`: it does where a function
    begins, a loop goes round and a call, number `before`, has come back; and what they raise is raised there."""
    name = dis.opname[code.co_code[at]]
    if name == "RESUME" or name.startswith("JUMP_BACKWARD"):
        return True
    if before is None or not dis.opname[code.co_code[before]].startswith("CALL"):
        return False

    def handler(offset: int) -> Any:
        found: Any = dis._parse_exception_table(code)  # type: ignore[attr-defined]
        return [entry.target for entry in found if entry.start <= offset < entry.end]

    return handler(before) == handler(at)


@contextlib.contextmanager
def raising(after: int) -> Generator[list[int], None, None]:
    """In the block an Interrupt at this instruction of the watched files, counted in this thread; gives a list of how
    many have passed."""
    passed = [0]
    last: dict[Any, int] = {}  # of each frame, the instruction before

    def called(frame: Any, event: str, arg: Any) -> Any:
        if not any(part in frame.f_code.co_filename for part in _WATCHED):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return step

    def step(frame: Any, event: str, arg: Any) -> Any:
        if event == "opcode":
            before, last[frame] = last.get(frame), frame.f_lasti
            if looks_for_signals(frame.f_code, before, frame.f_lasti):
                passed[0] += 1
                if passed[0] == after:
                    last.clear()
                    raise Interrupt(f"{frame.f_code.co_qualname} line {frame.f_lineno}")
        elif event == "return":
            last.pop(frame, None)
        return step

    sys.settrace(called)
    try:
        yield passed
    finally:
        sys.settrace(None)


def blas() -> list[int]:
    return [library.num_threads for library in ThreadpoolController().select(user_api="blas").lib_controllers]


def check_step(shards: Shards, model: Model, got: Any) -> None:
    """Nothing is left of an interrupted step, and the next one is right."""
    assert model.gradients() in (NONE, ALL), f"{got}: {model.gradients()}"
    assert active().grad
    assert active().generator is None
    assert gc.isenabled(), got
    model.clear()
    assert shards.backward(model, BATCH)[1] == 4, got
    assert model.gradients() == ALL, f"{got}: {model.gradients()}"
    model.clear()


def every_instruction_of_a_step() -> None:
    """An exception at every instruction of Shards.backward and all of the house that it runs in the caller's thread."""
    model = Model()
    with Shards(2) as shards:
        shards.backward(model, BATCH)
        model.clear()
        where = ""
        for at in itertools.count(1):
            try:
                with raising(at) as passed:
                    shards.backward(model, BATCH)
                if passed[0] < at:
                    break
            except Interrupt as error:
                where = str(error)
            check_step(shards, model, f"{at} {where}")
    assert at > 100, at
    print(at)


def every_instruction_of_a_block() -> None:
    """The same of a whole `with` block; what a lost object held on to goes with it."""
    model, before, threads = Model(), blas(), threading.active_count()

    def block(at: int) -> int:
        try:
            with raising(at) as passed, Shards(2) as shards:
                shards.backward(model, BATCH)
        except Interrupt:
            return at
        return passed[0]

    for at in itertools.count(1, 5):
        done = block(at)
        gc.collect()
        for _ in range(500):
            if threading.active_count() == threads:
                break
            time.sleep(0.01)
        assert threading.active_count() == threads, at
        assert blas() == before, at
        assert not crew._thread.offers, at
        assert model.gradients() in (NONE, ALL), at
        assert active().grad
        assert gc.isenabled()
        model.clear()
        if done < at:
            break
    assert at > 100, at
    print(at)


def signals_at_any_moment() -> None:
    """Real signals, one soon after the other, so that also what waits after the first one is interrupted."""

    armed = [False]

    def handler(number: int, frame: Any) -> None:
        if armed[0]:
            raise Interrupt

    model = Model()
    signal.signal(signal.SIGALRM, handler)
    drawn = np.random.default_rng(0)
    with Shards(3) as shards:
        shards.backward(model, BATCH)
        model.clear()
        for _ in range(300):
            first, next_ones = drawn.uniform(1e-5, 2e-3), drawn.uniform(1e-5, 1e-3)
            try:
                armed[0] = True
                signal.setitimer(signal.ITIMER_REAL, first, next_ones)
                while True:
                    shards.backward(model, BATCH)
                    model.clear()
            except Interrupt:
                armed[0] = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            model.clear()
            check_step(shards, model, "signal")
    print("ended")


def second_interrupt_leaves_a_stuck_shard() -> None:
    """A shard that never ends: the second exception comes out, and the pool makes the next step all the same."""
    stop = threading.Event()

    class Stuck(Model):
        def loss(self, batch: Any) -> tuple[Any, int]:
            if threading.current_thread() is not threading.main_thread():
                stop.wait()
            return super().loss(batch)

    def handler(number: int, frame: Any) -> None:
        raise Interrupt

    signal.signal(signal.SIGALRM, handler)
    before, model = blas(), Model()
    with Shards(2) as shards:
        for _ in range(2):
            signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
            try:
                shards.backward(Stuck(), BATCH)
            except Interrupt:
                signal.setitimer(signal.ITIMER_REAL, 0)
            else:
                raise AssertionError("no interrupt")
            check_step(shards, model, "stuck")
            assert shards._workers is not None
            assert shards._workers._workers[0].idle()  # a thread in place of the one that is stuck
    assert blas() == before
    stop.set()
    print("ended")


def a_fork_in_every_thread() -> None:
    """The child of a shard that forks makes the step to its end, in the main thread; in the others it ends there."""
    model, parent = Model(), os.getpid()
    read, write = os.pipe()

    class Forking(Model):
        def loss(self, batch: Any) -> tuple[Any, int]:
            if threading.current_thread() is threading.main_thread() and os.getpid() == parent:
                os.fork()
            return super().loss(batch)

    forking = Forking()
    with Shards(2) as shards:
        shards.backward(model, BATCH)
        shards.backward(forking, BATCH)
        if os.getpid() != parent:
            ok = forking.gradients() == ALL
            model.clear()
            ok = ok and shards.backward(model, BATCH)[1] == 4 and model.gradients() == ALL
            assert shards._workers is not None
            ok = ok and len(shards._workers._workers) == 1 and shards._workers._workers[0].thread.is_alive()
            os.write(write, b"child" if ok else b"wrong")
            sys.stdout.flush()
    if os.getpid() != parent:
        os._exit(0)
    assert forking.gradients() == ALL
    os.wait()
    print(os.read(read, 100).decode())


def a_fork_in_a_worker() -> None:
    parent = os.getpid()

    class Forking(Model):
        def loss(self, batch: Any) -> tuple[Any, int]:
            if threading.current_thread() is not threading.main_thread() and os.getpid() == parent:
                os.fork()
            return super().loss(batch)

    forking = Forking()
    with Shards(2) as shards:
        shards.backward(forking, BATCH)
        assert forking.gradients() == ALL
        os.wait()
        assert os.getpid() == parent
    print("ended")


def a_fork_while_the_pool_is_open() -> None:
    """multiprocessing's children, forked between two steps, share passes and make steps."""
    import multiprocessing

    model = Model()
    with Shards(2) as shards:
        shards.backward(model, BATCH)

        def child() -> None:
            crew.shared(lambda start, stop: None, 4 * crew.LEAST)
            model.clear()
            shards.backward(model, BATCH)
            with Shards(2) as own:
                own.backward(model, BATCH)
            sys.exit(0 if model.gradients()[0] == [4.0, 12.0] else 3)

        children = [multiprocessing.get_context("fork").Process(target=child) for _ in range(3)]
        for process in children:
            process.start()
        for process in children:
            process.join()
        model.clear()
        shards.backward(model, BATCH)
    print([process.exitcode for process in children])


def locks_held_at_a_fork() -> None:
    """Another thread is inside every lock of the house while this one forks."""
    from tinygrad_edu.generation import measuring
    from tinygrad_edu.parallel import blas as limits

    module = sys.modules["tinygrad_edu.generation.measuring"]
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with limits._lock, module._lock:
            inside.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    child = os.fork()
    if not child:
        model = Model()
        with measuring(tg.nn.Linear(2, 2)):
            pass
        with Shards(2) as shards:
            shards.backward(model, BATCH)
        os._exit(0 if model.gradients() == ALL else 3)
    status = os.waitpid(child, 0)[1]
    leave.set()
    thread.join()
    print(status)


def leaving_by_an_exit() -> None:
    """sys.exit in the handler of a signal, while a step runs."""

    def handler(number: int, frame: Any) -> None:
        sys.exit(7)

    signal.signal(signal.SIGALRM, handler)
    model = Model()
    with Shards(2) as shards:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        while True:
            shards.backward(model, BATCH)


def leaving_while_threads_work() -> None:
    """The main thread ends while a daemon thread is in a step, with the block of another never left."""
    model = Model()
    Shards(2).__enter__().backward(model, BATCH)
    lasting = Shards(2)
    lasting.__enter__().backward(model, BATCH)
    began = threading.Event()

    def work() -> None:
        with Shards(3) as shards:
            while True:
                shards.backward(Model(), (np.ones((64, 2), np.float32),))
                began.set()

    threading.Thread(target=work, daemon=True).start()
    began.wait()
    sys.exit(5)


def leaving_while_a_thread_waits() -> None:
    """The main thread ends while an ordinary one is in a step; the interpreter waits for that, then ends."""
    import atexit

    done, began = [], threading.Event()

    def work() -> None:
        with Shards(2) as shards:
            began.set()  # newer Pythons start no more threads once the main one has ended
            for _ in range(30):
                shards.backward(Model(), BATCH)
        done.append(True)

    threading.Thread(target=work).start()
    began.wait()

    @atexit.register
    def at_end() -> None:
        model = Model()
        with contextlib.suppress(RuntimeError), Shards(2) as shards:
            shards.backward(model, BATCH)
        print(done)


if __name__ == "__main__":
    faulthandler.dump_traceback_later(100, exit=True)
    globals()[sys.argv[1]]()
