"""Functions at the top of the package that are no methods: of several tensors, and `grad`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, cast

from tinygrad_edu.arrays import library, promotion
from tinygrad_edu.engine import backward
from tinygrad_edu.engine.tape import Variable
from tinygrad_edu.methods.common import axis_of, numpy_names
from tinygrad_edu.ops import choice, shape
from tinygrad_edu.tensor import Tensor, tensor


@numpy_names
def cat(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """The tensors one behind the other along `dim`; their other lengths are equal.

    >>> import tinygrad_edu as tg
    >>> cat([tg.ones(1, 2), tg.zeros(1, 2)]).tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """
    parts = [t if isinstance(t, Variable) else tensor(t) for t in tensors]
    if not parts:
        raise ValueError("cat: needs at least one tensor, got none")
    full = next((t for t in parts if t.array.shape != (0,)), parts[0])
    if full.array.ndim > 1:  # PyTorch's old empty tensor, of shape (0,), goes with every shape
        at = axis_of(full, dim, "cat")
        empty = (*full.array.shape[:at], 0, *full.array.shape[at + 1 :])
        parts = [shape.Reshape(t, shape=empty) if t.array.shape == (0,) else t for t in parts]
    axis = axis_of(parts[0], dim, "cat")
    first = parts[0].array.shape
    for t in parts:
        s = t.array.shape
        if len(s) != len(first) or s[:axis] + s[axis + 1 :] != first[:axis] + first[axis + 1 :]:
            raise ValueError(f"cat: shapes {first} and {s} differ elsewhere than along dim {dim}")
    return shape.Cat(*parts, axis=axis)


concat = concatenate = cat


def column_stack(tensors: Sequence[Any]) -> Tensor:
    """The tensors side by side, vectors as one column each."""
    return cat([t.reshape(-1, 1) if t.ndim < 2 else t for t in map(_tensor, tensors)], dim=1)


@numpy_names
def stack(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """The tensors, of one shape, along a new axis `dim`.

    >>> import tinygrad_edu as tg
    >>> stack([tg.ones(2), tg.zeros(2)], dim=1).tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    parts = [t if isinstance(t, Tensor) else tensor(t) for t in tensors]
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
    mask = condition if isinstance(condition, Variable) else tensor(condition)
    if input is None and other is None:
        return cast(Tensor, mask).nonzero(as_tuple=True)
    if mask.array.dtype.kind != "b":
        raise TypeError(f"where: condition must be boolean, got {mask.array.dtype}; compare something (x != 0)")
    return choice.Where(mask, input, other)


def is_tensor(obj: object) -> bool:
    """Whether `obj` is a Tensor."""
    return isinstance(obj, Tensor)


def atleast_1d(*tensors: Any) -> Any:
    """The tensor, or each, with at least one axis."""
    found = tuple(t if t.ndim else t.reshape(1) for t in map(_tensor, _unpacked(tensors)))
    return found if len(tensors) > 1 or isinstance(tensors[0], tuple | list) else found[0]


def block_diag(*tensors: Any) -> Tensor:
    """The matrices, one below and beside the other, 0 elsewhere."""
    parts = [t.reshape(1, -1) if t.ndim < 2 else t for t in map(_tensor, tensors)]
    if any(t.ndim > 2 for t in parts):
        raise ValueError(f"block_diag: needs matrices, got shapes {[t.shape for t in parts]}")
    width = sum(t.shape[1] for t in parts)
    begins = [sum(t.shape[1] for t in parts[:i]) for i in range(len(parts))]
    wide = [shape.Widen(t, axis=1, start=begin, length=width) for t, begin in zip(parts, begins)]
    return cat(wide, dim=0)


def cartesian_prod(*tensors: Any) -> Tensor:
    """Every choice of an element from each vector, as a row."""
    given = [_tensor(v) for v in _unpacked(tensors)]
    if any(v.ndim != 1 for v in given):
        raise ValueError(f"cartesian_prod: needs vectors, got shapes {[v.shape for v in given]}")
    grids = meshgrid(*given)
    return grids[0].reshape(-1) if len(grids) == 1 else stack([g.reshape(-1) for g in grids], dim=1)


