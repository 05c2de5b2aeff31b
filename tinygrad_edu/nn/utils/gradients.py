"""What is done to a model's gradients between backward and the optimizer's step, and its parameters as one vector."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from tinygrad_edu import kernels
from tinygrad_edu.arrays import devices, dtypes, library
from tinygrad_edu.engine.modes import no_grad
from tinygrad_edu.functional import cat
from tinygrad_edu.options import number
from tinygrad_edu.tensor import Tensor, tensor


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients, in place, by one factor so that their common norm is at most `max_norm`.

    norm = (Σ |g|ᵖ)^(1/p), p = norm_type, over every element of every gradient, as if they were one vector; where
    norm > max_norm, each g becomes g·max_norm/(norm + 1e-6). Parameters without a gradient are passed over.

    Differs from PyTorch: where the norm is infinite or NaN the gradients stay as they are, so that what is wrong with
    them can still be seen; look at the result and skip the step.

    Args:
        parameters: Tensors with gradients, or one; a generator is read once.
        max_norm: bound of the norm, at least 0; infinity only measures.
        norm_type: p, above 0; infinity for the largest |g|.
        error_if_nonfinite: raise RuntimeError for a norm that is infinite or NaN.
        foreach: PyTorch's choice of implementation, without effect here.

    Returns the norm before clipping, a Tensor without axes on the CPU, where it had to be known, float32 for float16,
    which may not hold it; 0 where there is no gradient.
    Raises ValueError for a norm_type of 0 or less or a negative max_norm.
    Source: Pascanu et al., "On the difficulty of training recurrent neural networks", 2013, algorithm 1.

    >>> import tinygrad_edu as tg
    >>> w = tg.zeros(2, requires_grad=True)
    >>> w.grad = tg.tensor([3.0, 4.0])
    >>> clip_grad_norm_([w], max_norm=1.0).item(), w.grad.numpy().round(3).tolist()
    (5.0, [0.6000000238418579, 0.800000011920929])
    """
    max_norm = number(max_norm, "clip_grad_norm_: max_norm", 0.0)
    p = math.inf if str(norm_type) == "inf" else number(norm_type, "clip_grad_norm_: norm_type", above=0.0)
    gradients = _gradients(parameters, "clip_grad_norm_")
    norm = _norm(gradients, p)
    if math.isfinite(norm):
        if norm > max_norm:
            factor = max_norm / (norm + 1e-6)
            for g in _each(gradients):
                library.module_of(g.array).multiply(g.array, factor, out=g.array)
                g.bump_version()
    elif error_if_nonfinite:
        raise RuntimeError(f"clip_grad_norm_: the norm of the gradients is {norm}; some gradient is infinite or NaN")
    return _like(norm, gradients)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> Tensor:
    """Bring every element of every gradient, in place, into −clip_value to clip_value.

    This changes the gradient's direction, which `clip_grad_norm_` does not. NaN stays NaN.

    Differs from PyTorch, which returns nothing.

    Args:
        parameters: Tensors with gradients, or one; a generator is read once.
        clip_value: the bound, at least 0. foreach: without effect.

    Returns √(Σ g²) before clipping, as `clip_grad_norm_` does: a Tensor without axes, 0 where there is no gradient.
    Raises ValueError for a negative clip_value.

    >>> import tinygrad_edu as tg
    >>> w = tg.zeros(2, requires_grad=True)
    >>> w.grad = tg.tensor([3.0, -4.0])
    >>> clip_grad_value_([w], clip_value=3.5).item(), w.grad.tolist()
    (5.0, [3.0, -3.5])
    """
    clip_value = number(clip_value, "clip_grad_value_: clip_value", 0.0)
    gradients = _gradients(parameters, "clip_grad_value_")
    norm = _norm(gradients, 2.0)
    for g in _each(gradients):
        g.array.clip(-clip_value, clip_value, out=g.array)
        g.bump_version()
    return _like(norm, gradients)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of all parameters as one vector, one parameter after the other, rows in order.

    Args:
        parameters: Tensors of one dtype on one device, in any shapes.

    Returns a Tensor [N], N the sum of their sizes; gradients flow back through it. Raises ValueError for none.

    >>> import tinygrad_edu as tg
    >>> parameters_to_vector([tg.tensor([[1.0, 2.0]]), tg.tensor(3.0)])
    tensor([1., 2., 3.])
    """
    pieces = [p.reshape(-1) for p in parameters]
    if not pieces:
        raise ValueError("parameters_to_vector: there are no parameters; a generator can be read only once")
    return cat(pieces)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Give the parameters the values of a vector, in the order of `parameters_to_vector`.

    Differs from PyTorch: values are copied to where the parameters are, which do not become views of the vector; and a
    vector of another length is refused.

    Args:
        vec: a Tensor [N], N the sum of the parameters' sizes.
        parameters: Tensors, written in place.

    Raises ValueError for another N; nothing was written then.

    >>> import tinygrad_edu as tg
    >>> from tinygrad_edu import nn
    >>> layer = nn.Linear(2, 1)
    >>> vector_to_parameters(tg.tensor([1.0, 2.0, 3.0]), layer.parameters())
    >>> layer.weight.tolist(), layer.bias.tolist()
    ([[1.0, 2.0]], [3.0])
    """
    listed = list(parameters)
    sizes = [p.numel() for p in listed]
    if vec.shape != (sum(sizes),):
        raise ValueError(
            f"vector_to_parameters: the parameters have {sum(sizes)} elements, and the vector has shape {vec.shape}"
        )
    with no_grad():
        for p, piece in zip(listed, vec.detach().split(sizes)):
            p.copy_(piece.reshape(p.shape))


def _gradients(parameters: Tensor | Iterable[Tensor], what: str) -> list[Tensor]:
    """The gradients that there are, each once."""
    listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    for i, p in enumerate(listed):
        if not isinstance(p, Tensor):
            raise TypeError(f"{what}: parameter {i} is a {type(p).__name__}; give Tensors, as model.parameters() does")
    return list({id(p.grad): p.grad for p in listed if p.grad is not None}.values())


def _each(gradients: list[Tensor]) -> Iterator[Tensor]:
    """The gradients one by one, each computed with where it lies."""
    for g in gradients:
        devices.settle(g.array)
        yield g


def _norm(gradients: list[Tensor], p: float) -> float:
    """The p-norm of all gradients as one vector."""
    if p == 2:
        return math.sqrt(devices.total([_sum_of_squares(g.array) for g in _each(gradients)]))
    if math.isinf(p):
        largest = [abs(g.array).max().item() for g in _each(gradients) if g.array.size]
        return math.nan if any(map(math.isnan, largest)) else max(largest, default=0.0)
    return devices.total([(abs(g.array).astype(dtypes.float64) ** p).sum() for g in _each(gradients)]) ** (1 / p)


def _sum_of_squares(array: Any) -> Any:
    """Σ x², as a number or, on a GPU, as an array that nobody waits for."""
    kernel = getattr(kernels.of(array), "sum_of_squares", None)
    return kernel(array) if kernel else (array.astype(dtypes.float64) ** 2).sum()


def _like(norm: float, gradients: list[Tensor]) -> Tensor:
    kind = gradients[0].dtype if gradients else None
    return tensor(norm, dtype=dtypes.float32 if kind == dtypes.float16 else kind)
