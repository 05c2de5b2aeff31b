"""Products of tensors that sum over axes: matmul, einsum, outer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tinygrad_edu.arrays import dtypes, library
from tinygrad_edu.engine.tape import Variable
from tinygrad_edu.methods.common import axis_of, binary, check_broadcast, integers, operand, widened
from tinygrad_edu.ops import arithmetic, choice, index, matrix, reduction, shape

if TYPE_CHECKING:
    from tinygrad_edu.tensor import Tensor


def matmul(input: Any, other: Any) -> Tensor:
    """The matrix product over the last axis of `input` and the last but one of `other`.

    Shapes: [..., n, m] and [..., m, k] to [..., n, k], leading axes broadcast; a vector [m] counts as one row on the
    left and one column on the right, and that axis is left out of the result.

    Raises:
        ValueError: an operand has no axis, or the lengths m differ.

    >>> import tinygrad_edu as tg
    >>> tg.matmul(tg.tensor([[1.0, 2.0], [3.0, 4.0]]), tg.tensor([5.0, -1.0]))
    tensor([ 3., 11.])
    """
    x, y = _tensors([input, other], "matmul")
    a, b = x.array.shape, y.array.shape
    if not a or not b:
        raise ValueError(f"matmul: operands need at least one axis, got shapes {a} and {b}; use * for numbers")
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        raise ValueError(
            f"matmul: {a} and {b} do not fit: the last axis of the first ({a[-1]}) must equal the "
            f"{'last but one' if len(b) > 1 else 'only'} axis of the second ({inner})"
        )
    left, right = len(a) == 1, len(b) == 1
    if left:
        x = shape.Reshape(x, shape=(1, *a))
    if right:
        y = shape.Reshape(y, shape=(*b, 1))
    z = binary(matrix.Matmul, x, y)
    if left or right:
        *lead, n, k = z.array.shape
        z = shape.Reshape(z, shape=(*lead, *(() if left else (n,)), *(() if right else (k,))))
    return z


def outer(input: Any, vec2: Any) -> Tensor:
    """out_ij = x_i · y_j of two vectors.

    >>> import tinygrad_edu as tg
    >>> tg.outer(tg.tensor([1, 2]), tg.tensor([3, 4, 5])).tolist()
    [[3, 4, 5], [6, 8, 10]]
    """
    x, y = _tensors([input, vec2], "outer")
    if x.array.ndim != 1 or y.array.ndim != 1:
        raise ValueError(f"outer: needs two vectors, got shapes {x.array.shape} and {y.array.shape}")
    return shape.Reshape(x, shape=(-1, 1)) * y


def einsum(equation: str, *operands: Any) -> Tensor:
    """The sum of products that `equation` spells: an input's letters name its axes, letters missing in the result are
    summed. "..." stands for leading axes that broadcast; without "->" the letters used once are the result, in order.

    Raises:
        ValueError: the equation does not fit the operands, or a letter has two lengths.

    >>> import tinygrad_edu as tg
    >>> tg.einsum("ij,jk->ik", tg.ones(2, 3), tg.ones(3, 4)).shape
    (2, 4)
    """
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    xs = _tensors(list(operands), "einsum")
    terms, result = _spelled(equation.replace(" ", ""), [x.array.ndim for x in xs])
    lengths: dict[str, int] = {}
    for term, x in zip(terms, xs):
        for letter, n in zip(term, x.array.shape):
            if lengths.get(letter, 1) not in (1, n) and n != 1:
                raise ValueError(f"einsum: {equation!r}: letter {letter!r} is {lengths[letter]} long and also {n}")
            lengths[letter] = lengths[letter] if n == 1 and letter in lengths else n
    if twice := [c for c in result if result.count(c) > 1]:
        raise ValueError(f"einsum: {equation!r}: the result has {twice[0]!r} twice; see diag_embed")
    if unknown := [c for c in result if c not in lengths]:
        raise ValueError(f"einsum: {equation!r}: the result has {unknown[0]!r}, which no input has")
    for i, term in enumerate(terms):
        xs[i], terms[i] = _own_letters(xs[i], term, lengths)
    for i, term in enumerate(terms):
        others = result + "".join(terms[:i] + terms[i + 1 :])
        alone = tuple(p for p, c in enumerate(term) if c not in others)
        if alone and xs[i].array.dtype.kind != "f":  # a sum of small integers is int64, and multiplied as such
            xs = [x if x.array.dtype.kind == "f" else x.to(dtypes.int64) for x in xs]
        if alone and len(terms) > 1:
            xs[i], terms[i] = reduction.Sum(xs[i], axes=alone), "".join(c for c in term if c in others)
    if len(xs) == 1 and len(terms[0]) == len(result):
        return shape.Permute(xs[0], axes=tuple(map(terms[0].index, result)))
    return matrix.Einsum(*xs, equation=",".join(terms) + "->" + result)


def _own_letters(x: Any, term: str, lengths: dict[str, int]) -> tuple[Any, str]:
    """One input of einsum with each letter once, and only with axes of the full length: an axis of 1 is left out."""
    while len(set(term)) < len(term):  # a letter twice in one term: that diagonal
        letter = next(c for c in term if term.count(c) > 1)
        first, second = (p for p, c in enumerate(term) if c == letter and term[:p].count(c) < 2)
        if x.array.shape[first] != x.array.shape[second]:
            raise ValueError(
                f"einsum: letter {letter!r} of {term!r} is {x.array.shape[first]} and {x.array.shape[second]} long; a "
                f"diagonal needs equal lengths"
            )
        x, term = _diagonal(x, first, second), term[:second] + term[second + 1 :]
    wide = [c for c, n in zip(term, x.array.shape) if n == 1 != lengths[c]]  # the axis of another input is enough
    if wide:
        x = shape.Reshape(x, shape=tuple(n for c, n in zip(term, x.array.shape) if c not in wide))
        term = "".join(c for c in term if c not in wide)
    return x, term


def tensordot(a: Any, b: Any, dims: Any = 2) -> Tensor:
    """Σ a·b over `dims` axes: as many last ones of `a` and first ones of `b`, or those of two lists of equal length.

    >>> import tinygrad_edu as tg
    >>> tg.tensordot(tg.ones(2, 3, 4), tg.ones(3, 4, 5), dims=2).shape
    (2, 5)
    """
    x, y = _tensors([a, b], "tensordot")
    n, m = x.array.ndim, y.array.ndim
    if hasattr(dims, "__index__"):
        if not 0 <= dims.__index__() <= min(n, m):
            raise ValueError(f"tensordot: dims must lie in 0 to {min(n, m)}, the fewer axes of both; got {dims}")
        over, under = list(range(n - int(dims), n)), list(range(int(dims)))
    else:
        over, under = ([axis_of(t, d, "tensordot") for d in integers((ds,))] for t, ds in zip((x, y), dims))
    for i, j in zip(over, under) if len(over) == len(under) else ():  # an axis of 1 goes with any length
        if x.array.shape[i] == 1 != y.array.shape[j]:
            y = y.sum(j, keepdim=True, dtype=y.dtype)
        elif y.array.shape[j] == 1 != x.array.shape[i]:
            x = x.sum(i, keepdim=True, dtype=x.dtype)
    if [x.array.shape[i] for i in over] != [y.array.shape[i] for i in under]:
        raise ValueError(f"tensordot: {x.array.shape} and {y.array.shape} do not fit along the axes {over} and {under}")
    kept, others = [i for i in range(n) if i not in over], [i for i in range(m) if i not in under]
    left = [x.array.shape[i] for i in kept]
    right = [y.array.shape[i] for i in others]
    size = math.prod(x.array.shape[i] for i in over)
    rows = shape.Reshape(shape.Permute(x, axes=(*kept, *over)), shape=(math.prod(left), size))
    columns = shape.Reshape(shape.Permute(y, axes=(*under, *others)), shape=(size, math.prod(right)))
    return shape.Reshape(binary(matrix.Matmul, rows, columns), shape=(*left, *right))


@widened
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: Any = None) -> Tensor:
    """‖x1_i − x2_j‖_p of every pair of rows: [..., n, D] and [..., m, D] to [..., n, m]. The gradient at 0 is 0.

    Unlike PyTorch's it always takes the differences themselves, so that small distances are exact; `compute_mode` has
    no effect.

    >>> import tinygrad_edu as tg
    >>> tg.cdist(tg.tensor([[0.0, 0.0]]), tg.tensor([[3.0, 4.0]])).item()
    5.0
    """
    if not p >= 0:
        raise ValueError(f"cdist: p must be at least 0, got {p}")
    x, y = _tensors([x1, x2], "cdist")
    return (x.unsqueeze(-2) - y.unsqueeze(-3)).norm(p, -1)


class Products(Variable, result=False):
    """Methods of Tensor that multiply and sum."""

    __slots__ = ()

    def matmul(self, other: Any) -> Tensor:
        """The matrix product, leading axes broadcast; see `tinygrad_edu.matmul`."""
        return matmul(self, other)

    def mm(self, mat2: Any) -> Tensor:
        """The product of two matrices."""
        return _product(self, mat2, (2, 2), "mm")

    def bmm(self, mat2: Any) -> Tensor:
        """The products of two batches of matrices, [B, n, m] and [B, m, k] to [B, n, k]."""
        return _product(self, mat2, (3, 3), "bmm")

    def mv(self, vec: Any) -> Tensor:
        """The product of a matrix and a vector."""
        return _product(self, vec, (2, 1), "mv")

    def dot(self, tensor: Any) -> Tensor:
        """Σ x_i · y_i of two vectors."""
        return _product(self, tensor, (1, 1), "dot")

    def outer(self, vec2: Any) -> Tensor:
        """out_ij = x_i · y_j of two vectors."""
        return outer(self, vec2)

    @widened
    def addmm(self, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """beta · x + alpha · mat1·mat2; what is multiplied with 0 is not looked at, be it NaN."""
        return _sum(self, beta, _product(mat1, mat2, (2, 2), "addmm"), alpha, "addmm")

    @widened
    def baddbmm(self, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """beta · x + alpha · batch1·batch2, batches of matrices; what is multiplied with 0 is not looked at."""
        return _sum(self, beta, _product(batch1, batch2, (3, 3), "baddbmm"), alpha, "baddbmm")

    @widened
    def addmv(self, mat: Any, vec: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """beta · x + alpha · mat·vec; what is multiplied with 0 is not looked at."""
        return _sum(self, beta, _product(mat, vec, (2, 1), "addmv"), alpha, "addmv")

    def vdot(self, other: Any) -> Tensor:
        """`dot`: there are no complex numbers."""
        return self.dot(other)

    def inner(self, other: Any) -> Tensor:
        """Σ over the last axis of both, for every pair of rows."""
        y = operand(other, self)
        if not self.array.ndim or not y.array.ndim:
            return binary(arithmetic.Mul, self, y)
        return tensordot(self, y, ([-1], [-1]))

    def kron(self, other: Any) -> Tensor:
        """The Kronecker product: each element of x times all of `other`, in its place."""
        y = operand(other, self)
        n = max(self.array.ndim, y.array.ndim)
        a, b = ((1,) * (n - t.array.ndim) + t.array.shape for t in (self, y))
        x = shape.Reshape(self, shape=tuple(k for i in a for k in (i, 1)))
        product = binary(arithmetic.Mul, x, shape.Reshape(y, shape=tuple(k for i in b for k in (1, i))))
        return shape.Reshape(product, shape=tuple(i * j for i, j in zip(a, b)))

    @widened
    def cross(self, other: Any, dim: int | None = None) -> Tensor:
        """The vector at right angles to both, by axis `dim` of length 3: the first such axis where None."""
        x, y = _tensors([self, other], "cross")
        if x.array.ndim != y.array.ndim:
            raise ValueError(f"cross: both need equally many axes, got shapes {x.array.shape} and {y.array.shape}")
        if dim is None:
            dim = next((i for i, n in enumerate(x.array.shape) if n == 3), -1)
        dim = axis_of(x, dim, "cross") - x.array.ndim
        if x.array.shape[dim] != 3 or y.array.shape[dim] != 3:
            raise ValueError(f"cross: axis {dim} of {x.array.shape} and {y.array.shape} must have length 3")
        turn = [t.roll(k, dim) for k in (-1, -2) for t in (x, y)]
        return turn[0] * turn[3] - turn[2] * turn[1]


def _sum(x: Any, beta: float, product: Any, alpha: float, what: str) -> Any:
    """beta · x + alpha · product, x broadcast to the shape of the product."""
    check_broadcast(x.array.shape, product.array.shape, what)
    return _scaled(x, beta, what) + _scaled(product, alpha, what)


def _scaled(x: Any, factor: float, what: str) -> Any:
    """factor · x; for the factor 0 that is 0 also where x is ∞ or NaN, as in BLAS."""
    if type(factor) is float and not isinstance(x, float) and x.dtype.kind != "f":
        raise TypeError(f"{what}: alpha and beta of tensors of {x.dtype} must be integers, got {factor}")
    if factor == 0:
        return choice.MaskedFill(x, library.module_of(x.array).ones((), dtype=bool), value=0)
    if x.dtype.kind == "f":
        dtypes.number_for(factor, x.dtype, f"{what}: alpha or beta")
    return x if factor == 1 else x * factor


def _product(x: Any, y: Any, axes: tuple[int, int], what: str) -> Any:
    x, y = _tensors([x, y], what)
    a, b = x.array.shape, y.array.shape
    if (len(a), len(b)) != axes or (len(a) == 3 and a[0] != b[0]):
        raise ValueError(
            f"{what}: {a} and {b} do not fit; it takes {axes[0]} and {axes[1]} axes, use matmul for others"
        )
    return matmul(x, y)


def _spelled(equation: str, ndims: list[int]) -> tuple[list[str], str]:
    """The letters of every input and of the result, "..." written out."""
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(ndims):
        raise ValueError(f"einsum: {equation!r} names {len(terms)} inputs, {len(ndims)} were given")
    free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" if c not in equation]
    most = max((n - len(t.replace("...", "")) for t, n in zip(terms, ndims) if "..." in t), default=0)
    dots = "".join(free[: max(most, 0)])
    spelled = []
    for term, n in zip(terms, ndims):
        named = term.replace("...", "")
        rest = n - len(named)
        if rest < 0 or (rest and "..." not in term) or not all(c.isalpha() for c in named):
            raise ValueError(f"einsum: {equation!r}: {term!r} does not spell the {n} axes of its input")
        spelled.append(term.replace("...", dots[len(dots) - rest :]))
    if not arrow:
        every = "".join(spelled)
        right = dots + "".join(sorted(c for c in set(every) - set(dots) if every.count(c) == 1))
    return spelled, right.replace("...", dots)


def _diagonal(x: Any, first: int, second: int) -> Any:
    """Where two axes have the same index: `second` is left out."""
    n = x.array.ndim
    order = (first, second, *(i for i in range(n) if i not in (first, second)))
    moved = shape.Permute(x, axes=order)
    along = library.module_of(x.array).arange(x.array.shape[first])
    picked = index.GetItem(moved, index=(along, along))  # [that axis, the others]
    left = [first, *(i for i in range(n) if i not in (first, second))]
    return shape.Permute(picked, axes=tuple(left.index(i) for i in range(n) if i != second))


def _tensors(values: list[Any], what: str) -> list[Any]:
    like = next((v for v in values if isinstance(v, Variable)), None)
    if like is None:
        raise TypeError(f"{what}: needs at least one Tensor")
    return [operand(v, like) for v in values]
