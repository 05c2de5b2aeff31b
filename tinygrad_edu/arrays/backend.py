"""Which array library owns an array: devices, dtypes, and the few differences between NumPy and CuPy."""

from __future__ import annotations

import math
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from tinygrad_edu.arrays import gpu
from tinygrad_edu.arrays.buffers import empty
from tinygrad_edu.arrays.device import Device as Device
from tinygrad_edu.arrays.device import check_device as check_device
from tinygrad_edu.arrays.device import number_of

float16, float32, float64 = np.dtype("float16"), np.dtype("float32"), np.dtype("float64")
int8, int16, int32, int64 = np.dtype("int8"), np.dtype("int16"), np.dtype("int32"), np.dtype("int64")
uint8, bool_ = np.dtype("uint8"), np.dtype("bool")

Array = Any  # a numpy.ndarray or a cupy.ndarray
_DEFAULT: dict[str, np.dtype] = {"f": float32, "i": int64, "u": int64, "b": bool_}


def module_of(array: Array) -> Any:
    """The array library of an array; NumPy for its scalars and for Python's."""
    if type(array) is np.ndarray:
        return np
    if type(array).__module__.partition(".")[0] == "cupy":
        return sys.modules["cupy"]
    return np


def all_numpy(values: list[Any]) -> bool:
    """Whether none of the values belongs to another array library than NumPy."""
    return not [x for x in values if type(x) is not np.ndarray and module_of(x) is not np]


def is_array(value: object) -> bool:
    """Whether `value` is an array of a library that the engine computes with."""
    return isinstance(value, np.ndarray) or type(value).__module__.partition(".")[0] == "cupy"


def device_of(array: Array) -> str:
    """Where an array lives: "cpu", "cuda:0", ..."""
    return "cpu" if isinstance(array, np.ndarray) else f"cuda:{array.device.id}"


def as_array(value: Any, like: Array = None) -> Array:
    """An array for a result: NumPy hands out scalars where an array of no axes is meant."""
    return value if is_array(value) else (np if like is None else module_of(like)).asarray(value)


def default_dtype() -> np.dtype:
    """The dtype of floating values that come without one, float32 unless `set_default_dtype` said otherwise."""
    return _DEFAULT["f"]


def set_default_dtype(dtype: Any) -> None:
    """Make `dtype` that of floating values that come without one: Python's floats, zeros(...), randn(...), layers.

    It holds for all threads. Raises TypeError for a dtype that is not floating.
    """
    found = dtype_of(dtype)
    if found.kind != "f":
        raise TypeError(f"set_default_dtype: needs a floating dtype, got {found}; use float32 or float64")
    _DEFAULT["f"] = found


def dtype_of(dtype: Any) -> np.dtype:
    """A dtype from a dtype, its name, or Python's float, int or bool, which mean float32, int64 and bool.

    >>> dtype_of(float), dtype_of("float64")
    (dtype('float32'), dtype('float64'))
    """
    if dtype is float:
        return float32
    try:
        found = np.dtype(dtype)
    except TypeError:
        raise TypeError(f"dtype {dtype!r} is unknown; use one of float32, float64, int64, bool") from None
    if found.kind not in _DEFAULT:
        raise TypeError(f"dtype {found} holds no numbers; tensors hold floating, integer or boolean values")
    return native(found)


