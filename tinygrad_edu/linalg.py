"""Linear algebra under PyTorch's names: norms and products; what decomposes a matrix is not here."""

from __future__ import annotations

from typing import Any

from tinygrad_edu.absent import missing
from tinygrad_edu.methods.products import matmul
from tinygrad_edu.mirrored import diagonal
from tinygrad_edu.tensor import Tensor, tensor

__all__ = ["cross", "diagonal", "matmul", "matrix_norm", "norm", "vecdot", "vector_norm"]


def vector_norm(x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """(Σ |x|^ord)^(1/ord) over `dim`, or over all; see `Tensor.norm`. The gradient at 0 is 0.

    >>> vector_norm([3.0, 4.0]).item()
    5.0
    """
    return _tensor(x).norm(ord, dim, keepdim, dtype)


def matrix_norm(
    A: Any, ord: Any = "fro", dim: tuple[int, int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The norm of matrices [..., n, m] in the axes `dim`: "fro", the root of all squares; inf and 1, the largest sum of
    |A| along a row or column; −inf and −1, the smallest.

    Raises ValueError for 2, −2 and "nuc", which need singular values.
    """
    x = _tensor(A)
    if ord == "fro":
        return x.norm("fro", dim, keepdim, dtype)
    if ord not in (1, -1, float("inf"), float("-inf")):
        raise ValueError(
            f"matrix_norm: ord is 'fro', 1, -1, inf or -inf here, not {ord!r}; no singular values are found"
        )
    rows, columns = (d % x.ndim for d in dim)
    summed, other = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = x.norm(1, summed, True, dtype)
    found = sums.amax(other, True) if ord > 0 else sums.amin(other, True)
    return found if keepdim else found.squeeze((rows, columns))


def norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """`vector_norm` of one axis, `matrix_norm` of two; of all elements, by their squares, where nothing is given.

    >>> norm([[3.0, 0.0], [0.0, 4.0]]).item()
    5.0
    """
    x = _tensor(A)
    if ord is None or (dim is None and x.ndim < 2) or (dim is not None and not isinstance(dim, tuple | list)):
        return x.norm(2 if ord is None else ord, dim, keepdim, dtype)
    axes = (-2, -1) if dim is None else tuple(dim)
    if len(axes) == 1:
        return x.norm(ord, axes, keepdim, dtype)
    return matrix_norm(x, ord, axes, keepdim, dtype=dtype)


def vecdot(x: Any, y: Any, *, dim: int = -1) -> Tensor:
    """Σ x ⊙ y along `dim`; the other axes broadcast."""
    return (_tensor(x) * y).sum(dim)


def cross(input: Any, other: Any, *, dim: int = -1) -> Tensor:
    """The vector at right angles to both, by axis `dim` of length 3."""
    return _tensor(input).cross(other, dim)


def _tensor(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else tensor(x)


_INSTEAD = dict.fromkeys(
    ["svd", "qr", "cholesky", "inv", "pinv", "solve", "lstsq", "det", "slogdet", "eig", "eigh", "matrix_exp"],
    "NumPy's linalg works on x.detach().numpy(), without gradient",
)


def __getattr__(name: str) -> Any:
    raise missing("linalg", name, __all__, _INSTEAD)
