"""Functions at the top of the package: differentiation, and ops as functions under PyTorch's names."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from tinygrad_edu import backend, passes
from tinygrad_edu.methods.common import axis_of, binary, numpy_names
from tinygrad_edu.ops import arithmetic, choice, shape
from tinygrad_edu.tape import Variable
from tinygrad_edu.tensor import Tensor

P = ParamSpec("P")
R = TypeVar("R")


@numpy_names
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


@numpy_names
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


def reshape(input: Any, shape: Sequence[int]) -> Tensor:
    """The elements row by row in another shape; one length may be −1."""
    return _tensor(input).reshape(shape)


def permute(input: Any, dims: Sequence[int]) -> Tensor:
    """The axes in another order."""
    return _tensor(input).permute(dims)


def flip(input: Any, dims: Sequence[int]) -> Tensor:
    """From back to front along `dims`."""
    return _tensor(input).flip(dims)


def tile(input: Any, dims: Sequence[int]) -> Tensor:
    """The whole, so many times along each axis; where there are fewer numbers than axes, the first axes stay."""
    return _tensor(input).tile(dims)


def broadcast_to(input: Any, shape: Sequence[int]) -> Tensor:
    """Axes of 1 copied up to a length, new ones in front. No memory is used."""
    return _tensor(input).expand(shape)


def split(tensor: Any, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces along `dim`: each of the size given, the last shorter, or of the lengths given."""
    return _tensor(tensor).split(split_size_or_sections, dim)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """For vectors of lengths n, m, ...: tensors [n, m, ...], each with its vector along its own axis.

    `indexing` "xy" exchanges the first two axes.

    >>> meshgrid(Tensor([1, 2]), Tensor([3, 4, 5]), indexing="ij")[0].tolist()
    [[1, 1, 1], [2, 2, 2]]
    """
    if indexing not in ("ij", "xy"):
        raise ValueError(f"meshgrid: indexing is 'ij' or 'xy', not {indexing!r}")
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], tuple | list) else tensors
    vectors = [_tensor(v).reshape(-1) for v in given]
    lengths = tuple(v.shape[0] for v in vectors)
    grids = [v.reshape((1,) * i + (-1,) + (1,) * (len(vectors) - i - 1)).expand(lengths) for i, v in enumerate(vectors)]
    return tuple(g.transpose(0, 1) if indexing == "xy" and len(grids) > 1 else g for g in grids)


def var_mean(
    input: Any, dim: Any = None, correction: int = 1, keepdim: bool = False, unbiased: bool | None = None
) -> tuple[Tensor, Tensor]:
    """(variance, mean) along `dim`."""
    x = _tensor(input)
    return x.var(dim, correction, keepdim, unbiased), x.mean(dim, keepdim)


def hstack(tensors: Sequence[Any]) -> Tensor:
    """The tensors side by side: along axis 1, vectors along axis 0."""
    parts = [_tensor(t) for t in tensors]
    return cat(parts, dim=1 if parts and parts[0].ndim > 1 else 0)


def vstack(tensors: Sequence[Any]) -> Tensor:
    """The tensors, vectors as one row each, one below the other."""
    return cat([t.unsqueeze(0) if t.ndim < 2 else t for t in map(_tensor, tensors)], dim=0)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """The tensors, each expanded to the shape that they broadcast to."""
    parts = [_tensor(t) for t in tensors]
    shape = _broadcast_shape([p.shape for p in parts])
    return tuple(p.expand(shape) for p in parts)


