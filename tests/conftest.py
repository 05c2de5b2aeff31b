"""Options of the test run."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--whole", action="store_true", help="run the proofs of tests/proof at full length, not in their short form"
    )


@pytest.fixture(scope="session")
def whole(request: pytest.FixtureRequest) -> bool:
    """True where a proof should run at full length."""
    return bool(request.config.getoption("--whole"))
