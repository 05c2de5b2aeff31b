"""What the programs of the fuzz are made of: a line for each op, and how the words in a line are drawn.

To fuzz a further op, add a line to LINES.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from tests.parity.fuzz import Program, backward, libraries, results

LARGEST, MOST = 12.0, 240  # values and sizes stay below these

# name: how it is written. Words in braces are drawn by the methods of Draw of that name; one that has a number behind
# it is drawn anew (y, y2). After a semicolon stands what is done to the result, {out}.
LINES = {
    "add": "{x} + {y}",
    "add, alpha": "{x}.add({y}, alpha={number})",
    "add, a number": "{x} + {number}",
    "sub": "{x} - {y}",
    "a number minus": "{number} - {x}",
    "mul": "{x} * {y}",
    "mul, twice": "{x} * {x}",
    "mul, a number": "{number} * {x}",
    "div": "{y} / {apart}",
    "a number over": "{number} / {apart}",
    "neg": "-{x}",
    "pow": "{positive} ** {y}",
    "pow, squared": "{x} ** 2",
    "pow, cubed": "{x} ** 3",
    "pow, a number": "{positive} ** -1.5",
    "a number to the power": "1.7 ** {x}",
    "square": "{x}.square()",
    "reciprocal": "{apart}.reciprocal()",
    "exp": "{x}.exp()",
    "expm1": "{x}.expm1()",
    "log": "{positive}.log()",
    "log2": "{positive}.log2()",
    "log1p": "{positive}.log1p()",
    "sqrt": "{positive}.sqrt()",
    "rsqrt": "{positive}.rsqrt()",
    "sin": "{x}.sin()",
    "cos": "{x}.cos()",
    "tanh": "{x}.tanh()",
    "sigmoid": "torch.sigmoid({x})",
    "erf": "{x}.erf()",
    "relu": "{off}.relu()",
    "abs": "{off}.abs()",
    "sign": "{off}.sign() * {off}",
    "clamp": "{off}.clamp(0.0, 0.75)",
    "clamp, one side": "{off}.clamp(max=0)",
    "maximum": "torch.maximum({x}, {far})",
    "minimum": "torch.minimum({x}, {far})",
    "where": "torch.where({x} > {far}, {x}, {y})",
    "where, a number": "torch.where({mask}, {x}, {number})",
    "masked_fill": "{x}.masked_fill({mask}, {number})",
    "gelu": "F.gelu({x})",
    "gelu, tanh": "F.gelu({x}, approximate='tanh')",
    "silu": "F.silu({x})",
    "softplus": "F.softplus({x})",
    "logsigmoid": "F.logsigmoid({x})",
    "leaky_relu": "F.leaky_relu({off}, 0.1)",
    "elu": "F.elu({off})",
    "softmax": "F.softmax({x}, dim={dim})",
    "log_softmax": "F.log_softmax({x}, dim={dim})",
    "logsumexp": "{filled}.logsumexp({dim}, keepdim={flag})",
    "sum": "{x}.sum()",
    "sum, an axis": "{x}.sum({dim}, keepdim={flag})",
    "sum, axes": "{x}.sum({dims}, keepdim={flag})",
    "mean": "{x}.mean()",
    "mean, axes": "{x}.mean({dims}, keepdim={flag})",
    "var": "{x}.var({dim}, keepdim={flag})",
    "var, biased": "{x}.var({dims}, correction=0)",
    "std": "{distinct}.std({dim}, keepdim={flag})",
    "prod": "{x}.prod()",
    "prod, an axis": "{x}.prod({dim}, keepdim={flag})",
    "norm": "{off}.norm()",
    "norm, an axis": "{off}.norm(1, {dim})",
    "amax": "{distinct}.amax({dims}, keepdim={flag})",
    "amin": "{distinct}.amin({dims}, keepdim={flag})",
    "max": "{distinct}.max()",
    "max, an axis": "{distinct}.max({dim}, keepdim={flag})",
    "min, an axis": "{distinct}.min({dim}, keepdim={flag})",
    "cumsum": "{x}.cumsum({dim})",
    "sort": "{distinct}.sort({dim}, descending={flag})",
    "topk": "{distinct}.topk({part}, dim={dim}, largest={flag})",
    "reshape": "{x}.reshape({shape})",
    "flatten": "{x}.flatten({low}, {high})",
    "unflatten": "{x}.unflatten({dim}, ({part}, -1))",
    "unsqueeze": "{x}.unsqueeze({place})",
    "squeeze": "{x}.squeeze()",
    "squeeze, an axis": "{x}.squeeze({dim})",
    "transpose": "{x}.transpose({dim}, {dim2})",
    "permute": "{x}.permute({order})",
    "movedim": "{x}.movedim({dim}, {dim2})",
    "mT": "{matrix}.mT",
    "expand": "{x}.expand({larger})",
    "repeat": "{x}.repeat({times})",
    "repeat_interleave": "{x}.repeat_interleave(2, dim={dim})",
    "contiguous": "{x}.contiguous() * {x}",
    "clone": "{x}.clone() + {x}",
    "detach": "{x}.detach() * {x}",
    "split": "{x}.split({part}, dim={dim})",
    "split, lengths": "{x}.split([{part}, {rest}], dim={dim})",
    "chunk": "{x}.chunk(2, dim={dim})",
    "unbind": "{x}.unbind({dim})",
    "narrow": "{x}.narrow({dim}, {rest}, {part})",
    "select": "{x}.select({dim}, {at})",
    "flip": "{x}.flip({dims})",
    "roll": "{x}.roll(2, {dim})",
    "tril": "{matrix}.tril({shift})",
    "triu": "{matrix}.triu({shift})",
    "cat": "torch.cat([{x}, {beside}, {x}], dim={dim})",
    "stack": "torch.stack([{x}, {same}], dim={place})",
    "pad": "F.pad({x}, (1, 2), value=0.5)",
    "index, slices": "{x}[..., 1:, None]",
    "index, a step": "{x}[::2]",
    "index, a number": "{x}[{at0}]",
    "index, integers": "{x}[{rows}]",
    "index, integers and slices": "{x}[:, {rows1}]",
    "index, a mask": "{x}[{whole}]",
    "index_select": "torch.index_select({x}, {dim}, {picks})",
    "masked_select": "{x}.masked_select({whole})",
    "gather": "{x}.gather({dim}, {along})",
    "scatter_add": "{x}.scatter_add({dim}, {along}, {source})",
    "set, slices": "{x}.clone(); {out}[..., 1:] = {number}",
    "set, a row": "{x}.clone(); {out}[{at0}] = {row}",
    "set, a mask": "{x}.clone(); {out}[{whole}] = {number}",
    "add_": "{x}.clone(); {out}.add_({smaller})",
    "mul_": "{x}.clone(); {out} *= {smaller}",
    "masked_fill_": "{x}.clone(); {out}.masked_fill_({whole}, {number})",
    "matmul": "{x} @ {right}",
    "matmul, from the left": "{left} @ {x}",
    "matmul, a vector": "{x} @ {vector}",
    "linear": "F.linear({x}, {weight}, {bias})",
    "einsum, a product": "torch.einsum('...ij,...kj->...ik', {x}, {x})",
    "einsum, a sum": "torch.einsum('...i,...i->...', {x}, {same})",
    "outer": "torch.outer({x}.reshape(-1), {vector})",
    "atan": "{x}.atan()",
    "asinh": "torch.asinh({x})",
    "acosh": "torch.acosh({apart}.abs() + 1)",
    "atan2": "torch.atan2({x}, {apart})",
    "hypot": "torch.hypot({x}, {apart})",
    "erfc": "torch.erfc({x})",
    "fmod": "torch.fmod({off}, 100.0)",
    "xlogy": "torch.xlogy({x}, {positive})",
    "cumprod": "{x}.cumprod({dim})",
    "cummax": "{distinct}.cummax({dim})",
    "cummin": "{distinct}.cummin({dim})",
    "diff": "{x}.diff(dim={dim})",
    "kthvalue": "{distinct}.kthvalue(1, {dim}, {flag})",
    "quantile": "torch.quantile({distinct}, 0.3, dim={dim}, keepdim={flag})",
    "nansum": "{x}.masked_fill({whole}, float('nan')).nansum({dim}, keepdim={flag})",
    "scatter_reduce, mean": "{x}.scatter_reduce({dim}, {along}, {source}, 'mean')",
    "scatter_reduce, amax": "{distinct}.scatter_reduce({dim}, {along}, {source}, 'amax')",
    "index_copy": "{x}.index_copy({dim}, torch.arange({x}.shape[{dim}]), {same})",
    "diag_embed": "{plane}.diag_embed({shift})",
    "kron": "torch.kron({plane}, {plane})",
    "tensordot": "torch.tensordot({plane}, {plane}, dims=([1], [1]))",
    "cdist": "torch.cdist({plane}, {plane}.sin() + 3, p=1.0)",
    "sin_": "{x}.clone(); {out}.sin_()",
    "cumsum_": "{x}.clone(); {out}.cumsum_({dim})",
    "floor, straight through": "{off} + ({off}.floor() - {off}).detach() + {off}.round()",
    "conv1d": "F.conv1d({cube}.sum(1, keepdim=True), torch.ones(2, 1, 1).to({cube}.dtype), padding=1)",
    "exp2": "{x}.exp2()",
    "log10": "{positive}.log10()",
    "logaddexp": "torch.logaddexp({x}, {y})",
    "logit": "{x}.sigmoid().logit()",
    "tan": "{x}.tan()",
    "sinh": "{x}.sinh()",
    "cosh": "{x}.cosh()",
    "lerp": "torch.lerp({x}, {same}, 0.3)",
    "addcmul": "torch.addcmul({x}, {same}, {y}, value=0.5)",
    "addcdiv": "torch.addcdiv({same}, {y}, {apart}, value=0.5)",
    "remainder": "{off} % 100.0",
    "median": "{distinct}.median({dim}, keepdim={flag})",
    "aminmax": "torch.aminmax({distinct}, dim={dim}, keepdim={flag})",
    "var_mean": "torch.var_mean({x}, {dim})",
    "diagonal": "{matrix}.diagonal({shift}, 1, 0)",
    "diag": "{plane}.diag({shift})",
    "trace": "{plane}.trace()",
    "t": "{plane}.t()",
    "mm": "torch.mm({plane}, {plane}.t())",
    "mv": "torch.mv({plane}, {vector})",
    "bmm": "torch.bmm({cube}, {cube}.transpose(1, 2))",
    "addmm": "torch.addmm({plane}.sum(1), {plane}, {plane}.t(), beta=0.5, alpha=2)",
    "dot": "torch.dot({x}.flatten(), {same}.ravel())",
    "tile": "{x}.tile({times})",
    "take": "torch.take({x}, {spots})",
    "take_along_dim": "{x}.take_along_dim({along}, {dim})",
    "scatter": "{x}.scatter({dim}, {alone}, {source})",
    "index_add": "{x}.index_add({dim}, {picks}, {added})",
    "index_fill": "{x}.index_fill({dim}, {picks}, 0.5)",
    "vstack": "torch.vstack([{plane}, {plane}.sin()])",
    "broadcast_to": "torch.broadcast_to({x}, {larger})",
    "sub_": "{x}.clone(); {out}.sub_({smaller}, alpha=0.5)",
    "div_": "{x}.clone(); {out} /= 2",
    "pow_": "{x}.clone(); {out}.pow_(2)",
    "exp_": "{x}.clone(); {out}.exp_()",
    "tanh_": "{x}.clone(); {out}.tanh_()",
    "relu_": "{off}.clone(); {out}.relu_()",
    "sqrt_": "{positive}.clone(); {out}.sqrt_()",
    "clamp_": "{off}.clone(); {out}.clamp_(0.0, 0.75)",
    "addcmul_": "{x}.clone(); {out}.addcmul_({same}, {same2}, value=0.5)",
    "copy_": "{x}.clone(); {out}.copy_({smaller})",
    "tril_": "{matrix}.clone(); {out}.tril_({shift})",
    "fill_diagonal_": "{plane}.clone(); {out}.fill_diagonal_(0.5)",
    "scatter_add_": "{x}.clone(); {out}.scatter_add_({dim}, {along}, {source})",
    "index_add_": "{x}.clone(); {out}.index_add_({dim}, {picks}, {added})",
    "l1_loss": "F.l1_loss({off}, torch.zeros_like({off}))",
    "binary_cross_entropy": "F.binary_cross_entropy({x}.sigmoid(), {same}.sigmoid())",
    "layer_norm": "F.layer_norm({distinct}, {last}, {scale}, {scale2})",
    "rms_norm": "F.rms_norm({off}, {last}, {scale}, eps=0.01)",
    "normalize": "F.normalize({off}, dim={dim})",
    "cosine_similarity": "F.cosine_similarity({apart}, {apart}.exp(), dim={dim})",
    "embedding": "F.embedding({rows}, {table})",
    "attention": "F.scaled_dot_product_attention({x3}, {x3}, {same3})",
    "attention, causal": "F.scaled_dot_product_attention({x3}, {same3}, {x3}, is_causal=True)",
    "mse_loss": "F.mse_loss({x}, {same})",
    "smooth_l1_loss": "F.smooth_l1_loss({x}, {same}, reduction='sum')",
    "binary_cross_entropy_with_logits": "F.binary_cross_entropy_with_logits({x}, {same}.sigmoid())",
    "kl_div": "F.kl_div(F.log_softmax({x}, {dim}), F.softmax({same}, {dim}), reduction='sum')",
    "cross_entropy": "F.cross_entropy({logits}, {target})",
    "cross_entropy, smoothed": "F.cross_entropy({logits}, {target}, label_smoothing=0.2, reduction='none')",
    "nll_loss": "F.nll_loss(F.log_softmax({logits}, 1), {target}, reduction='sum')",
}


# What a value must be so that an op can be applied: within its domain, and not so near a kink or a tie that rounding
# decides. Empty ones are everything.
FACTS: dict[str, Callable[[np.ndarray], Any]] = {
    "positive": lambda v: (v > 0.2).all(),
    "apart": lambda v: (np.abs(v) > 0.3).all(),
    "off": lambda v: ((np.abs(v) > 1e-4) & (np.abs(v - 0.75) > 1e-4)).all(),
    "distinct": lambda v: v.size < 2 or np.diff(np.sort(v, axis=None)).min() > 1e-4,
}
# The words that are drawn first: the others fit their shapes to this one.
LEADS = {"x", "x3", "matrix", "plane", "cube", "filled", "positive", "apart", "off", "distinct", "logits"}


class Draw:
    """One program on its way: the values so far, and how each word of a line is drawn."""

    def __init__(self, seed: int, number: int) -> None:
        self.rng = random.Random(f"{seed} {number}")  # for single draws ten times faster than NumPy's
        self.arrays = np.random.default_rng([seed, number])
        self.space = libraries()[0]  # what has run so far, in PyTorch
        self.values: dict[str, np.ndarray] = {}  # the floating ones
        self.facts: dict[tuple[str, str], bool] = {}  # by name and one of FACTS, as far as they were asked for
        self.inputs: dict[str, np.ndarray] = {}
        self.fixed: set[str] = set()
        self.fresh: dict[str, np.ndarray] = {}  # inputs that the line at hand asks for
        self.chosen: dict[str, Any] = {}
        self.first: np.ndarray = np.zeros(())

    def line(self, template: str) -> str | None:
        """The template with every word replaced, None where one has no choice."""
        self.chosen, self.fresh = {"out": "{out}"}, {}
        for word in sorted(re.findall(r"\{(\w+)\}", template), key=lambda w: w not in LEADS):
            if word not in self.chosen:
                method = getattr(self, word, None) or getattr(self, word.rstrip("0123456789"))
                found = method()
                if found is None:
                    return None
                self.chosen[word] = found
        return re.sub(r"\{(\w+)\}", lambda m: str(self.chosen[m[1]]), template)

    def result(self, text: str) -> tuple[Any, ...] | None:
        """What PyTorch makes of a line, None where it refuses or where values or sizes grow out of bounds."""
        for name, value in self.fresh.items():
            leaf = value.dtype.kind == "f" and self.rng.random() < 0.9
            self.space[name] = torch.tensor(value, requires_grad=leaf)
        expression, _, after = text.partition("; ")
        try:
            found = eval(expression, self.space)
            if after:
                exec(after.replace("{out}", "out"), self.space | {"out": found})
        except (RuntimeError, IndexError, ValueError, TypeError):
            return None
        several = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        for y in several:
            if y.numel() > MOST or (y.dtype.is_floating_point and not bool((y.detach().abs() < LARGEST).all())):
                return None
        return several if any(y.dtype.is_floating_point for y in several) else None

    def keep(self, results: tuple[Any, ...]) -> tuple[str, ...]:
        """Name the results of a line that is part of the program, and keep the inputs it asked for."""
        for name, value in self.fresh.items():
            self.inputs[name] = value
            if value.dtype.kind == "f":
                self.values[name] = value
                if not self.space[name].requires_grad:
                    self.fixed.add(name)
        start = 100 + len(self.values)
        targets = tuple(f"v{start + i}" if y.dtype.is_floating_point else "_" for i, y in enumerate(results))
        for name, y in zip(targets, results, strict=True):
            if name != "_":
                self.space[name], self.values[name] = y, y.detach().numpy()
        return targets

    def shape_of(self, most: int = 4) -> tuple[int, ...]:
        lengths = self.rng.choices([0, 1, 1, 2, 2, 3, 3, 4, 5, 5], k=self.rng.randint(0, most))
        return tuple(max(n, 1) for n in lengths) if self.rng.random() < 0.8 else tuple(lengths)

    def new(self, shape: tuple[int, ...], values: np.ndarray | None = None) -> str:
        """A further input, drawn from ±2 in steps that no two elements share."""
        name = f"{'a' if values is None else 'b'}{len(self.inputs) + len(self.fresh)}"
        if values is None:
            size = int(np.prod(shape))
            steps = (self.arrays.permutation(size) + self.arrays.uniform(0.2, 0.8, size)) / max(size, 1)
            values = np.round(steps.reshape(shape) * 4 - 2, 3) + 0.0003
        self.fresh[name] = values
        return name

    def _any(self, fits: Callable[[str], bool]) -> str | None:
        late = self.rng.random() < 0.6  # long chains need late values
        most = 4 if late else 40
        found: list[str] = []
        for name in reversed(self.values):
            if fits(name):
                found.append(name)
                if len(found) == most:
                    break
        return self.rng.choice(found) if found else None

    def _lead(self, fits: Callable[[str], bool]) -> str | None:
        name = self._any(fits)
        if name is not None:
            self.first = self.values[name]
        return name

    def _with(self, fact: str) -> str | None:
        return self._lead(lambda n: self._holds(n, fact))

    def _holds(self, name: str, fact: str) -> bool:
        if (name, fact) not in self.facts:
            self.facts[name, fact] = bool(FACTS[fact](self.values[name]))
        return self.facts[name, fact]

    def x(self) -> str | None:
        return self._lead(lambda n: True)

    def positive(self) -> str | None:
        return self._with("positive")

    def apart(self) -> str | None:
        return self._with("apart")

    def off(self) -> str | None:
        return self._with("off")

    def distinct(self) -> str | None:
        return self._with("distinct")

    def matrix(self) -> str | None:
        return self._lead(lambda n: self.values[n].ndim >= 2)

    def plane(self) -> str | None:
        return self._lead(lambda n: self.values[n].ndim == 2)

    def cube(self) -> str | None:
        return self._lead(lambda n: self.values[n].ndim == 3)

    def filled(self) -> str | None:
        return self._lead(lambda n: self.values[n].size > 0)

    def x3(self) -> str | None:
        return self._lead(lambda n: self.values[n].ndim >= 3 and 0 not in self.values[n].shape[-2:])

    def logits(self) -> str | None:
        return self._lead(lambda n: self.values[n].ndim >= 2 and self.values[n].size > 0)

    def same(self) -> str:
        shape = self.first.shape
        return self._any(lambda n: self.values[n].shape == shape) or self.new(shape)

    same3 = same

    def y(self) -> str:
        """Something that broadcasts with the first, in either direction."""
        shape = self.first.shape

        def fits(name: str) -> bool:
            pairs = zip(reversed(self.values[name].shape), reversed(shape), strict=False)
            return all(n == m or 1 in (n, m) for n, m in pairs)

        return (self._any(fits) if self.rng.random() < 0.7 else None) or self.new(self._thinned())

    def _thinned(self) -> tuple[int, ...]:
        shape = tuple(1 if self.rng.random() < 0.3 else n for n in self.first.shape)
        return shape[self.rng.randrange(len(shape) + 1) :] if self.rng.random() < 0.3 else shape

    def smaller(self) -> str:
        return self.new(self._thinned())

    def far(self) -> str | None:
        name = self.y()
        value = self.values.get(name, self.fresh.get(name))
        return name if value is not None and bool((np.abs(self.first - value) > 1e-4).all()) else None

    def number(self) -> str:
        return self.rng.choice(["2", "-0.5", "1.25", "3"])

    def flag(self) -> str:
        return self.rng.choice(["True", "False"])

    def dim(self) -> int | None:
        n = self.first.ndim
        if n == 0:
            return None
        axis = self.rng.randrange(-n, n)
        self.axis = axis % n
        return axis

    dim2 = dim

    def dims(self) -> str | None:
        n = self.first.ndim
        if n == 0:
            return None
        axes = self.rng.sample(range(n), self.rng.randint(1, n))
        return str(tuple(i - (n if self.rng.random() < 0.3 else 0) for i in axes))

    def place(self) -> int:
        return self.rng.randrange(-self.first.ndim - 1, self.first.ndim + 1)

    def low(self) -> int | None:
        n = self.first.ndim
        self.start = self.rng.randrange(n) if n else 0
        return self.start if n else None

    def high(self) -> int:
        return self.rng.randrange(self.start, self.first.ndim)

    def _length(self) -> int:
        """The length of the axis that is drawn before or after, `dim`."""
        if "dim" not in self.chosen:
            self.chosen["dim"] = self.dim()
        return 0 if self.chosen["dim"] is None else self.first.shape[self.chosen["dim"]]

    def part(self) -> int | None:
        n = self._length()
        self.taken = self.rng.randrange(1, n + 1) if n else 0
        return self.taken if n else None

    def rest(self) -> int | None:
        n = self._length()
        if "part" not in self.chosen:
            self.chosen["part"] = self.part()
        return None if self.chosen["part"] is None else n - self.chosen["part"]

    def at(self) -> int | None:
        n = self._length()
        return self.rng.randrange(-n, n) if n else None

    def at0(self) -> int | None:
        n = self.first.shape[0] if self.first.ndim else 0
        return self.rng.randrange(-n, n) if n else None

    def row(self) -> str:
        return self.new(self.first.shape[1:])

    def shift(self) -> int:
        return self.rng.randrange(-2, 3)

    def order(self) -> str:
        return ", ".join(map(str, self.rng.sample(range(self.first.ndim), self.first.ndim))) or "()"

    def shape(self) -> str:
        lengths: list[int] = []
        n = self.first.size
        while n > 1 and len(lengths) < 3:
            divisors = [d for d in range(1, n + 1) if n % d == 0]
            lengths.append(self.rng.choice(divisors))
            n //= lengths[-1]
        shape = [*lengths, n] if n != 1 or not lengths or self.rng.random() < 0.3 else lengths
        if self.first.size and self.rng.random() < 0.5:
            shape[self.rng.randrange(len(shape))] = -1
        return str(tuple(shape))

    def larger(self) -> str:
        shape = [
            self.rng.randrange(1, 4) if n == 1 else (-1 if self.rng.random() < 0.3 else n) for n in self.first.shape
        ]
        return str(tuple([2] * self.rng.randrange(0, 2) + shape))

    def times(self) -> str:
        return str(tuple(self.rng.choices([1, 2], k=self.first.ndim + self.rng.randrange(2))))

    def mask(self) -> str:
        return self.new((), self.arrays.random(self._thinned()) < 0.5)

    def whole(self) -> str:
        return self.new((), self.arrays.random(self.first.shape) < 0.5)

    def _integers(self, shape: Any, below: int) -> str | None:
        return self.new((), self.arrays.integers(0, below, shape)) if below else None

    def rows(self) -> str | None:
        return self._integers(self.shape_of(2), self.first.shape[0]) if self.first.ndim else None

    def rows1(self) -> str | None:
        return self._integers(self.shape_of(2), self.first.shape[1]) if self.first.ndim > 1 else None

    def picks(self) -> str | None:
        self.picked = self.rng.randrange(0, 5)
        return self._integers((self.picked,), self._length())

    def added(self) -> str:
        shape = list(self.first.shape)
        shape[self.chosen["dim"]] = self.picked
        return self.new(tuple(shape))

    def spots(self) -> str | None:
        return self._integers(self.shape_of(2), self.first.size)

    def along(self) -> str | None:
        n = self._length()
        shape = list(self.first.shape)
        if not shape:
            return None
        shape[self.chosen["dim"]] = self.rng.randrange(0, 5)
        self.index_shape = tuple(shape)
        return self._integers(shape, n)

    def alone(self) -> str | None:
        """Like `along`, but no place twice."""
        n = self._length()
        if not self.first.ndim:
            return None
        order = np.argsort(self.arrays.random(self.first.shape), self.chosen["dim"])
        order = order.take(range(self.rng.randint(0, n)), self.chosen["dim"])
        self.index_shape = order.shape
        return self.new((), order)

    def source(self) -> str:
        return self.new(self.index_shape)

    def beside(self) -> str | None:
        self._length()
        if not self.first.ndim:
            return None
        shape = list(self.first.shape)
        shape[self.chosen["dim"]] = self.rng.randrange(0, 4)
        return self.new(tuple(shape))

    def right(self) -> str | None:
        if not self.first.ndim:
            return None
        n = self.first.shape[-1]
        fits = self._any(lambda m: self.values[m].ndim >= 2 and self.values[m].shape[-2] == n and self.first.ndim >= 2)
        lead = self.first.shape[:-2][self.rng.randrange(0, 3) :]
        return fits if fits and self.rng.random() < 0.5 else self.new((*lead, n, self.rng.randrange(1, 4)))

    def left(self) -> str | None:
        if self.first.ndim < 2:
            return None
        return self.new((*self.shape_of(1), self.rng.randrange(1, 4), self.first.shape[-2])[-self.first.ndim :])

    def vector(self) -> str | None:
        return self.new(self.first.shape[-1:]) if self.first.ndim else None

    def weight(self) -> str | None:
        self.width = self.rng.randrange(1, 4)
        return self.new((self.width, self.first.shape[-1])) if self.first.ndim else None

    def bias(self) -> str:
        return self.new((self.width,))

    def last(self) -> str | None:
        n = self.rng.randrange(1, self.first.ndim + 1) if self.first.ndim else 0
        self.ends = self.first.shape[self.first.ndim - n :]
        return str(self.ends) if n and np.prod(self.ends) > 1 else None

    def scale(self) -> str:
        return self.new(self.ends)

    def target(self) -> str | None:
        shape = self.first.shape[:1] + self.first.shape[2:]
        ids = self.arrays.integers(0, self.first.shape[1], shape)
        ids.reshape(-1)[1:][self.arrays.random(ids.size - 1) < 0.3] = -100
        return self.new((), ids)

    def table(self) -> str:
        return self.new((*self.first.shape[:1], 3))


def drawn(seed: int, number: int, length: int | None = None) -> Program:
    """Graph `number` of a seed: 5 to 60 ops, unless `length` says otherwise, with what PyTorch makes of it."""
    draw = Draw(seed, number)
    rng = draw.rng
    for _ in range(rng.randrange(1, 4)):
        draw.fresh = {}
        draw.new(draw.shape_of())
        draw.result("torch.zeros(())")
        draw.keep(())
    names = list(LINES)
    lines: list[tuple[tuple[str, ...], str]] = []
    ops: list[str] = []
    goal = length or min(rng.randint(5, 60), rng.randint(5, 60))  # more short ones than long ones
    for _ in range(20 * goal):
        if len(lines) == goal:
            break
        name = rng.choice(names)
        text = draw.line(LINES[name])
        found = None if text is None else draw.result(text)
        if text is not None and found is not None:
            lines.append((draw.keep(found), text))
            ops.append(name)
    program = Program(draw.inputs, lines, fixed=frozenset(draw.fixed), ops=tuple(ops))
    backward(program, draw.space)
    return replace(program, expected=results(program, draw.space))
