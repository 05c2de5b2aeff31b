"""Train, sample and draw within two minutes, and write a page that shows it: python -m tools.demo [options]."""

import dataclasses
import sys
import time
from pathlib import Path

from threadpoolctl import threadpool_limits

from models import MODELS
from tinygrad_edu.data import Tokenizer
from tinygrad_edu.files import refuse_link, write_atomically
from tinygrad_edu.generation import generate
from tinygrad_edu.graph import LayoutError
from tinygrad_edu.nn import Module
from tinygrad_edu.training import load_checkpoint, read_metrics
from tools import train
from tools.cli import Parser, complain, run, say, users_mistakes
from tools.draw import draw_model
from tools.page import Result, page
from tools.record import METRICS

PROMPT = "The "


@dataclasses.dataclass(frozen=True)
class DemoOptions:
    """What to do and where."""

    out: str = "runs/demo"
    """Folder for everything; what an earlier demo wrote there is replaced."""

    device: str = "cpu"
    """Where to compute: cpu, cuda or cuda:1."""

    steps: int = 600
    """Steps of the GPT's training, and up to a thousand of the bigram's."""

    seed: int = 0
    """Start of all random numbers."""


class Stopped(Exception):
    """Training ended early, with this exit code."""


def main(arguments: list[str]) -> int:
    """Run the demo; the exit code."""
    with users_mistakes():
        parser = Parser("demo", "Train, sample and draw within two minutes, and write a page that shows it.")
        parser.add_options(DemoOptions(), "demo")
        options = DemoOptions(**vars(parser.parse(arguments).demo))
    start, folder = time.perf_counter(), Path(options.out)
    measured = ["--steps", str(options.steps), "--eval-every", str(max(1, options.steps // 5))]
    try:
        results = [
            show("bigram", "bigram", "the last character", options, "--steps", str(min(options.steps, 1000))),
            show("gpt", "GPT", "the last 64 characters", options, "--preset", "nano-modern", *measured),
        ]
    except Stopped as stopped:
        return int(stopped.args[0])
    seconds = time.perf_counter() - start
    with users_mistakes():
        write_atomically(folder / "samples.txt", "\n".join(map(_samples, results)), follow=False)
        write_atomically(folder / "index.html", page(results, seconds, options.device, options.out), follow=False)
    say(f"All of it took {seconds:.0f} s and is in {folder}: samples.txt; the graphs as bigram.svg and gpt.svg, and as")
    say("bigram.html and gpt.html to go through step by step; in bigram/ and gpt/ what training wrote, the losses as")
    say("loss.svg. A page shows it all, open it in a browser:")
    say((folder / "index.html").resolve().as_uri())
    return 0


def show(key: str, title: str, reads: str, options: DemoOptions, *training: str) -> Result:
    """Train the model `key`, let it write before and after, and draw its graph. Raises Stopped where training does."""
    folder = Path(options.out)
    arguments = [key, "--device", options.device, "--seed", str(options.seed), "--out", str(folder / key)]
    arguments += ["--overwrite", *training]
    with users_mistakes():
        for name in (key, f"{key}.svg", f"{key}.html"):
            refuse_link(folder / name)
        plan = train.understand(arguments)
        train.prepare_folder(plan)
        trainer, tokenizer = train.build(plan)
    before = write(trainer.model, tokenizer, options.seed)
    say(f"--- {title} before training ---\n{before}\n", flush=True)
    if code := train.main(arguments):
        raise Stopped(code)
    model = load_checkpoint(folder / key).build(MODELS).to(options.device)
    after = write(model, tokenizer, options.seed)
    say(f"\n--- {title} after training ---\n{after}\n", flush=True)
    try:
        graph = draw_model(key, folder / f"{key}.svg")
        draw_model(key, folder / f"{key}.html")
    except LayoutError as error:
        complain("demo", f"no picture of the {title}: {error}")
        graph = b""
    return Result(
        key=key,
        title=title,
        reads=reads,
        parameters=sum(p.numel() for p in model.parameters()),
        vocab_size=len(tokenizer),
        training=plan.training,
        metrics=read_metrics(folder / key / METRICS),
        prompt=PROMPT,
        before=before,
        after=after,
        graph=graph,
    )


def write(model: Module, tokenizer: Tokenizer, seed: int) -> str:
    """The prompt and 400 characters that the model puts behind it."""
    # products this small are slower on several threads, most of all while something else keeps the cores busy
    with threadpool_limits(1):
        ids = generate(model, tokenizer.encode(PROMPT), 400, temperature=0.8, seed=seed, vocab_size=len(tokenizer))
    return tokenizer.decode(ids)


def _samples(result: Result) -> str:
    return "\n".join(
        f"--- {result.title} {when} training ---\n{text}\n"
        for when, text in (("before", result.before), ("after", result.after))
    )


if __name__ == "__main__":
    sys.exit(run("demo", main))
