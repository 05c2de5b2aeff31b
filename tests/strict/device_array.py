"""The array of the strict stand-in for CuPy: a NumPy array behind a wall, which does only what CuPy's array does."""

from __future__ import annotations

import contextlib
import inspect
import json
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.strict.names import FILE

NAMES: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
DTYPES = "?bhilqBHILQefdFD"
ADDED_AT = "ilLqQefdI"  # scatter_add takes these, but no 64-bit integers with a sign


@dataclass
class Traffic:
    """What went over the bus: bytes of each copy, and how often the host waited for the device."""

    to_device: list[int] = field(default_factory=list)
    to_host: list[int] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Copies to the device, copies to the host, waits without a copy."""
        return len(self.to_device), len(self.to_host), len(self.waits)


_watched: list[Traffic] = []


@contextlib.contextmanager
def traffic() -> Iterator[Traffic]:
    """Within the block, all copies between host and device and all waits are noted in what it gives."""
    seen = Traffic()
    _watched.append(seen)
    try:
        yield seen
    finally:
        _watched.remove(seen)


def uploaded(count: int) -> None:
    for seen in _watched:
        seen.to_device.append(count)


def downloaded(count: int) -> None:
    for seen in _watched:
        seen.to_host.append(count)


def waited(why: str) -> None:
    for seen in _watched:
        seen.waits.append(why)


class Refused(TypeError):
    """What CuPy would refuse, or would do by a copy or a wait that nobody asked for."""


class Device:
    """A GPU of the two there are; a `with` block makes it the current one, `use` for good."""

    current = 0
    count = 2

    def __init__(self, device: int | None = None) -> None:
        self.id = Device.current if device is None else int(device)
        if not 0 <= self.id < Device.count:
            raise ValueError(f"invalid device ordinal {self.id}")
        self.before: list[int] = []

    def use(self) -> None:
        Device.current = self.id

    def synchronize(self) -> None:
        waited("synchronize")

    def __enter__(self) -> Device:
        self.before.append(Device.current)
        Device.current = self.id
        return self

    def __exit__(self, *_: object) -> None:
        Device.current = self.before.pop()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.id == self.id

    __hash__ = None  # type: ignore[assignment]


class Flags:
    def __init__(self, host: np.ndarray, owner: bool) -> None:
        c, f = host.flags.c_contiguous, host.flags.f_contiguous
        self.c_contiguous, self.f_contiguous, self.owndata = c, f, owner
        self.forc, self.fnc = c or f, f and not c

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"CuPy {NAMES['version']} has no flag {name!r}, only {', '.join(NAMES['flags'])}")


class ndarray:
    """An array on a device. `base` is the array whose memory it shows, as in CuPy the one at the root."""

    __slots__ = ("__weakref__", "_device", "_host", "base")
    __array_ufunc__ = None  # NumPy's operators leave the choice to this one's, which refuse
    __array_priority__ = 100

    _host: np.ndarray
    base: ndarray | None
    _device: int

    def __init__(self, shape: Any, dtype: Any = float) -> None:
        _set(self, np.zeros(shape, checked(np.dtype(dtype))), None, Device.current)

    # What it is

    shape = property(lambda self: self._host.shape)
    dtype = property(lambda self: self._host.dtype)
    ndim = property(lambda self: self._host.ndim)
    size = property(lambda self: self._host.size)
    itemsize = property(lambda self: self._host.itemsize)
    nbytes = property(lambda self: self._host.nbytes)
    strides = property(lambda self: self._host.strides)
    flags = property(lambda self: Flags(self._host, self.base is None))
    device = property(lambda self: Device(self._device))
    T = property(lambda self: made(self._host.T, self))
    mT = property(lambda self: made(self._host.mT, self))
    real = property(lambda self: self)
    __cuda_array_interface__ = property(lambda self: self._host.__array_interface__)

    def __getattr__(self, name: str) -> Any:
        if name in NAMES["methods"] or name in NAMES["attributes"]:
            if name in _METHODS:
                return _METHODS[name].__get__(self)
            raise NotImplementedError(f"the stand-in lacks ndarray.{name}, which CuPy has; write it")
        raise AttributeError(f"CuPy {NAMES['version']} has no ndarray.{name}")

    def __len__(self) -> int:
        return len(self._host)

    def __iter__(self) -> Iterator[ndarray]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return repr(self.get())

    def __copy__(self) -> ndarray:
        return made(self._host.copy())

    def __deepcopy__(self, _: Any) -> ndarray:
        return made(self._host.copy())

    __hash__ = None  # type: ignore[assignment]

    # The ways to the host that somebody asked for

    def get(self, stream: Any = None, order: Any = "C", out: Any = None, blocking: bool = True) -> np.ndarray:
        _here(self)
        downloaded(self.nbytes)
        if out is not None:
            out[...] = self._host
            return out
        return self._host.copy(order=order)

    def item(self) -> Any:
        if self.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        downloaded(self.nbytes)
        return self._host.item()

    def tolist(self) -> Any:
        downloaded(self.nbytes)
        return self._host.tolist()

    def set(self, arr: np.ndarray, stream: Any = None) -> None:
        if arr.dtype != self.dtype or arr.shape != self.shape:
            raise ValueError("set needs an array of the same shape and dtype")
        uploaded(arr.nbytes)
        self._host[...] = arr

    # Indexing

    def __getitem__(self, key: Any) -> ndarray:
        plain, masks = _index(self, key)
        if masks:
            waited("boolean index")
        found = made(self._host[plain], self)
        if found.base is None:
            _here(self)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        plain, masks = _index(self, key)
        if masks:
            waited("boolean index")
        with np.errstate(all="ignore"):
            _here(self)
            self._host[plain] = operand(value, self)

    def scatter_add(self, slices: Any, value: Any) -> None:
        plain, masks = _index(self, slices)
        arrays = [s for s in (slices if isinstance(slices, tuple) else (slices,)) if isinstance(s, ndarray)]
        if any(s.dtype.kind != "b" for s in arrays) and (self.dtype.char not in ADDED_AT or self.dtype == np.int64):
            raise TypeError("scatter_add only supports int32, float16, float32, float64, uint32, uint64, as data type")
        if masks:
            waited("boolean index")
        np.add.at(self._host, plain, np.asarray(operand(value, self)).astype(self.dtype))


def scatter_extreme(array: ndarray, slices: Any, value: ndarray, by: Any) -> None:
    """cupyx.scatter_max and scatter_min."""
    if array.dtype.char not in "fdilLIQ" or array.dtype == np.int64:
        raise TypeError("scatter_max only supports int32, float32, float64, uint32, uint64 as data type")
    by.at(array._host, _index(array, slices)[0], operand(value))


def _refuse_conversion(how: str) -> Callable[..., Any]:
    def method(self: ndarray, *_: Any, **__: Any) -> Any:
        raise Refused(f"{how} of a device array copies it to the host unseen; ask for it: .item(), .get(), asnumpy")

    return method


for _how in ("__array__", "__bool__", "__float__", "__int__", "__index__", "__complex__"):
    setattr(ndarray, _how, _refuse_conversion(_how))


def _set(self: ndarray, host: np.ndarray, base: ndarray | None, device: int) -> None:
    self._host, self.base, self._device = host, base, device


def checked(dtype: np.dtype) -> np.dtype:
    """The dtype, if CuPy has it."""
    if dtype.char not in DTYPES:
        raise ValueError(f"Unsupported dtype {dtype}")
    return dtype


def made(result: Any, *sources: ndarray) -> ndarray:
    """A device array around NumPy's result, also a scalar; a view of one of the sources where it shows its memory."""
    host = result if isinstance(result, np.ndarray) else np.asarray(result)
    checked(host.dtype)
    self = ndarray.__new__(ndarray)
    for source in sources:
        if host is source._host:
            return source
        if host.base is not None and np.may_share_memory(host, source._host):
            _set(self, host, source.base if source.base is not None else source, source._device)
            return self
    _set(self, host, None, Device.current)
    return self


