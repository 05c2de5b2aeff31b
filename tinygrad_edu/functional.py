"""Functions at the top of the package: differentiation, and ops as functions under PyTorch's names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from tinygrad_edu import backend, reverse
from tinygrad_edu.methods.common import axis_of, binary
from tinygrad_edu.ops import arithmetic, choice, shape
from tinygrad_edu.tape import Variable
from tinygrad_edu.tensor import Tensor

P = ParamSpec("P")
R = TypeVar("R")


def cat(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """The tensors one behind the other along `dim`; their other lengths are equal.

    >>> import tinygrad_edu as tg
    >>> cat([tg.ones(1, 2), tg.zeros(1, 2)]).tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """
    parts = [t if isinstance(t, Variable) else Tensor(t) for t in tensors]
    if not parts:
        raise ValueError("cat: needs at least one tensor, got none")
    axis = axis_of(parts[0], dim, "cat")
    first = parts[0].array.shape
    for t in parts:
        s = t.array.shape
        if len(s) != len(first) or s[:axis] + s[axis + 1 :] != first[:axis] + first[axis + 1 :]:
            raise ValueError(f"cat: shapes {first} and {s} differ elsewhere than along dim {dim}")
    return shape.Cat(*parts, axis=axis)


concat = concatenate = cat


def stack(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """The tensors, of one shape, along a new axis `dim`.

    >>> import tinygrad_edu as tg
    >>> stack([tg.ones(2), tg.zeros(2)], dim=1).tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    parts = [t if isinstance(t, Tensor) else Tensor(t) for t in tensors]
    if not parts:
        raise ValueError("stack: needs at least one tensor, got none")
    if len({t.shape for t in parts}) > 1:
        raise ValueError(f"stack: all tensors need one shape, got {[t.shape for t in parts]}")
    return cat([t.unsqueeze(dim) for t in parts], dim)


def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """`input` where the boolean `condition` is true, else `other`; the three broadcast. Alone: the indices of the true
    ones, a vector for each axis.

    Only the chosen one gets a gradient, yet what the other one's own op makes of a zero gradient may still be NaN
    (0 · ∞): keep its input within its domain, too, with a `where` inside.

    >>> where(Tensor([True, False]), Tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    """
    mask = condition if isinstance(condition, Variable) else Tensor(condition)
    if input is None and other is None:
        return tuple(Tensor(at) for at in mask.array.nonzero())
    if mask.array.dtype.kind != "b":
        raise TypeError(f"where: condition must be boolean, got {mask.array.dtype}; compare something (x != 0)")
    return choice.Where(mask, input, other)


def maximum(input: Any, other: Any) -> Tensor:
    """The larger of both, element by element; equal ones share the gradient in halves."""
    return binary(arithmetic.Maximum, input, other)


def minimum(input: Any, other: Any) -> Tensor:
    """The smaller of both, element by element; equal ones share the gradient in halves."""
    return binary(arithmetic.Minimum, input, other)


def is_tensor(obj: object) -> bool:
    """Whether `obj` is a Tensor."""
    return isinstance(obj, Tensor)


