"""On a GPU, everything against NumPy; without one, all of it is skipped. It needs numpy, cupy and pytest alone."""

from pathlib import Path
from typing import Any

import pytest

from tests.gpu.told import lines
from tinygrad_edu import cuda
from tinygrad_edu.arrays import gpu

try:
    gpu.library()
except ValueError as error:
    missing = str(error)

    def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> None:
        pytest.skip(missing)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if lines and cuda.is_available():
        terminalreporter.section(f"on {cuda.get_device_name()}, CuPy {gpu.library().__version__}")
        for line in lines:
            terminalreporter.write_line(line)
