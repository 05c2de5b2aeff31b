"""The training loop: draw, backward, clip, step, measure; and all that is needed to go on after a stop."""

import dataclasses
import math
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tinygrad_edu import random
from tinygrad_edu.data import DataError, Source, TextSource, Tokenizer
from tinygrad_edu.data.checked import check_fields, check_options, unusable
from tinygrad_edu.generation import Model
from tinygrad_edu.nn.utils import clip_grad_norm_
from tinygrad_edu.optim import Optimizer, decay_groups
from tinygrad_edu.parallel.parts import divided
from tinygrad_edu.training.checkpoint import CheckpointError, save_checkpoint
from tinygrad_edu.training.config import TrainConfig
from tinygrad_edu.training.divergence import first_fault
from tinygrad_edu.training.evaluation import evaluate
from tinygrad_edu.training.metrics import Best, Metrics, Pace, Smoothed
from tinygrad_edu.training.optimization import optimizer_of, schedule_of, set_momentum

Backward = Callable[[Model, Any], tuple[float, int]]  # a model, and a batch as its `loss` takes it

# what `load_state` needs; "data" and "smoothed" are not in the oldest states
_STATE = {
    "step": int,
    "tokens": int,
    "seconds": float,
    "unwritten": tuple[float, int],
    "best": dict,
    "text_sha256": str,
    "data": dict[str, int],
    "order": dict[str, int],
    "random": dict[str, int],
    "optimizer_steps": dict[str, int],
}
_EVALUATION_POSITIONS = 4096  # in one batch of an evaluation: enough to keep the processor busy, little memory


class TrainingError(RuntimeError):
    """Training cannot go on: the loss, a gradient or a weight is no longer finite."""


@dataclasses.dataclass(frozen=True)
class Report:
    """What one step did. loss: mean over its batch, nats. norm: of all gradients together, before clipping.

    tokens, seconds: labels of the batch, time for it without measuring. smoothed: `Smoothed` up to this step, nats.
    flops: operations of the matrix products, None where the model does not say.
    metrics: the line for metrics.jsonl, where one is due. best: a validation loss below all before was measured.
    """

    step: int
    loss: float
    norm: float
    tokens: int
    seconds: float
    smoothed: float
    flops: int | None
    metrics: Metrics | None
    best: bool


def backward(model: Model, batch: Any) -> tuple[float, int]:
    """(summed loss, counted labels) of a batch; leaves the gradients of the mean loss, none where no label counts."""
    total, count = model.loss(batch)
    if count:
        (total / count).backward()
    return total.item(), count


