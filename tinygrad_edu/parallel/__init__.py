"""One training step shared out: over the threads of one machine."""

from tinygrad_edu.parallel.shards import Shards

__all__ = ["Shards"]
