"""The layers: a few parameters, their first values, and one line of functional."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinygrad_edu.creation import empty
from tinygrad_edu.engine.modes import no_grad
from tinygrad_edu.nn import functional as F
from tinygrad_edu.nn import init
from tinygrad_edu.nn.module import Module
from tinygrad_edu.nn.parameter import Parameter
from tinygrad_edu.options import axes_lengths, integer, probability
from tinygrad_edu.tensor import Tensor


class Linear(Module):
    """Y = X·Wᵀ + b, row by row: no row sees another.

    Args:
        in_features: width of X [..., in_features].
        out_features: width of Y [..., out_features].
        bias: whether there is a b.
        device: where the parameters live, "cpu" or "cuda".
        dtype: their dtype, float32 unless given.

    Parameters: weight W [out_features, in_features] and bias b [out_features], uniform in ±1/√in_features at first.
    Raises ValueError for negative widths; calling it raises one for an X of another width.

    >>> from tinygrad_edu import nn
    >>> import tinygrad_edu as tg
    >>> nn.Linear(4, 3)(tg.zeros(2, 5, 4)).shape
    (2, 5, 3)
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        _sizes("Linear", in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        self.weight = _empty((out_features, in_features), dtype, device)
        self.bias = _empty((out_features,), dtype, device) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the first values again."""
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Any) -> Tensor:
        """X [..., in_features] -> Y [..., out_features]."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """in_features=4, out_features=3, bias=True"""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Embedding(Module):
    """Row `id` of a table for every id: the same as one-hot(id)·W, without the product.

    The row `padding_idx`, if there is one, is zero at first and never gets a gradient, so no step moves it.
    `reset_parameters(std)` keeps it zero; filling `weight` by other means overwrites it, as in PyTorch.

    Args:
        num_embeddings: rows of the table, V; ids are in [0, V).
        embedding_dim: width of a row, D.
        padding_idx: id of the padding token; negative counts from the end.
        max_norm, norm_type: rows that are asked for and longer than this are shortened in place.
        scale_grad_by_freq: False is all there is. sparse: without effect: the gradient is dense.
        _weight: a table to start from, in its memory. _freeze: whether it gets no gradient.
        device: where the table lives.
        dtype: its dtype, float32 unless given.

    Parameters: weight [num_embeddings, embedding_dim], normal with mean 0 and standard deviation 1 at first.
    Raises ValueError for a padding_idx outside the table; calling it raises IndexError for an id outside.

    >>> from tinygrad_edu import nn
    >>> nn.Embedding(10, 4, padding_idx=0)([[3, 0]])[0, 1].tolist()
    [0.0, 0.0, 0.0, 0.0]
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _sizes("Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        if padding_idx is not None:
            if not -num_embeddings <= integer(padding_idx, "Embedding: padding_idx") < num_embeddings:
                raise ValueError(f"Embedding: padding_idx {padding_idx} is outside the table of {num_embeddings} rows")
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        if _weight is None:
            self.weight = _empty((num_embeddings, embedding_dim), dtype, device)
            self.reset_parameters()
        elif _weight.shape != (num_embeddings, embedding_dim):
            raise ValueError(f"Embedding: _weight {_weight.shape} is no table of {num_embeddings} by {embedding_dim}")
        else:
            self.weight = Parameter(_weight)
        self.weight.requires_grad_(not _freeze)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """A layer whose table is `embeddings` [num_embeddings, embedding_dim], in its memory, frozen if `freeze`."""
        if embeddings.ndim != 2:
            raise ValueError(f"Embedding.from_pretrained: the table needs two axes, got shape {embeddings.shape}")
        rows, width = embeddings.shape
        options = (padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
        return cls(rows, width, *options, _weight=embeddings, _freeze=freeze)

    def reset_parameters(self, std: float = 1.0) -> None:
        """Draw the table again, normal with mean 0 and standard deviation `std`; the padding row becomes zero."""
        init.normal_(self.weight, std=std)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].zero_()

    def forward(self, input: Any) -> Tensor:
        """input [...], integers -> rows [..., embedding_dim]."""
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq)

    def extra_repr(self) -> str:
        """10, 4, padding_idx=0"""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class LayerNorm(Module):
    """y = (x − mean) / √(variance + ε) ⊙ weight + bias, over the last axes; the variance is the mean square deviation.

    Args:
        normalized_shape: sizes of the axes that are normalised together, an int for the last axis alone.
        eps: ε, added under the root.
        elementwise_affine: whether there is a weight.
        bias: whether there is a bias as well.
        device: where the parameters live.
        dtype: their dtype, float32 unless given.

    Parameters: weight and bias, of shape normalized_shape, ones and zeros at first.
    Calling it raises ValueError where x does not end in normalized_shape.

    >>> from tinygrad_edu import nn
    >>> import tinygrad_edu as tg
    >>> [round(v, 3) for v in nn.LayerNorm(2)(tg.tensor([3.0, 5.0])).tolist()]
    [-1.0, 1.0]
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        shape = axes_lengths(normalized_shape, "LayerNorm: normalized_shape")
        if not shape or min(shape) < 0:
            raise ValueError(f"LayerNorm: normalized_shape {normalized_shape} must hold lengths, none below 0")
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        self.weight = _empty(shape, dtype, device) if elementwise_affine else None
        self.bias = _empty(shape, dtype, device) if elementwise_affine and bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to ones and the bias to zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Any) -> Tensor:
        """x [..., *normalized_shape] -> y of the same shape."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """(4,), eps=1e-05, elementwise_affine=True"""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class RMSNorm(Module):
    """y = x / √(mean(x²) + ε) ⊙ weight, the mean over the last axes; nothing is subtracted.

    Args:
        normalized_shape: sizes of the axes that are normalised together, an int for the last axis alone.
        eps: ε; the rounding unit of x's dtype where None.
        elementwise_affine: whether there is a weight.
        device: where it lives.
        dtype: its dtype, float32 unless given.

    Parameters: weight, of shape normalized_shape, ones at first.
    Source: Zhang and Sennrich, "Root mean square layer normalization", 2019.

    >>> from tinygrad_edu import nn
    >>> import tinygrad_edu as tg
    >>> nn.RMSNorm(2)(tg.tensor([3.0, -3.0])).tolist()
    [1.0, -1.0]
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        shape = axes_lengths(normalized_shape, "RMSNorm: normalized_shape")
        if not shape or min(shape) < 0:
            raise ValueError(f"RMSNorm: normalized_shape {normalized_shape} must hold lengths, none below 0")
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        self.weight = _empty(shape, dtype, device) if elementwise_affine else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to ones."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Any) -> Tensor:
        """x [..., *normalized_shape] -> y of the same shape."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """(4,), eps=None, elementwise_affine=True"""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class Dropout(Module):
    """In training, each element becomes 0 with probability p and is divided by 1 − p otherwise; in eval, y = x.

    Args:
        p: the probability, in [0, 1].
        inplace: write y into the memory of x.

    Raises ValueError for a p outside.

    >>> from tinygrad_edu import nn
    >>> import tinygrad_edu as tg
    >>> nn.Dropout(0.5).eval()(tg.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        self.p, self.inplace = probability(p, "Dropout: p"), inplace

    def forward(self, input: Any) -> Tensor:
        """x of any shape -> y of the same shape."""
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        """p=0.5"""
        return f"p={self.p}"


class GELU(Module):
    """y = x·Φ(x), Φ the normal distribution's cumulative function: x where x is large, 0 where x is very negative.

    Args:
        approximate: "none" for Φ by the error function, "tanh" for Φ ≈ ½(1 + tanh(√(2/π)(x + 0.044715x³))).

    Raises ValueError for another `approximate`.

    >>> from tinygrad_edu import nn
    >>> import tinygrad_edu as tg
    >>> round(nn.GELU()(tg.ones(1)).item(), 4)
    0.8413
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        if approximate not in ("none", "tanh"):
            raise ValueError(f"GELU: approximate is 'none' or 'tanh', not {approximate!r}")
        self.approximate = approximate

    def forward(self, input: Any) -> Tensor:
        """x of any shape -> y of the same shape."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """approximate='none'"""
        return f"approximate={self.approximate!r}"


def _empty(shape: tuple[int, ...], dtype: Any, device: Any) -> Parameter:
    return Parameter(empty(shape, dtype=dtype, device=device))


def _sizes(layer: str, **sizes: int) -> None:
    for name, size in sizes.items():
        integer(size, f"{layer}: {name}", 0)