def _broadcast_shape(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    longest = builtins.max((len(s) for s in shapes), default=0)
    padded = [(1,) * (longest - len(s)) + s for s in shapes]
    return tuple(next((n for n in ns if n != 1), 1) for ns in zip(*padded))


def _tensor(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else Tensor(x)


def _function(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method as a function, whose first argument may also be an array or a number."""

    @functools.wraps(method)
    def function(input: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(input if isinstance(input, Tensor) else Tensor(input), *args, **kwargs)

    function.__qualname__ = method.__name__
    return cast(Callable[Concatenate[Any, P], R], function)


# What PyTorch has both as a method and as a function is written once, as the method; its docstring holds for both.
abs = _function(Tensor.abs)
absolute = _function(Tensor.absolute)
add = _function(Tensor.add)
addcdiv = _function(Tensor.addcdiv)
addcmul = _function(Tensor.addcmul)
addmm = _function(Tensor.addmm)
all = _function(Tensor.all)
allclose = _function(Tensor.allclose)
amax = _function(Tensor.amax)
amin = _function(Tensor.amin)
aminmax = _function(Tensor.aminmax)
any = _function(Tensor.any)
argmax = _function(Tensor.argmax)
argmin = _function(Tensor.argmin)
argsort = _function(Tensor.argsort)
argwhere = _function(Tensor.argwhere)
baddbmm = _function(Tensor.baddbmm)
bincount = _function(Tensor.bincount)
bitwise_and = _function(Tensor.bitwise_and)
bitwise_not = _function(Tensor.bitwise_not)
bitwise_or = _function(Tensor.bitwise_or)
bitwise_xor = _function(Tensor.bitwise_xor)
bmm = _function(Tensor.bmm)
ceil = _function(Tensor.ceil)
chunk = _function(Tensor.chunk)
clamp = _function(Tensor.clamp)
clamp_max = _function(Tensor.clamp_max)
clamp_min = _function(Tensor.clamp_min)
clip = _function(Tensor.clip)
clone = _function(Tensor.clone)
cos = _function(Tensor.cos)
cosh = _function(Tensor.cosh)
count_nonzero = _function(Tensor.count_nonzero)
cumsum = _function(Tensor.cumsum)
detach = _function(Tensor.detach)
diag = _function(Tensor.diag)
diagonal = _function(Tensor.diagonal)
div = _function(Tensor.div)
divide = _function(Tensor.divide)
dot = _function(Tensor.dot)
eq = _function(Tensor.eq)
equal = _function(Tensor.equal)
erf = _function(Tensor.erf)
exp = _function(Tensor.exp)
exp2 = _function(Tensor.exp2)
expm1 = _function(Tensor.expm1)
flatten = _function(Tensor.flatten)
floor = _function(Tensor.floor)
floor_divide = _function(Tensor.floor_divide)
gather = _function(Tensor.gather)
ge = _function(Tensor.ge)
greater = _function(Tensor.greater)
greater_equal = _function(Tensor.greater_equal)
gt = _function(Tensor.gt)
index_add = _function(Tensor.index_add)
index_fill = _function(Tensor.index_fill)
index_select = _function(Tensor.index_select)
is_floating_point = _function(Tensor.is_floating_point)
is_nonzero = _function(Tensor.is_nonzero)
isclose = _function(Tensor.isclose)
isfinite = _function(Tensor.isfinite)
isinf = _function(Tensor.isinf)
isnan = _function(Tensor.isnan)
le = _function(Tensor.le)
lerp = _function(Tensor.lerp)
less = _function(Tensor.less)
less_equal = _function(Tensor.less_equal)
log = _function(Tensor.log)
log10 = _function(Tensor.log10)
log1p = _function(Tensor.log1p)
log2 = _function(Tensor.log2)
log_softmax = _function(Tensor.log_softmax)
logaddexp = _function(Tensor.logaddexp)
logical_and = _function(Tensor.logical_and)
logical_not = _function(Tensor.logical_not)
logical_or = _function(Tensor.logical_or)
logical_xor = _function(Tensor.logical_xor)
logit = _function(Tensor.logit)
logsumexp = _function(Tensor.logsumexp)
lt = _function(Tensor.lt)
masked_fill = _function(Tensor.masked_fill)
masked_select = _function(Tensor.masked_select)
max = _function(Tensor.max)
mean = _function(Tensor.mean)
median = _function(Tensor.median)
min = _function(Tensor.min)
mm = _function(Tensor.mm)
moveaxis = _function(Tensor.moveaxis)
movedim = _function(Tensor.movedim)
mul = _function(Tensor.mul)
multiply = _function(Tensor.multiply)
mv = _function(Tensor.mv)
nan_to_num = _function(Tensor.nan_to_num)
narrow = _function(Tensor.narrow)
ne = _function(Tensor.ne)
neg = _function(Tensor.neg)
negative = _function(Tensor.negative)
nonzero = _function(Tensor.nonzero)
norm = _function(Tensor.norm)
not_equal = _function(Tensor.not_equal)
numel = _function(Tensor.numel)
pow = _function(Tensor.pow)
prod = _function(Tensor.prod)
ravel = _function(Tensor.ravel)
reciprocal = _function(Tensor.reciprocal)
relu = _function(Tensor.relu)
remainder = _function(Tensor.remainder)
repeat_interleave = _function(Tensor.repeat_interleave)
roll = _function(Tensor.roll)
round = _function(Tensor.round)
rsqrt = _function(Tensor.rsqrt)
scatter = _function(Tensor.scatter)
scatter_add = _function(Tensor.scatter_add)
select = _function(Tensor.select)
sigmoid = _function(Tensor.sigmoid)
sign = _function(Tensor.sign)
sin = _function(Tensor.sin)
sinh = _function(Tensor.sinh)
softmax = _function(Tensor.softmax)
sort = _function(Tensor.sort)
sqrt = _function(Tensor.sqrt)
square = _function(Tensor.square)
squeeze = _function(Tensor.squeeze)
std = _function(Tensor.std)
sub = _function(Tensor.sub)
subtract = _function(Tensor.subtract)
sum = _function(Tensor.sum)
swapaxes = _function(Tensor.swapaxes)
swapdims = _function(Tensor.swapdims)
t = _function(Tensor.t)
take = _function(Tensor.take)
tan = _function(Tensor.tan)
tanh = _function(Tensor.tanh)
topk = _function(Tensor.topk)
trace = _function(Tensor.trace)
transpose = _function(Tensor.transpose)
tril = _function(Tensor.tril)
triu = _function(Tensor.triu)
true_divide = _function(Tensor.true_divide)
trunc = _function(Tensor.trunc)
unbind = _function(Tensor.unbind)
unflatten = _function(Tensor.unflatten)
unique = _function(Tensor.unique)
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
    found = passes.gradients(ys, xs, seeds, retain_graph, create_graph)
    for i, g in enumerate(found):
        if g is None and not allow_unused:
            raise RuntimeError(f"grad: no output depends on input {i}; pass allow_unused=True to get None for it")
    return tuple(found)
