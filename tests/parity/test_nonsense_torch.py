"""Every option of nn.functional replaced by what makes no sense: what PyTorch refuses gives no result here, and what
both take gives the same one."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import tinygrad_edu as tg

R = np.random.default_rng(0)


def f(*shape: int) -> Any:
    return R.uniform(-1, 1, shape).astype(np.float32)


def p(*shape: int) -> Any:
    return R.uniform(0.1, 0.9, shape).astype(np.float32)


def ids(high: int, *shape: int) -> Any:
    return R.integers(0, high, shape)


NORM = {"input": f(4, 3), "running_mean": f(3), "running_var": p(3), "weight": f(3), "bias": f(3)}
# Calls that both take; each argument is replaced in turn. Arrays are made tensors. What follows # tells calls apart.
CALLS: dict[str, dict[str, Any]] = {
    "cross_entropy": {"input": f(4, 3), "target": ids(3, 4), "weight": p(3), "ignore_index": -100, "reduction": "mean",
                      "label_smoothing": 0.1},
    "cross_entropy#soft": {"input": f(4, 3), "target": p(4, 3), "weight": p(3), "ignore_index": -100,
                           "label_smoothing": 0.1},
    "nll_loss": {"input": f(2, 3, 4), "target": ids(3, 2, 4), "weight": p(3), "ignore_index": -1, "reduction": "sum"},
    "binary_cross_entropy": {"input": p(2, 3), "target": p(2, 3), "weight": p(2, 3), "reduction": "mean"},
    "binary_cross_entropy_with_logits": {"input": f(2, 3), "target": p(2, 3), "weight": p(2, 3), "pos_weight": p(3)},
    "mse_loss": {"input": f(2, 3), "target": f(2, 3), "reduction": "mean"},
    "mse_loss#w": {"input": f(2, 3), "target": f(2, 3), "weight": p(2, 3)},
    "l1_loss": {"input": f(2, 3), "target": f(2, 3), "reduction": "none", "weight": p(2, 3)},
    "smooth_l1_loss": {"input": f(2, 3), "target": f(2, 3), "beta": 0.5},
    "huber_loss": {"input": f(2, 3), "target": f(2, 3), "delta": 0.5, "weight": p(2, 3)},
    "kl_div": {"input": f(2, 3), "target": p(2, 3), "reduction": "batchmean", "log_target": False},
    "softmax": {"input": f(2, 3), "dim": 1},
    "log_softmax": {"input": f(2, 3), "dim": 1},
    "gelu": {"input": f(2, 3), "approximate": "none"},
    "relu": {"input": f(2, 3)},
    "softplus": {"input": f(2, 3), "beta": 1.0, "threshold": 5.0},
    "hardtanh": {"input": f(2, 3), "min_val": -0.5, "max_val": 0.5},
    "celu": {"input": f(2, 3), "alpha": 0.7},
    "elu": {"input": f(2, 3), "alpha": 0.7},
    "leaky_relu": {"input": f(2, 3), "negative_slope": 0.1},
    "prelu": {"input": f(2, 3), "weight": f(3)},
    "glu": {"input": f(2, 4), "dim": 1},
    "scaled_dot_product_attention": {"query": f(2, 4, 3), "key": f(2, 4, 3), "value": f(2, 4, 3), "attn_mask": None,
                                     "is_causal": False, "scale": 0.5, "enable_gqa": False},
    "linear": {"input": f(2, 3), "weight": f(4, 3), "bias": f(4)},
    "embedding": {"input": ids(5, 2, 3), "weight": f(5, 3), "padding_idx": 1, "max_norm": 1.0, "norm_type": 2.0,
                  "scale_grad_by_freq": False, "sparse": False},
    "layer_norm": {"input": f(2, 3), "normalized_shape": (3,), "weight": f(3), "bias": f(3), "eps": 1e-5},
    "rms_norm": {"input": f(2, 3), "normalized_shape": (3,), "weight": f(3), "eps": 1e-5},
    "dropout": {"input": f(2, 3), "p": 1.0, "training": True},
    "batch_norm": {**NORM, "training": False, "momentum": 0.1, "eps": 1e-5},
    "batch_norm#training": {**NORM, "training": True, "momentum": 0.1, "eps": 1e-5},
    "group_norm": {"input": f(2, 4, 3), "num_groups": 2, "weight": f(4), "bias": f(4), "eps": 1e-5},
    "pad": {"input": f(2, 3), "pad": (1, 1), "mode": "constant", "value": 0.5},
    "one_hot": {"input": ids(3, 4), "num_classes": 4},
    "normalize": {"input": f(2, 3), "p": 2.0, "dim": 1, "eps": 1e-12},
    "pairwise_distance": {"x1": f(2, 3), "x2": f(2, 3), "p": 2.0, "eps": 1e-6, "keepdim": False},
    "conv1d": {"input": f(2, 4, 9), "weight": f(6, 2, 3), "bias": f(6), "stride": 1, "padding": 1, "dilation": 1,
               "groups": 2},
    "conv2d": {"input": f(2, 4, 6, 6), "weight": f(6, 2, 3, 3), "bias": f(6), "stride": 1, "padding": 1, "dilation": 1,
               "groups": 2},
    "max_pool1d": {"input": f(2, 3, 9), "kernel_size": 3, "stride": 2, "padding": 1, "dilation": 1},
    "max_pool2d": {"input": f(2, 3, 9, 9), "kernel_size": 3, "stride": 2, "padding": 1, "dilation": 1},
    "avg_pool1d": {"input": f(2, 3, 9), "kernel_size": 3, "stride": 2, "padding": 1},
    "avg_pool2d": {"input": f(2, 3, 9, 9), "kernel_size": 3, "stride": 2, "padding": 1},
    "adaptive_avg_pool1d": {"input": f(2, 3, 9), "output_size": 4},
    "adaptive_avg_pool2d": {"input": f(2, 3, 9, 9), "output_size": (4, 3)},
    "unfold": {"input": f(2, 3, 9, 9), "kernel_size": (2, 3), "dilation": 1, "padding": 1, "stride": 2},
}  # fmt: skip

OPTIONS: list[Any] = [
    -1,
    0,
    1,
    2,
    7,
    -0.5,
    0.5,
    1.5,
    float("inf"),
    float("nan"),
    True,
    False,
    None,
    "foo",
    "",
    1j,
    (1,),
    (2, 1),
]
OPTIONS += [(0,), (-1, -1), [], (1, 2, 3)]
ARRAYS: list[Any] = [
    f(2, 3),
    f(3),
    f(1),
    f(),
    f(0),
    f(2, 3, 4),
    f(3, 2),
    f(1, 3),
    f(2, 1),
    ids(2, 2, 3),
    ids(2, 2),
    ids(2, 1),
]
ARRAYS += [np.array(1), p(2, 3).astype("f8"), p(3).astype("f8"), f(2, 3) > 0, f(3) > 0, p(2, 3).astype("f2")]
ARRAYS += [f(2, 4), f(4, 4), f(1, 1, 9), f(2, 3, 6, 6), f(2, 3, 4, 5, 6), None, "foo"]

# What is taken here and not by PyTorch, or differs, each with its reason.
MEANT = {
    ("layer_norm", "normalized_shape", "7"): "an int is a length, as in the class of that name",
    ("binary_cross_entropy_with_logits", "pos_weight", "bool"): "booleans count as 0 and 1, as in `weight`",
    ("binary_cross_entropy", "input", "float16"): "it is computed in float32, in which the target may be",
    ("mse_loss", "target", "bool"): "with a weight as without",
    ("unfold", "", "(1,)"): "one number in a tuple counts for all axes, as in conv2d",
    ("unfold", "", "(0,)"): "the same",
    ("binary_cross_entropy_with_logits", "", "float"): "the dtype is that of input and target together, in any order",
    ("dropout", "p", "0.5"): "what is drawn differs",
    ("huber_loss", "input", "float16"): "PyTorch rounds later where the dtypes differ",
    ("normalize", "dim", "[]"): "",
}


def tensor(package: Any, value: Any) -> Any:
    return package.tensor(value.copy()) if isinstance(value, np.ndarray) else value


def outcome(package: Any, name: str, arguments: dict[str, Any]) -> Any:
    function = getattr(package.nn.functional, name.split("#")[0])
    try:
        return function(**{k: tensor(package, v) for k, v in arguments.items()})
    except (
        ValueError,
        TypeError,
        IndexError,
        RuntimeError,
        AttributeError,
        NotImplementedError,
        ArithmeticError,
        AssertionError,
    ) as e:
        return e


def shown(value: Any) -> str:
    return f"{value.dtype}{value.shape}" if isinstance(value, np.ndarray) else repr(value)


@pytest.mark.parametrize("name", CALLS)
def test_nonsense_gives_no_result(name: str) -> None:
    found = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for key, value in CALLS[name].items():
            for other in ARRAYS if isinstance(value, np.ndarray) or key == "attn_mask" else OPTIONS:
                arguments = {**CALLS[name], key: other}
                theirs, ours = (outcome(package, name, arguments) for package in (torch, tg))
                if isinstance(ours, Exception):
                    if not isinstance(ours, ValueError | TypeError | IndexError | RuntimeError):
                        found.append(f"{key}={shown(other)} ends in a {type(ours).__name__}: {ours}")
                    continue
                refused = isinstance(theirs, Exception)
                said = f"is taken, PyTorch says {theirs}" if refused else difference(theirs, ours)
                if said and not meant(name.split("#")[0], key, shown(other)):
                    found.append(f"{key}={shown(other)} {said}")
    assert not found, "\n".join(found)


def meant(name: str, key: str, value: str) -> bool:
    return any(name == n and k in ("", key) and v in value for n, k, v in MEANT)


def difference(theirs: Any, ours: Any) -> str:
    a, b = theirs.detach().numpy(), ours.detach().numpy()
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"gives {b.dtype}{b.shape}, expected {a.dtype}{a.shape}"
    limit = 4e-3 if a.dtype == np.float16 else 1e-5
    same = np.allclose(b.astype(float), a.astype(float), rtol=limit, atol=limit, equal_nan=True)
    return "" if same else f"gives {b.ravel()[:4]}, expected {a.ravel()[:4]}"
