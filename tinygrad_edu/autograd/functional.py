"""Derivatives as functions of functions: vjp, jvp, Hessian products, Jacobians."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tinygrad_edu.arrays import library
from tinygrad_edu.engine import backward
from tinygrad_edu.functional import stack
from tinygrad_edu.tensor import Tensor, tensor


def _inputs(inputs: Any, what: str) -> tuple[list[Tensor], bool]:
    """Leaves with the values of the inputs, and whether they came as a sequence."""
    several = isinstance(inputs, tuple | list)
    xs = [tensor(x) for x in (inputs if several else (inputs,))]
    for i, x in enumerate(xs):
        if x.dtype.kind != "f":
            raise TypeError(f"{what}: input {i} is {x.dtype}; only floating inputs have derivatives")
        x.requires_grad_()
    return xs, several


def _like(values: Any, xs: Sequence[Tensor], what: str) -> list[Tensor]:
    given = list(values) if isinstance(values, tuple | list) else [values]
    if len(given) != len(xs):
        raise ValueError(f"{what}: {len(given)} vectors for {len(xs)} tensors; give one for each")
    tensors = [v if isinstance(v, Tensor) else tensor(v, dtype=x.dtype) for v, x in zip(given, xs)]
    for v, x in zip(tensors, xs):
        if v.shape != x.shape:
            raise ValueError(f"{what}: a vector has shape {v.shape}, its tensor {x.shape}; they must be equal")
    return tensors


def outputs_of(result: Any, what: str) -> tuple[list[Tensor], bool]:
    """What a function returned, as a list, and whether it was several. Raises TypeError for what is no Tensor."""
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
    ys, many = outputs_of(func(*xs), "vjp")
    seeds = None if v is None else _like(v, ys, "vjp")
    gradients = _zeros_for(_grad(ys, xs, seeds, False), xs)
    values = tuple(y.detach() for y in ys)
    return values if many else values[0], tuple(gradients) if several else gradients[0]


def _grad(ys: list[Tensor], xs: list[Tensor], seeds: Any, create: bool) -> Any:
    live = [i for i, y in enumerate(ys) if y.requires_grad]
    if not live:
        return [None] * len(xs)
    chosen = None if seeds is None else [seeds[i] for i in live]
    return backward.gradients([ys[i] for i in live], xs, chosen, create_graph=create)


def jvp(func: Callable[..., Any], inputs: Any, v: Any) -> tuple[Any, Any]:
    """(f(x), J·v) with the Jacobian J = df/dx: how the outputs change along `v`.

    By two reverse passes: uᵀ·J is linear in u, and its derivative by u along v is J·v. Arguments as in `vjp`, `v` of
    the inputs' shapes.

    >>> jvp(lambda x: x**2, Tensor([1.0, 2.0]), Tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    xs, _ = _inputs(inputs, "jvp")
    ys, many = outputs_of(func(*xs), "jvp")
    vs = _like(v, xs, "jvp")
    us = [Tensor(y.detach() * 0, requires_grad=True) for y in ys]
    pairs = [(g, w) for g, w in zip(_grad(ys, xs, us, True), vs) if g is not None and g.requires_grad]
    found: Any = [None] * len(us)
    if pairs:
        found = backward.gradients([g for g, _ in pairs], us, [w for _, w in pairs])
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
        found = backward.gradients([g for g, _ in pairs], xs, [w for _, w in pairs])
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
        return Tensor(library.module_of(x.array).zeros((*y.shape, *x.shape), dtype=x.dtype))
    flat = y.reshape(-1)
    rows = [_zeros_for(backward.gradients([flat[i]], [x], retain_graph=True), [x])[0] for i in range(y.numel())]
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
