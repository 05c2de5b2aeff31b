"""An autograd engine from scratch at the tensor level: tensors that record a tape and differentiate in reverse."""

import importlib as _importlib
import math as _math
from typing import Any as _Any

from tinygrad_edu import cuda, random
from tinygrad_edu.absent import missing as _missing
from tinygrad_edu.backend import bool_, float16, float32, float64, int8, int16, int32, int64, uint8

# fmt: off
# isort: off
from tinygrad_edu.compat import (
    BoolTensor, ByteTensor, DoubleTensor, FloatTensor, HalfTensor, IntTensor, LongTensor, Size,
    are_deterministic_algorithms_enabled, backends, compile, device, dtype, finfo, get_default_dtype, iinfo,
    inference_mode, set_default_dtype, set_float32_matmul_precision, set_grad_enabled,
    use_deterministic_algorithms,
)
from tinygrad_edu.creation import (
    arange, as_tensor, bernoulli, empty, empty_like, eye, from_numpy, full, full_like, linspace, multinomial,
    normal, ones, ones_like, rand, rand_like, randint, randn, randn_like, randperm, tensor, tril_indices,
    triu_indices, zeros, zeros_like,
)
from tinygrad_edu.functional import (
    abs, absolute, add, addcdiv, addcmul, addmm, all, allclose, amax, amin, aminmax, any, argmax, argmin,
    argsort, argwhere, baddbmm, bincount, bitwise_and, bitwise_not, bitwise_or, bitwise_xor, bmm,
    broadcast_tensors, broadcast_to, cat, ceil, chunk, clamp, clamp_max, clamp_min, clip, clone, concat,
    concatenate, cos, cosh, count_nonzero, cumsum, detach, diag, diagonal, div, divide, dot, eq, equal, erf,
    exp, exp2, expm1, flatten, flip, floor, floor_divide, gather, ge, grad, greater, greater_equal, gt, hstack,
    index_add, index_fill, index_select, is_floating_point, is_nonzero, is_tensor, isclose, isfinite, isinf,
    isnan, le, lerp, less, less_equal, log, log10, log1p, log2, log_softmax, logaddexp, logical_and,
    logical_not, logical_or, logical_xor, logit, logsumexp, lt, masked_fill, masked_select, max, maximum, mean,
    median, meshgrid, min, minimum, mm, moveaxis, movedim, mul, multiply, mv, nan_to_num, narrow, ne, neg,
    negative, nonzero, norm, not_equal, numel, permute, pow, prod, ravel, reciprocal, relu, remainder,
    repeat_interleave, reshape, roll, round, rsqrt, scatter, scatter_add, select, sigmoid, sign, sin, sinh,
    softmax, sort, split, sqrt, square, squeeze, stack, std, sub, subtract, sum, swapaxes, swapdims, t, take,
    tan, tanh, tile, topk, trace, transpose, tril, triu, true_divide, trunc, unbind, unflatten, unique,
    unsqueeze, var, var_mean, vstack, where,
)
# isort: on
# fmt: on
from tinygrad_edu.methods.products import einsum, matmul, outer
from tinygrad_edu.modes import definitions, enable_grad, is_grad_enabled, no_grad
from tinygrad_edu.random import Generator, manual_seed
from tinygrad_edu.tensor import Tensor

# Dtypes and numbers under PyTorch's names; inside the package, Python's own are meant.
bool, half, float, double, int, long, short = bool_, float16, float32, float64, int32, int64, int16
inf, nan, pi, e = _math.inf, _math.nan, _math.pi, _math.e

__version__ = "0.1.0"

