"""Modes end where their blocks end: in interleaved generators, asyncio tasks, threads and pools, in whatever order."""

import asyncio
import contextlib
import gc
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import tinygrad_edu as tg
from tinygrad_edu import autograd
from tinygrad_edu.engine.modes import Listener, active, setting
from tinygrad_edu.generation import measuring
from tinygrad_edu.graph.words import speaking, spoken
from tinygrad_edu.watching import detect_anomaly, watch

# every block that changes what code computes under, and what it is seen by
BLOCKS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "no_grad": (tg.no_grad, lambda: active().grad),
    "enable_grad": (tg.enable_grad, lambda: active().grad),
    "inference_mode": (tg.inference_mode, lambda: active().grad),
    "set_grad_enabled": (lambda: tg.set_grad_enabled(False), lambda: active().grad),
    "definitions": (tg.definitions, lambda: active().definitions),
    "detect_anomaly": (detect_anomaly, lambda: type(active().trace)),
    "watch": (lambda: watch(print), lambda: type(active().trace)),
    "trace": (lambda: setting(trace=Listener()), lambda: type(active().trace)),
    "generator": (lambda: setting(generator=tg.Generator(3)), lambda: getattr(active().generator, "seed", None)),
    "first_sample": (lambda: setting(first_sample=7), lambda: active().first_sample),
}
each_block = pytest.mark.parametrize(("block", "see"), BLOCKS.values(), ids=BLOCKS)


def base(block: Callable[[], Any]) -> Any:
    """Outside: recording off for `enable_grad`, so that it changes something."""
    return tg.no_grad() if block is tg.enable_grad else contextlib.nullcontext()


def within(block: Callable[[], Any], see: Callable[[], Any]) -> Any:
    with block():
        return see()


@pytest.fixture(autouse=True)
def nothing_is_left() -> Generator[None, None, None]:
    yield
    mode = active()
    assert (mode.grad, mode.definitions, mode.trace, mode.generator, mode.first_sample) == (True, False, None, None, 0)
    assert not mode.guarded


