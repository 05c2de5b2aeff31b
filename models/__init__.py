"""The models by the name that the tools know them under."""

from models.bigram import Bigram, BigramConfig
from models.gpt import GPT, GPTConfig
from models.language import LanguageModel

MODELS: dict[str, tuple[type[LanguageModel], type]] = {"bigram": (Bigram, BigramConfig), "gpt": (GPT, GPTConfig)}

__all__ = ["GPT", "MODELS", "Bigram", "BigramConfig", "GPTConfig", "LanguageModel"]
