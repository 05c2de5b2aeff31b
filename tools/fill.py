"""Let a trained BERT fill in what is masked: python -m tools.fill DIR "text with [MASK]"."""

import sys

import numpy as np

from models import MODELS
from tinygrad_edu.engine.modes import no_grad
from tinygrad_edu.generation import probabilities
from tinygrad_edu.generation.measuring import check_logits
from tinygrad_edu.training import load_checkpoint
from tools.cli import Parser, UserError, elsewhere, escaped, run, say, users_mistakes

_MASK = "[MASK]"
_SHOWN = 3  # candidates of each place


def main(arguments: list[str]) -> int:
    """Print the text with its masks filled in, and for each the likeliest tokens with their probabilities."""
    with users_mistakes():
        parser = Parser("fill", "Let a trained BERT fill in what is masked in a text.")
        parser.add_argument("folder", metavar="DIR", help="the folder that training wrote")
        parser.add_argument("text", metavar="TEXT", help=f"a text with one {_MASK} or more")
        found = parser.parse(arguments)
        checkpoint = load_checkpoint(found.folder)
        model = checkpoint.build(MODELS).eval()
        if model.task != "masked":
            raise elsewhere(found.folder, checkpoint.model, model.task)
        tokenizer = checkpoint.tokenizer
        ids = np.array([tokenizer.begin, *tokenizer.encode(found.text, special=True), tokenizer.end])
        places = np.flatnonzero(ids == tokenizer.specials[_MASK])
        if not len(places):
            raise UserError(f"the text has no {_MASK}; write one where a token is to be filled in")
        with no_grad():
            logits = check_logits(model([ids]).numpy()[0, places])  # [masks, V]
    logits[:, list(tokenizer.specials.values())] = -np.inf
    likely = np.argsort(-logits, axis=-1, kind="stable")[:, :_SHOWN]
    ids[places] = likely[:, 0]
    say(tokenizer.decode(ids[1:-1]))
    for number, (row, tokens) in enumerate(zip(logits, likely, strict=True), 1):
        p = probabilities(row)
        listed = ", ".join(f"{tokenizer.decode([token])!r} {p[token]:.1%}" for token in tokens)
        say(f"{number}: {escaped(listed)}")
    return 0


if __name__ == "__main__":
    sys.exit(run("fill", main))
