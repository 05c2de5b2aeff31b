"""In-place twins of methods: `x.sin_()` writes what `x.sin()` gives into the memory of x and returns x."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tinygrad_edu.engine.modes import active
from tinygrad_edu.engine.tape import wrap
from tinygrad_edu.methods.names import Named
from tinygrad_edu.methods.orders import Orders
from tinygrad_edu.methods.picks import Picks
from tinygrad_edu.methods.shapes import Shapes


def _twin(method: Callable[..., Any]) -> Callable[..., Any]:
    name = f"{method.__name__}_"

    def change(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._take(name, method(self._apart(), *args, **kwargs))

    change.__name__, change.__qualname__ = name, f"Twins.{name}"
    change.__doc__ = f"x ← x.{method.__name__}(...), in place."
    change.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    return change


def _turned(method: Callable[..., Any]) -> Callable[..., Any]:
    name = f"{method.__name__}_"

    def change(self: Any, *args: Any, **kwargs: Any) -> Any:
        if active().grad and self.requires_grad and self.record is None:
            raise RuntimeError(
                f"{name}: a leaf that needs a gradient keeps its shape; write y = x.{method.__name__}(...)"
            )
        old = wrap(self.result, self.array, self.record, self.index, self._version)
        old.needs = self.needs
        new = method(old, *args, **kwargs)
        self.array, self.record, self.index, self.needs = new.array, new.record, new.index, new.needs
        return self

    change.__name__, change.__qualname__ = name, f"Twins.{name}"
    change.__doc__ = f"x ← x.{method.__name__}(...): the same elements in another shape; views keep theirs."
    change.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    return change


class Twins:
    """In-place methods that write down what another method gives; `Changes` says what may be changed and when."""

    __slots__ = ()

    sin_ = _twin(Named.sin)
    cos_ = _twin(Named.cos)
    tan_ = _twin(Named.tan)
    asin_ = _twin(Named.asin)
    acos_ = _twin(Named.acos)
    atan_ = _twin(Named.atan)
    sinh_ = _twin(Named.sinh)
    cosh_ = _twin(Named.cosh)
    asinh_ = _twin(Named.asinh)
    acosh_ = _twin(Named.acosh)
    atanh_ = _twin(Named.atanh)

    exp2_ = _twin(Named.exp2)
    expm1_ = _twin(Named.expm1)
    log1p_ = _twin(Named.log1p)
    log2_ = _twin(Named.log2)
    log10_ = _twin(Named.log10)
    logit_ = _twin(Named.logit)
    rsqrt_ = _twin(Named.rsqrt)
    square_ = _twin(Named.square)
    reciprocal_ = _twin(Named.reciprocal)
    erf_ = _twin(Named.erf)
    erfc_ = _twin(Named.erfc)

    clamp_ = _twin(Named.clamp)
    clamp_min_ = _twin(Named.clamp_min)
    clamp_max_ = _twin(Named.clamp_max)
    clip_ = _twin(Named.clip)
    lerp_ = _twin(Named.lerp)
    sign_ = _twin(Named.sign)
    sgn_ = _twin(Named.sgn)
    frac_ = _twin(Named.frac)
    ceil_ = _twin(Named.ceil)
    trunc_ = _twin(Named.trunc)
    fix_ = _twin(Named.fix)
    nan_to_num_ = _twin(Named.nan_to_num)

    true_divide_ = _twin(Named.true_divide)
    floor_divide_ = _twin(Named.floor_divide)
    remainder_ = _twin(Named.remainder)
    fmod_ = _twin(Named.fmod)
    hypot_ = _twin(Named.hypot)
    atan2_ = _twin(Named.atan2)

    eq_ = _twin(Named.eq)
    ne_ = _twin(Named.ne)
    lt_ = _twin(Named.lt)
    le_ = _twin(Named.le)
    gt_ = _twin(Named.gt)
    ge_ = _twin(Named.ge)
    logical_and_ = _twin(Named.logical_and)
    logical_or_ = _twin(Named.logical_or)
    logical_xor_ = _twin(Named.logical_xor)
    logical_not_ = _twin(Named.logical_not)

    bitwise_and_ = _twin(Named.bitwise_and)
    bitwise_or_ = _twin(Named.bitwise_or)
    bitwise_xor_ = _twin(Named.bitwise_xor)
    bitwise_not_ = _twin(Named.bitwise_not)
    bitwise_left_shift_ = _twin(Named.bitwise_left_shift)
    bitwise_right_shift_ = _twin(Named.bitwise_right_shift)

    cumsum_ = _twin(Orders.cumsum)
    cumprod_ = _twin(Orders.cumprod)
    masked_scatter_ = _twin(Picks.masked_scatter)
    scatter_reduce_ = _twin(Picks.scatter_reduce)
    index_put_ = _twin(Picks.index_put)

    unsqueeze_ = _turned(Shapes.unsqueeze)
    squeeze_ = _turned(Shapes.squeeze)
    transpose_ = _turned(Shapes.transpose)
    swapaxes_ = _turned(Shapes.swapaxes)
    t_ = _turned(Shapes.t)

    __ifloordiv__, __imod__ = floor_divide_, remainder_
    __ilshift__, __irshift__ = bitwise_left_shift_, bitwise_right_shift_
    __iand__, __ior__, __ixor__ = bitwise_and_, bitwise_or_, bitwise_xor_
