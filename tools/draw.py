"""Draw a model's forward and backward graph: python -m tools.draw {bigram,gpt,FILE.py:FUNCTION} --out FILE."""

import dataclasses
import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np

from models import MODELS
from tinygrad_edu.data import Batch
from tinygrad_edu.graph import Graph, LayoutError, trace
from tinygrad_edu.modes import setting
from tinygrad_edu.random import Generator
from tools.cli import Parser, UserError, run, unknown, users_mistakes

# Small instances in which no two axes have the same length: B=2, T=5, H=3, d=4, D=12, F=48, V=11.
_SMALL: dict[str, dict[str, Any]] = {
    "bigram": {"vocab_size": 11},
    "gpt": {"vocab_size": 11, "block_size": 7, "layers": 2, "heads": 3, "width": 12},
}
_B, _T = 2, 5
_AXES = {
    "ids": "B T",
    "labels": "B T",
    "table.weight": "V V",
    "token.weight": "V D",
    "position.weight": "P D",
    "*.up.weight": "F D",
}


@dataclasses.dataclass(frozen=True)
class DrawOptions:
    """Where the drawing goes."""

    out: str = ""
    """File to write: .svg, .dot for Graphviz's text, .md for a table, .json for the record. Without one: MODEL.svg."""


def graph_of(model: str) -> Graph:
    """A small instance of a built-in model, traced through its loss and back. Always the same for the same name."""
    kind: Any
    kind, config = MODELS[model]
    with setting(generator=Generator(0)):
        instance = kind(config(**_SMALL[model]))
    ids = np.random.default_rng(0).integers(0, _SMALL[model]["vocab_size"], (_B, _T + 1))
    return trace(instance.loss, Batch(ids[:, :-1].copy(), ids[:, 1:].copy()), axes=_AXES)


def draw_model(model: str, path: str | Path) -> bytes:
    """Draw a built-in model into a file; what was written. Raises as `Graph.save` does."""
    graph_of(model).save(path, strict=True)
    return Path(path).read_bytes()


def graph_of_file(target: str) -> Graph:
    """The graph of FILE.py:FUNCTION, a function that takes nothing and returns (model or function, its inputs).

    Raises UserError for what is wrong with it.
    """
    name, _, function = target.rpartition(":")
    path = Path(name)
    if not path.is_file():
        raise UserError(f"{name}: no such file; give path/to/file.py:function")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{name} is no Python file; give path/to/file.py:function")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
        made = getattr(module, function, None)
        if not callable(made):
            raise UserError(
                unknown(f"function in {name}", function, [n for n, v in vars(module).items() if callable(v)])
            )
        found = made()
        if not isinstance(found, tuple) or len(found) != 2 or not callable(found[0]):
            raise UserError(f"{target} returned {type(found).__name__}; it must return (model or function, its inputs)")
        inputs = found[1] if isinstance(found[1], tuple | list) else (found[1],)
        return trace(found[0], *inputs)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{target}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(path.resolve().parent))


def main(arguments: list[str]) -> int:
    """Draw what the arguments name; the exit code."""
    with users_mistakes():
        parser = Parser("draw", "Draw a model's forward and backward graph, from one real pass through it.")
        parser.add_argument("model", metavar="MODEL", help=f"{', '.join(MODELS)}, or path/to/file.py:function")
        parser.add_options(DrawOptions(), "drawing")
        found = parser.parse(arguments)
        target, out = found.model, found.drawing.out
        if target in MODELS:
            graph = graph_of(target)
        elif ":" in target:
            graph = graph_of_file(target)
        else:
            raise UserError(unknown("model", target, MODELS) + ", or give path/to/file.py:function")
        path = Path(out or f"{target.rpartition(':')[2]}.svg")
        try:
            graph.save(path, strict=True)
        except LayoutError as error:
            raise UserError(str(error)) from error
    print(f"{graph}, drawn into {path}")
    return 0


if __name__ == "__main__":
    sys.exit(run("draw", main))