def split(tensor: Any, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces along `dim`: each of the size given, the last shorter, or of the lengths given."""
    return _tensor(tensor).split(split_size_or_sections, dim)


def split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of the lengths given along `dim`."""
    return _tensor(input).split(list(split_sizes), dim)


def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """So many pieces along `dim` as nearly equal as can be, the first ones longer, or those that begin at the indices.

    >>> [part.tolist() for part in tensor_split(Tensor([1, 2, 3]), 2)]
    [[1, 2], [3]]
    """
    x = _tensor(input)
    n = x.shape[axis_of(x, dim, "tensor_split")]
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        if indices_or_sections < 1:
            raise ValueError(f"tensor_split: the number of pieces must be at least 1, got {indices_or_sections}")
        each, more = divmod(n, indices_or_sections)
        return x.split([each + (i < more) for i in range(indices_or_sections)], dim)
    ends = [0, *(min(max(int(i) + n if i < 0 else int(i), 0), n) for i in indices_or_sections), n]
    return tuple(x.narrow(dim, a, max(b - a, 0)) for a, b in itertools.pairwise(ends))


def promote_types(type1: Any, type2: Any) -> Any:
    """The dtype that holds what both hold, by PyTorch's rule: floating beats integer beats boolean."""
    return result_type(Tensor([0], dtype=type1), Tensor([0], dtype=type2))


def result_type(tensor1: Any, tensor2: Any) -> Any:
    """The dtype of tensor1 + tensor2.

    >>> str(result_type(Tensor([1]), 2.5))
    'float32'
    """
    given = [x.array if isinstance(x, Variable) else x for x in (tensor1, tensor2)]
    return promotion.promoted(given, [isinstance(x, Variable) for x in (tensor1, tensor2)])[0].dtype


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """For vectors of lengths n, m, ...: tensors [n, m, ...], each with its vector along its own axis.

    `indexing` "xy" exchanges the first two axes.

    >>> meshgrid(Tensor([1, 2]), Tensor([3, 4, 5]), indexing="ij")[0].tolist()
    [[1, 1, 1], [2, 2, 2]]
    """
    if indexing not in ("ij", "xy"):
        raise ValueError(f"meshgrid: indexing is 'ij' or 'xy', not {indexing!r}")
    given = [_tensor(v) for v in _unpacked(tensors)]
    if any(v.ndim > 1 for v in given):
        raise ValueError(f"meshgrid: needs vectors, got shapes {[v.shape for v in given]}")
    vectors = [v.reshape(-1) for v in given]
    lengths = tuple(v.shape[0] for v in vectors)
    grids = [v.reshape((1,) * i + (-1,) + (1,) * (len(vectors) - i - 1)).expand(lengths) for i, v in enumerate(vectors)]
    return tuple(g.transpose(0, 1) if indexing == "xy" and len(grids) > 1 else g for g in grids)


def var_mean(
    input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
) -> tuple[Tensor, Tensor]:
    """(variance, mean) along `dim`; see `Tensor.var`."""
    x = _tensor(input)
    return x.var(dim, unbiased, keepdim, correction=correction), x.mean(None if isinstance(dim, bool) else dim, keepdim)


def std_mean(
    input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
) -> tuple[Tensor, Tensor]:
    """(standard deviation, mean) along `dim`; see `Tensor.std`."""
    x = _tensor(input)
    return x.std(dim, unbiased, keepdim, correction=correction), x.mean(None if isinstance(dim, bool) else dim, keepdim)


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
    longest = max((len(s) for s in shapes), default=0)
    padded = [(1,) * (longest - len(s)) + s for s in shapes]
    return tuple(next((n for n in ns if n != 1), 1) for ns in zip(*padded))


def _unpacked(tensors: tuple[Any, ...]) -> Sequence[Any]:
    """Tensors given one by one, or as one sequence."""
    return tensors[0] if len(tensors) == 1 and isinstance(tensors[0], tuple | list) else tensors


def _tensor(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else tensor(x)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """d(Σ outputs ⊙ grad_outputs)/d(input) for every input, as a tuple; no `.grad` is touched.

    Args:
        outputs: a tensor or a sequence of them, each of one element or with its gradient in `grad_outputs`.
        inputs: a tensor or a sequence of them, leaves or not, that the outputs were computed from.
        grad_outputs: gradients of the outputs' shapes; None means 1.
        retain_graph: keep what the ops saved, for another pass; defaults to `create_graph`.
        create_graph: record the pass, so that the gradients can be differentiated again.
        only_inputs: True is all there is: no `.grad` is written.
        allow_unused: give None for an input that no output depends on, instead of an error.
        is_grads_batched: False is all there is; see `autograd.jacobian`.
        materialize_grads: give zeros for such an input.

    Raises:
        RuntimeError: an output or input needs no gradient, an input was not used, or the graph was freed or changed.

    >>> x = Tensor(3.0, requires_grad=True)
    >>> (slope,) = grad(x**3, x, create_graph=True)
    >>> grad(slope, x)
    (tensor(18.),)
    """
    if is_grads_batched or not only_inputs:
        raise ValueError("grad: is_grads_batched must be False and only_inputs True; call grad once for each gradient")
    ys = [outputs] if isinstance(outputs, Variable) else list(outputs)
    xs = [inputs] if isinstance(inputs, Variable) else list(inputs)
    seeds = [grad_outputs] if isinstance(grad_outputs, Variable) or library.is_array(grad_outputs) else grad_outputs
    found = backward.gradients(ys, xs, seeds, retain_graph, create_graph)
    for i, g in enumerate(found):
        if g is None and materialize_grads:
            found[i] = shape.Detach(xs[i]) * 0
        elif g is None and not allow_unused:
            raise RuntimeError(f"grad: no output depends on input {i}; pass allow_unused=True to get None for it")
    return tuple(found)
