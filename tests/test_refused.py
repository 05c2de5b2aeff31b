"""Arguments that make no sense: an error that says what came and what is wanted, never a result."""

from __future__ import annotations

import re

import pytest

import tinygrad_edu as tg
from tests.refused import REFUSED, called


@pytest.mark.parametrize("call", REFUSED)
def test_what_makes_no_sense_is_refused(call: str) -> None:
    with pytest.raises((ValueError, TypeError, IndexError)) as caught:
        called(call, tg)
    said = str(caught.value)
    assert re.search(r"[a-zA-Z_]{3}.*[ :]", said)
    assert len(said) > 20, said
    assert type(caught.value).__module__ == "builtins", type(caught.value)
