"""The page that shows a demo: numbers, samples, losses and graphs of its runs, in one file that needs no network."""

import base64
import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template

import numpy as np

from tinygrad_edu.training import Metrics, TrainConfig


@dataclass(frozen=True)
class Result:
    """One trained model. key: its name in files and colours. reads: what it sees before it predicts, in words.

    before, after: what it wrote with its first and with its last weights, the prompt in front. graph: SVG of one pass,
    empty where this machine cannot lay one out.
    """

    key: str
    title: str
    reads: str
    parameters: int
    vocab_size: int
    training: TrainConfig
    metrics: Sequence[Metrics]
    prompt: str
    before: str
    after: str
    graph: bytes

    @property
    def val_loss(self) -> float:
        """The last validation loss, in nats a character."""
        return next((m.val_loss for m in reversed(self.metrics) if m.val_loss is not None), math.nan)

    @property
    def seconds(self) -> float:
        """What the run took, measuring included."""
        return self.metrics[-1].seconds

    @property
    def speed(self) -> float:
        """Characters trained on in a second, over the lines of metrics that hold no measurement."""
        pairs = [(a, b) for a, b in zip(self.metrics, self.metrics[1:]) if b.val_loss is None]
        seconds = sum(b.seconds - a.seconds for a, b in pairs)
        return sum(b.tokens - a.tokens for a, b in pairs) / seconds if seconds else math.nan


def page(results: Sequence[Result], seconds: float, device: str, folder: str) -> str:
    """The page as HTML. The last result is the one that it speaks of most; seconds: what the whole demo took."""
    best = results[-1]
    numbers = [
        (f"{best.parameters:,}", f"parameters of the {best.title}"),
        (f"{best.val_loss:.3f}", f"nats a character on unseen text; guessing has {math.log(best.vocab_size):.3f}"),
        (f"{best.speed:,.0f}", "characters a second in training"),
        (f"{seconds:.0f} s", "for everything on this page"),
    ]
    return Template(Path(__file__).with_suffix(".html").read_text(encoding="utf-8")).substitute(
        title=f"A {best.title} trained on this machine in {best.seconds:.0f} seconds",
        numbers="\n".join(
            f'<div class="number"><b>{big}</b><span>{escape(small)}</span></div>' for big, small in numbers
        ),
        samples="\n".join(
            [
                _sample("before", "Before training", f"a {best.title} with random weights", best.before, best.prompt),
                *(_sample(r.key, f"The {r.title}", f"reads {r.reads}", r.after, r.prompt) for r in results),
            ]
        ),
        name=escape(best.title),
        parameters=f"{best.parameters:,}",
        seen=f"{best.metrics[-1].tokens:,}",
        batch_size=f"{best.training.batch_size}",
        block_size=f"{best.training.block_size}",
        chart=chart(results),
        results=_table(results),
        figures="\n".join(map(_figure, results)),
        commands=escape(_commands(best, folder)),
        footer=escape(
            f"Python {platform.python_version()}, NumPy {np.__version__}, device {device}, {platform.machine()}. "
            f"Text: {best.training.data or 'the documentation inside Python'}. Seed {best.training.seed}."
        ),
    )


def _sample(key: str, title: str, what: str, text: str, prompt: str) -> str:
    shown = f"<mark>{escape(prompt)}</mark>{escape(text[len(prompt) :])}"
    return (
        f'<div class="card" style="--tint:var(--{key})"><h3>{escape(title)}</h3><p>{escape(what)}</p>'
        f"<pre>{shown}</pre></div>"
    )


def _table(results: Sequence[Result]) -> str:
    V = results[-1].vocab_size
    head = (
        "<tr><th>model</th><th>what it reads</th><th class=n>parameters</th><th class=n>loss on unseen text</th>"
        "<th class=n>as unsure as among</th><th class=n>characters a second</th><th class=n>time</th></tr>"
    )
    rows = [("before", "guessing", "nothing", "0", math.log(V), "", "")]
    rows += [
        (r.key, r.title, r.reads, f"{r.parameters:,}", r.val_loss, f"{r.speed:,.0f}", f"{r.seconds:.0f} s")
        for r in results
    ]
    return (
        f"<table>{head}"
        + "".join(
            f'<tr><td><span class="dot" style="--tint:var(--{key})"></span>{escape(title)}</td><td>{escape(reads)}</td>'
            f"<td class=n>{parameters}</td><td class=n>{loss:.3f}</td><td class=n>{math.exp(loss):.1f} characters</td>"
            f"<td class=n>{speed}</td><td class=n>{time}</td></tr>"
            for key, title, reads, parameters, loss, speed, time in rows
        )
        + "</table>"
    )


