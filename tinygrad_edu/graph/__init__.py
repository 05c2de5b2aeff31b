"""Pictures of computation: `trace` runs a model once and records forward and backward, a Graph draws the record."""

from tinygrad_edu.graph.engine import LayoutError
from tinygrad_edu.graph.graph import Graph
from tinygrad_edu.graph.trace import trace
from tinygrad_edu.graph.words import speaking

__all__ = ["Graph", "LayoutError", "speaking", "trace"]