def native(dtype: np.dtype) -> np.dtype:
    """A dtype in the byte order of this machine, the only one that tensors have.

    >>> native(np.dtype(">f4")) == float32
    True
    """
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def new_array(data: Any, dtype: Any = None, device: str | None = None) -> Array:
    """Memory of its own with the values of `data`: arrays keep their dtype, other floats are float32, ints int64."""
    kept = is_array(data)
    if kept:
        host = data
    else:
        try:
            host = np.asarray(data)
        except ValueError as error:
            raise ValueError(f"Tensor: the data is no rectangular array of numbers ({error})") from None
    if host.dtype.kind not in _DEFAULT:
        raise TypeError(f"Tensor: data of dtype {host.dtype} holds no numbers; give floats, integers or booleans")
    if dtype is not None:
        target = dtype_of(dtype)
    elif kept or isinstance(data, np.generic):
        target = native(host.dtype)
    else:
        target = _DEFAULT[host.dtype.kind]
    if not kept and host.size and target.kind in "iu" and target != host.dtype:
        for extreme in (host.min(), host.max()):
            number_for(extreme, target, "Tensor")
    if device is not None and check_device(device) != device_of(host):
        return to_device(host.astype(target, copy=False), device)
    settle(host)
    if target.kind == host.dtype.kind == "f" and target.itemsize < host.dtype.itemsize:
        with quiet(host):  # beyond the dtype there is infinity
            return host.astype(target)
    return host.astype(target)


def bounds_of(dtype: np.dtype) -> tuple[float, float]:
    """The smallest and the largest number that a dtype holds.

    >>> bounds_of(uint8), bounds_of(bool_)
    ((0, 255), (0, 1))
    """
    if dtype.kind == "b":
        return 0, 1
    limits: Any = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    return (
        limits.min.item() if dtype.kind == "f" else limits.min,
        limits.max.item() if dtype.kind == "f" else limits.max,
    )


def check_range(dtype: np.dtype, low: float, high: float, what: str) -> None:
    """Raise a ValueError where a dtype does not hold all from `low` up to `high`; never True for NaN."""
    least, most = bounds_of(dtype)
    if not least <= low <= high <= most:
        raise ValueError(f"{what}: {dtype} holds numbers from {least} to {most}, asked for were {low} to {high}")


_SMALL = 65504.0  # which every floating dtype holds


def number_for(value: Any, dtype: np.dtype, what: str) -> Any:
    """A number as an element of an array of `dtype`: to integers without its digits after the point, as in PyTorch.

    A negative number counts from the end for unsigned ones. Raises ValueError for one that no integer of the dtype is,
    and for a finite one beyond a floating dtype, which would become infinite unseen; inf itself is one of its numbers.

    >>> number_for(2.7, int64, "fill_"), number_for(-1, uint8, "fill_")
    (2, 255)
    """
    if dtype.kind == "b" or not isinstance(value, int | float | np.number):
        return value
    if dtype.kind == "f":
        if not -_SMALL <= value <= _SMALL and value == value and abs(value) != math.inf:
            least, most = bounds_of(dtype)
            if not least <= value <= most:
                raise ValueError(
                    f"{what}: {value} is beyond {dtype}, which ends at {most}; use float('inf') for infinity"
                )
        return value
    value = value.item() if isinstance(value, np.generic) else value
    least, most = bounds_of(dtype)
    if not (-most if dtype.kind == "u" else least) <= value <= most:
        raise ValueError(f"{what}: {value} is none of the numbers of {dtype}, {least} to {most}; use another dtype")
    return int(value) % (int(most) + 1) if dtype.kind == "u" else int(value)


def zeros(shape: tuple[int, ...], dtype: Any = None, device: str | None = None) -> Array:
    """Zeros of a dtype, the default one where None, on a device, the CPU where None."""
    return module_on(device).zeros(shape, _DEFAULT["f"] if dtype is None else dtype_of(dtype))


def to_device(array: Array, device: str) -> Array:
    """The array on `device`, itself when it is there already."""
    name = check_device(device)
    if device_of(array) == name:
        return array
    if name == "cpu":
        settle(array)
        return module_of(array).asnumpy(array)
    return gpu.upload(array, number_of(name))


def module_on(device: str | None) -> Any:
    """The array library that makes arrays on `device`, None for the CPU; a GPU becomes the one computed on."""
    name = "cpu" if device is None else check_device(device)
    if name == "cpu":
        return np
    gpu.settle(number_of(name))
    return gpu.library()


