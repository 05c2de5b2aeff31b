"""From a run's options to what it trains on: the text, its tokenizer, and the source of batches."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from tinygrad_edu.data import (
    END_OF_TEXT,
    KINDS,
    MASKING,
    DataError,
    MaskedSource,
    PairSource,
    Source,
    TextSource,
    Tokenizer,
    documents,
    embedded_corpus,
    enclose_lines,
    encode_documents,
    encode_pair,
    is_token_file,
    lines_of,
    load_tokenizer,
    make_tokenizer,
    pairs,
    pieces,
    read_lines,
    read_text,
    read_tokens,
)
from tinygrad_edu.data.rendered import PROMPT, RenderedSource, lines
from tinygrad_edu.data.sides import SidesSource
from tinygrad_edu.data.text import training_part
from tinygrad_edu.data.written import written
from tinygrad_edu.training import PAIRS, TrainConfig
from tools.cli import unknown

PAIRS_MADE, LINES_MADE, MEASURED = 60_000, 20_000, 1000  # where there is no data, to train and to measure on


def load(config: TrainConfig, tokenizer: Tokenizer | None = None, task: str = "text") -> tuple[Source, Tokenizer]:
    """What the options say to train on, and the tokenizer: the given one, or the one that the options ask for.

    task: of the model, see `LanguageModel`.
    Raises ValueError for what the options ask wrongly, a text that cannot be used among it.
    """
    if task != "text":
        return {"masked": _masked, "pairs": _sides, "images": _rendered}[task](config, tokenizer)
    if config.data and is_token_file(config.data):
        return _prepared(config, tokenizer)
    if config.documents == PAIRS:
        return _pairs(config, tokenizer)
    texts = _texts(config)
    made = tokenizer or choose(config.tokenizer, config.vocab_size, texts, (END_OF_TEXT,) if config.documents else ())
    ids = np.concatenate(list(encode_documents(made, texts)))
    return TextSource(ids, config.block_size, config.val_fraction, made.begin, made.end), made


def _texts(config: TrainConfig) -> list[str]:
    if not config.documents:
        text = read_text(config.data) if config.data else embedded_corpus()
        return list(pieces(lines_of(enclose_lines(text) if config.lines else text)))  # as tools.prepare parts it
    texts = list(documents(_lines(config), config.documents, config.data))
    if not texts:
        raise DataError(f"data file {config.data} holds no document of kind {config.documents}")
    return texts


def _lines(config: TrainConfig) -> Iterator[str]:
    return read_lines(config.data) if config.data else lines_of(embedded_corpus())


def _pairs(config: TrainConfig, tokenizer: Tokenizer | None) -> tuple[Source, Tokenizer]:
    asked = list(pairs(_lines(config), config.data))
    if not asked:
        raise DataError(f"data file {config.data} holds no pair of prompt and answer")
    texts = (text for pair in asked for text in pair)
    made = tokenizer or choose(config.tokenizer, config.vocab_size, texts, (END_OF_TEXT,))
    examples = [encode_pair(made, prompt, answer, config.answer_only) for prompt, answer in asked]
    return PairSource(examples, config.block_size, config.val_fraction), made


def _masked(config: TrainConfig, tokenizer: Tokenizer | None) -> tuple[Source, Tokenizer]:
    if config.documents == PAIRS or (config.data and is_token_file(config.data)):
        raise DataError("a masked language model reads texts; give it a text file, not pairs or prepared tokens")
    if config.documents:
        raise DataError("a masked language model reads one stretch of text, documents as well; leave documents out")
    texts = _texts(config)
    made = tokenizer or choose(config.tokenizer, config.vocab_size, texts, MASKING)
    ids = np.concatenate([made.encode(text) for text in texts])
    return MaskedSource(ids, made, config.block_size, config.val_fraction), made


def _sides(config: TrainConfig, tokenizer: Tokenizer | None) -> tuple[Source, Tokenizer]:
    if config.documents not in ("", PAIRS) or config.lines:
        raise DataError("this model learns from pairs of prompt and answer; leave documents and lines out")
    if config.data:
        asked = list(pairs(_lines(config), config.data))
        at = training_part(len(asked), config.val_fraction, "pairs")
        training, validation = asked[:at], asked[at:] or asked
    else:
        training, validation = list(written(PAIRS_MADE)), list(written(MEASURED, measured=True))
    texts = (text for pair in [*training, *validation] for text in pair)
    made = tokenizer or choose(config.tokenizer, config.vocab_size, texts, (END_OF_TEXT,))
    return SidesSource(training, validation, made, config.block_size), made


def _rendered(config: TrainConfig, tokenizer: Tokenizer | None) -> tuple[Source, Tokenizer]:
    if config.documents or config.lines:
        raise DataError("this model learns from lines made of the words of a text; leave documents and lines out")
    text = read_text(config.data) if config.data else embedded_corpus()
    training, validation = list(lines(text, LINES_MADE)), list(lines(text, MEASURED, measured=True))
    made = tokenizer or choose(config.tokenizer, config.vocab_size, [PROMPT, *training, *validation], (END_OF_TEXT,))
    return RenderedSource(training, validation, made, config.block_size), made


def choose(name: str, vocab_size: int, texts: Iterable[str], specials: tuple[str, ...]) -> Tokenizer:
    """The tokenizer of a kind, made for the texts, with these control tokens, or the one in a file as it is.

    Where no specials are asked for, the text is one stretch, and the one from a file puts nothing around it.
    Raises ValueError for a name that is neither kind nor file.
    """
    if name in KINDS:
        return make_tokenizer(name, texts, vocab_size, specials)
    if not Path(name).exists() and not name.endswith(".json"):
        raise ValueError(f"{unknown('tokenizer', name, KINDS)}; or give a tokenizer.json")
    return load_tokenizer(name).bounded(bool(specials))


def _prepared(config: TrainConfig, tokenizer: Tokenizer | None) -> tuple[Source, Tokenizer]:
    defaults = TrainConfig()
    for name in ("tokenizer", "documents", "lines"):
        if tokenizer is None and getattr(config, name) != getattr(defaults, name):
            raise DataError(
                f"{config.data} is prepared already, so {name} was chosen then; prepare it anew to change it"
            )
    corpus = read_tokens(config.data)
    if tokenizer is not None and tokenizer != corpus.tokenizer:
        raise DataError(
            f"{config.data} was prepared with another tokenizer than the one that this run was started with; prepare "
            f"it with that one"
        )
    made, ids = corpus.tokenizer, corpus.ids
    source = TextSource(
        ids, config.block_size, config.val_fraction, made.begin, made.end, corpus.fingerprint, corpus.largest
    )
    return source, made