def _here(array: ndarray) -> None:
    if array._device != Device.current:
        raise ValueError(
            f"The device where the array resides ({array._device}) is different from the current device "
            f"({Device.current}). Peer access is unavailable between these devices."
        )


def operand(value: Any, beside: Any = None) -> Any:
    """What NumPy computes with in an operand's place: device arrays and scalars, and nothing that lies on the host."""
    if isinstance(value, ndarray):
        _here(value)
        return value._host
    if isinstance(value, bool | int | float | complex | np.generic):
        return value
    raise Refused(f"Unsupported type {type(value)}: an operand on the host would have to be copied to the device first")


def _index(array: ndarray, key: Any) -> tuple[Any, bool]:
    """The index for NumPy, out-of-range places wrapped as by CuPy; and whether its result's shape is waited for."""
    parts = key if isinstance(key, tuple) else (key,)
    used = sum(p.ndim if isinstance(p, ndarray) and p.dtype.kind == "b" else p is not None and p is not Ellipsis
               for p in parts)  # fmt: skip
    axis, masks = 0, False
    found: list[Any] = []
    for part in parts:
        if part is Ellipsis:
            axis += array.ndim - used
        if isinstance(part, ndarray):
            _here(part)
            host = part._host
            if host.dtype.kind == "b":
                masks = True
                axis += host.ndim
            elif host.dtype.kind in "iu":
                n = array.shape[axis]
                if n == 0 and host.size:
                    raise IndexError("cannot do a non-empty take from an empty axes.")
                host = host % n if n else host
                axis += 1
            else:
                raise IndexError("arrays used as indices must be of integer or boolean type")
            found.append(host)
            continue
        if part is not None and part is not Ellipsis and not isinstance(part, slice | int | np.integer):
            raise Refused(f"Unsupported type {type(part)} in an index: it would have to be copied to the device first")
        if isinstance(part, bool):
            raise Refused("a Python bool as an index would have to be copied to the device first")
        if part is not None and part is not Ellipsis:
            axis += 1
        found.append(part)
    return (tuple(found) if isinstance(key, tuple) else found[0]), masks


