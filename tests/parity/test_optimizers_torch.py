"""PyTorch's own table of optimizers: every set of options, several steps in both libraries; what it refuses, too."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import tinygrad_edu as tg

pytest.importorskip("expecttest", reason="PyTorch's table of optimizers needs it: make parity installs it")

from torch.testing._internal import common_optimizers as table

# What is not here, and what the error says of it; the options that ask for it are left out.
MISSING = [(".*", r"lr must be a finite number of at least 0, not a Tensor")]

# PyTorch's Muon computes its iteration in bfloat16, so that a step has three right digits; here it is the parameter's
# dtype. Said in the class.
LIMITS = {"Muon": 2e-2}

INFOS = [info for info in table.optim_db if info.name in tg.optim.__all__]
SHAPES: list[tuple[int, ...]] = [(4, 3), (2, 5), (3,), (), (2, 2, 2)]


def pair(shapes: list[tuple[int, ...]], dtype: Any) -> tuple[list[Any], list[Any]]:
    random = np.random.default_rng(3)
    values = [random.normal(size=shape) for shape in shapes]
    theirs = [torch.nn.Parameter(torch.tensor(v, dtype=dtype)) for v in values]
    return theirs, [tg.nn.Parameter(tg.tensor(p.detach().numpy().copy())) for p in theirs]


def grouped(parameters: list[Any], lr: float) -> list[dict[str, Any]]:
    return [{"params": parameters[:1], "lr": lr, "weight_decay": 0.3}, {"params": parameters[1:]}]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("info", INFOS, ids=lambda info: info.name)
def test_no_set_of_options_differs(info: Any, dtype: Any) -> None:
    limit = LIMITS.get(info.name, 1e-12 if dtype == torch.float64 else 2e-6)
    for options in info.optim_inputs_func(device="cpu", dtype=dtype):
        for groups in (False, True):
            theirs, mine = pair(SHAPES[:2] if info.name == "Muon" else SHAPES, dtype)
            a, b = (grouped(ps, 0.02) if groups else ps for ps in (theirs, mine))
            kwargs = {k: tg.tensor(v.item()) if isinstance(v, torch.Tensor) else v for k, v in options.kwargs.items()}
            try:
                ours = getattr(tg.optim, info.name)(b, **kwargs)
            except ValueError as error:
                if any(re.fullmatch(n, info.name) and re.search(text, str(error)) for n, text in MISSING):
                    continue
                raise
            optimizer = info.optim_cls(a, **options.kwargs)
            random = np.random.default_rng(5)
            for step in range(6):
                for i, (p, w) in enumerate(zip(theirs, mine)):
                    gradient = random.normal(size=tuple(p.shape)) * 10.0 ** random.integers(-3, 2)
                    some = (step + i) % 4 > 0
                    p.grad = torch.tensor(gradient, dtype=dtype) if some else None
                    w.grad = tg.tensor(p.grad.numpy().copy()) if some else None
                optimizer.step()
                ours.step()
                for p, w in zip(theirs, mine):
                    where = f"{info.name}, {options.desc}, step {step}"
                    same(p, w, limit, where)
                    state = ours.state.get(w)  # from its first step on
                    for name, value in optimizer.state[p].items() if state else ():
                        if name == "step":
                            assert int(value) == state["step"], where
                        elif value is not None:
                            same(value, state[name], limit, f"{where}: {name}")


def same(theirs: Any, mine: Any, limit: float, where: str) -> None:
    assert str(theirs.dtype) == f"torch.{mine.dtype}", where
    scale = max(1.0, float(theirs.detach().abs().max()))
    np.testing.assert_allclose(mine.array, theirs.detach().numpy(), rtol=0, atol=limit * scale, err_msg=where)


@pytest.mark.parametrize("info", INFOS, ids=lambda info: info.name)
def test_what_pytorch_refuses_is_refused(info: Any) -> None:
    taken = []
    for case in info.optim_error_inputs_func(device="cpu", dtype=torch.float32):
        made: dict[int, Any] = {}
        parameters = case.optimizer_error_input.params
        if isinstance(parameters, list) and any(isinstance(p, torch.Tensor) and p.is_complex() for p in parameters):
            continue  # there are no complex numbers here
        given = [tg.nn.Parameter(tg.ones(2, 3))] if parameters is None else converted(parameters, made)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                optimizer = getattr(tg.optim, info.name)(given, **converted(case.optimizer_error_input.kwargs, made))
                if case.error_on is table.OptimizerErrorEnum.STEP_ERROR:
                    optimizer.step()
        except (ValueError, TypeError, RuntimeError, UserWarning):
            continue
        taken.append(case.optimizer_error_input.desc)
    assert not taken, f"{info.name} takes what PyTorch refuses: {taken}"


def converted(value: Any, made: dict[int, Any]) -> Any:
    if isinstance(value, torch.Tensor):
        if id(value) not in made:
            made[id(value)] = tg.nn.Parameter(tg.tensor(value.detach().numpy().copy()))
        return made[id(value)]
    if isinstance(value, dict):
        return {k: converted(v, made) for k, v in value.items()}
    return type(value)(converted(v, made) for v in value) if isinstance(value, tuple | list) else value
