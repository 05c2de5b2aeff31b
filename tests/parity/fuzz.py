"""Programs that PyTorch and the engine both run: compared, shrunk where they differ, and printed.

A program is plain text in PyTorch's names; `torch` is one library or the other. `python -m tests.parity.fuzz 50000 7`
draws 50,000 graphs from seed 7; what they are made of stands in fuzz_lines.py.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

import tinygrad_edu as tg
from tinygrad_edu.nn import functional as ours

TOLERANCE = 1e-9  # of the largest value or gradient beside it
SEVERAL = re.compile(r"\.(split|chunk|unbind)\([^()]*\)$")  # these give a tuple, if only of one


@dataclass(frozen=True)
class Program:
    """Inputs by name (floating ones get gradients, those in `fixed` do not), and lines: the targets and the text."""

    inputs: dict[str, np.ndarray]
    lines: list[tuple[tuple[str, ...], str]]
    outputs: tuple[str, ...] = ()  # what is summed; empty for all floating results that no line reads
    fixed: frozenset[str] = frozenset()
    ops: tuple[str, ...] = field(default=(), compare=False)  # names in LINES
    expected: dict[str, Any] | None = field(default=None, compare=False)  # what `run` gives in PyTorch, where known

    def leaves(self) -> list[str]:
        """The inputs that gradients are compared of."""
        return [n for n, a in self.inputs.items() if a.dtype.kind == "f" and n not in self.fixed]

    def sinks(self) -> list[str]:
        if self.outputs:
            return list(self.outputs)
        read = {name for _, text in self.lines for name in names_in(text)}
        return [n for targets, _ in self.lines for n in targets if n not in read and n != "_"]

    def text(self) -> str:
        """The lines as code."""
        found = []
        for targets, text in self.lines:
            expression, _, after = text.partition("; ")
            several = "," if len(targets) == 1 and SEVERAL.search(expression) else ""
            found.append(f"{', '.join(targets)}{several} = {expression}")
            if after:
                found.append(after.replace("{out}", targets[0]))
        return "\n".join(found)


def names_in(text: str) -> set[str]:
    """The variables that a line of a program reads."""
    return set(re.findall(r"\b[abv]\d+\b", text))


@functools.cache
def weights(shape: tuple[int, ...]) -> np.ndarray:
    """What the elements of a result are weighted with in the sum that is differentiated."""
    return np.random.default_rng(0).uniform(0.5, 1.5, shape)


def libraries() -> tuple[dict[str, Any], dict[str, Any]]:
    """What a program's text means in PyTorch, and in the engine."""
    return {"torch": torch, "F": torch.nn.functional}, {"torch": tg, "F": ours}


def run(
    program: Program, space: dict[str, Any], inputs: dict[str, np.ndarray] | None = None, order: int = 1
) -> dict[str, Any]:
    """Every floating result and, as `d NAME`, every gradient of that order: arrays, or None where none arrived."""
    lib, leaves = space["torch"], program.leaves()
    for name, value in (inputs or program.inputs).items():
        space[name] = lib.tensor(value, requires_grad=True) if name in leaves else lib.tensor(value)
    exec(program.text(), space)
    backward(program, space, order)
    return results(program, space)


def backward(program: Program, space: dict[str, Any], order: int = 1) -> None:
    """Differentiate the weighted sum of the program's outputs, in a space where its lines have run.

    In the second order, the weighted sum of the gradients is differentiated once more.
    """
    total = _total([space[n] for n in program.sinks()], space)
    if total is None or not total.requires_grad:
        return
    if order == 2:
        leaves = [space[n] for n in program.leaves()]
        grad = torch.autograd.grad if space["torch"] is torch else tg.grad
        found = grad(total, leaves, create_graph=True, allow_unused=True)
        total = _total([g for g in found if g is not None], space)
        if total is None or not total.requires_grad:
            return
    total.backward()


def _total(tensors: list[Any], space: dict[str, Any]) -> Any:
    parts = [(t * space["torch"].tensor(weights(tuple(t.shape)))).sum() for t in tensors]
    return sum(parts[1:], parts[0]) if parts else None


