"""Let a trained model write: python -m tools.generate DIR --prompt TEXT [options]."""

import dataclasses
import itertools
import sys

from models import MODELS
from tinygrad_edu.backend import check_device
from tinygrad_edu.generation import stream
from tinygrad_edu.training import load_checkpoint
from tools.cli import Parser, run, users_mistakes


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

    seed: int = 0
    """Start of the random numbers: with the same seed the same text."""

    device: str = "cpu"
    """Where to compute: cpu, cuda or cuda:1."""


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
        prompt = tokenizer.encode(options.prompt).tolist()
        start = [] if tokenizer.begin is None else [tokenizer.begin]
        drawn = stream(
            model,
            [*start, *prompt] or [tokenizer.boundary],
            options.tokens,
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            seed=options.seed,
            vocab_size=len(tokenizer),
            stop=tokenizer.end,
        )
    written = itertools.takewhile(lambda i: i != tokenizer.end, drawn)
    for piece in tokenizer.stream(itertools.chain(prompt, written)):
        print(piece, end="", flush=True)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(run("generate", main))
