"""What the pinned CuPy has: names and signatures, in cupy_names.json; `python -m tests.strict.names` renews them."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("cupy_names.json")
MODULES = ["cupy", "cupy.linalg", "cupyx", "cupyx.scipy.special"]
TOOLS = [  # what is used of cupy.cuda
    "Device",
    "Device.use",
    "MemoryPool.free_all_blocks",
    "MemoryPool.free_bytes",
    "MemoryPool.get_limit",
    "MemoryPool.malloc",
    "MemoryPool.set_limit",
    "MemoryPool.total_bytes",
    "MemoryPool.used_bytes",
    "get_allocator",
    "memory.OutOfMemoryError",
    "nvrtc.compileProgram",
    "nvrtc.createProgram",
    "nvrtc.getCUBIN",
    "runtime.deviceSynchronize",
    "runtime.getDevice",
    "runtime.getDeviceCount",
    "runtime.getDeviceProperties",
    "runtime.memGetInfo",
    "set_allocator",
]


def signature_of(function: Any) -> str | None:
    """ "a, axis=, *, out=" for (a, axis=None, *, out=None); None where neither Python nor the docstring tells."""
    if type(function).__name__ == "ufunc":
        inputs = ["x"] if function.nin == 1 else [f"x{i + 1}" for i in range(function.nin)]
        return ", ".join([*inputs, "out=", "*", "casting=", "dtype="])
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return _documented(function)
    found: list[str] = []
    starred = False
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not starred:
            found.append("*")
        starred = starred or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        star = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
        found.append(star + p.name + ("" if star or p.default is p.empty else "="))
    return ", ".join(found)


def _documented(function: Any) -> str | None:
    """The same from a compiled function's docstring, which begins with its signature."""
    match = re.match(r"[\w.]+\((.*?)\)(?: ->|$|\n)", (function.__doc__ or "").strip())
    if match is None:
        return None
    found = []
    for part in match[1].split(", "):
        name, given, _ = part.partition("=")
        if name != "self" and name != "/":
            found.append(name.split(" ")[-1] + given)
    return ", ".join(found)


def describe() -> dict[str, Any]:
    """The names of the installed CuPy; raises ImportError without one."""
    import cupy

    functions: dict[str, dict[str, str | None]] = {}
    for module in MODULES:
        owner = __import__(module, fromlist=["x"])
        public = {n: getattr(owner, n) for n in dir(owner) if not n.startswith("_")}
        functions[module] = {n: signature_of(f) if callable(f) else None for n, f in sorted(public.items())}
    array = {n: getattr(cupy.ndarray, n) for n in dir(cupy.ndarray) if not n.startswith("_")}
    return {
        "version": cupy.__version__,
        "functions": functions,
        "ufuncs": sorted(n for n in functions["cupy"] if type(getattr(cupy, n)).__name__ == "ufunc"),
        "ufunc": sorted(n for n in dir(cupy.add) if not n.startswith("_")),
        "methods": {n: signature_of(f) for n, f in sorted(array.items()) if callable(f)},
        "attributes": sorted(n for n, f in array.items() if not callable(f)),
        "flags": sorted(n for n in dir(cupy._core.flags.Flags) if not n.startswith("_")),
        "cuda": [name for name in TOOLS if _reached(cupy.cuda, name)],
    }


def _reached(owner: Any, name: str) -> bool:
    for part in name.split("."):
        owner = getattr(owner, part, None)
    return owner is not None


def text(names: dict[str, Any]) -> str:
    return json.dumps(names, indent=0, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(describe()), encoding="utf-8")