def results(program: Program, space: dict[str, Any]) -> dict[str, Any]:
    """The results and gradients in a space where the program has run."""
    found = {t: space[t].detach().numpy() for targets, _ in program.lines for t in targets if t != "_"}
    for name in program.leaves():
        g = space[name].grad
        found[f"d {name}"] = None if g is None else g.detach().numpy()
    return found


def difference(program: Program, order: int = 1) -> str:
    """Where the engine differs from PyTorch, in one line; empty where it does not.

    Where it seems to, PyTorch runs again from inputs moved by 1e-13 of their size: what that changes is no difference.
    In the second order, no gradient and one of zeros are the same.
    """
    theirs, engine = libraries()
    expected = program.expected if program.expected and order == 1 else run(program, theirs, order=order)
    try:
        with np.errstate(all="ignore"):
            found = run(program, engine, order=order)
    except Exception as error:
        return f"raises {type(error).__name__}: {error}"
    if order == 2:
        for one, other in ((expected, found), (found, expected)):
            one |= {n: np.zeros_like(other[n]) for n, g in one.items() if g is None and other[n] is not None}
    off = [name for name in expected if _differs(expected[name], found[name], 0.0)]
    if not off:
        return ""
    moved = {n: a * (1 + 1e-13) if a.dtype.kind == "f" else a for n, a in program.inputs.items()}
    again = run(program, libraries()[0], moved, order)
    for name in off:
        e, f, after = expected[name], found[name], again.get(name)
        slack = 0.0 if e is None or after is None or not e.size else 1e3 * float(np.abs(e - after).max())
        if said := _differs(e, f, slack):
            return f"{name}: {said}"
    return ""


def _differs(expected: Any, found: Any, slack: float) -> str:
    if expected is None or found is None:
        return "" if expected is found else f"PyTorch has {_kind(expected)}, the engine {_kind(found)}"
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return f"PyTorch has {expected.dtype} {expected.shape}, the engine {found.dtype} {found.shape}"
    if not expected.size:
        return ""
    off = np.abs(expected - found).max()
    if off <= TOLERANCE * (1 + np.abs(expected).max()) + slack:
        return ""
    at = np.unravel_index(int(np.nanargmax(np.abs(expected - found))), expected.shape) if np.isfinite(off) else ()
    return f"off by {off:.3g}" + (f", at {tuple(map(int, at))}: {expected[at]!r} and {found[at]!r}" if at else "")


def _kind(value: Any) -> str:
    return "no gradient" if value is None else "a gradient"


def used(program: Program) -> Program:
    """The program without lines and inputs that its outputs do not come from."""
    wanted, lines = set(program.sinks()), []
    for targets, text in reversed(program.lines):
        if wanted & set(targets):
            lines.append((targets, text))
            wanted |= names_in(text)
    inputs = {n: a for n, a in program.inputs.items() if n in wanted}
    return replace(program, inputs=inputs, lines=lines[::-1])


def shrunk(program: Program, order: int = 1) -> Program:
    """A program that still differs, with one output if possible, fewer lines, fewer elements and rounder numbers."""

    def failing(p: Program) -> bool:
        try:
            return bool(difference(p, order))
        except (RuntimeError, IndexError, ValueError, TypeError, NameError):
            return False  # PyTorch refuses it

    program = replace(program, expected=None)
    for targets, _ in program.lines:
        single = next((c for t in targets if t != "_" and failing(c := used(replace(program, outputs=(t,))))), None)
        if single is not None:
            program = single
            break
    program = replace(program, outputs=tuple(program.sinks()))
    shorter: Program | None = program
    while shorter is not None:
        program = shorter
        shorter = next((c for c in _simpler(program) if failing(c)), None)
    return program


