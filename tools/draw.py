"""Draw a computation forward and backward: python -m tools.draw {MODEL,FILE.py:FUNCTION} [options] --out FILE."""

import contextlib
import dataclasses
import importlib.util
import inspect
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from models import MODELS
from tinygrad_edu import Tensor
from tinygrad_edu.engine.modes import setting
from tinygrad_edu.files import file_path
from tinygrad_edu.graph import Graph, LayoutError, speaking, trace
from tinygrad_edu.graph.words import LANGUAGES
from tinygrad_edu.random import Generator
from tools.cli import Parser, UserError, run, say, unknown, users_mistakes
from tools.limits import check_memory

# Sizes by the letters of axes, no two the same, and what a configuration calls them; B and T are the batch's.
SIZES = {"B": 2, "T": 5, "V": 11, "P": 7, "L": 2, "H": 3, "D": 12, "F": 48, "h": 10, "w": 32, "p": 4}
_FIELDS = {"V": "vocab_size", "P": "block_size", "L": "layers", "H": "heads", "D": "width", "F": "hidden"}
_FIELDS |= {"h": "height", "w": "length", "p": "patch"}  # of images
_VIEWS = ("twin", "mirror", "ledger")
_RESULTS = "(model or function, its inputs), tensors, or a Graph"


@dataclasses.dataclass(frozen=True)
class DrawOptions:
    """What to draw, and where to."""

    out: str = ""
    """File to write: .svg, .html, .png, .dot for Graphviz's text, .md for the ledger, .json for the record.
    Without one: MODEL.svg, for the ledger MODEL.md."""
    view: str = "twin"
    """twin: value and gradient on one wire; mirror: the backward pass beside the forward one; ledger: a table."""
    level: int = 2
    """0: the model as one card, 1: its modules, 2: its named steps, 3: every op."""
    open: str = ""
    """Modules to draw in full beside their like, by path: blocks.3, or blocks.*, several with commas between."""
    module: str = ""
    """The path of one module that is drawn alone."""
    size: str = ""
    """Sizes such as B=2,T=5,D=12; of a built-in model, or arguments of FUNCTION."""
    lang: str = "en"
    """en or zh: the language of the words."""
    max_nodes: int = 400
    """A drawing with more cards gives way to the level above; 0: no limit."""


def graph_of(model: str, sizes: Mapping[str, int] | None = None) -> Graph:
    """A small instance of a built-in model, traced through its loss and back. Always the same for the same arguments.

    sizes: of axes, by letter, where they are not to be the usual ones: B, T, V, P (positions), L (layers), H, D, F; of
    images h, w and p, a patch's.
    Raises UserError for a letter that the model has not, ValueError for sizes that do not go together.
    """
    kind: Any
    kind, configuration = MODELS[model]
    fields = {field.name for field in dataclasses.fields(configuration)}
    known = ["B", "T", *(letter for letter, name in _FIELDS.items() if name in fields)]
    given = dict(sizes or {})
    for letter in given:
        if letter not in known:
            raise UserError(f"unknown size {letter!r}; {model} has {', '.join(known)}")
    wanted = SIZES | {"F": 0, "P": max(SIZES["P"], given.get("T", 0))} | given  # F follows from D where none is given
    shape = {name: wanted[letter] for letter, name in _FIELDS.items() if letter in "LDF" and name in fields}
    for rows, length in ((wanted["B"], wanted["T"]), (1, wanted["P"]), (wanted["B"], wanted["h"] * wanted["w"])):
        check_memory(shape, wanted["V"], rows, length, 1)
    with setting(generator=Generator(0)):
        instance = kind(configuration(**{_FIELDS[letter]: wanted[letter] for letter in known if letter in _FIELDS}))
    return trace(instance.loss, instance.example(wanted["B"], wanted["T"], np.random.default_rng(0)))


def draw_model(model: str, path: str | Path) -> bytes:
    """Draw a built-in model into a file; what was written. Raises as `Graph.save` does."""
    graph_of(model).save(path, strict=True)
    return Path(path).read_bytes()


def graph_of_file(target: str, sizes: Mapping[str, int] | None = None) -> Graph:
    """The graph of FILE.py:FUNCTION. sizes: arguments for the function, which takes none otherwise.

    It returns a model or function with its inputs, which is traced; or tensors, then the function itself is; or a
    Graph. Raises UserError for what is wrong with it.
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
        _check_arguments(made, target, sizes or {})
        return _graph_from(made, dict(sizes or {}), target)
    except (UserError, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit, too: a script that ends draws nothing
        raise UserError(f"{target}: {type(error).__name__}: {error}") from error
    finally:
        with contextlib.suppress(ValueError):  # the file may have taken it away
            sys.path.remove(str(path.resolve().parent))


def _check_arguments(made: Any, target: str, sizes: Mapping[str, int]) -> None:
    """Raise where a function takes no argument of a size's name."""
    parameters = inspect.signature(made).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for name in sizes:
        if name not in parameters:
            takes = f"takes {', '.join(parameters)}" if parameters else "takes no arguments"
            raise UserError(f"size {name}: {target} {takes}")


