"""The gradients of one batch, computed by several threads at once, each on its share of the samples."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tinygrad_edu import random
from tinygrad_edu.arrays.buffers import empty
from tinygrad_edu.engine.backward import deliver, seed_for
from tinygrad_edu.engine.modes import active, setting
from tinygrad_edu.engine.reverse import differentiate
from tinygrad_edu.kernels import crew
from tinygrad_edu.optim.flat import gradient_place
from tinygrad_edu.parallel.blas import BlasThreads
from tinygrad_edu.parallel.parts import cut, samples
from tinygrad_edu.parallel.workers import Workers

Gradients = dict[int, tuple[Any, Any]]  # id of a leaf -> the leaf, and an array


class _Share(NamedTuple):
    """What one thread found: the summed loss, the labels it counted, the gradient of the sum for each leaf, and the
    random stream as it left it."""

    loss: float
    labels: int
    gradients: Gradients
    generator: random.Generator


class Shards:
    """One step as shards over threads: each takes samples of the batch, with a tape and gradients of its own.

    A matrix product is split over threads well only where it is large, everything else in a step not at all; a share
    of the batch is split as a whole. So every thread here computes its products alone (one BLAS thread), and the
    gradients are added at the end. The result does not depend on n beyond rounding: dropout goes by a sample's index
    in the whole batch.

    n: the number of threads, the caller's among them; None for the processor cores this process may use. A batch with
    fewer samples than n makes fewer shards; where there is only one, its products use the n threads. The number of
    BLAS threads belongs to the process: inside the `with` block it is 1 for everybody, afterwards what it was.

    Raises ValueError for n below 1, RuntimeError where it is used outside its `with` block.

    >>> import numpy as np, tinygrad_edu as tg
    >>> class Mean:
    ...     def __init__(self):
    ...         self.w = tg.tensor(0.0, requires_grad=True)
    ...     def loss(self, batch):
    ...         return ((self.w - tg.tensor(batch[0])) ** 2).sum(), len(batch[0])
    >>> model = Mean()
    >>> with Shards(2) as shards:
    ...     shards.backward(model, (np.array([1.0, 2.0, 6.0], np.float32),))
    (41.0, 3)
    >>> model.w.grad
    tensor(-6.)
    """

    _workers: Workers | None = None
    _blas: BlasThreads | None = None
    _offer: crew.Offer | None = None

    def __init__(self, n: int | None = None) -> None:
        if n is not None and (isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1):
            raise ValueError(f"Shards: n is {n!r}; it counts threads, so give 1 or more, or None for one per core")
        self.n = _cores() if n is None else int(n)

    def __enter__(self) -> Shards:
        if self._workers is not None:
            raise RuntimeError("Shards: already entered; make another object for another `with` block")
        try:
            self._blas = BlasThreads()
            self._blas.limit(1)
            self._workers = Workers(self.n)
            self._offer = crew.Offer(self._workers.run, self.n)
            self._offer.make()
            return self
        except BaseException:
            self._close()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            self._close()
        except BaseException:  # of a signal handler: what is left to do is done before it is raised
            self._close()
            raise

    def _close(self) -> None:
        """Give everything back; what was given back already is passed over."""
        if self._offer is not None:
            self._offer.withdraw()
        if self._blas is not None:
            self._blas.restore()
        if self._workers is not None:
            self._workers.close()
        self._workers = self._blas = self._offer = None

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not ending():
            self._close()

    def backward(self, model: Any, batch: Any) -> tuple[float, int]:
        """Add the gradients of the batch's mean loss to `.grad` of every leaf, and return (summed loss, count).

        model: `model.loss(batch)` gives (sum, count), a Tensor of one element and the number of labels in it. batch: a
        tuple, named or not, of arrays, Tensors or lists with samples on axis 0, all as many; numbers and None in it go
        to every shard. The mean is the sum over all shards by their common count; where no label counts, no `.grad`
        changes.

        ValueError for parts of different lengths or without samples, TypeError for a batch that is no tuple. Where
        `model.loss` or a rule raises in one shard, all shards are waited for, no `.grad` has changed, and that
        exception is raised. So it is with the exception of a signal handler, such as KeyboardInterrupt, whenever it
        comes; a second one ends the waiting.
        """
        workers, blas = self._workers, self._blas
        if workers is None or blas is None:
            raise RuntimeError("Shards: backward works inside the block: `with Shards() as shards: ...`")
        rows = samples(batch, "Shards.backward")
        mode = active()
        count = min(self.n, rows) if mode.trace is None else 1  # a trace is told of ops in one order
        edges = [rows * i // count for i in range(count + 1)]
        blas.limit(1 if count > 1 else self.n)
        state = random.current().get_state()
        turns = [threading.Lock() for _ in range(0, count, 2)]  # one for two threads

        def share(i: int) -> _Share:
            generator = random.Generator()
            generator.set_state(state)
            own = batch if count == 1 else cut(batch, edges[i], edges[i + 1])
            with (
                setting(generator=generator, first_sample=mode.first_sample + edges[i]),
                crew.taking_turns(turns[i // 2]),
            ):
                return _Share(*_loss_and_gradients(model, own), generator)

        collecting = gc.isenabled()
        try:
            gc.disable()  # a tape makes no cycles, and one thread's collection stops all of them
            shares = workers.run(share, count)
        finally:
            if collecting:
                gc.enable()
        labels = sum(s.labels for s in shares)
        if labels:
            self._deliver(workers, [s.gradients for s in shares if s.labels], labels)
        random.current().set_state(shares[0].generator.get_state())
        return sum(s.loss for s in shares), labels

    def _deliver(self, workers: Workers, tables: list[Gradients], labels: int) -> None:
        """Add Σ_shards gradient / labels to each leaf's `.grad`; the sums are shared out over the threads too."""
        holders = {key: holder for table in tables for key, (holder, _) in table.items()}
        keys = sorted(holders, key=lambda key: -holders[key].array.size)
        parts = min(self.n, len(keys)) or 1

        def means(i: int) -> list[tuple[int, Any]]:
            return [
                (key, _mean([t[key][1] for t in tables if key in t], labels, gradient_place(holders[key])))
                for key in keys[i::parts]
            ]

        found = [(holders[key], gradient, True) for part in workers.run(means, parts) for key, gradient in part]
        deliver(found)


def _loss_and_gradients(model: Any, batch: Any) -> tuple[float, int, Gradients]:
    loss, count = model.loss(batch)
    if not count:
        return loss.item(), 0, {}
    if not loss.requires_grad:
        raise RuntimeError("Shards.backward: the loss needs no gradient: nothing it came from has requires_grad=True")
    found = differentiate([loss], [seed_for(loss, None, "Shards.backward")])
    gradients = {
        id(a.holder): (a.holder, getattr(a.gradient, "array", a.gradient))
        for a in found.values()
        if a.holder is not None
    }
    return loss.item(), count, gradients


def _mean(parts: list[Any], labels: int, place: np.ndarray | None) -> Any:
    """Σ parts / labels in memory of its own, in `place` if there is one."""
    if not isinstance(parts[0], np.ndarray):
        return sum(parts[1:], parts[0]) * (1 / labels)
    total = empty(parts[0].shape, parts[0].dtype) if place is None else place
    if len(parts) == 1:
        return np.multiply(parts[0], 1 / labels, out=total)
    np.add(parts[0], parts[1], out=total)
    for part in parts[2:]:
        total += part
    total *= 1 / labels
    return total


def _cores() -> int:
    """The processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