def _figure(result: Result) -> str:
    name = escape(result.title)
    if not result.graph:
        return f"<p><b>{name}</b>: no picture, since no <code>dot</code> was found; {result.key}.dot is its text.</p>"
    data = base64.b64encode(result.graph).decode()
    return (
        f"<figure><figcaption><h3>{name}</h3>"
        f'<a href="{result.key}.html">go through it step by step</a>'
        f'<a class="soft" href="{result.key}.svg">the picture by itself</a>'
        f'<label><input type="checkbox"> full size</label></figcaption>'
        f'<div class="pane"><img alt="Forward and backward graph of a small {name}" '
        f'src="data:image/svg+xml;base64,{data}"></div></figure>'
    )


def _commands(result: Result, folder: str) -> str:
    return "\n".join(
        [
            "source .venv/bin/activate",
            f"python -m tools.generate {folder}/{result.key} --prompt {result.prompt!r}   # more of this",
            f"python -m tools.train {result.key} --data FILE   # learn a text of yours; --help explains all options",
            f"python -m tools.draw {result.key} --out {result.key}.svg   # the graph again",
        ]
    )


def chart(results: Sequence[Result]) -> str:
    """Losses over steps as inline SVG, in the colours of the page: a thin line for training, a thick one for its moving
    average, points for validation."""
    width, height, left, right, top, bottom = 1000, 400, 46, 120, 16, 46
    last = max(m.step for r in results for m in r.metrics)
    every = [loss for r in results for m in r.metrics for loss in (m.train_loss, m.val_loss)]
    losses = [loss for loss in every if loss is not None and math.isfinite(loss)]
    guess = math.log(results[-1].vocab_size)
    low, high = math.floor(min(losses, default=0.0) * 2) / 2, math.ceil(max(guess, *losses) * 2) / 2

    def x(step: float) -> float:
        return round(left + (width - left - right) * step / last, 1)

    def y(loss: float) -> float:
        return round(top + (height - top - bottom) * (high - loss) / (high - low), 1)

    parts = [
        f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="Loss over the steps of training">',
        *(
            f'<line x1="{left}" x2="{width - right}" y1="{y(n / 2)}" y2="{y(n / 2)}" stroke="var(--line)"/>'
            f'<text x="{left - 10}" y="{y(n / 2) + 4}" text-anchor="end">{n / 2:g}</text>'
            for n in range(round(low * 2), round(high * 2) + 1)
        ),
        *(
            f'<text x="{x(last * n / 5)}" y="{height - bottom + 22}" text-anchor="middle">{last * n // 5:,}</text>'
            for n in range(6)
        ),
        f'<text x="{(left + width - right) / 2}" y="{height - 6}" text-anchor="middle">steps</text>',
        f'<path d="M{left} {y(guess)}H{width - right}" stroke="var(--before)" stroke-dasharray="5"/>',
        f'<text x="{width - right + 10}" y="{y(guess) + 4}">guessing</text>',
    ]
    for r in results:
        lines = [
            ([(m.step, m.train_loss) for m in r.metrics if math.isfinite(m.train_loss)], 0.45, 1.2),
            ([(m.step, m.smoothed_loss) for m in r.metrics if m.smoothed_loss is not None], 1.0, 2.4),
        ]
        parts += [
            f'<polyline points="{" ".join(f"{x(step)},{y(loss)}" for step, loss in line)}" fill="none" '
            f'stroke="var(--{r.key})" stroke-opacity="{opacity}" stroke-width="{thickness}"/>'
            for line, opacity, thickness in lines
            if line
        ]
        parts += [
            f'<circle cx="{x(m.step)}" cy="{y(m.val_loss)}" r="5" fill="var(--{r.key})"/>'
            for m in r.metrics
            if m.val_loss is not None
        ]
        end = f'x="{x(r.metrics[-1].step) + 12}" y="{y(r.val_loss) + 4}" style="fill:var(--{r.key});font-weight:600"'
        parts.append(f"<text {end}>{escape(r.title)} {r.val_loss:.3f}</text>")
    return "\n".join([*parts, "</svg>"])
