"""What a check that fails says: the verdicts, a finding with its numbers, and the error raised."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """Why a check failed."""

    WRONG = "wrong rule"  # rule and differences are both certain, and disagree
    MISSING = "missing gradient"  # none arrives at an input that the function depends on
    UNNEEDED = "gradient of nothing"  # one arrives at an input that changes nothing
    KINK = "non-differentiable point"  # the differences of the two sides disagree, however small the step
    NOISE = "float noise"  # rounding hides the differences at every step, so nothing was shown
    RANDOM = "random function"  # two evaluations at one point differ
    RAISED = "rule raised an error"


@dataclass(frozen=True)
class Finding:
    """One derivative that could not be confirmed: d output[output_index] / d input[index], or a sum of many of them.

    `input` is a position of the function's inputs, or the name of an op's. `index` and `output_index` are None where
    the finding holds for the input, or the output, as a whole. `error` is how far `by_differences` may be off,
    `kinked` whether the slopes of the two sides differ there, `what` the derivative in words.
    """

    verdict: Verdict
    input: int | str | None = None
    index: tuple[int, ...] | None = None
    output: int = 0
    output_index: tuple[int, ...] | None = None
    by_rule: float | None = None
    by_differences: float | None = None
    error: float = 0.0
    kinked: bool = False
    what: str = ""
    note: str = ""
    op: str | None = None

    def numbers(self) -> str:
        """The derivative and what it is by rule and by differences, in one line."""
        if self.by_rule is None or self.by_differences is None:
            return ""
        bounds = ratio = ""
        if 1e-6 * abs(self.by_differences) < self.error < math.inf:
            bounds = f" ± {self.error:.1g}"
        if self.verdict is Verdict.WRONG and self.by_differences and self.by_rule and math.isfinite(self.by_rule):
            ratio = f" (ratio {self.by_rule / self.by_differences:.6g})"
        return f"{self.what}: by rule {self.by_rule:.10g}, by differences {self.by_differences:.10g}{bounds}{ratio}"


class GradcheckError(RuntimeError):
    """A derivative that could not be confirmed, with the most telling numbers that were found.

    Attributes:
        verdict: why, a `Verdict` (a string).
        op: the name of the op whose rule it is, None where no single op is to blame.
        input: the op's input by name, or the function's by position.
        index, output, output_index: which element of the input, and which of the outputs and its element.
        by_rule, by_differences: the two numbers.
        function: the finding for the function as a whole, a `Finding`.
    """

    def __init__(self, message: str, finding: Finding, function: Finding) -> None:
        super().__init__(message)
        self.function = function
        self.verdict = finding.verdict
        self.op = finding.op
        self.input = finding.input
        self.index = finding.index
        self.output = finding.output
        self.output_index = finding.output_index
        self.by_rule = finding.by_rule
        self.by_differences = finding.by_differences

    def __reduce__(self) -> Any:
        return _rebuild, (str(self), self.__dict__)


def _rebuild(message: str, state: dict[str, Any]) -> GradcheckError:
    error = GradcheckError.__new__(GradcheckError, message)
    error.args = (message,)
    error.__dict__.update(state)
    return error
