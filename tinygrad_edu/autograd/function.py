"""Function: an op of a user's own as PyTorch's programs write it, a forward and a backward on tensors."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

from tinygrad_edu.arrays import library, memory
from tinygrad_edu.engine.modes import active, is_grad_enabled, no_grad, setting
from tinygrad_edu.engine.tape import Op, Record, Variable, wrap
from tinygrad_edu.tensor import Tensor


class FunctionCtx:
    """What `forward` leaves for `backward`: tensors, by `save_for_backward`, and any other value as an attribute."""

    def __init__(self, needs_input_grad: tuple[bool, ...] = ()) -> None:
        self.needs_input_grad = needs_input_grad  # for each argument, whether a gradient is wanted
        self.materialize_grads = True
        self._saved: list[Any] = []
        self._fixed: list[Tensor] = []  # outputs without a gradient
        self._record: Callable[[], Record | None] = lambda: None

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs, outputs or others for `backward`, which finds them in `saved_tensors`; None stays None."""
        if wrong := [type(t).__name__ for t in tensors if not isinstance(t, Tensor | None)]:
            raise TypeError(f"save_for_backward: takes tensors or None, got a {wrong[0]}; keep it as ctx.name = value")
        self._saved = [None if t is None else _Saved(t) for t in tensors]

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What was saved. Raises RuntimeError where one was changed in place since."""
        return tuple(None if s is None else s.tensor(self._record()) for s in self._saved)

    def mark_non_differentiable(self, *outputs: Tensor) -> None:
        """Say that these outputs have no gradient."""
        self._fixed = list(outputs)

    def set_materialize_grads(self, value: bool) -> None:
        """False: `backward` is given None, and not zeros, for an output that no gradient arrived for."""
        self.materialize_grads = value

    def mark_dirty(self, *inputs: Tensor) -> None:
        """Refused: a forward changes no input here."""
        raise RuntimeError("mark_dirty: a Function changes no input in place here; let forward return a new tensor")


class _Saved:
    """A saved tensor and the version it had. Of an output only the memory and its number: it would hold the record."""

    def __init__(self, t: Tensor) -> None:
        self.held: Tensor | None = t
        self.array, self.counter, self.version, self.output = t.array, t._version, t._version[0], -1
        self.unchanged: Callable[[], None] | None = None  # raises for a change that the counter does not see

    def is_output(self, at: int, counter: Any) -> None:
        """Note that this is output `at`, under the counter of what the tape made of it."""
        self.held, self.output, self.counter, self.version = None, at, counter, counter[0]

    def tensor(self, record: Record | None) -> Tensor:
        """The tensor, an output with the record of the function's run."""
        if self.counter[0] != self.version:
            raise RuntimeError(
                f"saved_tensors: a tensor was changed in place since it was saved (version {self.version} then, "
                f"{self.counter[0]} now), so the derivative would be wrong; change a copy (x.clone()) instead"
            )
        if self.unchanged is not None:
            self.unchanged()
        return self.held if self.held is not None else wrap(Tensor, self.array, record, self.output, self.counter)


