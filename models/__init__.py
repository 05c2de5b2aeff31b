"""The models by the name that the tools know them under."""

from models.bert import BERT, BERTConfig
from models.bigram import Bigram, BigramConfig
from models.gpt import GPT, GPTConfig
from models.language import LanguageModel

MODELS: dict[str, tuple[type[LanguageModel], type]] = {
    "bigram": (Bigram, BigramConfig),
    "gpt": (GPT, GPTConfig),
    "bert": (BERT, BERTConfig),
}

__all__ = ["BERT", "GPT", "MODELS", "BERTConfig", "Bigram", "BigramConfig", "GPTConfig", "LanguageModel"]
