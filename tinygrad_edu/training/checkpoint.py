"""The files of a run: weights, tokenizer and training state, saved together and checked before they are used."""

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_edu.data import DataError, Tokenizer, tokenizer_from_json
from tinygrad_edu.data.checked import (
    InputError,
    check_fields,
    check_options,
    check_packed,
    file_bytes,
    parse_json,
    size_beyond,
    unusable,
)
from tinygrad_edu.files import flush_folder, remove, rename, write_atomically, write_beside
from tinygrad_edu.generation import Model
from tinygrad_edu.training.config import TrainConfig

FORMAT = 1
CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
STATE, STATE_TENSORS = "state.json", "state.safetensors"
FILES = (WEIGHTS, TOKENIZER, STATE, STATE_TENSORS)  # all but config.json, which has their SHA-256
NEXT = ".next"
_TRIES = 5  # to read a folder between two saves of a run at work

MARK = "sha256"  # in state.json: of the weights and tensors that it was saved with
OWN = "config_sha256"  # in config.json: of the model's name and configuration in it
_HEAD = {"format": int, "model": str, "config": dict, "tokenizer_sha256": str, "sha256": dict[str, str]}

Arrays = Mapping[str, np.ndarray]


class CheckpointError(InputError):
    """A folder that holds no usable checkpoint: missing, cut short, damaged, newer, or of another model."""


@dataclass(frozen=True)
class Checkpoint:
    """What a run's folder holds, read completely and checked; nothing is assigned to a model yet.

    model: the model's name. config: its Config's fields. weights: parameter name to array. state, tensors: training
    state as JSON values and as arrays, None in a folder with weights alone.
    """

    folder: Path
    model: str
    config: dict[str, Any]
    tokenizer: Tokenizer
    weights: dict[str, np.ndarray]
    state: dict[str, Any] | None
    tensors: dict[str, np.ndarray] | None
    edited: bool = False

    def options(self, models: Mapping[str, tuple[Any, Any]]) -> Any:
        """The model's Config with the saved values. models: a model's name to (its class, its Config class).

        Raises CheckpointError for a name or option that is not among them, a value of another type, or a size that the
        weights do not have.
        """
        path = self.folder / CONFIG
        if self.model not in models:
            raise CheckpointError(f"{path} is of a model {self.model!r}; known here are {', '.join(models)}")
        kind = models[self.model][1]
        held = sum(weight.size for weight in self.weights.values())
        if size := size_beyond(self.config, held):
            raise CheckpointError(
                f"{path} does not fit the weights next to it: {size} is {self.config[size]}, but they are only {held} "
                f"numbers; restore it from a copy"
            )
        try:
            check_options(kind, self.config, str(path))
            return kind(**self.config)
        except ValueError as error:
            raise CheckpointError(f"{self.folder / WEIGHTS} does not fit a {self.model}: {error}") from None

    def build(self, models: Mapping[str, tuple[Any, Any]]) -> Model:
        """The model with the saved weights.

        Raises CheckpointError as `options` does, for another shape, and for a configuration that was edited: with
        another number of heads, say, the weights fit as well as before.
        """
        options = self.options(models)
        try:
            model = models[self.model][0](options)
            for name, own in model.state_dict().items():
                kind = self.weights[name].dtype if name in self.weights else own.dtype
                if own.is_floating_point() and kind.kind != "f":
                    raise CheckpointError(f"{self.folder / WEIGHTS} holds {kind} in {name}, where weights are floating")
            model.load_state_dict(self.weights)
        except MemoryError:
            raise CheckpointError(f"{self.folder / CONFIG} asks for more memory than there is: {self.config}") from None
        except CheckpointError:
            raise
        except ValueError as error:
            raise CheckpointError(f"{self.folder / WEIGHTS} does not fit a {self.model}: {error}") from None
        if self.edited:
            raise CheckpointError(
                f"{self.folder / CONFIG} was edited: its model and config are not those that the weights were saved "
                f"with (by its {OWN}); restore it from a copy"
            )
        return model

    def training(self) -> dict[str, Any]:
        """The options of the run's `TrainConfig`, as far as its state holds them; empty without one.

        Raises CheckpointError for a value of another type, and for a block_size that is not the model's.
        """
        kept = (self.state or {}).get("training", {})
        where = f"{self.folder / STATE}: training"
        try:
            check_fields(kept, {}, where)
            known = {f.name: kept[f.name] for f in dataclasses.fields(TrainConfig) if f.name in kept}
            check_options(TrainConfig, known, where)
        except DataError as error:
            raise CheckpointError(str(error)) from None
        size = self.config.get("block_size")
        if size is not None and known.setdefault("block_size", size) != size:
            raise CheckpointError(
                f"{where}: block_size is {known['block_size']}, that of the model in {CONFIG} is {size}; restore both "
                f"from one copy"
            )
        return known