class TestGenerators:
    @each_block
    def test_a_block_counts_only_while_its_generator_runs(
        self, block: Callable[[], Any], see: Callable[[], Any]
    ) -> None:
        def steps() -> Generator[Any, None, None]:
            with block():
                yield see()
                yield see()

        with base(block):
            outside, inside = see(), within(block, see)
            assert outside != inside
            one, other = steps(), steps()
            assert next(one) == inside
            assert see() == outside
            assert next(other) == inside
            assert see() == outside
            assert next(one) == inside
            assert list(one) == []
            assert see() == outside
            assert next(other) == inside
            assert list(other) == []
            assert see() == outside

    @each_block
    @pytest.mark.parametrize("end", ["close", "throw", "drop", "collect"])
    def test_ended_out_of_order(self, block: Callable[[], Any], see: Callable[[], Any], end: str) -> None:
        def steps() -> Generator[Any, None, None]:
            me: list[Any] = []
            me.append(me)  # only the collector ends a generator whose frame is in a cycle
            with block():
                while True:
                    yield see()

        with base(block):
            outside, inside = see(), within(block, see)
            made: list[Any] = [steps() for _ in range(3)]
            assert [next(g) for g in made] == [inside] * 3
            for _ in range(3):
                first = made.pop(0)
                if end == "close":
                    first.close()
                elif end == "throw":
                    with pytest.raises(KeyError):
                        first.throw(KeyError())
                elif end == "collect":
                    loop = [first]
                    loop.append(loop)
                    del loop
                    first = None
                    gc.collect()
                first = None
                assert see() == outside
                assert [next(g) for g in made] == [inside] * len(made)

    @each_block
    def test_decorated(self, block: Callable[[], Any], see: Callable[[], Any]) -> None:
        @block()
        def steps() -> Generator[Any, None, None]:
            yield see()
            yield see()

        class Called:
            def __call__(self) -> Generator[Any, None, None]:
                yield see()
                yield see()

        with base(block):
            outside, inside = see(), within(block, see)
            for function in (steps, block()(Called())):
                one, other = function(), function()
                assert [next(one), see(), next(other), see()] == [inside, outside] * 2
                one.close()
                assert [next(other), see()] == [inside, outside]
                other.close()
                assert see() == outside

    def test_one_guard_for_several_generators(self) -> None:
        guard = tg.no_grad()

        def steps() -> Generator[bool, None, None]:
            with guard:
                yield tg.is_grad_enabled()
                yield tg.is_grad_enabled()

        one, other = steps(), steps()
        assert [next(one), next(other)] == [False, False]
        assert list(one) == [False]
        assert tg.is_grad_enabled()
        assert list(other) == [False]

    def test_a_context_made_of_a_generator_holds_for_its_block(self) -> None:
        @contextlib.contextmanager
        def inner() -> Generator[None, None, None]:
            with tg.no_grad():
                yield

        @contextlib.contextmanager
        def quiet() -> Generator[None, None, None]:
            with inner(), tg.definitions():
                yield

        class Own:
            def __enter__(self) -> None:
                self.stack = contextlib.ExitStack()
                self.stack.enter_context(quiet())

            def __exit__(self, *_: object) -> None:
                self.stack.close()

        def steps(make: Any) -> Generator[bool, None, None]:
            with make():
                yield active().grad

        for make in (quiet, Own):
            with make():
                assert (active().grad, active().definitions) == (False, True)
            quiet()(lambda: pytest.fail("recording") if active().grad else None)()
            one, other = steps(make), steps(make)
            assert [next(one), active().grad, next(other), active().grad] == [False, True, False, True]
            assert [*one, active().grad, *other] == [True]

    def test_generators_in_generators(self) -> None:
        def inner() -> Generator[tuple[bool, Any], None, None]:
            with tg.enable_grad():
                yield active().grad, active().definitions

        def outer(delegate: bool) -> Generator[tuple[bool, Any], None, None]:
            with tg.no_grad(), tg.definitions():
                if delegate:
                    yield from inner()
                else:
                    for found in inner():
                        assert not active().grad
                        yield found

        for delegate in (True, False):
            steps = outer(delegate)
            assert next(steps) == (True, True)
            assert (active().grad, active().definitions) == (True, False)
            assert list(steps) == []

    def test_blocks_of_the_caller_end_while_generators_wait(self) -> None:
        def steps() -> Generator[Any, None, None]:
            with tg.definitions():
                yield active().grad, active().definitions
                yield active().grad, active().definitions

        with tg.no_grad():
            g = steps()
            assert next(g) == (False, True)
            tg.set_grad_enabled(True)
            assert (active().grad, active().definitions) == (True, False)
        assert next(g) == (True, True)
        tg.set_grad_enabled(False)
        assert list(g) == []
        assert not active().grad
        tg.set_grad_enabled(True)

    def test_gradients_flow_while_a_generator_waits(self) -> None:
        x = tg.ones(2, requires_grad=True)

        def steps() -> Generator[bool, None, None]:
            with tg.no_grad():
                yield (x * 2).requires_grad
                yield (x * 2).requires_grad

        one, other = steps(), steps()
        assert not next(one)
        assert not next(other)
        (x * 3).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [3.0, 3.0]
        assert not next(one)


class TestOrder:
    @each_block
    def test_blocks_left_in_any_order(self, block: Callable[[], Any], see: Callable[[], Any]) -> None:
        with base(block):
            outside, inside = see(), within(block, see)
            for order in ((0, 1, 2), (1, 0, 2), (2, 0, 1), (1, 2, 0), (0, 2, 1)):
                blocks = [setting(), block(), setting()]
                for b in blocks:
                    b.__enter__()
                for at in order:
                    held = order.index(1) >= order.index(at)
                    assert see() == (inside if held else outside)
                    blocks[at].__exit__(None, None, None)
                assert see() == outside

    def test_the_inner_block_stays_when_the_outer_one_ends(self) -> None:
        outer, inner = tg.no_grad(), tg.definitions()
        outer.__enter__()
        inner.__enter__()
        outer.__exit__(None, None, None)
        assert (active().grad, active().definitions) == (True, True)
        inner.__exit__(None, None, None)

    def test_a_block_that_is_not_left_stays(self) -> None:
        guard = tg.no_grad()
        guard.__enter__()
        gc.collect()
        assert not tg.is_grad_enabled()
        guard.__exit__(None, None, None)


