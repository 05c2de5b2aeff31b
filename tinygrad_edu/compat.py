"""Names that PyTorch programs use around their tensors: dtypes' limits, typed tensors, gradient switches, compile."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from tinygrad_edu.arrays import devices, dtypes
from tinygrad_edu.creation import empty
from tinygrad_edu.engine.modes import Function, change, enable_grad, no_grad, setting
from tinygrad_edu.size import Size as Size
from tinygrad_edu.size import asked_for
from tinygrad_edu.tensor import Tensor, tensor

device = devices.Device
dtype = np.dtype
get_default_dtype = dtypes.default_dtype
set_default_dtype = dtypes.set_default_dtype


class Limits(NamedTuple):
    """What a floating dtype can hold: eps is the step after 1, tiny the smallest normal number above 0."""

    bits: int
    eps: float
    max: float
    min: float
    tiny: float
    dtype: str


class IntegerLimits(NamedTuple):
    """What an integer dtype can hold."""

    bits: int
    max: int
    min: int
    dtype: str


def finfo(dtype: Any = None) -> Limits:
    """The limits of a floating dtype, the default one where None.

    >>> finfo(dtypes.float32).max
    3.4028234663852886e+38
    """
    found = np.finfo(dtypes.default_dtype() if dtype is None else dtypes.dtype_of(dtype))
    return Limits(found.bits, float(found.eps), float(found.max), float(found.min), float(found.tiny), str(found.dtype))


def iinfo(dtype: Any) -> IntegerLimits:
    """The limits of an integer dtype.

    >>> iinfo(dtypes.int8)
    IntegerLimits(bits=8, max=127, min=-128, dtype='int8')
    """
    found = np.iinfo(dtypes.dtype_of(dtype))
    return IntegerLimits(found.bits, int(found.max), int(found.min), str(found.dtype))


class TypedTensor:
    """A maker of tensors of one dtype, and that dtype's second name: `x.type(FloatTensor)`.

    Called with data, gives a tensor with a copy; called with lengths or a tensor's shape, one of that shape, filled
    with zeros.

    >>> LongTensor([1, 2]), FloatTensor(2, 1).shape
    (tensor([1, 2]), (2, 1))
    """

    def __init__(self, name: str, dtype: Any) -> None:
        self.name, self.dtype = name, dtype

    def __call__(self, *data: Any) -> Tensor:
        shape = asked_for(data or (0,))
        return tensor(data[0], dtype=self.dtype) if shape is None else empty(shape, dtype=self.dtype)

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, Tensor) and value.dtype == self.dtype

    def __repr__(self) -> str:
        return self.name


FloatTensor = TypedTensor("FloatTensor", dtypes.float32)
DoubleTensor = TypedTensor("DoubleTensor", dtypes.float64)
HalfTensor = TypedTensor("HalfTensor", dtypes.float16)
LongTensor = TypedTensor("LongTensor", dtypes.int64)
IntTensor = TypedTensor("IntTensor", dtypes.int32)
ByteTensor = TypedTensor("ByteTensor", dtypes.uint8)
BoolTensor = TypedTensor("BoolTensor", dtypes.bool_)


class set_grad_enabled(setting):
    """Turn recording on or off from here on, or, used in a `with` or as a decorator, for the block or the function.

    From here on: until the end of the `with` block that is running, if there is one; for this thread, or asyncio task.

    >>> with set_grad_enabled(False):
    ...     (Tensor([1.0], requires_grad=True) * 2).requires_grad
    False
    """

    def __init__(self, mode: bool) -> None:
        super().__init__(grad=bool(mode))
        self._take_back: Callable[[], None] = change(grad=bool(mode))

    def __enter__(self) -> None:
        self._take_back()
        super().__enter__()

    def __call__(self, function: Function) -> Function:
        self._take_back()
        return super().__call__(function)


def inference_mode(mode: Any = True) -> Any:
    """`no_grad`: a `with` block or a decorator that computes without recording; `inference_mode(False)` records."""
    if callable(mode):
        return no_grad(mode)
    return no_grad() if mode else enable_grad()


def compile(model: Any = None, **_: Any) -> Any:
    """`model` itself: there is no compiler, and results are the same without. As a decorator, the function itself.

    >>> compile(len) is len
    True
    """
    return model if model is not None else _itself


def _itself(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def set_float32_matmul_precision(precision: str) -> None:
    """Nothing but a check: products of float32 are always made in float32, which "highest" asks for.

    Raises ValueError for a name that PyTorch has not.
    """
    if precision not in ("highest", "high", "medium"):
        raise ValueError(f"set_float32_matmul_precision: 'highest', 'high' or 'medium', not {precision!r}")


def are_deterministic_algorithms_enabled() -> bool:
    """True: equal seeds give equal results."""
    return True


def use_deterministic_algorithms(mode: bool, warn_only: bool = False) -> None:
    """Nothing: they always are."""


# Switches of libraries that are not here may be set and have no effect; no other accelerator is ever there.
backends = SimpleNamespace(
    cudnn=SimpleNamespace(deterministic=True, benchmark=False, enabled=False, allow_tf32=False),
    cuda=SimpleNamespace(
        matmul=SimpleNamespace(allow_tf32=False), enable_flash_sdp=lambda enabled: None, is_built=lambda: False
    ),
    mps=SimpleNamespace(is_available=lambda: False, is_built=lambda: False),
)
