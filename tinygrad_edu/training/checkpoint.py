"""The files of a run: weights, tokenizer and training state, saved together and checked before they are used."""

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_edu.data import DataError, Tokenizer, tokenizer_from_json
from tinygrad_edu.files import flush_folder, rename, write_atomically, write_beside
from tinygrad_edu.generation import Model

FORMAT = 1
CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
STATE, STATE_TENSORS = "state.json", "state.safetensors"
FILES = (WEIGHTS, TOKENIZER, STATE, STATE_TENSORS)  # all but config.json, which has their SHA-256
NEXT = ".next"

Arrays = Mapping[str, np.ndarray]


class CheckpointError(ValueError):
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

    def build(self, models: Mapping[str, tuple[Any, Any]]) -> Model:
        """The model with the saved weights. models: a model's name to (its class, its Config class).

        Raises CheckpointError for a name, option or shape that is not among them.
        """
        if self.model not in models:
            known = ", ".join(models)
            raise CheckpointError(f"{self.folder / CONFIG} is of a model {self.model!r}; known here are {known}")
        build, options = models[self.model]
        # no size of a model exceeds the number of its weights; a damaged one could ask for more memory than there is
        held = sum(weight.size for weight in self.weights.values())
        for name, size in self.config.items():
            if isinstance(size, int) and size > held:
                raise CheckpointError(
                    f"{self.folder / CONFIG} does not fit the weights beside it: {name} is {size}, but they are only "
                    f"{held} numbers; restore it from a copy"
                )
        try:
            model = build(options(**self.config))
            model.load_state_dict(self.weights)
        except MemoryError:
            raise CheckpointError(f"{self.folder / CONFIG} asks for more memory than there is: {self.config}") from None
        except (TypeError, ValueError) as error:
            raise CheckpointError(f"{self.folder / WEIGHTS} does not fit a {self.model}: {error}") from None
        return model


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

    Arguments are the fields of `Checkpoint`. Raises OSError where a file cannot be written: then the old checkpoint is
    untouched and no file of the new one remains.
    """
    from safetensors.numpy import save

    folder = Path(folder)
    contents = {WEIGHTS: save(_contiguous(weights)), TOKENIZER: tokenizer.to_json().encode()}
    if state is not None:
        contents |= {STATE_TENSORS: save(_contiguous(tensors or {})), STATE: _json(state)}
    head = _json(
        {
            "format": FORMAT,
            "model": model,
            "config": dict(config),
            "tokenizer_sha256": tokenizer.fingerprint,
            "sha256": {name: _sha256(content) for name, content in contents.items()},
        }
    )
    _finish_renaming(folder)
    try:
        for name, content in contents.items():
            write_beside(folder / (name + NEXT), content, folder / name)
        write_atomically(folder / CONFIG, head, follow=False)
    except BaseException:
        if not (folder / CONFIG).is_file() or (folder / CONFIG).read_bytes() != head:
            for name in contents:
                with contextlib.suppress(OSError):
                    (folder / (name + NEXT)).unlink()
        raise
    for name in contents:
        rename(folder / (name + NEXT), folder / name)
    for name in {STATE, STATE_TENSORS} - contents.keys():
        (folder / name).unlink(missing_ok=True)
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

    Raises CheckpointError, naming the file, for whatever is wrong with it.
    """
    folder = Path(folder)
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
    state = tensors = None
    if resume:
        state = _parse(folder / STATE, _read(folder, STATE, digests))
        tensors = _arrays(folder, STATE_TENSORS, digests)
    return Checkpoint(folder, head["model"], head["config"], tokenizer, weights, state, tensors)


def _head(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    head = {"sha256": {}, **_parse(path, _bytes(path))}
    kinds = {"format": int, "model": str, "config": dict, "tokenizer_sha256": str, "sha256": dict}
    if wrong := [name for name, kind in kinds.items() if not isinstance(head.get(name), kind)]:
        raise CheckpointError(f"{path} is no checkpoint's {CONFIG}: {', '.join(wrong)} missing or of another kind")
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
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror})") from None


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _arrays(folder: Path, name: str, digests: Mapping[str, str]) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    content = _read(folder, name, digests)
    try:
        return load(content)
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise CheckpointError(f"{folder / name} is damaged or no safetensors file ({error})") from None


def _parse(path: Path, content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is damaged or no JSON file; restore it from a copy") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} is no file of a checkpoint; restore it from a copy")
    return value


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()


def _contiguous(arrays: Arrays) -> dict[str, np.ndarray]:
    return {name: np.asarray(array, order="C") for name, array in arrays.items()}
