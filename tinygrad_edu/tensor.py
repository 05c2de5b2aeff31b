"""Tensor: what a user holds - an array that remembers how it was made - with PyTorch's operators and methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tinygrad_edu import backend, random, reverse
from tinygrad_edu.modes import thread
from tinygrad_edu.ops import elementwise, index, matrix, reduction, shape
from tinygrad_edu.tape import Op, Record, Variable, wrap

Dims = int | Sequence[int] | None


class Tensor(Variable):
    """An array with a tape: ops on it are recorded, `backward()` walks them back and fills `.grad` of the leaves.

    Args:
        data: array, (nested) list or number. It is copied. Arrays keep their dtype; Python floats become float32,
            integers int64, booleans bool.
        requires_grad: whether gradients are wanted; floating dtypes only.
        dtype: dtype to convert to, for example `tinygrad_edu.float64`.
        device: "cpu", "cuda" or "cuda:1"; None stays where the data is.

    Raises:
        TypeError: the data holds no numbers, or gradients of integers or booleans are asked for.
        ValueError: the data is ragged, or the device is not there.

    `.array` is the array itself, `.data` and `.grad` are Tensors. Indexing, arithmetic and comparison follow
    PyTorch: dtypes promote by its rules, and numbers and bare arrays never widen a tensor.

    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    __slots__ = ()
    __array_ufunc__ = None  # array * Tensor comes to Tensor.__rmul__

    def __init__(self, data: Any, requires_grad: bool = False, dtype: Any = None, device: str | None = None) -> None:
        if isinstance(data, Variable):
            data = data.array
        self.array = backend.new_array(data, dtype, device)
        self.record, self.index, self._grad, self._version = None, 0, None, [0]
        self.requires_grad = False
        if requires_grad:
            self.requires_grad_()

    # What it is

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self.array.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.array.ndim

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self.array.dtype

    @property
    def device(self) -> str:
        """Where the array lives: "cpu", "cuda:0", ..."""
        return backend.device_of(self.array)

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
                value = Tensor(value, dtype=self.dtype, device=self.device)
            if value.shape != self.shape:
                raise ValueError(f"grad: a gradient has the shape of its tensor, {self.shape}; got {value.shape}")
        self._grad = value

    @property
    def data(self) -> Tensor:
        """The same memory as a Tensor without history; changing it in place counts as a change of this one."""
        return wrap(Tensor, self.array, version=self._version)

    @data.setter
    def data(self, value: Any) -> None:
        array = value.array if isinstance(value, Variable) else backend.new_array(value, self.dtype)
        if array.shape != self.shape:
            raise ValueError(f"data: new values must have the shape {self.shape}, got {array.shape}")
        self.array = array
        self._version[0] += 1

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the length of axis `dim`."""
        return self.shape if dim is None else self.shape[_axis(self, dim, "size")]

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
        """The elements as a NumPy array: the same memory on the CPU. Raises where gradients would be lost unseen."""
        if self.requires_grad:
            raise RuntimeError(
                "numpy: this tensor needs a gradient, which NumPy does not carry; use x.detach().numpy()"
            )
        return backend.to_device(self.array, "cpu")

    # Gradients

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Say whether gradients are wanted for this leaf; returns itself."""
        if requires_grad and self.array.dtype.kind != "f":
            raise TypeError(
                f"requires_grad: only floating tensors have gradients, this one is {self.dtype}; use .float()"
            )
        if not requires_grad and self.record is not None:
            raise RuntimeError("requires_grad: this tensor was made by an op; use .detach() for one without history")
        self.requires_grad = requires_grad
        return self

    def backward(self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False) -> None:
        """Add d(self)/d(leaf), weighted by `gradient`, to `.grad` of every leaf that needs it.

        Args:
            gradient: of this tensor's shape and dtype; None means 1 and needs a tensor of one element.
            retain_graph: keep what the ops saved, so that the graph can be walked again; defaults to `create_graph`.
            create_graph: record the pass itself, so that the gradients can be differentiated. `.grad` then holds the
                graph and the graph holds the leaf, a cycle that only Python's collector frees; `grad()` has none.

        Raises:
            RuntimeError: nothing here needs a gradient, an earlier pass freed the graph, or a saved value was
                changed in place. Then no `.grad` has changed.
            ValueError, TypeError: `gradient` has another shape or dtype.
        """
        reverse.backward(self, gradient, retain_graph, create_graph)

    def retain_grad(self) -> None:
        """Have backward fill `.grad` although this is no leaf."""
        reverse.retain(self)

    def detach(self) -> Tensor:
        """The same memory without history; no gradient goes back through it."""
        return shape.Detach(self)

    def clone(self) -> Tensor:
        """A copy in memory of its own, on the tape."""
        return shape.Clone(self)

    def bump_version(self) -> None:
        """Count a change of the array's values made behind the tape's back, so that backward notices it."""
        self._version[0] += 1

    # Arithmetic

    def __add__(self, other: Any) -> Tensor:
        return _binary(elementwise.Add, self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _binary(elementwise.Add, other, self)

    def __sub__(self, other: Any) -> Tensor:
        return _binary(elementwise.Sub, self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return _binary(elementwise.Sub, other, self)

    def __mul__(self, other: Any) -> Tensor:
        return _binary(elementwise.Mul, self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return _binary(elementwise.Mul, other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return _binary(elementwise.Div, self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return _binary(elementwise.Div, other, self)

    def __pow__(self, exponent: Any) -> Tensor:
        if isinstance(exponent, (Variable, list, tuple)) or backend.is_array(exponent):
            return _binary(elementwise.Pow, self, exponent)
        exponent = exponent.item() if hasattr(exponent, "item") else exponent
        if not isinstance(exponent, (int, float)):
            return NotImplemented
        x = self if self.dtype.kind == "f" or (isinstance(exponent, int) and exponent >= 0) else self.float()
        return elementwise.PowNumber(x, exponent=exponent)

    def __rpow__(self, base: Any) -> Tensor:
        return _binary(elementwise.Pow, base, self)

    def __neg__(self) -> Tensor:
        return elementwise.Neg(self)

    def __abs__(self) -> Tensor:
        return elementwise.Abs(self)

    def __matmul__(self, other: Any) -> Tensor:
        return matmul(self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return matmul(other, self)

    # Comparison: results are boolean tensors without gradient

    def __eq__(self, other: Any) -> Any:
        return NotImplemented if other is None or isinstance(other, str) else _binary(elementwise.Equal, self, other)

    def __ne__(self, other: Any) -> Any:
        return NotImplemented if other is None or isinstance(other, str) else _binary(elementwise.NotEqual, self, other)

    def __lt__(self, other: Any) -> Tensor:
        return _binary(elementwise.Less, self, other)

    def __le__(self, other: Any) -> Tensor:
        return _binary(elementwise.LessEqual, self, other)

    def __gt__(self, other: Any) -> Tensor:
        return _binary(elementwise.Less, other, self)

    def __ge__(self, other: Any) -> Tensor:
        return _binary(elementwise.LessEqual, other, self)

    def __invert__(self) -> Tensor:
        if self.dtype.kind != "b":
            raise TypeError(f"~: only boolean tensors are inverted, this one is {self.dtype}")
        return elementwise.LogicalNot(self)

    def __and__(self, other: Any) -> Tensor:
        return elementwise.LogicalAnd(self, other)

    def __or__(self, other: Any) -> Tensor:
        return elementwise.LogicalOr(self, other)

    __hash__ = object.__hash__  # a tensor is itself, whatever its values

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
        return format(self.item() if spec else str(self), spec)

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.array.size != 1:
            raise TypeError(f"only one integer is an index, not a tensor of {self.dtype} with shape {self.shape}")
        return int(self.array.item())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = self.numpy()
        return array.astype(dtype, copy=bool(copy)) if dtype is not None or copy else array

    def __repr__(self) -> str:
        values = repr(backend.to_device(self.array, "cpu"))
        body = values[len("array(") : -1].replace("\n" + " " * len("array("), "\n" + " " * len("tensor("))
        cut = body.find(", dtype=")
        body = body if cut < 0 else body[:cut]
        parts = [body]
        if self.dtype not in (backend.float32, backend.int64, backend.bool_):
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
        twin = wrap(type(self), backend.own_copy(self.array))
        memo[id(self)] = twin
        twin.requires_grad = self.requires_grad
        if self._grad is not None:
            twin._grad = wrap(Tensor, backend.own_copy(self._grad.array))
        return twin

    def __reduce__(self) -> Any:
        if self.record is not None:
            raise RuntimeError("pickle: only leaves are stored, without history; use x.detach()")
        return _rebuild, (type(self), backend.to_device(self.array, "cpu"), self.requires_grad, self.device)

    # Elements

    def __getitem__(self, key: Any) -> Tensor:
        return index.GetItem(self, index=_index(key))

    # Changes in place: of tensors that are on no tape, or under no_grad; they are not recorded

    def __setitem__(self, key: Any, value: Any) -> None:
        self._changes("x[...] = v", value)
        self.array[_index(key)] = value.array if isinstance(value, Variable) else value
        self.bump_version()

    def _changes(self, what: str, value: Any = None) -> None:
        if thread.mode.grad and (self.requires_grad or (isinstance(value, Variable) and value.requires_grad)):
            raise RuntimeError(
                f"{what}: a change in place is not recorded, so the gradient would be lost; make a new tensor "
                f"(x = x + y), or do it under no_grad()"
            )
        if not self.array.flags.writeable:
            raise RuntimeError(
                f"{what}: this tensor shows memory that is read-only or copied (expand); clone() it first"
            )

    def copy_(self, source: Any) -> Tensor:
        """Overwrite the values by those of `source`, broadcast and converted; returns itself."""
        self._changes("copy_", source)
        self.array[...] = source.array if isinstance(source, Variable) else source
        self.bump_version()
        return self

    def _by(self, op: type[Op], other: Any, what: str) -> Tensor:
        self._changes(what, other)
        result = _binary(op, self.detach(), other.detach() if isinstance(other, Tensor) else other)
        if result.shape != self.shape:
            raise ValueError(f"{what}: the result has shape {result.shape}, which {self.shape} cannot hold")
        if result.dtype.kind == "f" and self.dtype.kind != "f":
            raise TypeError(f"{what}: a tensor of {self.dtype} cannot hold {result.dtype}; convert it with .float()")
        self.array[...] = result.array
        self.bump_version()
        return self

    def __iadd__(self, other: Any) -> Tensor:
        return self._by(elementwise.Add, other, "+=")

    def __isub__(self, other: Any) -> Tensor:
        return self._by(elementwise.Sub, other, "-=")

    def __imul__(self, other: Any) -> Tensor:
        return self._by(elementwise.Mul, other, "*=")

    def __itruediv__(self, other: Any) -> Tensor:
        return self._by(elementwise.Div, other, "/=")

    def add_(self, other: Any, alpha: float = 1) -> Tensor:
        """x ← x + alpha · other; returns itself."""
        return self._by(elementwise.Add, other if alpha == 1 else other * alpha, "add_")

    def sub_(self, other: Any, alpha: float = 1) -> Tensor:
        """x ← x − alpha · other; returns itself."""
        return self._by(elementwise.Sub, other if alpha == 1 else other * alpha, "sub_")

    def mul_(self, other: Any) -> Tensor:
        """x ← x ⊙ other; returns itself."""
        return self._by(elementwise.Mul, other, "mul_")

    def div_(self, other: Any) -> Tensor:
        """x ← x / other; returns itself."""
        return self._by(elementwise.Div, other, "div_")

    def fill_(self, value: float) -> Tensor:
        """Overwrite every value by a number; returns itself."""
        self._changes("fill_")
        self.array[...] = value
        self.bump_version()
        return self

    def zero_(self) -> Tensor:
        """Overwrite every value by 0; returns itself."""
        return self.fill_(0)

    def normal_(self, mean: float = 0.0, std: float = 1.0, generator: random.Generator | None = None) -> Tensor:
        """Overwrite by draws from the normal distribution; returns itself."""
        self._changes("normal_")
        draws = (generator or random.current()).numpy().standard_normal(self.shape)
        return self._fill_with(draws * std + mean)

    def uniform_(self, from_: float = 0.0, to: float = 1.0, generator: random.Generator | None = None) -> Tensor:
        """Overwrite by draws from the uniform distribution on [from_, to); returns itself."""
        self._changes("uniform_")
        draws = (generator or random.current()).numpy().random(self.shape)
        return self._fill_with(draws * (to - from_) + from_)

    def _fill_with(self, values: Any) -> Tensor:
        self.array[...] = backend.module_of(self.array).asarray(values)
        self.bump_version()
        return self

    # Reductions

    def sum(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """Σ over the axes `dim`, all where None. Shapes: [...] to [...] without `dim`, or with 1 there if `keepdim`."""
        return reduction.Sum(self, axes=_axes(self, dim, "sum"), keepdim=keepdim)

    def mean(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """Σ / n over the axes `dim`, all where None; NaN where n = 0."""
        return reduction.Mean(self, axes=_axes(self, dim, "mean"), keepdim=keepdim)

    def var(self, dim: Dims = None, correction: int = 1, keepdim: bool = False) -> Tensor:
        """Σ (x − mean)² / (n − correction) over the axes `dim`, all where None."""
        axes = _axes(self, dim, "var")
        n = 1
        for i in axes:
            n *= self.shape[i]
        centred = self - self.mean(axes, keepdim=True)
        return (centred * centred).sum(axes, keepdim) * (1.0 / (n - correction) if n > correction else float("nan"))

    def amax(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        """The largest over the axes `dim`, all where None; equal ones share the gradient evenly."""
        axes = _axes(self, dim, "amax")
        _nonempty(self, axes, "amax")
        return reduction.Amax(self, axes=axes, keepdim=keepdim)

    def max(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The largest of all, or (values, indices) along axis `dim`."""
        if dim is None:
            return self.amax()
        axis = _axis(self, dim, "max")
        _nonempty(self, (axis,), "max")
        return reduction.Max(self, axis=axis, keepdim=keepdim)

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Where the largest stands first: along axis `dim`, or in the flattened tensor."""
        axis = None if dim is None else _axis(self, dim, "argmax")
        _nonempty(self, tuple(range(self.ndim)) if axis is None else (axis,), "argmax")
        return reduction.Argmax(self, axis=axis, keepdim=keepdim)

    def logsumexp(self, dim: Dims, keepdim: bool = False) -> Tensor:
        """ln Σ exp x over the axes `dim`, without overflow."""
        axes = _axes(self, dim, "logsumexp")
        _nonempty(self, axes, "logsumexp")
        return reduction.LogSumExp(self, axes=axes, keepdim=keepdim)

    def any(self) -> Tensor:
        """Whether any element is not 0."""
        return wrap(Tensor, backend.as_array((self.array != 0).any()))

    def all(self) -> Tensor:
        """Whether every element is not 0."""
        return wrap(Tensor, backend.as_array((self.array != 0).all()))

    # Element by element

    def exp(self) -> Tensor:
        """exp x."""
        return elementwise.Exp(self)

    def log(self) -> Tensor:
        """The natural logarithm."""
        return elementwise.Log(self)

    def sqrt(self) -> Tensor:
        """√x."""
        return elementwise.Sqrt(self)

    def tanh(self) -> Tensor:
        """tanh x."""
        return elementwise.Tanh(self)

    def sigmoid(self) -> Tensor:
        """1 / (1 + exp(−x))."""
        return elementwise.Sigmoid(self)

    def erf(self) -> Tensor:
        """erf x."""
        return elementwise.Erf(self)

    def relu(self) -> Tensor:
        """max(x, 0); the gradient at 0 is 0."""
        return elementwise.Relu(self)

    def abs(self) -> Tensor:
        """|x|; the gradient at 0 is 0."""
        return elementwise.Abs(self)

    def masked_fill(self, mask: Any, value: float) -> Tensor:
        """`value` where the boolean `mask`, broadcast to this shape, is true, else the element."""
        mask = mask if isinstance(mask, Variable) else Tensor(mask)
        if mask.dtype.kind != "b":
            raise TypeError(f"masked_fill: the mask must be boolean, got {mask.dtype}; compare something (mask != 0)")
        _broadcasts(mask.shape, self.shape, "masked_fill: mask")
        return elementwise.MaskedFill(self, mask, value=value)

    # Shapes

    def reshape(self, *shape_: Any) -> Tensor:
        """The elements row by row in another shape; one length may be −1."""
        return shape.Reshape(self, shape=_new_shape(self, _ints(shape_), "reshape"))

    view = reshape  # no copy where the memory allows; unlike PyTorch's, it copies where it does not

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        """Two axes exchanged."""
        return shape.Transpose(self, dim0=_axis(self, dim0, "transpose"), dim1=_axis(self, dim1, "transpose"))

    def permute(self, *dims: Any) -> Tensor:
        """The axes in another order."""
        axes = tuple(_axis(self, d, "permute") for d in _ints(dims))
        if sorted(axes) != list(range(self.ndim)):
            raise ValueError(f"permute: {_ints(dims)} does not name each of the {self.ndim} axes once")
        return shape.Permute(self, axes=axes)

    @property
    def mT(self) -> Tensor:
        """The last two axes exchanged."""
        if self.ndim < 2:
            raise ValueError(f"mT: needs two axes, this tensor has shape {self.shape}")
        return shape.Transpose(self, dim0=self.ndim - 2, dim1=self.ndim - 1)

    @property
    def T(self) -> Tensor:
        """The axes in reverse order."""
        return shape.Permute(self, axes=tuple(reversed(range(self.ndim))))

    def expand(self, *shape_: Any) -> Tensor:
        """Axes of 1 copied up to a length, new ones in front; −1 keeps a length. No memory is used."""
        target = _ints(shape_)
        lead = len(target) - self.ndim
        target = tuple(self.shape[i - lead] if n == -1 and i >= lead else n for i, n in enumerate(target))
        _broadcasts(self.shape, target, "expand")
        return shape.Expand(self, shape=target)

    def unsqueeze(self, dim: int) -> Tensor:
        """A new axis of 1 at `dim`."""
        if not -self.ndim - 1 <= dim <= self.ndim:
            raise IndexError(f"unsqueeze: dim {dim} is outside {-self.ndim - 1} to {self.ndim}")
        at = dim % (self.ndim + 1)
        return shape.Reshape(self, shape=(*self.shape[:at], 1, *self.shape[at:]))

    def squeeze(self, dim: Dims = None) -> Tensor:
        """Without the axes of 1, or without those among `dim`."""
        axes = _axes(self, dim, "squeeze")
        return shape.Reshape(self, shape=tuple(n for i, n in enumerate(self.shape) if n != 1 or i not in axes))

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """The axes from `start_dim` to `end_dim` as one."""
        if not self.shape:
            return shape.Reshape(self, shape=(1,))
        first, last = _axis(self, start_dim, "flatten"), _axis(self, end_dim, "flatten")
        if first > last:
            raise ValueError(f"flatten: start_dim {start_dim} lies behind end_dim {end_dim}")
        n = 1
        for length in self.shape[first : last + 1]:
            n *= length
        return shape.Reshape(self, shape=(*self.shape[:first], n, *self.shape[last + 1 :]))

    def contiguous(self) -> Tensor:
        """Itself, or a copy with rows in order where its memory is not."""
        return self if self.array.flags.c_contiguous else self.clone()

    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
        """Pieces along `dim`: each of `split_size`, the last shorter, or of the lengths given."""
        axis = _axis(self, dim, "split")
        n = self.shape[axis]
        if isinstance(split_size, int):
            if split_size < 1:
                raise ValueError(f"split: the size of a piece must be at least 1, got {split_size}")
            sizes = [min(split_size, n - i) for i in range(0, n, split_size)] or [0]
        else:
            sizes = [int(s) for s in split_size]
            if sum(sizes) != n or min(sizes, default=0) < 0:
                raise ValueError(f"split: lengths {sizes} do not add up to {n}, the length of axis {dim}")
        return shape.Split(self, sizes=tuple(sizes), axis=axis)

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """At most `chunks` pieces of equal length along `dim`, the last one shorter if need be."""
        if chunks < 1:
            raise ValueError(f"chunk: the number of pieces must be at least 1, got {chunks}")
        n = self.shape[_axis(self, dim, "chunk")]
        return self.split(max(-(-n // chunks), 1), dim)

    def gather(self, dim: int, index_: Any) -> Tensor:
        """out[..., i, ...] = x[..., index[..., i, ...], ...] along `dim`; the other lengths are the index's."""
        axis = _axis(self, dim, "gather")
        at = index_ if isinstance(index_, Tensor) else Tensor(index_)
        if at.ndim != self.ndim:
            raise ValueError(f"gather: index needs {self.ndim} axes like the input, it has shape {at.shape}")
        backend.check_ids(at.array, self.shape[axis], "gather")
        return index.Gather(self, at, axis=axis)

    # Conversion

    def to(self, *args: Any, dtype: Any = None, device: str | None = None) -> Tensor:
        """As another dtype or on another device, given by position or by name; itself where nothing changes."""
        for value in args:
            if isinstance(value, str) and value.partition(":")[0] in ("cpu", "cuda"):
                device = value
            elif isinstance(value, Variable):
                dtype, device = value.array.dtype, backend.device_of(value.array)
            else:
                dtype = value
        x = self
        if dtype is not None and backend.dtype_of(dtype) != self.dtype:
            x = elementwise.Cast(x, dtype=backend.dtype_of(dtype))
        if device is not None and backend.check_device(device) != self.device:
            x = shape.Transfer(x, device=backend.check_device(device), source=self.device)
        return x

    def float(self) -> Tensor:
        """As float32."""
        return self.to(backend.float32)

    def double(self) -> Tensor:
        """As float64."""
        return self.to(backend.float64)

    def long(self) -> Tensor:
        """As int64."""
        return self.to(backend.int64)

    def bool(self) -> Tensor:
        """Whether each element is not 0."""
        return self.to(backend.bool_)

    def cpu(self) -> Tensor:
        """On the CPU."""
        return self.to("cpu")

    def cuda(self) -> Tensor:
        """On the first GPU."""
        return self.to("cuda")


def matmul(input: Any, other: Any) -> Tensor:
    """The matrix product over the last axis of `input` and the last but one of `other`.

    Shapes: [..., n, m] and [..., m, k] to [..., n, k], leading axes broadcast; a vector [m] counts as one row on the
    left and one column on the right, and that axis is left out of the result.

    Raises:
        ValueError: an operand has no axis, or the lengths m differ.

    >>> matmul(Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([5.0, -1.0]))
    tensor([ 3., 11.])
    """
    x = input if isinstance(input, Variable) else Tensor(input)
    y = other if isinstance(other, Variable) else Tensor(other)
    a, b = x.array.shape, y.array.shape
    if not a or not b:
        raise ValueError(f"matmul: operands need at least one axis, got shapes {a} and {b}; use * for numbers")
    if a[-1] != b[-2 if len(b) > 1 else 0]:
        raise ValueError(
            f"matmul: {a} and {b} do not fit: the last axis of the first ({a[-1]}) must equal the "
            f"{'last but one' if len(b) > 1 else 'only'} axis of the second ({b[-2 if len(b) > 1 else 0]})"
        )
    left, right = len(a) == 1, len(b) == 1
    if left:
        x = shape.Reshape(x, shape=(1, *a))
    if right:
        y = shape.Reshape(y, shape=(*b, 1))
    z = _binary(matrix.Matmul, x, y)
    if left or right:
        *lead, n, k = z.shape
        z = shape.Reshape(z, shape=(*lead, *(() if left else (n,)), *(() if right else (k,))))
    return z


def _binary(op: type[Op], x: Any, y: Any) -> Tensor:
    try:
        return op(x, y)
    except ValueError as error:
        shapes = [v.array.shape if isinstance(v, Variable) else getattr(v, "shape", ()) for v in (x, y)]
        if "broadcast" not in str(error) and "dimension" not in str(error) and "shape" not in str(error):
            raise
        raise ValueError(
            f"{op.name}: shapes {shapes[0]} and {shapes[1]} do not broadcast: counted from the end, lengths must be "
            f"equal or 1"
        ) from None


def _rebuild(kind: type[Tensor], array: Any, requires_grad: bool, device: str) -> Tensor:
    t = wrap(kind, backend.to_device(array, device))
    t.requires_grad = requires_grad
    return t


def _axis(x: Variable, dim: int, what: str) -> int:
    n = x.array.ndim
    if not hasattr(dim, "__index__"):
        raise TypeError(f"{what}: dim must be an integer, got {dim!r}")
    if not -n <= dim < n:
        raise IndexError(f"{what}: dim {dim} is outside {-n} to {n - 1} of a tensor with shape {x.array.shape}")
    return int(dim) % n


def _axes(x: Variable, dim: Dims, what: str) -> tuple[int, ...]:
    if dim is None:
        return tuple(range(x.array.ndim))
    axes = tuple(_axis(x, d, what) for d in (dim if isinstance(dim, (tuple, list)) else (dim,)))
    if len(set(axes)) != len(axes):
        raise ValueError(f"{what}: dim {dim} names an axis twice")
    return tuple(sorted(axes))


def _nonempty(x: Variable, axes: tuple[int, ...], what: str) -> None:
    if any(x.array.shape[i] == 0 for i in axes):
        raise ValueError(f"{what}: nothing is the largest of no elements; the shape is {x.array.shape}")


def _ints(values: tuple[Any, ...]) -> tuple[int, ...]:
    if len(values) == 1 and isinstance(values[0], (tuple, list)):
        values = tuple(values[0])
    return tuple(int(v.__index__()) for v in values)


def _new_shape(x: Variable, target: tuple[int, ...], what: str) -> tuple[int, ...]:
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


def _broadcasts(given: tuple[int, ...], target: tuple[int, ...], what: str) -> None:
    fits = len(given) <= len(target) and all(
        n in (1, m) for n, m in zip(reversed(given), reversed(target), strict=False)
    )
    if not fits:
        raise ValueError(f"{what}: shape {given} does not broadcast to {target}; lengths must be equal or 1")


def _index(key: Any) -> Any:
    def plain(part: Any) -> Any:
        if isinstance(part, Variable):
            part = part.array
        elif isinstance(part, list):
            part = backend.new_array(part)
        if backend.is_array(part):
            if part.dtype.kind not in "iub":
                raise IndexError(f"index: arrays that pick elements hold integers or booleans, got {part.dtype}")
            return part.copy()  # a later change of the caller's array must not change the derivative
        return part

    return tuple(plain(part) for part in key) if isinstance(key, tuple) else plain(key)
