"""The tape: the record of which op made a value, and what an op is.

It knows no op and no array library. An op declares its forward on arrays and one rule per differentiable input; the
names of a rule's parameters say what it reads, so exactly that is kept, and only for inputs that need a gradient.
Rules are written once: on arrays they are an ordinary backward pass, on Variables they are recorded in turn.
"""

from __future__ import annotations

import inspect
import itertools
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

from tinygrad_edu import backend
from tinygrad_edu.modes import thread

registry: dict[str, type[Op]] = {}
_NUMBERS = {float, int, bool}
number = itertools.count(1).__next__  # the order of creation is a topological order


class Variable:
    """A value on the tape: its array, and which output of which record it is. Leaves have no record.

    The version counter belongs to the memory: views share it, and an in-place change adds one.
    """

    __slots__ = ("__weakref__", "_grad", "_version", "array", "index", "needs", "record")
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

    __slots__ = (
        "dtypes", "hooks", "inputs", "kept", "number", "op", "plan", "retained", "shapes", "static", "versions"
    )  # fmt: skip
    op: type[Op]
    plan: Plan
    inputs: list[tuple[Record | Variable, int] | None]  # None where no gradient flows
    kept: list[Any] | None  # None once a backward pass has freed it
    versions: list[tuple[list[int], int] | None]  # beside `kept`: the counter of that memory and what it read then
    static: dict[str, Any]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...]
    number: int
    retained: dict[int, Any] | None  # output -> weak reference to the tensor whose .grad is wanted
    hooks: dict[int, list[Any]] | None  # output -> functions that its gradient passes through

    @property
    def name(self) -> str:
        """The name of the op, in lower case with underscores."""
        return self.op.name

    def __repr__(self) -> str:
        return f"<{self.op.name} number {self.number}, output {', '.join(map(str, self.shapes))}>"


class Branch:
    """One gradient branch of an op, for one set of inputs that need gradients: the rule and where its arguments lie."""

    __slots__ = ("at", "formula", "plain", "reads", "rule")

    def __init__(self, at: int, rule: Callable[..., Any], reads: list[tuple[str, Any]], formula: str) -> None:
        self.at, self.rule, self.reads, self.formula = at, rule, reads, formula
        kinds = {kind for kind, _ in reads}
        self.plain = [j for _, j in reads] if kinds <= {"kept"} else None

    def __call__(self, g: Any, kept: list[Any], record: Record) -> Any:
        if self.plain is not None:
            return self.rule(g, *[kept[j] for j in self.plain])
        found = []
        for kind, what in self.reads:
            if kind == "kept":
                found.append(kept[what])
            elif kind == "static":
                found.append(record.static[what])
            elif kind == "rest":
                found.append(kept[slice(*what)])
            elif kind == "position":
                found.append(self.at)
            else:
                source, index = record.inputs[self.at]  # type: ignore[misc]
                found.append(shape_of(source, index) if kind == "shape" else dtype_of(source, index))
        return self.rule(g, *found)


class Plan:
    """For one set of inputs that need gradients: which of [out, *saves, *inputs] are kept, and which branches run."""

    __slots__ = ("branches", "inputs_kept", "keep", "keeps_out", "keeps_shapes")

    def __init__(self, keep: list[int], branches: list[Branch], first: int) -> None:
        self.keep, self.branches = keep, branches
        self.keeps_out = 0 in keep
        self.keeps_shapes = any(("kept", len(keep)) in b.reads for b in branches)
        self.inputs_kept = [i - first for i in keep]  # below 0 for results and saved values


def shape_of(source: Record | Variable, index: int) -> tuple[int, ...]:
    """The shape of output `index` of a record, or of a leaf."""
    return source.shapes[index] if type(source) is Record else source.array.shape  # type: ignore[union-attr]


def dtype_of(source: Record | Variable, index: int) -> Any:
    """The dtype of output `index` of a record, or of a leaf."""
    return source.dtypes[index] if type(source) is Record else source.array.dtype  # type: ignore[union-attr]


