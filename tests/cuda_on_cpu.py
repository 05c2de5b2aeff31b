"""CUDA sources run on the CPU: a thread for each thread of a block, one block after the other, by the C++ compiler."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

COMPILER = shutil.which("g++") or shutil.which("clang++")
FOLDER = Path(__file__).resolve().parent.parent / "tinygrad_edu" / "kernels" / "cupy"
SOURCES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.cu"))}
_CTYPES = {
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "long long": ctypes.c_longlong,
    "unsigned long long": ctypes.c_ulonglong,
    "unsigned int": ctypes.c_uint,
}
_HEAD = """
#include <barrier>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>
#define __global__
#define __device__
#define __shared__ static
using std::exp;
using std::sqrt;
struct Index { unsigned x; };
static thread_local Index threadIdx, blockIdx;
static Index blockDim, gridDim;
static std::unique_ptr<std::barrier<>> gate;
static void __syncthreads() { gate->arrive_and_wait(); }
static unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
template <typename Kernel> void launched(unsigned blocks, unsigned threads, Kernel kernel) {
    gate = std::make_unique<std::barrier<>>(threads);
    blockDim.x = threads;
    gridDim.x = blocks;
    std::vector<std::thread> running;
    for (unsigned t = 0; t < threads; t++)
        running.emplace_back([=] {
            threadIdx.x = t;
            for (unsigned b = 0; b < blocks; b++) {
                blockIdx.x = b;
                kernel();
                __syncthreads();
            }
        });
    for (auto &thread : running) thread.join();
}
"""


def declared(source: str) -> dict[str, list[str]]:
    """Kernel name to what it declares, such as "const float *x"."""
    found = re.findall(r'extern "C" __global__ void (\w+)\((.*?)\)', source, re.DOTALL)
    return {name: [" ".join(part.split()) for part in parameters.split(",")] for name, parameters in found}


def kind_of(parameter: str) -> str:
    """ "const float *x" -> "float" """
    return re.sub(r"const | ?\*?\w+$", "", parameter)


def name_of(parameter: str) -> str:
    """ "const float *x" -> "x" """
    return parameter.split()[-1].strip("*")


class Compiled:
    """A family of kernels; `run` starts one of them on NumPy arrays."""

    def __init__(self, family: str, folder: Path) -> None:
        self.kernels = declared(SOURCES[family])
        calls = [
            f'extern "C" void run_{name}(unsigned blocks, unsigned threads, {", ".join(parameters)}) '
            f"{{ launched(blocks, threads, [=] {{ {name}({', '.join(map(name_of, parameters))}); }}); }}"
            for name, parameters in self.kernels.items()
        ]
        text, library = folder / f"{family}.cpp", folder / f"{family}.so"
        text.write_text("\n".join([_HEAD, SOURCES[family], *calls]), encoding="utf-8")
        options = ["-std=c++20", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-pthread"]
        built = subprocess.run(
            [str(COMPILER), *options, str(text), "-o", str(library)], capture_output=True, text=True, check=False
        )
        assert built.returncode == 0, built.stderr
        self.library = ctypes.CDLL(str(library))

    def run(self, name: str, blocks: int, threads: int, *arguments: Any) -> None:
        given = [
            ctypes.c_void_p(value.ctypes.data) if isinstance(value, np.ndarray) else _CTYPES[kind_of(p)](value)
            for p, value in zip(self.kernels[name], arguments, strict=True)
        ]
        getattr(self.library, f"run_{name}")(ctypes.c_uint(blocks), ctypes.c_uint(threads), *given)
