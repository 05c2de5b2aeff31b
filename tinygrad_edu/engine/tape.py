"""The tape: the record of which op made a value, and what an op is.

It knows no op and no array library. An op declares its forward on arrays and one rule per differentiable input; the
names of a rule's parameters say what it reads, so exactly that is kept, and only for inputs that need a gradient.
Rules are written once: on arrays they are an ordinary backward pass, on Variables they are recorded in turn.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, ClassVar

from tinygrad_edu.arrays import devices, dtypes, gpu, library, promotion
from tinygrad_edu.arrays.sums import narrow
from tinygrad_edu.engine.modes import entered
from tinygrad_edu.engine.save_plan import Plan, declare, plan_for

registry: dict[str, type[Op]] = {}


class Primitives:
    """The few ops that the engine applies itself; `tinygrad_edu.ops` hands them over when it is imported."""

    sum_to: Any  # (x, *, shape): the sum over the axes along which an input of that shape was broadcast
    cast: Any  # (x, *, dtype)
    alias: Any  # (x): the same value as the result of an op


primitives = Primitives()
_NUMBERS = {float, int, bool}
_MOST = 3.4e38  # of float32; NumPy warns where it makes a number beyond infinite
number = itertools.count(1).__next__  # the order of creation is a topological order


class Variable:
    """A value on the tape: its array, and which output of which record it is. Leaves have no record.

    The version counter belongs to the memory: views share it, and an in-place change adds one.
    """

    __slots__ = {
        "__weakref__": None,
        "_grad": None,
        "_version": None,
        "array": """The raw NumPy or CuPy array. A change in it goes past the tape: no version counter sees it, and a
backward pass that needs the old values is wrong without a word. Change the tensor (x.mul_(2), under
no_grad() where it needs a gradient) or x.array.copy(); detect_anomaly() finds such changes.""",
        "index": None,
        "needs": None,
        "record": None,
    }
    result: ClassVar[type[Variable]]  # the class of what ops make from this one

    def __init_subclass__(cls, result: bool = True, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if result:
            cls.result = cls

    array: Any
    needs: bool  # whether gradients are wanted; what the engine itself reads
    record: Record | None
    index: int
    _grad: Any
    _version: list[Any]  # the count, then weak references to all who show this memory, where a view was taken

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are wanted for this value; to be set on leaves."""
        return self.needs

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        if wanted and self.array.dtype.kind != "f":
            raise TypeError(
                f"requires_grad: only floating tensors have gradients, this one is {self.array.dtype}; use .float()"
            )
        if not wanted and self.record is not None:
            raise RuntimeError("requires_grad: this tensor was made by an op; use .detach() for one without history")
        self.needs = bool(wanted)


def wrap(kind: type[Variable], array: Any, record: Record | None = None, index: int = 0, version: Any = None) -> Any:
    """A Variable of class `kind` around an array, without a copy."""
    v = kind.__new__(kind)
    v.array, v.record, v.index, v._grad = array, record, index, None
    v.needs = record is not None
    v._version = [0] if version is None else version
    return v


def related(source: Variable, view: Variable) -> None:
    """Note behind the version counter that both show one memory, so that a change in place can tell who else does."""
    family = source._version
    if len(family) == 1:
        family.append(weakref.ref(source))
    family.append(weakref.ref(view, family.remove))  # goes with the view, so that a parameter gathers none


class Record:
    """One application of an op: what its rules read, where its inputs came from, and the form of its outputs."""

    __slots__ = ("__weakref__", "dtypes", "inputs", "kept", "number", "op", "plan", "shapes", "static", "versions")
    op: type[Op]
    plan: Plan
    inputs: list[tuple[Record | Variable, int] | None]  # None where no gradient flows
    kept: list[Any] | None  # None once a backward pass has freed it; what keeps nothing is never freed
    versions: list[tuple[list[Any], int] | None]  # beside `kept`: the counter of that memory and what it read then
    static: dict[str, Any]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...]
    number: int

    @property
    def name(self) -> str:
        """The name of the op, in lower case with underscores."""
        return self.op.name

    def shape_of(self, at: int) -> tuple[int, ...]:
        """The shape of input `at`, one that needs a gradient."""
        source, index = self.inputs[at]  # type: ignore[misc]
        return source.shapes[index] if type(source) is Record else source.array.shape  # type: ignore[union-attr]

    def dtype_of(self, at: int) -> Any:
        """The dtype of input `at`, one that needs a gradient."""
        source, index = self.inputs[at]  # type: ignore[misc]
        return source.dtypes[index] if type(source) is Record else source.array.dtype  # type: ignore[union-attr]

    def __repr__(self) -> str:
        return f"<{self.op.name} number {self.number}, output {', '.join(map(str, self.shapes))}>"


