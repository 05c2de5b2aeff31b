"""PyTorch's own table of ops with their sample inputs, `op_db`, run here as there: what differs, in one line each.

Compared are values, shapes and dtypes, first and second derivatives, methods, operators and in-place forms, which
memory a result shows and whether it can be written to, and that what PyTorch refuses is refused. A call that the engine
does not take (another signature, a dtype it does not have) is counted as not supported, and is no difference.

`python -m tests.parity.op_table [NAME...]` prints all of it, for the ops of these names or for every op.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
import traceback
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.testing._internal import common_methods_invocations as table

import tinygrad_edu as tg
from tinygrad_edu.nn import functional

DTYPES = (
    torch.float64,
    torch.float32,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
)
CLOSE = {torch.float64: (1e-9, 1e-9), torch.float32: (1e-4, 2e-5), torch.float16: (5e-3, 5e-3)}  # absolute, relative

# Of what is drawn, or left as it is in memory, only shape and dtype are compared, and derivatives are not.
UNDETERMINED = {
    *("bernoulli", "multinomial", "normal", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like"),
    *("empty", "empty_like", "new_empty", "nn.functional.dropout"),
}

# PyTorch leaves open which of equal elements comes first; here it is the one that stood first. So where some are equal,
# of these neither the indices nor the derivatives are compared.
ORDERS = {"argsort", "kthvalue", "msort", "sort", "topk"}


# Errors that say that the engine does not take such a call. TypeErrors of a signature, missing names and
# NotImplementedError are known for such by themselves.
NOT_HERE = re.compile(
    r"convert it with \.float\(\)"  # layers and losses of integers
    r"|is not here"
    r"|singular values"
    r"|holds no numbers"  # complex
)

# What differs on purpose: a pattern of "the call: how it differs", and the reason.
DIFFERENCES: dict[str, str] = {
    r"raises \(\), the engine": "functions of two operands also take a number and a tensor in that order",
    r"(addmv|baddbmm)\(u?int.*alpha and beta of tensors": "PyTorch cuts fractions off; its addmm refuses",
    r"mean\(int64.*could not infer": "the mean of integers is a float32",
    r"norm\(.*, (ord=)?0.*the engine has one": "the gradient of a count is 0, where PyTorch's is None",
    r"linalg\.norm\(.*derivative 2.*nan\) in PyTorch": "at 0 the norm's second derivative is not NaN",
    r"(norm|normalize)\(float16.*derivative": "powers that leave float16, in which PyTorch's derivative is ∞ or 0",
    r"logcumsumexp\(float(16|32).*derivative": "PyTorch's has an error of 1e-3 in float32, and of 1 in float16",
    r"scaled_dot_product.*is_causal=True": "the ends of queries and keys are aligned, PyTorch aligns the starts",
    r"scaled_dot_product.*dropout_p=0.5": "the dropped weights are drawn",
    r"softplus\(.*threshold": "there is no threshold from where on x itself is taken",
    r"scaled_dot_product.*leading axes": "query, key and value have equal leading axes; expand them first",
    r"nll_loss\(float16.*values differ": "PyTorch adds in float16",
    r"addcdiv\(float16.*derivative": "PyTorch rounds to float16 after every step of its derivative",
    r"hardsigmoid\(float64.*derivative": "PyTorch rounds 1/6 to float32 in its derivative",
}


class NotSupported(Exception):
    """The engine does not take this call."""


@dataclass
class Report:
    """What the calls of one op came to."""

    calls: int = 0
    differences: list[str] = field(default_factory=list)
    unsupported: Counter[str] = field(default_factory=Counter)
    meant: Counter[str] = field(default_factory=Counter)  # differences by the reason in DIFFERENCES

    def add(self, said: str) -> None:
        reason = next((why for pattern, why in DIFFERENCES.items() if re.search(pattern, said)), None)
        if reason is None:
            self.differences.append(said)
        else:
            self.meant[reason] += 1


def resolve(name: str) -> Callable[..., Any] | None:
    """What the engine has under a dotted name of PyTorch's: a function, else a method; None where there is nothing."""
    *path, last = name.split(".")
    owner: Any = {(): tg, ("nn", "functional"): functional, ("linalg",): tg.linalg}.get(tuple(path))
    with contextlib.suppress(AttributeError):
        return getattr(owner, last) if owner is not None else None
    return getattr(tg.Tensor, last, None) if not path else None


