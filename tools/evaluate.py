"""Measure a trained model: python -m tools.evaluate DIR [--data FILE] [options]."""

import dataclasses
import json
import math
import sys
from typing import Any

import numpy as np

from models import MODELS
from tinygrad_edu.arrays.devices import check_device
from tinygrad_edu.data import DataError, Source, TextSource, Tokenizer
from tinygrad_edu.data.rendered import RenderedSource
from tinygrad_edu.data.sides import Sides, SidesSource
from tinygrad_edu.data.windows import IGNORED
from tinygrad_edu.generation import Model, generate
from tinygrad_edu.generation.measuring import DivergedError
from tinygrad_edu.parallel import Shards
from tinygrad_edu.training import Checkpoint, TrainConfig, accuracy, evaluate, exposure_bias, load_checkpoint
from tinygrad_edu.training.answers import character_error_rate, exact_match
from tinygrad_edu.training.checkpoint import STATE
from tools import corpus
from tools.cli import Parser, UserError, run, say, users_mistakes
from tools.limits import check_room

_POSITIONS = 4096  # in a batch
_ROWS = 100  # answers that are written at once
_ENOUGH = 200_000  # tokens, to choose beginnings and look n-grams up in
_CONTEXT = 32  # tokens before a continuation, and in it, where the exposure bias is measured


@dataclasses.dataclass(frozen=True)
class EvaluateOptions:
    """What to measure on."""

    data: str = ""
    """A file that the run could be trained on, measured as a whole. Without one: the run's own validation part."""

    exposure: int = 32
    """Samples for the exposure bias, each written twice; more of them make it surer. 0: do not measure it."""

    seed: int = 0
    """Start of the random numbers for the exposure bias."""

    json: bool = False
    """Print one JSON object instead of lines."""

    device: str = "cpu"
    """Where to compute: cpu, cuda or cuda:1."""


def main(arguments: list[str]) -> int:
    """Print loss, perplexity, bits per character and the like of the model in a folder."""
    with users_mistakes():
        parser = Parser("evaluate", "Measure a trained model on its validation part, or on another text.")
        parser.add_argument("folder", metavar="DIR", help="the folder that training wrote")
        parser.add_options(EvaluateOptions(), "measuring")
        found = parser.parse(arguments)
        options = EvaluateOptions(**vars(found.measuring))
        if options.exposure < 0:
            raise UserError(f"exposure is {options.exposure}; it must be 0, which leaves it out, or 2 and more")
        if options.seed < 0:
            raise UserError(f"seed is {options.seed}; it must be 0 or more")
        device = check_device(options.device)
        check_room("exposure", options.exposure * 4 * _CONTEXT, "the ids of its samples")
        checkpoint = load_checkpoint(found.folder)
        model = checkpoint.build(MODELS).to(device)
        source, tokenizer = corpus.load(_config(checkpoint, options), checkpoint.tokenizer, model.task)
        if source.largest >= model.config.vocab_size:
            raise DataError(
                f"the data holds token id {source.largest}, the model's vocab_size is {model.config.vocab_size}"
            )
        measured = measure(model, source, tokenizer, options)
    say(json.dumps(_finite(measured), allow_nan=False) if options.json else "\n".join(_lines(measured, model.task)))
    return 0


