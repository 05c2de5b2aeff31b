"""This folder compares with PyTorch; without it, everything here is skipped."""

import importlib.util
from pathlib import Path

import pytest

if importlib.util.find_spec("torch") is None:

    def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> None:
        pytest.skip("PyTorch is not installed: make parity installs it")
