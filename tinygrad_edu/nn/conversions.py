"""How a module's parameters and buffers change their dtype or device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from tinygrad_edu.arrays import devices, dtypes
from tinygrad_edu.tensor import Tensor

Self = TypeVar("Self", bound="Conversions")


class Conversions:
    """Methods of Module that change every floating parameter and buffer, in place, and return the module."""

    if TYPE_CHECKING:

        def parameters(self) -> Any: ...
        def buffers(self) -> Any: ...

    def to(self: Self, *args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False) -> Self:
        """Move parameters, buffers and gradients to a device, and the floating ones to a dtype. Returns the module.

        Each Parameter stays the same object, so an optimizer keeps working. `module.to("cpu")`, `module.to(tg.float64)`
        and `module.to(tensor)`, which means its dtype and device, are understood; `non_blocking` has no effect.
        Raises ValueError for a device that is not there, TypeError for a dtype that is not floating.
        """
        for value in args:
            if isinstance(value, Tensor):
                device, dtype = value.device, value.dtype
            elif isinstance(value, str):
                device = value
            elif isinstance(value, int) and not isinstance(value, bool):
                device = f"cuda:{value}"
            elif value is not None:
                dtype = value
        if dtype is not None and (dtype := dtypes.dtype_of(dtype)).kind != "f":
            raise TypeError(f"to: parameters need a floating dtype, not {dtype}; use float32 or float64")
        held: list[Tensor] = [*self.parameters(), *self.buffers()]
        held += [t.grad for t in held if t.grad is not None]
        moved = []
        for tensor in held:
            array = tensor.array if device is None else devices.to_device(tensor.array, device)
            if dtype is not None and array.dtype.kind == "f":
                array = array.astype(dtype, copy=False)
            moved.append(array)
        for tensor, array in zip(held, moved, strict=True):
            tensor.array = array
        return self

    def float(self: Self) -> Self:
        """To float32."""
        return self.to(dtypes.float32)

    def double(self: Self) -> Self:
        """To float64."""
        return self.to(dtypes.float64)

    def half(self: Self) -> Self:
        """To float16, which is slow on a CPU and overflows at 65504."""
        return self.to(dtypes.float16)

    def type(self: Self, dst_type: Any) -> Self:
        """To a dtype."""
        return self.to(dtype=dst_type)

    def cpu(self: Self) -> Self:
        """To the CPU."""
        return self.to("cpu")

    def cuda(self: Self, device: Any = None) -> Self:
        """To a GPU, the first one where None."""
        return self.to("cuda" if device is None else devices.Device(device))
