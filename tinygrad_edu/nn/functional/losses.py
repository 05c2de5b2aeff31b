"""Losses: how far predictions are from targets."""

from __future__ import annotations

import warnings
from typing import Any

from tinygrad_edu.arrays import devices, indexing, library
from tinygrad_edu.engine.modes import active
from tinygrad_edu.methods.common import check_broadcast, widened
from tinygrad_edu.nn.functional.activations import log_softmax
from tinygrad_edu.nn.functional.common import beside, floating_of, number_beside
from tinygrad_edu.ops import choice, index, loss
from tinygrad_edu.options import flag, integer, number
from tinygrad_edu.tensor import Tensor


@widened
def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """−Σ_c q_c w_c ln softmax(logits)_c, in nats, q = 1 − s at the target plus s/V anywhere, s = `label_smoothing`.

    Args:
        input: logits [N, V], [V] for one row, or [B, V, ...] with the classes on axis 1.
        target: class ids, integers of any width (PyTorch takes int64 and uint8 alone) [N], [] or [B, ...], from 0 to
            V − 1 or `ignore_index`; booleans raise TypeError. Or probabilities, floating,
            in the shape of the logits, which then are q (smoothed if asked for).
        weight: w, [V], of the classes; 1 where None.
        ignore_index: targets of this value add neither loss nor gradient nor count.
        size_average, reduce: the older form of `reduction`, here and below; None leaves it to that.
        reduction: "mean", "sum", or "none". The mean divides by the weights of the targets that count, added up (NaN
            where none does), and for probabilities by the number of rows.
        label_smoothing: s, from 0 to 1.

    Returns:
        A number, or for "none" the shape of the target, without the classes.

    Raises:
        IndexError: a target is out of range. ValueError: shapes or options do not fit.

    >>> round(cross_entropy([[0.0, 0.0]], [1]).item(), 4)
    0.6931
    """
    logits = floating_of(input, "cross_entropy: input")
    given = beside(target, logits, "cross_entropy: target")
    reduction = reduction_of(size_average, reduce, reduction, "cross_entropy")
    label_smoothing = number(label_smoothing, "cross_entropy: label_smoothing", 0.0, 1.0)
    ignore_index = integer(ignore_index, "cross_entropy: ignore_index")
    if given.array.dtype.kind == "f":
        if ignore_index >= 0:
            raise ValueError(
                f"cross_entropy: the target holds probabilities, so no class can be ignored, but ignore_index is "
                f"{ignore_index}; give class ids, or weight 0 for that class"
            )
        return _soft_cross_entropy(logits, given, weight, reduction, label_smoothing)
    rows, ids, wanted = _rows(logits, given, "cross_entropy")
    count = _check_targets(ids, rows, ignore_index, "cross_entropy")
    w = _class_weight(rows, weight, "cross_entropy")
    losses = loss.CrossEntropy(rows, ids, w, ignore_index=ignore_index, smoothing=label_smoothing)
    return _reduced(losses, ids, w, count, wanted, reduction, ignore_index)


@widened
def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """−w_t · log-probability of the target t; arguments and result as in `cross_entropy`, the input already ln softmax.

    >>> nll_loss([[-0.5, -2.0]], [1])
    tensor(2.)
    """
    given = floating_of(input, "nll_loss: input")
    target = beside(target, given, "nll_loss: target")
    reduction = reduction_of(size_average, reduce, reduction, "nll_loss")
    ignore_index = integer(ignore_index, "nll_loss: ignore_index")
    rows, ids, wanted = _rows(given, target, "nll_loss")
    count = _check_targets(ids, rows, ignore_index, "nll_loss")
    w = _class_weight(rows, weight, "nll_loss")
    scaled = rows if w is None else rows * w
    found = Tensor(ids.array != ignore_index)
    safe = choice.Where(found, ids, 0).reshape(-1, 1)
    picked = index.Gather(scaled, safe, axis=1).reshape(-1)
    return _reduced(choice.Where(found, -picked, 0.0), ids, w, count, wanted, reduction, ignore_index)


@widened
def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Tensor:
    """−w (p y ln σ(z) + (1 − y) ln(1 − σ(z))) of logits z and targets y, finite for logits of any size.

    Args:
        input: logits z, any shape. target: y, from 0 to 1, of the same shape.
        weight: w, broadcast to the shape. pos_weight: p, weight of the positive part.

    >>> binary_cross_entropy_with_logits([-100.0], [1.0])
    tensor(100.)
    """
    what = "binary_cross_entropy_with_logits"
    z, y = _pair(input, target, what)
    if y.array.dtype.kind != "f":
        raise TypeError(f"{what}: target must be floating, got {y.array.dtype}; convert it with .float()")
    each = loss.LogitCrossEntropy(z, y, 1.0 if pos_weight is None else _scale(pos_weight, z, f"{what}: pos_weight"))
    if weight is not None:
        each = each * _scale(weight, each, f"{what}: weight")
    return _all(each, reduction_of(size_average, reduce, reduction, what))