class Trainer:
    """Trains a model to predict the next token of a text; iterate over it for a `Report` of each step.

    Two streams of random numbers decide everything: the default one, for dropout, and one of its own for the order of
    the data, both begun from `config.seed`; both are part of `state`.

    model: `model.loss(batch)` gives (summed cross-entropy, count of labels); `model.flops(batch, training=True)`, where
    it has that, the operations of a step. data: the text's ids [N], of which the
    last `config.val_fraction` is measured on, or a source of batches. backward: how a batch becomes a loss and
    gradients of the mean; an object that shares the batch among threads takes this one's place. threads: how many
    measure at a time, see `evaluate`.
    optimizer: makes one from the parameter groups; what the config says unless given.

    Raises DataError for a text that is too short, ValueError for ids that the model has no row for. While it runs:
    TrainingError for a loss or gradient that is not finite, naming the op that made the first NaN or infinity; the
    weights are those of the step before then.

        trainer = Trainer(model, ids, TrainConfig(steps=100))
        for report in trainer:
            print(report.step, report.loss)
    """

    def __init__(
        self,
        model: Model,
        data: np.ndarray | Source,
        config: TrainConfig,
        backward: Backward = backward,
        threads: int = 1,
        optimizer: Callable[[Any], Optimizer] | None = None,
    ) -> None:
        if isinstance(data, np.ndarray):
            data = TextSource(data, config.block_size, config.val_fraction)
        size = model.config.vocab_size
        if data.largest >= size:
            raise ValueError(f"the text holds token id {data.largest}, but the model's vocab_size is {size}")
        self.model, self.data, self.config, self.backward, self.threads = model, data, config, backward, threads
        if optimizer is None:
            self.optimizer = optimizer_of(model, config)
        else:
            self.optimizer = optimizer(decay_groups(model, config.weight_decay))
        self.schedule = schedule_of(self.optimizer, config)
        # a stream of its own, far from the one of initial weights and dropout
        self.order = random.Generator(config.seed + (1 << 63))
        self.best, self.smoothed, self.pace = Best(), Smoothed(), Pace()
        self.step, self.tokens, self.seconds = 0, 0, 0.0
        self.unwritten = (0.0, 0)  # summed loss and labels since the last line of metrics
        self._work: dict[Any, int] = {}  # shapes of a batch -> operations

    @property
    def finished(self) -> bool:
        """Whether all steps are done, or patience is at its end."""
        return self.step >= self.config.steps or 0 < self.config.patience <= self.best.since

    def __iter__(self) -> Iterator[Report]:
        while not self.finished:
            yield self.advance()

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")  # what is not finite is reported by _update
    def advance(self) -> Report:
        """Do one step, and what is due after it."""
        config, start = self.config, time.perf_counter()
        drawn = self.data.draw(config.batch_size * config.accumulation, self.order)
        batches = divided(drawn, config.accumulation, "accumulation")
        stream = random.current().get_state()
        total, count = self._gradients(batches)
        norm = self._norm(count)
        if not (math.isfinite(total) and math.isfinite(norm)):
            raise self._diverged(total / max(count, 1), norm, first_fault(self.model, batches, stream, backward))
        if count:  # without a label there is no gradient: the step is skipped
            set_momentum(self.optimizer, config, self.step)
            self.optimizer.step()
            self.smoothed.add(total / count)
        loss = total / max(count, 1)
        self.step += 1
        self.tokens += count
        self.unwritten = (self.unwritten[0] + total, self.unwritten[1] + count)
        lr = self.schedule.get_last_lr()[0]
        self.schedule.step()
        taken = time.perf_counter() - start
        flops = self._flops(drawn)
        self.pace.add(count, flops, taken)
        due = bool(config.eval_every) and self.step % config.eval_every == 0
        val_loss = self.measure() if due or self.step == config.steps else None
        best = val_loss is not None and self.best.improves(self.step, val_loss)
        self.seconds += time.perf_counter() - start
        metrics = None
        if val_loss is not None or self.step % config.log_every == 0:
            metrics = self._metrics(val_loss, lr)
        return Report(self.step, loss, norm, count, taken, self.smoothed.value, flops, metrics, best)

    def _flops(self, batch: Any) -> int | None:
        if not hasattr(self.model, "flops"):
            return None
        shape = tuple(np.shape(part) for part in batch)
        if shape not in self._work:
            self._work[shape] = self.model.flops(batch, training=True)
        return self._work[shape]

    def _metrics(self, val_loss: float | None, lr: float) -> Metrics:
        mean = self.unwritten[0] / max(self.unwritten[1], 1)
        pace, self.pace, self.unwritten = self.pace, Pace(), (0.0, 0)
        speed = pace.flops_per_second
        return Metrics(
            self.step,
            mean,
            val_loss,
            lr,
            self.tokens,
            round(self.seconds, 3),
            self.smoothed.value if self.smoothed.weight else None,
            round(pace.tokens_per_second, 1),
            None if speed is None else round(speed),
        )

    def measure(self) -> float:
        """Mean loss over the whole validation part, in nats a token."""
        rows = max(1, _EVALUATION_POSITIONS // self.config.block_size)
        return evaluate(self.model, self.data.held_out(rows), self.threads).loss

    def _gradients(self, batches: list[Any]) -> tuple[float, int]:
        """(summed loss, counted labels) of the batches of a step; leaves the gradients of their common mean."""
        if len(batches) == 1:
            self.optimizer.zero_grad()
            return self.backward(self.model, batches[0])
        total, count = 0.0, 0
        sums: dict[int, Any] = {}
        parameters = list(self.model.parameters())
        for batch in batches:
            self.optimizer.zero_grad()
            part, counted = self.backward(self.model, batch)
            total, count = total + part, count + counted
            for p in parameters:
                if p.grad is not None:
                    sums[id(p)] = sums.get(id(p), 0) + p.grad.detach() * counted
        for p in parameters:
            p.grad = sums[id(p)] / count if id(p) in sums else None
        return total, count

    def _norm(self, count: int) -> float:
        """The norm of all gradients together, which are then clipped."""
        return float(clip_grad_norm_(self.model.parameters(), self.config.clip or math.inf)) if count else 0.0

    def _diverged(self, loss: float, norm: float, fault: str) -> TrainingError:
        what, value = ("loss", loss) if not math.isfinite(loss) else ("norm of the gradients", norm)
        return TrainingError(
            f"the {what} became {value} in step {self.step + 1}, so training stopped before it changed the weights; "
            f"{fault}; {self._remedy()}"
        )

    def _remedy(self) -> str:
        return f"try a lower lr (now {self.schedule.get_last_lr()[0]:.3g}), a longer warmup or a smaller clip"

    def weights(self) -> dict[str, np.ndarray]:
        """Name to array of every parameter and saved buffer, one that goes by several names under its first."""
        return weights_of(self.model)

    def save(self, folder: str | os.PathLike[str], name: str, tokenizer: Tokenizer, *, resumable: bool = True) -> None:
        """Write a checkpoint; name: what the model is called there. resumable: to go on from, with the training state.

        Raises TrainingError as `check_finite` does, OSError where writing fails; then the folder keeps what it had.
        """
        self.check_finite()
        state, tensors = self.state() if resumable else (None, None)
        save_checkpoint(
            folder,
            model=name,
            config=dataclasses.asdict(self.model.config),
            tokenizer=tokenizer,
            weights=self.weights(),
            state=state,
            tensors=tensors,
        )

    def check_finite(self) -> None:
        """Raise TrainingError where the last step left weights, or a state of the optimizer, that could not be loaded
        again: NaN, infinity, or weights whose squares are infinite."""
        fault = unusable(self.weights())
        if not fault:
            names = {id(p): name for name, p in self.model.named_parameters()}
            kept = ((p, slot, x) for p, entry in self.optimizer.state.items() for slot, x in entry.items())
            bad = (
                f"{slot} of {names[id(p)]}" for p, slot, x in kept if slot != "step" and not _finite(slot, x.numpy())
            )
            fault = next((f"numbers that are not finite in the optimizer's {of}" for of in bad), "")
        if fault:
            raise TrainingError(
                f"step {self.step} left {fault}, so training stopped and nothing of it was saved; {self._remedy()}"
            )

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Everything but the weights that the next step depends on: JSON values, and arrays by name."""
        optimizer = self.optimizer.state_dict()
        names = [name for group in optimizer["param_groups"] for name in group["param_names"]]
        entries = {names[number]: entry for number, entry in optimizer["state"].items()}
        state = {
            "step": self.step,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "unwritten": list(self.unwritten),
            "best": dataclasses.asdict(self.best),
            "smoothed": dataclasses.asdict(self.smoothed),
            "training": dataclasses.asdict(self.config),
            "text_sha256": self.data.fingerprint,
            "order": self.order.get_state(),
            "data": self.data.state(),
            "random": random.default_generator.get_state(),
            "optimizer_steps": {name: entry["step"] for name, entry in entries.items()},
        }
        tensors = {
            f"{slot}/{name}": kept.numpy()
            for name, entry in entries.items()
            for slot, kept in entry.items()
            if slot != "step"
        }
        return state, tensors

    def load_state(self, state: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
        """Go on from what `state` gave, under this trainer's own config (more steps, another learning rate).

        Raises CheckpointError where something is missing or belongs to another model or text; nothing is changed then.
        """
        try:
            check_fields({"data": {}, **state}, _STATE, "the state")
            for name, kind in (("best", Best), ("smoothed", Smoothed)):
                check_options(kind, state.get(name, {}), f"the state: {name}")
            counted = {
                **{name: state[name] for name in ("step", "tokens", "seconds")},
                "unwritten": state["unwritten"][1],
                "best": state["best"].get("since", 0),
                **{f"{name} {part}": n for name in ("order", "random") for part, n in state[name].items()},
                **{f"optimizer_steps of {name}": n for name, n in state["optimizer_steps"].items()},
            }
            if wrong := [name for name, n in counted.items() if not 0 <= n < 1 << 64]:
                raise DataError(f"the state: {wrong[0]} is out of range")
            step, best = state["step"], Best(**state["best"])
            if over := [n for n in (best.step, *state["optimizer_steps"].values()) if n is not None and n > step]:
                raise DataError(f"the state: step is {step}, but other parts of it are of step {max(over)}")
            if state["text_sha256"] != self.data.fingerprint:
                raise CheckpointError(
                    "the text differs from the one this run was started on; resume with the same data file, or train "
                    "anew with another --out"
                )
            groups = self.optimizer.state_dict()["param_groups"]
            numbers = {name: n for group in groups for name, n in zip(group["param_names"], group["params"])}
            slots: dict[int, dict[str, Any]] = {
                numbers[name]: {"step": step} for name, step in state["optimizer_steps"].items()
            }
            for key, kept in tensors.items():
                slot, _, name = key.partition("/")
                if not _finite(slot, kept):
                    raise DataError(f"the optimizer's {key} is not made of finite floating-point numbers")
                slots[numbers[name]][slot] = kept
            order, stream = random.Generator(), random.Generator()
            order.set_state(state["order"])
            stream.set_state(state["random"])
            loss, labels = state["unwritten"]
            smoothed = Smoothed(**state.get("smoothed", {}))
            tokens, seconds = state["tokens"], float(state["seconds"])
            self.data.load_state(state.get("data", {}))
            self.optimizer.load_state_dict({"state": slots, "param_groups": groups})
        except CheckpointError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(f"the training state lacks something or is of another model: {error}") from None
        self.schedule.load_state_dict({**self.schedule.state_dict(), "last_step": step})
        random.default_generator.set_state(stream.get_state())
        self.best, self.smoothed, self.order, self.unwritten = best, smoothed, order, (float(loss), int(labels))
        self.step, self.tokens, self.seconds = step, tokens, seconds


def _finite(slot: str, kept: np.ndarray) -> bool:
    """Whether what an optimizer keeps in a slot are numbers to go on from."""
    # a mean of squares may be infinite: its weight rests then
    allowed = np.isfinite(kept) | np.isposinf(kept) if slot.endswith("_sq") else np.isfinite(kept)
    return kept.dtype.kind == "f" and bool(allowed.all())


def weights_of(model: Model) -> dict[str, np.ndarray]:
    """Name to array of every parameter and saved buffer of a model, one that goes by several names under its first."""
    first = {name for name, _ in (*model.named_parameters(), *model.named_buffers())}
    return {name: tensor.numpy() for name, tensor in model.state_dict().items() if name in first}
