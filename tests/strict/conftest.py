"""Every test here runs with the strict stand-in in CuPy's place; the log tells how much ran on it."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from tests.strict import ran
from tests.strict.device_array import NAMES
from tests.strict.library import installed


@pytest.fixture(autouse=True)
def cupy() -> Iterator[ModuleType]:
    with installed() as module:
        yield module


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if ran.counts:
        told = ", ".join(f"{len(names)} {what}" for what, names in ran.counts.items())
        terminalreporter.write_line(f"on the strict stand-in for CuPy {NAMES['version']}, equal to NumPy: {told}")
