"""Every op of PyTorch's own table that exists here, on the samples that PyTorch is tested with; see op_table.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

pytest.importorskip("expecttest", reason="PyTorch's table of ops needs it: make parity installs it")

from tests.parity import op_table

ENTRIES = op_table.entries()


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", ENTRIES)
def test_an_op_does_what_it_does_in_pytorch(name: str) -> None:
    found = op_table.report(ENTRIES[name])
    count = len(found.differences)
    assert not count, "\n".join([f"{count} of {found.calls} calls differ", *found.differences[:20]])


def test_the_list_of_what_differs_on_purpose_is_short() -> None:
    assert len(op_table.DIFFERENCES) <= 30
    assert all(op_table.DIFFERENCES.values())
