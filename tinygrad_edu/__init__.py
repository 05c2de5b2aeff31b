"""An autograd engine from scratch at the tensor level: tensors that record a tape and differentiate in reverse."""

import importlib as _importlib
import math as _math
from typing import Any as _Any

from tinygrad_edu import amp, cuda, random
from tinygrad_edu import mirrored as _mirrored
from tinygrad_edu.absent import missing as _missing
from tinygrad_edu.amp import autocast
from tinygrad_edu.arrays.dtypes import bool_, float16, float32, float64, int8, int16, int32, int64, uint8

# fmt: off
# isort: off
from tinygrad_edu.compat import (
    BoolTensor, ByteTensor, DoubleTensor, FloatTensor, HalfTensor, IntTensor, LongTensor, Size,
    are_deterministic_algorithms_enabled, backends, compile, device, dtype, finfo, get_default_dtype, iinfo,
    inference_mode, set_default_dtype, set_float32_matmul_precision, set_grad_enabled,
    use_deterministic_algorithms,
)
from tinygrad_edu.creation import (
    arange, as_tensor, bernoulli, empty, empty_like, eye, from_numpy, full, full_like, linspace, logspace, multinomial,
    normal, ones, ones_like, rand, rand_like, randint, randint_like, randn, randn_like, randperm, tensor, tril_indices,
    triu_indices, zeros, zeros_like,
)
from tinygrad_edu.functional import (
    atleast_1d, block_diag, broadcast_tensors, cartesian_prod, cat, column_stack, concat, concatenate, grad, hstack,
    is_tensor, meshgrid, promote_types, result_type, split, split_with_sizes, stack, std_mean,
    tensor_split, var_mean, vstack, where,
)
# isort: on
# fmt: on
from tinygrad_edu.engine.modes import definitions, enable_grad, is_grad_enabled, no_grad
from tinygrad_edu.methods.products import cdist, einsum, matmul, outer, tensordot
from tinygrad_edu.methods.searches import bucketize, isin, searchsorted
from tinygrad_edu.mirrored import *  # noqa: F403
from tinygrad_edu.random import Generator, get_rng_state, initial_seed, manual_seed, set_rng_state
from tinygrad_edu.tensor import Tensor

# Dtypes and numbers under PyTorch's names; inside the package, Python's own are meant.
bool, half, float, double, int, long, short = bool_, float16, float32, float64, int32, int64, int16
inf, nan, pi, e = _math.inf, _math.nan, _math.pi, _math.e

__version__ = "0.1.0"

# fmt: off
__all__ = [  # noqa: RUF022
    "BoolTensor", "ByteTensor", "DoubleTensor", "FloatTensor", "Generator", "HalfTensor", "IntTensor", "LongTensor",
    "Size", "Tensor", "amp", "arange", "are_deterministic_algorithms_enabled", "as_tensor", "atleast_1d", "autocast",
    "backends",
    "bernoulli", "block_diag", "bool", "broadcast_tensors", "bucketize", "cartesian_prod", "cat", "cdist",
    "column_stack", "compile", "concat", "concatenate", "cuda", "definitions", "device", "double", "dtype", "e",
    "einsum", "empty", "empty_like", "enable_grad", "eye", "finfo", "float", "float16", "float32", "float64",
    "from_numpy", "full", "full_like", "get_default_dtype", "get_rng_state", "grad", "half", "hstack", "iinfo",
    "inf", "inference_mode", "initial_seed", "int", "int16", "int32", "int64", "int8", "is_grad_enabled",
    "is_tensor", "isin", "linspace", "logspace", "long", "manual_seed", "matmul", "meshgrid", "multinomial", "nan",
    "no_grad", "normal", "ones", "ones_like", "outer", "pi", "promote_types", "rand", "rand_like", "randint",
    "randint_like", "randn", "randn_like", "random", "randperm", "result_type", "searchsorted", "set_default_dtype",
    "set_float32_matmul_precision", "set_grad_enabled", "set_rng_state", "short", "split", "split_with_sizes",
    "stack", "std_mean", "tensor", "tensor_split", "tensordot", "tril_indices", "triu_indices", "uint8",
    "use_deterministic_algorithms", "var_mean", "vstack", "where", "zeros", "zeros_like",
]
# fmt: on
__all__ += _mirrored.__all__

_PACKAGES = [
    "autograd", "check", "data", "generation", "graph", "linalg", "nn", "optim", "parallel", "training", "utils",
    "watching",
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
    "jit": "there is no compiler; use the model as it is",
    "distributed": "there are no processes to talk to; tinygrad_edu.parallel.Shards uses the cores of one machine",
    "multiprocessing": "use Python's own; tinygrad_edu.parallel.Shards uses the cores of one machine",
    "fft": "there are no Fourier transforms; NumPy's work on x.numpy(), without gradient",
    "sparse": "tensors are dense; use gather and scatter_add",
    "distributions": "draw with rand, randn, randint, bernoulli, multinomial or normal",
    "func": "tinygrad_edu.autograd has vjp, jvp, jacobian, hessian and hvp",
    "vmap": "write the batch axis out; ops broadcast over leading axes",
    "mps": "the devices are 'cpu' and 'cuda'",
    "onnx": "there is no export",
    "profiler": "tinygrad_edu.watching.watch tells every op with its time and bytes",
    "set_num_threads": "set OMP_NUM_THREADS, or use threadpoolctl.threadpool_limits",
    "get_num_threads": "threadpoolctl.threadpool_info() tells it",
    "set_printoptions": "numpy.set_printoptions holds for tensors, too",
    "strided": "every tensor is strided",
    "seed": "use manual_seed(number)",
    "set_default_device": "give device= where tensors are made, or model.to(device)",
    "set_default_tensor_type": "use set_default_dtype",
    "complex": "tensors hold no complex numbers; keep the real and the imaginary part as two tensors",
    "is_complex": "tensors hold no complex numbers: it is False for all",
    "special": "its functions are here under their own names: erf, erfc, expm1, log1p, xlogy, logsumexp, softmax",
    "sparse_coo_tensor": "tensors are dense; use gather and scatter_add",
    "histc": "use bucketize and bincount",
    "unique_consecutive": "compare neighbours (x[1:] != x[:-1]) and use cumsum and bincount",
    "relu_": "x.relu_() changes in place; relu(x) does not",
    "hub": "there are no downloads",
    "contiguous_format": "x.contiguous() needs no argument",
}


_OF_FUNCTIONAL = [  # what PyTorch has here as well as in nn.functional
    "celu", "cosine_similarity", "dropout", "embedding", "layer_norm", "pairwise_distance", "prelu", "rms_norm", "selu",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    """`tinygrad_edu.nn` and its like are imported when they are first asked for."""
    if name in _PACKAGES:
        return _importlib.import_module(f"tinygrad_edu.{name}")
    if name in _OF_FUNCTIONAL:
        return getattr(_importlib.import_module("tinygrad_edu.nn.functional"), name)
    raise _missing("tinygrad_edu", name, [*__all__, *_PACKAGES], _INSTEAD)
