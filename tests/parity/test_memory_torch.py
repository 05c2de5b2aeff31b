"""Which results share memory with their source, as the table of tests/test_memory.py says of PyTorch, too."""

from __future__ import annotations

import pytest
import torch

from tests.test_memory import OWN, SHARED, calls, relation


@pytest.mark.parametrize("call", calls(SHARED) + calls(OWN))
@pytest.mark.filterwarnings("ignore")
def test_memory_is_shared_as_in_pytorch(call: str) -> None:
    assert relation(call, torch) == ("shared" if call in calls(SHARED) else "own")
