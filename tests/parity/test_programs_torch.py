"""Whole PyTorch programs, run with PyTorch and with this package: loss, gradients, steps of training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tests.programs as programs
import tests.programs_later as programs_later
import tinygrad_edu as tg


def trained(package: Any, program: Any, state: Any) -> tuple[Any, list[float], list[Any], Any]:
    """(the first state, losses of five steps, gradients of the first, the last state) from a given first state."""
    package.manual_seed(0)
    model, loss_of = program(package)
    model = model.double()
    if state is not None:
        missing = model.load_state_dict({name: package.tensor(value) for name, value in state.items()})
        assert not missing.missing_keys
        assert not missing.unexpected_keys
    first = {name: value.detach().numpy().copy() for name, value in model.state_dict().items()}
    wanted = [p for p in model.parameters() if p.requires_grad]
    optimizer = package.optim.AdamW(wanted, lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1, fused=False)
    scheduler = package.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    losses, gradients = [], []
    for step in range(5):
        loss = loss_of(package, model)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if step == 0:
            gradients = [None if p.grad is None else p.grad.numpy().copy() for p in model.parameters()]
        package.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return first, losses, gradients, {n: t.detach().numpy() for n, t in model.state_dict().items()}


@pytest.mark.parametrize("program", [*programs.PROGRAMS, *programs_later.PROGRAMS], ids=lambda p: p.__name__)
def test_a_program_gives_what_it_gives_in_pytorch(program: Any) -> None:
    state, losses, gradients, last = trained(torch, program, None)
    ours_state, ours, our_gradients, our_last = trained(tg, program, state)
    assert list(ours_state) == list(state)
    assert ours == pytest.approx(losses, rel=1e-6)
    for a, b in zip(our_gradients, gradients, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-8)
    for name in last:
        np.testing.assert_allclose(our_last[name], last[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("program", [programs.scalars, programs.by_hand], ids=lambda p: p.__name__)
def test_a_program_without_modules(program: Any) -> None:
    assert program(tg) == pytest.approx(program(torch), rel=1e-9)