def allclose(input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether |input − other| ≤ atol + rtol · |other| everywhere."""
    x, y = (backend.to_device(v.array if isinstance(v, Variable) else Tensor(v).array, "cpu") for v in (input, other))
    return bool(backend.module_of(x).allclose(x, y, rtol, atol, equal_nan))


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether both have one shape and the same elements."""
    return input.shape == other.shape and bool((input == other).all())


def _function(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method as a function, whose first argument may also be an array or a number."""

    @functools.wraps(method)
    def function(input: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(input if isinstance(input, Tensor) else Tensor(input), *args, **kwargs)

    function.__qualname__ = method.__name__
    return cast(Callable[Concatenate[Any, P], R], function)


# What PyTorch has both as a method and as a function is written once, as the method; its docstring holds for both.
abs = _function(Tensor.abs)
add = _function(Tensor.add)
all = _function(Tensor.all)
amax = _function(Tensor.amax)
amin = _function(Tensor.amin)
any = _function(Tensor.any)
argmax = _function(Tensor.argmax)
argmin = _function(Tensor.argmin)
argsort = _function(Tensor.argsort)
ceil = _function(Tensor.ceil)
chunk = _function(Tensor.chunk)
clamp = _function(Tensor.clamp)
clip = _function(Tensor.clip)
clone = _function(Tensor.clone)
cos = _function(Tensor.cos)
cumsum = _function(Tensor.cumsum)
detach = _function(Tensor.detach)
div = _function(Tensor.div)
eq = _function(Tensor.eq)
erf = _function(Tensor.erf)
exp = _function(Tensor.exp)
expm1 = _function(Tensor.expm1)
flatten = _function(Tensor.flatten)
flip = _function(Tensor.flip)
floor = _function(Tensor.floor)
gather = _function(Tensor.gather)
ge = _function(Tensor.ge)
gt = _function(Tensor.gt)
index_select = _function(Tensor.index_select)
isfinite = _function(Tensor.isfinite)
isinf = _function(Tensor.isinf)
isnan = _function(Tensor.isnan)
le = _function(Tensor.le)
log = _function(Tensor.log)
log1p = _function(Tensor.log1p)
log2 = _function(Tensor.log2)
log_softmax = _function(Tensor.log_softmax)
logical_and = _function(Tensor.logical_and)
logical_not = _function(Tensor.logical_not)
logical_or = _function(Tensor.logical_or)
logsumexp = _function(Tensor.logsumexp)
lt = _function(Tensor.lt)
masked_fill = _function(Tensor.masked_fill)
masked_select = _function(Tensor.masked_select)
max = _function(Tensor.max)
mean = _function(Tensor.mean)
min = _function(Tensor.min)
movedim = _function(Tensor.movedim)
mul = _function(Tensor.mul)
narrow = _function(Tensor.narrow)
ne = _function(Tensor.ne)
neg = _function(Tensor.neg)
norm = _function(Tensor.norm)
numel = _function(Tensor.numel)
permute = _function(Tensor.permute)
pow = _function(Tensor.pow)
prod = _function(Tensor.prod)
reciprocal = _function(Tensor.reciprocal)
relu = _function(Tensor.relu)
repeat_interleave = _function(Tensor.repeat_interleave)
reshape = _function(Tensor.reshape)
roll = _function(Tensor.roll)
round = _function(Tensor.round)
rsqrt = _function(Tensor.rsqrt)
scatter_add = _function(Tensor.scatter_add)
select = _function(Tensor.select)
sigmoid = _function(Tensor.sigmoid)
sign = _function(Tensor.sign)
sin = _function(Tensor.sin)
softmax = _function(Tensor.softmax)
sort = _function(Tensor.sort)
split = _function(Tensor.split)
sqrt = _function(Tensor.sqrt)
square = _function(Tensor.square)
squeeze = _function(Tensor.squeeze)
std = _function(Tensor.std)
sub = _function(Tensor.sub)
sum = _function(Tensor.sum)
swapaxes = _function(Tensor.swapaxes)
t = _function(Tensor.t)
tanh = _function(Tensor.tanh)
topk = _function(Tensor.topk)
transpose = _function(Tensor.transpose)
tril = _function(Tensor.tril)
triu = _function(Tensor.triu)
unbind = _function(Tensor.unbind)
unflatten = _function(Tensor.unflatten)
unsqueeze = _function(Tensor.unsqueeze)
var = _function(Tensor.var)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Any, ...]:
    """d(Σ outputs ⊙ grad_outputs)/d(input) for every input, as a tuple; no `.grad` is touched.

    Args:
        outputs: a tensor or a sequence of them, each of one element or with its gradient in `grad_outputs`.
        inputs: a tensor or a sequence of them, leaves or not, that the outputs were computed from.
        grad_outputs: gradients of the outputs' shapes; None means 1.
        retain_graph: keep what the ops saved, for another pass; defaults to `create_graph`.
        create_graph: record the pass, so that the gradients can be differentiated again.
        allow_unused: give None for an input that no output depends on, instead of an error.

    Raises:
        RuntimeError: an output or input needs no gradient, an input was not used, or the graph was freed or changed.

    >>> x = Tensor(3.0, requires_grad=True)
    >>> (slope,) = grad(x**3, x, create_graph=True)
    >>> grad(slope, x)
    (tensor(18.),)
    """
    ys = [outputs] if isinstance(outputs, Variable) else list(outputs)
    xs = [inputs] if isinstance(inputs, Variable) else list(inputs)
    seeds = [grad_outputs] if isinstance(grad_outputs, Variable) or backend.is_array(grad_outputs) else grad_outputs
    found = reverse.gradients(ys, xs, seeds, retain_graph, create_graph)
    for i, g in enumerate(found):
        if g is None and not allow_unused:
            raise RuntimeError(f"grad: no output depends on input {i}; pass allow_unused=True to get None for it")
    return tuple(found)