def arange(first: float, last: float, by: float, device: str | None) -> Array:
    """first, first + by, ... below `last`, made on `device`; known on the host, too, where they are integers."""
    host = np.arange(first, last, by)
    if device is None or check_device(device) == "cpu":
        return host
    found = module_on(device).arange(first, last, by, dtype=host.dtype)
    if host.dtype.kind == "i":
        gpu.remember(found, host)
    return found


def total(numbers: list[Any]) -> float:
    """The sum of numbers, some of them perhaps arrays of no axes, as a number: each device is waited for once."""
    sums: dict[str, Any] = {}
    for x in numbers:
        place = device_of(x) if is_array(x) else "cpu"
        settle(x)
        sums[place] = sums.get(place, 0.0) + x
    return sum(x.item() if hasattr(x, "item") else x for x in sums.values())


def on_host(ids: Any) -> Array:
    """The values of an array, or of a tensor, on the host.

    A tensor of integers that was made there and not written to since is known there still: no copy, no wait.
    """
    array, known = _known(ids)
    if known is not None and array.flags.c_contiguous and known.size == array.size:
        return known.reshape(array.shape)
    return to_device(array, "cpu")


def _known(ids: Any) -> tuple[Array, Array | None]:
    """The array of `ids`, and what is known on the host of the memory that it shows."""
    array = getattr(ids, "array", ids)
    if isinstance(array, np.ndarray) or array is ids or ids._version[0]:
        return array, None
    return array, gpu.uploaded_as(array)


def settle(array: Array) -> None:
    """Compute on the GPU of `array` from here on, if it is on one."""
    if gpu.in_use and module_of(array) is not np:
        gpu.settle(array.device.id)


def one_device(what: str, arrays: list[Any]) -> None:
    """Compute on the device of the arrays from here on; raise ValueError where they lie on several."""
    found = list(dict.fromkeys(device_of(x) for x in arrays if is_array(x)))
    if len(found) > 1:
        there = next((name for name in found if name != "cpu"), found[0])
        raise ValueError(
            f"{what}: its inputs lie on {' and '.join(found)}; bring them together, with .to({there!r}) for example"
        )
    if found and found[0] != "cpu":
        gpu.settle(number_of(found[0]))


def promoted(operands: list[Any], tensors: list[bool], numbers: str = "wrap", rounds_last: bool = False) -> list[Any]:
    """Operands of one elementwise op brought to one dtype, by PyTorch's rule; `tensors` says which came from Tensors.

    Floating beats integer beats boolean. Within a kind, tensors with axes decide, then tensors without, then bare
    arrays and Python's numbers: so nothing that is no Tensor ever widens one. An integer that the dtype cannot hold
    wraps around as the dtype's own values do ("wrap"), makes all of them int64 ("exact", for comparisons, whose result
    is boolean anyway), or raises a ValueError ("fit", for what is written into the result as it is). There a finite
    number beyond float32 raises one, too; elsewhere it is infinite.
    With `rounds_last`, numbers next to float16 are float32: the caller rounds the result.
    """
    place = next((device_of(x) for x in operands if is_array(x)), None)
    operands = [x if is_array(x) or type(x) in (float, int, bool) else _constant(x, place) for x in operands]
    xp = module_on(place)
    ranks: list[list[np.dtype]] = [[], [], [], []]
    for x, tensor in zip(operands, tensors, strict=True):
        if is_array(x):
            ranks[(0 if x.ndim else 1) if tensor else 2].append(x.dtype)
        else:
            ranks[3].append(_DEFAULT["b" if type(x) is bool else "i" if type(x) is int else "f"])
    target: np.dtype | None = None
    for dtypes in ranks:
        if dtypes:
            top = max(_CATEGORY[d.kind] for d in dtypes)
            if target is None or top > _CATEGORY[target.kind]:
                target = np.result_type(*(d for d in dtypes if _CATEGORY[d.kind] == top))
    if target is not None and target.kind in "iu" and any(type(x) is int for x in operands):
        target = _holding([x for x in operands if type(x) is int], target, numbers)
    of_numbers = float32 if rounds_last and target == float16 else target
    if numbers == "fit" and target is not None and target.kind == "f" and target != float16:  # as in PyTorch
        for x in operands:
            number_for(x, target, "where")
    with np.errstate(over="ignore"):
        return [
            x.astype(target, copy=False) if is_array(x) else xp.asarray(_wrapped(x, target), dtype=of_numbers)
            for x in operands
        ]


