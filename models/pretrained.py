"""Reading and writing models in the folders that Hugging Face's transformers reads and writes."""

import json
import os
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from models.layouts import Layout
from tinygrad_edu import nn
from tinygrad_edu.data.checked import (
    InputError,
    check_fields,
    check_options,
    check_packed,
    file_bytes,
    read_json,
    size_beyond,
    unusable,
)
from tinygrad_edu.engine.modes import setting
from tinygrad_edu.files import flush_folder, make_folder, remove, write_together
from tinygrad_edu.random import Generator

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"

Arrays = dict[str, np.ndarray]


class Pretrained:
    """A model that goes to and from a published layout; what a model adds beside its base class."""

    layout: ClassVar[Layout]
    Config: ClassVar[Any]

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], strict: bool = True) -> Self:
        """The model in a folder with config.json and model.safetensors, or its parts and their index; in eval mode.

        Args:
            folder: as written by `save_pretrained` here, or in transformers for a model of this kind.
            strict: False to load what both sides have, with a warning that names the rest: so an encoder comes out of a
                folder with another head, or gets a new one, whose weights are as a new model's.

        Raises ValueError, naming all of it, for tensors that are missing, too many or of another shape, for a model of
        another kind or with options that this one has not, for a damaged file; OSError for one that is not there.
        """
        folder = Path(folder)
        described = _read_config(folder, cls.layout.kind, cls.__name__)
        tensors: Arrays = {}
        for name, array in _read_tensors(folder).items():
            if (bare := cls.layout.canonical(name)) is not None:
                tensors[bare] = array
        try:
            fields = cls.layout.fields(described, set(tensors))
            check_options(cls.Config, fields, "as read here")
            config = cls.Config(**fields)
        except (TypeError, ValueError) as error:
            raise InputError(f"{folder / CONFIG}: {error}") from None
        held = sum(array.size for array in tensors.values())
        if size := size_beyond(vars(config), held):
            raise InputError(
                f"{folder / CONFIG}: {size} {fields[size]} exceeds all {held} numbers of the weights next to it"
            )
        with setting(generator=Generator(0)):  # first values, soon replaced, take nothing from the caller's stream
            model: Any = cls(config)  # type: ignore[call-arg]
        _load(model, cls.layout, tensors, folder, strict)
        return model.eval()

    def save_pretrained(self, folder: str | os.PathLike[str], max_shard_bytes: int = 5_000_000_000) -> None:
        """Write the model as config.json and model.safetensors, so that transformers, and `from_pretrained`, read it.

        A model without biases is written with zeros in their place, for a layout that has them: it computes the same.
        All files are written in full before the first takes its name; an older model in the folder is replaced.

        Args:
            folder: made where it is missing.
            max_shard_bytes: weights of more are cut into several files with an index, of at most so much each.

        Raises ValueError for a model that the layout has no words for, or a folder that holds something else; OSError
        where a file cannot be written, and then the folder is as it was.
        """
        model: Any = self
        layout, folder = self.layout, Path(folder)
        try:
            described = layout.described(model.config)
        except ValueError as error:
            raise ValueError(f"{type(self).__name__}.save_pretrained: {error}") from None
        parameters = {name: p.detach().numpy() for name, p in model.named_parameters()}
        whole = _with_biases(model, parameters, layout.unbiased)
        contents = _in_shards(_theirs(layout, whole), max_shard_bytes)
        head = {"architectures": [layout.architecture], "model_type": layout.kind}
        contents[CONFIG] = _json({**head, **described, "dtype": str(next(iter(whole.values())).dtype)})
        make_folder(folder)
        if (folder / CONFIG).exists() and "model_type" not in _parsed(folder / CONFIG):
            raise ValueError(f"{folder} holds something else, perhaps a training run; give another folder")
        write_together(folder, contents)
        _remove_others(folder, contents)