def save_checkpoint(
    folder: str | os.PathLike[str],
    *,
    model: str,
    config: Mapping[str, Any],
    tokenizer: Tokenizer,
    weights: Arrays,
    state: Mapping[str, Any] | None = None,
    tensors: Arrays | None = None,
) -> None:
    """Write a checkpoint over the one in `folder`, so that at any moment the old or the new one can be loaded whole.

    Every file is first written and flushed beside its old version, under a name that ends in `.next`. Then config.json,
    which holds the SHA-256 of each, is replaced: from here on the new checkpoint counts. Renaming the others follows;
    where a crash prevents it, `load_checkpoint` finds them under their `.next` names.

    Arguments are the fields of `Checkpoint`. Raises OSError where a file cannot be written, CheckpointError for weights
    that `load_checkpoint` would refuse (NaN): then the old checkpoint is untouched and no file of the new one remains.
    """
    from safetensors.numpy import save

    folder = Path(folder)
    if fault := unusable(weights):
        raise CheckpointError(f"no checkpoint was written into {folder}: it would hold {fault}")
    contents = {WEIGHTS: save(_contiguous(weights)), TOKENIZER: tokenizer.to_json().encode()}
    if state is not None:
        contents[STATE_TENSORS] = save(_contiguous(tensors or {}))
        mark = {name: _sha256(contents[name]) for name in (WEIGHTS, STATE_TENSORS)}
        contents[STATE] = _json({**state, MARK: mark})
    head = _json(
        {
            "format": FORMAT,
            "model": model,
            "config": dict(config),
            OWN: _fingerprint(model, config),
            "tokenizer_sha256": tokenizer.fingerprint,
            "sha256": {name: _sha256(content) for name, content in contents.items()},
        }
    )
    _finish_renaming(folder)
    written = []
    try:
        for name, content in contents.items():
            write_beside(folder / (name + NEXT), content, folder / name)
            written.append(folder / (name + NEXT))
        write_atomically(folder / CONFIG, head, follow=False)
    except BaseException:
        if not (folder / CONFIG).is_file() or (folder / CONFIG).read_bytes() != head:
            for path in written:
                with contextlib.suppress(OSError):
                    path.unlink()
        raise
    for name in contents:
        rename(folder / (name + NEXT), folder / name)
    remove(folder / name for name in (STATE, STATE_TENSORS) if name not in contents)
    flush_folder(folder)


def _finish_renaming(folder: Path) -> None:
    """Do what a crashed save left to do, before the files that count are overwritten under their `.next` names."""
    try:
        digests = _head(folder)["sha256"]
    except CheckpointError:
        return  # nothing to finish
    for name, digest in digests.items():
        waiting = folder / (name + NEXT)
        if waiting.is_file() and _sha256(_bytes(waiting)) == digest:
            rename(waiting, folder / name)


def load_checkpoint(folder: str | os.PathLike[str], *, resume: bool = False) -> Checkpoint:
    """Read and check the checkpoint in `folder`. With `resume` the training state is read, and must be there.

    A run that saves into the folder meanwhile does no harm: what it replaced is read again.

    Raises CheckpointError, naming the file, for whatever is wrong with it.
    """
    folder = Path(folder)
    for _ in range(_TRIES):
        before = _files(folder)
        try:
            return _loaded(folder, resume)
        except CheckpointError:
            if _files(folder) == before:
                raise
    return _loaded(folder, resume)