def _binary(name: str, function: Callable[..., Any]) -> None:
    def forward(self: ndarray, other: Any) -> Any:
        if getattr(type(other), "__array_ufunc__", 0) is None and not isinstance(other, ndarray):
            return NotImplemented
        with np.errstate(all="ignore"):
            return made(function(operand(self), operand(other, self)))

    def backward(self: ndarray, other: Any) -> ndarray:
        with np.errstate(all="ignore"):
            return made(function(operand(other, self), operand(self)))

    def inplace(self: ndarray, other: Any) -> ndarray:
        with np.errstate(all="ignore"):
            getattr(np, _UFUNCS.get(name, name))(
                operand(self), operand(other, self), out=self._host, casting="same_kind"
            )
        return self

    setattr(ndarray, f"__{name}__", forward)
    if name not in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(ndarray, f"__r{name}__", backward)
    if name not in ("eq", "ne", "lt", "le", "gt", "ge", "matmul"):
        setattr(ndarray, f"__i{name}__", inplace)


_UFUNCS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip
for _name in [*_UFUNCS, "matmul", "eq", "ne", "lt", "le", "gt", "ge"]:
    _binary(_name, getattr(operator, _name + "_" * (_name in ("and", "or"))))


def _unary(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self: made(function(operand(self)))


for _name in ("neg", "pos", "abs", "invert"):
    setattr(ndarray, f"__{_name}__", _unary(getattr(operator, _name)))


def fits(what: str, written: str | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise TypeError where CuPy's signature of `what` does not take these arguments."""
    if written is None:
        return
    kinds = inspect.Parameter
    parameters, after = [], False
    for part in filter(None, written.split(", ")):
        name, given, _ = part.partition("=")
        if part == "*":
            after = True
        elif part.startswith("**"):
            parameters.append(kinds(name[2:], kinds.VAR_KEYWORD))
        elif part.startswith("*"):
            parameters.append(kinds(name[1:], kinds.VAR_POSITIONAL))
            after = True
        else:
            kind = kinds.KEYWORD_ONLY if after else kinds.POSITIONAL_OR_KEYWORD
            parameters.append(kinds(name, kind, default=0 if given else kinds.empty))
    try:
        inspect.Signature(parameters).bind(*args, **kwargs)
    except TypeError as error:
        raise Refused(f"CuPy {NAMES['version']}: {what}({written}): {error}") from None


def plain(value: Any) -> Any:
    """An argument for NumPy's function, device arrays in tuples and lists included; arrays on the host are refused."""
    if isinstance(value, ndarray):
        return operand(value)
    if isinstance(value, np.ndarray):
        raise Refused(f"Unsupported type {type(value)}: an argument on the host would have to be copied to the device")
    if isinstance(value, tuple | list):
        return type(value)(plain(v) for v in value)
    return value


def called(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """NumPy's function on device arrays; its arrays and scalars come back as device arrays."""
    sources = [a for a in (*args, *kwargs.values()) if isinstance(a, ndarray)]
    for group in (*args, *kwargs.values()):
        if isinstance(group, tuple | list):
            sources += [a for a in group if isinstance(a, ndarray)]
    out = kwargs.get("out")
    if out is not None and not isinstance(out, ndarray):
        raise Refused(f"out= must be one device array, not {type(out)}")
    with np.errstate(all="ignore"):
        result = function(*plain(args), **{k: plain(v) for k, v in kwargs.items()})
    if isinstance(result, tuple | list):
        return tuple(made(r, *sources) if isinstance(r, np.ndarray | np.generic) else r for r in result)
    return made(result, *sources) if isinstance(result, np.ndarray | np.generic) else result


def _method(name: str) -> Callable[..., Any]:
    def method(self: ndarray, *args: Any, **kwargs: Any) -> Any:
        fits(f"ndarray.{name}", NAMES["methods"][name], args, kwargs)
        if name in ("nonzero", "compress"):
            waited(name)
        if name == "take":
            return self.__getitem__(_taken(self, *args, **kwargs))
        if name in ("sort", "argsort") and (args[1:] or [kwargs.get("kind")])[0] not in (None, "stable"):
            raise Refused("CuPy sorts in one way, which is stable: kind may be None or 'stable'")
        if name in _VIEWS:
            return made(getattr(self._host, name)(*args, **kwargs), self)
        return called(getattr(np.ndarray, name), (self, *args), kwargs)

    return method


_VIEWS = {"reshape", "squeeze", "swapaxes", "transpose", "view"}  # no work for a GPU, so it may be any


def _taken(self: ndarray, indices: Any, axis: int | None = None) -> Any:
    return (*(slice(None),) * ((axis or 0) % max(self.ndim, 1)), indices)


_OWN = {"get", "item", "tolist", "set", "scatter_add"}
_METHODS = {n: _method(n) for n in NAMES["methods"] if n not in _OWN and hasattr(np.ndarray, n)}
ndarray.__module__ = "cupy"
