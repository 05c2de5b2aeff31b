"""How a tokenizer comes about: read from a file, or made for a text by the name of its kind."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from tinygrad_edu.data.characters import CharTokenizer
from tinygrad_edu.data.subwords import SubwordTokenizer, train_bpe, train_wordpiece
from tinygrad_edu.data.text import DataError
from tinygrad_edu.data.tokenizer import FORMAT, ByteTokenizer, Tokenizer

KINDS = ("char", "byte", "bpe", "wordpiece")


def make_tokenizer(kind: str, texts: Iterable[str], vocab_size: int = 1000, specials: Iterable[str] = ()) -> Tokenizer:
    """A tokenizer of one of KINDS for a text.

    texts: the text in pieces. vocab_size: the wanted number of ids for bpe and wordpiece; the others have as many as
    they need. specials: spellings of its control tokens; those that bound a document become its begin and end.

    Raises ValueError for an unknown kind and what the kind refuses, DataError where its library is missing.

    >>> len(make_tokenizer("char", ["to be", " or not"])), len(make_tokenizer("byte", []))
    (7, 256)
    """
    if kind == "char":
        return CharTokenizer("".join(sorted(set().union(*texts))), specials)
    if kind == "byte":
        return ByteTokenizer(specials)
    if kind == "bpe":
        return train_bpe(texts, vocab_size, specials)
    if kind == "wordpiece":
        return train_wordpiece(texts, vocab_size, specials)
    raise ValueError(f"there is no tokenizer of kind {kind!r}; known are {', '.join(KINDS)}")


def load_tokenizer(path: str | os.PathLike[str]) -> Tokenizer:
    """The tokenizer that `save` wrote, or any tokenizer.json of Hugging Face's.

    Raises DataError, naming the file, where it is missing, damaged, newer than this version, or changed.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"tokenizer file {path} cannot be read ({error.strerror})") from None
    return tokenizer_from_json(content, path)


def tokenizer_from_json(content: bytes | str, path: str | os.PathLike[str]) -> Tokenizer:
    """The tokenizer in the text of a tokenizer.json; `path` is what errors call it. Raises as `load_tokenizer` does."""
    try:
        fields = json.loads(content)
        if isinstance(fields, dict) and isinstance(fields.get("model"), dict):
            return SubwordTokenizer(fields)
        if fields["format"] > FORMAT:
            raise DataError(
                f"tokenizer file {path} has format {fields['format']}, newer than {FORMAT}, the newest known here; "
                f"update tinygrad_edu"
            )
        specials = tuple(map(str, fields.get("specials", ())))
        if fields["type"] == CharTokenizer.kind:
            tokenizer: Tokenizer = CharTokenizer(fields["vocabulary"], specials)
        elif fields["type"] == ByteTokenizer.kind:
            tokenizer = ByteTokenizer(specials)
        else:
            raise DataError(
                f"tokenizer file {path} holds a tokenizer of type {fields['type']!r}; known here are "
                f"{CharTokenizer.kind!r}, {ByteTokenizer.kind!r}, and Hugging Face's tokenizer.json"
            )
    except DataError as error:
        raise error if str(path) in str(error) else DataError(f"tokenizer file {path}: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"tokenizer file {path} is damaged or no tokenizer file ({type(error).__name__})") from None
    if fields.get("sha256") != tokenizer.fingerprint:
        raise DataError(f"tokenizer file {path} was changed: its content has another fingerprint than it states")
    return tokenizer
