"""The models by the name that the tools know them under."""

from models.bert import BERT, BERTConfig
from models.bigram import Bigram, BigramConfig
from models.gpt import GPT, GPTConfig
from models.language import LanguageModel
from models.ocr import OCR, OCRConfig
from models.seq2seq import Seq2Seq, Seq2SeqConfig

MODELS: dict[str, tuple[type[LanguageModel], type]] = {
    "bigram": (Bigram, BigramConfig),
    "gpt": (GPT, GPTConfig),
    "bert": (BERT, BERTConfig),
    "seq2seq": (Seq2Seq, Seq2SeqConfig),
    "ocr": (OCR, OCRConfig),
}

__all__ = [
    "BERT",
    "GPT",
    "MODELS",
    "OCR",
    "BERTConfig",
    "Bigram",
    "BigramConfig",
    "GPTConfig",
    "LanguageModel",
    "OCRConfig",
    "Seq2Seq",
    "Seq2SeqConfig",
]
