"""Methods that change a tensor in place, on the tape where a gradient is to go through them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tinygrad_edu import random
from tinygrad_edu.arrays import devices, dtypes, gpu, indexing, library, memory
from tinygrad_edu.engine import hooks
from tinygrad_edu.engine.modes import active
from tinygrad_edu.engine.tape import Variable
from tinygrad_edu.methods import sharing
from tinygrad_edu.methods.common import (
    axis_of,
    binary,
    brought,
    check_broadcast,
    check_draws,
    check_held,
    index_of,
    mask_of,
    no_booleans,
    of_vectors,
    operand,
    scaled,
)
from tinygrad_edu.methods.keys import numbers_first
from tinygrad_edu.methods.picks import added_at, at_index, grid_of, same_dtype, written
from tinygrad_edu.methods.shapes import triangle
from tinygrad_edu.ops import arithmetic, choice, curve
from tinygrad_edu.ops import index as pick

if TYPE_CHECKING:
    from tinygrad_edu.tensor import Tensor


class Changes(Variable, result=False):
    """Methods of Tensor that write into its memory and return it; views and detached twins see the change.

    A change counts up the version that all who share the memory have in common, so a backward pass through an op that
    saved the old values raises. Where a gradient goes through the change, the tensor becomes the output of the op, and
    so do those who show the same elements, a tensor and its views; a leaf that needs a gradient is not changed so.
    """

    __slots__ = ()

    def _change(self, what: str, op: Any, *others: Any, **static: Any) -> Tensor:
        recorded = active().grad and (
            self.requires_grad or any(isinstance(v, Variable) and v.requires_grad for v in others)
        )
        self._may_change(what, recorded)
        old = sharing.twin(self)
        result = binary(op, old, *others) if others and not static else op(old, *others, **static)
        check_held(what, self, result)
        if result.array.dtype != self.array.dtype:
            result = choice.Cast(result, dtype=self.array.dtype)
        if result.record is not None:
            _keep_apart(result.record, self.array)
            hooks.become(self, result)
        self.array[...] = result.array
        self._version[0] += 1
        if result.record is not None:
            for other in sharing.others(self):
                sharing.follow(other, self)
        return self  # type: ignore[return-value]

    def _overwrite(self, what: str, value: Any) -> Tensor:
        if gpu.in_use:
            value = brought(value, self)
        if active().grad and (self.requires_grad or (isinstance(value, Variable) and value.requires_grad)):
            return self._change(what, pick.SetItem, value, index=...)
        self._may_change(what, False)
        self.array[...] = value.array if isinstance(value, Variable) else value
        self._version[0] += 1
        return self  # type: ignore[return-value]

    def _apart(self) -> Any:
        """These values for an op whose result is to be written here: what it saves for backward must outlive them."""
        return self.clone() if self.requires_grad else self  # type: ignore[attr-defined]

    def _take(self, what: str, result: Any) -> Tensor:
        """x ← what a method gave of it, where the shape and the kind of dtype fit."""
        check_held(what, self, result)
        return self.copy_(result)

    def _may_change(self, what: str, recorded: bool) -> None:
        if recorded and self.requires_grad and self.record is None:
            raise RuntimeError(
                f"{what}: a leaf that needs a gradient is not changed on the tape, or it would be no leaf any more; "
                f"do it under no_grad(), or make a new tensor (x = x + y)"
            )
        for other in sharing.others(self) if recorded else ():
            if other.record is None and other.needs and sharing.overlap(self, other):
                raise RuntimeError(
                    f"{what}: this tensor shares the memory of a leaf that needs a gradient, which is not changed on "
                    f"the tape, or it would be no leaf any more; do it under no_grad(), or change x.clone()"
                )
        if not memory.writable(self.array):
            raise RuntimeError(f"{what}: this tensor's memory is read-only or copied (expand); clone() it first")

    def __setitem__(self, key: Any, value: Any) -> None:
        if (steps := numbers_first(key)) is not None:
            self[steps[0]][steps[1]] = value  # type: ignore[index]
            return
        place = index_of(key, self)
        if type(value) is int and self.array.dtype.kind in "iu":
            value = dtypes.number_for(value, self.array.dtype, "x[...] = v")
        elif type(value) in (int, float) and self.array.dtype in (dtypes.float32, dtypes.float64):
            dtypes.number_for(value, self.array.dtype, "x[...] = v")  # not for float16, as in PyTorch
        value = operand(value, self)
        if value.array.dtype.kind == "f" and self.array.dtype.kind != "f":
            raise TypeError(f"x[...] = v: a tensor of {self.array.dtype} cannot hold {value.array.dtype}")
        if sharing.shows(value, self, place):
            return  # x[i] += y has changed that view already
        recorded = active().grad and (self.requires_grad or value.requires_grad)
        if recorded:
            if value.requires_grad and indexing.names_twice(self.array, place):
                raise ValueError(
                    "x[index] = v: the index names an element twice, so which value it gets is not defined"
                )
            self._change("x[...] = v", pick.SetItem, value, index=place)
            return
        self._may_change("x[...] = v", False)
        if gpu.in_use:
            devices.one_device("x[...] = v", [self.array, value.array])
        try:
            self.array[place] = value.array
        except ValueError as error:
            raise ValueError(f"x[index] = v: {error}") from None
        self._version[0] += 1

    def __iadd__(self, other: Any) -> Tensor:
        return self._change("+=", arithmetic.Add, other)

    def __isub__(self, other: Any) -> Tensor:
        no_booleans("-=", self, other)
        return self._change("-=", arithmetic.Sub, other)

    def __imul__(self, other: Any) -> Tensor:
        return self._change("*=", arithmetic.Mul, other)

    def __itruediv__(self, other: Any) -> Tensor:
        return self._change("/=", arithmetic.Div, other)

    def add_(self, other: Any, alpha: float = 1) -> Tensor:
        """x ← x + alpha · other."""
        return self._change("add_", arithmetic.Add, scaled(self, other, alpha, "add_"))

    def sub_(self, other: Any, alpha: float = 1) -> Tensor:
        """x ← x − alpha · other."""
        no_booleans("sub_", self, other)
        return self._change("sub_", arithmetic.Sub, scaled(self, other, alpha, "sub_"))

    def mul_(self, other: Any) -> Tensor:
        """x ← x ⊙ other."""
        return self._change("mul_", arithmetic.Mul, other)

    def div_(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """x ← x / other, rounded as by `div`."""
        if rounding_mode is not None:
            return self._take("div_", self._apart().div(other, rounding_mode=rounding_mode))
        return self._change("div_", arithmetic.Div, other)

    def addcmul_(self, tensor1: Any, tensor2: Any, value: float = 1) -> Tensor:
        """x ← x + value · tensor1 ⊙ tensor2."""
        return self._take("addcmul_", self._apart().addcmul(tensor1, tensor2, value))

    def addcdiv_(self, tensor1: Any, tensor2: Any, value: float = 1) -> Tensor:
        """x ← x + value · tensor1 / tensor2."""
        return self._take("addcdiv_", self._apart().addcdiv(tensor1, tensor2, value))

    def clamp_(self, min: Any = None, max: Any = None) -> Tensor:
        """x ← x, but not below `min` and not above `max`."""
        if isinstance(min, Variable) or isinstance(max, Variable):
            return self._take("clamp_", self._apart().clamp(min, max))
        if min is None and max is None:
            raise ValueError("clamp_: give min, max or both")
        if self.array.dtype.kind == "f":
            min, max = (dtypes.number_for(bound, self.array.dtype, "clamp_") for bound in (min, max))
        return self._change("clamp_", arithmetic.Clamp, low=min, high=max)

    def neg_(self) -> Tensor:
        """x ← −x."""
        no_booleans("neg_", self)
        return self._change("neg_", arithmetic.Neg)

    def exp_(self) -> Tensor:
        """x ← exp x."""
        return self._change("exp_", arithmetic.Exp)

    def sqrt_(self) -> Tensor:
        """x ← √x."""
        return self._change("sqrt_", arithmetic.Sqrt)

    def relu_(self) -> Tensor:
        """x ← max(x, 0)."""
        return self._change("relu_", curve.Relu)

    def sigmoid_(self) -> Tensor:
        """x ← 1 / (1 + exp(−x))."""
        return self._change("sigmoid_", curve.Sigmoid)

    def tanh_(self) -> Tensor:
        """x ← tanh x."""
        return self._change("tanh_", curve.Tanh)

    def log_(self) -> Tensor:
        """x ← ln x."""
        return self._change("log_", arithmetic.Log)

    def abs_(self) -> Tensor:
        """x ← |x|."""
        return self._change("abs_", arithmetic.Abs)

    def pow_(self, exponent: Any) -> Tensor:
        """x ← x^exponent."""
        if not isinstance(exponent, Variable):
            return self._take("pow_", self._apart() ** exponent)
        return self._change("pow_", arithmetic.Pow, exponent)

    __ipow__ = pow_

    def clamp_min_(self, min: Any) -> Tensor:
        """x ← x, but not below `min`."""
        return self.clamp_(min=min)

    def clamp_max_(self, max: Any) -> Tensor:
        """x ← x, but not above `max`."""
        return self.clamp_(max=max)

    def floor_(self) -> Tensor:
        """x ← the largest integer not above x."""
        return self._change("floor_", arithmetic.Floor)

    def round_(self, decimals: int = 0) -> Tensor:
        """x ← x rounded to `decimals` decimals, halves to even."""
        return self._change("round_", arithmetic.Round, decimals=decimals)

    subtract_, multiply_, divide_ = sub_, mul_, div_

    def copy_(self, src: Any, non_blocking: bool = False) -> Tensor:
        """x ← src, broadcast and converted."""
        source = operand(src, self).to(self.array.dtype, device=devices.device_of(self.array))
        check_broadcast(source.array.shape, self.array.shape, "copy_")
        return self._overwrite("copy_", source)

    def fill_(self, value: Any) -> Tensor:
        """x ← value, a number, everywhere; to integers without its digits after the point."""
        if isinstance(value, Variable) and value.array.ndim:
            raise ValueError(f"fill_: value is a number or a tensor of no axes, got shape {value.array.shape}")
        return self._overwrite("fill_", dtypes.number_for(value, self.array.dtype, "fill_"))

    def zero_(self) -> Tensor:
        """x ← 0 everywhere."""
        return self.fill_(0)

    def masked_fill_(self, mask: Any, value: Any) -> Tensor:
        """x ← value, a number or a tensor of no axes, where the boolean `mask` is true."""
        mask = mask_of(mask, self, "masked_fill_")
        if isinstance(value, Variable):
            return self._take("masked_fill_", self._apart().masked_fill(mask, value))
        check_broadcast(mask.array.shape, self.array.shape, "masked_fill_: mask")
        return self._change(
            "masked_fill_", choice.MaskedFill, mask, value=dtypes.number_for(value, self.array.dtype, "masked_fill_")
        )

    @of_vectors
    def scatter_add_(self, dim: int, index: Any, src: Any) -> Tensor:
        """x ← x with src[..., i, ...] added at [..., index[..., i, ...], ...] along `dim`."""
        axis, at, source = axis_of(self, dim, "scatter_add_"), operand(index, self), operand(src, self)
        same_dtype(source, self, "scatter_add_: src")
        indexing.check_ids(at.array, self.array.shape[axis], "scatter_add_")
        spread = pick.ScatterAdd(source, at, axis=axis, shape=self.array.shape)
        return self._change("scatter_add_", arithmetic.Add, spread)

    @of_vectors
    def scatter_(
        self, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None
    ) -> Tensor:
        """x ← x with src[..., i, ...] (or the number `value`) at [..., index[..., i, ...], ...] along `dim`.

        `reduce`: as of `scatter`.
        """
        if reduce is not None:
            return self._take("scatter_", self._apart().scatter(dim, index, src, value=value, reduce=reduce))
        axis, at = axis_of(self, dim, "scatter_"), operand(index, self)
        indexing.check_ids(at.array, self.array.shape[axis], "scatter_")
        given = written(src, value, self, at.array.shape, "scatter_")
        self[grid_of(at.array, axis)] = given
        return self  # type: ignore[return-value]

    @of_vectors
    def index_add_(self, dim: int, index: Any, source: Any, alpha: float = 1) -> Tensor:
        """x ← x with alpha · source[..., i, ...] added at [..., index[i], ...] along `dim`."""
        return self._change("index_add_", arithmetic.Add, added_at(self, dim, index, source, alpha, "index_add_"))

    @of_vectors
    def index_copy_(self, dim: int, index: Any, source: Any) -> Tensor:
        """x ← x with source[..., i, ...] at [..., index[i], ...] along `dim`; `index` is a vector."""
        axis, at = axis_of(self, dim, "index_copy_"), operand(index, self).array
        indexing.check_ids(at, self.array.shape[axis], "index_copy_")
        same_dtype(operand(source, self), self, "index_copy_: source")
        self[(*(slice(None),) * axis, at)] = source
        return self  # type: ignore[return-value]

    def index_fill_(self, dim: int, index: Any, value: float) -> Tensor:
        """x ← x with the number `value` at [..., index[i], ...] along `dim`; `index` is a vector."""
        return self.masked_fill_(at_index(self, dim, index, "index_fill_"), value)

    def tril_(self, diagonal: int = 0) -> Tensor:
        """x ← its lower triangle, 0 above `diagonal`."""
        return self.masked_fill_(~triangle(self, diagonal, "tril_"), 0)

    def triu_(self, diagonal: int = 0) -> Tensor:
        """x ← its upper triangle, 0 below `diagonal`."""
        return self.masked_fill_(triangle(self, diagonal - 1, "triu_"), 0)

    def fill_diagonal_(self, fill_value: float, wrap: bool = False) -> Tensor:
        """x ← x with the number `fill_value` on the diagonal of a matrix; `wrap` must be False."""
        if wrap:
            raise ValueError("fill_diagonal_: wrap=True is not here; fill the lower part of a tall matrix by itself")
        if self.array.ndim != 2:
            raise ValueError(f"fill_diagonal_: needs a matrix, got shape {self.array.shape}")
        along = library.module_of(self.array).arange(min(self.array.shape))
        dtypes.number_for(fill_value, self.array.dtype, "fill_diagonal_")
        self[along, along] = fill_value
        return self  # type: ignore[return-value]

    def detach_(self) -> Tensor:
        """Forget how this was made: no gradient goes back through it any more."""
        self.record, self.index, self.needs = None, 0, False
        return self  # type: ignore[return-value]

    def normal_(self, mean: float = 0.0, std: float = 1.0, generator: random.Generator | None = None) -> Tensor:
        """x ← draws from the normal distribution; x is floating, and `std` at least 0."""
        check_draws(self, "normal_")
        if not std >= 0:
            raise ValueError(f"normal_: std must be at least 0, got {std}")
        return self._draw("normal_", generator, lambda r: r.standard_normal(self.array.shape) * std + mean)

    def uniform_(self, from_: float = 0.0, to: float = 1.0, generator: random.Generator | None = None) -> Tensor:
        """x ← draws from the uniform distribution on [from_, to); x is floating, the bounds finite and in order."""
        check_draws(self, "uniform_")
        kind = self.array.dtype
        if not from_ <= to:
            raise ValueError(f"uniform_: from_ must not lie above to, got {from_} and {to}")
        dtypes.check_range(kind, from_, to, "uniform_: from_ to to")
        dtypes.check_range(kind, 0, to - from_, "uniform_: to - from_")

        def draw(r: Any) -> Any:
            return random.below(r.random(self.array.shape) * (to - from_) + from_, from_, to, kind)

        return self._draw("uniform_", generator, draw)

    def bernoulli_(self, p: Any = 0.5, generator: random.Generator | None = None) -> Tensor:
        """x ← 1 with probability `p`, a number or a tensor that broadcasts, else 0; x may be of any dtype."""
        chances = devices.to_device(p.array, "cpu") if isinstance(p, Variable) else np.asarray(p)
        if not ((chances >= 0) & (chances <= 1)).all():
            raise ValueError(f"bernoulli_: p holds probabilities from 0 to 1, got {p}")
        check_broadcast(chances.shape, self.array.shape, "bernoulli_: p")
        return self._draw("bernoulli_", generator, lambda r: r.random(self.array.shape) < chances)

    def exponential_(self, lambd: float = 1.0, generator: random.Generator | None = None) -> Tensor:
        """x ← draws from the exponential distribution with mean 1 / lambd; x is floating, and `lambd` above 0."""
        check_draws(self, "exponential_")
        if not lambd > 0:
            raise ValueError(f"exponential_: lambd must be above 0, got {lambd}")
        return self._draw("exponential_", generator, lambda r: r.standard_exponential(self.array.shape) / lambd)

    def random_(
        self, from_: int | None = None, to: int | None = None, generator: random.Generator | None = None
    ) -> Tensor:
        """x ← integers from `from_` up to `to` − 1; with one argument from 0 up to it, without from 0 up to the largest
        of the dtype, or to the last before which a floating dtype has them all.

        Raises ValueError where there is no such integer, or the dtype does not hold them.
        """
        kind = self.array.dtype
        _, most = dtypes.bounds_of(kind) if kind.kind != "f" else (0, 2 ** (np.finfo(kind).nmant + 1))
        low, high = (0, int(most) + 1) if from_ is None else (0, from_) if to is None else (from_, to)
        if high <= low:
            raise ValueError(f"random_: there is no integer from {low} up to {high - 1}; give random_(from_, to)")
        dtypes.check_range(kind, low, high - 1, "random_")
        return self._draw("random_", generator, lambda r: r.integers(low, high, self.array.shape))

    def _draw(self, what: str, generator: random.Generator | None, draw: Any) -> Tensor:
        self._may_change(what, active().grad and self.requires_grad)
        values = library.as_array(draw((generator or random.current()).numpy()))
        with library.quiet(values):
            values = values.astype(self.array.dtype, copy=False)
        return self._overwrite(what, operand(values, self))


def _keep_apart(record: Any, array: Any) -> None:
    """Give an op that reads the memory about to be overwritten a copy of its own."""
    for j, kept in enumerate(record.kept):
        if kept is array:
            record.kept[j] = memory.own_copy(kept)
            record.versions[j] = None