class Function:
    """An op of one's own. A subclass writes two static methods, and is called by `apply`:

    forward(ctx, *args): the value, a Tensor or a tuple of them, of tensors and other arguments. Nothing is recorded in
        it. `ctx` takes what backward reads. Or forward(*args) without ctx, and setup_context(ctx, inputs, output)
        beside it.
    backward(ctx, *grads): from the gradient of every output that of every argument, None for one that has none. Under
        create_graph it runs on recorded tensors, so that its own derivatives follow if it is made of tensor ops;
        `once_differentiable` declares one that is not.

    Unlike PyTorch's, outputs that are views of an input count as new tensors; `mark_dirty` is refused.

    >>> import tinygrad_edu as tg
    >>> class Cube(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x**3
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return grad * 3 * x**2
    >>> x = tg.tensor([2.0], requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor([12.])
    """

    op: ClassVar[type[Op]]

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The value; a subclass writes it."""
        raise NotImplementedError("Function: write a static method forward(ctx, *args)")

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save what backward reads, for a forward without ctx; a subclass may write it."""
        raise NotImplementedError

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of the arguments; a subclass writes it."""
        raise NotImplementedError("Function: write a static method backward(ctx, *grads); its gradient was asked for")

    def __init_subclass__(cls) -> None:
        name = cls.__name__.removesuffix("Function") + "Function"
        told = f"{{out}} = {cls.__name__}({{xs}})"
        cls.op = type(name, (_Applied,), {**_Applied.__dict__, "__doc__": told, "__module__": cls.__module__})

    def __init__(self) -> None:
        raise RuntimeError(f"{type(self).__name__}: a Function is not made; call {type(self).__name__}.apply(...)")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """The value of `forward` for the arguments, on the tape."""
        call = _Call(cls, args, kwargs)
        ys = cls.op(*call.inputs, call=call) if call.inputs else tuple(wrap(Tensor, y) for y in call.run())
        return call.finished(ys)


class _Call:
    """One application: runs forward for the tape, then holds the context for backward."""

    def __init__(self, function: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.at = [i for i, x in enumerate(args) if isinstance(x, Variable)]
        self.inputs = [args[i] for i in self.at]
        self.count = len(args)
        self.ctx = FunctionCtx(tuple(isinstance(x, Variable) and x.requires_grad for x in args))
        self.made: list[Tensor] = []
        self.several = False

    def run(self) -> tuple[Any, ...]:
        """The arrays that forward gives."""
        listener = active().trace
        with setting(grad=False, trace=None):
            if self.function.setup_context is not Function.setup_context:
                output = self.function.forward(*self.args, **self.kwargs)
                self.function.setup_context(self.ctx, self.args, output)
            else:
                output = self.function.forward(self.ctx, *self.args, **self.kwargs)
        if listener is not None:
            for i, saved in enumerate(self.ctx._saved):
                if saved is not None:
                    saved.unchanged = listener.saving(self.function.__name__, f"saved_tensors[{i}]", saved.array)
        self.several = isinstance(output, tuple | list)
        self.made = list(output) if self.several else [output]
        if wrong := [type(y).__name__ for y in self.made if not isinstance(y, Variable)]:
            raise TypeError(
                f"{self.function.__name__}.forward: must return a Tensor or a tuple of them, not {wrong[0]}"
            )
        inputs = {id(x.array) for x in self.inputs}
        return tuple(memory.own_copy(y.array) if id(y.array) in inputs else y.array for y in self.made)

    def finished(self, ys: tuple[Any, ...]) -> Any:
        """The outputs as the user gets them; from here on only what was saved is held."""
        for at, (y, made) in enumerate(zip(ys, self.made)):
            if any(made is fixed for fixed in self.ctx._fixed):
                y.record, y.index, y.needs = None, 0, False
            for saved in self.ctx._saved:
                if saved is not None and saved.held is made and not any(made is x for x in self.inputs):
                    saved.is_output(at, y._version)
        records = [y.record for y in ys if y.record is not None]
        if records:
            self.ctx._record = weakref.ref(records[0])
        else:
            self.ctx._saved = []
        self.args, self.kwargs, self.inputs, self.made, self.ctx._fixed = (), {}, [], [], []
        return tuple(ys) if self.several else ys[0]

    def gradients(self, g: list[Any], need: tuple[bool, ...]) -> list[Any]:
        """What the user's backward gives for the inputs, arrays for arrays."""
        record = self.ctx._record()
        recorded = any(isinstance(d, Variable) for d in g)
        tensors = [d if d is None or isinstance(d, Variable) else wrap(Tensor, d) for d in g]
        if self.ctx.materialize_grads and record is not None:
            like = next(d.array for d in tensors if d is not None)
            xp = library.module_of(like)
            forms = zip(tensors, record.shapes, record.dtypes)
            tensors = [wrap(Tensor, xp.zeros(shape, dtype)) if d is None else d for d, shape, dtype in forms]
        found = self.function.backward(self.ctx, *tensors)
        given = list(found) if isinstance(found, tuple | list) else [found]
        name = f"{self.function.__name__}.backward"
        if len(given) < self.count or any(d is not None for d in given[self.count :]):
            raise RuntimeError(f"{name}: returned {len(given)} gradients for {self.count} arguments of forward")
        results = []
        for i, wanted in zip(self.at, need):
            d = given[i] if wanted else None
            if d is not None and not isinstance(d, Variable):
                raise TypeError(f"{name}: gradient {i} is a {type(d).__name__}; return a Tensor, or None")
            results.append(d if d is None or recorded else d.array)
        return results


class _Applied(Op):
    """outputs = a user's Function of {xs}"""

    outputs = True
    formulas: ClassVar[dict[str, str]] = {"xs": "d of each input, by the function's own backward"}

    def forward(*xs, call):
        return call.run()

    def gradients(g, need, call):
        return call.gradients(g, need)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """For a `backward` that is not made of tensor ops: a second derivative through it raises, and is not wrong.

    Written below @staticmethod. Under create_graph the tensors that backward reads have no history; what it returns
    does depend on the incoming gradients and the saved tensors, with a derivative that is an error.
    """

    @functools.wraps(backward)
    def once(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            found = backward(ctx, *grads)
        read = [t for t in (*grads, *ctx.saved_tensors) if isinstance(t, Variable) and t.requires_grad]
        if not is_grad_enabled() or not read:
            return found
        several = isinstance(found, tuple | list)
        results = [d if d is None else Once(d, *read) for d in (found if several else [found])]
        return tuple(results) if several else results[0]

    return once


class Once(Op):
    """{out} = the first of {xs}, which has no derivative by the others"""

    formulas: ClassVar[dict[str, str]] = {"xs": "refused"}

    def forward(*xs):
        return memory.own_copy(xs[0])

    def gradients(g, need):
        raise RuntimeError(
            "once_differentiable: a second derivative was asked for, and this Function's backward has none; write it "
            "with tensor ops and leave the decorator out"
        )
