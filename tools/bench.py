"""How long one training step of a GPT takes, here and with PyTorch where that is installed."""

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from tools.cli import Parser, UserError, run

LEARNING_RATE, BETAS, WEIGHT_DECAY, CLIP = 1e-3, (0.9, 0.99), 0.1, 1.0
CONTENDERS = {"tinygrad_edu": "tools.bench", "torch": "tools.bench_torch"}


@dataclass(frozen=True)
class BenchConfig:
    """What is measured. A step is forward, backward, clipping and AdamW on one batch, in float32."""

    vocab_size: int = 65  # V, number of different tokens
    block_size: int = 64  # T, positions of a sample
    batch_size: int = 12  # B, samples of a batch
    layers: int = 4  # blocks of the model
    heads: int = 4  # H, attention heads
    width: int = 128  # D, features of a position
    rounds: int = 8  # rounds; in each, every contender makes its steps, and the order alternates
    steps: int = 10  # steps of a round, after one that is not counted
    threads: int = 0  # threads for each contender, 0 for all cores
    torch: bool = True  # compare with PyTorch if it is installed
    json: bool = False  # print one JSON object instead of the table


class Measured(NamedTuple):
    """A contender's figures: seconds of every step, round by round; peak memory in MiB; the last step's mean loss."""

    name: str
    seconds: list[list[float]]
    memory: float
    loss: float


def batches(config: BenchConfig, count: int = 8) -> list[tuple[np.ndarray, np.ndarray]]:
    """`count` random batches (ids, labels), each [B, T] int64, the same for every contender."""
    drawn = np.random.default_rng(1)
    shape = config.batch_size, config.block_size
    return [
        (drawn.integers(0, config.vocab_size, shape), drawn.integers(0, config.vocab_size, shape)) for _ in range(count)
    ]


def cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def model(config: BenchConfig) -> Any:
    """The GPT that is measured, with the weights that every contender starts from."""
    import tinygrad_edu as tg
    from models.gpt import GPT, GPTConfig

    tg.manual_seed(0)
    shape = {name: getattr(config, name) for name in ("vocab_size", "block_size", "layers", "heads", "width")}
    return GPT(GPTConfig(**shape, bias=False, tied=True))


