"""A net under the package: small changes of meaning, drawn at random in every folder, that the tests must catch.

The list in tests/mutants.json names for each mutant its kind, file and function, its statement before and after, and
the test that caught it (null: none did). A statement is found again by its text in a function of that name anywhere in
the package, so the list outlives moves; `--renamed FILE` takes a JSON object of old and new names where names changed.

`make mutants` runs the list and fails where a mutant that was caught survives: a few minutes. A mutant is applied to a
copy of the repository, and the test that caught it runs first. Where it no longer does, all tests run that execute the
function, by a measurement that is made when it is missing (half an hour) and kept in .mutants_measured.json; delete
that file after a change of the tests. A mutant of how many threads BLAS takes is caught only where it has several.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests/mutants.json"
MEASURED = ROOT / ".mutants_measured.json"
# These need PyTorch or a GPU, or compare with mpmath point by point; what the others miss is a gap of the tests.
LEFT_OUT = ("tests/parity", "tests/accuracy", "tests/gpu")
LOCK = threading.Lock()
# Text for people, where a change is none of meaning.
SPOKEN = {"__repr__", "__str__", "__format__", "extra_repr"}
SPEAKS = re.compile(r"warn|Error|Warning|^isinstance$").search
# Arguments in another order are nonsense there, or say the same.
ORDERED = {"issubclass", "getattr", "hasattr", "setattr", "cast", "min", "max"}
COMPARISONS: dict[type[ast.cmpop], list[type[ast.cmpop]]] = {
    ast.Lt: [ast.LtE, ast.Gt],
    ast.LtE: [ast.Lt, ast.GtE],
    ast.Gt: [ast.GtE, ast.Lt],
    ast.GtE: [ast.Gt, ast.LtE],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


@dataclass(frozen=True)
class Mutant:
    kind: str
    file: str
    function: str  # qualified, as code objects name it
    before: str
    after: str
    caught_by: str | None = None


@dataclass(frozen=True)
class Statement:
    """A statement of a function without the blocks it holds, or the function's own `def` without annotations."""

    file: str
    function: str
    node: ast.stmt
    text: str


def without_blocks(node: ast.stmt) -> ast.stmt:
    line = copy.copy(node)
    for field in {"body", "orelse", "finalbody", "handlers", "cases", "decorator_list"} & set(node._fields):
        setattr(line, field, [ast.Expr(ast.Constant(...))] if field == "body" else [])
    if isinstance(line, ast.FunctionDef | ast.AsyncFunctionDef):
        line.returns, line.args = None, copy.copy(line.args)
        for field in ("posonlyargs", "args", "kwonlyargs"):
            setattr(line.args, field, [ast.arg(a.arg) for a in getattr(line.args, field)])
        for field in ("vararg", "kwarg"):
            named = getattr(line.args, field)
            setattr(line.args, field, named and ast.arg(named.arg))
    return line


