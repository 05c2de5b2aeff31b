"""From logits to text: probabilities of the next token, draws from them, and the loop that appends them."""

from tinygrad_edu.generation.loop import generate, stream
from tinygrad_edu.generation.measuring import Model, measuring
from tinygrad_edu.generation.sampling import probabilities, sample

__all__ = ["Model", "generate", "measuring", "probabilities", "sample", "stream"]
