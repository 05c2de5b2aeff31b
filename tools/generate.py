"""Let a trained model write: python -m tools.generate DIR --prompt TEXT [options]."""

import dataclasses
import sys

from models import MODELS
from tinygrad_edu.backend import check_device
from tinygrad_edu.generation import write
from tinygrad_edu.training import load_checkpoint
from tools.cli import Parser, UserError, run, users_mistakes


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

    stop: tuple[str, ...] = ()
    """Texts to stop before, whichever comes first."""

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
        if getattr(type(model), "masked", False):
            raise UserError(
                f"{found.folder} holds a {checkpoint.model}, which fills in masked tokens and writes no text; let "
                f"tools.fill run it"
            )
        pieces = write(
            model,
            tokenizer,
            options.prompt,
            options.tokens,
            stop=options.stop,
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            min_p=options.min_p,
            repetition_penalty=options.repetition_penalty,
            seed=options.seed,
        )
    print(options.prompt, end="", flush=True)
    for piece in pieces:
        print(piece, end="", flush=True)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(run("generate", main))
