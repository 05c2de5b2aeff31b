"""Methods that convert: other dtypes, other devices, new tensors of the same kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygrad_edu.arrays import devices, dtypes, library
from tinygrad_edu.engine.tape import Variable, wrap
from tinygrad_edu.methods.common import integers
from tinygrad_edu.ops import choice, shape
from tinygrad_edu.size import asked_for

if TYPE_CHECKING:
    from tinygrad_edu.tensor import Tensor


class Conversions(Variable, result=False):
    """Methods of Tensor about what its elements are and where they live."""

    __slots__ = ()

    def to(self, *args: Any, dtype: Any = None, device: str | None = None, copy: Any = False, **_: Any) -> Tensor:
        """As another dtype or on another device, given by position or by name; itself where nothing changes, a copy
        with `copy`."""
        flags = [value for value in args if isinstance(value, bool)]  # PyTorch's non_blocking, then copy
        for value in args:
            if isinstance(value, str) and value.partition(":")[0] in ("cpu", "cuda"):
                device = value
            elif isinstance(value, Variable):
                dtype, device = value.array.dtype, devices.device_of(value.array)
            elif not isinstance(value, bool):
                dtype = value
        x: Any = self
        here = devices.device_of(self.array)
        if dtype is not None and dtypes.dtype_of(dtype) != self.array.dtype:
            x = choice.Cast(x, dtype=dtypes.dtype_of(dtype))
        if device is not None and devices.check_device(device) != here:
            x = shape.Transfer(x, device=devices.check_device(device), source=here)
        return shape.Clone(x) if x is self and (copy or flags[1:] == [True]) else x

    def type_as(self, other: Variable) -> Tensor:
        """In the dtype of `other`."""
        return self.to(other.array.dtype)

    def float(self) -> Tensor:
        """As float32."""
        return self.to(dtypes.float32)

    def double(self) -> Tensor:
        """As float64."""
        return self.to(dtypes.float64)

    def half(self) -> Tensor:
        """As float16."""
        return self.to(dtypes.float16)

    def long(self) -> Tensor:
        """As int64."""
        return self.to(dtypes.int64)

    def int(self) -> Tensor:
        """As int32."""
        return self.to(dtypes.int32)

    def bool(self) -> Tensor:
        """Whether each element is not 0."""
        return self.to(dtypes.bool_)

    def cpu(self) -> Tensor:
        """On the CPU."""
        return self.to("cpu")

    def cuda(self) -> Tensor:
        """On the first GPU."""
        return self.to("cuda")

    def type(self, dtype: Any = None, **_: Any) -> Any:
        """As another dtype, given as `tinygrad_edu.float32` or as `tinygrad_edu.FloatTensor`; without, its own."""
        return self.array.dtype if dtype is None else self.to(dtype)

    def short(self) -> Tensor:
        """As int16."""
        return self.to(dtypes.int16)

    def byte(self) -> Tensor:
        """As uint8."""
        return self.to(dtypes.uint8)

    def is_floating_point(self) -> Any:
        """Whether the dtype is floating."""
        return self.array.dtype.kind == "f"

    @property
    def is_cuda(self) -> Any:
        """Whether the memory is a GPU's."""
        return devices.device_of(self.array) != "cpu"

    @property
    def is_cpu(self) -> Any:
        """Whether the memory is the CPU's."""
        return devices.device_of(self.array) == "cpu"

    @property
    def is_sparse(self) -> Any:
        """False: every tensor is dense."""
        return False

    def element_size(self) -> Any:
        """Bytes of one element."""
        return self.array.dtype.itemsize

    @property
    def itemsize(self) -> Any:
        """Bytes of one element."""
        return self.array.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        """Bytes of all elements."""
        return self.array.nbytes

    def stride(self, dim: Any = None) -> Any:
        """Steps in memory, in elements, from one index of each axis to the next; or of axis `dim`."""
        steps = tuple(step // self.array.itemsize for step in self.array.strides)
        return steps if dim is None else steps[dim]

    def data_ptr(self) -> Any:
        """The address of the first element."""
        return self.array.ctypes.data if self.is_cpu else self.array.data.ptr

    def pin_memory(self) -> Tensor:
        """Itself: there is no other memory to be in."""
        return self  # type: ignore[return-value]

    def new_full(self, size: Any, fill_value: Any, dtype: Any = None, requires_grad: Any = False, **_: Any) -> Tensor:
        """A tensor of `size` with every element `fill_value`, of this dtype and on this device."""
        target = self.array.dtype if dtype is None else dtypes.dtype_of(dtype)
        lengths = integers((size,))
        if any(n < 0 for n in lengths):
            raise ValueError(f"new_full: a length cannot be negative, got the shape {lengths}")
        value = dtypes.number_for(fill_value, target, "new_full")
        made = library.module_of(self.array).full(lengths, value, dtype=target)
        t = wrap(self.result, made)
        return t.requires_grad_() if requires_grad else t

    def new_zeros(self, *size: Any, dtype: Any = None, requires_grad: Any = False, **_: Any) -> Tensor:
        """Zeros of this dtype and on this device."""
        return self.new_full(integers(size), 0, dtype, requires_grad)

    def new_ones(self, *size: Any, dtype: Any = None, requires_grad: Any = False, **_: Any) -> Tensor:
        """Ones of this dtype and on this device."""
        return self.new_full(integers(size), 1, dtype, requires_grad)

    new_empty = new_zeros

    def new(self, *data: Any) -> Tensor:
        """PyTorch's old maker of tensors: `new_tensor` of data, or, given lengths or a shape, zeros of that shape."""
        shape = asked_for(data or (0,))
        return self.new_tensor(data[0]) if shape is None else self.new_zeros(shape)

    def new_tensor(self, data: Any, dtype: Any = None, requires_grad: Any = False) -> Tensor:
        """A tensor with a copy of `data`, of this dtype and on this device."""
        target = self.array.dtype if dtype is None else dtype
        t = wrap(self.result, devices.new_array(data, target, devices.device_of(self.array)))
        return t.requires_grad_() if requires_grad else t