def names_of(op: Any) -> list[str]:
    """The names of an entry that exist here: its own, and its aliases."""
    return [n for n in [op.name, *(alias.name for alias in op.aliases)] if resolve(n) is not None]


def entries() -> dict[str, Any]:
    """The entries of the table for what exists here, by name and variant."""
    found: dict[str, Any] = {}
    for op in table.op_db:
        if names_of(op):
            found.setdefault(".".join(filter(None, (op.name, op.variant_test_name))), op)
    return found


def ours(op: Any, name: str) -> Callable[..., Any]:
    """What runs here where the table runs `op.op`: of the same name, or the table's own few lines with our names."""
    given = op.op
    if isinstance(given, types.FunctionType) and given.__module__ == table.__name__ and name == op.name:
        space = {**given.__globals__, "torch": tg}
        lines = types.FunctionType(given.__code__, space, None, given.__defaults__, given.__closure__)
        lines.__kwdefaults__ = given.__kwdefaults__
        return lines
    found = resolve(name)
    assert found is not None
    return found


# ---- the same arguments in both libraries


def copied(t: torch.Tensor) -> torch.Tensor:
    """The tensor in memory of its own, of the same layout, as a leaf."""
    memory = t.detach().as_strided((t.untyped_storage().nbytes() // max(t.itemsize, 1),), (1,), 0).clone()
    return memory.as_strided(t.shape, t.stride(), t.storage_offset()).detach().requires_grad_(t.requires_grad)


def tensor_of(t: torch.Tensor) -> tg.Tensor:
    """The tensor here, in memory of its own, of the same layout."""
    if t.dtype not in DTYPES or t.layout != torch.strided:
        raise NotSupported(f"{t.dtype}, {t.layout}")
    memory = t.detach().as_strided((t.untyped_storage().nbytes() // max(t.itemsize, 1),), (1,), 0).numpy().copy()
    strides = tuple(s * t.itemsize for s in t.stride())
    array = np.ndarray(tuple(t.shape), memory.dtype, memory, t.storage_offset() * t.itemsize, strides)
    x = tg.from_numpy(array)
    return x.requires_grad_(t.requires_grad)


def mapped(value: Any, tensor: Callable[[torch.Tensor], Any], other: Callable[[Any], Any], seen: dict[int, Any]) -> Any:
    """An argument, or several, with every tensor in it replaced, the same by the same."""
    if isinstance(value, torch.Tensor):
        if id(value) not in seen:
            seen[id(value)] = tensor(value)
        return seen[id(value)]
    if isinstance(value, torch.Size):
        return other(value)
    if isinstance(value, tuple | list):
        parts = [mapped(v, tensor, other, seen) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {k: mapped(v, tensor, other, seen) for k, v in value.items()}
    if isinstance(value, slice):
        return slice(*(mapped(v, tensor, other, seen) for v in (value.start, value.stop, value.step)))
    return other(value)


def plain(value: Any) -> Any:
    """An argument that is no tensor, as it is written here."""
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, torch.dtype):
        if value not in DTYPES:
            raise NotSupported(str(value))
        return getattr(tg, str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, complex):
        raise NotSupported("complex numbers")
    if type(value).__module__.partition(".")[0] == "torch":
        raise NotSupported(str(value))
    return value


@dataclass
class Call:
    """The arguments of one call, in memory of its own: every tensor in it, in order, and what is handed over."""

    tensors: list[Any]
    args: list[Any]
    kwargs: dict[str, Any]


def call_of(sample: Any, here: bool) -> Call:
    seen: dict[int, Any] = {}
    given = [sample.input, *sample.args]
    args = mapped(given, tensor_of if here else copied, plain if here else lambda v: v, seen)
    kwargs = mapped(sample.kwargs, tensor_of if here else copied, plain if here else lambda v: v, seen)
    return Call(list(seen.values()), args, kwargs)


# ---- results


def tensors_in(result: Any) -> list[Any]:
    """What a call gave, one by one."""
    if isinstance(result, tuple | list) and not isinstance(result, torch.Size):
        return [x for part in result for x in tensors_in(part)]
    return [result]


def is_tensor(x: Any) -> bool:
    return isinstance(x, torch.Tensor | tg.Tensor)


def array_of(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x.numpy(force=True)
    return x.array if isinstance(x, tg.Tensor) else np.asarray(x)


def off(expected: Any, found: Any, dtype: torch.dtype) -> str:
    """How two arrays differ in shape, dtype or value; empty where they do not."""
    e, f = array_of(expected), array_of(found)
    if e.shape != f.shape or e.dtype != f.dtype:
        return f"PyTorch has {e.dtype} {list(e.shape)}, the engine {f.dtype} {list(f.shape)}"
    if e.dtype.kind != "f":
        same = e == f
    else:
        kinds = {"float16": torch.float16, "float32": torch.float32, "float64": torch.float64}
        absolute, relative = CLOSE[kinds[e.dtype.name]]
        if dtype.is_floating_point and dtype.itemsize < e.dtype.itemsize:
            absolute, relative = CLOSE[dtype]
        with np.errstate(all="ignore"):
            wide_e, wide_f = e.astype(np.float64), f.astype(np.float64)
            largest = np.abs(wide_e[np.isfinite(e)]).max(initial=0)
            same = np.abs(wide_e - wide_f) <= absolute + relative * largest
        same = np.where(np.isfinite(e), same, (e == f) | (np.isnan(e) & np.isnan(f)))
    if same.all():
        return ""
    at = tuple(map(int, np.argwhere(~same)[0])) if e.ndim else ()
    return f"{int((~same).sum())} of {e.size} values differ, at {at}: {e[at]!r} in PyTorch, {f[at]!r} in the engine"


def distinct(call: Call) -> bool:
    """Whether the elements of the first tensor differ from each other."""
    x = call.tensors[0].detach()
    return len(x.unique()) == x.numel()


def compared(op: Any, given: Call, expected: Any, found: Any, dtype: torch.dtype) -> str:
    theirs, engine = tensors_in(expected), tensors_in(found)
    if len(theirs) != len(engine):
        return f"PyTorch gives {len(theirs)} results, the engine {len(engine)}"
    open_order = op.name in ORDERS and not distinct(given)
    for i, (e, f) in enumerate(zip(theirs, engine)):
        which = f"result {i}: " if len(theirs) > 1 else ""
        if is_tensor(e) != is_tensor(f):
            return f"{which}PyTorch gives a {type(e).__name__}, the engine a {type(f).__name__}"
        if not is_tensor(e):
            if isinstance(e, torch.dtype | torch.Size | None):
                continue
            if type(e) is not type(f) or off(e, f, torch.float64):
                return f"{which}PyTorch gives {e!r}, the engine {f!r}"
            continue
        unsaid = op.name in UNDETERMINED or (open_order and not e.is_floating_point())
        if unsaid and e.shape == f.shape and array_of(e).dtype == f.dtype:
            e, f = torch.zeros_like(e), tg.zeros_like(f)
        if said := off(e, f, dtype):
            return which + said
        if e.requires_grad != f.requires_grad:
            return f"{which}requires_grad is {e.requires_grad} in PyTorch, {f.requires_grad} in the engine"
    return ""


def memory(theirs: Call, expected: Any, engine: Call, found: Any) -> str:
    """Whose memory each result shows, and whether it can be written to, where that differs."""
    for i, (e, f) in enumerate(zip(tensors_in(expected), tensors_in(found))):
        if not is_tensor(e) or not e.numel():
            continue
        for j, (x, y) in enumerate(zip(theirs.tensors, engine.tensors)):
            shows = e.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
            if shows != np.may_share_memory(f.array, y.array):
                return f"result {i} {'shows' if shows else 'does not show'} the memory of input {j} in PyTorch"
        if not torch._debug_has_internal_overlap(e) and not f.array.flags.writeable:
            return f"result {i} cannot be written to"
    return ""


# ---- derivatives


def weighted(results: list[Any]) -> Any:
    """Σ result ⊙ weights over what carries a gradient, in the library of the results."""
    total = None
    for y in results:
        weights = np.random.default_rng(0).uniform(0.5, 1.5, tuple(y.shape)).astype(array_of(y).dtype)
        w = torch.from_numpy(weights) if isinstance(y, torch.Tensor) else tg.from_numpy(np.asarray(weights))
        part = (y * w).sum()
        total = part if total is None else total + part
    return total


def derivatives(call: Call, result: Any, orders: int) -> Iterator[list[Any]]:
    """The gradients of order one, and two, of the inputs that want one; None where none arrived."""
    leaves = [t for t in call.tensors if t.requires_grad]
    carry = [y for y in tensors_in(result) if is_tensor(y) and y.requires_grad]
    grad = torch.autograd.grad if leaves and isinstance(leaves[0], torch.Tensor) else tg.grad
    for order in range(1, orders + 1):
        if not leaves or not carry:
            return
        found = list(grad(weighted(carry), leaves, create_graph=order < orders, allow_unused=True))
        yield found
        carry = [g for g in found if g is not None and g.requires_grad]


def slopes(theirs: Call, expected: Any, engine: Call, found: Any, dtype: torch.dtype, orders: int) -> str:
    order = 0
    there, here = derivatives(theirs, expected, orders), derivatives(engine, found, orders)
    while True:
        order += 1
        try:
            e = next(there)
        except StopIteration:
            return ""
        except (RuntimeError, NotImplementedError):  # PyTorch has none
            return ""
        try:
            f = next(here)
        except StopIteration:
            if order == 2 and all(g is None or not g.abs().max().item() for g in e if g is None or g.numel()):
                return ""
            return f"derivative {order}: the engine has none"
        for j, (a, b) in enumerate(zip(e, f)):
            if a is None or b is None:
                given = b if a is None else a
                if given is not None and not (order == 2 and not np.any(array_of(given))):
                    has, has_not = ("the engine", "PyTorch") if a is None else ("PyTorch", "the engine")
                    return f"derivative {order} of input {j}: {has} has one, {has_not} does not"
                continue
            if said := off(a, b, dtype):
                return f"derivative {order} of input {j}: {said}"


# ---- one op


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def refused(function: Callable[..., Any], call: Call, error: Exception) -> bool:
    """Whether an error says that the engine does not take such a call, and not that it failed in it."""
    if isinstance(error, NotImplementedError | NotSupported) or NOT_HERE.search(str(error)):
        return True
    if isinstance(error, TypeError):
        try:
            inspect.signature(function).bind(*call.args, **call.kwargs)
        except TypeError:
            return True
        except ValueError:
            pass
        return "unexpected keyword" in str(error) or "positional argument" in str(error)
    return isinstance(error, AttributeError)


def forms(op: Any) -> Iterator[tuple[str, Callable[..., Any], Callable[..., Any], bool]]:
    """(what it is, PyTorch's, the engine's, whether it changes its input) for every way to call an op."""
    if resolve(op.name) is not None:
        yield op.name, op.op, ours(op, op.name), False
    for alias in op.aliases:
        if (found := resolve(alias.name)) is not None:
            yield alias.name, alias.op, found, False
    for given in [op, *op.aliases]:
        method = given.method_variant
        if method is not None and inspect.isfunction(found := getattr(tg.Tensor, given.name, None)):
            yield f"Tensor.{given.name}", method, found, False
        twin = given.inplace_variant
        name = getattr(twin, "__name__", "")
        if name and (found := getattr(tg.Tensor, name, None)) is not None:
            yield f"Tensor.{name}", twin, found, True
    if op.operator_variant is not None:
        yield f"operator.{op.operator_variant.__name__}", op.operator_variant, op.operator_variant, False
    if op.inplace_operator_variant is not None:
        twin = op.inplace_operator_variant
        yield f"operator.{twin.__name__}", twin, twin, True


def run(function: Callable[..., Any], call: Call, changes: bool) -> Any:
    """The result; what is changed in place is a copy of the first argument, so that it may need a gradient."""
    args = list(call.args)
    if changes:
        args[0] = args[0].clone()
    return function(*args, **call.kwargs)


def difference(op: Any, form: Any, sample: Any, dtype: torch.dtype, orders: int) -> str:
    """How one call differs, empty where it does not. Raises NotSupported where the engine does not take it."""
    _, theirs, engine, changes = form
    there, here = call_of(sample, False), call_of(sample, True)
    try:
        expected = run(theirs, there, changes)
    except Exception as error:
        try:
            found = run(engine, here, changes)
        except Exception:
            return ""
        if isinstance(error, NotImplementedError):
            return ""  # PyTorch has no kernel for it, which says nothing of what is right
        return f"PyTorch raises {type(error).__name__} ({str(error).splitlines()[0][:100]}), the engine gives a result"
    try:
        found = run(engine, here, changes)
    except Exception as error:
        if refused(engine, here, error):
            raise NotSupported(f"{type(error).__name__}: {error}") from None
        at = traceback.extract_tb(error.__traceback__)[-1]
        return f"raises {type(error).__name__}: {str(error)[:160]} ({at.filename.rpartition('/')[2]}:{at.lineno})"
    if found is NotImplemented:
        raise NotSupported("NotImplemented")
    if said := compared(op, there, expected, found, dtype):
        return said
    if not changes and (said := memory(there, expected, here, found)):
        return said
    if op.name in UNDETERMINED or (op.name in ORDERS and not distinct(there)):
        return ""
    try:
        return slopes(there, expected, here, found, dtype, orders)
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        return (
            f"backward raises {type(error).__name__}: {str(error)[:160]} ({at.filename.rpartition('/')[2]}:{at.lineno})"
        )


def shown(value: Any) -> str:
    """An argument, in few words."""
    if isinstance(value, torch.Tensor):
        short = str(value.tolist()) if value.numel() <= 4 else ""
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}{short}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(shown, value))})"
    return repr(value)


def said_of(sample: Any) -> str:
    named = [f"{k}={shown(v)}" for k, v in sample.kwargs.items()]
    return ", ".join([*map(shown, (sample.input, *sample.args)), *named])[:300]


def report(op: Any, dtypes: tuple[torch.dtype, ...] = DTYPES) -> Report:
    """Every sample of an op in every form of it."""
    found = Report()
    with quietly():
        for dtype in dtypes:
            if not op.supports_dtype(dtype, "cpu"):
                continue
            flows = dtype.is_floating_point and op.supports_autograd
            torch.default_generator.manual_seed(0)
            samples = list(op.sample_inputs_func(op, "cpu", dtype, flows))
            for form in forms(op):
                for sample in samples:
                    orders = 0 if not flows else 2 if dtype is torch.float64 and not form[3] else 1
                    try:
                        if said := difference(op, form, sample, dtype, orders):
                            found.add(f"{form[0]}({said_of(sample)}): {said}")
                        found.calls += 1
                    except NotSupported as error:
                        found.unsupported[f"{form[0]}: {error}"] += 1
        for said in errors(op, found):
            found.add(said)
    return found


def errors(op: Any, found: Report) -> Iterator[str]:
    """What PyTorch refuses and the engine does not."""
    if op.error_inputs_func is None:
        return
    torch.default_generator.manual_seed(0)
    for each in op.error_inputs_func(op, "cpu"):
        sample = each.sample_input
        if not any(map(is_tensor, tensors_in(list(call_of(sample, False).args)))):
            continue  # functions here take numbers for tensors
        with contextlib.suppress(Exception):
            call = call_of(sample, False)
            op.op(*call.args, **call.kwargs)
            continue
        try:
            here = call_of(sample, True)
            ours(op, names_of(op)[0])(*here.args, **here.kwargs)
        except Exception:
            found.calls += 1
            continue
        yield f"{op.name}({said_of(sample)}): PyTorch raises ({each.error_regex[:90]}), the engine gives a result"


def main() -> None:
    torch.set_num_threads(1)
    asked = sys.argv[1:]
    calls, wrong, unsupported = 0, 0, 0
    for name, op in entries().items():
        if asked and name not in asked and op.name not in asked:
            continue
        found = report(op)
        calls, wrong = calls + found.calls, wrong + len(found.differences)
        unsupported += found.unsupported.total()
        print(
            f"{name}: {found.calls} calls, {len(found.differences)} differ, {found.unsupported.total()} not supported"
        )
        for said in found.differences:
            print(f"    {said}")
        for said, times in found.unsupported.items():
            print(f"    not supported, {times} times: {said}".replace("\n", " ")[:300])
        sys.stdout.flush()
    print(f"{calls} calls, {wrong} differ, {unsupported} not supported")


if __name__ == "__main__":
    main()