def work(config: BenchConfig, step: Callable[[int], float]) -> None:
    """A contender's process: for every line on stdin one round, answered by a line of JSON."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints shall not be taken for an answer
    at = 0
    for _ in sys.stdin:
        loss, seconds = step(at), []
        for i in range(at + 1, at + 1 + config.steps):
            start = time.perf_counter()
            loss = step(i)
            seconds.append(time.perf_counter() - start)
        at += 1 + config.steps
        print(json.dumps({"seconds": seconds, "memory": _peak_memory(), "loss": loss}), file=answers, flush=True)


def _peak_memory() -> float:
    """The most memory that this process had, in MiB; NaN where the system does not say."""
    try:
        import resource
    except ImportError:
        return float("nan")
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def contend(config: BenchConfig) -> None:
    """This framework as a contender."""
    from tinygrad_edu.nn.utils import clip_grad_norm_
    from tinygrad_edu.optim import AdamW, decay_groups
    from tinygrad_edu.parallel import Shards

    gpt, data = model(config), batches(config)
    parameters = list(gpt.parameters())
    optimizer = AdamW(decay_groups(gpt, WEIGHT_DECAY), lr=LEARNING_RATE, betas=BETAS)
    with Shards(config.threads or None) as shards:

        def step(i: int) -> float:
            total, count = shards.backward(gpt, data[i % len(data)])
            clip_grad_norm_(parameters, CLIP)
            optimizer.step()
            optimizer.zero_grad()
            return total / count

        work(config, step)


def measure(config: BenchConfig) -> list[Measured]:
    """Run all contenders, each in a live process of its own, round by round in turn."""
    names = [name for name in CONTENDERS if name != "torch" or (config.torch and importlib.util.find_spec("torch"))]
    processes = {
        name: subprocess.Popen(
            [sys.executable, "-m", CONTENDERS[name], "--contend", json.dumps(asdict(config))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    }
    answers: dict[str, list[Any]] = {name: [] for name in names}
    try:
        for name in names:
            _round(name, processes[name])  # imports, first allocations
        for i in range(config.rounds):
            for name in names if i % 2 == 0 else names[::-1]:
                answers[name].append(_round(name, processes[name]))
    finally:
        for process in processes.values():
            process.communicate()
    return [
        Measured(name, [a["seconds"] for a in found], found[-1]["memory"], found[-1]["loss"])
        for name, found in answers.items()
    ]


def _round(name: str, process: subprocess.Popen[str]) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        print("round", file=process.stdin, flush=True)
        line = process.stdout.readline()
    except OSError:
        line = ""
    if not line:
        raise UserError(f"{name} ended in the middle of the measurement; its own message stands above")
    return json.loads(line)


def summary(config: BenchConfig, found: list[Measured]) -> dict[str, Any]:
    """The figures as JSON holds them; `speed` is how many times as fast as torch: median over rounds, and range."""
    medians = {m.name: [statistics.median(r) for r in m.seconds] for m in found}
    rows = []
    for m in found:
        every = [s for r in m.seconds for s in r]
        step = statistics.median(every)
        row: dict[str, Any] = {
            "name": m.name,
            "step_ms": step * 1e3,
            "fastest_ms": min(every) * 1e3,
            "tokens_per_second": config.batch_size * config.block_size / step,
            "memory_mib": m.memory,
            "loss": m.loss,
        }
        if "torch" in medians:
            ratios = [theirs / ours for theirs, ours in zip(medians["torch"], medians[m.name], strict=True)]
            row |= {"speed": statistics.median(ratios), "slowest_round": min(ratios), "fastest_round": max(ratios)}
        rows.append(row)
    return {"config": asdict(config), "cores": cores(), "contenders": rows}


def show(figures: dict[str, Any]) -> None:
    """The figures as a table."""
    from rich.console import Console
    from rich.table import Table

    c, rows = figures["config"], figures["contenders"]
    table = Table(
        title=f"One training step: {c['layers']} layers, {c['heads']} heads, width {c['width']}, "
        f"batch {c['batch_size']} x {c['block_size']}, {c['threads'] or figures['cores']} threads"
    )
    table.add_column("")
    for title in ("median ms", "fastest ms", "tokens/s", "peak MiB", "loss"):
        table.add_column(title, justify="right")
    compared = "speed" in rows[0]
    if compared:
        table.add_column("speed, torch = 1", justify="right")
    for r in rows:
        cells = [r["name"], f"{r['step_ms']:.2f}", f"{r['fastest_ms']:.2f}", f"{r['tokens_per_second']:,.0f}"]
        cells += [f"{r['memory_mib']:.0f}", f"{r['loss']:.5f}"]
        if compared:
            cells.append(f"{r['speed']:.2f} ({r['slowest_round']:.2f} to {r['fastest_round']:.2f})")
        table.add_row(*cells)
    console = Console()
    console.print(table, crop=False, overflow="ignore", no_wrap=True)
    if compared:
        console.print("Speeds are paired round by round: the median, and the range over the rounds.", highlight=False)
    elif c["torch"]:
        console.print("PyTorch is not installed here, so there is nothing to compare with.", highlight=False)


def main(arguments: list[str]) -> int:
    """Measure and report, or be one contender where the arguments say so."""
    if arguments[:1] == ["--contend"]:
        contend(BenchConfig(**json.loads(arguments[1])))
        return 0
    parser = Parser("bench", __doc__ or "")
    parser.add_options(BenchConfig(), "bench")
    config = BenchConfig(**vars(parser.parse(arguments).bench))
    if min(config.rounds, config.steps, config.batch_size) < 1 or config.threads < 0:
        raise UserError("rounds, steps and batch-size must be 1 or more, threads 0 or more")
    try:
        model(config)
    except ValueError as error:
        raise UserError(str(error)) from error
    figures = summary(config, measure(config))
    if config.json:
        print(json.dumps(figures))
    else:
        show(figures)
    return 0


if __name__ == "__main__":
    sys.exit(run("bench", main))
