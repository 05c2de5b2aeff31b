"""What the methods share: arguments turned into axes, shapes and operands, with errors that name them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np

from tinygrad_edu.arrays import devices, dtypes, indexing, library, memory
from tinygrad_edu.engine.modes import active
from tinygrad_edu.engine.tape import Op, Variable, wrap
from tinygrad_edu.ops import choice, shape

Dims = int | Sequence[int] | None
P = ParamSpec("P")
R = TypeVar("R")


class ValuesIndices(NamedTuple):
    """What `max`, `min`, `sort`, `topk` and `median` find along an axis: the elements, and where they stand."""

    values: Any
    indices: Any


class MinMax(NamedTuple):
    """What `aminmax` finds: the smallest and the largest."""

    min: Any
    max: Any


def numpy_names(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which also understands NumPy's `axis` and `keepdims` for `dim` and `keepdim`."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs:
            if "axis" in kwargs:
                kwargs["dim"] = kwargs.pop("axis")
            if "keepdims" in kwargs:
                kwargs["keepdim"] = kwargs.pop("keepdims")
            if kwargs.get("out", function) is None:  # NumPy's own functions hand it on
                del kwargs["out"]
        return function(*args, **kwargs)

    return call


def widened(function: Callable[P, R]) -> Callable[P, R]:
    """The function, computed in float32 where its first argument is float16, and its result rounded at the end.

    So what overflows on the way, a square or a sum, makes no infinity of an ordinary result. A `dtype` asked for is the
    one computed in.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        first = args[0] if args else next(iter(kwargs.values()), None)
        if not _is_half(first) or kwargs.get("dtype") is not None:
            return function(*args, **kwargs)
        found: Any = function(*map(_whole, args), **{key: _whole(value) for key, value in kwargs.items()})
        if any(map(_is_wider, (*args, *kwargs.values()))):
            return found
        return tuple(map(_rounded, found)) if isinstance(found, tuple) else _rounded(found)  # type: ignore[return-value]

    return call


def _is_half(x: Any) -> bool:
    array = x.array if isinstance(x, Variable) else x
    return library.is_array(array) and array.dtype == dtypes.float16


def _is_wider(x: Any) -> bool:
    return (isinstance(x, Variable) or library.is_array(x)) and x.ndim > 0 and x.dtype.kind == "f" and not _is_half(x)


def _whole(x: Any) -> Any:
    return choice.Cast(x, dtype=dtypes.float32) if _is_half(x) else x


def _rounded(x: Any) -> Any:
    half = isinstance(x, Variable) and x.array.dtype == dtypes.float32
    return choice.Cast(x, dtype=dtypes.float16) if half else x


def operand(x: Any, like: Variable) -> Any:
    """A tensor as it is, anything else as a tensor beside `like`, whose floating dtype it takes on."""
    if isinstance(x, Variable):
        return x
    place = devices.device_of(like.array)
    array = devices.new_array(x, device=place)
    if array.dtype.kind == like.array.dtype.kind == "f" and array.dtype != like.array.dtype:
        array = devices.new_array(x, like.array.dtype, place)  # from x itself: it may have more digits than `array`
    return wrap(like.result, array)


def brought(value: Any, like: Variable) -> Any:
    """A tensor or array on the device of `like`, by way of the tape where it needs a gradient; a number as it is."""
    if isinstance(value, Variable):
        return value.to(device=devices.device_of(like.array))  # type: ignore[attr-defined]
    return devices.to_device(value, devices.device_of(like.array)) if library.is_array(value) else value


class IntegerDivisionByZero(ZeroDivisionError, RuntimeError):
    """Integers were divided by 0: an error of its own in Python, a RuntimeError in PyTorch."""


