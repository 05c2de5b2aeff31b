"""Contenders as live processes that take turns in one run, so that what disturbs the machine disturbs all of them."""

import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

TURN = 1.0  # seconds that a turn is to take where the number of steps is not given
MOST = 20  # steps of such a turn


class Measured(NamedTuple):
    """One contender: the seconds of every step, turn by turn; the loss of every step from the first; the peak memory
    of its process in bytes, None where the system does not say."""

    name: str
    turns: list[list[float]]
    losses: list[float]
    memory: int | None

    @property
    def seconds(self) -> float:
        """The median step."""
        return statistics.median(itertools.chain(*self.turns))


class ContenderError(Exception):
    """A contender's process ended, or the contenders did not compute the same."""


def take_turns(commands: Mapping[str, Sequence[str]], rounds: int, steps: int = 0) -> list[Measured]:
    """Run every contender `rounds` turns, in turn; every other round goes the other way round.

    commands: name to a module of this project, and its arguments; it calls `answer`. steps of a turn: 0 for as many as
    fit `TURN`, at least one and at most `MOST`. Two steps before the first turn are not timed.

    Raises ContenderError where a process ends early; its own message stands on stderr then.
    """
    processes: dict[str, subprocess.Popen[str]] = {}
    answers: dict[str, list[Any]] = {}
    try:
        for name, command in commands.items():
            # in a session of its own, so that Ctrl-C is answered here alone
            processes[name] = subprocess.Popen(
                [sys.executable, "-m", *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            answers[name] = [_turn(name, processes[name], 2)]
        names = list(commands)
        count = {name: steps or _fitting(answers[name][0]["seconds"][-1]) for name in names}
        for i in range(rounds):
            for name in names if i % 2 == 0 else names[::-1]:
                answers[name].append(_turn(name, processes[name], count[name]))
    except BaseException:
        for process in processes.values():
            process.kill()
        raise
    finally:
        for process in processes.values():
            process.communicate()
    return [
        Measured(
            name,
            [a["seconds"] for a in found[1:]],
            list(itertools.chain(*(a["losses"] for a in found))),
            found[-1]["memory"],
        )
        for name, found in answers.items()
    ]


def _turn(name: str, process: subprocess.Popen[str], steps: int) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        print(steps, file=process.stdin, flush=True)
        line = process.stdout.readline()
    except OSError:
        line = ""
    if not line:
        raise ContenderError(f"{name} ended in the middle of the measurement; its own message stands above")
    return json.loads(line)


def _fitting(seconds: float) -> int:
    return max(1, min(MOST, round(TURN / seconds)))


def answer(step: Callable[[int], float]) -> None:
    """A contender's side: for every line on stdin, a number of steps, make them and answer with a line of JSON.

    step(i) makes step i, counted from 0, and returns its loss.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints shall not be taken for an answer
    made = itertools.count()
    for line in sys.stdin:
        seconds, losses = [], []
        for _ in range(int(line)):
            start = time.perf_counter()
            losses.append(step(next(made)))
            seconds.append(time.perf_counter() - start)
        print(json.dumps({"seconds": seconds, "losses": losses, "memory": peak_memory()}), file=answers, flush=True)


def peak_memory() -> int | None:
    """The most memory this process had, in bytes; None where the system does not say."""
    try:
        # what getrusage says of a process on Linux begins with the memory of the one that started it
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << (0 if sys.platform == "darwin" else 10)


def speeds(found: Sequence[Measured], reference: str) -> dict[str, list[float]]:
    """How many times as fast as the reference each contender was, round by round; empty without the reference.

    >>> a, b = Measured("a", [[2.0], [4.0]], [], None), Measured("b", [[1.0], [8.0]], [], None)
    >>> speeds([a, b], "a")
    {'a': [1.0, 1.0], 'b': [2.0, 0.5]}
    """
    medians = {m.name: [statistics.median(turn) for turn in m.turns] for m in found}
    if reference not in medians:
        return {}
    return {name: [r / s for r, s in zip(medians[reference], own, strict=True)] for name, own in medians.items()}


def agreement(found: Sequence[Measured], tolerance: float, steps: int) -> tuple[int, float]:
    """(how many of the first `steps` all contenders made, the largest difference of their losses there, relative).

    Raises ContenderError where it exceeds `tolerance`: then they do not compute the same, and their times say nothing.
    """
    worst = 0.0
    steps = min(steps, *(len(m.losses) for m in found))
    for i in range(steps):
        # NaN counts as the largest
        low, high = (pick(found, key=lambda m: (m.losses[i] != m.losses[i], m.losses[i])) for pick in (min, max))
        apart = (high.losses[i] - low.losses[i]) / max(abs(high.losses[i]), abs(low.losses[i]), sys.float_info.min)
        if not apart <= tolerance:
            raise ContenderError(
                f"{low.name} and {high.name} do not compute the same: the loss of step {i} is {low.losses[i]:.8g} and "
                f"{high.losses[i]:.8g}; times of different computations cannot be compared"
            )
        worst = max(worst, apart)
    return steps, worst