def _graph_from(made: Any, sizes: dict[str, int], target: str) -> Graph:
    found = made(**sizes)
    if isinstance(found, Graph):
        return found
    if isinstance(found, tuple) and len(found) == 2 and callable(found[0]):
        return trace(found[0], *(found[1] if isinstance(found[1], tuple | list) else (found[1],)))
    if any(isinstance(x, Tensor) for x in (found if isinstance(found, tuple | list) else [found])):
        return trace(lambda: made(**sizes), title=made.__name__)
    if inspect.iscoroutine(found):
        found.close()  # else Python warns that nobody awaited it
    raise UserError(f"{target} returned {type(found).__name__}; it must return {_RESULTS}")


def _graph(target: str, sizes: Mapping[str, int]) -> Graph:
    """The graph of a built-in model or of FILE.py:FUNCTION."""
    if target in MODELS:
        return graph_of(target, sizes)
    if ":" in target:
        return graph_of_file(target, sizes)
    raise UserError(unknown("model", target, MODELS) + ", or give path/to/file.py:function")


def _sizes(text: str) -> dict[str, int]:
    """B=2,T=5 as a dict. Raises UserError for anything else."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, number = (word.strip() for word in part.partition("="))
        if (
            not equals
            or not name.isidentifier()
            or not number.isdecimal()
            or not 0 < len(number) < 19
            or int(number) < 1
        ):
            raise UserError(f"size: {part!r} is no size; give letters with lengths of 1 or more, such as B=2,T=5")
        found[name] = int(number)
    return found


def _draw(target: str, options: DrawOptions) -> str:
    """Draw one computation; a line on what was done."""
    if options.view not in _VIEWS:
        raise UserError(unknown("view", options.view, _VIEWS))
    if options.lang not in LANGUAGES:
        raise UserError(unknown("language", options.lang, LANGUAGES))
    if options.max_nodes < 0:
        raise UserError(f"max_nodes is {options.max_nodes}; it must be 1 or more, or 0 for no limit")
    is_table = options.view == "ledger"
    path = file_path(options.out or f"{target.rpartition(':')[2]}.{'md' if is_table else 'svg'}")
    if is_table and path.suffix.lower() != ".md":
        raise UserError(f"{path.name}: the ledger is a table in Markdown; end the name in .md")
    start = time.perf_counter()
    graph = _graph(target, _sizes(options.size))
    opened = [part.strip() for part in options.open.split(",") if part.strip()]
    most = options.max_nodes or None
    view = "twin" if is_table else options.view
    with speaking(options.lang):
        graph.save(path, options.level, opened, most, view=view, module=options.module or None, strict=True)
    return f"{graph}, traced and drawn into {path} in {time.perf_counter() - start:.2f} s"


def _diff(first: str, second: str, options: DrawOptions) -> str:
    """Draw what differs between two computations; the differences in words."""
    if options.lang not in LANGUAGES:
        raise UserError(unknown("language", options.lang, LANGUAGES))
    sizes = _sizes(options.size)
    path = file_path(options.out or "diff.svg")
    with speaking(options.lang):
        difference = _graph(first, sizes).diff(_graph(second, sizes))
        try:
            difference.save(path)
        except LayoutError as error:
            beside = [path.with_suffix(".dot"), path.with_suffix(".md")]
            for other in beside:
                difference.save(other)
            raise UserError(f"{error}; the difference is in {' and '.join(map(str, beside))}") from error
        return f"{difference}\ndrawn into {path}"


def main(arguments: list[str]) -> int:
    """Draw what the arguments name; the exit code."""
    with users_mistakes((ValueError, OSError, LayoutError)):
        if arguments[:1] == ["diff"]:
            parser = Parser("draw", "Draw what differs between two computations.")
            for name in ("diff", "first", "second"):
                parser.add_argument(name, metavar=name.upper() if name != "diff" else "diff")
            parser.add_options(DrawOptions(), "drawing")
            found = parser.parse(arguments)
            said = _diff(found.first, found.second, found.drawing)
        else:
            parser = Parser("draw", "Draw a computation forward and backward, from one real pass through it.")
            parser.add_argument(
                "model",
                metavar="MODEL",
                help=f"{', '.join(MODELS)}, or path/to/file.py:function; `diff A B` draws what differs between two",
            )
            parser.add_options(DrawOptions(), "drawing")
            found = parser.parse(arguments)
            said = _draw(found.model, found.drawing)
    say(said)
    return 0


if __name__ == "__main__":
    sys.exit(run("draw", main))
