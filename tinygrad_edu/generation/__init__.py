"""From logits to text: probabilities of the next token, draws from them, and the loop that appends them."""

from tinygrad_edu.generation.beam import Found, beam_search
from tinygrad_edu.generation.cache import Cache, Layer
from tinygrad_edu.generation.loop import generate, stream
from tinygrad_edu.generation.measuring import Model, measuring
from tinygrad_edu.generation.sampling import probabilities, sample
from tinygrad_edu.generation.text import write

__all__ = [
    "Cache",
    "Found",
    "Layer",
    "Model",
    "beam_search",
    "generate",
    "measuring",
    "probabilities",
    "sample",
    "stream",
    "write",
]