def _holding(integers: list[int], target: np.dtype, numbers: str) -> np.dtype:
    """The dtype in which to compute with Python's integers next to tensors of `target`."""
    bounds = np.iinfo(target)
    least = -int(bounds.max) if target.kind == "u" else int(bounds.min)  # PyTorch writes -1 as 255
    for x in integers:
        if not -(2**63) <= x < 2**63:
            raise ValueError(f"{x} has more than the 63 bits of int64; use a float")
        if numbers == "fit" and not least <= x <= bounds.max:
            raise ValueError(f"{x} does not fit into {target}, whose values go from {bounds.min} to {bounds.max}")
        if numbers == "exact" and not bounds.min <= x <= bounds.max:
            return int64
    return target


def _wrapped(x: Any, target: np.dtype | None) -> Any:
    """An integer as the dtype's own arithmetic would leave it: 300 is 44 in uint8. Other numbers as they are."""
    if type(x) is not int or target is None or target.kind not in "iu":
        return x
    span, least = 2 ** (8 * target.itemsize), int(np.iinfo(target).min)
    return (x - least) % span + least


def _constant(x: Any, device: str | None) -> Any:
    if isinstance(x, np.generic):
        return x.item()
    try:
        return new_array(x, device=device)
    except (TypeError, ValueError):
        raise TypeError(f"cannot compute with a {type(x).__name__}; give a Tensor, an array or a number") from None


_CATEGORY = {"b": 0, "u": 1, "i": 1, "f": 2}


def can_hold(dtype: np.dtype, found: np.dtype) -> bool:
    """Whether a tensor of `dtype` may be given results of dtype `found`, by PyTorch's rule: of its own kind or a lower
    one, where booleans are lower than integers and those lower than floating numbers. Sizes do not matter.

    >>> can_hold(uint8, int64), can_hold(float16, int64), can_hold(int64, float16), can_hold(bool_, int8)
    (True, True, False, False)
    """
    return _CATEGORY[found.kind] <= _CATEGORY[dtype.kind]


def holds_zero(values: Any) -> bool:
    """Whether an element of an array, or of a tensor, is 0. What is known on the host is not waited for."""
    array, known = _known(values)
    return not (known is not None and known.all()) and not array.all().item()


def quiet(array: Array) -> AbstractContextManager[Any]:
    """A block in which 1/0 is ∞ and 0/0 is NaN without a warning; CuPy never warns."""
    return np.errstate(all="ignore") if module_of(array) is np else nullcontext()


def largest(array: Array, axes: tuple[int, ...], least: float) -> Array:
    """The largest along the axes, which stay as 1; `least` where there is nothing. CuPy's max has no initial value."""
    if isinstance(array, np.ndarray):
        return array.max(axis=axes, keepdims=True, initial=least)
    if array.size:
        return array.max(axis=axes, keepdims=True)
    shape = tuple(1 if i in axes else n for i, n in enumerate(array.shape))
    return module_of(array).full(shape, least, dtype=array.dtype)


FEW_TO_CHOOSE = 8192  # elements up to which NumPy's `where` is faster


