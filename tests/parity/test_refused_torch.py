"""What is refused here as senseless is refused by PyTorch, too."""

from __future__ import annotations

import pytest
import torch

from tests.refused import REFUSED, called


@pytest.mark.parametrize("call", REFUSED)
@pytest.mark.filterwarnings("ignore")
def test_what_makes_no_sense_is_refused(call: str) -> None:
    with pytest.raises((ValueError, TypeError, IndexError, RuntimeError)):
        called(call, torch)