# fmt: off
__all__ = [  # noqa: RUF022
    "BoolTensor", "ByteTensor", "DoubleTensor", "FloatTensor", "Generator", "HalfTensor", "IntTensor",
    "LongTensor", "Size", "Tensor", "abs", "absolute", "add", "addcdiv", "addcmul", "addmm", "all", "allclose",
    "amax", "amin", "aminmax", "any", "arange", "are_deterministic_algorithms_enabled", "argmax", "argmin",
    "argsort", "argwhere", "as_tensor", "backends", "baddbmm", "bernoulli", "bincount", "bitwise_and",
    "bitwise_not", "bitwise_or", "bitwise_xor", "bmm", "bool", "broadcast_tensors", "broadcast_to", "cat",
    "ceil", "chunk", "clamp", "clamp_max", "clamp_min", "clip", "clone", "compile", "concat", "concatenate",
    "cos", "cosh", "count_nonzero", "cuda", "cumsum", "definitions", "detach", "device", "diag", "diagonal",
    "div", "divide", "dot", "double", "dtype", "e", "einsum", "empty", "empty_like", "enable_grad", "eq",
    "equal", "erf", "exp", "exp2", "expm1", "eye", "finfo", "flatten", "flip", "float", "float16", "float32",
    "float64", "floor", "floor_divide", "from_numpy", "full", "full_like", "gather", "ge", "get_default_dtype",
    "grad", "greater", "greater_equal", "gt", "half", "hstack", "iinfo", "index_add", "index_fill",
    "index_select", "inf", "inference_mode", "int", "int16", "int32", "int64", "int8", "is_floating_point",
    "is_grad_enabled", "is_nonzero", "is_tensor", "isclose", "isfinite", "isinf", "isnan", "le", "lerp", "less",
    "less_equal", "linspace", "log", "log10", "log1p", "log2", "log_softmax", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "logit", "logsumexp", "long", "lt", "manual_seed",
    "masked_fill", "masked_select", "matmul", "max", "maximum", "mean", "median", "meshgrid", "min", "minimum",
    "mm", "moveaxis", "movedim", "mul", "multinomial", "multiply", "mv", "nan", "nan_to_num", "narrow", "ne",
    "neg", "negative", "no_grad", "nonzero", "norm", "normal", "not_equal", "numel", "ones", "ones_like",
    "outer", "permute", "pi", "pow", "prod", "rand", "rand_like", "randint", "randn", "randn_like", "random",
    "randperm", "ravel", "reciprocal", "relu", "remainder", "repeat_interleave", "reshape", "roll", "round",
    "rsqrt", "scatter", "scatter_add", "select", "set_default_dtype", "set_float32_matmul_precision",
    "set_grad_enabled", "short", "sigmoid", "sign", "sin", "sinh", "softmax", "sort", "split", "sqrt", "square",
    "squeeze", "stack", "std", "sub", "subtract", "sum", "swapaxes", "swapdims", "t", "take", "tan", "tanh",
    "tensor", "tile", "topk", "trace", "transpose", "tril", "tril_indices", "triu", "triu_indices",
    "true_divide", "trunc", "uint8", "unbind", "unflatten", "unique", "unsqueeze",
    "use_deterministic_algorithms", "var", "var_mean", "vstack", "where", "zeros", "zeros_like",
]
# fmt: on

_PACKAGES = [
    "autograd", "check", "data", "generation", "graph", "nn", "optim", "parallel", "training", "utils", "watching",
]  # fmt: skip

_FILE = "the safetensors format: tinygrad_edu.training.checkpoint, or safetensors.numpy with model.state_dict()"
_INSTEAD = {
    "save": f"a pickle can run code when it is read; use {_FILE}",
    "load": f"a pickle can run code when it is read; use {_FILE}",
    "bfloat16": "the array libraries have no such dtype; use float32",
    "complex64": "tensors hold no complex numbers; keep the real and the imaginary part as two tensors",
    "polar": "tensors hold no complex numbers; use cos and sin and two tensors",
    "view_as_complex": "tensors hold no complex numbers; use .unbind(-1) and two tensors",
    "view_as_real": "tensors hold no complex numbers; use stack([real, imaginary], dim=-1)",
    "autocast": "there is no mixed precision; leave the line out, everything is computed in float32",
    "amp": "there is no mixed precision; leave it out, everything is computed in float32",
    "jit": "there is no compiler; use the model as it is",
    "distributed": "there are no processes to talk to; tinygrad_edu.parallel.Shards uses the cores of one machine",
    "multiprocessing": "use Python's own; tinygrad_edu.parallel.Shards uses the cores of one machine",
    "linalg": "of linear algebra there are matmul, einsum, outer, norm, diag and trace",
    "fft": "there are no Fourier transforms; NumPy's work on x.numpy(), without gradient",
    "sparse": "tensors are dense; use gather and scatter_add",
    "distributions": "draw with rand, randn, randint, bernoulli, multinomial or normal",
    "func": "tinygrad_edu.autograd has vjp, jvp, jacobian, hessian and hvp",
    "vmap": "write the batch axis out; ops broadcast over leading axes",
    "mps": "the devices are 'cpu' and 'cuda'",
    "onnx": "there is no export",
    "profiler": "tinygrad_edu.watching.watch tells every op with its time and bytes",
    "quantile": "use sort and index",
    "cumprod": "use log, cumsum and exp",
    "set_num_threads": "set OMP_NUM_THREADS, or use threadpoolctl.threadpool_limits",
    "get_num_threads": "threadpoolctl.threadpool_info() tells it",
    "set_printoptions": "numpy.set_printoptions holds for tensors, too",
    "strided": "every tensor is strided",
    "contiguous_format": "x.contiguous() needs no argument",
}


def __getattr__(name: str) -> _Any:
    """`tinygrad_edu.nn` and its like are imported when they are first asked for."""
    if name in _PACKAGES:
        return _importlib.import_module(f"tinygrad_edu.{name}")
    raise _missing("tinygrad_edu", name, [*__all__, *_PACKAGES], _INSTEAD)