def where(condition: Array, x: Array, y: Array) -> Array:
    """x where the condition holds, else y, as the array library's own `where`.

    NumPy's takes a branch at every element, which costs as much as an exponential where the condition follows no
    pattern. So on large arrays the bits of x and of y are put together with a mask instead.

    >>> where(np.array([True, False]), np.array([1.0, 2.0]), np.array(0.0))
    array([1., 0.])
    """
    if not isinstance(condition, np.ndarray) or condition.size <= FEW_TO_CHOOSE or condition.dtype != bool_:
        return module_of(condition).where(condition, x, y)
    dtype = np.result_type(x, y)
    if dtype.itemsize > 8:
        return np.where(condition, x, y)
    chosen = empty(np.broadcast_shapes(condition.shape, np.shape(x), np.shape(y)), dtype)
    bits = chosen.view(f"i{dtype.itemsize}")
    x, y = (np.asarray(each, dtype).view(bits.dtype) for each in (x, y))
    mask = empty(condition.shape, int8)
    np.not_equal(condition.view(int8), 0, out=mask.view(bool_))  # a byte of another memory may be neither 0 nor 1
    np.negative(mask, out=mask)  # all bits are 1 where it holds
    if y.ndim == 0 and not y:
        np.bitwise_and(x, mask, out=bits)
    else:
        np.bitwise_xor(x, y, out=bits)
        bits &= mask
        bits ^= y
    return chosen


def accumulate(total: Array, more: Array, owned: bool) -> Array:
    """total + more, in place where `owned` says that nobody else can see `total`."""
    if gpu.in_use:
        settle(total)
    if owned and total.ndim:
        return module_of(total).add(total, more, out=total)
    return as_array(total + more, total)


def side_by_side(pieces: list[Any], axis: int) -> Array | None:
    """One array that shows the pieces where they lie, if they already lie one behind the other along `axis`."""
    first = pieces[0]
    if type(first) is not np.ndarray or type(first.base) is not np.ndarray or not first.base.flags.c_contiguous:
        return None
    start = here = address_of(first)
    length = 0
    for piece in pieces:
        if (
            piece.base is not first.base
            or piece.strides != first.strides
            or piece.dtype != first.dtype
            or address_of(piece) != here
        ):
            return None
        length += piece.shape[axis]
        here += piece.shape[axis] * piece.strides[axis]
    shape = (*first.shape[:axis], length, *first.shape[axis + 1 :])
    return np.ndarray(shape, first.dtype, first.base, start - address_of(first.base), first.strides)


def windows(array: Array, axis: int, size: int, step: int) -> Array:
    """Windows of `size` elements along `axis`, one every `step`, as a new last axis: a view, or a copy on a GPU and of
    memory that NumPy does not own. Read-only where windows overlap."""
    count = (array.shape[axis] - size) // step + 1
    owner = array if array.base is None else array.base
    if type(owner) is not np.ndarray or not (owner.flags.c_contiguous or owner.flags.f_contiguous):
        xp = module_of(array)
        at = xp.arange(count)[:, None] * step + xp.arange(size)
        return xp.moveaxis(array[(*(slice(None),) * axis, at)], axis + 1, -1)
    shape = (*array.shape[:axis], count, *array.shape[axis + 1 :], size)
    strides = (*array.strides[:axis], array.strides[axis] * step, *array.strides[axis + 1 :], array.strides[axis])
    memory = owner if owner.flags.c_contiguous else owner.T
    found = np.ndarray(shape, array.dtype, memory, address_of(array) - address_of(owner), strides)
    found.flags.writeable = array.flags.writeable and size <= step
    return found


def address_of(array: Array) -> int:
    """Where the memory of an array begins."""
    interface = getattr(array, "__array_interface__", None) or array.__cuda_array_interface__
    return int(interface["data"][0])


def writable(array: Array) -> bool:
    """Whether writing to the array changes its own elements alone; CuPy would write to copied ones, too."""
    if isinstance(array, np.ndarray):
        return array.flags.writeable
    return all(step or n < 2 for step, n in zip(array.strides, array.shape, strict=True))


