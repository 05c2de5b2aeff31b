"""A sample of PyTorch's table of modules run in both libraries: what differs, in words.

A sample names arguments of a class and of its call. `difference` makes the module in both libraries with the same
parameters, calls it on the same inputs and compares: the state, every output, what shares whose memory, what changed
in place, gradients of all inputs and parameters (which of them are None, too), second derivatives.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import PackedSequence
from torch.testing import make_tensor
from torch.testing._internal import common_modules as table

import tinygrad_edu as tg
from tinygrad_edu.nn.utils import rnn

REFUSALS = (ValueError, TypeError, IndexError, RuntimeError, NotImplementedError)
LIMITS = {"float64": 1e-9, "float32": 2e-5, "float16": 4e-3}  # of the largest number of the array compared


class Unsupported(Exception):
    """The library refuses arguments that PyTorch takes, and says so."""


def infos() -> list[Any]:
    """The rows of the table whose class exists here, and rows of ours for classes that have none."""
    rows = [info for info in table.module_db if info.module_cls.__name__ in tg.nn.__all__]
    return rows + [
        table.ModuleInfo(getattr(torch.nn, name), module_inputs_func=_more) for name in MORE if hasattr(torch.nn, name)
    ]


# Calls of classes that PyTorch's table leaves out: arguments, and the shapes of the inputs.
MORE: dict[str, list[tuple[tuple[Any, ...], dict[str, Any], tuple[Any, ...]]]] = {
    "Identity": [((), {}, ((2, 3),)), ((1, 2), {"three": 3}, ((),))],
    "Dropout": [((0.0,), {}, ((2, 3),)), ((1.0,), {}, ((2, 3),)), ((0.0, True), {}, ((2, 3),))],
    "Flatten": [((), {}, ((2, 3, 4),)), ((0,), {}, ((2, 3),)), ((1, 2), {}, ((2, 3, 4, 2),)), ((0,), {}, ((),))],
    "Unflatten": [((1, (2, 3)), {}, ((2, 6),)), ((-1, (2, -1)), {}, ((2, 6),))],
    "Hardsigmoid": [((), {}, ((2, 3),)), ((), {}, ((),))],
    "ReLU": [((), {"inplace": True}, ((2, 3),))],
    "ReLU6": [((), {"inplace": True}, ((2, 3),))],
    "LeakyReLU": [((0.3,), {"inplace": True}, ((2, 3),))],
    "ELU": [((), {"inplace": True}, ((2, 3),))],
    "CELU": [((2.0,), {"inplace": True}, ((2, 3),))],
    "SELU": [((), {"inplace": True}, ((2, 3),))],
    "SiLU": [((), {"inplace": True}, ((2, 3),))],
    "Mish": [((), {"inplace": True}, ((2, 3),))],
    "Hardswish": [((), {"inplace": True}, ((2, 3),))],
    "Hardtanh": [((-0.5, 0.7), {"inplace": True}, ((2, 3),))],
    "BatchNorm1d": [((3,), {"momentum": None}, ((4, 3),)), ((3,), {"momentum": 0.0}, ((4, 3),))],
    "Softmax": [((0,), {}, ((),)), ((-1,), {}, ((2, 0),))],
    "LogSoftmax": [((0,), {}, ((),))],
    "MaxPool1d": [((2,), {}, ((1, 2, 6),)), ((3, 2, 1), {}, ((2, 7),))],
    "AdaptiveAvgPool1d": [((3,), {}, ((2, 7),)), ((9,), {}, ((1, 2, 4),))],
    "AdaptiveAvgPool2d": [(((None, 2),), {}, ((2, 5, 7),))],
}


def _more(info: Any, device: Any, dtype: Any, requires_grad: bool, training: bool, **_: Any) -> list[Any]:
    name = info.module_cls.__name__
    return [
        table.ModuleInput(
            table.FunctionInput(*args, **options),
            table.FunctionInput(
                *(make_tensor(s, device=device, dtype=dtype, requires_grad=requires_grad) for s in shapes)
            ),
        )
        for args, options, shapes in MORE[name]
    ]


def samples(info: Any, dtype: Any, training: bool) -> list[Any]:
    """The samples of a row, always the same ones."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training))


def error_samples(info: Any, dtype: Any, training: bool) -> list[Any]:
    """What PyTorch refuses of a row."""
    function = info.module_error_inputs_func
    if function is None:
        return []
    return list(function(info, device="cpu", dtype=dtype, requires_grad=False, training=training))


