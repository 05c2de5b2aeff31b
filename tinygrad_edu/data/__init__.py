"""Texts, tokenizers and batches: from a file to the ids and labels that a model's `loss` takes."""

from tinygrad_edu.data.characters import CharTokenizer
from tinygrad_edu.data.checked import DataError
from tinygrad_edu.data.documents import DOCUMENTS, documents, lines_of, pairs, pieces, read_lines
from tinygrad_edu.data.masked import MaskedSource
from tinygrad_edu.data.masking import Masking
from tinygrad_edu.data.packing import encode_documents, encode_pair, pack
from tinygrad_edu.data.sources import PairSource, Source, TextSource
from tinygrad_edu.data.subwords import SubwordTokenizer, train_bpe, train_wordpiece
from tinygrad_edu.data.text import embedded_corpus, enclose_lines, read_text, split
from tinygrad_edu.data.tokenizer import END_OF_TEXT, MASKING, ByteTokenizer, Tokenizer, id_dtype
from tinygrad_edu.data.tokens import TokenFile, is_token_file, read_tokens, write_tokens
from tinygrad_edu.data.vocabulary import KINDS, load_tokenizer, make_tokenizer, tokenizer_from_json
from tinygrad_edu.data.windows import AnyBatch, Batch, Packed, Windows, consecutive, isolated

__all__ = [
    "DOCUMENTS",
    "END_OF_TEXT",
    "KINDS",
    "MASKING",
    "AnyBatch",
    "Batch",
    "ByteTokenizer",
    "CharTokenizer",
    "DataError",
    "MaskedSource",
    "Masking",
    "Packed",
    "PairSource",
    "Source",
    "SubwordTokenizer",
    "TextSource",
    "TokenFile",
    "Tokenizer",
    "Windows",
    "consecutive",
    "documents",
    "embedded_corpus",
    "enclose_lines",
    "encode_documents",
    "encode_pair",
    "id_dtype",
    "is_token_file",
    "isolated",
    "lines_of",
    "load_tokenizer",
    "make_tokenizer",
    "pack",
    "pairs",
    "pieces",
    "read_lines",
    "read_text",
    "read_tokens",
    "split",
    "tokenizer_from_json",
    "train_bpe",
    "train_wordpiece",
    "write_tokens",
]