class Op:
    """Base of every op. Calling the class applies it; on arrays alone it computes and records nothing.

    A subclass writes, without `self`:

    forward(x, y, *, static): arrays to an array, or to a tuple where `outputs` is True. `*xs` takes any number of
        inputs; a keyword named `recording` is filled in by the tape: whether a gradient will be asked for.
    dx(g, ...): the gradient of input x from the gradient g of the output (a list, None where nothing arrived, where
        `outputs` is True). Its other parameters name what it reads: inputs, `out`, names in `saves`, static
        arguments, `x_shape` or `x_dtype` of its own input, for `*xs` also `position`, the number of the input, and
        `shapes`, of all.
        Its docstring is the formula of the branch, with input names and `out` in braces.
    gradients(g, need, ...): instead of single rules, all of them at once, as a tuple, for kernels that share work;
        `need` says which inputs want one, and `formulas` has the formula per input.
    definition(x, y, *, static): of a fused op: the same value composed of primitive ops. It is what runs under
        `definitions()`, on arrays without a kernel, and what a recorded backward pass differentiates.

    saves: names of further arrays that forward returns behind its result, for rules to read.
    promotes: operands are brought to one dtype first, all but the first `unpromoted`.
    views: the result may share the memory of the first input.
    differentiable: which outputs can carry a gradient, None for all.
    """

    name: ClassVar[str]
    inputs: ClassVar[tuple[str, ...]]
    outputs: ClassVar[bool] = False
    saves: ClassVar[tuple[str, ...]] = ()
    promotes: ClassVar[bool] = False
    unpromoted: ClassVar[int] = 0
    views: ClassVar[bool] = False
    differentiable: ClassVar[tuple[bool, ...] | None] = None
    formulas: ClassVar[dict[str, str]] = {}
    definition: ClassVar[Callable[..., Any] | None] = None
    forward: ClassVar[Callable[..., Any]]

    def __init_subclass__(cls) -> None:
        cls.name = "".join("_" + c.lower() if c.isupper() else c for c in cls.__name__).strip("_")
        signature = inspect.signature(cls.forward).parameters
        rest = [n for n, p in signature.items() if p.kind is p.VAR_POSITIONAL]
        cls._variadic = rest[0] if rest else None
        cls.inputs = tuple(n for n, p in signature.items() if p.kind is not p.KEYWORD_ONLY)
        cls._static = {n: p.default for n, p in signature.items() if p.kind is p.KEYWORD_ONLY and n != "recording"}
        cls._asks = "recording" in signature
        cls._plans = {}
        cls._rules = {n: cls.__dict__["d" + n] for n in cls.inputs if "d" + n in cls.__dict__}
        cls.joint = cls.__dict__.get("gradients")
        cls._needy = sum(1 << i for i, n in enumerate(cls.inputs) if n in cls._rules or n in cls.formulas)
        if cls._variadic and cls._needy:
            cls._needy = -1
        for rule in [cls.joint] if cls.joint else cls._rules.values():
            cls._check_reads(rule)
        for key in ("forward", "definition", "gradients"):
            if key in cls.__dict__:
                setattr(cls, key, staticmethod(cls.__dict__[key]))
        taken = registry.get(cls.name)
        if taken is not None and taken.__module__ != cls.__module__ and taken.__module__.startswith("tinygrad_edu."):
            raise ValueError(f"op {cls.name}: the name belongs to {taken.__module__}; give the class another name")
        registry[cls.name] = cls

    _variadic: ClassVar[str | None]
    _static: ClassVar[dict[str, Any]]
    _asks: ClassVar[bool]
    _plans: ClassVar[dict[Any, Plan]]
    _rules: ClassVar[dict[str, Callable[..., Any]]]
    joint: ClassVar[Callable[..., Any] | None]
    _needy: ClassVar[int]

    @classmethod
    def _check_reads(cls, rule: Callable[..., Any]) -> None:
        known = {"g", "need", "out", "position", "shapes", *cls.inputs, *cls.saves, *cls._static}
        known |= {f"{n}_{what}" for n in cls.inputs for what in ("shape", "dtype")}
        if unknown := [n for n in inspect.signature(rule).parameters if n not in known]:
            raise TypeError(f"op {cls.name}: a rule reads {unknown}, no input, static argument or saved value")

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
        mode = thread.mode
        if cls.definition is not None and (mode.defines(cls.name) or not cls.has_kernel(arrays)):
            if mode.trace is None:
                return cls.definition(*inputs, **static)
            with mode.trace.opened(cls, inputs, static):
                return cls.definition(*inputs, **static)
        if kind is None:
            result = cls.forward(*arrays, **static)
            return result[0] if cls.saves else result
        mask = mask & cls._needy if mode.grad else 0
        if cls.promotes:
            for x in arrays:
                if x is not lead and not (
                    x.dtype is lead.dtype if type(x) is type(lead) else type(x) in _NUMBERS and lead.dtype.kind == "f"
                ):
                    k = cls.unpromoted
                    arrays[k:] = backend.promoted(arrays[k:], [isinstance(v, Variable) for v in inputs[k:]])
                    break
        if mode.trace is not None:
            mode.trace.starting(cls, inputs)
        if len(static) < len(cls._static):
            static = cls._static | static
        result = cls.forward(*arrays, recording=mask != 0, **static) if cls._asks else cls.forward(*arrays, **static)
        out, saved = (result[0], result[1:]) if cls.saves else (result, ())
        if cls.outputs:
            return cls._several(kind, mask, inputs, arrays, out, saved, static, mode)
        if not out.shape:
            out = backend.as_array(out, arrays[0])
        record = None
        if mask and out.dtype.kind == "f":
            record = cls._record(mask, inputs, arrays, out, saved, static)
            record.shapes, record.dtypes = (out.shape,), (out.dtype,)
        source = cls._shown(inputs, out) if cls.views else None
        y = wrap(kind, out, record, 0, None if source is None else source._version)
        if source is not None and cls._needy:
            related(source, y)
        if record is not None and record.plan.keeps_out:
            record.versions[0] = y._version, y._version[0]
        if mode.trace is not None:
            mode.trace.applied(cls, inputs, arrays, (y,), static, record)
        return y

    @classmethod
    def _several(
        cls, kind: Any, mask: int, inputs: Any, arrays: list[Any], out: Any, saved: Any, static: Any, mode: Any
    ) -> Any:
        out = tuple(backend.as_array(o) for o in out)
        flows = cls.differentiable or (True,) * len(out)
        record = None
        if mask and any(f and o.dtype.kind == "f" for f, o in zip(flows, out, strict=True)):
            record = cls._record(mask, inputs, arrays, out, saved, static)
            record.shapes, record.dtypes = tuple(o.shape for o in out), tuple(o.dtype for o in out)
        made: list[Variable] = []
        for i, (o, flow) in enumerate(zip(out, flows, strict=True)):
            source = cls._shown(inputs, o)
            version = None if source is None else source._version
            made.append(wrap(kind, o, record if flow and o.dtype.kind == "f" else None, i, version))
            if source is not None:
                related(source, made[-1])
        ys = tuple(made)
        if record is not None and record.plan.keeps_out:
            record.versions += [(y._version, y._version[0]) for y in ys]
        if mode.trace is not None:
            mode.trace.applied(cls, inputs, arrays, ys, static, record)
        return ys

    @classmethod
    def _shown(cls, inputs: Any, out: Any) -> Variable | None:
        """The input whose memory `out` shows, if any."""
        base = out.base
        if cls.views and base is not None:
            for x in inputs:
                if isinstance(x, Variable) and (base is x.array or base is x.array.base):
                    return x
        return None

    @classmethod
    def has_kernel(cls, arrays: list[Any]) -> bool:
        """Whether the fused op's kernels take these arrays; where not, its definition runs."""
        return backend.all_numpy(arrays)

    @classmethod
    def _record(cls, mask: int, inputs: Any, arrays: Any, out: Any, saved: Any, static: Any) -> Record:
        key = (mask, len(inputs)) if cls._variadic else mask
        plan = cls._plans.get(key) or cls._plan(key, mask, len(inputs))
        known = [out, *saved, *arrays]
        r = Record()
        r.op, r.plan, r.static, r.number, r.retained, r.hooks = cls, plan, static, number(), None, None
        sources, kept, versions = [], [], []  # filled by plain loops: a comprehension costs a call each, on every op
        for x in inputs:
            sources.append((x.record or x, x.index) if mask & 1 else None)
            mask >>= 1
        for i in plan.keep:
            kept.append(known[i])
        if plan.keeps_shapes:
            kept.append(tuple(x.shape for x in arrays))
        for i in plan.inputs_kept:
            x = inputs[i] if i >= 0 else None
            versions.append((x._version, x._version[0]) if isinstance(x, Variable) else None)
        r.inputs, r.kept, r.versions = sources, kept, versions
        return r

    @classmethod
    def _plan(cls, key: Any, mask: int, count: int) -> Plan:
        first = 1 + len(cls.saves)
        places = {"out": 0, **{n: 1 + i for i, n in enumerate(cls.saves)}}
        places |= {n: first + i for i, n in enumerate(cls.inputs) if n != cls._variadic}
        wanted = [i for i in range(count) if mask >> i & 1]
        if cls.joint:
            rules = [(wanted[0], cls.joint)]
        else:
            rules = [(i, cls._rules[cls._variadic or cls.inputs[i]]) for i in wanted]
        keep = set(range(first, first + count)) if cls.definition else set()
        for _, rule in rules:
            names = inspect.signature(rule).parameters
            keep |= {places[n] for n in names if n in places}
            if cls._variadic in names:
                keep |= set(range(first, first + count))
        order = sorted(keep)
        branches = []
        for i, rule in rules:
            reads: list[tuple[str, Any]] = []
            for n in list(inspect.signature(rule).parameters)[1:]:
                if n in places:
                    reads.append(("kept", order.index(places[n])))
                elif n == cls._variadic:
                    reads.append(("rest", (order.index(first), len(order))))
                elif n in cls._static:
                    reads.append(("static", n))
                elif n == "shapes":
                    reads.append(("kept", len(order)))
                elif n == "position":
                    reads.append(("position", None))
                elif n == "need":
                    reads.append(("need", None))
                else:
                    reads.append((n.rpartition("_")[2], None))
            if cls.joint:
                rule = _with_need(rule, tuple(bool(mask >> j & 1) for j in range(count)))
                reads = [r for r in reads if r[0] != "need"]
            branches.append(Branch(i, rule, reads, inspect.getdoc(rule) or ""))
        plan = cls._plans[key] = Plan(order, branches, first)
        return plan


def _with_need(rule: Callable[..., Any], need: tuple[bool, ...]) -> Callable[..., Any]:
    return lambda g, *reads: rule(g, need, *reads)