def statements(node: ast.AST, file: str, prefix: str = "", function: str = "") -> Iterator[Statement]:
    """All statements in functions, each with the innermost function it is in."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            name = prefix + child.name
            yield Statement(file, name, line := without_blocks(child), ast.unparse(line))
            yield from statements(child, file, f"{name}.<locals>.", name)
        elif isinstance(child, ast.ClassDef):
            yield from statements(child, file, f"{prefix}{child.name}.")
        else:
            if isinstance(child, ast.stmt) and function and not isinstance(child, ast.Try | ast.Match):
                yield Statement(file, function, line := without_blocks(child), ast.unparse(line))
            yield from statements(child, file, prefix, function)


@cache
def package() -> list[Statement]:
    return [
        statement
        for path in sorted((ROOT / "tinygrad_edu").rglob("*.py"))
        for statement in statements(ast.parse(path.read_text(encoding="utf-8")), path.relative_to(ROOT).as_posix())
    ]


# Making mutants


def places(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.expr]]:
    """Every expression whose value counts, with where it hangs: parent, field, and index in a field that is a list."""
    for field, value in ast.iter_fields(node):
        if field == "annotation" or (isinstance(node, ast.FunctionDef) and field != "args"):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            called = ast.unparse(child.func) if isinstance(child, ast.Call) else ""
            if isinstance(child, ast.AST) and not isinstance(child, ast.stmt | ast.JoinedStr) and not SPEAKS(called):
                if isinstance(child, ast.expr):
                    yield node, field, index, child
                yield from places(child)


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def changes(parent: ast.AST, field: str, node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """What may take the place of an expression, with the kind of the change."""
    one = ast.Constant(1)
    match node:
        case ast.Constant(value=bool(value)):
            yield "default" if isinstance(parent, ast.arguments) else "constant", ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield "default" if isinstance(parent, ast.arguments) else "constant", ast.Constant(value + 1)
        case ast.Compare(left, [op], right):
            yield from (("comparison", ast.Compare(left, [new()], right)) for new in COMPARISONS[type(op)])
        case ast.BinOp(left, op, right) if type(op) in OPERATORS and not (is_text(left) or is_text(right)):
            yield "operator", ast.BinOp(left, OPERATORS[type(op)](), right)
        case ast.BoolOp(op, values):
            yield "and/or", ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not() | ast.USub(), ast.expr() as operand) if not isinstance(operand, ast.Constant):
            yield "not dropped" if isinstance(node.op, ast.Not) else "sign dropped", operand
        case ast.Call(func, [first, second, *rest], keywords):
            movable = not any(isinstance(x, ast.Starred) or is_text(x) for x in (first, second))
            if movable and ast.unparse(func) not in ORDERED:
                yield "argument order", ast.Call(func, [second, first, *rest], keywords)
        case ast.IfExp(_, body, orelse):
            yield from (("branch dropped", kept) for kept in (body, orelse))
        case ast.Slice(lower, upper, step):
            yield "slice", ast.Slice(ast.BinOp(lower, ast.Add(), one) if lower else one, upper, step)
            yield "slice", ast.Slice(lower, ast.BinOp(upper, ast.Sub(), one) if upper else ast.Constant(-1), step)
        case ast.Tuple([first, second, *rest]) if isinstance(parent, ast.Return):
            yield "value returned", ast.Tuple([second, first, *rest])
    if isinstance(parent, ast.If) and field == "test":
        yield "branch dropped", ast.Constant(False)


def mutants_of(statement: Statement) -> Iterator[Mutant]:
    """All mutants of a statement that is no text for people: no error, no import for a type."""
    line = statement.node
    spoken = statement.function.split(".")[-1] in SPOKEN or "TYPE_CHECKING" in statement.text
    if spoken or isinstance(line, ast.Raise | ast.Assert):
        return
    for parent, field, index, node in places(line):
        for kind, new in changes(parent, field, node):
            holder: Any = parent.__dict__ if index is None else getattr(parent, field)
            key = field if index is None else index
            holder[key] = new
            after = ast.unparse(line)
            holder[key] = node
            if after != statement.text:
                yield Mutant(kind, statement.file, statement.function, statement.text, after)


def draw(count: int, seed: int, known: dict[str, Any]) -> list[Mutant]:
    """`count` mutants in functions that tests execute: one in every folder, the others by size; kinds take turns.

    Only statements are taken that are found again wherever they move.
    """
    rng = random.Random(seed)
    numbers = {number for test, facts in known["tests"].items() if "::" in test for number in facts["functions"]}
    executed = {name for number, name in enumerate(known["functions"]) if number in numbers}
    alike = Counter((s.function.split(".")[-1], s.text) for s in package())
    rooms: dict[str, list[Mutant]] = defaultdict(list)
    for statement in package():
        unique = alike[statement.function.split(".")[-1], statement.text] == 1
        if unique and f"{statement.file}:{statement.function}" in executed:
            rooms[str(Path(statement.file).parent)] += mutants_of(statement)
    share = {room: 1 for room, found in rooms.items() if found}
    while sum(share.values()) < count:
        share[max(share, key=lambda room: len(rooms[room]) / (share[room] + 1))] += 1
    drawn: list[Mutant] = []
    for room, n in share.items():
        for _ in range(n):
            taken = Counter(m.kind for m in drawn)
            left = [m for m in rooms[room] if (m.file, m.function) not in {(d.file, d.function) for d in drawn}]
            kind = min(sorted({m.kind for m in left}), key=lambda kind: (taken[kind], rng.random()))
            drawn.append(rng.choice([m for m in left if m.kind == kind]))
    return drawn


# Finding a mutant again and applying it


def names_between(old: str, new: str, renamed: Mapping[str, str]) -> dict[str, str] | None:
    """Which word of `old` is which in `new`, if that is the same text but for words renamed; otherwise None."""
    olds, news = re.findall(r"\w+|\W", old), re.findall(r"\w+|\W", new)
    if len(olds) != len(news) or any(b not in (a, renamed.get(a)) for a, b in zip(olds, news)):
        return None
    return dict(zip(olds, news))


def difference(old: ast.AST, new: ast.AST) -> tuple[ast.AST, ast.AST]:
    """The smallest expression of `old` outside which it is alike `new`, and what `new` has there."""
    inner = []
    for field in old._fields if type(old) is type(new) else ():
        a, b = ([x] if not isinstance(x, list) else x for x in (getattr(old, field, None), getattr(new, field, None)))
        inner += [(x, y) for x, y in zip(a, b) if dumped(x) != dumped(y)]
    if len(inner) == 1 and all(isinstance(x, ast.AST) for x in inner[0]):
        smaller = difference(*inner[0])
        if isinstance(smaller[0], ast.expr):
            return smaller
    return old, new


def dumped(node: object) -> str:
    return ast.dump(node) if isinstance(node, ast.AST) else repr(node)


def mutated(mutant: Mutant, statement: Statement) -> str:
    """The file's text with the mutant in it; every other line stays where it is."""
    old, new = difference(statement.node, ast.parse(mutant.after).body[0])
    if isinstance(old, ast.expr) and old.end_lineno is not None:
        lines = (ROOT / mutant.file).read_bytes().splitlines(keepends=True)
        head = b"".join(lines[: old.lineno - 1]) + lines[old.lineno - 1][: old.col_offset]
        tail = lines[old.end_lineno - 1][old.end_col_offset :] + b"".join(lines[old.end_lineno :])
        inside = ast.unparse(new) + "\n" * (old.end_lineno - old.lineno)
        changed = (head + (inside if isinstance(new, ast.Slice) else f"({inside})").encode() + tail).decode()
        if mutant.after in {
            s.text for s in statements(ast.parse(changed), mutant.file) if s.function == mutant.function
        }:
            return changed
    raise ValueError(f"it is more than the change of one expression: {mutant}")