def _kind_of(x: Any) -> str:
    """The kind of dtype of a tensor, an array or a number: "b", "u", "i" or "f"."""
    if isinstance(x, Variable):
        return x.array.dtype.kind
    if isinstance(x, bool | int | float):
        return "b" if isinstance(x, bool) else "i" if isinstance(x, int) else "f"
    return (x if hasattr(x, "dtype") else np.asarray(x)).dtype.kind


def no_booleans(what: str, x: Variable, y: Any = 0.0) -> None:
    """Raise a TypeError where a tensor or array is boolean: a mask has no negative, and nothing is taken from one."""
    if x.array.dtype.kind == "b" or (type(y) is not float and getattr(y, "dtype", dtypes.float32).kind == "b"):
        raise TypeError(f"{what}: boolean tensors are masks; ~mask inverts one, mask.long() makes numbers of it")


def check_division(what: str, x: Any, y: Any) -> None:
    """Raise where integers are divided by 0, which no integer is the result of, or booleans by booleans.

    Floating operands divide by 0 in peace: the result is infinite or NaN.
    """
    kinds = _kind_of(x) + _kind_of(y)
    if "f" in kinds:
        return
    if kinds == "bb":
        raise TypeError(f"{what}: booleans are not divided; convert one side with .long()")
    if devices.holds_zero(y) if isinstance(y, Variable) or library.is_array(y) else not np.all(y):
        raise IntegerDivisionByZero(f"{what}: a divisor is 0, and no integer is the result; divide .float() values")


def scaled(x: Variable, other: Any, alpha: Any, what: str) -> Any:
    """alpha · other, for a sum or difference with `x`: of integers, where both are."""
    if type(alpha) is int and alpha == 1:
        return other
    if _kind_of(x) == _kind_of(other) == "b":
        return other * bool(alpha)  # the sum of masks is a mask
    if x.array.dtype.kind == "f":
        held = other.dtype if _is_half(x) and _is_wider(other) else x.array.dtype
        dtypes.number_for(alpha, held, f"{what}: alpha")
    if isinstance(alpha, float) and "f" not in _kind_of(x) + _kind_of(other):
        raise TypeError(f"{what}: alpha is {alpha}, but both tensors hold integers; convert one with .float()")
    return other * alpha


def check_held(what: str, x: Variable, found: Variable) -> None:
    """Raise where the memory of `x` cannot take the values `found`: for another shape, or a higher kind of dtype."""
    if found.array.shape != x.array.shape:
        raise ValueError(f"{what}: the result has shape {found.array.shape}, which {x.array.shape} cannot hold")
    if not dtypes.can_hold(x.array.dtype, found.array.dtype):
        raise TypeError(
            f"{what}: the result is {found.array.dtype}, which a tensor of {x.array.dtype} cannot hold; convert it "
            f"with .to({found.array.dtype}) first, or make a new tensor"
        )


def check_draws(x: Variable, what: str) -> None:
    """Raise for a tensor that cannot hold draws that are no integers: they would be cut off, most of them to 0."""
    if x.array.dtype.kind != "f":
        raise TypeError(f"{what}: draws are no integers, and this tensor is {x.array.dtype}; random_ draws integers")


