"""How a tokenizer comes about: read from a file, or made for a text by the name of its kind."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tinygrad_edu.data.characters import CharTokenizer
from tinygrad_edu.data.checked import DataError, check_fields, check_plain, file_bytes, parse_json
from tinygrad_edu.data.subwords import SubwordTokenizer, train_bpe, train_wordpiece
from tinygrad_edu.data.tokenizer import FORMAT, ByteTokenizer, Tokenizer

_OWN = {"specials": tuple[str, ...], "sha256": str}  # of every file of ours
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
    content = file_bytes(Path(path), "tokenizer file")
    check_plain(content, path, "tokenizer file")
    return tokenizer_from_json(content, path)


def tokenizer_from_json(content: bytes | str, path: str | os.PathLike[str]) -> Tokenizer:
    """The tokenizer in the text of a tokenizer.json; `path` is what errors call it. Raises as `load_tokenizer` does."""
    name = f"tokenizer file {path}"
    damaged = f"{name} is damaged"
    fields = parse_json(content, name, "is damaged or no tokenizer file")
    if isinstance(fields, dict) and "model" in fields:
        try:
            return SubwordTokenizer(check_fields(fields, {"model": dict}, damaged))
        except DataError as error:
            raise error if name in str(error) else DataError(f"{name}: {error}") from None
    check_fields(fields, {"format": int, "type": str}, damaged)
    if fields["format"] > FORMAT:
        raise DataError(
            f"{name} has format {fields['format']}, newer than {FORMAT}, the newest known here; update tinygrad_edu"
        )
    kinds: dict[str, Any] = {CharTokenizer.kind: {"vocabulary": str}, ByteTokenizer.kind: {}}
    if fields["type"] not in kinds:
        raise DataError(
            f"{name} holds a tokenizer of type {fields['type']!r}; known here are {CharTokenizer.kind!r}, "
            f"{ByteTokenizer.kind!r}, and Hugging Face's tokenizer.json"
        )
    check_fields({"specials": [], **fields}, {**kinds[fields["type"]], **_OWN}, damaged)
    specials = fields.get("specials", ())
    try:
        char = fields["type"] == CharTokenizer.kind
        tokenizer = CharTokenizer(fields["vocabulary"], specials) if char else ByteTokenizer(specials)
    except ValueError as error:
        raise DataError(f"{damaged}: {error}") from None
    if fields["sha256"] != tokenizer.fingerprint:
        raise DataError(f"{name} was changed: its content has another fingerprint than it states")
    return tokenizer
