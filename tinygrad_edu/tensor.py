"""Tensor: what a user holds - an array that remembers how it was made - with PyTorch's operators and methods."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from tinygrad_edu.arrays import devices, dtypes, memory
from tinygrad_edu.engine import backward, hooks
from tinygrad_edu.engine.tape import Record, Variable, wrap
from tinygrad_edu.methods.changes import Changes
from tinygrad_edu.methods.common import axis_of
from tinygrad_edu.methods.conversions import Conversions
from tinygrad_edu.methods.drawing import Drawn
from tinygrad_edu.methods.names import Named
from tinygrad_edu.methods.orders import Orders
from tinygrad_edu.methods.picks import Picks
from tinygrad_edu.methods.products import Products
from tinygrad_edu.methods.reductions import Reductions
from tinygrad_edu.methods.searches import Searches
from tinygrad_edu.methods.shapes import Shapes
from tinygrad_edu.methods.twins import Twins
from tinygrad_edu.ops import shape
from tinygrad_edu.size import Size, asked_for

_new_tuple = tuple.__new__


class Tensor(Named, Products, Reductions, Orders, Shapes, Picks, Searches, Conversions, Twins, Changes, Drawn):
    """An array with a tape: ops on it are recorded, `backward()` walks them back and fills `.grad` of the leaves.

    Args:
        data: array, (nested) list or number. It is copied. Arrays keep their dtype; Python floats become float32,
            integers int64, booleans bool.
        requires_grad: whether gradients are wanted; floating dtypes only.
        dtype: dtype to convert to, for example `tinygrad_edu.float64`.
        device: "cpu", "cuda" or "cuda:1"; None stays where the data is.

    Integers, `Tensor(5)`, `Tensor(2, 3)`, and a tensor's shape, `Tensor(x.shape)`, ask for zeros of that shape, as in
    PyTorch, whose memory is not set; `Tensor()` is empty. `tensor(5)` and `tensor(x.shape)` hold the numbers.

    Raises:
        TypeError: the data holds no numbers, or gradients of integers or booleans are asked for.
        ValueError: the data is ragged, or the device is not there.

    `.array` is the array itself, in which a change goes past the tape, unseen by a backward pass that needs the old
    values; `.data` and `.grad` are Tensors, in which it is seen. Indexing, arithmetic and comparison follow
    PyTorch: dtypes promote by its rules, and numbers and bare arrays never widen a tensor.

    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    __slots__ = ()
    __array_ufunc__ = None  # array * Tensor comes to Tensor.__rmul__

    def __init__(
        self, data: Any = (), requires_grad: Any = False, dtype: Any = None, device: Any = None, *lengths: Any
    ) -> None:
        if type(requires_grad) is not bool and requires_grad is not None:  # it is a length
            given = tuple(n for n in (data, requires_grad, dtype, device, *lengths) if n is not None)
            data, requires_grad, dtype, device = Size(asked_for(given) or ()), False, None, None
        shape = asked_for((data,))
        if shape is None:
            self.array = devices.new_array(data.array if isinstance(data, Variable) else data, dtype, device)
        else:
            self.array = devices.zeros(shape, dtype, device)
        self.record, self.index, self._grad, self._version = None, 0, None, [0]
        self.needs = False
        if requires_grad:
            self.requires_grad_()

    # What it is

    @property
    def shape(self) -> Size:
        """The length of each axis."""
        return _new_tuple(Size, self.array.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.array.ndim

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self.array.dtype

    @property
    def device(self) -> devices.Device:
        """Where the array lives: "cpu", "cuda:0", ..., a string that also has `type` and `index`."""
        return devices.Device(devices.device_of(self.array))

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded op made it."""
        return self.record is None

    @property
    def grad_fn(self) -> Record | None:
        """The record of the op that made it; its `name` is the op's."""
        return self.record

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward passes have added up, None before the first."""
        return self._grad

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None:
            if not isinstance(value, Tensor) or not value.requires_grad:  # later passes add to it in place
                value = tensor(value, dtype=self.dtype, device=self.device)
            if value.shape != self.shape:
                raise ValueError(f"grad: a gradient has the shape of its tensor, {self.shape}; got {value.shape}")
        self._grad = value

    @property
    def data(self) -> Tensor:
        """The same memory as a Tensor without history; changing it in place counts as a change of this one."""
        return wrap(Tensor, self.array, version=self._version)

    @data.setter
    def data(self, value: Any) -> None:
        array = value.array if isinstance(value, Variable) else devices.new_array(value, self.dtype, self.device)
        if array.shape != self.shape:
            raise ValueError(f"data: new values must have the shape {self.shape}, got {array.shape}")
        self.array = array
        self._version[0] += 1

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the length of axis `dim`."""
        return self.shape if dim is None else self.shape[axis_of(self, dim, "size")]

    def numel(self) -> int:
        """The number of elements."""
        return int(self.array.size)

    def dim(self) -> int:
        """The number of axes."""
        return self.array.ndim

    def item(self) -> Any:
        """The one element as a Python number, without history."""
        if self.array.size != 1:
            raise ValueError(f"item: only a tensor of one element is a number, this one has shape {self.shape}")
        return self.array.item()

    def tolist(self) -> Any:
        """The elements as nested Python lists."""
        return self.array.tolist()

    def numpy(self) -> Any:
        """The elements as a NumPy array: the same memory on the CPU. A change in it goes past the tape.

        No version counter sees such a change, so a backward pass that needs the old values is wrong without a word;
        change `x.numpy().copy()`, or the tensor itself; `detect_anomaly()` finds such changes.

        Raises RuntimeError where gradients would be lost unseen.
        """
        if self.requires_grad:
            raise RuntimeError(
                "numpy: this tensor needs a gradient, which NumPy does not carry; use x.detach().numpy()"
            )
        return devices.to_device(self.array, "cpu")

    # Gradients

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Say whether gradients are wanted for this leaf; returns itself."""
        self.requires_grad = requires_grad
        return self

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Add d(self)/d(leaf), weighted by `gradient`, to `.grad` of every leaf that needs it.

        Args:
            gradient: of this tensor's shape and dtype; None means 1 and needs a tensor of one element.
            retain_graph: keep what the ops saved, so that the graph can be walked again; defaults to `create_graph`.
            create_graph: record the pass itself, so that the gradients can be differentiated. `.grad` then holds the
                graph and the graph holds the leaf, a cycle that only Python's collector frees; `grad()` has none.
            inputs: the tensors whose `.grad` is to be filled, instead of all leaves.

        Raises:
            RuntimeError: nothing here needs a gradient, an earlier pass freed the graph, or a saved value was
                changed in place. Then no `.grad` has changed.
            ValueError, TypeError: `gradient` has another shape or dtype.
        """
        if inputs is None:
            backward.backward(self, gradient, retain_graph, create_graph)
            return
        targets = [inputs] if isinstance(inputs, Variable) else list(inputs)
        found = backward.gradients([self], targets, [gradient], retain_graph, create_graph)
        backward.deliver([(x, g, True) for x, g in zip(targets, found) if g is not None])

    def retain_grad(self) -> None:
        """Have backward fill `.grad` although this is no leaf."""
        hooks.retain(self)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> hooks.Handle:
        """Let this tensor's gradient pass through `hook(gradient)` in every backward pass.

        What it returns, if not None, takes the gradient's place. It must not change its argument. Returns a handle;
        `handle.remove()` takes the hook back.

        >>> x = Tensor([1.0], requires_grad=True)
        >>> handle = x.register_hook(lambda gradient: gradient * 10)
        >>> (x * 2).sum().backward()
        >>> x.grad
        tensor([20.])
        """
        return hooks.register_hook(self, hook)

    def detach(self) -> Tensor:
        """The same memory without history; no gradient goes back through it."""
        return shape.Detach(self)

    def clone(self) -> Tensor:
        """A copy in memory of its own, on the tape."""
        return shape.Clone(self)

    def bump_version(self) -> None:
        """Count a change of the array's values made behind the tape's back, so that backward notices it."""
        self._version[0] += 1

    # Python's manners

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len: a tensor of no axes has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise TypeError("iteration: a tensor of no axes has no elements to go through; use .item()")
        return (self[i] for i in range(self.shape[0]))

    def __bool__(self) -> bool:
        if self.array.size != 1:
            raise ValueError(f"a tensor of shape {self.shape} is neither true nor false; use (x != 0).any() or .all()")
        return bool(self.array.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __format__(self, spec: str) -> str:
        if not self.array.ndim:
            return format(self.array.item(), spec)
        if spec:
            raise TypeError(
                f"format: {spec!r} is for a number, this tensor has shape {self.shape}; format its .item() or elements"
            )
        return str(self)

    def __index__(self) -> int:
        if self.dtype.kind not in "iub" or self.array.size != 1:
            raise TypeError(f"only one integer is an index, not a tensor of {self.dtype} with shape {self.shape}")
        return int(self.array.item())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """For np.asarray(x), the same memory: a change in it goes past the tape, see `numpy`. np.array(x) copies."""
        array = self.numpy()
        return array.astype(dtype, copy=bool(copy)) if dtype is not None or copy else array

    def __repr__(self) -> str:
        values = repr(devices.to_device(self.array, "cpu"))
        body = values[len("array(") : -1].replace("\n" + " " * len("array("), "\n" + " " * len("tensor("))
        body = re.split(r",\s+dtype=", body)[0]
        parts = [body]
        if self.dtype not in (dtypes.float32, dtypes.int64, dtypes.bool_):
            parts.append(f"dtype={self.dtype}")
        if self.device != "cpu":
            parts.append(f"device='{self.device}'")
        if self.record is not None:
            parts.append(f"grad_fn=<{self.record.name}>")
        elif self.requires_grad:
            parts.append("requires_grad=True")
        return f"tensor({', '.join(parts)})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if self.record is not None:
            raise RuntimeError("deepcopy: only leaves are copied with all they hold; use x.detach() or x.clone()")
        twin = wrap(type(self), memory.own_copy(self.array))
        memo[id(self)] = twin
        twin.needs = self.needs
        if self._grad is not None:
            twin._grad = wrap(Tensor, memory.own_copy(self._grad.array))
        return twin

    def __reduce__(self) -> Any:
        if self.record is not None:
            raise RuntimeError("pickle: only leaves are stored, without history; use x.detach()")
        return _rebuild, (type(self), devices.to_device(self.array, "cpu"), self.requires_grad, self.device)


def tensor(data: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """A Tensor with a copy of `data`, which is never taken for a shape; see `Tensor`.

    >>> tensor([[1, 2], [3, 4]]).sum(), tensor(5)
    (tensor(10), tensor(5))
    """
    t = wrap(Tensor, devices.new_array(data.array if isinstance(data, Variable) else data, dtype, device))
    return t.requires_grad_() if requires_grad else t


def _rebuild(kind: type[Tensor], array: Any, requires_grad: bool, device: str) -> Tensor:
    t = wrap(kind, devices.to_device(array, device))
    t.needs = requires_grad
    return t