def binary(op: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    """The op on operands that broadcast; a failure to do so names both shapes."""
    try:
        return op(x, y)
    except ValueError as error:
        shapes = [v.array.shape if isinstance(v, Variable) else getattr(v, "shape", ()) for v in (x, y)]
        if not any(word in str(error) for word in ("broadcast", "dimension", "shape")):
            raise
        name = op.name if hasattr(op, "name") else op.__name__
        raise ValueError(
            f"{name}: shapes {shapes[0]} and {shapes[1]} do not broadcast: counted from "
            f"the end, lengths must be equal or 1"
        ) from None


def of_floats(x: Any, what: str) -> Any:
    """The tensor, if it is floating; TypeError says how it becomes so."""
    if x.array.dtype.kind != "f":
        raise TypeError(f"{what} must be floating, got {x.array.dtype}; convert it with .float()")
    return x


def axis_of(x: Variable, dim: Any, what: str, extra: int = 0) -> int:
    """The axis that `dim` names, from the end where negative; `extra` axes more are allowed."""
    n = x.array.ndim + extra
    if not hasattr(dim, "__index__") or isinstance(dim, bool):
        raise TypeError(f"{what}: dim must be an integer, got {dim!r}")
    if not -n <= dim < n:
        raise IndexError(f"{what}: dim {dim} is outside {-n} to {n - 1} of a tensor with shape {x.array.shape}")
    return int(dim) % n


def with_axis(x: Variable) -> Any:
    """`x`, as a vector of one element where it has no axes: so dim 0 and −1 exist for every tensor."""
    return x if x.array.ndim else shape.Reshape(x, shape=(1,))


def of_vectors(method: Callable[P, R]) -> Callable[P, R]:
    """A method along an axis, for which a tensor of no axes is a vector of one element, and so is its index.

    The result has no axes either; what is named by an index, as by `gather`, has those of the index.
    """

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        x: Any = args[0]
        if x.array.ndim:
            return method(*args, **kwargs)
        index: Any = kwargs.get("index", args[2] if len(args) > 2 else None)
        vectors: Any = [_vector(value) for value in args]
        found: Any = method(*vectors, **{name: _vector(value) for name, value in kwargs.items()})
        if method.__name__.endswith("_"):
            return cast(R, x)
        shaped = getattr(index, "shape", None) if method.__name__ == "gather" else ()
        return cast(R, found if shaped is None else shape.Reshape(found, shape=tuple(shaped)))

    return call


def _vector(x: Any) -> Any:
    """A tensor or array of no axes as a vector, anything else as it is."""
    if isinstance(x, Variable):
        return with_axis(x)
    return x.reshape(1) if library.is_array(x) and not x.ndim else x


def along(op: type[Op], x: Variable, dim: int | None, what: str) -> Any:
    """An op along one axis that keeps the shape."""
    y = op(with_axis(x), axis=axis_of(with_axis(x), dim, what))
    return y if x.array.ndim else shape.Reshape(y, shape=())


def axes_of(x: Variable, dim: Dims, what: str, all_of_none: bool = False) -> tuple[int, ...]:
    """The axes that `dim` names, in order; all where it is None, and where it is () if `all_of_none`.

    Of a tensor of no axes 0 and −1 name an axis, which is none.
    """
    named = dim if isinstance(dim, tuple | list) else (dim,)
    if dim is None or (all_of_none and not named):
        return tuple(range(x.array.ndim))
    axes = [axis_of(x, d, what) if x.array.ndim or d not in (0, -1) else -1 for d in named]
    if len(set(axes)) != len(axes):
        raise ValueError(f"{what}: dim {dim} names an axis twice")
    return tuple(sorted(axes)) if x.array.ndim else ()


def reduced(x: Variable, dim: Dims, what: str) -> tuple[int, ...]:
    """The axes that a reduction shortens: those that `dim` names, all where it is None or ()."""
    return axes_of(x, dim, what, all_of_none=True)


def count_of(x: Variable, axes: tuple[int, ...]) -> int:
    """How many elements lie along the axes together."""
    n = 1
    for i in axes:
        n *= x.array.shape[i]
    return n


def some_elements(x: Variable, axes: tuple[int, ...], what: str) -> None:
    """Raise where there are no elements along the axes."""
    if any(x.array.shape[i] == 0 for i in axes):
        raise ValueError(f"{what}: nothing is the result of no elements; the shape is {x.array.shape}")


def integers(values: tuple[Any, ...], named: Any = None) -> tuple[int, ...]:
    """Integers given one by one, as one sequence, or by name instead."""
    values = values if named is None else (named,)
    if len(values) == 1 and isinstance(values[0], tuple | list):
        values = tuple(values[0])
    try:
        return tuple([operator.index(v) for v in values])
    except TypeError:
        raise TypeError(f"lengths, axes and shifts are integers, got {values}") from None


def whole(value: Any, what: str, least: int | None = None) -> int:
    """An integer, not below `least`; `what` names the argument."""
    if not hasattr(value, "__index__") or isinstance(value, bool):
        raise TypeError(f"{what} must be an integer, got {value!r}")
    n = operator.index(value)
    if least is not None and n < least:
        raise ValueError(f"{what} must be at least {least}, got {n}")
    return n


def mask_of(mask: Any, like: Variable, what: str) -> Any:
    """A boolean tensor; TypeError for any other dtype."""
    found = operand(mask, like)
    if found.array.dtype.kind != "b":
        raise TypeError(f"{what}: the mask must be boolean, got {found.array.dtype}; compare something (mask != 0)")
    return found


def full_shape(x: Variable, target: tuple[int, ...], what: str) -> tuple[int, ...]:
    """A shape for all elements of `x`, its one −1 worked out."""
    size, known, free = x.array.size, 1, 0
    for n in target:
        if n == -1:
            free += 1
        elif n < 0:
            raise ValueError(f"{what}: a length cannot be {n}; one may be -1, to be worked out")
        else:
            known *= n
    if free > 1 or (free and (known == 0 or size % known)) or (not free and known != size):
        raise ValueError(f"{what}: {size} elements of shape {x.array.shape} do not fill the shape {target}")
    return tuple(size // known if n == -1 else n for n in target)


def check_broadcast(given: tuple[int, ...], target: tuple[int, ...], what: str) -> None:
    """Raise where a shape does not broadcast to another."""
    if len(given) > len(target) or any(n not in (1, m) for n, m in zip(given[::-1], target[::-1])):
        raise ValueError(f"{what}: shape {given} does not broadcast to {target}; lengths must be equal or 1")


def index_of(key: Any, like: Variable) -> Any:
    """What stands in x[...], with arrays copied to beside x: a later change of the caller's must not change the
    derivative."""

    def plain(part: Any) -> Any:
        if isinstance(part, slice):
            ends = (part.start, part.stop, part.step)
            return slice(*(e if e is None else e.__index__() for e in ends))
        if isinstance(part, list | range):
            part = devices.new_array(part)
        if _is_array(part) and part.dtype.kind not in "iub":
            raise IndexError(f"index: arrays that pick elements hold integers or booleans, got {part.dtype}")
        return part

    def own(part: Any) -> Any:
        if not _is_array(part):
            return part
        if not part.ndim and part.dtype.kind in "iu":
            return int(part.item())  # like any number it leaves a view
        copy = memory.copy_beside(part.array if isinstance(part, Variable) else part, like.array)
        if (listener := active().trace) is not None:
            listener.copied(part, copy)
        return copy

    parts = [plain(part) for part in (key if isinstance(key, tuple) else (key,))]
    if not isinstance(like.array, np.ndarray):
        _check_places(parts, like.array.shape)
    return tuple(map(own, parts)) if isinstance(key, tuple) else own(parts[0])


def _is_array(part: Any) -> bool:
    return isinstance(part, Variable) or library.is_array(part)


def _check_places(parts: list[Any], lengths: tuple[int, ...]) -> None:
    """Raise where an array names an element that is not there: a GPU would wrap it in silence."""
    masks = [_is_array(part) and part.dtype.kind == "b" for part in parts]
    taken = [
        part.ndim if mask else 0 if part is None or part is Ellipsis or isinstance(part, bool) else 1
        for part, mask in zip(parts, masks, strict=True)
    ]
    axis = 0
    for part, mask, n in zip(parts, masks, taken, strict=True):
        if part is Ellipsis:
            axis += len(lengths) - sum(taken)
        elif _is_array(part) and not mask and axis < len(lengths):
            indexing.check_ids(part, lengths[axis], f"index of axis {axis}", from_end=True)
        axis += n
