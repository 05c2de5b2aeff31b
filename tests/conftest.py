"""Options of the test run."""

import signal

import pytest


def pytest_configure() -> None:
    """A run under nohup or in the background ignores signals, and so would the programs that the tests start."""
    for name, handler in (("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL)):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--whole", action="store_true", help="run the proofs of tests/proof at full length, not in their short form"
    )


@pytest.fixture(scope="session")
def whole(request: pytest.FixtureRequest) -> bool:
    """True where a proof should run at full length."""
    return bool(request.config.getoption("--whole"))