def found_again(mutant: Mutant, renamed: Mapping[str, str]) -> tuple[Mutant, str]:
    """The mutant in today's names and its file's text with it. ValueError where not exactly one place is like it."""
    found = []
    function = mutant.function.split(".")[-1]
    for statement in package():
        if statement.function.split(".")[-1] in (function, renamed.get(function)):
            names = names_between(mutant.before, statement.text, renamed)
            if names is not None:
                found.append((statement, names))
    if len(found) > 1:
        found = [f for f in found if names_between(mutant.function, f[0].function, renamed) is not None]
    if len(found) != 1:
        raise ValueError(f"{len(found) or 'no'} statements like it, in {[s.file for s, _ in found]}: {mutant}")
    statement, names = found[0]
    after = re.sub(r"\w+", lambda word: {**renamed, **names}.get(word[0], word[0]), mutant.after)
    test = mutant.caught_by and re.sub(r"\w+", lambda word: renamed.get(word[0], word[0]), mutant.caught_by)
    now = Mutant(mutant.kind, statement.file, statement.function, statement.text, after, test)
    return now, mutated(now, statement)


# Running tests


def pytest_on(folder: Path, asked: dict[str, Any], *arguments: str) -> dict[str, Any]:
    """What the plugin tells of a run in a copy of the repository."""
    question, out = folder.parent / "asked.json", folder.parent / "told.json"
    question.write_text(json.dumps({**asked, "out": str(out)}), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "tests.mutants_plugin", "-p", "no:cacheprovider"]
    env = {**os.environ, "MUTANTS": str(question), "PYTHONPATH": str(folder), "PYTHONHASHSEED": "0"}
    to = None if "root" in asked else subprocess.DEVNULL
    process = subprocess.Popen(
        [*command, *arguments], cwd=folder, env=env, stdout=to, stderr=to, start_new_session=True
    )
    try:
        process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # programs that a test left
    told: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return told


def copy_into(folder: str) -> Path:
    left_out = shutil.ignore_patterns(".venv", ".git", ".*_cache", ".mutants*", "runs", "build", "*.egg-info")
    return Path(shutil.copytree(ROOT, Path(folder) / "copy", ignore=left_out))