def ours(value: Any, made: dict[int, Any]) -> Any:
    """An argument of PyTorch's in the forms of this library; `made` has what was converted, by identity."""
    if isinstance(value, torch.Tensor):
        if id(value) not in made:
            copy = tg.tensor(value.detach().numpy().copy())
            made[id(value)] = copy.requires_grad_(value.requires_grad)
        return made[id(value)]
    if isinstance(value, PackedSequence):
        return rnn.PackedSequence(*(ours(part, made) for part in value))
    if isinstance(value, torch.dtype):
        return getattr(tg, str(value).removeprefix("torch."))
    if isinstance(value, torch.nn.Module):
        return _module(value)
    if callable(value) and hasattr(tg.nn.functional, getattr(value, "__name__", "")):
        return getattr(tg.nn.functional, value.__name__)
    if isinstance(value, tuple | list):
        return type(value)(ours(part, made) for part in value)
    return {k: ours(v, made) for k, v in value.items()} if isinstance(value, dict) else value


def _module(theirs: Any) -> Any:
    """An encoder layer, the one module that the table hands to another."""
    first, attention = theirs.linear1, theirs.self_attn
    return tg.nn.TransformerEncoderLayer(
        attention.embed_dim, attention.num_heads, first.out_features, theirs.dropout.p,
        getattr(tg.nn.functional, theirs.activation.__name__), batch_first=attention.batch_first,
        norm_first=theirs.norm_first, bias=first.bias is not None,
    )  # fmt: skip


def tensors(value: Any) -> Iterator[Any]:
    """The tensors in arguments or results, in order."""
    if isinstance(value, torch.Tensor | tg.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))
    elif isinstance(value, tuple | list):
        for part in value:
            yield from tensors(part)


def form(value: Any) -> Any:
    """How results are nested."""
    if isinstance(value, torch.Tensor | tg.Tensor):
        return "tensor"
    return tuple(map(form, value)) if isinstance(value, tuple | list) else type(value).__name__


def difference(info: Any, sample: Any, dtype: Any, training: bool) -> str | None:
    """What differs, None for nothing. Raises Unsupported where only this library refuses."""
    name = info.module_cls.__name__
    start, call = sample.constructor_input, sample.forward_input
    made: dict[int, Any] = {}
    theirs = info.module_cls(*start.args, **start.kwargs).to(dtype).train(training)
    try:
        mine = getattr(tg.nn, name)(*ours(start.args, made), **ours(start.kwargs, made))
    except REFUSALS as error:
        raise Unsupported(f"{type(error).__name__}: {error}") from None
    mine = mine.to(ours(dtype, made)).train(training)
    if found := _states_differ(theirs, mine):
        return found
    _shake(theirs, mine)
    order = 2 if info.supports_gradgrad and dtype == torch.float64 else 1
    exact = None
    if dtype == torch.float16:  # where PyTorch itself rounds, its float64 says who is nearer
        module = copy.deepcopy(theirs).double()
        exact = _Run(module, _doubled(call.args), _doubled(call.kwargs), order)
    args, options = ours(call.args, made), ours(call.kwargs, made)
    a, b = _Run(theirs, call.args, call.kwargs, order), _Run(mine, args, options, order)
    if a.error is not None:
        if "not implemented for" in str(a.error) or b.error is not None:
            return None
        return f"PyTorch refuses ({a.error}), here a result comes out"
    if b.error is not None:
        raise Unsupported(f"{type(b.error).__name__}: {b.error}")
    if form(a.result) != form(b.result):
        return f"form {form(b.result)}, expected {form(a.result)}"
    if a.shared != b.shared:
        return f"(output, input or parameter) that share memory are {b.shared}, expected {a.shared}"
    limit = LIMITS[str(dtype).removeprefix("torch.")]
    for what, values in a.values.items():
        if len(values) != len(b.values[what]):
            return f"{len(b.values[what])} arrays of {what}, expected {len(values)}"
        best = [None] * len(values) if exact is None else exact.values[what]
        for i, (y, z, true) in enumerate(zip(values, b.values[what], best)):
            if found := _differ(y, z, limit if what == "outputs" else 10 * limit, true):
                return f"{what}, number {i}: {found}"
    return None


