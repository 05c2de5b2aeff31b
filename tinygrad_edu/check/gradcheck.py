"""gradcheck and gradgradcheck: derivatives by the ops' rules against differences, and the rule to blame."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tinygrad_edu.arrays import dtypes, library
from tinygrad_edu.check.errors import Finding, GradcheckError, Verdict
from tinygrad_edu.check.examine import Options, examine, examine_second
from tinygrad_edu.check.locate import clue, first_random_op, op_to_blame, ops_of
from tinygrad_edu.check.subject import Subject, second
from tinygrad_edu.engine.tape import Variable


def gradcheck(
    fn: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-10,
    rtol: float = 1e-7,
    directions: int = 2,
    seed: int = 0,
    raise_exception: bool = True,
) -> bool:
    """Whether the gradients of `fn` by its ops' rules are those that differences give.

    Σ g ⊙ v  =  (f(x + h·v) − f(x − h·v)) / 2h  for random directions v, f the sum of all outputs under random weights.

    A direction costs one reverse pass and two evaluations for each input, whatever its size, and finds an error in one
    element of a million, as neither the weights nor the elements of v come near 0. Where the two sides disagree, the
    slope is measured again at steps from 2⁻⁴ to 2⁻³² and its own error is estimated, so that the verdict is one of a
    wrong rule, a missing or unneeded gradient, a point without derivative (the slopes from both sides stay apart as
    the step shrinks) or float noise (they scatter as rounding does). Then the element is looked up by halving, and
    each op that `fn` ran is examined by itself, to name the one whose rule is wrong.

    Args:
        fn: takes the inputs, returns a tensor, or tuples, lists and dicts of tensors among anything else. Its
            floating outputs that need a gradient are checked; where none does, all floating ones are.
        inputs: a tensor or a sequence of arguments; the float64 tensors with requires_grad=True are checked, in
            copies. float32 is refused: it rounds 5·10⁸ times as coarsely, and at no step a wrong rule shows clearly.
        eps: the first step h, rounded to a power of 2; elements above 1 move in proportion to their size.
        atol: differences of the derivative along a direction, in units of f/x, that count as none. A function whose
            gradients are all this small is not checked at all: scale it.
        rtol: the same, relative to the derivative along the direction.
        directions: how many random directions each input is moved along.
        seed: of the directions and weights.
        raise_exception: raise a GradcheckError instead of returning False.

    Raises:
        GradcheckError: a derivative was not confirmed; its attributes name op, input, index and both numbers.
        TypeError: an input or an output is not float64.
        ValueError: nothing is there to be checked, or an option is out of range.

    Unlike PyTorch's, it never takes float32, and its tolerances are those of float64.
    Source: Griewank and Walther, "Evaluating derivatives", 2nd edition 2008, for directional derivatives; Richardson
    1911 for differences extrapolated to a step of 0.

    >>> import tinygrad_edu as tg
    >>> from tinygrad_edu.engine.tape import Op
    >>> class Cube(Op):
    ...     '''{out} = {x}³'''
    ...     def forward(x):
    ...         return x * x * x
    ...     def dx(g, x):
    ...         '''d{x} = 3 {x}² ⊙ d{out}'''
    ...         return g * (x * x * 3.0)
    >>> x = tg.tensor([1.0, -2.0, 0.5], dtype=tg.float64, requires_grad=True)
    >>> gradcheck(Cube, x), gradgradcheck(Cube, x)
    (True, True)

    >>> class LargeCube(Op):  # the same, 1 % too large
    ...     def forward(x):
    ...         return x * x * x
    ...     def dx(g, x):
    ...         return g * (x * x * 3.03)
    >>> try:
    ...     gradcheck(lambda x: (x + LargeCube(x)).sum(), x)
    ... except GradcheckError as error:
    ...     print(error.op, error.input, error.index, round(error.by_rule, 6), round(error.by_differences, 6))
    large_cube x (1,) 12.12 12.0
    """
    subject, options = _prepared("gradcheck", fn, inputs, eps, atol, rtol, directions, seed)
    return _verdict("gradcheck", subject, None, options, raise_exception)


def gradgradcheck(
    fn: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-10,
    rtol: float = 1e-7,
    directions: int = 2,
    seed: int = 0,
    raise_exception: bool = True,
) -> bool:
    """Whether the second derivatives of `fn` by its ops' rules are those that differences of its gradients give.

    The gradients, computed under create_graph=True, are checked as a function of the inputs and of `grad_outputs`;
    that the first derivatives themselves are right is gradcheck's to say.

    Args:
        grad_outputs: gradients of the outputs that need one, a tensor or a sequence; random where None.
        fn, inputs, eps, atol, rtol, directions, seed, raise_exception: as for `gradcheck`.

    Raises:
        GradcheckError, TypeError, ValueError: as for `gradcheck`.

    >>> import tinygrad_edu as tg
    >>> gradgradcheck(lambda x: x.tanh(), tg.tensor([0.5, -1.0], dtype=tg.float64, requires_grad=True))
    True
    """
    subject, options = _prepared("gradgradcheck", fn, inputs, eps, atol, rtol, directions, seed)
    if grad_outputs is None:
        weights = subject.random_weights(np.random.default_rng(seed))
    else:
        given = [grad_outputs] if isinstance(grad_outputs, Variable) or library.is_array(grad_outputs) else grad_outputs
        weights = [w.array if isinstance(w, Variable) else w for w in given]
        shapes, wanted = [np.shape(w) for w in weights], [y.shape for y in subject.values]
        if shapes != wanted:
            raise ValueError(f"gradgradcheck: grad_outputs have the shapes {shapes}, the outputs {wanted}")
    if not subject.recorded:  # no first derivative at all
        return _verdict("gradgradcheck", subject, None, options, raise_exception)
    return _verdict("gradgradcheck", subject, weights, options, raise_exception)


def _prepared(
    what: str, fn: Callable[..., Any], inputs: Any, eps: float, atol: float, rtol: float, directions: int, seed: int
) -> tuple[Subject, Options]:
    if not (0.0 < eps <= 1e-2 and atol >= 0.0 and rtol >= 0.0 and directions >= 1):
        raise ValueError(
            f"{what}: eps must lie above 0 and at most at 0.01, atol and rtol must not be negative and directions at "
            f"least 1; got eps={eps}, atol={atol}, rtol={rtol}, directions={directions}"
        )
    arguments = [inputs] if isinstance(inputs, Variable) else list(inputs)
    at = [i for i, x in enumerate(arguments) if isinstance(x, Variable) and x.requires_grad]
    if not at:
        raise ValueError(f"{what}: no input is a tensor with requires_grad=True, so there is nothing to check")
    for i in at:
        if arguments[i].array.dtype != dtypes.float64:
            raise TypeError(
                f"{what}: input {i} is {arguments[i].array.dtype}, in which differences cannot tell rounding from a "
                f"wrong rule; give float64, for example x.detach().double().requires_grad_()"
            )
        if not library.module_of(arguments[i].array).isfinite(arguments[i].array).all().item():
            raise ValueError(f"{what}: input {i} holds NaN or Inf, where there is no derivative")
    subject = Subject(fn, arguments, at, what)
    subject.prepare()
    return subject, Options(eps, atol, rtol, directions, seed)


def _verdict(what: str, subject: Subject, weights: list[Any] | None, options: Options, raising: bool) -> bool:
    """Examine, with `weights` the second derivatives; where that fails, look for the op, and raise or return False."""
    cause: Exception | None = None
    try:
        with np.errstate(all="ignore"):
            found = examine(subject, options) if weights is None else examine_second(subject, weights, options)
    except Exception as error:
        found, cause = Finding(Verdict.RAISED, note=f"{type(error).__name__}: {error}"), error
    if found is None:
        return True
    op: Finding | None = None
    hint = ""
    if found.verdict is Verdict.RANDOM:
        found = replace(found, op=first_random_op(subject))
    else:
        whole = subject if weights is None or cause is not None else second(subject, weights)
        applications = ops_of(whole)
        with np.errstate(all="ignore"):
            op = op_to_blame(applications, options, 1 if weights is None else 2)
        if op is not None and op.verdict is Verdict.KINK and found.verdict is not Verdict.KINK and not found.kinked:
            op = None  # it stands at a kink, too, but that is not what is wrong
        if op is None:
            hint = clue(applications, found.verdict)
    if cause is not None and (op is None or op.verdict is not Verdict.RAISED):
        raise cause
    if not raising:
        return False
    raise GradcheckError(_message(what, found, op, hint), op or found, found) from cause


def _message(what: str, found: Finding, op: Finding | None, hint: str) -> str:
    told = op or found
    lines = [f"{what}: {_headline(told)}"]
    if told.note:
        lines.append(told.note)
    if op is not None:
        lines.append(f"op {op.op}: {op.numbers()}" if op.numbers() else "")
    if found.verdict not in (Verdict.RANDOM, Verdict.RAISED):
        lines.append(f"fn: {found.numbers()}")
    lines.append(hint)
    return "\n  ".join(line for line in lines if line)


def _headline(f: Finding) -> str:
    where = f"input {f.input} of fn" if f.op is None else f"input {f.input} of op {f.op}"
    known = f.by_rule is not None and f.by_differences is not None and math.isfinite(f.by_rule)
    match f.verdict:
        case Verdict.WRONG:
            return f"wrong gradient of {where}" + ("" if known else ", it is not finite")
        case Verdict.MISSING:
            return f"no gradient arrives at {where}, although the result depends on it"
        case Verdict.UNNEEDED:
            return f"a gradient arrives at {where}, although the result does not depend on it"
        case Verdict.KINK:
            return f"{where} stands at a point without derivative, where no rule is right or wrong; move it a little"
        case Verdict.NOISE:
            return (
                f"nothing can be said about {where}: at every step, rounding hides the differences\n"
                f"  scale fn, leave out what is large and constant in it, or give a larger eps"
            )
        case Verdict.RANDOM:
            by = "" if f.op is None else f"; op {f.op} is the first to differ"
            return f"fn is random: two evaluations at one point differ{by}; seed its generator inside fn"
        case _:
            return f"the rule of op {f.op} raised an error"
