"""Tokenizers in Hugging Face's file format, read, run and trained by the `tokenizers` library (extra [text])."""

import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tinygrad_edu.data.checked import DataError, check_fields, parse_json
from tinygrad_edu.data.tokenizer import Tokenizer, check_text, ends_among, id_dtype

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine

UNKNOWN = "[UNK]"
_MOST = 1 << 24  # tokens; the library makes room for all that are wanted at once, and ends the process where it cannot


class SubwordTokenizer(Tokenizer):
    """Any tokenizer.json of Hugging Face's: BPE, WordPiece, Unigram, with whatever it does to a text before.

    content: the file's text or its JSON value. Its limit on the length of a text and its padding are left out. begin
    and end are what its post-processor puts around a text; `encode` itself puts nothing around it.

    Byte-level BPE gives every text back as it was. Others may lose something: WordPiece keeps no spaces or line ends
    and has one id, [UNK], for all words it cannot spell.

    Raises DataError where the library is missing or cannot read the content.
    """

    def __init__(self, content: str | dict[str, Any]) -> None:
        library = _library()
        unreadable = "the tokenizers library cannot read this tokenizer"
        fields = parse_json(content, f"{unreadable}, which") if isinstance(content, str) else content
        model = check_fields(fields, {"model": dict}, unreadable)["model"]
        self._fields = {**fields, "truncation": None, "padding": None}
        text = json.dumps(self._fields)
        with _refusals("read this tokenizer"):
            self._spelled: Engine = library.Tokenizer.from_str(text)
            self._plain: Engine = library.Tokenizer.from_str(text)
            self._plain.encode_special_tokens = True
            self._size = 1 + max(self._plain.get_vocab(with_added_tokens=True).values(), default=-1)
            self.specials = {
                token.content: i for i, token in self._plain.get_added_tokens_decoder().items() if token.special
            }
            unknown = self._plain.token_to_id(model.get("unk_token") or "")
            self.begin, self.end = self._frame()
        self._never = np.array(sorted({*self.specials.values()} - {unknown, model.get("unk_id")}), dtype=np.int64)

    def _frame(self) -> tuple[int | None, int | None]:
        framed = self._plain.encode("a")
        added, ids = framed.special_tokens_mask, framed.ids
        if (largest := max(ids, default=0)) >= self._size:
            raise ValueError(f"its post_processor adds the id {largest}, but it has {self._size} entries")
        before = next((n for n, mark in enumerate(added) if not mark), 0)
        behind = next((n for n, mark in enumerate(reversed(added)) if not mark), 0)
        return (ids[0] if before == 1 else None), (ids[-1] if behind == 1 else None)

    def __len__(self) -> int:
        return self._size

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the file's JSON value, whatever the order of its fields."""
        return hashlib.sha256(json.dumps(self._fields, sort_keys=True).encode()).hexdigest()

    def to_json(self) -> str:
        """The text of tokenizer.json, in Hugging Face's format."""
        return json.dumps(self._fields, ensure_ascii=False, indent=1) + "\n"

    def encode(self, text: str, special: bool = False) -> np.ndarray:
        """As every tokenizer's; raises ValueError also where the vocabulary itself spells a control token in a text."""
        run = self._spelled if special else self._plain
        check_text(text, "encode")
        with _refusals("encode this text"):  # a word without a token, in a vocabulary without one for the unknown
            ids = np.array(run.encode(text, add_special_tokens=False).ids, dtype=np.int64)
        if not special and (forged := np.isin(ids, self._never)).any():
            name = self._plain.id_to_token(int(ids[forged][0]))
            raise ValueError(
                f"encode: the text spells the control token {name!r}, which this tokenizer cannot tell from text; take "
                f"it out of the text, or ask for control tokens with special=True"
            )
        return ids.astype(id_dtype(len(self)))

    def decode(self, ids: Any) -> str:
        return self._plain.decode(self._checked(ids).tolist(), skip_special_tokens=False)

    def stream(self, ids: Iterable[int]) -> Iterator[str]:
        # A token's text may depend on the one before (a space, a character's first bytes): each piece is what it adds
        # to the text of the last piece's tokens. U+FFFD at the end may be a character whose last bytes are to come.
        before: list[int] = []
        known, pending = "", list[int]()
        for i in ids:
            pending.append(int(i))
            text = self.decode(before + pending)
            if text.endswith("\ufffd"):
                yield ""
                continue
            yield text[len(known) :]
            before, pending = pending, []
            known = self.decode(before)
        if pending:
            yield self.decode(before + pending)[len(known) :]

    def bounded(self, ends: bool) -> "SubwordTokenizer":
        if not ends:
            return (
                self if self.begin is self.end is None else SubwordTokenizer({**self._fields, "post_processor": None})
            )
        if self.begin is not None and self.end is not None:
            return self
        begin, end = ends_among(self.specials)
        if begin is None or end is None:
            raise ValueError(
                f"this tokenizer has no token for the end of a document among its control tokens "
                f"({', '.join(self.specials) or 'none'}); take another tokenizer, or train on one stretch of text"
            )
        return SubwordTokenizer({**self._fields, "post_processor": _template(self.specials, begin, end)})