class TestSetGradEnabled:
    def test_inside_a_block_it_ends_with_the_block(self) -> None:
        with tg.no_grad():
            tg.set_grad_enabled(True)
            assert tg.is_grad_enabled()
        assert tg.is_grad_enabled()
        with tg.definitions():
            tg.set_grad_enabled(False)
        assert tg.is_grad_enabled()

    def test_as_a_block_and_a_decorator(self) -> None:
        with tg.set_grad_enabled(False):
            assert not tg.is_grad_enabled()
        assert tg.is_grad_enabled()

        @tg.set_grad_enabled(False)
        def off() -> bool:
            return tg.is_grad_enabled()

        assert tg.is_grad_enabled()
        assert not off()
        assert tg.is_grad_enabled()

    def test_made_before_another_block(self) -> None:
        guard = tg.set_grad_enabled(False)
        with tg.definitions(), guard:
            assert not tg.is_grad_enabled()
        assert tg.is_grad_enabled()


class TestTasks:
    @each_block
    def test_each_task_has_its_own(self, block: Callable[[], Any], see: Callable[[], Any]) -> None:
        async def under(turns: int) -> list[Any]:
            found = []
            with block():
                for _ in range(turns):
                    found.append(see())
                    await asyncio.sleep(0)
            return [*found, see()]

        async def plain() -> list[Any]:
            found = []
            for _ in range(4):
                found.append(see())
                await asyncio.sleep(0)
            return found

        async def main() -> Any:
            return await asyncio.gather(under(1), plain(), under(4), under(2), plain())

        with base(block):
            outside, inside = see(), within(block, see)
            found = asyncio.run(main())
            assert see() == outside
        assert found[0] == [inside, outside]
        assert found[2] == [inside] * 4 + [outside]
        assert found[3] == [inside] * 2 + [outside]
        assert found[1] == found[4] == [outside] * 4

    def test_a_task_begins_with_the_mode_it_was_made_in(self) -> None:
        async def see() -> bool:
            await asyncio.sleep(0)
            return tg.is_grad_enabled()

        async def main() -> tuple[bool, bool]:
            with tg.no_grad():
                early = asyncio.create_task(see())
            return await early, await see()

        assert asyncio.run(main()) == (False, True)

    def test_set_grad_enabled_stays_in_its_task(self) -> None:
        async def off() -> bool:
            tg.set_grad_enabled(False)
            await asyncio.sleep(0)
            return tg.is_grad_enabled()

        async def on() -> bool:
            await asyncio.sleep(0)
            return tg.is_grad_enabled()

        async def main() -> Any:
            return await asyncio.gather(off(), on(), off())

        assert list(asyncio.run(main())) == [False, True, False]

    def test_async_generators_and_contexts(self) -> None:
        async def steps() -> Any:
            with tg.no_grad():
                yield tg.is_grad_enabled()
                await asyncio.sleep(0)
                yield tg.is_grad_enabled()

        @contextlib.asynccontextmanager
        async def quiet() -> Any:
            with tg.no_grad():
                yield

        class Own:
            async def __aenter__(self) -> None:
                self.guard = tg.no_grad()
                self.guard.__enter__()

            async def __aexit__(self, *error: Any) -> None:
                self.guard.__exit__(*error)

        async def main() -> None:
            one, other = steps(), steps()
            assert [await anext(one), tg.is_grad_enabled()] == [False, True]
            assert [await anext(other), tg.is_grad_enabled()] == [False, True]
            await one.aclose()
            assert [await anext(other), tg.is_grad_enabled()] == [False, True]
            await other.aclose()
            for make in (quiet, Own):
                async with make():
                    await asyncio.sleep(0)
                    assert not tg.is_grad_enabled()
                assert tg.is_grad_enabled()

        asyncio.run(main())

    def test_a_cancelled_task_and_one_that_is_thrown_away(self) -> None:
        async def wait() -> None:
            with tg.no_grad(), detect_anomaly():
                await asyncio.sleep(1000)

        async def main() -> None:
            task = asyncio.create_task(wait())
            await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            assert tg.is_grad_enabled()
            thrown = wait()
            thrown.send(None)  # runs in this task
            thrown.close()
            assert tg.is_grad_enabled()

        asyncio.run(main())


