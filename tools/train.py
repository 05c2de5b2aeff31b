"""Train a model on a text: python -m tools.train {bigram,gpt} [options]."""

import dataclasses
import itertools
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from models import MODELS
from tinygrad_edu import random
from tinygrad_edu.arrays.devices import check_device
from tinygrad_edu.data import KINDS, Tokenizer
from tinygrad_edu.files import (
    TEMPORARY,
    check_writable,
    flush_folder,
    make_folder,
    refuse_link,
    remove,
    write_atomically,
)
from tinygrad_edu.parallel import Shards
from tinygrad_edu.training import (
    Checkpoint,
    TrainConfig,
    Trainer,
    TrainingError,
    load_checkpoint,
    read_metrics,
)
from tinygrad_edu.training.checkpoint import CONFIG, FILES, NEXT
from tools import corpus
from tools.cli import Parser, UserError, complain, run, say, steady_output, unknown, users_mistakes
from tools.limits import check_memory, check_threads
from tools.lock import locked
from tools.plot import plot_losses
from tools.presets import PRESETS as PRESETS
from tools.progress import Display as Display
from tools.record import EVENTS, METRICS, Record, check_tensorboard, record_files

_BEST = "best"
# training options that a resumed run keeps
_MADE = ("tokenizer", "vocab_size")  # options that the weights of another run are made for
_FIXED = ("seed", "optimizer", "tokenizer", "vocab_size", "documents", "answer_only")
# of a model's Config: the text decides the first, a training option the second, and images are rendered in one size
_HIDDEN = ("vocab_size", "block_size", "height", "length")


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """Where a run comes from and where it goes."""

    preset: str = ""
    """A named set of defaults, listed below; options given beside it win. Without one: the first in the list."""

    out: str = ""
    """Folder for all files of the run. Without one: the first that is free of runs/MODEL, runs/MODEL-2, ..."""

    resume: str = ""
    """Folder of a stopped run to go on with, just as if it had not stopped; its options are the defaults."""

    init_from: str = ""
    """Folder of a run, or of weights alone, to start a new run from: with its model and tokenizer, at step 0, with a
    fresh optimizer."""

    device: str = "cpu"
    """Where to compute: cpu, cuda or cuda:1."""

    overwrite: bool = False
    """Let a new run take the place of the one in the folder given by --out."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """A command line understood: what to train, how, and what to go on from."""

    name: str
    run: RunOptions
    training: TrainConfig
    model: dict[str, Any]  # options of the model's Config, without the hidden ones
    checkpoint: Checkpoint | None  # of --resume or --init-from
    stamp: tuple[int, ...] | None = None  # of its folder when it was read


def understand(arguments: list[str]) -> Plan:
    """The plan that the arguments describe; raises UserError for the first that is wrong."""
    if not arguments or arguments[0].startswith("-"):
        if {"-h", "--help"} & set(arguments):
            _parser("gpt", PRESETS["gpt"]["nano-cpu"], "{" + ",".join(MODELS) + "}").parse(["--help"])
        raise UserError(f"name the model first: python -m tools.train {{{','.join(MODELS)}}} [options]")
    name, rest = arguments[0], arguments[1:]
    if name not in MODELS:
        raise UserError(unknown("model", name, MODELS))
    # which preset or stopped run gives the defaults of all options is found out first
    first = Parser("train", "", add_help=False)
    first.add_options(RunOptions(), "run")
    options = first.parse_known_args(rest)[0].run
    presets = PRESETS[name]
    preset = options.preset or next(iter(presets))
    if preset not in presets:
        raise UserError(unknown(f"preset of {name}", preset, presets))
    checkpoint, defaults, stamp = None, presets[preset], None
    if options.resume and options.init_from:
        raise UserError("--resume goes on with a run, --init-from starts a new one; give one of them")
    if given := options.resume or options.init_from:
        stamp = _stamp(Path(given))
        checkpoint = load_checkpoint(given, resume=bool(options.resume))
        if checkpoint.model != name:
            raise UserError(
                f"{given} holds a {checkpoint.model!r}, not a {name!r}; name the model that it holds, or train a "
                f"{name} anew without {'--resume' if options.resume else '--init-from'}"
            )
        checkpoint.options(MODELS)  # of their types, before they are the defaults of options
        defaults = _defaults(checkpoint, defaults)
    found = _parser(name, defaults).parse(rest)
    plan = Plan(
        name, RunOptions(**vars(found.run)), TrainConfig(**vars(found.training)), vars(found.model), checkpoint, stamp
    )
    if checkpoint is not None:
        _check_unchanged(plan, {**dataclasses.asdict(TrainConfig()), **defaults})
    return plan


def _defaults(checkpoint: Checkpoint, preset: dict[str, Any]) -> dict[str, Any]:
    """The defaults of a run that goes on: its own options. Of a new one from weights: the preset, but their shape."""
    shape = {field: value for field, value in checkpoint.config.items() if field != "vocab_size"}
    if checkpoint.state is None:
        return preset | shape
    return {name: value for name, value in shape.items() if name not in _HIDDEN} | checkpoint.training()


def _check_unchanged(plan: Plan, defaults: dict[str, Any]) -> None:
    """Raises UserError for an option that another run has decided for this one."""
    resumed = bool(plan.run.resume)
    now = {**plan.model, **{name: getattr(plan.training, name) for name in (_FIXED if resumed else _MADE)}}
    if resumed or (plan.checkpoint is not None and "block_size" in plan.checkpoint.config):
        now["block_size"] = plan.training.block_size
    changed = [field for field, value in now.items() if value != defaults.get(field, value)]
    if resumed and plan.run.preset:
        changed.append("preset")
    if changed:
        why = "when a run is resumed" if resumed else "with --init-from, since the weights are made for it"
        raise UserError(f"{changed[0]} cannot change {why}; train anew with another --out")


def _parser(name: str, defaults: dict[str, Any], shown: str = "") -> Parser:
    parser = Parser(
        f"train {shown or name}",
        f"Train a {name} on a text and write all there is to know about the run into a folder.",
    )
    parser.epilog = f"presets of {name}: {', '.join(PRESETS[name])}"
    config = MODELS[name][1]
    training = {f.name for f in dataclasses.fields(TrainConfig)}
    model = {f.name for f in dataclasses.fields(config)} - set(_HIDDEN)
    parser.add_options(RunOptions(), "run")
    parser.add_options(TrainConfig(**{k: v for k, v in defaults.items() if k in training}), "training")
    parser.add_options(
        config(vocab_size=1, **{k: v for k, v in defaults.items() if k in model}), "model", hidden=_HIDDEN
    )
    return parser


def build(plan: Plan) -> tuple[Trainer, Tokenizer]:
    """The trainer, ready for its next step. Raises ValueError for what the plan asks wrongly; writes nothing."""
    device = check_device(plan.run.device)
    config = plan.training
    task = MODELS[plan.name][0].task
    source, tokenizer = corpus.load(config, plan.checkpoint.tokenizer if plan.checkpoint else None, task)
    check_threads(config.threads)
    check_tensorboard(config)
    check_memory(plan.model, len(tokenizer), config.batch_size, config.block_size, config.accumulation)
    for name in ("data", "tokenizer"):  # found again when the run is resumed from another folder
        path = getattr(config, name)
        if path and path not in KINDS:
            config = dataclasses.replace(config, **{name: os.path.abspath(path)})
    random.manual_seed(config.seed)
    model: Any
    if plan.checkpoint is None:
        make: Any
        make, options = MODELS[plan.name]
        sizes = {"vocab_size": len(tokenizer), "block_size": config.block_size}
        fields = {f.name for f in dataclasses.fields(options)}
        model = make(options(**plan.model, **{key: size for key, size in sizes.items() if key in fields}))
    else:
        model = plan.checkpoint.build(MODELS)
    trainer = Trainer(model.to(device), source, config)
    if plan.checkpoint is not None and plan.run.resume:
        trainer.load_state(plan.checkpoint.state or {}, plan.checkpoint.tensors or {})
        if trainer.step > config.steps:
            raise UserError(
                f"{plan.run.resume} is already at step {trainer.step}, so steps cannot be {config.steps}; give --steps "
                f"{trainer.step + 1} or more"
            )
        if (metrics := Path(plan.run.resume) / METRICS).exists():
            read_metrics(metrics)  # a damaged one is found now
    return trainer, tokenizer


def prepare_folder(plan: Plan) -> Path:
    """The folder that the run writes to, there and writable. Raises UserError where it is not, or holds another run."""
    options = plan.run
    folder = Path(options.out or options.resume or _free(Path("runs") / plan.name))
    _check_run_in(folder, plan)
    for name in (_BEST, EVENTS):
        refuse_link(folder / name)
    try:
        make_folder(folder)
        check_writable(folder)
    except OSError as error:
        raise UserError(f"output folder {folder} cannot be written ({error.strerror}); choose another --out") from None
    return folder


def _check_run_in(folder: Path, plan: Plan) -> None:
    """Raises UserError where the folder holds a run that is not to be replaced, or not the one that was read."""
    if _goes_on(plan, folder):
        if _stamp(folder) != plan.stamp:
            raise UserError(f"another run has meanwhile gone on with {folder}; give the command once more")
    elif (folder / CONFIG).exists() and not plan.run.overwrite:
        raise UserError(
            f"{folder} already holds a run; go on with it by --resume {folder}, choose another --out, or give "
            f"--overwrite to replace it"
        )


def _stamp(folder: Path) -> tuple[int, ...] | None:
    """What changes with every save into a folder."""
    with suppress(OSError):
        found = (folder / CONFIG).stat()
        return found.st_ino, found.st_mtime_ns, found.st_size
    return None


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _goes_on(plan: Plan, folder: Path) -> bool:
    return bool(plan.run.resume) and folder.exists() and folder.samefile(plan.run.resume)


def _free(folder: Path) -> Path:
    candidates = (folder if n == 1 else folder.with_name(f"{folder.name}-{n}") for n in range(1, sys.maxsize))
    return next(candidate for candidate in candidates if not candidate.exists())


class Interruption:
    """`signal` is the number of the signal that asked to stop, 0 as long as none did."""

    signal = 0


@contextmanager
def stop_politely() -> Iterator[Interruption]:
    """Within the block, the first Ctrl-C, SIGTERM or SIGHUP is only noted, so that a step is finished and saved. A
    Ctrl-C after it, or a second SIGTERM, interrupts at once; a closed terminal may well send several SIGHUPs.

    SIGHUP is left alone where it is ignored, as under nohup.
    """
    asked = Interruption()
    seen: set[int] = set()

    def note(number: int, _: Any) -> None:
        if (number in seen or (seen and number == signal.SIGINT)) and number != hangup:
            raise KeyboardInterrupt(number)
        seen.add(number)
        asked.signal = asked.signal or number

    hangup = getattr(signal, "SIGHUP", None)  # Windows knows none
    noted: list[int] = [signal.SIGINT, signal.SIGTERM]
    if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:
        noted.append(hangup)
    before: dict[int, Any] = {}
    try:
        for number in noted:
            before[number] = signal.getsignal(number)
            signal.signal(number, note)
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main(arguments: list[str]) -> int:
    """Train as the arguments say; the exit code: 0, 1 where training diverged, 128 + signal where it was stopped."""
    with steady_output("train"):
        with users_mistakes():
            plan = understand(arguments)
        try:
            return _train(plan)
        except MemoryError as error:
            sizes = {"batch_size": plan.training.batch_size, "block_size": plan.training.block_size, **plan.model}
            named = ", ".join(f"{name} {size}" for name, size in sizes.items() if type(size) is int)
            why = f" ({error})" if str(error) else ""
            raise UserError(f"there is not enough memory for {named}; choose smaller ones{why}") from None


def _train(plan: Plan) -> int:
    with users_mistakes():
        trainer, tokenizer = build(plan)
    config, start = plan.training, trainer.step
    problem = None
    with ExitStack() as stack, users_mistakes((OSError,)):
        # before anything is made in the folder: a signal that ended the process there would leave it
        asked = stack.enter_context(stop_politely())
        with users_mistakes():
            folder = prepare_folder(plan)
        stack.callback(_remove_if_empty, folder)  # where not one step was possible
        lock = stack.enter_context(locked(folder))
        _check_run_in(folder, plan)  # what was so before the lock may have changed
        say(
            f"{plan.name}: {sum(p.numel() for p in trainer.model.parameters()):,} parameters, "
            f"{trainer.data.tokens:,} tokens of {len(tokenizer)} kinds to train on, "
            f"steps {start} to {config.steps}, into {folder}",
            flush=True,
        )
        record: Record | None = None
        if plan.run.device == "cpu":
            shards = stack.enter_context(Shards(config.threads or None))
            trainer.backward, trainer.threads = shards.backward, shards.n
        display = stack.enter_context(Display(start, config.steps))
        saved, untouched = None, False
        try:
            while not (trainer.finished or asked.signal):
                report = trainer.advance()
                lock.check()
                if record is None:
                    record = _begin(plan, folder, trainer, start)
                display.show(report)
                if report.metrics is not None:
                    record.append(report.metrics)
                measured = report.metrics is not None and report.metrics.val_loss is not None
                if report.best and config.keep_best:
                    _save_best(trainer, folder, plan.name, tokenizer)
                if report.step % config.save_every == 0 if config.save_every else measured:
                    trainer.save(folder, plan.name, tokenizer)
                    saved = report.step
            lock.check()
            untouched = bool(asked.signal) and record is None and not trainer.finished
            if saved != trainer.step and not untouched:
                if record is None:
                    record = _begin(plan, folder, trainer, start)
                trainer.save(folder, plan.name, tokenizer)
        except TrainingError as error:
            problem = str(error)
        lock.check()
        if record is not None:
            plot_losses(read_metrics(folder / METRICS), folder)
    if untouched:
        say("stopped before the first step, so nothing was written; give the same command to begin again")
        return 128 + asked.signal
    return _farewell(plan, trainer, tokenizer, folder, asked.signal, problem)


def _begin(plan: Plan, folder: Path, trainer: Trainer, step: int) -> Record:
    """Give the folder to this run, begun at `step`, now that its first step has shown that it works: the old one's
    files go, and what a killed one was writing. Raises TrainingError, as `Trainer.check_finite`, before they go."""
    for left in [*folder.glob(TEMPORARY), *(folder / _BEST).glob(TEMPORARY)]:
        left.unlink(missing_ok=True)
    if plan.run.resume and step and not (old := Path(plan.run.resume) / METRICS).exists():
        complain("train", f"{old} is missing: the record begins anew after step {step}")
    if not _goes_on(plan, folder):
        trainer.check_finite()
        clear(folder)
        if plan.run.resume and (old := Path(plan.run.resume) / METRICS).exists():
            write_atomically(folder / METRICS, old.read_bytes(), follow=False)
    return Record(folder, step, plan.training.tensorboard)


def clear(folder: Path) -> None:
    """Remove the files of a run, config.json first: without it the others count as no checkpoint, so a crash in between
    leaves the whole old run or none.

    Raises OSError where one of them is no file: then none is removed.
    """
    names = [CONFIG, *(file + end for file in FILES for end in ("", NEXT)), "loss.png", "loss.svg"]
    best = folder / _BEST
    folders = [folder, best] if best.is_dir() else [folder]
    remove(path for one in folders for path in (*(one / name for name in names), *record_files(one)))
    for inner in (best / EVENTS, best, folder / EVENTS):
        _remove_if_empty(inner)
    flush_folder(folder)


def _save_best(trainer: Trainer, folder: Path, name: str, tokenizer: Tokenizer) -> None:
    make_folder(folder / _BEST, follow=False)
    try:
        trainer.save(folder / _BEST, name, tokenizer, resumable=False)
    finally:
        _remove_if_empty(folder / _BEST)


def _farewell(
    plan: Plan, trainer: Trainer, tokenizer: Tokenizer, folder: Path, stopped: int, problem: str | None
) -> int:
    """Say how the run ended, where its files are and what to do next; the exit code."""
    if problem is not None:
        complain("train", problem)
        return 1
    again = f"python -m tools.train {plan.name} --resume {shlex.quote(str(folder))}"
    if stopped and not trainer.finished:
        say(f"stopped at step {trainer.step} of {plan.training.steps}, saved in {folder}; go on with: {again}")
        return 128 + stopped
    best = trainer.best
    say(f"done: {trainer.step} steps in {trainer.seconds:.0f} s; ", end="")
    if best.loss is None:
        say("no validation loss was finite, so there is no best one")
    else:
        say(f"lowest validation loss {best.loss:.4f} nats per token, at step {best.step}")
    say(f"files in {folder}: weights model.safetensors, record {METRICS}, plot loss.png and loss.svg")
    say(_try(trainer, tokenizer, shlex.quote(str(folder))))
    return 0


def _try(trainer: Trainer, tokenizer: Tokenizer, folder: str) -> str:
    """A command that shows what the model has learned."""
    task = trainer.model.task
    if task == "images":
        return f"try it: python -m tools.read {folder} --text 'any words'"
    special = set(tokenizer.specials.values())
    ids = itertools.dropwhile(special.__contains__, trainer.data.first(1000).tolist())
    text = tokenizer.decode(list(itertools.takewhile(lambda i: i not in special, ids)))
    first = text if task == "pairs" else (text.split() or [""])[0]
    if task == "masked":
        return f"try it: python -m tools.fill {folder} {shlex.quote(first[:1] + '[MASK]' + first[2:])}"
    return f"sample: python -m tools.generate {folder} --prompt {shlex.quote(first)}" + " --beams 4" * (task == "pairs")


if __name__ == "__main__":
    sys.exit(run("train", main))