def train_bpe(texts: Iterable[str], vocab_size: int, specials: Iterable[str] = ()) -> SubwordTokenizer:
    """A byte-level BPE: from the 256 bytes on, the most frequent pair of neighbours becomes a token, again and again.

    texts: what to learn from, in pieces; no token reaches over the edge of a piece. vocab_size: how many tokens,
    bytes and `specials` (control tokens, the last ids) among them, at least these; there are fewer where no pair is
    left that occurs twice, and `len` of the result is their real number.

    Raises ValueError for a vocab_size that does not hold the bytes and specials, or above 2²⁴, DataError without the
    library.
    Source: Sennrich et al., "Neural machine translation of rare words with subword units", 2016; the bytes and the
    parting into words are GPT-2's.
    """
    library = _library()
    names = tuple(specials)
    _check_size(vocab_size)
    least = 256 + len(names)
    if vocab_size < least:
        raise ValueError(
            f"vocab_size is {vocab_size}, but the 256 bytes and {len(names)} control tokens alone are {least}; "
            f"give {least} or more"
        )
    made = library.Tokenizer(library.models.BPE())
    made.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=vocab_size - len(names),
        min_frequency=2,
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    return _trained(made, trainer, texts, names)


def train_wordpiece(texts: Iterable[str], vocab_size: int, specials: Iterable[str] = ()) -> SubwordTokenizer:
    """A WordPiece tokenizer as BERT has it: words are spelled by the longest pieces, those inside a word begin with ##.

    Case and accents stay; each Chinese character is a word. vocab_size counts all: [UNK], each character of the texts
    in both forms, pieces, and `specials`; where the characters alone are more, they are all there nevertheless.

    Raises ValueError for a vocab_size above 2²⁴, DataError without the library.
    Source: Devlin et al., "BERT: pre-training of deep bidirectional transformers", 2019.
    """
    library = _library()
    names = tuple(specials)
    _check_size(vocab_size)
    made = library.Tokenizer(library.models.WordPiece(unk_token=UNKNOWN))
    made.normalizer = library.normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=False
    )
    made.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    made.decoder = library.decoders.WordPiece(cleanup=False)
    words: Counter[str] = Counter()
    for text in texts:
        clean = made.normalizer.normalize_str(check_text(text, "training a tokenizer"))
        words.update(word for word, _ in made.pre_tokenizer.pre_tokenize_str(clean))
    # The library numbers the characters inside words as it meets them, in an order that differs from run to run, and
    # decides between equally frequent pairs by number. Given as control tokens they have fixed numbers.
    characters = sorted(set().union(*words))
    inner = ["##" + character for character in characters]
    trainer = library.trainers.WordPieceTrainer(
        vocab_size=max(vocab_size - len(names), 1),
        min_frequency=2,
        special_tokens=[UNKNOWN, *inner],
        initial_alphabet=characters,
        show_progress=False,
    )
    repeated = (" ".join([word] * count) for word, count in sorted(words.items()))
    return _trained(made, trainer, repeated, names, within=inner)


def _trained(
    made: "Engine", trainer: Any, texts: Iterable[str], specials: tuple[str, ...], within: Iterable[str] = ()
) -> SubwordTokenizer:
    """The trained tokenizer; those `within` are control tokens no longer."""
    made.train_from_iterator((check_text(text, "training a tokenizer") for text in texts), trainer)
    made.add_special_tokens(list(specials))
    fields = json.loads(made.to_str())
    ordinary = set(within) - set(specials)
    fields["added_tokens"] = [token for token in fields["added_tokens"] if token["content"] not in ordinary]
    numbers = {token["content"]: int(token["id"]) for token in fields["added_tokens"]}
    begin, end = ends_among(numbers)
    if begin is not None and end is not None:
        fields["post_processor"] = _template(numbers, begin, end)
    return SubwordTokenizer(fields)


def _template(specials: dict[str, int], begin: int, end: int) -> dict[str, Any]:
    """A post-processor that puts begin before and end behind a text."""
    names = {i: name for name, i in specials.items()}
    first, last = ({"SpecialToken": {"id": names[i], "type_id": 0}} for i in (begin, end))
    second = {"SpecialToken": {"id": names[end], "type_id": 1}}
    text, other = ({"Sequence": {"id": name, "type_id": i}} for i, name in enumerate("AB"))
    return {
        "type": "TemplateProcessing",
        "single": [first, text, last],
        "pair": [first, text, last, other, second],
        "special_tokens": {names[i]: {"id": names[i], "ids": [i], "tokens": [names[i]]} for i in (begin, end)},
    }


def _check_size(vocab_size: int) -> None:
    if vocab_size > _MOST:
        raise ValueError(f"vocab_size is {vocab_size}; it must be at most {_MOST}")


@contextlib.contextmanager
def _refusals(doing: str) -> Iterator[None]:
    """What the library refuses within the block, as a DataError."""
    try:
        yield
    except Exception as error:  # the library raises nothing more exact
        raise DataError(f"the tokenizers library cannot {doing}: {error}") from None


def _library() -> Any:
    try:
        import tokenizers
        from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers  # noqa: F401 - loads them
    except ImportError:
        raise DataError(
            "this tokenizer needs the tokenizers library, which is not installed: pip install 'tinygrad-edu[text]'"
        ) from None
    return tokenizers
