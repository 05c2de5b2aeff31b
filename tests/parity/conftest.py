"""This folder compares with PyTorch; without it, everything here is skipped."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make parity installs it)")