class Op:
    """Base of every op. Calling the class applies it; on arrays alone it computes and records nothing.

    A subclass writes, without `self`:

    forward(x, y, *, static): arrays to an array, or to a tuple where `outputs` is True. `*xs` takes any number of
        inputs; a keyword named `recording` is filled in by the tape: whether a gradient will be asked for.
    dx(g, ...): the gradient of input x from the gradient g of the output (a list, None where nothing arrived, where
        `outputs` is True). Its other parameters name what it reads: inputs, `out`, names in `saves`, static
        arguments, `x_shape` or `x_dtype` of its own input, for `*xs` also `position`, the number of the input.
        Its docstring is the formula of the branch, with input names and `out` in braces.
    gradients(g, need, ...): instead of single rules, all of them at once, as a tuple, for kernels that share work;
        `need` says which inputs want one, and `formulas` has the formula per input.
    definition(x, y, *, static): of a fused op: the same value composed of primitive ops. It is what runs under
        `definitions()`, on arrays without a kernel, and what a recorded backward pass differentiates.

    saves: names of further values that forward returns after its result, for rules to read; it may leave them out
        where nothing is recorded. Saved values have no derivative. To make one differentiable, define a function of
        the same name that computes it with ops from inputs and static arguments; a recorded backward pass calls it.
    promotes: operands are brought to one dtype first, all but the first `unpromoted`.
    numbers: what becomes of an integer that this dtype cannot hold: "wrap", "exact" or "fit", see `promotion.promoted`.
    rounds_last: a Python number next to float16 keeps its digits and its size, and the result alone is rounded.
    views: the result may share the memory of the first input.
    widens: whether the definition is computed in float32 where inputs are float16; not where it only moves elements.
    differentiable: which outputs can carry a gradient, None for all.
    """

    outputs: ClassVar[bool] = False
    saves: ClassVar[tuple[str, ...]] = ()
    promotes: ClassVar[bool] = False
    numbers: ClassVar[str] = "wrap"
    rounds_last: ClassVar[bool] = False
    unpromoted: ClassVar[int] = 0
    views: ClassVar[bool] = False
    widens: ClassVar[bool] = True
    differentiable: ClassVar[tuple[bool, ...] | None] = None
    formulas: ClassVar[dict[str, str]] = {}
    definition: ClassVar[Callable[..., Any] | None] = None
    forward: ClassVar[Callable[..., Any]]

    name: ClassVar[str]  # this and what follows is read from the signatures by `declare`
    inputs: ClassVar[tuple[str, ...]]
    variadic: ClassVar[str | None]
    static: ClassVar[dict[str, Any]]
    asks: ClassVar[bool]  # forward wants to know whether it is being recorded
    rules: ClassVar[dict[str, Callable[..., Any]]]
    by_ops: ClassVar[dict[str, Callable[..., Any]]]  # saved values as functions of the inputs
    joint: ClassVar[Callable[..., Any] | None]
    needy: ClassVar[int]  # a bit for every input that has a gradient
    plans: ClassVar[dict[Any, Plan]]

    def __init_subclass__(cls) -> None:
        declare(cls)
        taken = registry.get(cls.name)
        if taken is not None and taken.__module__ != cls.__module__ and taken.__module__.startswith("tinygrad_edu."):
            raise ValueError(f"op {cls.name}: the name belongs to {taken.__module__}; give the class another name")
        registry[cls.name] = cls

    def __new__(cls, *inputs: Any, **static: Any) -> Any:
        kind: Any = None
        lead: Any = None
        mask, bit, arrays = 0, 1, []
        for x in inputs:
            if isinstance(x, Variable):
                if kind is None:
                    kind, lead = x.result, x.array
                arrays.append(x.array)
                if x.needs:
                    mask |= bit
            else:
                arrays.append(x)
            bit <<= 1
        if gpu.in_use:
            devices.one_device(cls.name, arrays)
        mode = entered()
        if mode.guarded:
            mode = mode.awake()
        if cls.definition is not None and (mode.defines(cls.name) or not cls.has_kernel(arrays)):
            with nullcontext() if mode.trace is None else mode.trace.opened(cls, inputs, static):
                return cls.defined(inputs, static)
        if kind is None:
            result = cls.forward(*arrays, **static)
            return result[0] if cls.saves else result
        mask = mask & cls.needy if mode.grad else 0
        half = False
        if cls.promotes:
            for x in arrays:
                if x is not lead and not (
                    x.dtype is lead.dtype
                    if type(x) is type(lead)
                    else type(x) in _NUMBERS
                    and -_MOST <= x <= _MOST
                    and lead.dtype.kind == "f"
                    and lead.dtype.itemsize > 2
                ):
                    k = cls.unpromoted
                    of_tensors = [isinstance(v, Variable) for v in inputs[k:]]
                    arrays[k:] = promotion.promoted(arrays[k:], of_tensors, cls.numbers, cls.rounds_last)
                    half = cls.rounds_last and any(a.dtype == dtypes.float16 for a in arrays)
                    break
        if mode.trace is not None:
            mode.trace.starting(cls, inputs)
        if len(static) < len(cls.static):
            static = cls.static | static
        result = cls.forward(*arrays, recording=mask != 0, **static) if cls.asks else cls.forward(*arrays, **static)
        if half:
            result = narrow(result, dtypes.float16)
        out, saved = (result[0], result[1:]) if cls.saves else (result, ())
        if cls.outputs or cls.views:
            ys = cls._showing(kind, inputs, out if cls.outputs else (out,))
        else:
            ys = [wrap(kind, out if out.shape else library.as_array(out, arrays[0]))]
        record = cls._record(mask, inputs, arrays, ys, saved, static) if mask else None
        if mode.trace is not None:
            mode.trace.applied(cls, inputs, arrays, tuple(ys), static, record)
        return tuple(ys) if cls.outputs else ys[0]

    @classmethod
    def defined(cls, inputs: Any, static: dict[str, Any]) -> Any:
        """The result of the definition; of float16 it is computed in float32, as kernels do, and rounded at the end."""
        half = [getattr(x, "dtype", None) == dtypes.float16 for x in inputs] if cls.widens else []
        if not any(half):
            return cls.definition(*inputs, **static)  # type: ignore[misc]
        cast = primitives.cast
        whole = [cast(x, dtype=dtypes.float32) if small else x for x, small in zip(inputs, half, strict=True)]
        y: Any = cls.definition(*whole, **static)  # type: ignore[misc]
        return tuple(cast(part, dtype=dtypes.float16) for part in y) if cls.outputs else cast(y, dtype=dtypes.float16)

    @classmethod
    def has_kernel(cls, arrays: list[Any]) -> bool:
        """Whether the fused op's kernels take these arrays; where not, its definition runs."""
        return library.all_numpy(arrays)

    @classmethod
    def _showing(cls, kind: Any, inputs: Any, outs: Any) -> list[Any]:
        """The outputs as Variables; one that shows an input's memory shares its version counter."""
        ys = []
        for i, out in enumerate(outs):
            out = out if out.shape else library.as_array(out)
            base, shown = out.base, None
            if cls.views and base is not None:
                for x in inputs:
                    if isinstance(x, Variable) and (base is x.array or base is x.array.base):
                        shown = x
                        break
            ys.append(wrap(kind, out, None, i, None if shown is None else shown._version))
            if shown is not None and cls.needy:
                related(shown, ys[-1])
        return ys

    @classmethod
    def _record(
        cls, mask: int, inputs: Any, arrays: list[Any], ys: list[Any], saved: Any, static: dict[str, Any]
    ) -> Record | None:
        """Write down this application, unless no output is of a kind that has gradients."""
        out: Any = tuple(y.array for y in ys) if cls.outputs else ys[0].array
        if not cls.outputs:
            carry = ys if out.dtype.kind == "f" else []
        else:
            flows = cls.differentiable or (True,) * len(ys)
            carry = [y for y, flow in zip(ys, flows) if flow and y.array.dtype.kind == "f"]
        if not carry:
            return None
        key = (mask, len(inputs)) if cls.variadic else mask
        plan = cls.plans.get(key)
        if plan is None:
            plan = cls.plans[key] = plan_for(cls, mask, len(inputs))
        r = Record()
        r.op, r.plan, r.static, r.number = cls, plan, static, number()
        r.shapes = tuple(o.shape for o in out) if cls.outputs else (out.shape,)
        r.dtypes = tuple(o.dtype for o in out) if cls.outputs else (out.dtype,)
        known = [out, *saved, *arrays]
        sources, kept, versions = [], [], []
        for x in inputs:
            sources.append((x.record or x, x.index) if mask & 1 else None)
            mask >>= 1
        for place in plan.keep:
            kept.append(known[place])
        for i in plan.inputs_kept:
            v = inputs[i] if i >= 0 else None
            versions.append((v._version, v._version[0]) if isinstance(v, Variable) else None)
        if plan.keeps_out:
            versions[0] = ys[0]._version, ys[0]._version[0]
            for y in ys[1:]:
                versions.append((y._version, y._version[0]))
        r.inputs, r.kept, r.versions = sources, kept, versions
        for y in carry:
            y.record, y.needs = r, True
        return r