@widened
def binary_cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """−w (y ln p + (1 − y) ln(1 − p)) of probabilities p and targets y; logarithms are cut off at −100.

    Give logits to `binary_cross_entropy_with_logits` where they are at hand: it loses nothing near 0 and 1.
    """
    what = "binary_cross_entropy"
    p, y = _pair(input, target, what)
    if p.array.dtype != y.array.dtype:
        raise TypeError(f"{what}: input is {p.array.dtype}, target {y.array.dtype}; convert one with .to()")
    for name, x in (("input", p), ("target", y)):
        if not ((x.array >= 0) & (x.array <= 1)).all().item():  # NaN, too
            raise ValueError(f"{what}: {name} must be probabilities from 0 to 1; for logits use {what}_with_logits")
    each = loss.BinaryCrossEntropy(p, y)
    if weight is not None:
        each = each * _scale(weight, each, f"{what}: weight")
    return _all(each, reduction_of(size_average, reduce, reduction, what))


@widened
def mse_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Tensor:
    """(x − y)². Shapes that differ broadcast, with a warning. `weight`: of each element; a mean divides by their sum.

    >>> mse_loss([1.0, 2.0], [1.0, 4.0])
    tensor(2.)
    """
    x, y = _pair(input, target, "mse_loss")
    return _weighed((x - y) ** 2, x, weight, reduction_of(size_average, reduce, reduction, "mse_loss"), "mse_loss")


@widened
def l1_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Tensor:
    """|x − y|. Shapes that differ broadcast, with a warning. `weight`: of each element, as in `mse_loss`."""
    x, y = _pair(input, target, "l1_loss")
    if y.array.dtype.kind == "b":
        raise TypeError("l1_loss: target must be numbers, got bool; convert it with .float()")
    return _weighed((x - y).abs(), x, weight, reduction_of(size_average, reduce, reduction, "l1_loss"), "l1_loss")


@widened
def smooth_l1_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """(x − y)² / 2·beta where |x − y| < beta, else |x − y| − beta/2; beta is at least 0, and with 0 it is l1_loss."""
    x, y = _pair(input, target, "smooth_l1_loss")
    beta = number_beside(beta, x, "smooth_l1_loss: beta", 0.0, nan=False)
    e = x - y
    each = loss.Huber(e, bound=beta, width=beta, slope=1.0) if beta else e.abs()
    return _all(each, reduction_of(size_average, reduce, reduction, "smooth_l1_loss"))


@widened
def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None) -> Tensor:
    """(x − y)² / 2 where |x − y| < delta, else delta·(|x − y| − delta/2), times the `weight` of the element.

    The target is converted to the dtype of the input; delta is above 0, and `weight` has the input's shape.
    """
    x, y = _pair(input, target, "huber_loss")
    delta = number_beside(delta, x, "huber_loss: delta", above=0.0, nan=False)
    e = x - (y if y.array.dtype == x.array.dtype else choice.Cast(y, dtype=x.array.dtype))
    each = loss.Huber(e, bound=delta, width=1.0, slope=delta)
    if weight is not None:
        each = each * _weight_like(weight, x, "huber_loss")
    return _all(each, reduction_of(None, None, reduction, "huber_loss"))


@widened
def kl_div(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """y (ln y − x) of log-probabilities x and probabilities y (or ln y, if `log_target`); 0 where y = 0.

    reduction: "batchmean" divides the sum by the rows, which is the divergence's definition; "mean" by the elements.
    """
    x, y = _pair(input, target, "kl_div")
    if y.array.dtype.kind != "f":
        raise TypeError(f"kl_div: target must be floating, got {y.array.dtype}; convert it with .float()")
    each = y.exp() * (y - x) if flag(log_target, "kl_div: log_target") else y.xlogy(y) - y * x
    if reduction == "batchmean" and size_average is reduce is None:
        return each.sum() / (x.array.shape[0] if x.array.ndim else 1)
    return _all(each, reduction_of(size_average, reduce, reduction, "kl_div"))


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str, what: str) -> str:
    """The reduction, checked; `size_average` and `reduce` are its older form, and win where given."""
    for name, value in (("size_average", size_average), ("reduce", reduce)):
        if not isinstance(value, bool | None):
            raise TypeError(f"{what}: {name} is True, False or None, not {value!r}; reduction=... comes behind it")
    if size_average is not None or reduce is not None:
        return "none" if reduce is False else "sum" if size_average is False else "mean"
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{what}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    return reduction


def _all(each: Tensor, reduction: str) -> Tensor:
    return each if reduction == "none" else each.sum() if reduction == "sum" else each.mean()


def _weighed(each: Tensor, x: Any, weight: Any, reduction: str, what: str) -> Tensor:
    """The losses times their weights; a mean divides by the weights' sum."""
    if weight is None:
        return _all(each, reduction)
    w = _weight_like(weight, x, what)
    return (each * w).sum() / w.sum() if reduction == "mean" else _all(each * w, reduction)


