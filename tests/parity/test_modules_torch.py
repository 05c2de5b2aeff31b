"""PyTorch's own table of modules: every sample of a class that exists here, in both libraries."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import tinygrad_edu as tg

pytest.importorskip("expecttest", reason="PyTorch's table of modules needs it: make parity installs it")

from tests.parity import module_samples as table

# What is not here, and what the error says of it; the samples that ask for it are left out.
MISSING = [
    ("AvgPool2d", r"unexpected keyword argument 'divisor_override'"),
    ("MaxPool[12]d", r"unexpected keyword argument 'return_indices'"),
    ("LSTM", r"proj_size is not here"),
]

# Each difference from PyTorch with its reason: (class, what differs). Second derivatives that are zero everywhere are
# None here where PyTorch gives zeros: the first derivative was not computed from that input (see module_samples).
DIFFERENCES: list[tuple[str, str]] = []

TABLE = [pytest.param(info, id=f"{i}-{info.module_cls.__name__}") for i, info in enumerate(table.infos())]


@pytest.fixture(autouse=True)
def _quiet_on_one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.set_num_threads(before)


def wrong(info: Any, dtype: Any, training: bool, every: int) -> list[str]:
    name, found = info.module_cls.__name__, []
    for i, sample in enumerate(table.samples(info, dtype, training)):
        if i % every:
            continue
        try:
            differs = table.difference(info, sample, dtype, training)
        except table.Unsupported as error:
            known = any(re.fullmatch(n, name) and re.search(text, str(error)) for n, text in MISSING)
            differs = None if known else f"refused: {error}"
        if differs and not any(re.fullmatch(n, name) and re.search(text, differs) for n, text in DIFFERENCES):
            found.append(f"{name}, sample {i} in {dtype}, {'training' if training else 'evaluation'}: {differs}")
    return found


@pytest.mark.parametrize("info", TABLE)
def test_no_sample_of_a_module_differs(info: Any, whole: bool) -> None:
    """All samples; of the layers with many, in short form, some: a third in float64 in training, else a seventh."""
    heavy = "Transformer" in info.module_cls.__name__ or info.module_cls.__name__ in ("MultiheadAttention", "RNN")
    found = wrong(info, torch.float64, True, 3 if heavy and not whole else 1)
    for dtype, training in [
        (torch.float64, False),
        (torch.float32, True),
        (torch.float32, False),
        (torch.float16, True),
        (torch.float16, False),
    ]:
        found += wrong(info, dtype, training, 7 if heavy and not whole else 1)
    assert not found, f"{len(found)} samples:\n" + "\n".join(found[:10])


@pytest.mark.parametrize("info", TABLE)
def test_what_pytorch_refuses_gives_no_result(info: Any) -> None:
    taken = [
        f"sample {i}: {case.error_regex}"
        for training in (True, False)
        for i, case in enumerate(table.error_samples(info, torch.float32, training))
        if not table.refused(info, case)
    ]
    assert not taken, f"{info.module_cls.__name__} takes what PyTorch refuses: {taken}"


def test_modules_name_their_arguments_as_pytorch_does() -> None:
    different = {}
    for name in tg.nn.__all__:
        ours, theirs = getattr(tg.nn, name), getattr(torch.nn, name, None)
        if inspect.isclass(ours) and issubclass(ours, tg.nn.Module) and theirs is not None and name != "Module":
            for method in ("__init__", "forward"):
                a, b = (list(inspect.signature(getattr(c, method)).parameters) for c in (ours, theirs))
                if "args" not in b and "args" not in a and a[: len(b)] != b[: len(a)]:
                    different[f"{name}.{method}"] = (a, b)
    assert not different
