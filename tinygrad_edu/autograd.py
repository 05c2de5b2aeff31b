"""Derivatives as functions of functions: vjp, jvp, Hessian products, Jacobians; and recomputed activations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from tinygrad_edu import backend, passes, random
from tinygrad_edu.functional import grad, stack
from tinygrad_edu.hooks import key_of
from tinygrad_edu.modes import Listener, enable_grad, is_grad_enabled, no_grad, setting, thread
from tinygrad_edu.reverse import differentiate
from tinygrad_edu.tape import Op, Variable, wrap
from tinygrad_edu.tensor import Tensor
from tinygrad_edu.watching import detect_anomaly

__all__ = [
    "checkpoint",
    "detect_anomaly",
    "enable_grad",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "no_grad",
    "vjp",
]


def _inputs(inputs: Any, what: str) -> tuple[list[Tensor], bool]:
    """Leaves with the values of the inputs, and whether they came as a sequence."""
    several = isinstance(inputs, tuple | list)
    xs = [Tensor(x) for x in (inputs if several else (inputs,))]
    for i, x in enumerate(xs):
        if x.dtype.kind != "f":
            raise TypeError(f"{what}: input {i} is {x.dtype}; only floating inputs have derivatives")
        x.requires_grad_()
    return xs, several


def _like(values: Any, xs: Sequence[Tensor], what: str) -> list[Tensor]:
    given = list(values) if isinstance(values, tuple | list) else [values]
    if len(given) != len(xs):
        raise ValueError(f"{what}: {len(given)} vectors for {len(xs)} tensors; give one for each")
    tensors = [v if isinstance(v, Tensor) else Tensor(v, dtype=x.dtype) for v, x in zip(given, xs)]
    for v, x in zip(tensors, xs):
        if v.shape != x.shape:
            raise ValueError(f"{what}: a vector has shape {v.shape}, its tensor {x.shape}; they must be equal")
    return tensors


def _outputs(result: Any, what: str) -> tuple[list[Tensor], bool]:
    several = isinstance(result, tuple | list)
    ys = list(result) if several else [result]
    if not all(isinstance(y, Tensor) for y in ys):
        raise TypeError(f"{what}: the function must return a Tensor or a tuple of them")
    return ys, several


def _zeros_for(gradients: Any, xs: Sequence[Tensor]) -> list[Any]:
    """A gradient for every tensor, zeros where nothing arrived."""
    return [x.detach() * 0 if g is None else g for g, x in zip(gradients, xs)]


def vjp(func: Callable[..., Any], inputs: Any, v: Any = None) -> tuple[Any, Any]:
    """(f(x), vᵀ·J) with the Jacobian J = df/dx: what a backward pass from `v` gives.

    Args:
        func: of the inputs, gives a Tensor or a tuple of them.
        inputs: x, a tensor or a tuple. v: of the outputs' shapes; None is 1 for an output of one element.

    >>> vjp(lambda x: x**2, Tensor([1.0, 2.0]), Tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    xs, several = _inputs(inputs, "vjp")
    ys, many = _outputs(func(*xs), "vjp")
    seeds = None if v is None else _like(v, ys, "vjp")
    gradients = _zeros_for(_grad(ys, xs, seeds, False), xs)
    values = tuple(y.detach() for y in ys)
    return values if many else values[0], tuple(gradients) if several else gradients[0]


def _grad(ys: list[Tensor], xs: list[Tensor], seeds: Any, create: bool) -> Any:
    live = [i for i, y in enumerate(ys) if y.requires_grad]
    if not live:
        return [None] * len(xs)
    chosen = None if seeds is None else [seeds[i] for i in live]
    return passes.gradients([ys[i] for i in live], xs, chosen, create_graph=create)


def jvp(func: Callable[..., Any], inputs: Any, v: Any) -> tuple[Any, Any]:
    """(f(x), J·v) with the Jacobian J = df/dx: how the outputs change along `v`.

    By two reverse passes: uᵀ·J is linear in u, and its derivative by u along v is J·v. Arguments as in `vjp`, `v` of
    the inputs' shapes.

    >>> jvp(lambda x: x**2, Tensor([1.0, 2.0]), Tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    xs, _ = _inputs(inputs, "jvp")
    ys, many = _outputs(func(*xs), "jvp")
    vs = _like(v, xs, "jvp")
    us = [Tensor(y.detach() * 0, requires_grad=True) for y in ys]
    pairs = [(g, w) for g, w in zip(_grad(ys, xs, us, True), vs) if g is not None and g.requires_grad]
    found: Any = [None] * len(us)
    if pairs:
        found = passes.gradients([g for g, _ in pairs], us, [w for _, w in pairs])
    values, along = tuple(y.detach() for y in ys), _zeros_for(found, us)
    return values if many else values[0], tuple(along) if many else along[0]


def hvp(func: Callable[..., Any], inputs: Any, v: Any) -> tuple[Any, Any]:
    """(f(x), H·v) with the Hessian H of a function of one element: the derivative of the gradient along `v`.

    >>> hvp(lambda x: (x**3).sum(), Tensor([1.0, 2.0]), Tensor([1.0, 1.0]))
    (tensor(9.), tensor([ 6., 12.]))
    """
    xs, several = _inputs(inputs, "hvp")
    y = func(*xs)
    vs = _like(v, xs, "hvp")
    pairs = [(g, w) for g, w in zip(_grad([y], xs, None, True), vs) if g is not None and g.requires_grad]
    found: Any = [None] * len(xs)
    if pairs:
        found = passes.gradients([g for g, _ in pairs], xs, [w for _, w in pairs])
    products = _zeros_for(found, xs)
    return y.detach(), tuple(products) if several else products[0]


hessian_vector_product = hvp


def jacobian(func: Callable[..., Any], inputs: Tensor) -> Tensor:
    """J[i..., j...] = df_i/dx_j of one tensor to one tensor, a backward pass for each element of the output.

    Shapes: inputs [*j]; outputs [*i]; result [*i, *j].

    >>> jacobian(lambda x: x**2, Tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    (x,), _ = _inputs(inputs, "jacobian")
    y = func(x)
    if not y.requires_grad:
        return Tensor(backend.module_of(x.array).zeros((*y.shape, *x.shape), dtype=x.dtype))
    flat = y.reshape(-1)
    rows = [_zeros_for(passes.gradients([flat[i]], [x], retain_graph=True), [x])[0] for i in range(y.numel())]
    return stack(rows).reshape(*y.shape, *x.shape)


def hessian(func: Callable[..., Any], inputs: Tensor) -> Tensor:
    """H[i..., j...] = d²f/dx_i dx_j of one tensor to one element; result [*i, *i].

    >>> hessian(lambda x: (x[0] * x[1] ** 2), Tensor([1.0, 2.0])).tolist()
    [[0.0, 4.0], [4.0, 2.0]]
    """

    def gradient(x: Tensor) -> Tensor:
        (g,) = _zeros_for(_grad([func(x)], [x], None, True), [x])
        return g

    return jacobian(gradient, inputs)


class _Captured(Listener):
    """Notes the tensors that a function reads from outside and that need a gradient."""

    def __init__(self, given: list[Any]) -> None:
        self.known = {id(x) for x in given}
        self.found: list[Variable] = []

    def applied(self, op: Any, inputs: Any, arrays: Any, outputs: Any, static: Any, record: Any) -> None:
        for x in inputs:
            if isinstance(x, Variable) and x.requires_grad and id(x) not in self.known:
                self.known.add(id(x))
                self.found.append(x)


class Checkpoint(Op):
    """outputs = a function of {xs}, run again when its gradients are asked for"""

    outputs = True
    formulas: ClassVar[dict[str, str]] = {"xs": "d of each input, by running the function again"}

    def forward(*xs, rerun):
        return rerun.pop_outputs()

    def gradients(g, need, xs, rerun):
        return rerun(g, need, xs)


class _Rerun:
    """What a checkpoint keeps of a call: the function, the random stream as it was, the tensors read from outside."""

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.fn, self.args, self.kwargs = fn, args, kwargs
        self.given = [i for i, x in enumerate(args) if isinstance(x, Variable)]
        self.stream, self.first_sample = random.current().get_state(), thread.mode.first_sample
        self.captured: list[Variable] = []
        self.outputs: tuple[Any, ...] | None = None

    def pop_outputs(self) -> tuple[Any, ...]:
        outputs, self.outputs = self.outputs, None
        return outputs  # type: ignore[return-value]

    def __call__(self, g: list[Any], need: tuple[bool, ...], xs: list[Any]) -> list[Any]:
        if any(isinstance(x, Variable) for x in (*xs, *g)):
            if thread.mode.grad:
                raise RuntimeError(
                    "checkpoint: a recorded backward pass (create_graph=True) cannot go through a recomputed part; "
                    "call the function without checkpoint"
                )
            xs, g = ([x.array if isinstance(x, Variable) else x for x in part] for part in (xs, g))
        args = list(self.args)
        for i, array, wanted in zip(self.given, xs, need):
            args[i] = wrap(Tensor, array)
            args[i].needs = wanted
        stream = random.Generator()
        stream.set_state(self.stream)
        with setting(grad=True, generator=stream, first_sample=self.first_sample):
            outs, _ = _outputs(self.fn(*args, **self.kwargs), "checkpoint")
        pairs = [(y, d) for y, d in zip(outs, g) if d is not None and y.requires_grad]
        targets = [args[i] for i in self.given] + self.captured
        wanted_targets = [t for t, n in zip(targets, need) if n]
        found = differentiate([y for y, _ in pairs], [d for _, d in pairs], wanted_targets) if pairs else {}
        arrived = [found.get(key_of(t)) if n else None for t, n in zip(targets, need)]
        return [None if a is None else a.gradient for a in arrived]


def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """function(*args, **kwargs) without keeping what its ops save: the backward pass runs it again.

    Memory falls to the inputs and outputs, for one more forward. Dropout drops the same elements again. Tensors that
    the function reads from outside, such as parameters, get their gradients, too. PyTorch's `use_reentrant` and the
    like are accepted and change nothing.

    Args:
        function: gives a Tensor or a tuple of them; must give the same when it is run again.
        args: tensors and other values for it.

    Raises:
        RuntimeError: in a backward pass with create_graph=True, or where a value it read was changed in place since.

    Source: Chen et al., "Training deep nets with sublinear memory cost", 2016.

    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> checkpoint(lambda x: (x * x).tanh(), x).sum().backward()
    >>> [round(slope, 3) for slope in x.grad.tolist()]
    [0.84, 0.005]
    """
    for name in ("use_reentrant", "preserve_rng_state", "determinism_check", "debug", "context_fn"):
        kwargs.pop(name, None)
    if not is_grad_enabled() or thread.mode.trace is not None:
        return function(*args, **kwargs)
    rerun = _Rerun(function, args, kwargs)
    given = [args[i] for i in rerun.given]
    captured = _Captured(given)
    with setting(grad=False, trace=captured):
        outs, several = _outputs(function(*args, **kwargs), "checkpoint")
    rerun.captured = captured.found
    rerun.outputs = tuple(y.array for y in outs)
    inputs = [*given, *captured.found]
    if not any(x.requires_grad for x in inputs):
        return tuple(outs) if several else outs[0]
    results = Checkpoint(*inputs, rerun=rerun)
    return results if several else results[0]