def _load(model: nn.Module, layout: Layout, tensors: Arrays, folder: Path, strict: bool) -> None:
    """Fill the model, or raise ValueError with every fault there is."""
    own = model.state_dict()
    keys = {id(p): name for name, p in model.named_parameters()}
    first = {name: keys[id(p)] for name, p in model.named_parameters(remove_duplicate=False)}
    state, absent, wrong, used = {}, {}, [], set()
    for piece in layout.pieces(own):
        theirs = [layout.canonical(name) or name for name in piece.theirs]
        used |= set(theirs)
        if any(name not in tensors for name in theirs):
            absent[piece.ours] = [name for name in theirs if name not in tensors]
            continue
        rows, *rest = own[piece.ours].shape
        shape = (rows // len(theirs), *rest)[:: -1 if piece.transposed else 1]
        bad = [
            f"{name} has shape {tensors[name].shape} instead of {shape}"
            for name in theirs
            if tensors[name].shape != shape
        ]
        wrong += bad
        if not bad:
            parts = [tensors[name].T if piece.transposed else tensors[name] for name in theirs]
            state[piece.ours] = parts[0] if len(parts) == 1 else np.concatenate(parts)
    held = {first[name] for name in own if name not in absent}
    missing = [name for ours, names in absent.items() if first[ours] not in held for name in names]
    left_out = sorted(tensors.keys() - used)
    said = [f"missing: {', '.join(missing)}"] if missing else []
    said += [f"of no use here: {', '.join(left_out)}"] if left_out else []
    if wrong or (strict and said):
        hint = "" if wrong else "; strict=False loads the rest"
        raise ValueError(
            f"{folder} does not hold a {type(model).__name__}, and nothing was loaded: {'; '.join(wrong + said)}{hint}"
        )
    if said:
        warnings.warn(f"{type(model).__name__} from {folder}: {'; '.join(said)}", stacklevel=3)
    model.load_state_dict(state, strict=False)


def _theirs(layout: Layout, ours: Mapping[str, np.ndarray]) -> Arrays:
    tensors: Arrays = {}
    for piece in layout.pieces(ours):
        for name, part in zip(piece.theirs, np.split(ours[piece.ours], len(piece.theirs)), strict=True):
            tensors[name] = np.ascontiguousarray(part.T if piece.transposed else part)
    return tensors


def _with_biases(model: nn.Module, parameters: Mapping[str, np.ndarray], unbiased: Collection[str]) -> Arrays:
    """The parameters, and zeros for the bias of every layer that has none with us, but has one with them."""
    whole = dict(parameters)
    for path, layer in model.named_modules():
        if isinstance(layer, nn.Linear | nn.LayerNorm) and layer.bias is None and path not in unbiased:
            weight = parameters[f"{path}.weight"]
            whole[f"{path}.bias"] = np.zeros(weight.shape[:1], weight.dtype)
    return whole


def _in_shards(tensors: Arrays, largest: int) -> dict[str, bytes]:
    """File name to content: one file, or several and an index of what stands where."""
    from safetensors.numpy import save

    shards: list[Arrays] = [{}]
    for name, array in tensors.items():
        if shards[-1] and sum(a.nbytes for a in shards[-1].values()) + array.nbytes > largest:
            shards.append({})
        shards[-1][name] = array
    mark = {"format": "pt"}  # without it transformers takes the file for damaged
    if len(shards) == 1:
        return {WEIGHTS: save(tensors, mark)}
    names = [f"model-{n:05}-of-{len(shards):05}.safetensors" for n in range(1, len(shards) + 1)]
    where = {tensor: name for name, shard in zip(names, shards, strict=True) for tensor in shard}
    index = {"metadata": {"total_size": sum(a.nbytes for a in tensors.values())}, "weight_map": where}
    return {**{name: save(shard, mark) for name, shard in zip(names, shards, strict=True)}, INDEX: _json(index)}


def _remove_others(folder: Path, contents: Collection[str]) -> None:
    """Remove the files of an older model that the new one does not have."""
    known = (folder / INDEX, folder / WEIGHTS, *folder.glob("model-?????-of-?????.safetensors"))
    remove(old for old in known if old.name not in contents)
    flush_folder(folder)


def _read_config(folder: Path, kind: str, reader: str) -> dict[str, Any]:
    if not (folder / CONFIG).is_file():
        what = f"has no {CONFIG}" if folder.is_dir() else "is no folder"
        raise FileNotFoundError(f"{folder} {what}; give the folder of a published model")
    described = _parsed(folder / CONFIG)
    if "model_type" not in described:
        raise ValueError(
            f"{folder / CONFIG} names no model_type; tinygrad_edu.training.load_checkpoint reads training runs"
        )
    if described["model_type"] != kind:
        raise ValueError(f"{folder} holds a model of type {described['model_type']!r}; {reader} reads {kind!r}")
    return described


def _read_tensors(folder: Path) -> Arrays:
    if (folder / WEIGHTS).is_file():
        return _arrays(folder / WEIGHTS)
    if not (folder / INDEX).is_file():
        raise FileNotFoundError(
            f"{folder} has no {WEIGHTS}, nor its parts with {INDEX}; weights in another format, such as "
            f"pytorch_model.bin, are not read: write them anew with save_pretrained of transformers"
        )
    where = _parsed(folder / INDEX).get("weight_map")
    if not isinstance(where, dict) or not all(isinstance(name, str) for name in where.values()):
        raise ValueError(f"{folder / INDEX} has no weight_map from tensors to files")
    if outside := [name for name in where.values() if Path(name).name != name]:
        raise ValueError(f"{folder / INDEX} names {outside[0]!r}, which is no file beside it")
    files = sorted(set(where.values()))
    if absent := [name for name in files if not (folder / name).exists()]:
        raise FileNotFoundError(f"{folder / INDEX} places tensors in {absent[0]}, which is not next to it")
    found = {name: _arrays(folder / name) for name in files}
    if lost := [name for name, file in where.items() if name not in found[file]]:
        raise ValueError(f"{folder / INDEX} places {', '.join(lost)} in files that do not hold them")
    return {name: array for arrays in found.values() for name, array in arrays.items()}


def _arrays(path: Path) -> Arrays:
    """The tensors in a file; 16-bit floating ones as float32, which NumPy computes with."""
    from safetensors import SafetensorError, deserialize

    content = file_bytes(path, "file of weights")
    try:
        entries = deserialize(content)
    except SafetensorError as error:
        check_packed(content[:512], path, "file of weights")
        raise InputError(f"{path} is damaged or no safetensors file ({error})") from None
    arrays = {name: _array(path, name, entry) for name, entry in entries}
    if fault := unusable(arrays):
        raise InputError(f"{path} holds {fault}; take another copy")
    return arrays


def _array(path: Path, name: str, entry: Mapping[str, Any]) -> np.ndarray:
    kind, data, shape = entry["dtype"], entry["data"], entry["shape"]
    if kind == "BF16":  # the upper half of a float32
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(shape)
    kinds = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1", "BOOL": "?"}
    if kind not in kinds:
        raise ValueError(f"{path}: tensor {name} has type {kind}; known are {', '.join(kinds)} and BF16")
    array = np.frombuffer(data, kinds[kind]).reshape(shape)
    return array.astype(np.float32) if kind == "F16" else array


def _parsed(path: Path) -> dict[str, Any]:
    return check_fields(read_json(path), {}, str(path))


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, allow_nan=False) + "\n").encode()