@cache
def measured(again: bool = False) -> dict[str, Any]:
    """Which tests execute which functions: as kept in a file, or measured."""
    if not MEASURED.exists() or again:
        print("measuring which tests execute which functions", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            root = copy_into(folder)
            told = pytest_on(root, {"root": str(root)}, "tests", *(f"--ignore={path}" for path in LEFT_OUT))
        MEASURED.write_text(json.dumps(told), encoding="utf-8")
    kept: dict[str, Any] = json.loads(MEASURED.read_text(encoding="utf-8"))
    return kept


def tests_of(mutant: Mutant, known: dict[str, Any]) -> dict[str, float]:
    """The tests that execute the mutant's function, with their seconds: quick files first, in each the quick tests.

    What a test does in another process is not seen: one that starts programs counts as executing all of training/.
    """
    name = f"{mutant.file}:{mutant.function}"
    if name not in known["functions"]:  # new, or moved since
        known = measured(again=True)
    number = known["functions"].index(name) if name in known["functions"] else -1
    found = {
        test: facts["seconds"]
        for test, facts in known["tests"].items()
        if facts["passed"] and "::" in test
        if number in facts["functions"] or (facts["starts"] and "/training/" in mutant.file)
    }
    files: dict[str, float] = defaultdict(float)
    for test, seconds in found.items():
        files[test.split("::")[0]] += seconds
    # Last those named after a module, which a move gives another name.
    return dict(sorted(found.items(), key=lambda x: ("[tinygrad_edu." in x[0], files[x[0].split("::")[0]], x[1])))


def run_tests(tests: Mapping[str, float], budget: float, changed: Mapping[str, str]) -> tuple[str | None, str]:
    """The first test that fails, hangs or breaks, if one does, and a word on the run, with other texts of some files.

    A test without its file, as `bare` names it, is looked for in all.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = copy_into(folder)
        files = dict.fromkeys(test.split("::")[0] for test in tests if "::" in test)
        if names := {test.split("[")[0] for test in tests if "::" not in test}:
            for path in sorted((root / "tests").rglob("test_*.py")):
                file = path.relative_to(root).as_posix()
                if names & set(re.findall(r"\w+", path.read_text("utf-8"))) and not file.startswith(LEFT_OUT):
                    files[file] = None
        if not files:
            return None, "no test executes it"
        for file, text in changed.items():
            (root / file).write_text(text, encoding="utf-8")
        limits = {test: 60 + 10 * seconds for test, seconds in tests.items()}
        told = pytest_on(root, {"tests": limits, "budget": budget}, "-x", *files)
    if "hangs" in told:
        # Where the package cannot even be imported, the first of the tests is as good as another.
        return told["hangs"] if "::" in told["hangs"] else next(iter(tests)), "hangs or dies"
    if told["fails"]:
        return told["fails"][0], "fails"
    if told["stopped"]:
        return None, "budget spent"
    if told["status"] not in (0, 5):
        return next(iter(tests)), "cannot be imported"
    return None, f"{told['ran']} tests pass"


def bare(test: str) -> str:
    """A test's name and parameters without file and class, by which it is found again where it moved."""
    return re.sub(r"^[^\[]*::", "", test)


def verdict(mutant: Mutant, text: str, budget: float) -> tuple[str | None, str]:
    if mutant.caught_by:
        first = run_tests({bare(mutant.caught_by): 60}, budget, {mutant.file: text})
        if first[0]:
            return first[0] if "::" in first[0] else mutant.caught_by, first[1]
    with LOCK:
        tests = tests_of(mutant, measured())
    return run_tests(tests, budget, {mutant.file: text})


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("numbers", nargs="*", type=int, help="these of the list; without, all that were caught")
    parser.add_argument("--all", action="store_true", help="those that survived, too")
    parser.add_argument("--renamed", type=Path, help="JSON object: old name -> new name")
    parser.add_argument("--write", action="store_true", help="write to the list what was found: places and tests")
    parser.add_argument("--draw", type=int, metavar="N", help="draw a new list of so many, run it and write it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--budget", type=float, default=120, help="seconds of tests for a mutant")
    options = parser.parse_args()
    renamed = json.loads(options.renamed.read_text(encoding="utf-8")) if options.renamed else {}
    if options.draw:
        seed, mutants = options.seed, draw(options.draw, options.seed, measured())
    else:
        kept = json.loads(LIST.read_text(encoding="utf-8"))
        seed, mutants = kept["seed"], [Mutant(**entry) for entry in kept["mutants"]]
    placed: dict[int, tuple[Mutant, str]] = {}
    missing = []
    for n, mutant in enumerate(mutants, 1):
        try:
            placed[n] = found_again(mutant, renamed)
        except ValueError as error:
            missing.append(f"{n:3} NOT FOUND: {error}")
    if missing:
        print(*missing, sep="\n", file=sys.stderr)
        return 2
    every = options.all or options.draw
    chosen = options.numbers or [n for n, (mutant, _) in placed.items() if mutant.caught_by or every]
    tests: dict[int, str | None] = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        for n, (test, told) in zip(chosen, pool.map(lambda n: verdict(*placed[n], options.budget), chosen)):
            mutant, tests[n] = placed[n][0], test
            what = f"{n:3} {'caught' if test else 'SURVIVED'} {mutant.kind:14} {mutant.file}:{mutant.function}"
            print(f"{what}: {told}{f', {test}' if test else ''}", flush=True)
            if options.write or options.draw:
                now = [asdict(replace(m, caught_by=tests.get(n, m.caught_by))) for n, (m, _) in placed.items()]
                text = json.dumps({"seed": seed, "mutants": now}, indent=1, ensure_ascii=False)
                LIST.write_text(text + "\n", encoding="utf-8")
    lost = [n for n, test in tests.items() if placed[n][0].caught_by and not test]
    # A test that fails without any mutant caught nothing.
    broken, how = run_tests({bare(test): 60 for test in tests.values() if test}, 600, {})
    if broken:
        print(f"{broken} {how} without a mutant", file=sys.stderr)
    print(f"{sum(map(bool, tests.values()))} of {len(tests)} caught", f"lost: {lost}" if lost else "")
    return 1 if lost or broken else 0


if __name__ == "__main__":
    sys.exit(main())
