"""Parameters and buffers: the tensors that a module owns, told apart by their class."""

from __future__ import annotations

from typing import Any, ClassVar

from tinygrad_edu.tensor import Tensor, tensor


class Parameter(Tensor, result=False):
    """A Tensor that a module learns: a module finds it among its attributes, an optimizer changes it.

    A Tensor is taken as it is, sharing its memory as in PyTorch; other data is copied. Ops on a Parameter give Tensors.
    It takes attributes of a program's own, such as a mark for the optimizer's groups.

    Args:
        data: a Tensor, an array or numbers, of any shape; empty where None.
        requires_grad: False for a frozen one.

    >>> from tinygrad_edu import nn
    >>> import tinygrad_edu as tg
    >>> type(nn.Parameter(tg.zeros(2)) * 2).__name__
    'Tensor'
    """

    __slots__ = ("__dict__",)

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        _share(self, [] if data is None else data, requires_grad)


class Buffer(Tensor, result=False):
    """A Tensor that belongs to a module's state but is not learned: it is saved and moved with the module.

    `persistent=False` keeps it out of state_dict, for what the module can make again.

    >>> from tinygrad_edu import nn
    >>> net = nn.Module()
    >>> net.seen = nn.Buffer([0, 0])
    >>> list(net.state_dict())
    ['seen']
    """

    __slots__ = ()
    persistent: ClassVar[bool] = True

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Buffer:
        return super().__new__(cls if persistent else TransientBuffer)

    def __init__(self, data: Any = None, *, persistent: bool = True) -> None:
        _share(self, [] if data is None else data, False)


class TransientBuffer(Buffer, result=False):
    """A Buffer that moves with the module but stays out of its state_dict: one that the module can make again."""

    __slots__ = ()
    persistent: ClassVar[bool] = False


def _share(new: Tensor, data: Any, requires_grad: bool) -> None:
    source = data if isinstance(data, Tensor) else tensor(data)
    new.array, new.record, new.index, new._grad, new._version = source.array, None, 0, None, source._version
    new.requires_grad_(requires_grad)