def unlocked(view: Array, source: Array) -> Array:
    """A view in which no element of `source` stands twice, writable if that is; NumPy hands some out read-only."""
    if isinstance(view, np.ndarray):
        view.flags.writeable = source.flags.writeable
    return view


def copy_beside(array: Array, like: Array) -> Array:
    """A copy on the device of `like`."""
    return array.copy() if type(array) is type(like) else to_device(array, device_of(like))


def own_copy(array: Array) -> Array:
    """A copy in memory of its own, rows in C order."""
    settle(array)
    return array.copy(order="C")


def floating(array: Array) -> Array:
    """The array itself when it is floating, else its values in the default dtype, float32."""
    return array if not hasattr(array, "dtype") or array.dtype.kind == "f" else array.astype(_DEFAULT["f"])


_FEW = 32


def sum_dtype(array: Array) -> np.dtype:
    """The dtype of a sum or product of elements: int64 for integers and booleans, whose sums soon outgrow their own."""
    return array.dtype if array.dtype.kind == "f" else int64


def add_at(target: Array, index: Any, values: Array) -> None:
    """target[index] += values, where an element that `index` names twice gets both."""
    parts = index if isinstance(index, tuple) else (index,)
    if all(not is_array(part) or part.dtype.kind == "b" for part in parts):
        target[index] += values  # names no element twice
    elif not isinstance(target, np.ndarray):
        gpu.add_at(target, index, values)
    elif target.dtype.kind == "f" and math.prod(part.size for part in parts if is_array(part)) > _FEW:
        exact = np.zeros(target.shape, float64)  # one element may get them all, and they are added one by one
        np.add.at(exact, index, values)
        target += exact
    else:
        np.add.at(target, index, values)


def names_twice(array: Array, index: Any) -> bool:
    """Whether integer arrays in `index` name an element of `array` more than once."""
    parts = index if isinstance(index, tuple) else (index,)
    if not any(is_array(part) and part.dtype.kind != "b" for part in parts):
        return False
    seen = module_of(array).zeros(array.shape, dtype=int64)
    add_at(seen, index, 1)
    return (seen > 1).any().item()


def add_along(target: Array, index: Array, values: Array, axis: int) -> None:
    """target[..., index[..., i, ...], ...] += values[..., i, ...] along `axis`."""
    add_at(target, _grid(target, index, axis), values)


def change_along(target: Array, index: Array, values: Array, axis: int, by: str) -> None:
    """target[..., index[..., i, ...], ...] becomes the "maximum" or "minimum" of itself and of values[..., i, ...]."""
    place = _grid(target, index, axis)
    if isinstance(target, np.ndarray):
        getattr(np, by).at(target, place, values)
    else:
        gpu.change_at(target, place, values, by)


def _grid(target: Array, index: Array, axis: int) -> tuple[Array, ...]:
    xp = module_of(target)
    grid = [xp.arange(n).reshape((1,) * i + (n,) + (1,) * (index.ndim - i - 1)) for i, n in enumerate(index.shape)]
    grid[axis] = index
    return tuple(grid)


def check_ids(ids: Any, count: int, what: str, from_end: bool = False) -> None:
    """Raise an IndexError unless all ids, an array or a tensor, lie in 0 to count - 1; negative ones count from the end
    only where `from_end` says so.

    A GPU would wrap them in silence, so it is asked; a tensor that came from the host is checked there instead, see
    `on_host`.
    """
    array, known = _known(ids)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{what}: ids must be integers, got dtype {array.dtype}; convert them with .long()")
    least = -count if from_end else 0
    if not array.size or (known is not None and _within(known, least, count)[0]):
        return
    fits, low, high = _within(array, least, count)  # ids may be a part, and right, of what is known
    if not fits:
        raise IndexError(f"{what}: ids must lie in {least} to {count - 1}, got values from {low} to {high}")


def _within(ids: Array, least: int, count: int) -> tuple[bool, int, int]:
    low, high = ids.min().item(), ids.max().item()
    return low >= least and high < count, low, high
