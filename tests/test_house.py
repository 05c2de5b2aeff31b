"""The rules of the house: what may import what, what an import loads, what no file may say."""

import ast
import doctest
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# From the top floor down. A unit imports itself and what stands below it.
FLOORS = [
    "graph",
    "check",
    "training",
    "generation",
    "data",
    "parallel",
    "optim",
    "nn",
    "utils",
    "autograd",
    "watching",
    "linalg",
    "mirrored",
    "functional",
    "compat",
    "creation",
    "tensor",
    "methods",
    "ops",
    "kernels",
    "cuda",
    "random",
    "engine",
    "amp",
    "arrays",
    "absent",
    "options",
    "size",
    "files",
]

# Some modules need what is installed on some machines only.
NEEDS = {"cupy", "cupyx", "numba", "torch"}


def tracked(*patterns: str) -> list[Path]:
    """The project's files: what git tracks or would track; without git (an unpacked archive), every matching file."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
            cwd=ROOT,
            capture_output=True,
            check=True,
            text=True,
        ).stdout.splitlines()
        paths = [ROOT / name for name in listed]
    except (OSError, subprocess.CalledProcessError):
        out = {".venv", *(pattern[2:] for pattern in patterns if pattern.startswith(":!"))}
        wanted = [pattern for pattern in patterns if not pattern.startswith(":!")]
        found = (path for pattern in wanted for path in ROOT.rglob(pattern))
        paths = [path for path in found if path.relative_to(ROOT).parts[0] not in out]
    return sorted(path for path in paths if path.is_file())


SOURCES = tracked("*.py")


def name_of(path: Path) -> str:
    """tinygrad_edu/nn/__init__.py -> tinygrad_edu.nn"""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in SOURCES}


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in the file, `from a import b` as a.b where that is a module."""
    package = name_of(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in runtime_nodes(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join(start + (node.module.split(".") if node.module else []))
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield full if full in MODULES else base


def runtime_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """ast.walk without what stands under `if TYPE_CHECKING`: that imports nothing when the program runs."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            yield from (inner for child in node.orelse for inner in (child, *runtime_nodes(child)))
        else:
            yield node
            yield from runtime_nodes(node)


def unit(module: str) -> str:
    """The floor that a module of the engine stands on; "" for the package itself."""
    parts = module.split(".")
    if parts[:3] == ["tinygrad_edu", "nn", "functional"]:
        return "functional"
    return parts[1] if len(parts) > 1 else ""


def of(folder: str) -> list[str]:
    return [module for module in MODULES if module == folder or module.startswith(folder + ".")]


def test_importing_the_engine_loads_numpy_and_nothing_heavier() -> None:
    program = (
        "import sys, numpy; before = set(sys.modules)\n"
        "import tinygrad_edu\n"
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout.split()
    allowed = {*sys.stdlib_module_names, "numpy", "tinygrad_edu"}
    assert "tinygrad_edu" in loaded
    assert [name for name in loaded if name not in allowed] == []


@pytest.mark.parametrize("module", of("tinygrad_edu"))
def test_the_engine_imports_downwards(module: str) -> None:
    if module == "tinygrad_edu":
        assert not [name for name in imports(MODULES[module]) if name.split(".")[0] in {"models", "tools", "tests"}]
        return
    assert unit(module) in FLOORS, f"{module} stands on no floor: give {unit(module)!r} its place in FLOORS"
    height = FLOORS.index(unit(module))
    for name in imports(MODULES[module]):
        top = name.split(".")[0]
        assert top not in {"models", "tools", "tests"}, f"{module} imports {name}"
        if top == "tinygrad_edu":
            assert unit(name), f"{module} imports the whole package; it should name what it needs from it"
            assert FLOORS.index(unit(name)) >= height, f"{module} imports upwards: {name}"


@pytest.mark.parametrize("module", of("models"))
def test_models_import_neither_tools_nor_tests(module: str) -> None:
    assert not [name for name in imports(MODULES[module]) if name.split(".")[0] in {"tools", "tests"}]


@pytest.mark.parametrize("module", of("tools"))
def test_tools_import_no_tests(module: str) -> None:
    assert not [name for name in imports(MODULES[module]) if name.split(".")[0] == "tests"]


@pytest.mark.parametrize("module", [*of("tinygrad_edu.engine"), *of("tinygrad_edu.ops")])
def test_engine_and_ops_know_no_array_library(module: str) -> None:
    assert not {name.split(".")[0] for name in imports(MODULES[module])} & {"numpy", "cupy", "numba"}


def test_no_circle_of_imports() -> None:
    """Within the engine, at the level of modules; a package's own __init__ may gather its parts."""
    graph = {
        module: {name for name in imports(MODULES[module]) if name in MODULES and name != module}
        for module in of("tinygrad_edu")
        if MODULES[module].name != "__init__.py"
    }
    done: set[str] = set()
    while ready := {module for module in graph if module not in done and not (graph[module] & graph.keys()) - done}:
        done |= ready
    assert graph.keys() - done == set()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), (
        "a module starts with one line on its purpose"
    )


def test_no_file_names_a_place_on_one_machine() -> None:
    """An absolute path of someone's machine in a file is a trace of where it was written."""
    place = re.compile(r"(?<![\w.~)}*/-])/(?:work|tmp|home|root|Users|opt|mnt)/[\w.]")
    found = []
    for path in tracked("*"):
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        found += [
            f"{path.relative_to(ROOT)}:{n}: {line.strip()[:90]}"
            for n, line in enumerate(lines, 1)
            if place.search(line)
        ]
    assert found == []


# What writes to a file system, by the name it is called with; `open` by its mode.
WRITES = re.compile(
    r"os\.(open|replace|rename|renames|mkdir|makedirs|mkfifo|link|symlink|truncate)|shutil\.(copy\w*|move)"
    r"|tempfile\.(NamedTemporaryFile|mkstemp)|(np|numpy)\.(save\w*|memmap)|SummaryWriter|save_file|FileHandler"
    r"|.*\.(write_text|write_bytes|touch|mkdir|rename|symlink_to|hardlink_to|savefig|tofile|save_file|SummaryWriter)"
)
READS = re.compile(r"os\.O_RDONLY(?!.*(WRONLY|RDWR|CREAT|TRUNC|APPEND))")  # flags of os.open
# Not through the writer, and why not.
UNWRITTEN = {
    ("tinygrad_edu/data/tokens.py", "np.memmap"): "only reads",
    ("tools/cli.py", "open"): "the null device, in place of a closed stream",
    ("tools/cli.py", "os.open"): "the null device",
    ("tools/plot.py", "figure.savefig"): "into memory",
    ("tools/read.py", "picture.save"): "into memory",
}


def writes(tree: ast.AST) -> Iterator[str]:
    """The calls that may write a file, as they are called."""
    images = "PIL" in {name.split(".")[0] for node in ast.walk(tree) for name in imported(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        modes = [a.value for a in arguments[name == "open" :] if isinstance(a, ast.Constant)]
        if (
            (WRITES.fullmatch(name) and not (name == "os.open" and READS.match(ast.unparse(node.args[1]))))
            or (re.fullmatch(r"(.*\.)?open", name) and any(re.fullmatch("[rbt]*[wax+][bt+]*", str(m)) for m in modes))
            or (re.fullmatch(r".*\.replace", name) and len(arguments) == 1)  # a Path's; a text's takes two
            or (re.fullmatch(r".*\.save", name) and images)
        ):
            yield name


def imported(node: ast.AST) -> list[str]:
    """The modules that a statement imports, if it does."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def test_files_are_written_by_the_writer_alone() -> None:
    """tinygrad_edu.files keeps permissions, follows no planted link and leaves no half of a file; so others use it."""
    found = {
        (path.relative_to(ROOT).as_posix(), name)
        for module, path in MODULES.items()
        if module.split(".")[0] in {"tinygrad_edu", "models", "tools"} and module != "tinygrad_edu.files"
        for name in writes(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == UNWRITTEN.keys()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("open(p, 'w')", True),
        ("open(p, mode='ab')", True),
        ("open(p)", False),
        ("open(p, 'rb')", False),
        ("p.open('x')", True),
        ("gzip.open(p, 'wt')", True),
        ("p.replace(q)", True),
        ("'a'.replace('b', 'c')", False),
        ("os.open(p, os.O_RDONLY)", False),
        ("os.open(p, os.O_RDONLY | os.O_DIRECTORY)", False),
        ("os.open(p, os.O_RDONLY | os.O_CREAT)", True),
        ("os.open(p, flags)", True),
        ("Path(p).parent.mkdir()", True),
        ("graph.save(p)", False),
        ("import PIL.Image; image.save(p)", True),
    ],
)
def test_what_writes_is_found(line: str, found: bool) -> None:
    assert bool(list(writes(ast.parse(line)))) == found


@pytest.mark.parametrize("module", [*of("tinygrad_edu"), *of("models"), *of("tools")])
def test_the_examples_in_docstrings_are_true(module: str) -> None:
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in NEEDS:
            raise
        pytest.skip(f"needs {error.name}")
    failed, _ = doctest.testmod(loaded, extraglobs={"__name__": "__main__"})  # as a reader would type them
    assert failed == 0
