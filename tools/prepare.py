"""Turn texts of any size into a file of tokens to train on: python -m tools.prepare FILE... --out FILE [options]."""

import dataclasses
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.progress import Progress

from tinygrad_edu.data import (
    DOCUMENTS,
    END_OF_TEXT,
    KINDS,
    documents,
    encode_documents,
    pieces,
    read_lines,
    write_tokens,
)
from tinygrad_edu.files import file_path, is_stream
from tools.cli import Parser, UserError, run, say, users_mistakes
from tools.corpus import choose

_FILES = "files"


@dataclasses.dataclass(frozen=True)
class PrepareOptions:
    """How to read the texts and where to write the tokens."""

    out: str = ""
    """The file to write; one that is there is replaced when the new one is whole."""

    tokenizer: str = "char"
    """char, byte, bpe, wordpiece, or a tokenizer.json: a run's or Hugging Face's."""

    vocab_size: int = 1000
    """Tokens that bpe and wordpiece learn from the texts."""

    documents: str = ""
    """The texts are documents that see nothing of each other: lines, paragraphs (parted by blank lines), jsonl (a JSON
    object a line, the text in its field "text"), or files (each file is one). Without: one stretch of text."""


def main(arguments: list[str]) -> int:
    """Write the token file and say what is in it; the texts are read twice where the tokenizer is made from them."""
    with users_mistakes():
        parser = Parser("prepare", "Turn texts of any size into a file of tokens to train on.")
        parser.add_argument("texts", metavar="FILE", nargs="+", help="a UTF-8 text; several are read one after another")
        parser.add_options(PrepareOptions(), "preparing")
        found = parser.parse(arguments)
        options = PrepareOptions(**vars(found.preparing))
        if not options.out:
            raise UserError("name the file to write: --out FILE")
        file_path(options.out)  # before the texts are read
        if options.documents not in ("", *DOCUMENTS, _FILES):
            known = ", ".join((*DOCUMENTS, _FILES))
            raise UserError(f"documents is {options.documents!r}; it must be one of {known}, or empty")
        for path in found.texts:
            if os.path.realpath(path) == os.path.realpath(options.out):
                raise UserError(f"--out names {path}, a text to read; name another file")
        if _passes(options.tokenizer) > 1 and (pipes := [p for p in found.texts if _once(p)]):
            raise UserError(
                f"{pipes[0]} can be read once only, and a tokenizer {options.tokenizer} is made from the texts before "
                f"they are turned into tokens; save it to a file first, or give --tokenizer byte or a tokenizer.json"
            )
        with _progress(found.texts, options.tokenizer) as read:
            specials = (END_OF_TEXT,) if options.documents else ()
            texts = _texts(found.texts, options.documents, read)
            tokenizer = choose(options.tokenizer, options.vocab_size, texts, specials)
            texts = _texts(found.texts, options.documents, read)
            count = write_tokens(options.out, tokenizer, encode_documents(tokenizer, texts))
        stream = is_stream(options.out)  # which may be where this is printed
    size = "" if stream else f", {Path(options.out).stat().st_size:,} bytes"
    say(f"{options.out}: {count:,} tokens of {len(tokenizer):,} kinds{size}", file=sys.stderr if stream else sys.stdout)
    if not stream:
        say(f"train on it: python -m tools.train gpt --data {options.out}")
    return 0


def _passes(tokenizer: str) -> int:
    return 2 if tokenizer in KINDS and tokenizer != "byte" else 1


def _once(path: str) -> bool:
    return Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir()


@contextmanager
def _progress(paths: list[str], tokenizer: str) -> Iterator[Callable[[str], None]]:
    """What to call with each text that was read; on a terminal, a bar shows how far that is."""
    total = _passes(tokenizer) * sum(Path(path).stat().st_size for path in paths if Path(path).exists())
    with Progress(disable=not sys.stdout.isatty(), transient=True) as bar:
        task = bar.add_task("reading", total=total)
        yield lambda text: bar.advance(task, len(text.encode()))


def _texts(paths: list[str], kind: str, read: Callable[[str], None]) -> Iterator[str]:
    """The documents in the files, or the files in pieces; `read` is told of each."""
    for path in paths:
        lines = read_lines(path)
        if kind == _FILES:
            found = iter(["".join(lines)])
        elif kind:
            found = documents(lines, kind, path)
        else:
            found = pieces(lines)
        for text in found:
            yield text
            read(text)


if __name__ == "__main__":
    sys.exit(run("prepare", main))
