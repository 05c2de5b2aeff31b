"""Let a trained model write: python -m tools.generate DIR --prompt TEXT [options]."""

import dataclasses
import itertools
import sys
from collections.abc import Iterator
from typing import Any

from models import MODELS
from tinygrad_edu.arrays.devices import check_device
from tinygrad_edu.data import Tokenizer
from tinygrad_edu.generation import beam_search, write
from tinygrad_edu.generation.text import until
from tinygrad_edu.training import load_checkpoint
from tools.cli import Parser, UserError, elsewhere, ending, run, say, users_mistakes
from tools.limits import check_beams, check_room


@dataclasses.dataclass(frozen=True)
class GenerateOptions:
    """How to draw the text."""

    prompt: str = ""
    """How the text begins. Empty: it starts as a document does, or from a newline, or from the first token."""

    tokens: int = 500
    """How many tokens to append; a model of documents stops where its document ends."""

    temperature: float = 1.0
    """Below 1: safer text, 0: always the likeliest token. Above 1: wilder text."""

    top_k: int = 0
    """Draw only from so many of the likeliest tokens. 0: from all."""

    top_p: float = 1.0
    """Draw only from the likeliest tokens that together have this probability. 1: from all."""

    min_p: float = 0.0
    """Draw only tokens at least so likely, measured by the likeliest. 0: all."""

    repetition_penalty: float = 1.0
    """Above 1: tokens that the text already holds become less likely."""

    beams: int = 0
    """Models of pairs: follow so many answers at once and give the likeliest, in which chance has no part. 0: draw
    one."""

    stop: tuple[str, ...] = ()
    """Texts to stop before, whichever comes first."""

    seed: int = 0
    """Start of the random numbers: with the same seed the same text."""

    device: str = "cpu"
    """Where to compute: cpu, cuda or cuda:1."""


def answer(model: Any, tokenizer: Tokenizer, options: GenerateOptions) -> Iterator[str]:
    """The text that a model of pairs writes to the prompt, in pieces; by beam search all at once."""
    source = tokenizer.encode(options.prompt)
    if not len(source):
        raise UserError("the prompt is empty; give the text to be answered")
    reader = model.answering([source])
    tokens = min(options.tokens, model.config.block_size)
    if options.beams:
        ids = [tokenizer.begin]
        found = beam_search(reader, ids, tokens, options.beams, stop=ending(tokenizer), vocab_size=len(tokenizer))
        return until([tokenizer.decode(found[0].ids)], options.stop)
    return write(reader, tokenizer, "", tokens, **sampling(options))


def sampling(options: GenerateOptions) -> dict[str, Any]:
    """The options of `write` that say how the next token is drawn, and where the text stops."""
    names = ("stop", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")
    return {name: getattr(options, name) for name in names}


def main(arguments: list[str]) -> int:
    """Print the prompt and what the model in the folder makes of it."""
    with users_mistakes():
        parser = Parser("generate", "Let a trained model write.")
        parser.add_argument("folder", metavar="DIR", help="the folder that training wrote")
        parser.add_options(GenerateOptions(), "sampling")
        found = parser.parse(arguments)
        options = GenerateOptions(**vars(found.sampling))
        device = check_device(options.device)
        checkpoint = load_checkpoint(found.folder)
        tokenizer = checkpoint.tokenizer
        model = checkpoint.build(MODELS).to(device)
        if model.task not in ("text", "pairs"):
            raise elsewhere(found.folder, checkpoint.model, model.task)
        if options.beams and model.task != "pairs":
            raise UserError(f"{found.folder} holds the model {checkpoint.model!r}; beams are for models of pairs")
        if model.task == "pairs":
            check_beams(options.beams, min(options.tokens, model.config.block_size), len(tokenizer))
            pieces = answer(model, tokenizer, options)
        else:
            check_room("tokens", options.tokens, "their ids")
            pieces = write(model, tokenizer, options.prompt, options.tokens, **sampling(options))
    first = next(pieces, "")  # what is wrong with the weights shows here
    if model.task == "text":
        say(options.prompt, end="", flush=True)
    for piece in itertools.chain([first], pieces):
        say(piece, end="", flush=True)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(run("generate", main))