def _weight_like(weight: Any, x: Any, what: str) -> Any:
    w = beside(weight, x, f"{what}: weight")
    if w.array.shape != x.array.shape:
        raise ValueError(f"{what}: weight {w.array.shape} must have the shape of the input {x.array.shape}")
    return w


def _scale(weight: Any, like: Any, what: str) -> Any:
    """A weight that broadcasts to `like` and takes on its dtype."""
    w = beside(weight, like, what)
    check_broadcast(w.array.shape, like.array.shape, what)
    return w if w.array.dtype == like.array.dtype else choice.Cast(w, dtype=like.array.dtype)


def _pair(input: Any, target: Any, what: str) -> tuple[Any, Any]:
    x = floating_of(input, f"{what}: input")
    y = beside(target, x, f"{what}: target")
    if x.array.shape != y.array.shape:
        if what.startswith("binary"):
            raise ValueError(f"{what}: input {x.array.shape} and target {y.array.shape} must have one shape")
        warnings.warn(
            f"{what}: input {x.array.shape} and target {y.array.shape} broadcast against each other, which is rarely "
            f"meant; give both one shape",
            stacklevel=4,
        )
    return x, y


def _rows(logits: Any, ids: Any, what: str) -> tuple[Any, Any, tuple[int, ...]]:
    """Logits as [N, V], ids as [N], and the shape that the losses have before they are reduced."""
    shape, wanted = logits.array.shape, ids.array.shape
    expected = shape[:1] + shape[2:] if len(shape) > 1 else ()
    if not shape or wanted != expected:
        raise ValueError(f"{what}: logits {shape} need a target of shape {expected}, got {wanted}")
    if len(shape) > 2:
        logits = logits.permute(0, *range(2, len(shape)), 1)
    if len(shape) != 2:
        logits = logits.reshape(-1, shape[1] if len(shape) > 1 else shape[0])
    return logits, ids if len(wanted) == 1 else ids.reshape(-1), wanted


def _check_targets(ids: Any, rows: Any, ignore_index: int, what: str) -> int:
    """How many targets count; raises for one that is no class."""
    if ids.array.dtype.kind not in "iu":
        raise TypeError(f"{what}: target ids must be integers, got {ids.array.dtype}; convert them with .long()")
    flat = devices.on_host(ids)
    counted = flat != ignore_index
    count = int(library.module_of(flat).count_nonzero(counted))
    indexing.check_ids(flat if count == counted.size else flat[counted], rows.array.shape[1], f"{what}: target")
    return count


def _class_weight(rows: Any, weight: Any, what: str) -> Any:
    if weight is None:
        return None
    w = beside(weight, rows, f"{what}: weight")
    if w.array.shape != rows.array.shape[1:]:
        raise ValueError(
            f"{what}: weight has shape {w.array.shape}, expected one number a class {rows.array.shape[1:]}"
        )
    if w.array.dtype == rows.array.dtype:
        if w.requires_grad and active().grad:
            raise TypeError(f"{what}: weight gets no gradient where the target holds class ids; give weight.detach()")
        return w
    if w is weight:
        raise TypeError(f"{what}: weight is {w.array.dtype}, the input {rows.array.dtype}; convert one with .to()")
    return choice.Cast(w, dtype=rows.array.dtype)


def _reduced(
    losses: Any, ids: Any, weight: Any, count: float, wanted: tuple[int, ...], reduction: str, ignore_index: int
) -> Tensor:
    if reduction == "none":
        return losses.reshape(wanted)
    if reduction == "mean" and weight is None and count == losses.array.size:
        return losses.mean()
    total = losses.sum()
    if reduction == "sum":
        return total
    if weight is not None:
        count = _weights_of(ids.array, weight.array, ignore_index)
    return total / count if count else total * float("nan")


def _weights_of(ids: Any, weight: Any, ignore_index: int) -> float:
    """The weights of the targets that count, added up."""
    counts = ids != ignore_index
    return (weight[ids * counts] * counts).sum().item()


def _soft_cross_entropy(logits: Any, target: Any, weight: Any, reduction: str, smoothing: float) -> Tensor:
    if logits.array.shape != target.array.shape:
        raise ValueError(
            f"cross_entropy: probabilities {target.array.shape} must have the shape of the logits {logits.array.shape}"
            f"; class ids must be integers: convert them with .long()"
        )
    axis = 1 if logits.array.ndim > 1 else 0
    classes = logits.array.shape[axis]
    q = target * (1.0 - smoothing) + smoothing / classes if smoothing else target
    each = q * log_softmax(logits, axis)
    if weight is not None:
        w = beside(weight, logits, "cross_entropy: weight")
        if w.array.shape != (classes,):
            raise ValueError(
                f"cross_entropy: weight has shape {w.array.shape}, expected one number a class ({classes},)"
            )
        each = each * w.reshape(-1, *(1,) * (logits.array.ndim - axis - 1))
    losses = -each.sum(axis)
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()
