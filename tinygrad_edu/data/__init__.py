"""Texts, tokenizers and batches: from a file to the ids and labels that a model's `loss` takes."""

from tinygrad_edu.data.text import DataError, embedded_corpus, enclose_lines, read_text, split
from tinygrad_edu.data.tokenizer import CharTokenizer, id_dtype
from tinygrad_edu.data.windows import Batch, Windows, consecutive

__all__ = [
    "Batch",
    "CharTokenizer",
    "DataError",
    "Windows",
    "consecutive",
    "embedded_corpus",
    "enclose_lines",
    "id_dtype",
    "read_text",
    "split",
]