def _files(folder: Path) -> set[tuple[str, int, int]]:
    """What tells whether a file of the folder was replaced: each one's name, number and time."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return {(entry.name, entry.inode(), entry.stat(follow_symlinks=False).st_mtime_ns) for entry in entries}
    return set()


def _loaded(folder: Path, resume: bool) -> Checkpoint:
    if not (folder / CONFIG).is_file():
        what = f"has no {CONFIG}" if folder.is_dir() else ("is a file" if folder.exists() else "does not exist")
        raise CheckpointError(f"{folder} is no checkpoint: it {what}; name the folder that training wrote with --out")
    head = _head(folder)
    digests = head["sha256"]
    if resume and not ((folder / STATE).exists() or STATE in digests):
        raise CheckpointError(
            f"{folder} holds weights only, no {STATE}: training cannot be resumed from it; generate from it, or start "
            f"a new run from its weights with --init-from"
        )
    weights = _arrays(folder, WEIGHTS, digests)
    try:
        tokenizer = tokenizer_from_json(_read(folder, TOKENIZER, digests), folder / TOKENIZER)
    except DataError as error:
        raise CheckpointError(str(error)) from None
    if tokenizer.fingerprint != head["tokenizer_sha256"]:
        raise CheckpointError(
            f"{folder / TOKENIZER} is another tokenizer than the one this model was trained with: its fingerprint "
            f"differs from the one in {CONFIG}; put the original file back"
        )
    size = head["config"].get("vocab_size")
    if not isinstance(size, int) or len(tokenizer) > size:
        raise CheckpointError(f"{folder / TOKENIZER} has {len(tokenizer)} entries, the model's vocab_size is {size}")
    if fault := unusable(weights):
        raise CheckpointError(
            f"{folder / WEIGHTS} holds {fault}: its training diverged, or it is damaged; take an earlier copy"
        )
    state = tensors = None
    if resume:
        state, tensors = _state(folder, digests)
    edited = head.get(OWN) not in (None, _fingerprint(head["model"], head["config"]))  # None in older files
    return Checkpoint(folder, head["model"], head["config"], tokenizer, weights, state, tensors, edited)


def _state(folder: Path, digests: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The training state, which belongs to the weights: one from this version on holds their SHA-256."""
    tensors = _arrays(folder, STATE_TENSORS, digests)
    state = _parse(folder / STATE, _read(folder, STATE, digests))
    mark = state.pop(MARK, {})
    for name in (WEIGHTS, STATE_TENSORS):
        if isinstance(mark, dict) and mark.get(name) in (None, _sha256(_read(folder, name, digests))):
            continue
        raise CheckpointError(
            f"{folder / STATE} is of another save than {name} next to it: training cannot go on from the two; restore "
            f"both from one copy, or start a new run from the weights with --init-from"
        )
    return state, tensors


def _head(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    head = {"sha256": {}, **_parse(path, _bytes(path))}
    if missing := [name for name in _HEAD if head.get(name) is None]:
        raise CheckpointError(f"{path} is no checkpoint's {CONFIG}: {', '.join(missing)} missing")
    try:
        check_fields(head, _HEAD, f"{path} is no checkpoint's {CONFIG}")
    except DataError as error:
        raise CheckpointError(str(error)) from None
    if foreign := sorted(head["sha256"].keys() - set(FILES)):
        raise CheckpointError(
            f"{path} speaks of {foreign[0]!r}, which is no file of a checkpoint; restore it from a copy"
        )
    if head["format"] != FORMAT:
        raise CheckpointError(
            f"{path} has format {head['format']}; this version reads format {FORMAT}: update tinygrad_edu"
        )
    return head


def _read(folder: Path, name: str, digests: Mapping[str, str]) -> bytes:
    """The content that config.json speaks of, from the file of this name or, after a crash, from its `.next` one."""
    path = folder / name
    found = [candidate for candidate in (path, folder / (name + NEXT)) if candidate.is_file()]
    if not found:
        raise CheckpointError(f"{path} is missing: the checkpoint is incomplete; copy the whole folder again")
    if digests and name not in digests and name in (STATE, STATE_TENSORS):
        raise CheckpointError(
            f"{path} is of another save than the weights next to it: {CONFIG} says nothing of it; restore the folder "
            f"from a copy, or start a new run from the weights with --init-from"
        )
    for candidate in found:
        content = _bytes(candidate)
        if name not in digests or _sha256(content) == digests[name]:
            return content
    raise CheckpointError(
        f"{path} is damaged, cut short or of another run: its SHA-256 is not the one in {CONFIG}; restore it from a "
        f"copy"
    )


def _bytes(path: Path) -> bytes:
    try:
        return file_bytes(path, "file")
    except DataError as error:
        raise CheckpointError(str(error).removeprefix("file ")) from None


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _fingerprint(model: str, config: Mapping[str, Any]) -> str:
    return _sha256(json.dumps([model, dict(config)], sort_keys=True).encode())


def _arrays(folder: Path, name: str, digests: Mapping[str, str]) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    content = _read(folder, name, digests)
    try:
        return load(content)
    except KeyError as error:  # a type that NumPy does not have
        raise CheckpointError(f"{folder / name} holds tensors of type {error}, which cannot be read") from None
    except (SafetensorError, ValueError, TypeError) as error:
        _check_packed(content, folder / name)
        raise CheckpointError(f"{folder / name} is damaged or no safetensors file ({error})") from None


def _check_packed(content: bytes, path: Path) -> None:
    try:
        check_packed(content[:512], path, "file")
    except DataError as error:
        raise CheckpointError(str(error)) from None


def _parse(path: Path, content: bytes) -> dict[str, Any]:
    _check_packed(content, path)
    try:
        value = parse_json(content, str(path), "is damaged or no JSON file")
    except DataError as error:
        raise CheckpointError(f"{error}; restore it from a copy") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} is no file of a checkpoint; restore it from a copy")
    return value


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()


def _contiguous(arrays: Arrays) -> dict[str, np.ndarray]:
    return {name: np.asarray(array, order="C") for name, array in arrays.items()}