class TestThreads:
    @each_block
    def test_pools(self, block: Callable[[], Any], see: Callable[[], Any]) -> None:
        meet = threading.Barrier(3)

        def under(ask: bool) -> list[Any]:
            with base(block):
                before = see()
                with block() if ask else contextlib.nullcontext():
                    meet.wait(60)
                    found = see()
                    meet.wait(60)
                return [before, found, see()]

        with base(block):
            outside, inside = see(), within(block, see)
        with ThreadPoolExecutor(3) as pool:
            for _ in range(2):
                assert list(pool.map(under, [True, False, True])) == [
                    [outside, inside, outside],
                    [outside, outside, outside],
                    [outside, inside, outside],
                ]

    def test_left_in_another_thread_is_refused(self) -> None:
        guard = tg.no_grad()
        guard.__enter__()
        with ThreadPoolExecutor(1) as pool, pytest.raises(RuntimeError, match=r"sets grad .* another thread"):
            pool.submit(guard.__exit__, None, None, None).result()
        guard.__exit__(None, None, None)

    def test_a_generator_that_ends_in_another_thread(self) -> None:
        def steps() -> Generator[bool, None, None]:
            with tg.no_grad():
                yield tg.is_grad_enabled()

        one, other = steps(), steps()
        assert [next(one), next(other)] == [False, False]
        with ThreadPoolExecutor(1) as pool:
            pool.submit(one.close).result()
            with pytest.raises(RuntimeError, match="another thread"):
                pool.submit(list, other).result()
        assert tg.is_grad_enabled()
        with tg.no_grad():
            pass
        assert tg.is_grad_enabled()
        with tg.set_grad_enabled(True):  # what is left of them counts for nobody, and goes with the context
            pass


class TestAnomaly:
    def test_one_search_over_a_generators_life(self) -> None:
        x = tg.ones(2, requires_grad=True)
        shared = x.array[:]

        @detect_anomaly()
        def steps() -> Generator[Any, None, None]:
            y = x * x
            yield y
            y.sum().backward()
            yield None

        assert len(list(steps())) == 2
        g = steps()
        next(g)
        shared[0] = 5
        with pytest.raises(RuntimeError, match=r"mul: .* past the tape"):
            next(g)

    def test_as_a_decorator(self) -> None:
        @autograd.detect_anomaly()
        def run() -> Any:
            return type(active().trace).__name__

        assert run() == run() == "_Anomaly"


def test_evaluation_mode_of_a_model_that_several_measure() -> None:
    model = tg.nn.Sequential(tg.nn.Dropout(0.5), tg.nn.Dropout(0.5))
    model[1].eval()

    def steps() -> Generator[list[bool], None, None]:
        with measuring(model):
            yield [m.training for m in model]
            yield [m.training for m in model]

    for order in ((0, 1), (1, 0)):
        both = [steps(), steps()]
        assert [next(g) for g in both] == [[False, False]] * 2
        for at in order:
            assert next(both[at]) == [False, False]
            both[at].close()
        assert [m.training for m in model] == [True, False]
        assert model.training


def test_the_language_of_interleaved_pictures() -> None:
    def steps(language: str) -> Generator[str, None, None]:
        with speaking(language):
            yield spoken()
            yield spoken()

    one, other = steps("zh"), steps("en")
    assert [next(one), next(other)] == ["zh", "en"]
    one.close()
    other.close()
    assert spoken() == "en"
