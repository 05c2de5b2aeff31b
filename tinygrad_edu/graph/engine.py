"""Where `dot` comes from, and how it is run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

VARIABLE = "TINYGRAD_EDU_DOT"
TIMEOUT = 20.0  # seconds for one layout


class LayoutError(RuntimeError):
    """The picture cannot be laid out: no `dot` is there, it failed, or it took too long."""


def find_dot() -> str:
    """The path of the program to lay graphs out with.

    In this order: the one that the environment variable TINYGRAD_EDU_DOT names, the one that came with the package
    graphviz-pure, the system's `dot`. Raises LayoutError where there is none.
    """
    if given := os.environ.get(VARIABLE):
        found = shutil.which(given)
        if found is None:
            raise LayoutError(f"{VARIABLE} is {given!r}, which is no program that can be run; correct or unset it")
        return found
    for folder in _folders():
        if found := shutil.which("graphviz-pure", path=str(folder)):
            return found
    if found := shutil.which("graphviz-pure") or shutil.which("dot"):
        return found
    raise LayoutError(
        "the program `dot` is missing, which lays graphs out: pip install graphviz-pure, or install Graphviz "
        "(apt install graphviz, brew install graphviz, winget install graphviz), or name one in " + VARIABLE
    )


def _folders() -> list[Path]:
    """Where pip puts the programs that come with packages."""
    return [Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))]


def run_dot(text: str) -> str:
    """The SVG that `dot` makes of a graph in its language. Raises LayoutError, saying what is wrong and what helps."""
    return drawn(text, "svg").decode()


def drawn(text: str, format: str) -> bytes:
    """What `dot` makes of a graph in its language, in one of its formats. Raises LayoutError as `run_dot` does."""
    import graphviz
    from graphviz.backend import dot_command, execute

    dot_command.DOT_BINARY = Path(find_dot())
    try:
        done = execute.run_check(
            dot_command.command("dot", format), input=text.encode(), capture_output=True, quiet=True, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired:
        nodes = text.count(", class=")
        raise LayoutError(
            f"laying out the graph took more than {TIMEOUT:g} s ({nodes} cards and wires); draw a smaller part of the "
            f"model, or save the DOT text (.dot) or the record (.json), which need no layout"
        ) from None
    except graphviz.ExecutableNotFound:
        raise LayoutError(f"{dot_command.DOT_BINARY} cannot be run; name another `dot` in {VARIABLE}") from None
    except (graphviz.CalledProcessError, OSError) as error:
        said = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().splitlines()
        raise LayoutError(f"{dot_command.DOT_BINARY} failed: {said[-1] if said else error}") from None
    return bytes(done.stdout)
