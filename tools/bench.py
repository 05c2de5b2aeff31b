"""How fast this framework is, measured beside others in one run."""

import importlib.util
import json
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tinygrad_edu.files import write_atomically
from tools.bench_rounds import ContenderError, Measured, agreement, speeds, take_turns
from tools.bench_train import CASES, Shape, flops
from tools.cli import Parser, UserError, run, unknown, users_mistakes
from tools.limits import check_memory, check_threads

REFERENCE = "torch"  # speeds are relative to it

# name -> module, and what it is told behind shape and threads
TRAIN = {
    "ours-numpy": ["tools.bench_train", "kernels"],
    "ours-definitions": ["tools.bench_train", "definitions"],
    "torch": ["tools.bench_torch"],
}
# How far the losses of contenders may lie apart, relatively, and in how many of the first steps: rounding gives 1e-7, a
# missing weight decay 3e-6. Later steps tell less, as training amplifies what rounding began.
TOLERANCE, COMPARED = 2e-6, 12


@dataclass(frozen=True)
class TrainOptions:
    """What is measured: the step of a case, made by every contender."""

    case: str = "all"  # nano-cpu, baby-gpt, both ("all"), or custom: the shape that the shape options give
    contenders: str = ",".join(TRAIN)  # who takes part, separated by commas; torch = PyTorch, if installed
    rounds: int = 10  # rounds; in each, every contender has its turn, and the order alternates
    steps: int = 0  # steps of a turn, 0 for as many as take about a second
    threads: int = 0  # threads for each contender, 0 for all cores
    json: str = ""  # FILE to write the figures to, a list with a row for each case and contender


def train(arguments: list[str]) -> int:
    """Time of a training step: forward, backward, clipping and AdamW on one batch, in float32."""
    parser = Parser("bench train", train.__doc__ or "")
    parser.add_options(TrainOptions(), "measurement")
    parser.add_options(Shape(), "shape")
    parsed = parser.parse(arguments)
    options, shape = TrainOptions(**vars(parsed.measurement)), Shape(**vars(parsed.shape))
    cases, names = _cases(options.case, shape), _contenders(options.contenders)
    if options.rounds < 1 or min(options.steps, options.threads) < 0:
        raise UserError("rounds must be 1 or more, steps and threads 0 or more")
    if options.json and not (folder := Path(options.json).parent).is_dir():
        raise UserError(f"--json {options.json}: there is no folder {folder}")
    if options.json and Path(options.json).is_dir():
        raise UserError(f"--json {options.json} is a folder; name a file in it")
    with users_mistakes():
        check_threads(options.threads)
        for of in cases.values():
            shape_of = {"layers": of.layers, "width": of.width}
            check_memory(shape_of, of.vocab_size, of.batch_size, of.block_size, 1)
    rows = []
    with users_mistakes((ContenderError,)):
        for case, of in cases.items():
            told = [json.dumps(asdict(of)), str(options.threads)]
            commands = {name: [TRAIN[name][0], *told, *TRAIN[name][1:]] for name in names}
            found = take_turns(commands, options.rounds, options.steps)
            show(case, of, options.threads or cores(), found, agreement(found, TOLERANCE, COMPARED))
            rows += figures("train", case, flops(of), found)
    if REFERENCE not in names and REFERENCE in options.contenders:
        print("PyTorch is not installed here, so there is no speed to compare with: pip install 'tinygrad-edu[bench]'.")
    if options.json:
        write_atomically(options.json, json.dumps(rows, indent=1) + "\n")
    return 0


def _cases(wanted: str, shape: Shape) -> dict[str, Shape]:
    known = {"all": CASES, "custom": {"custom": shape}, **{name: {name: of} for name, of in CASES.items()}}
    if wanted not in known:
        raise UserError(unknown("case", wanted, known))
    if wanted != "custom" and shape != Shape():
        raise UserError("the case has a shape of its own; give --case custom for another one")
    if min(asdict(shape).values()) < 1 or shape.width % shape.heads:
        raise UserError("a shape's numbers are 1 or more, and its width is a multiple of its heads")
    return known[wanted]


def _contenders(wanted: str) -> list[str]:
    names = [name.strip() for name in wanted.split(",")]
    for name in names:
        if name not in TRAIN:
            raise UserError(unknown("contender", name, TRAIN))
    if importlib.util.find_spec("torch") is None:
        names = [name for name in names if name != REFERENCE]
    if not names:
        raise UserError("PyTorch is not installed here: pip install 'tinygrad-edu[bench]', or name other contenders")
    return list(dict.fromkeys(names))


def cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def figures(suite: str, case: str, work: int, found: Sequence[Measured]) -> list[dict[str, Any]]:
    """The rows of a case: seconds of the median step; ratio, the speed against PyTorch, the median of what the rounds
    gave each by itself, None without PyTorch; peak_mb in 10⁶ bytes; gflops from `work`, the operations of a step."""
    ratios = speeds(found, REFERENCE)
    return [
        {
            "suite": suite,
            "case": case,
            "contender": m.name,
            "seconds": m.seconds,
            "ratio": statistics.median(ratios[m.name]) if ratios else None,
            "peak_mb": None if m.memory is None else m.memory / 1e6,
            "gflops": work / m.seconds / 1e9,
        }
        for m in found
    ]


def show(case: str, shape: Shape, threads: int, found: Sequence[Measured], agreed: tuple[int, float]) -> None:
    """The figures of a case as a table."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    ratios = speeds(found, REFERENCE)
    console = Console(width=80, highlight=False)
    console.print(
        f"{case}: {shape.layers} layers, {shape.heads} heads, width {shape.width}, batch {shape.batch_size} x "
        f"{shape.block_size}, {threads} threads, {len(found[0].turns)} rounds"
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("", no_wrap=True)
    for title in ("ms a step", "GFLOP/s", "peak MB", *["speed, torch = 1"] * bool(ratios)):
        table.add_column(title, justify="right", no_wrap=True)
    for row, m in zip(figures("", case, flops(shape), found), found, strict=True):
        cells = [m.name, f"{row['seconds'] * 1e3:.2f}", f"{row['gflops']:.1f}"]
        cells.append("" if row["peak_mb"] is None else f"{row['peak_mb']:.0f}")
        if ratios:
            every = ratios[m.name]
            cells.append(f"{row['ratio']:.2f} ({min(every):.2f} to {max(every):.2f})")
        table.add_row(*cells)
    console.print(table)
    if ratios:
        console.print("Speeds are paired round by round: the median, and the range over the rounds.")
    if len(found) > 1:
        steps, apart = agreed
        console.print(f"Their losses in the first {steps} steps are the same within {apart:.0e} of the loss.")
    console.print()


SUITES = {"train": train}


def main(arguments: list[str]) -> int:
    """Run the suite that the first argument names."""
    lines = [f"  {name:8} {suite.__doc__}" for name, suite in SUITES.items()]
    if arguments[:1] in (["--help"], ["-h"]):
        print("usage: python -m tools.bench SUITE [--help]", (__doc__ or "").strip(), "\n".join(lines), sep="\n\n")
        return 0
    if not arguments or arguments[0].startswith("-"):
        raise UserError(f"name what to measure first, one of: {', '.join(SUITES)} (--help says more)")
    if arguments[0] not in SUITES:
        raise UserError(unknown("suite", arguments[0], SUITES))
    return SUITES[arguments[0]](arguments[1:])


if __name__ == "__main__":
    sys.exit(run("bench", main))
