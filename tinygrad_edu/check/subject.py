"""What is checked: a function of float64 arrays, with its values and its gradients by rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinygrad_edu.arrays import devices, dtypes, library, memory
from tinygrad_edu.engine.modes import setting
from tinygrad_edu.engine.tape import Variable
from tinygrad_edu.functional import grad
from tinygrad_edu.tensor import Tensor, tensor


def tensors_in(value: Any) -> list[Any]:
    """The tensors in a result, which may be nested in tuples, lists and dicts among anything else."""
    if isinstance(value, Variable):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for part in value for t in tensors_in(part)] if isinstance(value, (tuple, list)) else []


class Subject:
    """A function, the arguments of one call, and which of them (`at`) are to be differentiated.

    Of its outputs the floating ones count that need a gradient; where none does, all floating ones count, and every
    gradient is missing. `values` are theirs at the given point.
    """

    def __init__(self, function: Callable[..., Any], arguments: Sequence[Any], at: Sequence[int], what: str) -> None:
        self.function, self.arguments, self.at, self.what = function, list(arguments), list(at), what
        self.points = [memory.own_copy(arguments[i].array) for i in at]
        self.names: list[int | str] = list(self.at)  # of the inputs, in a finding
        self.inputs = [f"input {i}" for i in at]  # and in a message
        self.outputs: list[str] = []
        self.counted: list[int] = []
        self.recorded = False  # whether any output needs a gradient
        self.values: list[Any] = []

    def prepare(self) -> None:
        """The first evaluation: finds which outputs count, and refuses what cannot be checked."""
        outputs = self.call(self.points)[1]
        floating = [i for i, y in enumerate(outputs) if y.array.dtype.kind == "f"]
        if not floating:
            raise ValueError(f"{self.what}: the function returns no floating tensor, so there is nothing to check")
        recorded = [i for i in floating if outputs[i].requires_grad]
        self.counted, self.recorded = recorded or floating, bool(recorded)
        for i in self.counted:
            y = outputs[i].array
            if y.dtype != dtypes.float64:
                raise TypeError(
                    f"{self.what}: output {i} is {y.dtype}, in which differences cannot tell rounding from a wrong "
                    f"rule; something in the function computes in {y.dtype}: convert it with .double()"
                )
        self.values = [memory.own_copy(outputs[i].array) for i in self.counted]
        self.outputs = self.outputs or [f"output {i}" for i in range(len(outputs))]
        if not any(library.module_of(y).isfinite(y).any().item() for y in self.values) and any(
            y.size for y in self.values
        ):
            raise ValueError(f"{self.what}: the function gives only NaN or Inf here, so there is nothing to compare")

    def call(self, points: Sequence[Any]) -> tuple[list[Tensor], list[Any]]:
        """One call: the inputs as fresh leaves, and all tensors of the result."""
        arguments = list(self.arguments)
        leaves = [tensor(p, requires_grad=True) for p in points]
        for i, leaf in zip(self.at, leaves, strict=True):
            arguments[i] = leaf
        with setting(grad=True):
            return leaves, tensors_in(self.function(*arguments))

    def evaluate(self, points: Sequence[Any] | None = None) -> list[Any]:
        """The counted outputs, as arrays, at other inputs."""
        with np.errstate(all="ignore"):
            outputs = self.call(self.points if points is None else points)[1]
        if len(outputs) <= self.counted[-1]:
            raise RuntimeError(f"{self.what}: the function returned fewer tensors ({len(outputs)}) than at first")
        found = [outputs[i].array for i in self.counted]
        for y, first in zip(found, self.values, strict=True):
            if y.shape != first.shape:
                raise RuntimeError(
                    f"{self.what}: an output has shape {y.shape}, at first it had {first.shape}; a function whose "
                    f"result changes its shape with the input has no derivative to check"
                )
        return found

    def gradients(self, weights: Sequence[Any]) -> list[Any]:
        """By rule: of Σ weights ⊙ outputs for every input, arrays or None where no gradient arrives."""
        with np.errstate(all="ignore"):
            leaves, outputs = self.call(self.points)
            pairs = [(outputs[i], w) for i, w in zip(self.counted, weights, strict=True) if outputs[i].requires_grad]
            if not pairs:
                return [None] * len(leaves)
            found = grad([y for y, _ in pairs], leaves, [w for _, w in pairs], allow_unused=True)
        return [None if g is None else g.array for g in found]

    def random_weights(self, rng: np.random.Generator) -> list[Any]:
        """Numbers to sum the outputs with, so that no error cancels by symmetry; 0 for elements that are not finite."""
        return [
            library.module_of(y).where(library.module_of(y).isfinite(y), random_signs(y, rng), 0.0) for y in self.values
        ]


def random_signs(like: Any, rng: np.random.Generator) -> Any:
    """±0.5 to ±1.5 in steps of 2⁻¹²: none near 0, where it would hide an error, and of few bits, for exact steps."""
    drawn = rng.integers(2048, 6145, like.shape) * rng.choice((-1.0, 1.0), like.shape) / 4096
    return devices.to_device(np.asarray(drawn, dtype=np.float64), devices.device_of(like))


def second(subject: Subject, weights: Sequence[Any]) -> Subject:
    """The gradients of `subject` as a function of its inputs and of the gradients of its outputs."""
    count, first = len(subject.arguments), len(subject.counted)

    def gradients(*arguments: Any) -> Any:
        inputs, seeds = arguments[:count], arguments[count:]
        outputs = tensors_in(subject.function(*inputs))
        pairs = [(outputs[i], w) for i, w in zip(subject.counted, seeds, strict=True) if outputs[i].requires_grad]
        if not pairs:
            return ()
        leaves = [inputs[i] for i in subject.at]
        gs = grad([y for y, _ in pairs], leaves, [w for _, w in pairs], create_graph=True, allow_unused=True)
        found.outputs = [f"(d {name})" for name, g in zip(subject.inputs, gs, strict=True) if g is not None]
        return gs

    at = [*subject.at, *range(count, count + first)]
    found = Subject(gradients, [*subject.arguments, *map(Tensor, weights)], at, subject.what)
    seeds = [f"grad_outputs[{i}]" for i in range(first)]
    found.names, found.inputs = [*subject.names, *seeds], [*subject.inputs, *seeds]
    return found