def _simpler(program: Program) -> Iterator[Program]:
    """Programs with a result as input instead of the lines that led to it, with shorter axes, or simpler numbers."""
    values = {n: v for n, v in run(program, libraries()[0]).items() if not n.startswith("d ")}
    for i in reversed(range(len(program.lines) - 1)):
        targets = program.lines[i][0]
        given = {t: values[t] for t in targets if t != "_"}
        lines = [*program.lines[:i], *program.lines[i + 1 :]]
        yield used(_renamed(replace(program, inputs=program.inputs | given, lines=lines)))
    for name in list(program.inputs)[1:]:
        if program.inputs[name].dtype.kind == "f" and name not in program.fixed:
            yield replace(program, fixed=program.fixed | {name})
    lengths = sorted({n for a in program.inputs.values() for n in a.shape if n > 1})
    for n in lengths:  # one length wherever it stands, so that shapes go on fitting
        for less in range(1, n):
            yield replace(program, inputs={k: _cut(a, n, less) for k, a in program.inputs.items()})
    for name, a in program.inputs.items():
        for axis, n in enumerate(a.shape):
            if n > 1:
                yield replace(program, inputs=program.inputs | {name: a.take(range(n - 1), axis)})
    for name, a in program.inputs.items():
        if a.dtype.kind == "f" and (np.round(a, 1) != a).any():
            yield replace(program, inputs=program.inputs | {name: np.asarray(np.round(a, 1))})


def _cut(a: np.ndarray, length: int, less: int) -> np.ndarray:
    return a[tuple(slice(less if n == length else None) for n in a.shape)]


def _renamed(program: Program) -> Program:
    """The same with inputs that were results named as inputs are."""
    names = {n: f"a{n[1:]}" for n in program.inputs if n.startswith("v")}
    if not names:
        return program

    def new(text: str) -> str:
        return re.sub(r"\bv\d+\b", lambda m: names.get(m[0], m[0]), text)

    inputs = {names.get(n, n): a for n, a in program.inputs.items()}
    lines = [(targets, new(text)) for targets, text in program.lines]
    return replace(program, inputs=inputs, lines=lines)


def code(program: Program, order: int = 1) -> str:
    """The program as a script, for PyTorch as it stands and for the engine with its first two lines changed."""
    inputs = [
        f"{n} = torch.tensor({_array(a)}{', requires_grad=True' if n in program.leaves() else ''})"
        for n, a in program.inputs.items()
    ]
    lines = [
        "import torch  # or: import tinygrad_edu as torch",
        "from torch.nn import functional as F  # or: from tinygrad_edu.nn import functional as F",
        "import numpy as np",
        *inputs,
        program.text(),
        "weights = lambda t: torch.tensor(np.random.default_rng(0).uniform(0.5, 1.5, tuple(t.shape)))",
        f"total = {' + '.join(f'({n} * weights({n})).sum()' for n in program.sinks())}",
    ]
    leaves = program.leaves()
    if order == 2:
        lines += [
            "grad = torch.autograd.grad  # or: grad = torch.grad",
            f"slopes = grad(total, [{', '.join(leaves)}], create_graph=True, allow_unused=True)",
            "total = sum((g * weights(g)).sum() for g in slopes if g is not None)",
        ]
    shown = [*program.sinks(), *(f"{n}.grad" for n in leaves)]
    return "\n".join([*lines, *(["total.backward()"] if leaves else []), f"print({', '.join(shown)})"])


def _array(a: np.ndarray) -> str:
    kind = "" if a.dtype == np.float64 else f", np.{a.dtype}"
    return f"np.array({a.tolist()}{kind})" if a.size else f"np.zeros({a.shape}{kind})"


def report(program: Program, name: str, order: int = 1) -> str:
    """Where a program differs, and the shrunk one, with code that shows it."""
    small = shrunk(program, order)
    return f"{name}: {difference(program, order)}\nshrunk: {difference(small, order)}\n\n{code(small, order)}"


if __name__ == "__main__":
    from tests.parity.fuzz_lines import drawn  # which is made of what stands here

    torch.set_num_threads(1)
    graphs, seed = int(sys.argv[1]), int(sys.argv[2])
    differing = 0
    for number in range(graphs):
        if difference(graph := drawn(seed, number)):
            differing += 1
            print(report(graph, f"graph {number} of seed {seed}"), end="\n\n", flush=True)
    print(f"{graphs} graphs of seed {seed}, {differing} differ")