def _finite(value: Any) -> Any:
    """The value as JSON can say it: None for a number that is not finite."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _config(checkpoint: Checkpoint, options: EvaluateOptions) -> TrainConfig:
    """The options that the run was trained with, or near ones where its folder holds the weights alone."""
    folder = checkpoint.folder
    if (folder / STATE).exists():
        config = TrainConfig(**load_checkpoint(folder, resume=True).training())
    else:
        if not options.data:
            raise UserError(f"{folder} holds weights only and does not say what it was trained on; give --data FILE")
        config = TrainConfig(block_size=checkpoint.config.get("block_size", TrainConfig.block_size))
    return dataclasses.replace(config, data=options.data, val_fraction=0.0) if options.data else config


def measure(model: Model, source: Source, tokenizer: Tokenizer, options: EvaluateOptions) -> dict[str, Any]:
    """What there is to say about a model, by name. Raises ValueError where no label is counted."""
    rows = max(1, _POSITIONS // source.block_size)
    with Shards() as shards:
        found = evaluate(model, source.held_out(rows), shards.n if options.device == "cpu" else 1)
        if not math.isfinite(found.loss):
            raise DivergedError(
                f"the model's loss is {found.loss}: it has diverged, or its weights are damaged; take an earlier "
                f"checkpoint"
            )
        measured: dict[str, Any] = {"tokens": found.tokens, "loss": found.loss, "perplexity": found.perplexity}
        labels = np.concatenate([batch.labels[batch.labels != IGNORED] for batch in source.held_out(rows)])
        if model.task != "masked":
            characters = spelled(labels, tokenizer)
            measured |= {"characters": characters, "bits_per_character": found.bits_per_character(characters)}
        measured["accuracy"] = accuracy(model, source.held_out(rows))
        measured["baseline"] = float(np.bincount(labels).max() / len(labels))
        if isinstance(source, SidesSource | RenderedSource):
            right, answers = answered(model, source, tokenizer)
            measured |= {"answers": len(right), "exact_match": exact_match(right, answers)}
            measured["character_error_rate"] = character_error_rate(right, answers)
        if options.exposure and model.task == "text" and isinstance(source, TextSource):
            ids = source.validation[:_ENOUGH]
            half = min(_CONTEXT, len(ids) // 2)
            bias = exposure_bias(
                model, ids, prefix=half, length=half, order=min(4, half), samples=options.exposure, seed=options.seed,
                vocab_size=len(tokenizer),
            )  # fmt: skip
            measured["exposure_bias"] = {"ratio": bias.ratio, **bias._asdict(), "context": half}
    return measured


def answered(model: Model, source: SidesSource | RenderedSource, tokenizer: Tokenizer) -> tuple[list[str], list[str]]:
    """(the right answers, the model's) to all that is measured on, each token the likeliest after the ones before."""
    right: list[str] = []
    found: list[str] = []
    for batch in source.held_out(_ROWS):
        if isinstance(batch, Sides):
            reader, prompts = model.answering(batch.source, batch.mask), batch.ids[:, :1]
        else:
            reader, prompts = model.reading(batch.images), batch.ids[:, : len(source.first(_ENOUGH))]
        tokens = model.config.block_size - prompts.shape[1]
        end = source.end
        drawn = generate(reader, prompts, tokens, temperature=0, stop=end, pad=end, vocab_size=len(tokenizer))
        for row, labels in zip(drawn[:, prompts.shape[1] :], batch.labels, strict=True):
            right.append(tokenizer.decode(labels[(labels != IGNORED) & (labels != end)]))
            found.append(tokenizer.decode(row[: [*row, end].index(end)]))
    return right, found


def spelled(labels: np.ndarray, tokenizer: Tokenizer) -> int:
    """How many characters the labels spell, control tokens none.

    >>> from tinygrad_edu.data import ByteTokenizer
    >>> spelled(ByteTokenizer().encode("你好"), ByteTokenizer())
    2
    """
    return len(tokenizer.decode(labels[~np.isin(labels, [*tokenizer.specials.values()])]))


def _lines(measured: dict[str, Any], task: str) -> list[str]:
    lines = [
        f"loss                {measured['loss']:.4f} nats per token, over {measured['tokens']:,} tokens",
        f"perplexity          {measured['perplexity']:.3f}",
    ]
    if task != "masked":
        of = f"{measured['characters']:,} characters"
        lines.append(f"bits per character  {measured['bits_per_character']:.4f}, over {of}")
    what = "masked accuracy     " if task == "masked" else "accuracy            "
    lines.append(
        f"{what}{measured['accuracy']:.4f} of the tokens were the likeliest one; naming always the most frequent one "
        f"would be right for {measured['baseline']:.4f}"
    )
    if "exact_match" in measured:
        lines.append(f"exact match         {measured['exact_match']:.4f} of {measured['answers']:,} answers")
        lines.append(f"character errors    {measured['character_error_rate']:.4f} for each character")
    if bias := measured.get("exposure_bias"):
        finite = math.isfinite(bias["ratio"])
        ratio = f"{bias['ratio']:.3f} ± {bias['error']:.3f} (1: none)" if finite else "beyond measure"
        lines.append(
            f"exposure bias       {ratio}: quality {bias['true']:.3f} behind {bias['context']} true tokens, "
            f"{bias['own']:.3f} behind its own"
        )
    return lines


if __name__ == "__main__":
    sys.exit(run("evaluate", main))