class _Run:
    """One call of a module of either library, with all that is compared as lists of tensors."""

    def __init__(self, module: Any, args: Any, options: Any, order: int) -> None:
        package = torch if isinstance(module, torch.nn.Module) else tg
        leaves = [x for x in tensors((args, options)) if x.requires_grad] + list(module.parameters())
        if getattr(module, "inplace", False):
            args = tuple(x * 1 if x.requires_grad else x for x in args)
        self.error: Any = None
        self.shared: list[tuple[int, int]] = []
        try:
            self.result = module(*args, **options)
        except REFUSALS as error:
            self.error = error
            return
        inputs, outputs = list(tensors((args, options))), list(tensors(self.result))
        self.values = {"outputs": outputs, "inputs afterwards": inputs, "state": list(module.state_dict().values())}
        for i, y in enumerate(outputs):
            self.shared += [(i, j) for j, x in enumerate([*inputs, *module.parameters()]) if _shares(y, x)]
        ys = outputs
        for at in range(1, order + 1):
            total = _total(package, ys)
            found: Any = [None] * len(leaves)
            if getattr(total, "requires_grad", False) and leaves:
                try:
                    found = package.autograd.grad(total, leaves, create_graph=at < order, allow_unused=True)
                except RuntimeError as error:
                    if "not implemented" not in str(error):
                        raise
                    return
            # A second derivative that does not depend on x is None here and may be zeros in PyTorch; a first is not.
            self.values[f"derivatives {at}"] = [
                package.zeros_like(x) if g is None and at > 1 else g for g, x in zip(found, leaves)
            ]
            ys = [g for g in found if g is not None]


def _doubled(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.detach().double().requires_grad_(value.requires_grad)
    if isinstance(value, PackedSequence):
        return PackedSequence(_doubled(value.data), *value[1:])
    if isinstance(value, tuple | list):
        return type(value)(map(_doubled, value))
    return {k: _doubled(v) for k, v in value.items()} if isinstance(value, dict) else value


def _shares(y: Any, x: Any) -> bool:
    if isinstance(y, tg.Tensor):
        return bool(np.may_share_memory(y.array, x.array))
    return x.numel() > 0 and bool(x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr())


def _states_differ(theirs: Any, mine: Any) -> str | None:
    a, b = theirs.state_dict(), mine.state_dict()
    if list(a) != list(b):
        return f"state_dict has {list(b)}, expected {list(a)}"
    parameters = [n for n, _ in theirs.named_parameters()]
    if [n for n, _ in mine.named_parameters()] != parameters:
        return f"parameters are {[n for n, _ in mine.named_parameters()]}, expected {parameters}"
    for name, value in a.items():
        if tuple(value.shape) != b[name].shape or str(value.dtype) != f"torch.{b[name].dtype}":
            return f"{name} is {b[name].dtype} {b[name].shape}, expected {value.dtype} {tuple(value.shape)}"
    return None


def _shake(theirs: Any, mine: Any) -> None:
    """Give both the same parameters, none of which is 0 or 1 everywhere as first values are."""
    random = np.random.default_rng(1)
    with torch.no_grad():
        for p in theirs.parameters():
            p.add_(torch.tensor(random.uniform(-0.3, 0.3, tuple(p.shape))))
    mine.load_state_dict({n: t.numpy() for n, t in theirs.state_dict().items()})


def _differ(theirs: Any, mine: Any, limit: float, true: Any = None) -> str | None:
    if theirs is None or mine is None:
        return None if theirs is mine else f"{'None' if mine is None else 'no None'}, unlike PyTorch's"
    if str(theirs.dtype) != f"torch.{mine.dtype}":
        return f"dtype {mine.dtype}, expected {theirs.dtype}"
    if tuple(theirs.shape) != mine.shape:
        return f"shape {mine.shape}, expected {tuple(theirs.shape)}"
    a, b = theirs.detach().numpy(force=True).astype(float), mine.array.astype(float)
    allowed: Any = limit * max(1.0, float(np.abs(a[np.isfinite(a)]).max(initial=0.0)))
    if true is not None:
        best = true.detach().numpy(force=True).astype(float)
        off = np.abs(a - best)
        allowed = np.maximum(allowed, 4 * off[np.isfinite(off)].max(initial=0.0))
        a = np.where(np.isfinite(a), best, a)
    near = (np.abs(a - b) <= allowed) | (a == b) | ((a != a) & (b != b))
    return None if near.all() else f"{b[~near][:4]}, expected {a[~near][:4]}"


def _total(package: Any, ys: list[Any]) -> Any:
    """A number that every element takes part in with a weight of its own."""
    total: Any = 0
    for y in ys:
        if "float" in str(y.dtype) and y.requires_grad:
            weights = np.cos(np.arange(int(np.prod(tuple(y.shape))))).reshape(tuple(y.shape))
            total = total + (y * package.tensor(weights).to(y.dtype)).sum()
    return total


def refused(info: Any, case: Any) -> bool:
    """Whether what PyTorch refuses is refused here."""
    sample, made = case.module_error_input, {}  # type: ignore[var-annotated]
    start, call = sample.constructor_input, sample.forward_input
    try:
        module = getattr(tg.nn, info.module_cls.__name__)(*ours(start.args, made), **ours(start.kwargs, made))
        if case.error_on is table.ModuleErrorEnum.FORWARD_ERROR:
            module(*ours(call.args, made), **ours(call.kwargs, made))
    except REFUSALS:
        return True
    return False
