"""For each op, which axes of its inputs become which axes of its outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tinygrad_edu.graph.record import Application

Axis = tuple[int, ...]
Dims = list[Axis]


class Factors(Protocol):
    """What rules need of the factors of axes."""

    size: list[int]

    def new(self, size: int) -> int: ...
    def find(self, a: int) -> int: ...
    def cut(self, a: int, first: int) -> tuple[int, ...]: ...
    def unify(self, x: Axis, y: Axis) -> bool: ...
    def length(self, axis: Axis) -> int: ...


Rule = Callable[[Factors, Application, list[Any], list[tuple[int, ...]]], list[Dims | None]]


def rule_for(application: Application, lacking: bool = False) -> Rule:
    """The rule of an op; `lacking`: of one of its inputs nothing is known.

    An op of the user's own is element-wise where its shapes allow it, or a reduction where it takes `keepdim`.
    """
    op = application.op
    if op in SIZES_ONLY or (lacking and op not in ELEMENTWISE and op != "cat"):
        return _sizes
    return RULES.get(op, _reduce if "keepdim" in application.static else _elementwise)


def _sizes(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    """Nothing is known of the axes but their lengths."""
    return [None] * len(shapes)


def _broadcast(f: Factors, given: list[Dims], rank: int) -> Dims:
    """Axes aligned at the end: those of equal length are one, those of 1 give way."""
    out: Dims = []
    for i in range(rank, 0, -1):
        found: Axis | None = None
        for dims in given:
            if len(dims) >= i and f.length(dims[-i]) != 1:
                if found is None:
                    found = dims[-i]
                elif f.length(found) == f.length(dims[-i]):
                    f.unify(found, dims[-i])
        out.append(found if found is not None else (f.new(1),))
    return out


def _elementwise(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    known = [dims for dims in given if dims is not None]
    if len(shapes) != 1 or any(len(dims) > len(shapes[0]) for dims in known):
        return [None] * len(shapes)
    for dims in known:
        for axis, n in zip(reversed(dims), reversed(shapes[0]), strict=False):
            if f.length(axis) not in (1, n):
                return [None]
    return [_broadcast(f, known, len(shapes[0]))]


def _matmul(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    x, y = given
    f.unify(x[-1], y[-2])
    return [[*_broadcast(f, [x[:-2], y[:-2]], len(shapes[0]) - 2), x[-2], y[-1]]]


def _linear(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    x, weight, bias = (*given, None)[:3]
    f.unify(x[-1], weight[1])
    if bias is not None:
        f.unify(weight[0], bias[0])
    return [[*x[:-1], weight[0]]]


def _embedding(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    return [[*given[0], given[1][1]]]


def _cross_entropy(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    f.unify(given[0][0], given[1][0])
    return [list(given[0][:1])]


def _attention(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    q, k, v = given[:3]
    f.unify(q[-1], k[-1])
    f.unify(k[-2], v[-2])
    return [[*_broadcast(f, [q[:-2], k[:-2], v[:-2]], len(shapes[0]) - 2), q[-2], v[-1]]]


def _recurrent(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    """The projected input [T, B, gates·H], the weight [gates·H, H], states [B, H], a bias [gates·H]."""
    x, weight, state = given[:3]
    for dims in given[2:]:
        for axis, known in zip(dims or (), (x[1], weight[1]) if len(dims or ()) == 2 else weight, strict=False):
            f.unify(axis, known)
    f.unify(x[2], weight[0])
    gates = f.length(x[2]) // max(1, f.length(state[1]))
    if len(x[2]) == 1:
        f.unify(f.cut(x[2][0], gates)[1:] if gates > 1 else x[2], state[1])
    found: list[Dims | None] = [[x[0], *state], [*state]]
    return found[: len(shapes)]


def _reduce(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    dims = given[0]
    axes = a.static["axes"] if "axes" in a.static else (a.static["axis"],)
    gone = range(len(dims)) if axes == (None,) else [axis % len(dims) for axis in axes]
    keep = a.static.get("keepdim", False)
    out = [(f.new(1),) if i in gone else axis for i, axis in enumerate(dims) if keep or i not in gone]
    return [list(out) for _ in shapes]


def _permute(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    return [[given[0][axis] for axis in a.static["axes"]]]


def _transpose(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    dims = list(given[0])
    i, j = a.static["dim0"], a.static["dim1"]
    dims[i], dims[j] = dims[j], dims[i]
    return [dims]


def _reshape(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    """Factors are dealt out row by row; one that is longer than what is left of an axis is cut."""
    rest = [a for axis in reversed(given[0]) for a in reversed(axis) if f.size[f.find(a)] != 1]
    out: Dims = []
    for n in shapes[0]:
        axis: list[int] = []
        left = n
        while left > 1 and rest:
            factor = rest.pop()
            size = f.size[f.find(factor)]
            if left % size == 0:
                axis.append(factor)
                left //= size
                continue
            parts = f.cut(factor, left)
            if not parts:
                return [None]
            rest += reversed(parts)
        out.append(tuple(axis) if n != 1 else (f.new(1),))
    return [out]


def _expand(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    lead = len(shapes[0]) - len(given[0])
    out: Dims = [(f.new(n),) for n in shapes[0][:lead]]
    out += [axis if f.length(axis) == n else (f.new(n),) for axis, n in zip(given[0], shapes[0][lead:], strict=True)]
    return [out]


def _split(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    """Pieces of equal length share the inner factor of the axis that was cut."""
    at, sizes = a.static["axis"], a.static["sizes"]
    axis = given[0][at]
    if len(set(sizes)) == 1 and len(sizes) > 1 and len(axis) == 1:
        parts = f.cut(axis[0], len(sizes))
        if parts and f.length(parts[1:]) == sizes[0]:
            return [[*given[0][:at], tuple(parts[1:]), *given[0][at + 1 :]] for _ in sizes]
    return [[*given[0][:at], (f.new(n),), *given[0][at + 1 :]] for n in sizes]


def _unbind(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    at = a.static["axis"] % len(given[0])
    return [[*given[0][:at], *given[0][at + 1 :]] for _ in shapes]


def _along(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    """The axis along which an op works is another one afterwards, and all others stay."""
    at = a.static["axis"] % len(shapes[0])
    known = [d for d in given if d is not None and len(d) == len(shapes[0])]
    fitting = [[axis if f.length(axis) == n else (f.new(1),) for axis, n in zip(d, shapes[0])] for d in known]
    out = _broadcast(f, [[*d[:at], (f.new(1),), *d[at + 1 :]] for d in fitting], len(shapes[0]))
    return [[*out[:at], (f.new(shapes[0][at]),), *out[at + 1 :]] for _ in shapes]


def _first(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    """Every output has the axes of the first input where their lengths are the same, other ones where they are not."""
    dims = given[0]
    if any(len(dims) != len(shape) for shape in shapes):
        return [None] * len(shapes)
    return [[d if f.length(d) == n else (f.new(n),) for d, n in zip(dims, shape, strict=True)] for shape in shapes]


def _second(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    return _first(f, a, given[1:], shapes)


def _each(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    return [None if dims is None else list(dims) for dims in given]


def _draws(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    return [[*given[0][:-1], (f.new(shapes[0][-1]),)]]


def _sum_to(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    n = len(shapes[0])
    return _first(f, a, [given[0][len(given[0]) - n :]], shapes)


def _diagonal(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    n = len(given[0])
    gone = {a.static["first"] % n, a.static["second"] % n}
    return [[*(axis for i, axis in enumerate(given[0]) if i not in gone), (f.new(shapes[0][-1]),)]]


def _put_diagonal(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    n = len(shapes[0])
    rest, gone = iter(given[0][:-1]), {a.static["first"] % n, a.static["second"] % n}
    return [[(f.new(shapes[0][i]),) if i in gone else next(rest) for i in range(n)]]


def _get_item(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    """Whole slices keep their axis and a number takes one away. Integers that pick have their own axes in the place of
    what they pick from, a mask has a new one there; so has a part of an axis."""
    index = a.static["index"]
    index = list(index) if isinstance(index, tuple | list) else [index]
    if "..." not in index:
        index.append("...")
    picking = [i for i, part in enumerate(index) if is_array(part)]
    masked = any(name.startswith("mask") for name in a.arguments)
    if masked and len(picking) > 1:
        return [None]
    takes = [len(given[1]) if masked and is_array(part) else part not in (None, "...") for part in index]
    out, dims = list[Axis](), list(given[0])

    def put() -> None:
        own = [(f.new(shapes[0][len(out)]),)] if masked else _broadcast(f, given[1:], max(map(len, given[1:])))
        out.extend(own)

    numbers = [i for i, part in enumerate(index) if is_array(part) or (picking and isinstance(part, int))]
    if numbers and numbers[-1] - numbers[0] >= len(numbers):  # slices in between: NumPy puts what is picked in front
        put()
        numbers = []
    for i, (part, n) in enumerate(zip(index, takes, strict=True)):
        if numbers and i == numbers[0]:
            put()
        if part is None:
            out.append((f.new(1),))
        elif part == "...":
            whole = len(dims) - sum(takes[i:])
            out += dims[:whole]
            del dims[:whole]
        elif isinstance(part, int) or is_array(part):
            for x, y in zip(given[1] if masked and is_array(part) else [], dims, strict=False):
                f.unify(x, y)
            del dims[:n]
        else:
            axis = dims.pop(0)
            length = shapes[0][len(out)] if len(out) < len(shapes[0]) else 1
            out.append(axis if part == ":" or f.length(axis) == length else (f.new(length),))
    return [out]


def is_array(part: Any) -> bool:
    """Whether a part of an index, told as data, is an array; these are inputs of the op as well."""
    return isinstance(part, str) and part.startswith("{")


def _einsum(f: Factors, a: Application, given: list[Any], shapes: list[Any]) -> list[Dims | None]:
    terms, _, result = str(a.static["equation"]).partition("->")
    known: dict[str, Axis] = {}
    for letters, dims in zip(terms.split(","), given, strict=True):
        for letter, axis in zip(letters, dims, strict=True):
            f.unify(known.setdefault(letter, axis), axis)
    return [[known[letter] for letter in result]]


OVER_TIME = ("rnn", "gru", "lstm")  # whose state goes from one position to the next
# Which axes go where, by op. An op is in exactly one of these four, so that a new one is thought about.
RULES: dict[str, Rule] = {
    "matmul": _matmul,
    "linear": _linear,
    "embedding": _embedding,
    "einsum": _einsum,
    "cross_entropy": _cross_entropy,
    "scaled_dot_product_attention": _attention,
    **dict.fromkeys(OVER_TIME, _recurrent),
    "permute": _permute,
    "transpose": _transpose,
    "reshape": _reshape,
    "expand": _expand,
    "sum_to": _sum_to,
    "split": _split,
    "get_item": _get_item,
    "unbind": _unbind,
    "diagonal": _diagonal,
    "put_diagonal": _put_diagonal,
    "searchsorted": _second,
    "multinomial": _draws,
    **dict.fromkeys(("module_inputs", "module_outputs"), _each),
    **dict.fromkeys(("cat", "narrow", "widen", "gather", "scatter_add", "topk"), _along),
    **dict.fromkeys(("pad", "crop", "isin", "scatter_extreme", "set_item"), _first),
    **dict.fromkeys(("sort", "cummax", "cummin"), _first),
}
# fmt: off
REDUCTIONS = frozenset((
    "sum", "mean", "amax", "amin", "any", "all", "log_sum_exp", "norm", "count_nonzero", "prod", "max", "min",
    "argmax", "argmin", "centred_squares", "power_norm",
))
ELEMENTWISE = frozenset((
    "where", "masked_fill", "cast", "equal", "not_equal", "less", "less_equal", "logical_not", "logical_and",
    "logical_or", "add", "sub", "mul", "div", "neg", "pow", "pow_number", "exp", "log", "sqrt", "abs", "sign",
    "maximum", "minimum", "rsqrt", "clamp", "floor", "trunc", "round", "remainder", "fmod", "floor_divide",
    "tanh", "sigmoid", "erf", "relu", "silu", "softplus", "leaky_relu", "elu", "sin", "cos", "log1p",
    "expm1", "exp2", "log2", "log10", "asin", "acos", "atan", "atan2", "hypot", "asinh", "acosh", "atanh",
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "left_shift", "right_shift", "alias", "detach", "clone",
    "transfer", "flip", "roll", "softmax", "log_softmax", "gelu", "layer_norm", "rms_norm", "dropout", "cumsum",
    "cumprod", "binary_cross_entropy", "sech_squared", "bell", "erfc", "normal_cdf", "log_add_exp", "softsign",
    "tanhshrink", "tan", "sinh", "cosh", "one_minus_square", "direction", "xlogy", "inversion", "logit_cross_entropy",
    "zeros_like", "logit", "pow_less", "unit", "trunc_divide", "tanh_cdf", "tanh_softplus", "tanh_softplus_slope",
    "huber",
))
# fmt: on
# What comes out of these depends on the numbers, or on an index that is no axis of anything.
SIZES_ONLY = frozenset(("nonzero", "unique", "bincount", "put_add", "windows", "applied", "once", "checkpoint"))
