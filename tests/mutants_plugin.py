"""The pytest plugin of tests/mutants.py: notes which functions each test runs, or runs chosen tests in a given order.

The environment variable MUTANTS names a JSON file with what is asked: {"root": FOLDER, "out": FILE} to measure,
{"tests": {ID: SECONDS}, "budget": SECONDS, "out": FILE} to run these, each of which may take that long. An ID may lack
file and class.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

ASKED: dict[str, Any] = json.loads(Path(os.environ["MUTANTS"]).read_text(encoding="utf-8"))
OUT = Path(ASKED["out"])
MEASURING = "root" in ASKED
COLLECTION = "collection"  # stands for a test where the package fails while the tests are imported
IMPORT_SECONDS = 180

start = time.monotonic()
ran: dict[int, CodeType] = {}  # by identity, since comparing code objects is slow
functions: dict[str, int] = {}
measured: dict[str, dict[str, Any]] = {}
started = [False]
failed: list[str] = []
hung = open(os.devnull, "w")  # noqa: SIM115 (faulthandler writes to it until the process ends)


def note(frame: FrameType, event: str, argument: object) -> None:
    if event == "call":
        ran[id(frame.f_code)] = frame.f_code


def listen(event: str, arguments: tuple[Any, ...]) -> None:
    if event in {"subprocess.Popen", "os.fork", "os.posix_spawn"}:  # another process, in which nothing can be noted
        started[0] = True


def taken() -> list[int]:
    """The package's functions noted since the last time, as `file:qualified name`, each a number in `functions`."""
    sys.setprofile(None)
    root = Path(ASKED["root"])
    codes = [code for code in list(ran.values()) if code.co_filename.startswith(f"{root / 'tinygrad_edu'}{os.sep}")]
    ran.clear()
    names = {f"{Path(code.co_filename).relative_to(root).as_posix()}:{code.co_qualname}" for code in codes}
    return sorted(functions.setdefault(name, len(functions)) for name in names)


def measure() -> None:
    started[0] = False
    threading.setprofile(note)  # of the threads to come; those of a pool begin in some test and keep it
    sys.setprofile(note)


def limit(seconds: float, test: str) -> None:
    """End the process when this takes longer, even where it waits for a lock or loops in C; `test` is then to blame."""
    OUT.write_text(json.dumps({"hangs": test}), encoding="utf-8")
    faulthandler.dump_traceback_later(seconds, exit=True, file=hung)


def asked(item: pytest.Item) -> str:
    """What the test was asked by: its identifier, or that without file and class."""
    return item.nodeid if item.nodeid in ASKED["tests"] else re.sub(r"^[^\[]*::", "", item.nodeid)


def pytest_configure() -> None:
    if MEASURING:
        sys.addaudithook(listen)
        measure()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if MEASURING:
        measured[COLLECTION] = {"seconds": 0.0, "passed": True, "starts": False, "functions": taken()}
    else:
        rank = {test: n for n, test in enumerate(ASKED["tests"])}
        items[:] = sorted((item for item in items if asked(item) in rank), key=lambda item: rank[asked(item)])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    begun = time.monotonic()
    if MEASURING:
        measured[item.nodeid] = {"passed": True}
        measure()
    else:
        limit(ASKED["tests"][asked(item)], item.nodeid)
    try:
        return (yield)
    finally:
        if MEASURING:
            seconds = round(time.monotonic() - begun, 3)
            measured[item.nodeid] |= {"seconds": seconds, "functions": taken(), "starts": started[0]}
        elif time.monotonic() - start > ASKED["budget"]:
            item.session.shouldstop = "the budget is spent"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if MEASURING:
        measured[report.nodeid]["passed"] &= not report.failed
    elif report.failed:
        failed.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    faulthandler.cancel_dump_traceback_later()
    if MEASURING:
        told: dict[str, Any] = {"functions": list(functions), "tests": measured}
    else:
        told = {
            "fails": failed,
            "status": int(exitstatus),
            "stopped": session.shouldstop,
            "ran": session.testscollected,
        }
    OUT.write_text(json.dumps(told), encoding="utf-8")


if not MEASURING:
    limit(IMPORT_SECONDS, COLLECTION)
